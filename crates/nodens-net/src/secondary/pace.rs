//! Whether a primary sends fast enough for its transfer to be worth the memory that it holds.

use super::exchange::nanoseconds;
use crate::limits::{PRIMARY_PACE_OCTETS, PRIMARY_PACE_TIME};

/// Since when fewer octets have come than have to.
#[derive(Debug)]
pub(super) struct Pace {
    since_ns: u64,
    octets: usize,
}

impl Pace {
    pub(super) fn new(now_ns: u64) -> Self {
        Self { since_ns: now_ns, octets: 0 }
    }

    /// So many octets have come.
    pub(super) fn came(&mut self, octets: usize, now_ns: u64) {
        self.octets = self.octets.saturating_add(octets);
        if self.octets >= PRIMARY_PACE_OCTETS {
            *self = Self::new(now_ns);
        }
    }

    /// When it is too slow, if too little comes until then.
    pub(super) fn deadline_ns(&self) -> u64 {
        self.since_ns.saturating_add(nanoseconds(PRIMARY_PACE_TIME))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_trickles_is_too_slow_and_a_slow_line_is_not() {
        let (second, time) = (1_000_000_000, nanoseconds(PRIMARY_PACE_TIME));
        let (mut trickle, mut line) = (Pace::new(0), Pace::new(0));
        for n in 1..=10_000 {
            trickle.came(1, n * second);
            line.came(1000, n * second);
        }
        assert_eq!(trickle.deadline_ns(), time);
        assert!(line.deadline_ns() > 10_000 * second);
    }
}
