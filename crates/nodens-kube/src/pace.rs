//! How often the API server is asked.

use crate::limits::{BACKOFF_MAX, BACKOFF_MIN, BURST, QPS, STABLE_AFTER};
use nodens_core::cluster::Source;
use std::time::{Duration, Instant};

/// A token bucket over the requests of one source (`apiserver_qps`, `apiserver_burst`).
#[derive(Debug)]
pub(crate) struct Bucket {
    per_second: f64,
    size: f64,
    tokens: f64,
    at: Instant,
}

impl Bucket {
    /// A full bucket.
    pub(crate) fn new(source: &Source, now: Instant) -> Self {
        let qps = source.milli_qps.filter(|qps| *qps > 0).map_or(QPS, |qps| qps as f64 / 1000.0);
        let size = f64::from(source.burst.filter(|burst| *burst > 0).unwrap_or(BURST));
        Self { per_second: qps, size, tokens: size, at: now }
    }

    /// Takes a token; gives how long to wait before it may be used.
    pub(crate) fn take(&mut self, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.tokens = (self.tokens + passed * self.per_second).min(self.size) - 1.0;
        Duration::try_from_secs_f64(-self.tokens / self.per_second).unwrap_or_default()
    }
}

/// Growing waits with jitter, so that many servers that lost the same API server do not come back
/// at the same moment.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// How long to wait after a failure.
    pub(crate) fn failed(&mut self) -> Duration {
        let full = BACKOFF_MIN.saturating_mul(1 << self.failures.min(16)).min(BACKOFF_MAX);
        self.failures = self.failures.saturating_add(1);
        full.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// How long to wait after a stream that ended in good order after `lived`: not at all, unless
    /// the server ends every stream at once.
    pub(crate) fn ended(&mut self, lived: Duration) -> Duration {
        if lived < STABLE_AFTER {
            return self.failed();
        }
        self.failures = 0;
        Duration::ZERO
    }

    /// Something worked.
    pub(crate) fn worked(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_free_and_then_requests_are_spread() {
        let source = Source { milli_qps: Some(2000), burst: Some(3), ..Source::default() };
        let start = Instant::now();
        let mut bucket = Bucket::new(&source, start);
        let waits: Vec<_> = (0..5).map(|_| bucket.take(start).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 500, 1000]);
        assert_eq!(bucket.take(start + Duration::from_secs(60)), Duration::ZERO);
    }

    #[test]
    fn waits_double_up_to_a_maximum_with_jitter() {
        let mut backoff = Backoff::default();
        let mut full = BACKOFF_MIN;
        for _ in 0..40 {
            let wait = backoff.failed();
            assert!(wait <= full && wait >= full / 2, "{wait:?} of {full:?}");
            full = (full * 2).min(BACKOFF_MAX);
        }
        assert_eq!(backoff.ended(STABLE_AFTER), Duration::ZERO);
        assert!(backoff.ended(Duration::ZERO) <= BACKOFF_MIN);
        assert!(backoff.ended(Duration::ZERO) > BACKOFF_MIN / 2);
    }
}
