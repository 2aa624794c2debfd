//! Responses to clients whose jobs wait on.

use super::{Ticket, Worker};
use crate::handler::Event;
use crate::time::Now;

impl Worker {
    /// Answers the client of a waiting job with what `cache` has; the job goes on without it.
    pub(super) fn answer_early(&mut self, now: Now, ticket: Ticket) {
        let config = self.config.clone();
        let mut early = self.spare.pop().unwrap_or_default();
        let Some(job) = self.job(ticket) else { return self.recycle(early) };
        let config = job.config.clone().unwrap_or(config);
        job.client_timer_at = 0;
        if !job.part_with_client(&mut early) {
            return self.recycle(early);
        }
        early.config = Some(config);
        self.reserve_ticket();
        self.advance(now, early, Event::Timer, None);
    }
}
