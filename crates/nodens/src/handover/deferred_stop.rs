//! A signal to end that waits until the hand-over is done.

use signal_hook::consts::SIGTERM;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a process that is told to end waits for a successor that is getting ready.
const SUCCESSOR_PATIENCE: Duration = Duration::from_secs(10);

/// Whether there is a successor, and a signal that waits for it.
#[derive(Debug, Default)]
pub(super) struct DeferredStop {
    /// A successor has what is ours, and gets ready.
    pub(super) has_successor: bool,
    /// It takes queries, and this process could still go on: until it ends without notice, or
    /// this one is in haste.
    pub(super) retired: bool,
    urgent: Arc<AtomicBool>,
    /// The signal to end, and until when it can wait.
    signal: Option<i32>,
    ends_by: Option<Instant>,
}

impl DeferredStop {
    /// Whether a signal to end is obeyed only after the hand-over: because this process stands by,
    /// or because a successor that `may_wait` says is worth it gets ready. Without a readiness
    /// probe an update counts a new pod as ready before it is, and ends the old one.
    pub(super) fn defer(&mut self, signal: i32, may_wait: bool) -> bool {
        let has_successor = self.has_successor && signal == SIGTERM && may_wait;
        if !self.retired && !has_successor {
            return false;
        }
        self.ends_by.get_or_insert_with(|| Instant::now() + SUCCESSOR_PATIENCE);
        self.signal = Some(signal);
        self.urgent.store(true, Ordering::Relaxed);
        true
    }

    /// Whether it was told to end, and its successor has taken too long.
    pub(super) fn is_overdue(&self) -> bool {
        !self.retired && self.ends_by.is_some_and(|by| by <= Instant::now())
    }

    /// Whether there is no time to stand by; may change at any time.
    pub(super) fn urgent(&self) -> Arc<AtomicBool> {
        self.urgent.clone()
    }

    /// Nobody gets ready any more, or somebody has taken over. Gives the signal that waited.
    pub(super) fn call_off(&mut self) -> Option<i32> {
        (self.has_successor, self.ends_by) = (false, None);
        self.urgent.store(false, Ordering::Relaxed);
        self.signal.take()
    }
}
