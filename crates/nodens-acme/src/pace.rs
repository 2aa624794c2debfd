//! When to try again what failed, and when to renew.

use crate::limits::{RETRY_MAX, RETRY_MIN};
use std::time::Duration;

/// The pause after so many failures in a row, of which there is at least one: it doubles with each up to a maximum. Up to a
/// fifth is taken off at random, so that servers that failed together do not come back together.
pub(crate) fn pause(failures: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
    let pause = RETRY_MIN.saturating_mul(doubled).min(RETRY_MAX);
    pause.mul_f64(1.0 - fastrand::f64() / 5.0)
}

/// The pause after a certificate was obtained that is to be renewed in `renewal` and ends in `end`, the `hasty`th in a row
/// that was to be renewed at once. With those the clock of one side is wrong, most likely, and each new certificate would
/// be followed by another until the ACME server refuses more. A short life that is left is used all the same.
pub(crate) fn after(renewal: Duration, end: Duration, hasty: u32) -> Duration {
    if !renewal.is_zero() {
        return renewal;
    }
    let pause = pause(hasty.max(1));
    if end.is_zero() { pause } else { pause.min((end / 2).max(RETRY_MIN)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_maximum_and_vary() {
        for (failures, longest) in [(1, 60), (2, 120), (5, 960), (12, 21_600), (u32::MAX, 21_600)] {
            let longest = Duration::from_secs(longest);
            let pauses: Vec<_> = (0..50).map(|_| pause(failures)).collect();
            assert!(pauses.iter().all(|pause| *pause <= longest && *pause >= longest * 4 / 5));
            assert!(pauses.windows(2).any(|pair| pair[0] != pair[1]));
        }
    }

    #[test]
    fn certificates_that_are_to_be_renewed_at_once_are_ordered_ever_more_rarely() {
        let hour = Duration::from_secs(3600);
        assert_eq!(after(hour, 3 * hour, 5), hour);
        // A clock that is years ahead.
        let orders = (1..).scan(Duration::ZERO, |sum, hasty| {
            *sum += after(Duration::ZERO, Duration::ZERO, hasty);
            Some(*sum)
        });
        assert!(orders.take_while(|sum| *sum < 24 * hour).count() < 16);
        // A life that is over before it begins, but for ten minutes.
        let pause = after(Duration::ZERO, Duration::from_secs(600), 9);
        assert_eq!(pause, Duration::from_secs(300));
        assert!(after(Duration::ZERO, Duration::from_secs(1), 9) <= Duration::from_secs(60));
    }
}
