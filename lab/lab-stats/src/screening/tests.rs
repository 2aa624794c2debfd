use super::*;
use crate::unpaired::mann_whitney;

/// A full factorial of `factors` factors in each of `blocks` blocks, with what `value` makes of a run
/// and a number that is uniform from 0 to 1.
fn factorial(
    factors: usize,
    blocks: usize,
    seed: u64,
    value: impl Fn(usize, &[bool], f64) -> f64,
) -> Vec<Run> {
    let mut stream = Stream::new(seed, 1);
    let mut runs = Vec::new();
    for block in 0..blocks {
        for bits in 0..1_usize << factors {
            let high: Vec<bool> = (0..factors).map(|at| bits >> at & 1 == 1).collect();
            let value = value(block, &high, stream.unit());
            runs.push(Run { block, high, value });
        }
    }
    runs
}

#[test]
fn one_factor_in_one_block_is_the_exact_test_of_mann_and_whitney() {
    let (a, b) = ([1.1, 2.2, 3.3, 4.4, 5.5, 0.3], [0.9, 5.7, 6.6, 8.1, 3.9, 7.2]);
    let run = |high: bool| move |value: &f64| Run { block: 3, high: vec![high], value: *value };
    let runs: Vec<Run> = a.iter().map(run(false)).chain(b.iter().map(run(true))).collect();
    let settings = Settings { permutations: 99_999, ..Settings::default() };
    let screen = screen(&runs, &settings).unwrap();
    let exact = mann_whitney(&a, &b).unwrap();
    let effect = &screen.effects[0];
    assert!((effect.p - exact.p).abs() < 0.003, "{} and {}", effect.p, exact.p);
    assert!((effect.estimate - exact.shift).abs() < 1e-12);
    assert_eq!((screen.runs, screen.blocks), (12, 1));
}

#[test]
fn the_interval_is_that_of_the_inverted_rank_sum_test() {
    // R's wilcox.test(b, a, conf.int = TRUE) takes the sixth difference from either end with six values
    // each: P(U <= 5) = 0.0206 and P(U <= 6) = 0.0325.
    let (a, b) = ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], [6.1, 7.3, 8.6, 10.0, 11.5, 13.1]);
    let run = |high: bool| move |value: &f64| Run { block: 0, high: vec![high], value: *value };
    let runs: Vec<Run> = a.iter().map(run(false)).chain(b.iter().map(run(true))).collect();
    let mut differences: Vec<f64> = b.iter().flat_map(|b| a.map(|a| b - a)).collect();
    differences.sort_by(f64::total_cmp);
    let table = Table::new(&runs).unwrap();
    // U is 5.5 away from either end: 12.5 from its mean of 18.
    let critical = 12.5 / table.roots[0];
    let (_, interval) = table.shift(&table.values, 0, critical);
    assert_eq!(interval, Some(Interval { low: differences[4], high: differences[31] }));
    assert_eq!(table.shift(&table.values, 0, 100.0).1, None, "wider than all differences");
}

#[test]
fn effects_are_named_by_size_with_intervals_that_have_them() {
    let runs = factorial(5, 6, 2, |block, high, noise| {
        let effect = [0.0, 0.4, 0.0, -0.15, 0.0];
        let sum: f64 = high.iter().zip(effect).map(|(high, e)| if *high { e } else { 0.0 }).sum();
        // Blocks differ in height and noise, and every fourth run is disturbed.
        let disturbed = if noise < 0.25 { 5.0 } else { 0.0 };
        sum + 10.0 * block as f64 + (noise - 0.5) * 0.2 + disturbed * noise
    });
    let settings = Settings { permutations: 999, ..Settings::default() };
    let found = screen(&runs, &settings).unwrap();
    assert_eq!(found.named().collect::<Vec<_>>(), [1, 3]);
    assert_eq!((found.effects[1].named, found.effects[3].named), (Some(1), Some(2)));
    for (effect, truth) in found.effects.iter().zip([0.0, 0.4, 0.0, -0.15, 0.0]) {
        assert!(effect.interval.unwrap().contains(truth), "{truth}: {effect:?}");
        assert!(effect.interval.unwrap().contains(effect.estimate), "{effect:?}");
        assert_eq!(effect.interval.unwrap().contains(0.0), effect.named.is_none(), "{effect:?}");
    }
    assert!(found.effects[1].statistic > 5.0 && found.effects[3].statistic < -3.0);
    assert_eq!(screen(&runs, &settings), Ok(found.clone()));
    let other = Settings { seed: 2, ..settings };
    assert_ne!(screen(&runs, &other).unwrap().effects, found.effects);
}

#[test]
fn steps_find_what_a_larger_effect_hides() {
    let value = |_: usize, high: &[bool], noise: f64| {
        f64::from(u8::from(high[0])) + 0.07 * f64::from(u8::from(high[1])) + 0.2 * noise
    };
    let runs = factorial(4, 4, 9, value);
    let settings = Settings { permutations: 999, ..Settings::default() };
    let first = Table::new(&runs).unwrap();
    let search = Search { table: &first, settings: &settings, named: Vec::new(), lowest: 0.0 };
    let step = search.step(&first.values);
    assert!(step.p(step.observed[1]) > 0.05, "it is found at once");
    assert_eq!(screen(&runs, &settings).unwrap().named().collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn values_that_are_all_the_same_name_nothing() {
    let runs = factorial(3, 2, 1, |_, _, _| 7.0);
    let found = screen(&runs, &Settings { permutations: 99, ..Settings::default() }).unwrap();
    assert!(found.effects.iter().all(|effect| effect.p == 1.0 && effect.statistic == 0.0));
}

#[test]
fn runs_that_say_nothing_are_refused() {
    let good = factorial(3, 2, 1, |_, _, noise| noise);
    let with = |change: &dyn Fn(&mut Run)| {
        let mut runs = good.clone();
        runs.iter_mut().for_each(change);
        runs
    };
    let mut uneven = good.clone();
    uneven[5].high.pop();
    let mut infinite = good.clone();
    infinite[4].value = f64::INFINITY;
    for (runs, expected) in [
        (Vec::new(), Refused::Empty),
        (with(&|run| run.high.clear()), Refused::Empty),
        (uneven, Refused::Factors(5)),
        (infinite, Refused::NotFinite(4)),
        (with(&|run| run.high[1] = run.block == 0), Refused::Constant(1)),
        (with(&|run| run.high[2] = !run.high[0]), Refused::Same(0, 2)),
    ] {
        assert_eq!(screen(&runs, &Settings::default()), Err(expected));
    }
    let few = Settings { permutations: 18, ..Settings::default() };
    let error = screen(&good, &few).unwrap_err().to_string();
    assert!(error.contains("expected at least 19"), "{error}");
    assert!(screen(&good, &Settings { permutations: 19, ..few }).is_ok());
}

#[test]
fn half_normal_places_are_quantiles_of_ranks() {
    // Φ⁻¹ of 0.5 + 0.5 × (rank − 0.5) / 3: of 7/12, 3/4 and 11/12.
    let places = half_normal(&[-5.0, 0.1, 2.0]);
    for (place, expected) in places.iter().zip([1.382_994, 0.210_428, 0.674_490]) {
        assert!((place - expected).abs() < 1e-4, "{places:?}");
    }
    assert!(half_normal(&[]).is_empty());
}
