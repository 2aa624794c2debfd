//! Time as the core sees it: given by the caller, never read here.

use std::time::Duration;

/// One reading of both clocks. A batch of datagrams shares one reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Now {
    /// Nanoseconds on a clock that never goes back.
    pub mono_ns: u64,
    /// Seconds since the Unix epoch, for what leaves the process (logs, RRSIG times).
    pub unix_s: u64,
}

impl Now {
    /// The monotonic reading `after` from now, saturating.
    pub fn plus(self, after: Duration) -> u64 {
        self.mono_ns.saturating_add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Time since an earlier monotonic reading; zero if it lies ahead.
    pub fn since(self, earlier_ns: u64) -> Duration {
        Duration::from_nanos(self.mono_ns.saturating_sub(earlier_ns))
    }
}
