//! What is known about asking one upstream over one carrier.

use crate::limits::{HEDGE_TIME_MAX, HEDGE_TIME_MIN, OUTAGE_MIN, STRIKES_MAX};
use crate::time::Now;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The bit of [`Path::strikes`] that a failure sets; those below count late answers.
const FAILED: u32 = 1 << 31;
const _: () = assert!(STRIKES_MAX < FAILED);

/// Quarter octaves from 2^16 ns (66 µs) to 2^32 ns (4.3 s).
const BUCKETS: usize = 64;
const FIRST_OCTAVE: u32 = 16;
/// Observations after which the older ones count half.
const HALVE_AT: u32 = 1024;
/// The quantile is worked out anew at each of the first this many observations, then every
/// this many.
const REFRESH_EVERY: u32 = 32;

/// Answer times and health over one carrier.
///
/// Workers race on these values without locks. A lost update makes an estimate slightly older
/// and nothing else.
#[derive(Debug)]
pub struct Path {
    /// Smoothed answer time in nanoseconds; 0 before the first answer.
    smoothed_ns: AtomicU64,
    /// Estimate of the 99th percentile in nanoseconds; 0 before the first answer.
    p99_ns: AtomicU64,
    /// Smoothed time in which connections are made, in nanoseconds; 0 before the first.
    connect_ns: AtomicU64,
    buckets: [AtomicU32; BUCKETS],
    observations: AtomicU32,
    in_flight: AtomicU32,
    /// Health checks failed in a row.
    fails: AtomicU32,
    /// Questions in a row that were late or failed.
    strikes: AtomicU32,
    /// When the last answer came, monotonic nanoseconds.
    answered_ns: AtomicU64,
    /// The same of answers to queries, without those to health checks.
    replied_ns: AtomicU64,
    /// How often it answered again after an outage.
    recoveries: AtomicU32,
    /// A worker looks after the health checks.
    probed: AtomicBool,
    /// Since when it is said to be down, monotonic nanoseconds; 0 while that is not said.
    said_down_ns: AtomicU64,
}

impl Default for Path {
    fn default() -> Self {
        Self {
            smoothed_ns: AtomicU64::new(0),
            p99_ns: AtomicU64::new(0),
            connect_ns: AtomicU64::new(0),
            buckets: std::array::from_fn(|_| AtomicU32::new(0)),
            observations: AtomicU32::new(0),
            in_flight: AtomicU32::new(0),
            fails: AtomicU32::new(0),
            strikes: AtomicU32::new(0),
            answered_ns: AtomicU64::new(0),
            replied_ns: AtomicU64::new(0),
            recoveries: AtomicU32::new(0),
            probed: AtomicBool::new(false),
            said_down_ns: AtomicU64::new(0),
        }
    }
}

impl Path {
    /// Smoothed answer time (weight of a new answer 1/8, as in RFC 6298); `None` before the first.
    pub fn smoothed(&self) -> Option<Duration> {
        match self.smoothed_ns.load(Relaxed) {
            0 => None,
            ns => Some(Duration::from_nanos(ns)),
        }
    }

    /// The time within which 99 of 100 recent answers came, at most a quarter octave too high;
    /// zero before the first answer.
    pub fn p99(&self) -> Duration {
        Duration::from_nanos(self.p99_ns.load(Relaxed))
    }

    /// A connection was made in this time, with its handshake.
    pub fn connected(&self, time: Duration) {
        let ns = nanoseconds(time);
        self.connect_ns.store(smooth(self.connect_ns.load(Relaxed), ns), Relaxed);
    }

    /// For how long nothing speaks against a connection that is being made: four times the smoothed time,
    /// because a session that is not resumed takes longer; the longest there is before the first one.
    pub fn usual_connect_time(&self) -> Duration {
        match self.connect_ns.load(Relaxed) {
            0 => HEDGE_TIME_MAX,
            ns => Duration::from_nanos(ns.saturating_mul(4)).clamp(HEDGE_TIME_MIN, HEDGE_TIME_MAX),
        }
    }

    /// Questions under way.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Relaxed)
    }

    /// Health checks failed in a row.
    pub fn fails(&self) -> u32 {
        self.fails.load(Relaxed)
    }

    /// Whether more than `max_fails` health checks failed in a row; never if that is 0.
    pub fn is_down(&self, max_fails: u32) -> bool {
        max_fails > 0 && self.fails() > max_fails
    }

    /// Whether the last questions all went unanswered for too long: others are asked first.
    pub fn is_suspect(&self) -> bool {
        self.strikes.load(Relaxed) >= STRIKES_MAX
    }

    /// Whether a question failed since the last answer: not only that answers are late.
    pub fn has_failed(&self) -> bool {
        self.strikes.load(Relaxed) >= FAILED
    }

    /// A question leaves.
    pub fn departed(&self) {
        self.in_flight.fetch_add(1, Relaxed);
    }

    /// Nobody waits for a question any more that had departed.
    pub fn arrived(&self) {
        self.in_flight.fetch_sub(1, Relaxed);
    }

    /// How often it answered again after it had been suspect and silent.
    pub fn recoveries(&self) -> u32 {
        self.recoveries.load(Relaxed)
    }

    /// Whether a query, not a health check, was answered after this moment, monotonic nanoseconds.
    pub fn has_replied_since(&self, ns: u64) -> bool {
        self.replied_ns.load(Relaxed) > ns
    }

    /// A query was answered after `time`.
    pub fn replied(&self, now: Now, time: Duration) {
        self.replied_ns.store(now.mono_ns, Relaxed);
        self.answered(now, time);
    }

    /// An answer came after `time`: the path works.
    pub fn answered(&self, now: Now, time: Duration) {
        self.observe(time);
        if self.is_suspect() && now.since(self.answered_ns.load(Relaxed)) >= OUTAGE_MIN {
            self.recoveries.fetch_add(1, Relaxed);
        }
        self.answered_ns.store(now.mono_ns, Relaxed);
        if self.fails.load(Relaxed) != 0 {
            self.fails.store(0, Relaxed);
        }
        if self.strikes.load(Relaxed) != 0 {
            self.strikes.store(0, Relaxed);
        }
    }

    /// Another upstream has answered a query that was with this one for so long: it takes longer. Without that, one that
    /// is never waited for would seem to be as fast as what it was asked before.
    pub fn outrun(&self, time: Duration) {
        let (ns, known) = (nanoseconds(time), self.smoothed_ns.load(Relaxed));
        if ns > known {
            self.smoothed_ns.store(smooth(known, ns), Relaxed);
        }
    }

    /// An answer is later than most.
    pub fn late(&self) {
        self.strikes.fetch_add(1, Relaxed);
    }

    /// An attempt failed outright, or took too long.
    pub fn failed(&self) {
        self.strikes.fetch_or(FAILED, Relaxed);
    }

    /// A health check failed.
    pub fn probe_failed(&self) {
        self.fails.fetch_add(1, Relaxed);
    }

    /// Nothing speaks against the path.
    pub fn is_healthy(&self) -> bool {
        self.fails() == 0 && self.strikes.load(Relaxed) == 0
    }

    /// Takes over the health checks; false if some worker has them already.
    pub fn claim_probes(&self) -> bool {
        !self.probed.load(Relaxed) && !self.probed.swap(true, Relaxed)
    }

    /// Gives the health checks back.
    pub fn release_probes(&self) {
        self.probed.store(false, Relaxed);
    }

    /// Notes that it is said to be down; whether that is new.
    pub fn say_down(&self, now_ns: u64) -> bool {
        let new = self.said_down_ns.load(Relaxed) == 0;
        new && self.said_down_ns.swap(now_ns.max(1), Relaxed) == 0
    }

    /// Notes that it is not said to be down any more; since when it was, if it was.
    pub fn say_up(&self) -> Option<u64> {
        let said = self.said_down_ns.load(Relaxed) != 0;
        let since = if said { self.said_down_ns.swap(0, Relaxed) } else { 0 };
        (since != 0).then_some(since)
    }

    fn observe(&self, time: Duration) {
        let ns = nanoseconds(time);
        self.smoothed_ns.store(smooth(self.smoothed_ns.load(Relaxed), ns), Relaxed);
        if let Some(bucket) = self.buckets.get(bucket_of(ns)) {
            bucket.fetch_add(1, Relaxed);
        }
        let observations = self.observations.fetch_add(1, Relaxed).wrapping_add(1);
        if observations <= REFRESH_EVERY || observations.is_multiple_of(REFRESH_EVERY) {
            self.refresh(observations >= HALVE_AT);
        }
    }

    fn refresh(&self, halve: bool) {
        let total: u32 = self.buckets.iter().map(|bucket| bucket.load(Relaxed)).sum();
        let mut above = total / 100;
        let mut p99 = 0;
        for (index, bucket) in self.buckets.iter().enumerate().rev() {
            let count = bucket.load(Relaxed);
            if count > above {
                p99 = upper_bound(index);
                break;
            }
            above -= count;
        }
        self.p99_ns.store(p99, Relaxed);
        if halve {
            for bucket in &self.buckets {
                bucket.store(bucket.load(Relaxed) / 2, Relaxed);
            }
            // Not 0, so that the estimate is not worked out at each observation again.
            self.observations.store(HALVE_AT / 2, Relaxed);
        }
    }
}

/// Not 0, which stands for no time.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1)
}

/// A mean in which the new value counts for an eighth, and the first one alone; not 0.
fn smooth(old: u64, new: u64) -> u64 {
    let mean = if old == 0 { new } else { old - old / 8 + new / 8 };
    mean.max(1)
}

fn bucket_of(ns: u64) -> usize {
    let octave = ns.ilog2();
    if octave < FIRST_OCTAVE {
        return 0;
    }
    let quarter = (ns >> (octave - 2)) & 3;
    let index = u64::from(octave - FIRST_OCTAVE) * 4 + quarter;
    usize::try_from(index).map_or(BUCKETS - 1, |index| index.min(BUCKETS - 1))
}

fn upper_bound(index: usize) -> u64 {
    let octave = FIRST_OCTAVE + (index / 4) as u32;
    (5 + (index % 4) as u64) << (octave - 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const NOW: Now = Now { mono_ns: 1_000_000_000_000, unix_s: 1_700_000_000 };

    #[test]
    fn every_time_lies_below_the_bound_of_its_bucket_and_above_the_one_before() {
        for ns in [65_536_u64, 65_537, 99_999, 1_000_000, 39_999_999, 2_000_000_000] {
            let index = bucket_of(ns);
            assert!(ns < upper_bound(index), "{ns}");
            assert!(index == 0 || ns >= upper_bound(index - 1), "{ns}");
        }
        assert_eq!(bucket_of(1), 0);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn the_percentile_follows_what_was_seen_last() {
        let path = Path::default();
        assert_eq!(path.p99(), Duration::ZERO);
        path.answered(NOW, 40 * MS);
        assert!((40 * MS..50 * MS).contains(&path.p99()), "{:?}", path.p99());
        for n in 0..5000 {
            path.answered(NOW, if n % 200 == 0 { 300 * MS } else { 2 * MS });
        }
        assert!((2 * MS..3 * MS).contains(&path.p99()), "{:?}", path.p99());
        for n in 0..5000 {
            path.answered(NOW, if n % 50 == 0 { 300 * MS } else { 2 * MS });
        }
        assert!((300 * MS..400 * MS).contains(&path.p99()), "{:?}", path.p99());
        assert!(path.smoothed().unwrap() < 20 * MS);
    }

    #[test]
    fn an_answer_clears_what_spoke_against_a_path() {
        let path = Path::default();
        path.late();
        path.late();
        assert!(!path.is_suspect());
        path.late();
        assert!(path.is_suspect() && !path.is_healthy());
        (0..3).for_each(|_| path.probe_failed());
        assert!(path.is_down(2) && !path.is_down(3) && !path.is_down(0));
        path.answered(NOW, MS);
        assert!(path.is_healthy() && !path.is_suspect() && !path.is_down(2));
    }

    #[test]
    fn one_worker_at_a_time_has_the_health_checks() {
        let path = Path::default();
        assert!(path.claim_probes());
        assert!(!path.claim_probes());
        path.release_probes();
        assert!(path.claim_probes());
    }
}
