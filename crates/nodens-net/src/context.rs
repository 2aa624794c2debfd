//! What the parts of an event loop need from it while they act.

use crate::counters::Counters;
use crate::poll::Poll;
use nodens_core::{Now, Worker};

/// The rest of the event loop, for one call.
pub(crate) struct Context<'a> {
    /// The time of the round.
    pub(crate) now: Now,
    pub(crate) poll: &'a Poll,
    pub(crate) worker: &'a mut Worker,
    pub(crate) counters: &'a Counters,
}
