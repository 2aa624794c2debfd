//! Two sets of blocks that were not measured in pairs: archives of other days.
//!
//! These only describe. What changed between the days (machine, kernel, neighbours) is in the
//! difference too, and no test can take it out.

use crate::paired::{mean_ranks, median_of};
use crate::{Interval, normal};

/// Up to this many values of the smaller sample times all values, p is exact.
const EXACT_MAX: usize = 800;

/// The Mann–Whitney test of two independent samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MannWhitney {
    /// In how many of all comparisons B was lower, ties as halves.
    pub u: f64,
    /// The two-sided p-value.
    pub p: f64,
    /// Whether p is exact, of all ways to share these values out, ties with their mean ranks; else it is
    /// the normal approximation with corrections for ties and continuity.
    pub exact: bool,
    /// Cliff's delta: P(B > A) − P(B < A), from −1 to 1.
    pub delta: f64,
    /// The Hodges–Lehmann estimate of B − A: the median of all differences.
    pub shift: f64,
}

/// Compares `b` with `a`; `None` if one of them is empty.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Option<MannWhitney> {
    let mut differences: Vec<f64> = b.iter().flat_map(|b| a.iter().map(move |a| b - a)).collect();
    let pairs = differences.len() as f64;
    let shift = median_of(&mut differences)?;
    let count = |holds: fn(f64) -> bool| differences.iter().filter(|d| holds(**d)).count() as f64;
    let (lower, higher) = (count(|d| d < 0.0), count(|d| d > 0.0));
    let u = lower + (pairs - lower - higher) / 2.0;
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    let exact = is_exact(a.len(), b.len());
    let p =
        if exact { exact_p(&all, a.len(), u) } else { normal_p(a.len(), b.len(), u, ties(&all)) };
    Some(MannWhitney { u, p, exact, delta: (higher - lower) / pairs, shift })
}

/// The smallest p-value that samples of these sizes can have: two of all ways to share values out are the
/// most extreme ones.
pub fn least_p(first: usize, second: usize) -> f64 {
    let ways = (1..=first).fold(1.0, |ways, k| ways * (second + k) as f64 / k as f64);
    (2.0_f64 / ways).min(1.0)
}

fn is_exact(first: usize, second: usize) -> bool {
    first.min(second).saturating_mul(first + second) <= EXACT_MAX
}

/// Σ (t³ − t) over groups of `t` equal values.
fn ties(values: &[f64]) -> f64 {
    let mut ranks = mean_ranks(values);
    ranks.sort_by(f64::total_cmp);
    ranks.chunk_by(|a, b| a == b).map(|tied| (tied.len() as f64).powi(3) - tied.len() as f64).sum()
}

fn normal_p(first: usize, second: usize, u: f64, ties: f64) -> f64 {
    let variance = deviation_squared(first, second, ties);
    if variance <= 0.0 {
        return 1.0;
    }
    let distance = ((u - (first * second) as f64 / 2.0).abs() - 0.5).max(0.0);
    (2.0 * normal::cdf(-distance / variance.sqrt())).min(1.0)
}

/// The interval of the shift from `a` to `b` that inverts the test (Moses, 1965): from the differences
/// of all pairs of values, as many cut off at both ends as the test at `alpha` rejects. Assumes that the
/// groups have the same shape. Values that tie count as values of a distribution without ties that were
/// rounded: with its ends included, the interval holds the shift at least as often (Noether, 1967). `None`
/// where even all differences are no such interval, as with three values of each at 0.05, equal or not.
pub fn shift_interval(a: &[f64], b: &[f64], alpha: f64) -> Option<Interval> {
    let mut differences: Vec<f64> = b.iter().flat_map(|b| a.iter().map(move |a| b - a)).collect();
    differences.sort_by(f64::total_cmp);
    let cut = if is_exact(a.len(), b.len()) {
        let places: Vec<f64> = (0..a.len() + b.len()).map(|place| place as f64).collect();
        let row = exact(&places, a.len());
        let total: f64 = row.iter().map(|(_, ways)| ways).sum();
        let mut below = 0.0;
        let rejected = row.iter().take_while(|(_, ways)| {
            below += ways / total;
            below <= alpha / 2.0
        });
        rejected.count()
    } else {
        let half = differences.len() as f64 / 2.0;
        let spread = (deviation_squared(a.len(), b.len(), 0.0)).sqrt();
        // The continuity correction of the test is half a step outwards.
        let rejected = half - 0.5 + normal::quantile(alpha / 2.0) * spread;
        if rejected < 0.0 { 0 } else { rejected.floor() as usize + 1 }
    };
    let low = *differences.get(cut.checked_sub(1)?)?;
    let high = *differences.get(differences.len().checked_sub(cut)?)?;
    (low <= high).then_some(Interval { low, high })
}

/// The variance of U.
fn deviation_squared(first: usize, second: usize, ties: f64) -> f64 {
    let (m, n) = (first as f64, second as f64);
    let all = m + n;
    m * n / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)))
}

/// The part of all ways whose U is as far from the middle, `all` having the values of the first sample first.
fn exact_p(all: &[f64], first: usize, u: f64) -> f64 {
    let row = exact(all, first);
    let total: f64 = row.iter().map(|(_, ways)| ways).sum();
    let middle = (first * (all.len() - first)) as f64 / 2.0;
    let far = row.iter().filter(|(other, _)| (other - middle).abs() >= (u - middle).abs());
    (far.map(|(_, ways)| ways).sum::<f64>() / total).min(1.0)
}

/// The values that U can have, from the lowest, and in how many of all ways to take the smaller of both
/// samples out of `all` it has each. That of the other sample is as far from the middle.
fn exact(all: &[f64], first: usize) -> Vec<(f64, f64)> {
    let size = first.min(all.len() - first);
    // Twice a mean rank is a whole number.
    let ranks: Vec<usize> = mean_ranks(all).iter().map(|rank| (rank * 2.0) as usize).collect();
    let width = 2 * all.len() * size + 1;
    // Ways to take so many values with this sum of ranks (Mann and Whitney, 1947; Streitberg and Röhmel, 1986).
    let mut ways = vec![vec![0.0_f64; width]; size + 1];
    if let Some(none) = ways.first_mut().and_then(|row| row.first_mut()) {
        *none = 1.0;
    }
    for rank in ranks {
        for taken in (1..=size).rev() {
            let Some((fewer, row)) = ways.split_at_mut_checked(taken) else { continue };
            let (Some(fewer), Some(row)) = (fewer.last(), row.first_mut()) else { continue };
            row.iter_mut().skip(rank).zip(fewer).for_each(|(slot, ways)| *slot += ways);
        }
    }
    let least = (size * (size + 1)) as f64 / 2.0;
    let sums = ways.pop().unwrap_or_default().into_iter().enumerate();
    let used = sums.filter(|(_, ways)| *ways > 0.0);
    used.map(|(sum, ways)| (sum as f64 / 2.0 - least, ways)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The permeability of membranes (Hollander and Wolfe, 1973), the example of R's `wilcox.test`: with
    /// `conf.int = TRUE` −0.15 to 0.76 around 0.305, two-sided p 0.2544.
    #[test]
    fn the_interval_of_the_published_example_inverts_the_test() {
        let term = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        let earlier = [1.15, 0.88, 0.90, 0.74, 1.21];
        let test = mann_whitney(&earlier, &term).unwrap();
        assert!((test.shift - 0.305).abs() < 1e-9 && (test.p - 0.2544).abs() < 5e-5, "{test:?}");
        let interval = shift_interval(&earlier, &term, 0.05).unwrap();
        assert!((interval.low + 0.15).abs() < 1e-9, "{interval:?}");
        assert!((interval.high - 0.76).abs() < 1e-9, "{interval:?}");
    }

    #[test]
    fn an_interval_excludes_zero_where_the_test_rejects_and_needs_enough_values() {
        for shift in 0..40 {
            let shift = f64::from(shift) * 0.31;
            for count in [5, 8, 30] {
                let a: Vec<f64> =
                    (0..count).map(|n| f64::from(n * n % 17) + 0.01 * f64::from(n)).collect();
                let b: Vec<f64> = a.iter().map(|value| value * 1.1 + shift + 0.003).collect();
                let p = mann_whitney(&a, &b).unwrap().p;
                let interval = shift_interval(&a, &b, 0.05).unwrap();
                assert_eq!(p <= 0.05, !interval.contains(0.0), "{count} {shift} {p} {interval:?}");
            }
        }
        assert_eq!(shift_interval(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0], 0.05), None);
        assert_eq!(shift_interval(&[], &[1.0], 0.05), None);
    }

    #[test]
    fn ties_of_few_values_have_the_exact_p_and_no_interval() {
        // 2 of the 20 ways to share them out, and 2 of 6 with two values each.
        let test = mann_whitney(&[3.0; 3], &[4.0; 3]).unwrap();
        assert!((test.p - 0.1).abs() < 1e-12 && test.exact, "{test:?}");
        assert!((least_p(3, 3) - 0.1).abs() < 1e-12);
        assert!((mann_whitney(&[3.0; 2], &[4.0; 2]).unwrap().p - least_p(2, 2)).abs() < 1e-12);
        assert!((mann_whitney(&[3.0; 9], &[3.0; 4]).unwrap().p - 1.0).abs() < 1e-12);
        assert_eq!(shift_interval(&[3.0; 2], &[3.0; 2], 0.1), None);
        assert_eq!(shift_interval(&[3.0; 3], &[3.0; 3], 0.05), None);
        let many = shift_interval(&[3.0; 10], &[3.0; 10], 0.05);
        assert_eq!(many, Some(Interval { low: 0.0, high: 0.0 }));
    }

    #[test]
    fn p_does_not_depend_on_which_sample_is_the_first() {
        let (a, b) = ([1.0, 2.0, 2.0, 7.0, 9.0, 9.0, 11.0], [2.0, 9.0, 12.0, 13.0]);
        let (one, other) = (mann_whitney(&a, &b).unwrap(), mann_whitney(&b, &a).unwrap());
        assert!((one.p - other.p).abs() < 1e-12, "{one:?} {other:?}");
    }
}
