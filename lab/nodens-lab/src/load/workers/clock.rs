//! The clock of a worker beside that of the page, and whether either was set meanwhile.

use lab_result::ClockOffset;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// By how much a clock that is only slewed may move between two comparisons. More is a step.
const STEP_MIN: Duration = Duration::from_millis(5);
/// The time within which both clocks of a moment are read, unless the machine is very busy.
const READ_MAX: Duration = Duration::from_micros(500);
/// How often that is tried.
const READS_MAX: usize = 20;

/// Both clocks of this machine at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) wall: SystemTime,
    pub(super) monotonic: Instant,
}

impl Moment {
    pub(super) fn now() -> Self {
        let read = || Self { monotonic: Instant::now(), wall: SystemTime::now() };
        // A thread that waits between the two readings would pass for a clock that was set.
        let at_once = |moment: &Self| moment.monotonic.elapsed() < READ_MAX;
        std::iter::repeat_with(read).take(READS_MAX).find(at_once).unwrap_or_else(read)
    }

    /// What is wrong with a start at `later` by a comparison of this moment.
    pub(super) fn moved_until(self, later: Self) -> Option<String> {
        let passed = later.monotonic.saturating_duration_since(self.monotonic);
        let step = i128::from(unix(later.wall)) - i128::from(unix(self.wall)) - nanos(passed);
        let seconds = step as f64 / 1e9;
        (step.abs() > nanos(STEP_MIN)).then(|| {
            format!("this machine's clock was set by {seconds:+.3} s before the start: it did not start with the others")
        })
    }
}

/// A comparison of the clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compared {
    pub(super) clock: ClockOffset,
    pub(super) at: Moment,
}

impl Compared {
    /// Whether it tells more than `newest`, and both may be true.
    pub(super) fn is_better(&self, newest: &Self) -> bool {
        self.apart(newest) == 0 && self.clock.within_ns <= newest.clock.within_ns
    }

    /// By how many seconds one of the clocks was set between the two, if one was.
    pub(super) fn step(&self, newest: &Self) -> Option<f64> {
        let apart = self.apart(newest);
        (apart > nanos(STEP_MIN)).then_some(apart as f64 / 1e9)
    }

    /// How far the offset of `newest` is from every one that this comparison allows; 0 if both may be true.
    fn apart(&self, newest: &Self) -> i128 {
        let off = i128::from(self.clock.offset_ns) - i128::from(newest.clock.offset_ns);
        let within = i128::from(self.clock.within_ns) + i128::from(newest.clock.within_ns);
        (off.abs() - within).max(0)
    }
}

fn nanos(time: Duration) -> i128 {
    i128::try_from(time.as_nanos()).unwrap_or(i128::MAX)
}

/// Nanoseconds since 1970.
pub(super) fn unix(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A time of the page's clock by this machine's.
pub(super) fn own_time(there: u64, clock: ClockOffset) -> u64 {
    u64::try_from(i128::from(there) + i128::from(clock.offset_ns)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_ahead_starts_later_by_its_own_time() {
        let clock = ClockOffset { offset_ns: 1_500, within_ns: 10 };
        assert_eq!(own_time(10_000, clock), 11_500);
        assert_eq!(own_time(10_000, ClockOffset { offset_ns: -1_500, ..clock }), 8_500);
    }

    #[test]
    fn a_clock_that_is_set_between_the_comparison_and_the_start_is_seen() {
        let at = Moment::now();
        let later = |wall: f64| Moment {
            wall: at.wall + Duration::from_secs_f64(wall),
            monotonic: at.monotonic + Duration::from_secs(1),
        };
        assert_eq!(at.moved_until(later(1.001)), None);
        let why = at.moved_until(later(3.0)).unwrap();
        assert!(why.contains("set by +2.000 s before the start"), "{why}");
        assert!(at.moved_until(later(0.5)).unwrap().contains("-0.500 s"));
    }
}
