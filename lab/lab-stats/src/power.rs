//! What can be found with how many pairs, given the spread that A/A blocks show.

use crate::paired::mean_ranks;
use crate::{Margin, normal};
use lab_random::Stream;

/// The relative efficiency of signed ranks for normal differences is 3/π; for heavy tails it is
/// higher, and plans are then on the safe side.
const EFFICIENCY: f64 = 3.0 / std::f64::consts::PI;
/// More pairs than this are not planned.
pub const PAIRS_MAX: usize = 1_000_000;

/// A test to be planned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// The level of the test.
    pub alpha: f64,
    /// The wanted chance to find a real difference.
    pub power: f64,
}

impl Default for Plan {
    fn default() -> Self {
        Self { alpha: 0.05, power: 0.8 }
    }
}

impl Plan {
    /// The fewest pairs with which the two-sided test can reject at all: 2 / 2^n ≤ alpha.
    pub fn fewest(&self) -> usize {
        (1.0 - self.alpha.log2()).ceil().max(1.0) as usize
    }

    /// How many standard errors an effect must measure, with `pairs` pairs; `tail` of the level is
    /// on the side of the effect.
    fn width(&self, pairs: usize, tail: f64, power: f64) -> f64 {
        let freedom = pairs.saturating_sub(1) as f64;
        normal::student(1.0 - tail, freedom) + normal::student(power, freedom)
    }

    /// The smallest effect that `pairs` pairs find with the wanted power, in units of the
    /// differences; infinite if they are too few.
    pub fn detectable(&self, sigma: f64, pairs: usize) -> f64 {
        if pairs < self.fewest() || pairs < 2 {
            return f64::INFINITY;
        }
        let width = self.width(pairs, self.alpha / 2.0, self.power);
        width * sigma / (pairs as f64 * EFFICIENCY).sqrt()
    }

    /// How many pairs find a difference of `effect`; at most [`PAIRS_MAX`].
    pub fn pairs_for_difference(&self, sigma: f64, effect: f64) -> usize {
        self.smallest(|pairs| self.detectable(sigma, pairs) <= effect.abs())
    }

    /// How many pairs show that a true difference of `effect` lies within `margin` on both sides;
    /// at most [`PAIRS_MAX`].
    pub fn pairs_for_equivalence(&self, sigma: f64, margin: f64, effect: f64) -> usize {
        let room = margin - effect.abs();
        // At an effect of zero both one-sided tests must succeed, else only the nearer one counts.
        let power =
            if effect.abs() < margin / 10.0 { self.power.midpoint(1.0) } else { self.power };
        self.smallest(|pairs| {
            let width = self.width(pairs, self.alpha, power);
            room > 0.0 && width * sigma / (pairs as f64 * EFFICIENCY).sqrt() <= room
        })
    }

    /// The smallest number of pairs, from the fewest on, that is enough; `enough` must stay true.
    fn smallest(&self, enough: impl Fn(usize) -> bool) -> usize {
        let (mut low, mut high) = (self.fewest().max(2), PAIRS_MAX);
        while low < high {
            let middle = low.midpoint(high);
            if enough(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }
}

/// Experiments drawn for each query to [`Resampled`].
const EXPERIMENTS: usize = 300;
/// The most pairs that are tried by drawing.
const DRAWN_MAX: usize = 3_000;

/// Plans by drawing experiments from differences that were seen, with signs by a coin: no distribution
/// is assumed, and disturbed blocks come as often as they came.
#[derive(Clone, Debug)]
pub struct Resampled<'n> {
    plan: Plan,
    noise: &'n [f64],
    seed: u64,
}

impl<'n> Resampled<'n> {
    /// `noise` are differences around zero.
    pub fn new(plan: Plan, noise: &'n [f64], seed: u64) -> Self {
        Self { plan, noise, seed }
    }

    /// The fewest pairs with which a true difference of `effect` is decided in as many experiments as
    /// wanted: found to be one, or to lie within `margin`. `None` if there is no noise to draw from or
    /// more pairs are needed than are tried.
    pub fn pairs(&self, effect: f64, margin: Option<Margin>) -> Option<usize> {
        let enough = |pairs: usize| self.decided(pairs, effect, margin) >= self.plan.power;
        let mut pairs = self.plan.fewest();
        let mut short = pairs;
        while !self.noise.is_empty() && pairs <= DRAWN_MAX {
            if enough(pairs) {
                // Between the last number that was too small and this one.
                return (short..=pairs)
                    .step_by(1 + (pairs - short) / 8)
                    .find(|n| enough(*n))
                    .or(Some(pairs));
            }
            short = pairs;
            pairs += 1 + pairs / 4;
        }
        None
    }

    /// The smallest difference that `pairs` pairs find as often as wanted, within 2 %; infinite if
    /// there is none.
    pub fn detectable(&self, pairs: usize) -> f64 {
        let largest = self.noise.iter().fold(0.0_f64, |most, d| most.max(d.abs()));
        let (mut low, mut high) = (0.0, 4.0 * largest);
        let finds = |effect: f64| self.decided(pairs, effect, None) >= self.plan.power;
        if pairs < self.plan.fewest() || self.noise.is_empty() || pairs > DRAWN_MAX {
            return f64::INFINITY;
        }
        if largest == 0.0 {
            return 0.0;
        }
        if !finds(high) {
            return f64::INFINITY;
        }
        while high - low > 0.02 * high && high > largest * 1e-6 {
            let middle = f64::midpoint(low, high);
            if finds(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        high
    }

    /// The part of the drawn experiments that is decided.
    fn decided(&self, pairs: usize, effect: f64, margin: Option<Margin>) -> f64 {
        let mut stream = Stream::new(self.seed, 51);
        let mut differences = Vec::with_capacity(pairs);
        let two_sided = normal::quantile(1.0 - self.plan.alpha / 2.0);
        let one_sided = normal::quantile(1.0 - self.plan.alpha);
        let decided = (0..EXPERIMENTS).filter(|_| {
            differences.clear();
            differences.extend((0..pairs).map(|_| {
                let drawn = self.noise.get(stream.below(self.noise.len())).copied().unwrap_or(0.0);
                effect + if stream.unit() < 0.5 { drawn } else { -drawn }
            }));
            let found = z(&differences, 0.0).abs() >= two_sided;
            found
                || margin.is_some_and(|margin| {
                    z(&differences, margin.low) >= one_sided
                        && z(&differences, margin.high) <= -one_sided
                })
        });
        decided.count() as f64 / EXPERIMENTS as f64
    }
}

/// Wilcoxon's statistic of the differences less `centre`, standardized, with continuity correction.
fn z(differences: &[f64], centre: f64) -> f64 {
    let shifted: Vec<f64> = differences.iter().map(|d| d - centre).collect();
    let ranks = mean_ranks(&shifted.iter().map(|d| d.abs()).collect::<Vec<_>>());
    let signed = shifted.iter().zip(&ranks).filter(|(d, _)| **d != 0.0);
    let (sum, squares) = signed.fold((0.0, 0.0), |(sum, squares), (d, rank)| {
        (sum + rank * d.signum(), squares + rank * rank)
    });
    if squares > 0.0 { (sum.abs() - 1.0).max(0.0) * sum.signum() / f64::sqrt(squares) } else { 0.0 }
}

/// The standard deviation that the true one does not exceed with `confidence`, given `sigma` of
/// `pairs` pairs: a plan made with it keeps its power in that part of all cases (Browne, 1995).
pub fn sigma_upper(sigma: f64, pairs: usize, confidence: f64) -> f64 {
    let freedom = pairs.saturating_sub(1) as f64;
    let chi = normal::chi_squared(1.0 - confidence, freedom);
    if chi > 0.0 { sigma * (freedom / chi).sqrt() } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_pairs_find_smaller_differences() {
        let plan = Plan::default();
        assert_eq!(plan.fewest(), 6);
        assert_eq!(plan.detectable(0.05, 5), f64::INFINITY);
        let found: Vec<_> = [6, 10, 20, 100].map(|n| plan.detectable(0.05, n)).to_vec();
        assert!(found.windows(2).all(|pair| pair[1] < pair[0]), "{found:?}");
        let pairs = plan.pairs_for_difference(0.05, 0.03);
        assert!(plan.detectable(0.05, pairs) <= 0.03 && plan.detectable(0.05, pairs - 1) > 0.03);
    }

    #[test]
    fn drawn_plans_agree_with_those_of_normal_noise() {
        let noise: Vec<f64> =
            (1..=99).map(|n| 0.04 * normal::quantile(f64::from(n) / 100.0)).collect();
        let plan = Plan::default();
        let drawn = Resampled::new(plan, &noise, 1);
        let (got, expected) =
            (drawn.pairs(0.03, None).unwrap(), plan.pairs_for_difference(0.04, 0.03));
        assert!(got.abs_diff(expected) <= 3, "{got} {expected}");
        let (got, expected) = (drawn.detectable(20), plan.detectable(0.04, 20));
        assert!((got / expected - 1.0).abs() < 0.15, "{got} {expected}");
        let (got, expected) = (
            drawn.pairs(0.0, Some(Margin { low: -0.02, high: 0.02 })).unwrap(),
            plan.pairs_for_equivalence(0.04, 0.02, 0.0),
        );
        // Drawn, a false call counts as decided too.
        assert!(got <= expected && got + expected / 4 >= expected, "{got} {expected}");
    }

    #[test]
    fn drawing_from_nothing_plans_nothing() {
        let plan = Plan::default();
        assert_eq!(Resampled::new(plan, &[], 1).pairs(0.1, None), None);
        assert_eq!(Resampled::new(plan, &[], 1).detectable(10), f64::INFINITY);
        assert_eq!(Resampled::new(plan, &[0.0, 0.0], 1).detectable(10), 0.0);
        assert_eq!(Resampled::new(plan, &[0.1, 0.2], 1).pairs(0.0, None), None);
        assert_eq!(Resampled::new(plan, &[0.1, 0.2], 1).detectable(5), f64::INFINITY);
    }

    #[test]
    fn what_cannot_be_found_takes_the_most_pairs() {
        let plan = Plan::default();
        assert_eq!(plan.pairs_for_difference(0.05, 0.0), PAIRS_MAX);
        assert_eq!(plan.pairs_for_equivalence(0.05, 0.02, 0.02), PAIRS_MAX);
        assert_eq!(plan.pairs_for_difference(0.0, 0.01), 6);
        assert_eq!(sigma_upper(0.1, 1, 0.8), f64::INFINITY);
    }
}
