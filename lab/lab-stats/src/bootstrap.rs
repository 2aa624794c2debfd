//! Bootstrap intervals of the Hodges–Lehmann estimate.

use crate::paired::{hodges_lehmann, median_of};
use crate::{Interval, normal};
use lab_random::Stream;

/// The interval by BCa (Efron, 1987): pairs drawn with replacement, corrected for bias and skewness.
///
/// `None` with fewer than two values.
pub fn bca(values: &[f64], alpha: f64, resamples: usize, seed: u64) -> Option<Interval> {
    let mut stream = Stream::new(seed, 11);
    let mut replicates =
        replicates(values, resamples, |resample| draw(values, &mut stream, resample))?;
    let estimate = hodges_lehmann(values)?;
    let acceleration = acceleration(values)?;
    corrected(&mut replicates, estimate, acceleration, alpha)
}

/// The interval by the stationary bootstrap (Politis and Romano, 1994), for values whose neighbours
/// are correlated: runs of `mean_length` values on average, corrected for bias.
///
/// `None` with fewer than two values.
pub fn stationary(
    values: &[f64],
    mean_length: f64,
    alpha: f64,
    resamples: usize,
    seed: u64,
) -> Option<Interval> {
    let mut stream = Stream::new(seed, 12);
    let mut replicates = replicates(values, resamples, |resample| {
        draw_runs(values, mean_length, &mut stream, resample);
    })?;
    corrected(&mut replicates, hodges_lehmann(values)?, 0.0, alpha)
}

/// The mean length of runs that suits a correlation of `lag_one` between neighbours: the optimum of
/// Politis and White (2004) for a process whose only memory is its last value.
pub fn run_length(lag_one: f64, count: usize) -> f64 {
    let correlation = lag_one.abs().min(0.95);
    let factor = 2.0 * correlation / (1.0 - correlation.powi(2));
    (factor.powf(2.0 / 3.0) * (count as f64).cbrt()).clamp(1.0, (count as f64 / 2.0).max(1.0))
}

fn replicates(
    values: &[f64],
    resamples: usize,
    mut draw: impl FnMut(&mut Vec<f64>),
) -> Option<Vec<f64>> {
    let mut resample = Vec::with_capacity(values.len());
    let mut averages = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
    let mut all = Vec::with_capacity(resamples);
    for _ in 0..resamples {
        resample.clear();
        draw(&mut resample);
        averages.clear();
        for (at, first) in resample.iter().enumerate() {
            averages.extend(resample.iter().skip(at).map(|second| first.midpoint(*second)));
        }
        all.push(median_of(&mut averages)?);
    }
    Some(all)
}

fn draw(values: &[f64], stream: &mut Stream, into: &mut Vec<f64>) {
    let drawn = values.iter().filter_map(|_| values.get(stream.below(values.len())));
    into.extend(drawn);
}

fn draw_runs(values: &[f64], mean_length: f64, stream: &mut Stream, into: &mut Vec<f64>) {
    let mut place = stream.below(values.len());
    while into.len() < values.len() {
        into.extend(values.get(place));
        let starts_anew = stream.unit() < 1.0 / mean_length.max(1.0);
        place = if starts_anew {
            stream.below(values.len())
        } else {
            (place + 1) % values.len().max(1)
        };
    }
}

/// The jackknife's estimate of how the spread of the estimate changes with its value.
fn acceleration(values: &[f64]) -> Option<f64> {
    let without = (0..values.len()).map(|out| {
        let rest = values.iter().enumerate().filter(|(at, _)| *at != out);
        hodges_lehmann(&rest.map(|(_, value)| *value).collect::<Vec<_>>())
    });
    let without: Vec<f64> = without.collect::<Option<_>>()?;
    let mean = without.iter().sum::<f64>() / without.len() as f64;
    let power = |power| without.iter().map(|value| (mean - value).powi(power)).sum::<f64>();
    let squares = power(2);
    Some(if squares > 0.0 { power(3) / (6.0 * squares.powf(1.5)) } else { 0.0 })
}

/// The quantiles of `replicates` that bias and acceleration say.
fn corrected(
    replicates: &mut [f64],
    estimate: f64,
    acceleration: f64,
    alpha: f64,
) -> Option<Interval> {
    let count = replicates.len() as f64;
    let below = replicates.iter().filter(|value| **value < estimate).count() as f64;
    let tied = replicates.iter().filter(|value| **value == estimate).count() as f64;
    let part = ((below + tied / 2.0) / count).clamp(0.5 / count, 1.0 - 0.5 / count);
    let bias = normal::quantile(part);
    let level = |z: f64| {
        let shifted = bias + z;
        let scale = 1.0 - acceleration * shifted;
        // Beyond this the correction has left its range; the plain percentile is meant then.
        if scale <= 0.0 { normal::cdf(z) } else { normal::cdf(bias + shifted / scale) }
    };
    let z = normal::quantile(1.0 - alpha / 2.0);
    replicates.sort_by(f64::total_cmp);
    Some(Interval {
        low: sample_quantile(replicates, level(-z))?,
        high: sample_quantile(replicates, level(z))?,
    })
}

/// The quantile of sorted values with linear interpolation (type 7 of Hyndman and Fan, 1996).
pub(crate) fn sample_quantile(sorted: &[f64], level: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = level.clamp(0.0, 1.0) * last as f64;
    let (low, rest) = (place.floor(), place.fract());
    let lower = *sorted.get(low as usize)?;
    let upper = *sorted.get((low as usize + 1).min(last))?;
    Some(lower + (upper - lower) * rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges() {
        assert_eq!(bca(&[], 0.05, 10, 1), None);
        assert_eq!(bca(&[3.0], 0.05, 10, 1), None);
        assert_eq!(stationary(&[], 2.0, 0.05, 10, 1), None);
        assert_eq!(sample_quantile(&[1.0, 2.0, 4.0], 0.75), Some(3.0));
        assert_eq!([run_length(0.0, 30), run_length(1.0, 30)], [1.0, 15.0]);
    }

    #[test]
    fn the_same_seed_is_the_same_interval() {
        let values: Vec<f64> = (0..15).map(|n| lab_random::unit(2, n)).collect();
        assert_eq!(bca(&values, 0.05, 200, 7), bca(&values, 0.05, 200, 7));
        assert_ne!(bca(&values, 0.05, 200, 7), bca(&values, 0.05, 200, 8));
    }
}
