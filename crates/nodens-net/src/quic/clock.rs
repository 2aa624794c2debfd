//! The time on quinn's clock, and back.

use crate::tcp::NEVER;
use nodens_core::Now;
use std::time::{Duration, Instant};

/// Knows a moment on both clocks.
pub(crate) struct Clock {
    zero: Instant,
    zero_ns: u64,
}

impl Clock {
    /// From now on.
    pub(crate) fn new() -> Self {
        Self { zero: Instant::now(), zero_ns: crate::clock::mono_ns() }
    }

    /// On quinn's clock.
    pub(crate) fn instant(&self, now: Now) -> Instant {
        self.zero + Duration::from_nanos(now.mono_ns.saturating_sub(self.zero_ns))
    }

    /// On ours.
    pub(crate) fn nanoseconds(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.zero).as_nanos();
        self.zero_ns.saturating_add(u64::try_from(since).unwrap_or(NEVER))
    }
}
