//! Differences of pairs: where their centre is, and whether chance alone explains it.
//!
//! The test flips signs. If both servers are the same, the coin that ordered each pair also decided
//! the sign of its difference, so all 2^n patterns of signs were equally likely, and the p-value is
//! the part of them that is as extreme as what was seen. Nothing is assumed about distributions.
//! The statistic is Wilcoxon's sum of signed ranks, the one that belongs to the Hodges–Lehmann
//! estimate (Hodges and Lehmann, 1963), so that one disturbed block cannot hide a difference.

use crate::Interval;
use lab_random::at;

/// Up to this many pairs all patterns of signs are tried.
pub const EXACT_MAX: usize = 20;
/// Patterns drawn if there are more pairs.
pub const DRAWS: u64 = 100_000;

/// Which differences speak against the hypothesis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The centre is below zero.
    Less,
    /// The centre is above zero.
    Greater,
    /// Either.
    Both,
}

/// What is summed up over the pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// The ranks of the sizes, with the signs of the differences; ties share their mean rank.
    SignedRanks,
    /// The differences themselves.
    Sum,
}

/// The result of a sign-flip test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignFlip {
    /// The probability of something as extreme if there is no difference.
    pub p: f64,
    /// How many patterns of signs were tried.
    pub patterns: u64,
    /// Whether these were all there are.
    pub exact: bool,
}

/// The median; `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    median_of(&mut values.to_vec())
}

/// As [`median`], in place.
pub(crate) fn median_of(values: &mut [f64]) -> Option<f64> {
    let half = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let odd = !values.len().is_multiple_of(2);
    let (below, &mut upper, _) = values.select_nth_unstable_by(half, f64::total_cmp);
    if odd {
        return Some(upper);
    }
    let lower = below.iter().copied().max_by(f64::total_cmp)?;
    Some(lower.midpoint(upper))
}

/// The means of all pairs of values, each with itself included (Walsh averages), unsorted.
pub fn walsh_averages(values: &[f64]) -> Vec<f64> {
    let mut averages = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
    for (at, first) in values.iter().enumerate() {
        averages.extend(values.iter().skip(at).map(|second| first.midpoint(*second)));
    }
    averages
}

/// The Hodges–Lehmann estimate of the centre, the median of the Walsh averages; `None` without values.
pub fn hodges_lehmann(values: &[f64]) -> Option<f64> {
    median_of(&mut walsh_averages(values))
}

/// The standard deviation with n − 1; `None` with fewer than two values.
pub fn standard_deviation(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// The correlation of each value with its successor; `None` if it is not defined.
pub fn lag_one(values: &[f64]) -> Option<f64> {
    if values.len() < 3 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let square: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let cross: f64 =
        values.windows(2).map(|pair| pair.iter().map(|value| value - mean).product::<f64>()).sum();
    (square > 0.0).then(|| cross / square)
}

/// Mean ranks from 1 of `values`.
pub(crate) fn mean_ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<(f64, usize)> = values.iter().copied().zip(0..).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 1;
    for tied in order.chunk_by(|a, b| a.0 == b.0) {
        let last = first + tied.len() - 1;
        let mean = (first + last) as f64 / 2.0;
        for (_, at) in tied {
            if let Some(rank) = ranks.get_mut(*at) {
                *rank = mean;
            }
        }
        first = last + 1;
    }
    ranks
}

/// Tests whether the differences are centred on zero; `None` without differences.
///
/// All patterns up to [`EXACT_MAX`] pairs, else [`DRAWS`] of `seed` and p = (b + 1) / (m + 1), which
/// keeps the level (Phipson and Smyth, 2010). A difference of zero keeps its rank and has no sign
/// (Pratt, 1959).
pub fn sign_flip(
    differences: &[f64],
    statistic: Statistic,
    side: Side,
    seed: u64,
) -> Option<SignFlip> {
    let weights = match statistic {
        Statistic::Sum => differences.to_vec(),
        Statistic::SignedRanks => {
            let sizes: Vec<f64> = differences.iter().map(|d| d.abs()).collect();
            let signed = |(d, rank): (&f64, f64)| if *d == 0.0 { 0.0 } else { rank * d.signum() };
            differences.iter().zip(mean_ranks(&sizes)).map(signed).collect()
        }
    };
    if weights.is_empty() {
        return None;
    }
    let observed: f64 = weights.iter().sum();
    // Sums of the same numbers in another order differ by rounding and are still ties.
    let slack = weights.iter().map(|weight| weight.abs()).sum::<f64>() * 1e-9;
    let extreme = |sum: f64| match side {
        Side::Less => sum <= observed + slack,
        Side::Greater => sum >= observed - slack,
        Side::Both => sum.abs() >= observed.abs() - slack,
    };
    Some(if weights.len() <= EXACT_MAX {
        all_patterns(&weights, observed, extreme)
    } else {
        drawn_patterns(&weights, seed, extreme)
    })
}

/// Every pattern, each one flip away from the one before (Gray's code).
fn all_patterns(weights: &[f64], observed: f64, extreme: impl Fn(f64) -> bool) -> SignFlip {
    let mut weights = weights.to_vec();
    let mut sum = observed;
    let patterns = 1_u64 << weights.len();
    let mut count = u64::from(extreme(sum));
    for pattern in 1..patterns {
        if let Some(weight) = weights.get_mut(pattern.trailing_zeros() as usize) {
            sum -= 2.0 * *weight;
            *weight = -*weight;
        }
        count += u64::from(extreme(sum));
    }
    SignFlip { p: count as f64 / patterns as f64, patterns, exact: true }
}

fn drawn_patterns(weights: &[f64], seed: u64, extreme: impl Fn(f64) -> bool) -> SignFlip {
    let words = weights.len().div_ceil(64) as u64;
    let mut count = 0_u64;
    for draw in 0..DRAWS {
        let mut sum = 0.0;
        for (word, weights) in weights.chunks(64).enumerate() {
            let mut bits = at(seed, draw * words + word as u64);
            for weight in weights {
                sum += if bits & 1 == 1 { *weight } else { -*weight };
                bits >>= 1;
            }
        }
        count += u64::from(extreme(sum));
    }
    SignFlip { p: (count + 1) as f64 / (DRAWS + 1) as f64, patterns: DRAWS, exact: false }
}

/// The centres that the sign-flip test of signed ranks does not reject at `alpha`: exact for any
/// distribution that is symmetric around its centre, and at least as wide as needed with ties.
///
/// `None` if there are too few pairs to reject anything (fewer than six at 5 %).
pub fn inverted(differences: &[f64], alpha: f64) -> Option<Interval> {
    let mut averages = walsh_averages(differences);
    let rank = critical_rank(differences.len(), alpha)?;
    let highest = averages.len().checked_sub(rank)?;
    averages.sort_by(f64::total_cmp);
    Some(Interval { low: *averages.get(rank - 1)?, high: *averages.get(highest)? })
}

/// The highest `k` with 2 P(W ≤ k − 1) ≤ `alpha` under Wilcoxon's null distribution.
fn critical_rank(pairs: usize, alpha: f64) -> Option<usize> {
    if pairs > 1_000 {
        return None;
    }
    let sums = pairs * (pairs + 1) / 2;
    let mut chance = vec![0.0; sums + 1];
    *chance.first_mut()? = 1.0;
    for rank in 1..=pairs {
        for sum in (0..=sums).rev() {
            let with = sum.checked_sub(rank).and_then(|rest| chance.get(rest)).copied();
            if let Some(slot) = chance.get_mut(sum) {
                *slot = (*slot + with.unwrap_or(0.0)) / 2.0;
            }
        }
    }
    let mut below = 0.0;
    let k = chance.iter().take_while(|chance| {
        below += **chance;
        2.0 * below <= alpha
    });
    Some(k.count()).filter(|k| *k > 0)
}

#[cfg(test)]
mod tests;
