//! A comparison that may be read after every pair and ended as soon as it is decided.
//!
//! It bets on signs. Under the hypothesis that the centre is `c`, and if a fair coin ordered the pair,
//! the sign `s` of `d − c` is a toss whatever its size and all pairs before were. So the factor
//! `2 / (1 + exp(−2λsr))`, with `r` the rank of the size among those so far divided by their number, is
//! 1 on average, and the product over the pairs, the *evidence*, is a martingale. It exceeds `1 / α` at
//! any time with a probability of at most `α` (Ville, 1939), however often it is looked at. Several `λ`
//! share the stake, because the size of the effect is not known. Ranks by the time of arrival (Reynolds,
//! 1975) keep this true for tails of any weight, without knowing the spread.
//!
//! The sum of `sr` is one of comparisons of Walsh averages with `c`, as is Wilcoxon's statistic, and each
//! factor can only fall as `c` rises. So the centres that were never rejected are an interval, which is
//! the confidence sequence: it holds at all times together.

use crate::paired::{self, SignFlip};
use crate::{Comparison, Interval, Margin, Method, Settings, Verdict};
use lab_random::Stream;

/// The bets, with equal stakes: small ones for small effects; with the last one, seven pairs of the same
/// sign decide at 5 %.
const BETS: [f64; 5] = [0.25, 0.5, 1.0, 2.0, 64.0];
/// Experiments drawn by [`pairs_needed`].
const EXPERIMENTS: u64 = 50;
/// The pairs of each at most.
pub const DRAWN_MAX: usize = 200;

/// The evidence so far that the centre is above one value, pair by pair.
#[derive(Clone, Debug)]
struct Above {
    centre: f64,
    seen: Vec<f64>,
    wealth: [f64; BETS.len()],
    /// The most it ever was: what was rejected once remains so.
    highest: f64,
}

impl Above {
    fn new(centre: f64) -> Self {
        Self { centre, seen: Vec::new(), wealth: [1.0; BETS.len()], highest: 1.0 }
    }

    fn of(differences: &[f64], centre: f64) -> Self {
        let mut above = Self::new(centre);
        differences.iter().for_each(|difference| above.add(*difference));
        above
    }

    fn add(&mut self, difference: f64) {
        let own = sign(difference - self.centre);
        let others: f64 = self.seen.iter().map(|earlier| self.walsh(*earlier, difference)).sum();
        self.seen.push(difference);
        let rank = (own + others) / self.seen.len() as f64;
        for (wealth, bet) in self.wealth.iter_mut().zip(BETS) {
            *wealth *= 2.0 / (1.0 + (-2.0 * bet * rank).exp());
        }
        let mean = self.wealth.iter().sum::<f64>() / BETS.len() as f64;
        self.highest = self.highest.max(mean);
    }

    /// What an earlier difference adds to the signed rank of a later one: its sign if the later one is
    /// farther from the centre, half of it if both are equally far.
    fn walsh(&self, earlier: f64, later: f64) -> f64 {
        // The same arithmetic as that of `paired::walsh_averages`, so that ties are ties.
        let above = sign(earlier.midpoint(later) - self.centre);
        match later.total_cmp(&earlier) {
            std::cmp::Ordering::Greater => above.midpoint(1.0),
            std::cmp::Ordering::Less => above.midpoint(-1.0),
            std::cmp::Ordering::Equal => above / 2.0,
        }
    }
}

/// −1, 0 or 1.
fn sign(value: f64) -> f64 {
    if value == 0.0 { 0.0 } else { value.signum() }
}

/// The p-values that hold at any time, of one comparison.
#[derive(Clone, Debug)]
struct Looks {
    above_zero: Above,
    below_zero: Above,
    above_low: Above,
    below_high: Above,
}

impl Looks {
    fn new(margin: Margin) -> Self {
        Self {
            above_zero: Above::new(0.0),
            below_zero: Above::new(0.0),
            above_low: Above::new(margin.low),
            below_high: Above::new(-margin.high),
        }
    }

    fn add(&mut self, difference: f64) {
        self.above_zero.add(difference);
        self.above_low.add(difference);
        self.below_zero.add(-difference);
        self.below_high.add(-difference);
    }

    fn difference_p(&self) -> f64 {
        (2.0 / self.above_zero.highest.max(self.below_zero.highest)).min(1.0)
    }

    fn equivalence_p(&self) -> f64 {
        (1.0 / self.above_low.highest.min(self.below_high.highest)).min(1.0)
    }

    fn worse_p(&self) -> f64 {
        (1.0 / self.below_high.highest).min(1.0)
    }
}

/// As [`compare()`](crate::compare()), with p-values and an interval that hold at all numbers of pairs
/// together: it may be called after every pair, and the first verdict may be taken.
///
/// The order of each pair must have been drawn by a coin of its own.
pub fn compare(differences: &[f64], margin: Margin, settings: &Settings) -> Option<Comparison> {
    let alpha = settings.plan.alpha;
    let mut looks = Looks::new(margin);
    differences.iter().for_each(|difference| looks.add(*difference));
    let mut comparison = Comparison {
        pairs: differences.len(),
        estimate: paired::hodges_lehmann(differences)?,
        median: paired::median(differences)?,
        sigma: paired::standard_deviation(differences),
        interval: interval(differences, alpha),
        method: Method::AlwaysValid,
        lag_one: paired::lag_one(differences),
        difference: SignFlip { p: looks.difference_p(), patterns: 0, exact: false },
        equivalence_p: looks.equivalence_p(),
        worse_p: looks.worse_p(),
        verdict: Verdict::Inconclusive,
    };
    comparison.verdict =
        comparison.verdict_with(comparison.difference.p, comparison.equivalence_p, alpha);
    Some(comparison)
}

/// The fewest pairs that can show a difference; `None` if none of [`DRAWN_MAX`] can.
pub fn fewest(alpha: f64) -> Option<usize> {
    let mut looks = Looks::new(Margin::absolute(f64::INFINITY));
    (1..=DRAWN_MAX).find(|_| {
        looks.add(1.0);
        looks.difference_p() <= alpha
    })
}

/// The confidence sequence at its last member: the centres that were never rejected. `None` as long as
/// one side has no end.
pub fn interval(differences: &[f64], alpha: f64) -> Option<Interval> {
    let negative: Vec<f64> = differences.iter().map(|difference| -difference).collect();
    Some(Interval { low: lower(differences, alpha)?, high: -lower(&negative, alpha)? })
}

/// The lower end: evidence changes at Walsh averages only, and falls from each to the next.
fn lower(differences: &[f64], alpha: f64) -> Option<f64> {
    let mut averages = paired::walsh_averages(differences);
    averages.sort_unstable_by(f64::total_cmp);
    averages.dedup();
    let rejected = |centre: f64| Above::of(differences, centre).highest >= 2.0 / alpha;
    let first = averages.partition_point(|average| rejected(*average));
    let below = first.checked_sub(1).and_then(|last| averages.get(last)).copied();
    let Some(here) = averages.get(first).copied() else { return below };
    // What lies between two averages is rejected or not as a whole.
    let between = below.map_or(here - 1.0 - here.abs(), |below| below.midpoint(here));
    if rejected(between) { Some(here) } else { below }
}

/// After how many pairs in all the wanted part of experiments like this one would be decided, were the
/// `estimate` true; `None` if that is more than [`DRAWN_MAX`].
pub fn pairs_needed(
    differences: &[f64],
    estimate: f64,
    margin: Margin,
    settings: &Settings,
) -> Option<usize> {
    let noise: Vec<f64> = differences.iter().map(|difference| difference - estimate).collect();
    let mut needed: Vec<usize> = (0..EXPERIMENTS)
        .map(|experiment| {
            let mut stream = Stream::new(lab_random::at(settings.seed, 24), experiment);
            let draw = || {
                let size = noise.get(stream.below(noise.len())).copied().unwrap_or(0.0);
                estimate + if stream.below(2) == 0 { size } else { -size }
            };
            decided_after(draw, margin, settings.plan.alpha)
        })
        .collect();
    needed.sort_unstable();
    let part = (EXPERIMENTS as f64 * settings.plan.power).ceil() as usize;
    needed.get(part.saturating_sub(1)).copied().filter(|pairs| *pairs <= DRAWN_MAX)
}

/// The pairs that an experiment takes, one more than the most if it is not decided by then.
fn decided_after(mut draw: impl FnMut() -> f64, margin: Margin, alpha: f64) -> usize {
    let mut looks = Looks::new(margin);
    for pairs in 1..=DRAWN_MAX {
        looks.add(draw());
        if looks.difference_p() <= alpha || looks.equivalence_p() <= alpha {
            return pairs;
        }
    }
    DRAWN_MAX + 1
}

#[cfg(test)]
mod tests;
