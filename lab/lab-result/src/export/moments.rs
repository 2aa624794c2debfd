//! Mean and standard deviation of a histogram.

use lab_histogram::Histogram;

/// Of the recorded values in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Moments {
    /// How many.
    pub(super) count: u64,
    /// 0 without a value.
    pub(super) mean: f64,
    /// From the middles of the buckets, so within 0.2 %; 0 with fewer than two values.
    pub(super) deviation: f64,
    /// 0 without a value.
    pub(super) min: u64,
    /// 0 without a value.
    pub(super) max: u64,
}

impl Moments {
    pub(super) fn of(histogram: &Histogram) -> Self {
        let (count, mean) = (histogram.recorded(), histogram.mean().unwrap_or(0.0));
        let (min, max) = (histogram.min().unwrap_or(0), histogram.max().unwrap_or(0));
        // A bucket's middle may lie outside of all values: in the first and the last bucket.
        let square = |(low, high, n): (u64, u64, u64)| {
            let middle = (low + (high - low) / 2).clamp(min, max) as f64;
            (middle - mean).powi(2) * n as f64
        };
        let squares: f64 = histogram.buckets().map(square).sum();
        let deviation = if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 };
        Self { count, mean, deviation, min, max }
    }
}
