//! What every part of a server needs.

use crate::budget::Budget;
use crate::events::Event;
use crate::flags::Flags;
use nodens_core::Shared;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// What every part of a server needs, from its start to its end.
pub(crate) struct Context {
    pub(crate) flags: Flags,
    /// What all workers share.
    pub(crate) shared: Arc<Shared>,
    /// What the memory goes to.
    pub(crate) budget: Budget,
    /// To the main thread.
    pub(crate) events: Sender<Event>,
}
