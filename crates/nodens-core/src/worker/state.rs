//! What belongs to one worker alone.

use super::unsent::Unsent;
use crate::asking::Parts;
use crate::chain;
use crate::config::Config;
use crate::handler::{Job, Resolution};
use crate::handlers::OfWorker;
use crate::job::Client;
use crate::seeing::Watcher;
use crate::shared::Shared;
use crate::time::Now;
use nodens_wire::Query;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

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
    /// What knows no handler.
    pub parts: Parts,
    /// Octets of responses among `actions`.
    pub(super) outgoing: usize,
    /// Refreshes to run after the current question.
    pub background: Vec<Background>,
    /// Answers whose time is taken when they are sent.
    pub(crate) unsent: Unsent,
    /// What handlers keep.
    pub(crate) own: OfWorker,
    /// Counts who asks for what, if anybody wants to see it.
    watcher: Option<Watcher>,
}

impl Deref for WorkerState {
    type Target = Parts;

    #[inline(always)]
    fn deref(&self) -> &Parts {
        &self.parts
    }
}

impl DerefMut for WorkerState {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Parts {
        &mut self.parts
    }
}

impl WorkerState {
    pub(super) fn new(index: usize, shared: Arc<Shared>, seed: u64) -> Self {
        let watcher = shared.seeing.watcher(index, seed);
        Self {
            parts: Parts::new(index, shared, seed),
            outgoing: 0,
            background: Vec::new(),
            unsent: Unsent::default(),
            own: OfWorker::default(),
            watcher,
        }
    }

    /// Takes up what the process shares now.
    pub(super) fn renew(&mut self) {
        let parts = &mut self.parts;
        parts.cells = parts.shared.registry.cells(parts.index);
        if self.watcher.is_none() {
            self.watcher = parts.shared.seeing.watcher(parts.index, parts.rng.u64(..));
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

    /// Wakes the current job at `at_ns`; a later call replaces an earlier one.
    pub fn set_timer(&mut self, job: &mut Job, at_ns: u64) {
        job.timer_at = at_ns;
        self.parts.timers.push(at_ns, self.parts.ticket);
    }

    /// Answers the client of the current job at `at_ns` with what `cache` has, if nothing newer
    /// has come by then.
    pub fn set_client_timer(&mut self, job: &mut Job, at_ns: u64) {
        job.client_timer_at = at_ns;
        self.parts.timers.push(at_ns, self.parts.ticket);
    }
}
