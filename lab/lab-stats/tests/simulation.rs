//! Levels, coverage and power, by drawing many experiments from a known truth.
//!
//! Seeds are fixed, so every run sees the same draws; the bounds are what a right program would exceed
//! once in ten thousand seeds.

use lab_random::Stream;
use lab_stats::paired::{self, Side, Statistic};
use lab_stats::power::{Plan, Resampled, sigma_upper};
use lab_stats::screening::{self, screen};
use lab_stats::{Interval, Margin, Settings, Verdict, bootstrap, compare, proportion};

/// What blocks look like: a drift that both sides share, noise of each block, and now and then a
/// block that something disturbed.
struct World {
    stream: Stream,
    sigma: f64,
    disturbed: f64,
}

impl World {
    fn new(seed: u64, sigma: f64, disturbed: f64) -> Self {
        Self { stream: Stream::new(seed, 1), sigma, disturbed }
    }

    fn normal(&mut self) -> f64 {
        let (u, v) = (self.stream.unit(), self.stream.unit());
        (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    fn block(&mut self) -> f64 {
        let disturbed = self.stream.unit() < self.disturbed;
        let size = if disturbed { 30.0 } else { 1.0 };
        // Slower is likelier than faster: the noise of a block is skewed.
        self.sigma * size * (self.normal().exp() - 1.0)
    }

    /// Differences of `pairs` pairs, B slower by `effect`, in the order that a coin gave.
    fn differences(&mut self, pairs: usize, effect: f64) -> Vec<f64> {
        (0..pairs)
            .map(|_| {
                let (first, second) = (self.block(), self.block());
                let heads = self.stream.unit() < 0.5;
                effect + if heads { second - first } else { first - second }
            })
            .collect()
    }

    /// Normal differences with a standard deviation of sigma.
    fn normal_differences(&mut self, pairs: usize, effect: f64) -> Vec<f64> {
        (0..pairs).map(|_| effect + self.sigma * self.normal()).collect()
    }
}

/// The interval of a proportion that one of ten thousand right programs leaves.
fn band(hits: u64, trials: u64) -> Interval {
    proportion::interval(hits, trials, 1e-4)
}

#[test]
fn ten_thousand_comparisons_of_a_server_with_itself_keep_the_level() {
    for (seed, pairs, disturbed) in [(1, 10, 0.0), (2, 10, 0.1), (3, 8, 0.3)] {
        let mut world = World::new(seed, 0.05, disturbed);
        let calls = (0..10_000).filter(|_| {
            let d = world.differences(pairs, 0.0);
            paired::sign_flip(&d, Statistic::SignedRanks, Side::Both, 1).unwrap().p <= 0.05
        });
        let calls = calls.count() as u64;
        let band = band(calls, 10_000);
        eprintln!("{pairs} pairs, {disturbed} disturbed: {calls} of 10,000 called, {band:?}");
        assert!(band.low <= 0.05, "{calls} calls of 10,000 at a level of 5 %");
        // The level that sums of ranks can reach with so few pairs is a little below 5 %.
        assert!(band.high >= 0.035, "{calls} calls of 10,000: the test has lost its power");
    }
}

#[test]
fn verdicts_on_a_server_and_itself_keep_the_level_too() {
    let settings = Settings { resamples: 300, ..Settings::default() };
    let mut world = World::new(4, 0.05, 0.05);
    let calls = (0..600).filter(|_| {
        let d = world.differences(12, 0.0);
        let verdict = compare(&d, Margin::ratio(0.02), &settings).unwrap().verdict;
        matches!(verdict, Verdict::Faster | Verdict::Slower)
    });
    let calls = calls.count() as u64;
    assert!(band(calls, 600).low <= 0.05, "{calls} calls of 600");
}

#[test]
fn drawn_patterns_keep_the_level_as_all_patterns_do() {
    let mut world = World::new(5, 0.05, 0.1);
    let calls = (0..100).filter(|_| {
        let d = world.differences(24, 0.0);
        paired::sign_flip(&d, Statistic::SignedRanks, Side::Both, 1).unwrap().p <= 0.05
    });
    let calls = calls.count() as u64;
    assert!(band(calls, 100).low <= 0.05, "{calls} calls of 100");
}

#[test]
fn equivalence_is_not_claimed_at_the_margin() {
    let (margin, mut world) = (Margin::ratio(0.02), World::new(6, 0.01, 0.1));
    let claims = (0..4_000).filter(|_| {
        let d: Vec<f64> = world.differences(10, margin.high);
        let p = |shift: f64, side| {
            let shifted: Vec<f64> = d.iter().map(|d| d - shift).collect();
            paired::sign_flip(&shifted, Statistic::SignedRanks, side, 1).unwrap().p
        };
        p(margin.low, Side::Greater).max(p(margin.high, Side::Less)) <= 0.05
    });
    let claims = claims.count() as u64;
    assert!(band(claims, 4_000).low <= 0.05, "{claims} of 4,000");
}

#[test]
fn inverted_intervals_cover_the_truth_in_95_of_100_cases() {
    let mut world = World::new(7, 0.05, 0.1);
    let covered = (0..4_000).filter(|_| {
        let d = world.differences(8, 0.03);
        paired::inverted(&d, 0.05).unwrap().contains(0.03)
    });
    let covered = covered.count() as u64;
    assert!(band(covered, 4_000).high >= 0.95, "{covered} of 4,000");
    assert!(band(covered, 4_000).low <= 0.97, "{covered} of 4,000: too wide");
}

#[test]
fn bootstrap_intervals_cover_nearly_as_often() {
    // With few pairs BCa is known to be a little short: these are the bounds it must keep.
    for (seed, pairs, least) in [(8, 12, 0.90), (9, 30, 0.93)] {
        let mut world = World::new(seed, 0.05, 0.0);
        let covered = (0..300).filter(|n| {
            let d = world.normal_differences(pairs, 0.03);
            bootstrap::bca(&d, 0.05, 300, *n).unwrap().contains(0.03)
        });
        let covered = covered.count() as u64;
        eprintln!("{pairs} pairs: {covered} of 300 covered");
        assert!(band(covered, 300).high >= least, "{pairs} pairs: {covered} of 300");
        assert!(band(covered, 300).low <= 0.96, "{pairs} pairs: {covered} of 300, too wide");
    }
}

#[test]
fn runs_keep_the_coverage_where_neighbours_are_correlated() {
    let mut world = World::new(10, 0.05, 0.0);
    let (mut plain, mut runs) = (0, 0);
    for seed in 0..100 {
        let mut last = 0.0;
        let d: Vec<f64> = (0..60)
            .map(|_| {
                last = 0.6 * last + 0.05 * world.normal();
                last
            })
            .collect();
        let length = bootstrap::run_length(paired::lag_one(&d).unwrap(), d.len());
        plain += u32::from(bootstrap::bca(&d, 0.05, 200, seed).unwrap().contains(0.0));
        let interval = bootstrap::stationary(&d, length, 0.05, 200, seed).unwrap();
        runs += u32::from(interval.contains(0.0));
    }
    assert!(runs >= 80 && runs > plain + 8, "runs {runs}, single pairs {plain} of 100");
}

#[test]
fn what_the_plan_promises_is_found() {
    let plan = Plan::default();
    for (seed, sigma, effect) in [(11, 0.04, 0.05), (12, 0.02, 0.05)] {
        let pairs = plan.pairs_for_difference(sigma, effect);
        let mut world = World::new(seed, sigma, 0.0);
        let found = (0..1_000).filter(|_| {
            let d = world.normal_differences(pairs, effect);
            paired::sign_flip(&d, Statistic::SignedRanks, Side::Both, 1).unwrap().p <= 0.05
        });
        let found = found.count() as u64;
        eprintln!("sigma {sigma}: {pairs} pairs, found {found} of 1,000");
        assert!(band(found, 1_000).high >= 0.8, "{pairs} pairs, {found} of 1,000");
    }
}

#[test]
fn a_plan_is_kept_where_blocks_are_disturbed() {
    let mut world = World::new(14, 0.03, 0.1);
    let noise = world.differences(400, 0.0);
    let pairs = Resampled::new(Plan::default(), &noise, 1).pairs(0.05, None).unwrap();
    let found = (0..200).filter(|_| {
        let d = world.differences(pairs, 0.05);
        paired::sign_flip(&d, Statistic::SignedRanks, Side::Both, 1).unwrap().p <= 0.05
    });
    let found = found.count() as u64;
    eprintln!("disturbed: {pairs} pairs, found {found} of 200");
    assert!(band(found, 200).high >= 0.8, "{pairs} pairs, {found} of 200");
}

#[test]
fn a_plan_from_few_pairs_keeps_its_promise_in_most_cases() {
    let mut world = World::new(13, 0.04, 0.0);
    let kept = (0..2_000).filter(|_| {
        let pilot = world.normal_differences(10, 0.0);
        let sigma = paired::standard_deviation(&pilot).unwrap();
        sigma_upper(sigma, pilot.len(), 0.8) >= 0.04
    });
    let kept = kept.count() as u64;
    let band = band(kept, 2_000);
    assert!(band.contains(0.8), "{kept} of 2,000");
}

#[test]
fn screening_keeps_the_level_for_all_factors_together_whatever_else_matters() {
    // All levels of five factors in each of two blocks; of the last ones, the others matter more or less.
    for (seed, effects) in
        [(15, [0.0; 5]), (16, [0.3, 0.0, 0.0, 0.0, 0.0]), (17, [0.1, -0.05, 0.0, 0.0, 0.0])]
    {
        let mut world = World::new(seed, 0.05, 0.1);
        let wrong = (0..2_000).filter(|seed| {
            let mut runs = Vec::new();
            for (block, bits) in (0..64_usize).map(|run| (run / 32, run % 32)) {
                let high: Vec<bool> = (0..5).map(|at| bits >> at & 1 == 1).collect();
                let set = high.iter().zip(effects).filter(|(high, _)| **high);
                let value = set.map(|(_, effect)| effect).sum::<f64>() + world.block();
                runs.push(screening::Run { block, high, value: value + block as f64 });
            }
            let settings = screening::Settings { alpha: 0.05, permutations: 199, seed: *seed };
            let found = screen(&runs, &settings).unwrap();
            found.named().any(|factor| effects[factor] == 0.0)
        });
        let wrong = wrong.count() as u64;
        let band = band(wrong, 2_000);
        eprintln!("{effects:?}: a factor named wrongly in {wrong} of 2,000, {band:?}");
        assert!(band.low <= 0.05, "{wrong} of 2,000 at a level of 5 %");
        assert!(band.high >= 0.025, "{wrong} of 2,000: the test has lost its power");
    }
}
