//! The fate of every single query, for callers that want each of them.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Fates that may wait to be looked at. Beyond that the load waits for its reader, as a program does
/// that prints a line itself: the queries are late then, and the run is INVALID.
const WAITING_MAX: usize = 1 << 16;

/// How one query ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// The item of the workload.
    pub item: u64,
    /// The ID that it was asked with.
    pub id: u16,
    /// What became of it.
    pub end: End,
}

/// What became of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Answered in time.
    Answered {
        /// With the extension of EDNS.
        rcode: u16,
        /// Nanoseconds from sending to the answer.
        service: u64,
    },
    /// Lost, whatever the cause.
    Lost,
    /// In flight when the run was stopped.
    Interrupted,
}

/// Takes fates; clones are for the threads of a run.
#[derive(Clone, Debug)]
pub struct Fates {
    sender: SyncSender<Fate>,
    /// Whether answered queries are wanted, too.
    answers: bool,
}

impl Fates {
    /// Two ends: one for [`crate::Config::fates`], and one to read from until all others are gone.
    pub fn channel(answers: bool) -> (Self, Receiver<Fate>) {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        (Self { sender, answers }, receiver)
    }

    pub(crate) fn tell(&self, fate: Fate) {
        if self.answers || !matches!(fate.end, End::Answered { .. }) {
            // A reader that has gone away wants no more.
            _ = self.sender.send(fate);
        }
    }
}
