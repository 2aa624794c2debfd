//! The parts of a worker that know no handler.

use super::outage::Pause;
use super::probes::Probes;
use super::retries::Budgets;
use crate::action::Action;
use crate::coalescing::Finished;
use crate::log::Sink;
use crate::metrics::Cells;
use crate::shared::{Mail, Shared};
use crate::ticket::Ticket;
use crate::timers::Timers;
use std::sync::Arc;

/// What belongs to one worker alone and is used to query upstreams, among others.
#[derive(Debug)]
pub struct Parts {
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
    /// The ticket the current job has, or will have if it waits.
    pub ticket: Ticket,
    /// Jobs of this worker that another job has an answer for, set by handlers.
    pub local_mail: Vec<Mail>,
    pub(crate) timers: Timers,
    attempts: u32,
    /// Health checks of upstreams this worker looks after.
    pub(crate) probes: Probes,
    /// Room for octets that are needed only for a moment.
    pub(crate) scratch: Vec<u8>,
    /// How often each [`Asking`](super::Asking) may still ask again.
    pub(crate) budgets: Budgets,
    /// When it was last said that an upstream's reply is malformed.
    pub(crate) malformed: Pause,
    /// The coalesced query whose response is decided.
    pub(crate) finished: Finished,
}

impl Parts {
    /// Those of worker `index`; `seed` feeds [`Parts::rng`].
    pub(crate) fn new(index: usize, shared: Arc<Shared>, seed: u64) -> Self {
        Self {
            index,
            cells: shared.registry.cells(index),
            sink: shared.sink.clone(),
            shared,
            rng: fastrand::Rng::with_seed(seed),
            actions: Vec::new(),
            ticket: Ticket::default(),
            local_mail: Vec::new(),
            timers: Timers::default(),
            attempts: 0,
            probes: Probes::default(),
            scratch: Vec::new(),
            budgets: Budgets::default(),
            malformed: Pause::default(),
            finished: Finished::default(),
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

    /// Hands a shared answer to a waiting job, of this worker or another.
    pub fn deliver(&mut self, worker: usize, mail: Mail) {
        if worker == self.index {
            self.local_mail.push(mail);
        } else if self.shared.post(worker, mail) {
            self.actions.push(Action::Wake(worker));
        }
    }
}
