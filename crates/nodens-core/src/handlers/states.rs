//! What handlers remember: of a resolution, and in a worker.

use super::{LookupState, cache, dnssec, kubernetes, rewrite, rrl};
use crate::asking;
use crate::config::Config;
use crate::job::States;
use crate::worker::WorkerState;

/// What each handler remembers of one resolution.
#[derive(Debug, Default)]
pub struct HandlerStates {
    /// What `cache` remembers between a miss and the answer.
    pub cache: cache::State,
    /// What `forward` remembers between attempts.
    pub forward: asking::State,
    /// What `rewrite` has to undo.
    pub rewrite: rewrite::State,
    /// What a handler that does nested lookups remembers (`dns64`, `autopath`, `template`, …).
    pub lookup: LookupState,
}

impl States for HandlerStates {
    type Config = Config;

    #[inline]
    fn clear(&mut self) {
        self.cache.clear();
        self.forward.clear();
        self.rewrite.clear();
        if !matches!(self.lookup, LookupState::None) {
            self.lookup = LookupState::None;
        }
    }

    fn octets(&self) -> usize {
        let forward = self.cache.octets() + self.forward.octets();
        forward + self.rewrite.octets() + self.lookup.octets()
    }

    fn early(&self) -> Option<usize> {
        self.cache.has_fallback().then(|| self.cache.position())
    }

    fn part(&mut self) -> Self {
        let mut front = Self { cache: self.cache.part(), ..Self::default() };
        front.rewrite = std::mem::take(&mut self.rewrite);
        if !self.lookup.is_behind_cache() {
            front.lookup = std::mem::take(&mut self.lookup);
        }
        front
    }
}

impl HandlerStates {
    /// Lets go of what is held beyond a resolution that ends, however it ends.
    #[inline]
    pub(crate) fn leave(&mut self, worker: &mut WorkerState) {
        asking::leave(&mut self.forward, worker);
    }

    /// Lets go of what others would do for a client that hears of something else now.
    pub(crate) fn abandon(&mut self) {
        if matches!(self.lookup, LookupState::Dynupdate(_)) {
            self.lookup = LookupState::None;
        }
    }

    /// Lets go of everything that others may wait for, at the end of a job.
    #[inline]
    pub(crate) fn release(&mut self, worker: &mut WorkerState) {
        self.cache.clear();
        self.leave(worker);
        self.forward.clear();
    }

    /// The message to send to an upstream.
    pub(crate) fn message(&mut self) -> &mut Vec<u8> {
        &mut self.forward.message
    }
}

/// What handlers keep in each worker.
#[derive(Debug, Default)]
pub struct OfWorker {
    /// Room for what `kubernetes` finds for a question.
    pub(crate) kubernetes: kubernetes::Scratch,
    /// How much `dnssec` has signed of late.
    pub(crate) dnssec: dnssec::Meter,
    /// What `rrl` counts.
    pub(crate) rrl: rrl::Tables,
}
