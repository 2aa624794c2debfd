//! How often something happened, with its interval.

use crate::{Interval, normal};

/// The exact interval of a proportion (Clopper and Pearson, 1934): `hits` of `trials`.
pub fn interval(hits: u64, trials: u64, alpha: f64) -> Interval {
    let (k, n) = (hits as f64, trials as f64);
    let low = if hits == 0 { 0.0 } else { normal::beta(alpha / 2.0, k, n - k + 1.0) };
    let high = if hits >= trials { 1.0 } else { normal::beta(1.0 - alpha / 2.0, k + 1.0, n - k) };
    Interval { low, high }
}
