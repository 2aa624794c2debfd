//! One worker: the questions of one thread, from octets to octets.

mod ahead;
mod background;
mod early;
mod outgoing;
mod pending;
mod receiving;
mod refused;
mod state;
mod unsent;

use crate::asking::probes;
use crate::chain::{Outcome, Start};
use crate::config::Config;
use crate::containment;
use crate::finish;
use crate::handler::{Event, Job};
use crate::job::{Abandoned, Recipient};
use crate::limits::{SPARE_JOB_PLACES, SPARE_JOBS_MAX};
use crate::metrics::Cells;
use crate::shared::{Mail, Shared};
use crate::stream::Stream;
use crate::time::Now;
use crate::upstream::Fault;
use nodens_tls::UntrustedKind;
use nodens_wire::Rcode;
use pending::Pending;
use refused::Refused;
use std::sync::Arc;

pub use crate::action::Action;
pub use crate::ticket::Ticket;
pub use state::{Background, WorkerState};

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The response is in the buffer.
    Answered,
    /// The first message of the response is in the buffer; [`Worker::take_stream`] has the others,
    /// which follow on the same connection.
    Streaming,
    /// The response will come as [`Action::Send`] or [`Action::Stream`].
    Pending,
    /// There is nothing to say.
    Silent,
}

/// The questions of one thread.
#[derive(Debug)]
pub struct Worker {
    config: Arc<Config>,
    state: WorkerState,
    jobs: Pending,
    // Boxed, because jobs move between here and the slab and are large.
    #[allow(clippy::vec_box)]
    spare: Vec<Box<Job>>,
    /// Buffers for answers, see [`Worker::reuse`].
    buffers: Vec<Vec<u8>>,
    /// Questions refused because too many wait, and when that was last said.
    refused: Refused,
    /// The same of connections and datagrams with bad PROXY protocol headers.
    misproxied: Refused,
    /// The same of connections with bad client certificates, by kind.
    untrusted: [Refused; UntrustedKind::COUNT],
    /// See [`Worker::take_stream`].
    stream: Option<Box<Stream>>,
    /// See [`Worker::announce`].
    tlvs: Option<Arc<[u8]>>,
}

impl Worker {
    /// Worker `index` of the process; `seed` feeds its random numbers.
    pub fn new(index: usize, shared: Arc<Shared>, config: Arc<Config>, seed: u64) -> Self {
        let state = WorkerState::new(index, shared, seed);
        Self {
            config,
            state,
            jobs: Pending::default(),
            spare: Vec::new(),
            buffers: Vec::new(),
            refused: Refused::default(),
            misproxied: Refused::default(),
            untrusted: Default::default(),
            stream: None,
            tlvs: None,
        }
    }

    /// Takes up a new configuration; jobs that wait end with the one they started with.
    pub fn set_config(&mut self, config: Arc<Config>) {
        self.state.renew();
        self.config = config;
    }

    /// The configuration new questions get.
    pub fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// How many jobs wait.
    pub fn pending(&self) -> usize {
        self.jobs.len()
    }

    /// The worker's metric cells.
    pub fn cells(&self) -> &Cells {
        &self.state.cells
    }

    /// The messages that follow the last response, once after each [`Verdict::Streaming`].
    pub fn take_stream(&mut self) -> Option<Box<Stream>> {
        self.stream.take()
    }

    /// An upstream answered; the caller has matched the message to the question.
    pub fn reply(&mut self, now: Now, ticket: Ticket, attempt: u32, message: &[u8]) {
        if probes::is_probe(ticket) {
            return probes::answered(&mut self.state, now, ticket, attempt);
        }
        self.resume(now, ticket, Event::Reply { attempt, message });
        self.settle(now);
    }

    /// The query of an attempt waits for a connection that is being made.
    pub fn connects(&mut self, ticket: Ticket, attempt: u32) {
        if let Some(job) = self.job(ticket) {
            job.current.state.forward.connects(attempt);
        }
    }

    /// The connection is made, and the query leaves: [`Worker::connects`] holds no more.
    pub fn departed(&mut self, now: Now, ticket: Ticket, attempt: u32) {
        if let Some(job) = self.job(ticket) {
            job.current.state.forward.departed(attempt, now);
        }
    }

    /// An attempt to ask failed.
    pub fn failed(&mut self, now: Now, ticket: Ticket, attempt: u32, fault: &Fault) {
        if probes::is_probe(ticket) {
            let counts = !matches!(fault, Fault::Full(_));
            return probes::failed(&mut self.state, now, (ticket, attempt), counts);
        }
        self.resume(now, ticket, Event::Failed { attempt, fault });
        self.settle(now);
    }

    /// Takes this worker's mail.
    pub fn collect_mail(&mut self, now: Now) {
        let mut mail = self.state.shared.clone().collect(self.state.index);
        self.state.local_mail.append(&mut mail);
        self.settle(now);
    }

    /// When [`Worker::tick`] has something to do next, on the monotonic clock.
    pub fn next_deadline(&self) -> Option<u64> {
        self.state.timers.peek().map(|(at_ns, _)| at_ns)
    }

    /// Fires the timers that are due. A timer that is set meanwhile has to wait for the next call,
    /// even if it lies in the past: no handler can keep the worker here.
    pub fn tick(&mut self, now: Now) {
        for _ in 0..self.state.timers.len() {
            let Some((at_ns, ticket)) = self.state.timers.peek() else { break };
            if at_ns > now.mono_ns {
                break;
            }
            self.state.timers.pop();
            if self.job(ticket).is_some_and(|job| job.client_timer_at == at_ns) {
                self.answer_early(now, ticket);
            }
            if probes::is_probe(ticket) {
                probes::due(&mut self.state, now, ticket);
            } else if self.job(ticket).is_some_and(|job| job.timer_at == at_ns) {
                self.resume(now, ticket, Event::Timer);
            }
        }
        self.settle(now);
    }

    /// The message to send for an [`Action::Ask`]; its ID is the caller's to choose. `None` if
    /// nobody waits any more, and so there is nothing to send.
    pub fn ask_message(&mut self, ticket: Ticket) -> Option<&mut Vec<u8>> {
        if probes::is_probe(ticket) {
            return self.state.probes.message(ticket);
        }
        self.job(ticket).map(|job| job.current.state.message())
    }

    #[cfg(test)]
    pub(crate) fn state(&mut self) -> &mut WorkerState {
        &mut self.state
    }

    fn job(&mut self, ticket: Ticket) -> Option<&mut Job> {
        self.jobs.get(ticket)
    }

    fn reserve_ticket(&mut self) {
        self.state.ticket = self.jobs.next_ticket();
    }

    fn park(&mut self, mut job: Box<Job>) -> Ticket {
        job.config.get_or_insert_with(|| self.config.clone());
        let parked = self.jobs.park(job);
        let jobs = &mut self.jobs;
        self.state.timers.prune(|at_ns, ticket| {
            let waits = |job: &mut Job| job.timer_at == at_ns || job.client_timer_at == at_ns;
            probes::is_probe(ticket) || jobs.get(ticket).is_some_and(waits)
        });
        let most = self.spare_jobs_max().max(1);
        if self.spare.len() > most {
            self.spare.truncate(most);
        }
        parked
    }

    fn recycle(&mut self, mut job: Box<Job>) {
        job.config = None;
        if job.tlvs.is_some() {
            job.tlvs = None;
        }
        if job.signer.is_some() {
            // It is still there if the query got no response.
            job.signer = None;
        }
        if !job.outer.is_empty() {
            job.outer.clear();
        }
        job.current.state.release(&mut self.state);
        // Usually the list is empty, for each query takes a job from it. Of several that are kept none
        // may hold a long buffer: a long response that many clients waited for would stay in each.
        let is_small = |job: &Job| job.places() <= SPARE_JOB_PLACES;
        if self.spare.is_empty() || (self.spare.len() < self.spare_jobs_max() && is_small(&job)) {
            self.spare.push(job);
        }
    }

    /// Those that wait may take all the memory there is for both.
    fn spare_jobs_max(&self) -> usize {
        let free = self.state.shared.pending_max().saturating_sub(self.jobs.places());
        SPARE_JOBS_MAX.min(free / SPARE_JOB_PLACES)
    }

    fn resume(&mut self, now: Now, ticket: Ticket, event: Event<'_>) {
        let Some(job) = self.jobs.take(ticket) else { return };
        self.state.ticket = ticket;
        self.advance(now, job, event, Some(ticket));
    }

    /// Calls the handler that `job` waits at. `ticket` is the place of a job that is parked.
    fn advance(&mut self, now: Now, mut job: Box<Job>, event: Event<'_>, ticket: Option<Ticket>) {
        let config = job.config.take().unwrap_or_else(|| self.config.clone());
        let outcome =
            containment::run(&config, &mut self.state, now, &mut job, Start::Resume(event));
        if !Arc::ptr_eq(&config, &self.config) {
            // Their places in a chain mean something else in the configuration they would run in.
            self.state.background.clear();
        }
        match outcome {
            Outcome::Waiting => {
                job.config = Some(config);
                let homeless = match ticket {
                    Some(ticket) => self.jobs.put_back(ticket, job),
                    None => Some(job),
                };
                let ticket = homeless.map(|job| self.park(job)).or(ticket);
                return self.make_room(now, ticket.unwrap_or_default());
            }
            Outcome::Done => {
                if let Recipient::Client(client) = job.recipient {
                    finish::finish(&config, &self.state.shared, &mut job);
                    self.state.note_late_answer(&config, now, &mut job);
                    let empty = self.buffers.pop().unwrap_or_default();
                    let wire = std::mem::replace(&mut job.current.response.wire, empty);
                    self.state.outgoing += wire.len();
                    self.state.actions.push(match job.current.response.take_rest(&wire) {
                        None => Action::Send { client, wire },
                        Some(rest) => Action::Stream { client, wire, rest },
                    });
                }
            }
            Outcome::Dropped => {
                if let Recipient::Client(client) = job.recipient {
                    self.state.actions.push(Action::Silence(client));
                }
            }
        }
        if let Some(ticket) = ticket {
            self.jobs.remove(ticket);
            if self.jobs.has_ebbed() {
                self.state.shared.note_freed();
            }
        }
        self.recycle(job);
    }

    /// Does what the questions so far left behind: followers to tell, local mail, refreshes.
    #[inline(always)]
    fn settle(&mut self, now: Now) {
        let state = &self.state;
        // A hit leaves nothing.
        if state.finished.is_due() || !state.local_mail.is_empty() || !state.background.is_empty() {
            self.settle_rest(now);
        }
    }

    #[inline(never)]
    fn settle_rest(&mut self, now: Now) {
        self.state.tell_followers();
        while !self.state.local_mail.is_empty() && !self.has_much_to_send() {
            let Some(mail) = self.state.local_mail.pop() else { break };
            let Mail { ticket, query, message } = mail;
            self.resume(now, ticket, Event::Shared { query, message: message.as_deref() });
        }
        while let Some(background) = self.state.background.pop() {
            self.run_background(now, background);
        }
    }

    /// Ends every waiting job with SERVFAIL, for shutdown.
    pub fn abandon_all(&mut self, now: Now) {
        for ticket in self.jobs.tickets() {
            if let Some(job) = self.job(ticket) {
                job.abandon(Abandoned::Failed(Rcode::SERVFAIL));
            }
            self.resume(now, ticket, Event::Timer);
        }
    }
}
