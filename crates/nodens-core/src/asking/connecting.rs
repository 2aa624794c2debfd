//! Attempts whose connection is still being made: their time begins when their query leaves.

use super::attempts::{Attempt, State};
use crate::time::Now;

impl Attempt {
    /// Whether its connection is being made and has not taken longer than usual.
    pub(crate) fn connects(&self, now: Now) -> bool {
        let usual = || self.upstream.path(self.carrier).usual_connect_time();
        self.connects && now.since(self.asked_ns) < usual()
    }
}

impl State {
    /// The query of this attempt waits for a connection that is being made.
    pub(crate) fn connects(&mut self, number: u32) {
        if let Some(attempt) = self.pending.iter_mut().find(|attempt| attempt.number == number) {
            attempt.connects = true;
        }
    }

    /// The connection is made, and the query of this attempt leaves: its time begins.
    pub(crate) fn departed(&mut self, number: u32, now: Now) {
        if let Some(attempt) = self.pending.iter_mut().find(|attempt| attempt.number == number) {
            attempt.connects = false;
            attempt.sent_ns = now.mono_ns;
            // The timer fires no later, and is set again then.
            self.hedge_at = self.hedge_at.max(now.plus(self.hedge_wait));
        }
    }

    /// Whether a connection for this query is being made to this upstream, in its usual time: another
    /// would take as long.
    pub(super) fn connects_to(&self, member: usize, now: Now) -> bool {
        self.pending.iter().any(|attempt| attempt.member == member && attempt.connects(now))
    }
}
