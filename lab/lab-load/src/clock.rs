//! Time as a run sees it. Every duration comes from the monotonic clock. The wall clock gives the
//! label of the start and the time that signatures bear, and computes how long ago the kernel
//! stamped a datagram; all survive a wall clock that is set in the middle of a run.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A datagram that the kernel stamped longer ago than this, while somebody looked for datagrams all the
/// time, was not: the wall clock was set.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// How often both clocks are read at the start.
const READINGS: u32 = 8;

/// Nanoseconds since a start, and the wall clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
    label: SystemTime,
    wall: fn() -> SystemTime,
}

impl Clock {
    /// A clock that starts in `lead` from now. `wall` is the wall clock.
    pub(crate) fn new(lead: Duration, wall: fn() -> SystemTime) -> Self {
        let (now, label) = Self::both(wall);
        Self { start: now + lead, label: label + lead, wall }
    }

    /// A clock that starts when the wall clock, as it is now, will show `start`; how long ago that was if
    /// it is over.
    pub(crate) fn at(start: SystemTime, wall: fn() -> SystemTime) -> Result<Self, Duration> {
        let (now, label) = Self::both(wall);
        let lead = start.duration_since(label).map_err(|error| error.duration())?;
        Ok(Self { start: now + lead, label: start, wall })
    }

    /// One moment on both clocks.
    fn both(wall: fn() -> SystemTime) -> (Instant, SystemTime) {
        // Of several readings, the one that took least time says best what time it was.
        let readings = (0..READINGS).map(|_| {
            let before = Instant::now();
            let label = wall();
            (before.elapsed(), before, label)
        });
        let best = readings.min_by_key(|reading| reading.0);
        best.map_or_else(|| (Instant::now(), wall()), |(_, now, label)| (now, label))
    }

    /// The wall clock at the start.
    pub(crate) fn label(&self) -> SystemTime {
        self.label
    }

    /// Nanoseconds since the start; 0 before it.
    pub(crate) fn now(&self) -> u64 {
        crate::nanos(self.start.elapsed())
    }

    /// The instant that is `nanos` after the start.
    pub(crate) fn instant(&self, nanos: u64) -> Instant {
        self.start + Duration::from_nanos(nanos)
    }

    /// The nanoseconds from the start to `instant`.
    pub(crate) fn nanos(&self, instant: Instant) -> u64 {
        crate::nanos(instant.saturating_duration_since(self.start))
    }

    /// How long it is to the start; nothing after it.
    pub(crate) fn until_start(&self) -> Duration {
        self.start.saturating_duration_since(Instant::now())
    }

    /// The start since 1970, by the wall clock.
    pub(crate) fn started_unix(&self) -> Duration {
        self.label.duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    /// The wall clock since 1970, as the kernel stamps datagrams.
    pub(crate) fn wall_since_epoch(&self) -> Duration {
        (self.wall)().duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

/// How long before `wall` the kernel stamped a datagram with `stamp`; `None` if the two do not fit
/// together, as when the wall clock was set between them. Datagrams may have waited for `pause`.
pub(crate) fn waited(stamp: Duration, wall: Duration, pause: Duration) -> Option<u64> {
    let waited = wall.checked_sub(stamp)?;
    (waited <= WAIT_MAX + pause).then(|| crate::nanos(waited))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_starts_when_the_wall_clock_shows_that_time_and_not_in_the_past() {
        let wall = || UNIX_EPOCH + Duration::from_secs(1_000);
        let clock = Clock::at(wall() + Duration::from_secs(7), wall).unwrap();
        assert_eq!(clock.label(), wall() + Duration::from_secs(7));
        let until = clock.until_start();
        assert!(until > Duration::from_secs(5) && until <= Duration::from_secs(7), "{until:?}");
        let late = Clock::at(wall() - Duration::from_secs(2), wall).unwrap_err();
        assert_eq!(late, Duration::from_secs(2));
    }

    #[test]
    fn a_wall_clock_that_was_set_gives_no_stamp() {
        let stamp = Duration::from_secs(1_000);
        let waited = |wall, pause| waited(stamp, wall, Duration::from_secs(pause));
        assert_eq!(waited(stamp + Duration::from_micros(7), 0), Some(7_000));
        assert_eq!(waited(stamp - Duration::from_nanos(1), 10), None, "set back");
        assert_eq!(waited(stamp + Duration::from_secs(3_600), 10), None, "set forward");
        let pause = Duration::from_secs(12);
        assert_eq!(waited(stamp + pause, 0), None);
        assert_eq!(waited(stamp + pause, 10), Some(crate::nanos(pause)), "nobody looked");
    }
}
