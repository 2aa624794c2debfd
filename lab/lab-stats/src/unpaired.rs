//! Two sets of blocks that were not measured in pairs: archives of other days.
//!
//! These only describe. What changed between the days (machine, kernel, neighbours) is in the
//! difference too, and no test can take it out.

use crate::paired::{mean_ranks, median_of};
use crate::{Interval, normal};

/// Up to this many comparisons of a value of A with one of B, without ties, p is exact.
const EXACT_MAX: usize = 400;

/// The Mann–Whitney test of two independent samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MannWhitney {
    /// In how many of all comparisons B was lower, ties as halves.
    pub u: f64,
    /// The two-sided p-value.
    pub p: f64,
    /// Whether p is exact; else it is the normal approximation with corrections for ties and
    /// continuity.
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
    let ties = ties(&all);
    let exact = ties == 0.0 && differences.len() <= EXACT_MAX;
    let p = if exact { exact_p(a.len(), b.len(), u) } else { normal_p(a.len(), b.len(), u, ties) };
    Some(MannWhitney { u, p, exact, delta: (higher - lower) / pairs, shift })
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
/// groups have the same shape. `None` where even all differences are no such interval, as with three
/// values of each at 0.05.
pub fn shift_interval(a: &[f64], b: &[f64], alpha: f64) -> Option<Interval> {
    let mut differences: Vec<f64> = b.iter().flat_map(|b| a.iter().map(move |a| b - a)).collect();
    differences.sort_by(f64::total_cmp);
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    let ties = ties(&all);
    let cut = if ties == 0.0 && differences.len() <= EXACT_MAX {
        let row = exact(a.len(), b.len());
        let total: f64 = row.iter().sum();
        let mut below = 0.0;
        let rejected = row.iter().take_while(|ways| {
            below += **ways / total;
            below <= alpha / 2.0
        });
        rejected.count()
    } else {
        let half = differences.len() as f64 / 2.0;
        let spread = (deviation_squared(a.len(), b.len(), ties)).sqrt();
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

/// Twice the smaller tail of the exact distribution of U.
fn exact_p(first: usize, second: usize, u: f64) -> f64 {
    let row = exact(first, second);
    let total: f64 = row.iter().sum();
    let smaller = u.min((first * second) as f64 - u) as usize;
    let tail: f64 = row.iter().take(smaller + 1).sum();
    (2.0 * tail / total).min(1.0)
}

/// In how many orders of the values U is 0, 1, 2 and so on.
fn exact(first: usize, second: usize) -> Vec<f64> {
    let product = first * second;
    // Ways to reach a sum of ranks, by values of the first sample so far (Mann and Whitney, 1947).
    let mut ways = vec![vec![0.0_f64; product + 1]; first + 1];
    if let Some(none) = ways.first_mut().and_then(|row| row.first_mut()) {
        *none = 1.0;
    }
    for below in 0..=second {
        let mut next = ways.clone();
        for taken in 1..=first {
            for sum in 0..=product {
                let before = sum.checked_sub(below);
                let before = before.and_then(|rest| next.get(taken - 1)?.get(rest).copied());
                let without = if below == 0 { 0.0 } else { get(&ways, taken, sum) };
                if let Some(slot) = next.get_mut(taken).and_then(|row| row.get_mut(sum)) {
                    *slot = without + before.unwrap_or(0.0);
                }
            }
        }
        ways = next;
    }
    ways.pop().unwrap_or_default()
}

fn get(ways: &[Vec<f64>], taken: usize, sum: usize) -> f64 {
    ways.get(taken).and_then(|row| row.get(sum)).copied().unwrap_or(0.0)
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
}
