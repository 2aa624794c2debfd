//! What belongs to one worker alone, and what it wants done.

use super::probes::Probes;
use super::timers::Timers;
use super::unsent::Unsent;
use crate::chain;
use crate::coalescing::Finished;
use crate::config::Config;
use crate::handler::{Job, Resolution};
use crate::handlers::OfWorker;
use crate::job::Client;
use crate::log::Sink;
use crate::metrics::Cells;
use crate::seeing::Watcher;
use crate::shared::{Mail, Shared};
use crate::stream::Stream;
use crate::ticket::Ticket;
use crate::time::Now;
use crate::upstream::Ask;
use nodens_wire::Query;
use std::sync::Arc;

/// What the owner of the sockets has to do.
#[derive(Debug)]
pub enum Action {
    /// Ask an upstream; the message is [`super::Worker::ask_message`].
    Ask(Ask),
    /// The attempt takes too long: stop waiting for its answer and report
    /// [`crate::upstream::Fault::Timeout`] with [`super::Worker::failed`].
    GiveUp {
        /// The job that asked.
        ticket: Ticket,
        /// The attempt.
        attempt: u32,
    },
    /// Nobody waits for the answer to this attempt any more.
    Forget {
        /// The job that asked.
        ticket: Ticket,
        /// The attempt.
        attempt: u32,
    },
    /// Send a response to a client that waited.
    Send {
        /// Where it goes.
        client: Client,
        /// The whole message.
        wire: Vec<u8>,
    },
    /// Send a response of several messages to a client that waited.
    Stream {
        /// Where it goes.
        client: Client,
        /// The first message.
        wire: Vec<u8>,
        /// The others.
        rest: Box<Stream>,
    },
    /// A client that waited gets no response (`acl drop`, shutdown): its place is free.
    Silence(Client),
    /// Another worker has mail: wake it.
    Wake(usize),
}

/// A refresh to run without a client.
#[derive(Debug)]
pub struct Background {
    /// The client whose question led to it; its address stands in for a client's.
    pub client: Client,
    /// The request to start from.
    pub request: Vec<u8>,
    /// The same, read.
    pub query: Query,
    /// The resolution, with `position` at the handler that wants the refresh.
    pub resolution: Resolution,
}

/// What handlers may use of the worker.
#[derive(Debug)]
pub struct WorkerState {
    /// Which worker this is, from 0.
    pub index: usize,
    /// What the process shares.
    pub shared: Arc<Shared>,
    /// This worker's metric cells.
    pub cells: Cells,
    /// Where log records go.
    pub sink: Sink,
    /// Random numbers for shuffling and choosing; not for IDs, which the sockets' owner draws.
    pub rng: fastrand::Rng,
    /// What the sockets have to do.
    pub actions: Vec<Action>,
    /// Octets of responses among `actions`.
    pub(super) outgoing: usize,
    /// Refreshes to run after the current question.
    pub background: Vec<Background>,
    /// The ticket the current job has, or will have if it waits.
    pub ticket: Ticket,
    /// Jobs of this worker that another job has an answer for, set by handlers.
    pub local_mail: Vec<Mail>,
    pub(super) timers: Timers,
    /// Answers whose time is taken when they are sent.
    pub(crate) unsent: Unsent,
    attempts: u32,
    /// Health checks of upstreams this worker looks after.
    pub(crate) probes: Probes,
    /// Room for octets that are needed only for a moment.
    pub(crate) scratch: Vec<u8>,
    /// The coalesced query whose response is decided.
    pub(crate) finished: Finished,
    /// What handlers keep.
    pub(crate) own: OfWorker,
    /// Counts who asks for what, if anybody wants to see it.
    watcher: Option<Watcher>,
}

impl WorkerState {
    pub(super) fn new(index: usize, shared: Arc<Shared>, seed: u64) -> Self {
        let watcher = shared.seeing.watcher(index, seed);
        Self {
            index,
            cells: shared.registry.cells(index),
            sink: shared.sink.clone(),
            shared,
            rng: fastrand::Rng::with_seed(seed),
            actions: Vec::new(),
            outgoing: 0,
            background: Vec::new(),
            ticket: Ticket::default(),
            local_mail: Vec::new(),
            timers: Timers::default(),
            unsent: Unsent::default(),
            attempts: 0,
            probes: Probes::default(),
            scratch: Vec::new(),
            finished: Finished::default(),
            own: OfWorker::default(),
            watcher,
        }
    }

    /// Takes up what the process shares now.
    pub(super) fn renew(&mut self) {
        self.cells = self.shared.registry.cells(self.index);
        if self.watcher.is_none() {
            self.watcher = self.shared.seeing.watcher(self.index, self.rng.u64(..));
        }
    }

    /// Lets those who watch look at an answer that was at hand, ready to be sent.
    #[inline]
    pub(super) fn note_answer(&mut self, config: &Config, now: Now, job: &mut Job) {
        if job.tapped {
            chain::note_sent(config, now, job);
        }
        if let Some(watcher) = &mut self.watcher {
            watcher.answered(job);
        }
    }

    /// Lets those who watch look at an answer that was waited for, ready to be sent.
    pub(super) fn note_late_answer(&mut self, config: &Config, now: Now, job: &mut Job) {
        if job.tapped {
            chain::note_sent(config, now, job);
        }
        if let Some(watcher) = &mut self.watcher {
            watcher.waited(now, job);
        }
    }

    /// A number for the next attempt to ask an upstream; unique in this worker until it wraps.
    pub fn attempt_number(&mut self) -> u32 {
        self.attempts = self.attempts.wrapping_add(1);
        self.attempts
    }

    /// Fires the timer of `ticket` at `at_ns`.
    pub(crate) fn wake_at(&mut self, ticket: Ticket, at_ns: u64) {
        self.timers.push(at_ns, ticket);
    }

    /// Wakes the current job at `at_ns`; a later call replaces an earlier one.
    pub fn set_timer(&mut self, job: &mut Job, at_ns: u64) {
        job.timer_at = at_ns;
        self.timers.push(at_ns, self.ticket);
    }

    /// Answers the client of the current job at `at_ns` with what `cache` has, if nothing newer
    /// has come by then.
    pub fn set_client_timer(&mut self, job: &mut Job, at_ns: u64) {
        job.client_timer_at = at_ns;
        self.timers.push(at_ns, self.ticket);
    }

    /// Hands a shared answer to a waiting job, of this worker or another.
    pub fn deliver(&mut self, worker: usize, mail: Mail) {
        if worker == self.index {
            self.local_mail.push(mail);
        } else if self.shared.post(worker, mail) {
            self.actions.push(Action::Wake(worker));
        }
    }
}
