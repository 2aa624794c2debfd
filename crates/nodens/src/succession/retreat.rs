//! How a process that has a successor comes to its end.

use signal_hook::consts::SIGTERM;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a process that is told to end waits for a successor that is getting ready.
const HEIR_PATIENCE: Duration = Duration::from_secs(10);

/// How far the end has come.
#[derive(Debug, Default)]
pub(super) struct Retreat {
    /// A successor has what is ours, and gets ready.
    pub(super) has_heir: bool,
    /// It takes questions, and this process could still go on: until it ends without a word, or
    /// this one is in haste.
    pub(super) retired: bool,
    in_haste: Arc<AtomicBool>,
    /// The signal to end, and until when it can wait.
    signal: Option<i32>,
    ends_by: Option<Instant>,
}

impl Retreat {
    /// Whether a signal to end is obeyed only after the hand-over: because this process stands by,
    /// or because a successor that `may_wait` says is worth it gets ready. Without a readiness
    /// probe an update counts a new pod as ready before it is, and ends the old one.
    pub(super) fn hurry(&mut self, signal: i32, may_wait: bool) -> bool {
        let has_heir = self.has_heir && signal == SIGTERM && may_wait;
        if !self.retired && !has_heir {
            return false;
        }
        self.ends_by.get_or_insert_with(|| Instant::now() + HEIR_PATIENCE);
        self.signal = Some(signal);
        self.in_haste.store(true, Ordering::Relaxed);
        true
    }

    /// Whether it was told to end, and its successor has taken too long.
    pub(super) fn is_overdue(&self) -> bool {
        !self.retired && self.ends_by.is_some_and(|by| by <= Instant::now())
    }

    /// Whether there is no time to stand by; may change at any time.
    pub(super) fn in_haste(&self) -> Arc<AtomicBool> {
        self.in_haste.clone()
    }

    /// Nobody gets ready any more, or somebody has taken over. Gives the signal that waited.
    pub(super) fn call_off(&mut self) -> Option<i32> {
        (self.has_heir, self.ends_by) = (false, None);
        self.in_haste.store(false, Ordering::Relaxed);
        self.signal.take()
    }
}
