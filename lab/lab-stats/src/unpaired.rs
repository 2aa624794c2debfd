//! Two sets of blocks that were not measured in pairs: archives of other days.
//!
//! These only describe. What changed between the days (machine, kernel, neighbours) is in the
//! difference too, and no test can take it out.

use crate::normal;
use crate::paired::{mean_ranks, median_of};

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
    let (m, n) = (first as f64, second as f64);
    let all = m + n;
    let variance = m * n / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let distance = ((u - m * n / 2.0).abs() - 0.5).max(0.0);
    (2.0 * normal::cdf(-distance / variance.sqrt())).min(1.0)
}

/// Twice the smaller tail of the exact distribution of U.
fn exact_p(first: usize, second: usize, u: f64) -> f64 {
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
    let row = ways.last().cloned().unwrap_or_default();
    let total: f64 = row.iter().sum();
    let smaller = u.min(product as f64 - u) as usize;
    let tail: f64 = row.iter().take(smaller + 1).sum();
    (2.0 * tail / total).min(1.0)
}

fn get(ways: &[Vec<f64>], taken: usize, sum: usize) -> f64 {
    ways.get(taken).and_then(|row| row.get(sum)).copied().unwrap_or(0.0)
}
