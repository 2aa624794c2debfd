//! When to try again what failed.

use crate::limits::{RETRY_MAX, RETRY_MIN};
use std::time::Duration;

/// The pause after so many failures in a row, of which there is at least one: it doubles with each up to a maximum. Up to a
/// fifth is taken off at random, so that servers that failed together do not come back together.
pub(crate) fn pause(failures: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
    let pause = RETRY_MIN.saturating_mul(doubled).min(RETRY_MAX);
    pause.mul_f64(1.0 - fastrand::f64() / 5.0)
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
}
