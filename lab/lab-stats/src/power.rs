//! What can be found with how many pairs, given the spread that A/A blocks show.

use crate::normal;

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
    /// The wanted chance to find what is there.
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
    fn what_cannot_be_found_takes_the_most_pairs() {
        let plan = Plan::default();
        assert_eq!(plan.pairs_for_difference(0.05, 0.0), PAIRS_MAX);
        assert_eq!(plan.pairs_for_equivalence(0.05, 0.02, 0.02), PAIRS_MAX);
        assert_eq!(plan.pairs_for_difference(0.0, 0.01), 6);
        assert_eq!(sigma_upper(0.1, 1, 0.8), f64::INFINITY);
    }
}
