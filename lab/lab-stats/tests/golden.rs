//! Every function beside NumPy and SciPy: `golden.json`, which `golden.py` writes.

use lab_stats::paired::{self, Side, Statistic};
use lab_stats::power::{Plan, sigma_upper};
use lab_stats::{Interval, bootstrap, groups, linear, proportion, unpaired};
use serde_json::Value;

fn golden(section: &str) -> Vec<Value> {
    let text = include_str!("golden.json");
    let all: Value = serde_json::from_str(text).unwrap();
    let cases = all[section].as_array().unwrap().clone();
    assert!(!cases.is_empty());
    cases
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

#[track_caller]
fn close(got: f64, expected: f64, tolerance: f64) {
    let scale = expected.abs().max(1.0);
    assert!((got - expected).abs() <= tolerance * scale, "got {got}, expected {expected}");
}

#[track_caller]
fn same_ends(got: Interval, expected: &Value, tolerance: f64) {
    let expected = numbers(expected);
    close(got.low, expected[0], tolerance);
    close(got.high, expected[1], tolerance);
}

#[test]
fn estimates_and_exact_tests_of_pairs() {
    for case in golden("paired") {
        let d = numbers(&case["d"]);
        close(paired::median(&d).unwrap(), number(&case["median"]), 1e-12);
        close(paired::hodges_lehmann(&d).unwrap(), number(&case["hodges_lehmann"]), 1e-12);
        close(paired::standard_deviation(&d).unwrap(), number(&case["sd"]), 1e-12);
        let sides = [("both", Side::Both), ("less", Side::Less), ("greater", Side::Greater)];
        for (name, side) in sides {
            let p = |statistic| paired::sign_flip(&d, statistic, side, 1).unwrap().p;
            close(p(Statistic::SignedRanks), number(&case["ranks"][name]), 1e-12);
            close(p(Statistic::Sum), number(&case["sum"][name]), 1e-12);
        }
        if let Some(p) = case["wilcoxon"].as_f64() {
            let both = paired::sign_flip(&d, Statistic::SignedRanks, Side::Both, 1).unwrap();
            close(both.p, p, 1e-12);
        }
        same_ends(paired::inverted(&d, 0.05).unwrap(), &case["inverted"], 1e-12);
    }
}

#[test]
#[expect(clippy::approx_constant, reason = "3.14 is what was measured")]
fn the_published_example_of_hollander_and_wolfe() {
    // R's wilcox.test(paired = TRUE, conf.int = TRUE): p 0.03906, estimate 0.46, 0.010 to 0.786.
    let first = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
    let second = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
    let d: Vec<f64> = first.iter().zip(second).map(|(first, second)| first - second).collect();
    let test = paired::sign_flip(&d, Statistic::SignedRanks, Side::Both, 1).unwrap();
    assert_eq!((test.p, test.patterns, test.exact), (0.0390625, 512, true));
    close(paired::hodges_lehmann(&d).unwrap(), 0.46, 1e-9);
    let interval = paired::inverted(&d, 0.05).unwrap();
    close(interval.low, 0.010, 1e-9);
    close(interval.high, 0.786, 1e-9);
}

#[test]
fn bootstrap_intervals() {
    for case in golden("bootstrap") {
        let d = numbers(&case["d"]);
        let (seed, resamples) = (number(&case["seed"]) as u64, number(&case["resamples"]) as usize);
        same_ends(bootstrap::bca(&d, 0.05, resamples, seed).unwrap(), &case["bca"], 1e-9);
        // SciPy draws other numbers: the ends agree within the noise of ends.
        let many = bootstrap::bca(&d, 0.05, 5_000, seed).unwrap();
        let width = many.high - many.low;
        let scipys = numbers(&case["scipy"]);
        assert!((many.low - scipys[0]).abs() < width / 10.0, "{many:?} {scipys:?}");
        assert!((many.high - scipys[1]).abs() < width / 10.0, "{many:?} {scipys:?}");
    }
}

#[test]
fn unpaired_samples() {
    for case in golden("unpaired") {
        let got = unpaired::mann_whitney(&numbers(&case["a"]), &numbers(&case["b"])).unwrap();
        close(got.u, number(&case["u"]), 1e-12);
        close(got.p, number(&case["p"]), 1e-9);
        assert_eq!(got.exact, case["exact"].as_bool().unwrap());
        close(got.delta, number(&case["delta"]), 1e-12);
        close(got.shift, number(&case["shift"]), 1e-12);
    }
}

#[test]
fn lines() {
    for case in golden("linear") {
        let points: Vec<_> = case["points"].as_array().unwrap().iter().map(numbers).collect();
        let points: Vec<_> = points.iter().map(|point| (point[0], point[1])).collect();
        let line = linear::fit(&points, 0.05).unwrap();
        close(line.slope, number(&case["slope"]), 1e-9);
        close(line.intercept, number(&case["intercept"]), 1e-9);
        same_ends(line.slope_interval.unwrap(), &case["slope_interval"], 1e-7);
        same_ends(line.intercept_interval.unwrap(), &case["intercept_interval"], 1e-7);
        close(line.r_squared, number(&case["r_squared"]), 1e-9);
    }
    assert!(linear::fit(&[(1.0, 1.0), (1.0, 2.0)], 0.05).is_none());
    assert!(linear::fit(&[(0.0, 1.0), (1.0, 2.0)], 0.05).unwrap().slope_interval.is_none());
}

#[test]
fn proportions() {
    for case in golden("proportion") {
        let (hits, trials) = (number(&case["hits"]) as u64, number(&case["trials"]) as u64);
        same_ends(proportion::interval(hits, trials, 0.05), &case["interval"], 1e-9);
    }
}

#[test]
fn tests_of_several_groups() {
    for case in golden("groups") {
        let of: Vec<Vec<f64>> = case["groups"].as_array().unwrap().iter().map(numbers).collect();
        for (name, test) in [
            ("kruskal_wallis", groups::kruskal_wallis(&of)),
            ("equal_variances", groups::equal_variances(&of)),
            ("normal_values", groups::normal_values(&of)),
        ] {
            let (test, expected) = (test.unwrap(), numbers(&case[name]));
            close(test.statistic, expected[0], 1e-9);
            close(test.p, expected[1], 1e-9);
        }
        same_pairs(&groups::dunn(&of, None), &case["dunn"], 1e-9);
        same_pairs(&groups::tukey(&of, 0.05), &case["tukey"], 1e-6);
        same_pairs(&groups::games_howell(&of, 0.05), &case["games_howell"], 1e-6);
        let dunnett = groups::dunnett(&of, 0, 0.05);
        let expected = case["dunnett"].as_array().unwrap();
        assert_eq!(dunnett.len(), expected.len());
        for (pair, expected) in dunnett.iter().zip(expected.iter().map(numbers)) {
            close(pair.statistic, expected[0], 1e-9);
            close(pair.p, expected[1], 1e-3);
        }
    }
}

fn same_pairs(got: &[groups::Pair], expected: &Value, tolerance: f64) {
    let expected = expected.as_array().unwrap();
    assert_eq!(got.len(), expected.len());
    for (pair, expected) in got.iter().zip(expected) {
        assert_eq!(pair.group as u64, expected["group"].as_u64().unwrap());
        assert_eq!(pair.with as u64, expected["with"].as_u64().unwrap());
        close(pair.p, number(&expected["p"]), tolerance);
        if let Some(statistic) = expected["statistic"].as_f64() {
            close(pair.statistic, statistic, tolerance);
        }
        if let Some(interval) = pair.interval {
            close(pair.difference, number(&expected["difference"]), tolerance);
            same_ends(interval, &expected["interval"], tolerance);
        }
    }
}

#[test]
fn plans() {
    for case in golden("power") {
        let pairs = number(&case["pairs"]) as usize;
        let effect = Plan::default().detectable(number(&case["sigma"]), pairs);
        close(effect, number(&case["detectable"]), 1e-7);
    }
    for case in golden("sigma_upper") {
        let pairs = number(&case["pairs"]) as usize;
        close(sigma_upper(number(&case["sigma"]), pairs, 0.8), number(&case["upper"]), 1e-7);
    }
}
