//! One metric of two servers, from paired differences to a verdict.

use crate::paired::{self, Side, SignFlip, Statistic};
use crate::power::{Plan, Resampled};
use crate::{Interval, bootstrap, normal};

/// Fewer pairs than this get the inverted test instead of a bootstrap.
const BOOTSTRAP_MIN: usize = 10;

/// The differences that do not matter, in units of the differences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margin {
    /// The lowest, negative.
    pub low: f64,
    /// The highest, positive.
    pub high: f64,
}

impl Margin {
    /// Ratios from 1 − `part` to 1 + `part`, for differences that are logarithms.
    pub fn ratio(part: f64) -> Self {
        Self { low: (1.0 - part.min(0.999)).ln(), high: (1.0 + part).ln() }
    }

    /// Differences from −`size` to `size`.
    pub fn absolute(size: f64) -> Self {
        Self { low: -size, high: size }
    }
}

/// What is fixed before the first block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Level and power.
    pub plan: Plan,
    /// Resamples of a bootstrap.
    pub resamples: usize,
    /// Seed of bootstrap and drawn sign patterns.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { plan: Plan::default(), resamples: 10_000, seed: 1 }
    }
}

/// How an interval was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// BCa over pairs.
    Bca,
    /// The stationary bootstrap, because neighbours are correlated.
    Stationary,
    /// The inverted sign-flip test, because there are few pairs.
    Inverted,
    /// A confidence sequence, which holds at every number of pairs; see [`crate::sequential`].
    AlwaysValid,
}

/// What can be said about B beside A, for a metric of which less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// B is lower.
    Faster,
    /// B is higher.
    Slower,
    /// Any difference is within the margin.
    Equivalent,
    /// None of these is shown.
    Inconclusive,
}

/// All that is known about one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Pairs that had the metric on both sides.
    pub pairs: usize,
    /// The Hodges–Lehmann estimate of the differences.
    pub estimate: f64,
    /// Their median.
    pub median: f64,
    /// Their standard deviation; `None` with one pair.
    pub sigma: Option<f64>,
    /// The confidence interval of the estimate; `None` with too few pairs for one.
    pub interval: Option<Interval>,
    /// How the interval was made.
    pub method: Method,
    /// The correlation of neighbours; `None` where it is not defined.
    pub lag_one: Option<f64>,
    /// The test of no difference.
    pub difference: SignFlip,
    /// The larger p-value of the two one-sided tests against the margin (TOST).
    pub equivalence_p: f64,
    /// The p-value of the one-sided test that B is worse than the margin allows.
    pub worse_p: f64,
    /// The verdict, with the p-values as they are.
    pub verdict: Verdict,
}

impl Comparison {
    /// The verdict with these p-values, say adjusted ones, in place of its own.
    ///
    /// A difference needs the test and the interval; what is within the margin is equivalent even if
    /// it is surely not zero.
    pub fn verdict_with(&self, difference_p: f64, equivalence_p: f64, alpha: f64) -> Verdict {
        let excludes_zero = self.interval.is_some_and(|interval| !interval.contains(0.0));
        if equivalence_p <= alpha {
            Verdict::Equivalent
        } else if difference_p <= alpha && excludes_zero {
            if self.estimate < 0.0 { Verdict::Faster } else { Verdict::Slower }
        } else {
            Verdict::Inconclusive
        }
    }

    /// Whether B is shown to be no worse than the margin allows.
    pub fn is_no_worse(&self, alpha: f64) -> bool {
        self.worse_p <= alpha
    }

    /// How many pairs in total would probably decide, were the estimate true: for a difference or
    /// for equivalence. `differences` are those it was made from. `None` if more than can be planned.
    pub fn pairs_needed(&self, differences: &[f64], margin: Margin, plan: Plan) -> Option<usize> {
        let noise: Vec<f64> = differences.iter().map(|d| d - self.estimate).collect();
        if noise.iter().all(|d| *d == 0.0) {
            return Some(plan.fewest());
        }
        Resampled::new(plan, &noise, 1).pairs(self.estimate, Some(margin))
    }
}

/// Compares two servers by the `differences` of their pairs, in the order of time; `None` without
/// any. All must be finite.
pub fn compare(differences: &[f64], margin: Margin, settings: &Settings) -> Option<Comparison> {
    let alpha = settings.plan.alpha;
    let ranks = Statistic::SignedRanks;
    let test = |shift: f64, side: Side, purpose: u64| {
        let shifted: Vec<f64> = differences.iter().map(|d| d - shift).collect();
        paired::sign_flip(&shifted, ranks, side, lab_random::at(settings.seed, purpose))
    };
    let difference = test(0.0, Side::Both, 21)?;
    let above_low = test(margin.low, Side::Greater, 22)?;
    let below_high = test(margin.high, Side::Less, 23)?;
    let lag_one = paired::lag_one(differences);
    let (method, interval) = interval(differences, lag_one, settings);
    let mut comparison = Comparison {
        pairs: differences.len(),
        estimate: paired::hodges_lehmann(differences)?,
        median: paired::median(differences)?,
        sigma: paired::standard_deviation(differences),
        interval,
        method,
        lag_one,
        difference,
        equivalence_p: above_low.p.max(below_high.p),
        worse_p: below_high.p,
        verdict: Verdict::Inconclusive,
    };
    comparison.verdict =
        comparison.verdict_with(comparison.difference.p, comparison.equivalence_p, alpha);
    Some(comparison)
}

fn interval(
    differences: &[f64],
    lag_one: Option<f64>,
    settings: &Settings,
) -> (Method, Option<Interval>) {
    let (alpha, resamples, seed) = (settings.plan.alpha, settings.resamples, settings.seed);
    if differences.len() < BOOTSTRAP_MIN {
        return (Method::Inverted, paired::inverted(differences, alpha));
    }
    match lag_one.filter(|lag| is_correlated(*lag, differences.len())) {
        Some(lag) => {
            let length = bootstrap::run_length(lag, differences.len());
            let found = bootstrap::stationary(differences, length, alpha, resamples, seed);
            (Method::Stationary, found)
        }
        None => (Method::Bca, bootstrap::bca(differences, alpha, resamples, seed)),
    }
}

/// Whether independent values would show such a correlation of neighbours in fewer than 5 % of cases:
/// theirs has a mean of −1/n and a variance of about 1/n.
fn is_correlated(lag_one: f64, count: usize) -> bool {
    let count = count as f64;
    (lag_one + 1.0 / count).abs() > normal::quantile(0.975) / count.sqrt()
}

#[cfg(test)]
mod tests;
