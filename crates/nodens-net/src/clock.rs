//! The clock: the only place where time is read.

use nodens_core::Now;
use rustix::time::{ClockId, clock_gettime};

/// Reads both clocks.
///
/// The monotonic reading is that of `CLOCK_MONOTONIC`, whose values a BPF program sees too; the
/// date is good to a few milliseconds, which is all that seconds need.
pub fn now() -> Now {
    let mono = clock_gettime(ClockId::Monotonic);
    let real = clock_gettime(ClockId::RealtimeCoarse);
    let (seconds, nanos) = (mono.tv_sec.unsigned_abs(), mono.tv_nsec.unsigned_abs());
    Now {
        mono_ns: seconds.saturating_mul(1_000_000_000).saturating_add(nanos),
        unix_s: real.tv_sec.unsigned_abs(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn time_goes_on() {
        let before = super::now();
        std::thread::sleep(std::time::Duration::from_millis(2));
        let after = super::now();
        assert!(after.mono_ns >= before.mono_ns + 2_000_000);
        assert!(after.unix_s >= before.unix_s && after.unix_s > 1_700_000_000);
    }
}
