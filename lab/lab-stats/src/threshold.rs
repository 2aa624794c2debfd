//! The level from which on something is no longer achieved, found by trials that each say yes or no.
//!
//! Chance decides near the threshold, and now and then a disturbance decides anywhere. So what is known
//! after some trials is a distribution, by Bayes' rule: a trial at a level is achieved with a probability
//! that falls, as a logistic function of the logarithm of the level, from nearly 1 to nearly 0. How
//! steeply it falls is not known either: several slopes are carried along, as in the method Ψ of
//! Kontsevich and Tyler (1999). Before the first trial, every level in the range is as probable as any
//! other of the same ratio.

use crate::Interval;

/// The resolution of levels, as a logarithm: a tenth of the least precision that makes sense.
const STEP: f64 = 0.001;
/// Places of the range at most: a wider range has a lower resolution.
const PLACES_MAX: usize = 24_000;
/// Scales of the logistic function, as logarithms of levels: from a sharp edge to a very noisy one.
const SCALES: [f64; 4] = [0.002, 0.008, 0.03, 0.12];
/// The part of the trials far below the threshold that fail all the same: something else disturbed them.
const FAILED_BELOW: f64 = 0.06;
/// The part of those far above it that succeed.
const ACHIEVED_ABOVE: f64 = 0.02;

/// What is known of a threshold.
#[derive(Clone, Debug)]
pub struct Threshold {
    /// The logarithm of the lowest level.
    low: f64,
    /// The logarithm from one place to the next.
    step: f64,
    /// For each scale the weight of each place.
    weights: [Vec<f64>; SCALES.len()],
}

impl Threshold {
    /// A threshold that may be anywhere between these two positive levels.
    pub fn between(low: f64, high: f64) -> Self {
        let (low, high) = (low.max(f64::MIN_POSITIVE).ln(), high.max(f64::MIN_POSITIVE).ln());
        let length = (high - low).max(STEP);
        let places = ((length / STEP).ceil() as usize + 1).clamp(2, PLACES_MAX);
        let step = length / (places - 1) as f64;
        Self { low, step, weights: std::array::from_fn(|_| vec![1.0; places]) }
    }

    /// Takes the outcome of a trial at `level`.
    pub fn take(&mut self, level: f64, achieved: bool) {
        let level = level.max(f64::MIN_POSITIVE).ln();
        let mut greatest = f64::MIN_POSITIVE;
        for (scale, weights) in SCALES.iter().zip(&mut self.weights) {
            for (place, weight) in weights.iter_mut().enumerate() {
                let threshold = self.low + place as f64 * self.step;
                let below = 1.0 / (1.0 + ((level - threshold) / scale).exp());
                let achieves = ACHIEVED_ABOVE + (1.0 - ACHIEVED_ABOVE - FAILED_BELOW) * below;
                *weight *= if achieved { achieves } else { 1.0 - achieves };
                greatest = greatest.max(*weight);
            }
        }
        // Only their ratios mean anything, and products of many would become 0.
        self.weights.iter_mut().flatten().for_each(|weight| *weight /= greatest);
    }

    /// The level that the threshold is below with this probability.
    pub fn quantile(&self, part: f64) -> f64 {
        let wanted = self.weights.iter().flatten().sum::<f64>() * part;
        let [first, others @ ..] = &self.weights;
        let mut sum = 0.0;
        for (place, weight) in first.iter().enumerate() {
            let others = others.iter().filter_map(|weights| weights.get(place)).sum::<f64>();
            let weight = weight + others;
            if sum + weight >= wanted {
                let within = if weight > 0.0 { (wanted - sum) / weight } else { 0.5 };
                return (self.low + (place as f64 + within - 0.5) * self.step).exp();
            }
            sum += weight;
        }
        (self.low + first.len() as f64 * self.step).exp()
    }

    /// The level that the threshold is below as probably as above.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The levels between which the threshold is with this probability, as much outside on one side as on
    /// the other.
    pub fn interval(&self, probability: f64) -> Interval {
        let outside = (1.0 - probability) / 2.0;
        Interval { low: self.quantile(outside), high: self.quantile(1.0 - outside) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_any_trial_every_ratio_is_as_probable_as_any_other() {
        let threshold = Threshold::between(10.0, 1_000.0);
        assert!((threshold.median() / 100.0 - 1.0).abs() < 0.01, "{}", threshold.median());
        let Interval { low, high } = threshold.interval(0.5);
        assert!((low / 31.6 - 1.0).abs() < 0.01 && (high / 316.0 - 1.0).abs() < 0.01);
    }

    #[test]
    fn trials_on_both_sides_enclose_the_threshold() {
        let mut threshold = Threshold::between(10.0, 100_000.0);
        for _ in 0..3 {
            threshold.take(950.0, true);
            threshold.take(1_050.0, false);
        }
        let Interval { low, high } = threshold.interval(0.95);
        assert!(900.0 < low && high < 1_200.0 && low < high, "{low} {high}");
        assert!((threshold.median() / 1_000.0 - 1.0).abs() < 0.02, "{}", threshold.median());
    }

    #[test]
    fn one_trial_that_contradicts_the_others_does_not_decide() {
        let mut threshold = Threshold::between(10.0, 100_000.0);
        threshold.take(500.0, false);
        for level in [400.0, 450.0, 500.0, 600.0, 700.0, 800.0, 900.0] {
            threshold.take(level, true);
        }
        (0..2).for_each(|_| threshold.take(1_100.0, false));
        assert!(threshold.interval(0.8).low > 700.0, "{:?}", threshold.interval(0.8));
        // So far below that no slope explains it, and before few others.
        let mut threshold = Threshold::between(10.0, 100_000.0);
        threshold.take(100.0, false);
        [700.0, 800.0, 900.0].iter().for_each(|level| threshold.take(*level, true));
        (0..2).for_each(|_| threshold.take(1_100.0, false));
        assert!(threshold.interval(0.8).low > 600.0, "{:?}", threshold.interval(0.8));
    }

    #[test]
    fn no_number_of_trials_makes_it_lose_what_it_knows() {
        let mut threshold = Threshold::between(1.0, 1e9);
        for _ in 0..300 {
            threshold.take(99.0, true);
            threshold.take(101.0, false);
        }
        assert!((99.0..101.0).contains(&threshold.median()), "{}", threshold.median());
    }
}
