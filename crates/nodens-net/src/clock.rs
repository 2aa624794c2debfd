//! The clock: the only place where time is read.

use crate::limits::DISTANCE_AGE_MAX;
use nodens_core::Now;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Reads both clocks.
///
/// The monotonic reading is that of `CLOCK_MONOTONIC`, whose values a BPF program sees too; the
/// date is good to a few milliseconds, which is all that seconds need.
pub fn now() -> Now {
    let real = clock_gettime(ClockId::RealtimeCoarse);
    Now { mono_ns: mono_ns(), unix_s: real.tv_sec.unsigned_abs() }
}

/// The monotonic clock alone, as [`Now::mono_ns`].
pub(crate) fn mono_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// What was so long before this monotonic reading, which may be negative: before the machine started.
pub(crate) fn before(now_ns: u64, age: Duration) -> i64 {
    let age_ns = i64::try_from(age.as_nanos()).unwrap_or(i64::MAX);
    now_ns.cast_signed().saturating_sub(age_ns)
}

/// How long ago that was.
pub(crate) fn age(now_ns: u64, at_ns: i64) -> Duration {
    let age_ns = now_ns.cast_signed().saturating_sub(at_ns);
    Duration::from_nanos(u64::try_from(age_ns).unwrap_or_default())
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let (seconds, nanos) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

/// Translates the kernel's stamps, which are dates, into readings of the monotonic clock.
#[derive(Debug, Default)]
pub(crate) struct Translator {
    /// The date at the monotonic clock's zero, in nanoseconds, and when that was found.
    zero: u64,
    found_ns: u64,
}

impl Translator {
    /// The monotonic reading at `date_ns`, as of `now`. Where the date was set meanwhile it is
    /// anything, for a moment.
    pub(crate) fn mono_ns(&mut self, date_ns: u64, now: Now) -> u64 {
        if self.zero == 0 || now.mono_ns.saturating_sub(self.found_ns) > DISTANCE_AGE_MAX {
            self.zero = nanoseconds(ClockId::Realtime).saturating_sub(mono_ns());
            self.found_ns = now.mono_ns;
        }
        date_ns.saturating_sub(self.zero)
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

    #[test]
    fn a_date_is_found_on_the_monotonic_clock() {
        let mut translator = super::Translator::default();
        let before = super::mono_ns();
        let date = super::nanoseconds(super::ClockId::Realtime);
        let after = super::mono_ns();
        let found = translator.mono_ns(date, super::now());
        // The two clocks are read one after the other, and a thread may lose its CPU in between.
        assert!(found + 1_000_000_000 > before && found < after + 1_000_000_000);
    }
}
