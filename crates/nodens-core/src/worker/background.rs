//! Refreshes, which no client waits for.

use super::{Background, Worker};
use crate::chain::{Outcome, Start};
use crate::containment;
use crate::job::Recipient;
use crate::time::Now;

impl Worker {
    pub(super) fn run_background(&mut self, now: Now, background: Background) {
        if self.jobs.places() >= self.state.shared.pending_max() {
            return;
        }
        let Background { client, request, query, resolution } = background;
        let mut job = self.spare.pop().unwrap_or_default();
        job.start(now, Recipient::Nobody(client), &request, query);
        job.current = resolution;
        job.current.floor = job.current.position;
        self.reserve_ticket();
        let config = self.config.clone();
        match containment::run(&config, &mut self.state, now, &mut job, Start::Behind) {
            Outcome::Waiting => _ = self.park(job),
            Outcome::Done | Outcome::Dropped => self.recycle(job),
        }
    }
}
