use super::*;
use crate::proportion;

const ALPHA: f64 = 0.05;

/// Noise as of a busy machine: symmetric, with tails so heavy that it has no mean (Cauchy), or quiet with
/// one block in ten disturbed.
fn noise(stream: &mut Stream, heavy: bool) -> f64 {
    let unit = stream.unit();
    if heavy {
        0.01 * (std::f64::consts::PI * (unit - 0.5)).tan()
    } else {
        let size = if stream.unit() < 0.1 { 20.0 } else { 1.0 };
        0.04 * size * (unit - 0.5)
    }
}

/// In how many of `runs` something that must be rare happens in a run.
fn rare(runs: u64, mut happens: impl FnMut(&mut Stream, bool) -> bool) {
    let mut count = 0;
    for run in 0..runs {
        count += u64::from(happens(&mut Stream::new(5, run), run % 2 == 0));
    }
    let interval = proportion::interval(count, runs, 0.01);
    assert!(interval.low <= ALPHA, "{count} of {runs}: {interval:?}");
}

#[test]
fn looking_after_every_pair_calls_no_more_false_differences_than_promised() {
    rare(2_000, |stream, heavy| {
        let mut looks = Looks::new(Margin::ratio(0.02));
        (0..100).any(|_| {
            looks.add(noise(stream, heavy));
            looks.difference_p() <= ALPHA
        })
    });
}

#[test]
fn looking_after_every_pair_calls_no_more_false_equivalences_than_promised() {
    let margin = Margin::ratio(0.02);
    rare(2_000, |stream, heavy| {
        let mut looks = Looks::new(margin);
        (0..100).any(|_| {
            looks.add(margin.high + noise(stream, heavy));
            looks.equivalence_p() <= ALPHA
        })
    });
}

#[test]
fn the_interval_holds_at_all_looks_together() {
    rare(150, |stream, heavy| {
        let differences: Vec<f64> = (0..40).map(|_| 0.3 + noise(stream, heavy)).collect();
        let looks = (1..=differences.len()).filter_map(|n| interval(&differences[..n], ALPHA));
        { looks }.any(|interval| !interval.contains(0.3))
    });
}

#[test]
fn the_interval_is_what_no_look_rejected() {
    for seed in 0..20 {
        let mut stream = Stream::new(seed, 1);
        // Coarse values, so that there are ties and zeros.
        let draw = |stream: &mut Stream| f64::from(stream.below(9) as u32) * 0.25 - 0.5;
        let differences: Vec<f64> = (0..30).map(|_| draw(&mut stream)).collect();
        let negative: Vec<f64> = differences.iter().map(|d| -d).collect();
        let interval = interval(&differences, ALPHA).unwrap();
        for step in -20..60 {
            let centre = f64::from(step) * 0.05 + 0.013;
            let level = 2.0 / ALPHA;
            let never = Above::of(&differences, centre).highest < level
                && Above::of(&negative, -centre).highest < level;
            assert_eq!(interval.contains(centre), never, "{centre} in {interval:?}");
        }
    }
}

#[test]
fn the_signed_rank_is_that_of_the_sizes() {
    let differences = [0.5, -0.25, 1.5, -1.0, 0.75];
    let mut expected = 1.0;
    for at in 0..differences.len() {
        let size = |d: &f64| d.abs();
        let below = differences[..=at].iter().filter(|d| size(d) <= size(&differences[at])).count();
        let rank = differences[at].signum() * below as f64 / (at + 1) as f64;
        expected *= 2.0 / (1.0 + (-2.0 * BETS[2] * rank).exp());
    }
    let found = Above::of(&differences, 0.0).wealth[2];
    assert!((found - expected).abs() < 1e-12, "{found} {expected}");
}

#[test]
fn a_bet_is_fair_whatever_the_sizes_are() {
    // All patterns of signs of these sizes, each as likely as the others: the mean is the stake.
    let sizes = [0.3, 7.0, 0.01, 2.0, 2.0, 0.5, 100.0, 0.2];
    let patterns = 1_u32 << sizes.len();
    let total: f64 = (0..patterns)
        .map(|pattern| {
            let signed =
                |(bit, size): (usize, &f64)| if pattern >> bit & 1 == 1 { *size } else { -size };
            let differences: Vec<f64> = sizes.iter().enumerate().map(signed).collect();
            Above::of(&differences, 0.0).wealth.iter().sum::<f64>() / BETS.len() as f64
        })
        .sum();
    assert!((total / f64::from(patterns) - 1.0).abs() < 1e-9, "{total}");
}

/// Pairs until a decision, in order, of runs with a true difference of `effect` spreads of normal noise.
fn lengths(effect: f64) -> Vec<usize> {
    let mut lengths: Vec<usize> = (0..100)
        .map(|run| {
            let mut stream = Stream::new(9, run);
            let draw = || effect + crate::normal::quantile(stream.unit().clamp(1e-9, 1.0 - 1e-9));
            decided_after(draw, Margin::absolute(1e-9), ALPHA)
        })
        .collect();
    lengths.sort_unstable();
    lengths
}

#[test]
fn effects_are_found_in_as_many_pairs_as_the_documentation_says() {
    assert_eq!((fewest(0.05), fewest(0.01), fewest(0.0)), (Some(7), Some(10), None));
    let fixed = |effect: f64| crate::power::Plan::default().pairs_for_difference(1.0, effect);
    assert_eq!([0.3, 0.5, 1.0, 2.0].map(fixed), [94, 35, 11, 6]);
    for (effect, median, most) in [(0.5, 48, 80), (1.0, 17, 25), (2.0, 8, 10), (9.0, 7, 8)] {
        let lengths = lengths(effect);
        assert!(lengths[50] <= median && lengths[80] <= most, "{effect}: {lengths:?}");
        assert!(lengths[0] >= 7, "{effect}: {lengths:?}");
    }
}

#[test]
fn verdicts_come_as_soon_as_they_are_shown_and_equivalence_too() {
    let settings = Settings::default();
    let found = |d: &[f64]| compare(d, Margin::ratio(0.02), &settings).unwrap();
    assert_eq!(found(&[0.1; 6]).verdict, Verdict::Inconclusive);
    let slower = found(&[0.1, 0.12, 0.11, 0.09, 0.1, 0.12, 0.13, 0.1]);
    assert_eq!((slower.verdict, slower.method), (Verdict::Slower, Method::AlwaysValid));
    assert!(slower.interval.unwrap().low > 0.0 && slower.worse_p > 0.05);
    let faster = found(&[-0.1, -0.12, -0.11, -0.09, -0.1, -0.12, -0.13, -0.1]);
    assert_eq!(faster.verdict, Verdict::Faster);
    let alike: Vec<f64> = (0..14).map(|n| if n % 2 == 0 { 0.004 } else { -0.004 }).collect();
    let alike = found(&alike);
    assert_eq!(alike.verdict, Verdict::Equivalent, "{alike:?}");
    assert!(compare(&[], Margin::ratio(0.02), &settings).is_none());
}

#[test]
fn what_was_shown_once_remains_shown() {
    let settings = Settings::default();
    let mut differences = vec![0.1; 8];
    differences.extend([-0.1; 8]);
    let found = compare(&differences, Margin::ratio(0.02), &settings).unwrap();
    assert!(found.difference.p <= ALPHA, "{found:?}");
}

#[test]
fn the_pairs_that_would_decide_follow_the_noise() {
    let settings = Settings::default();
    let needed = |spread: f64| {
        let differences: Vec<f64> = (0..20).map(|n| 0.05 + spread * (f64::from(n) - 9.5)).collect();
        pairs_needed(&differences, 0.05, Margin::ratio(0.02), &settings)
    };
    let (quiet, noisy) = (needed(0.0001).unwrap(), needed(0.01).unwrap());
    assert!(quiet < 12 && noisy > quiet, "{quiet} {noisy}");
    assert_eq!(needed(1.0), None);
}
