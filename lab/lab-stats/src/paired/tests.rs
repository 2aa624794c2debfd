use super::*;

#[test]
fn nothing_gives_nothing() {
    assert_eq!(median(&[]), None);
    assert_eq!(hodges_lehmann(&[]), None);
    assert_eq!(sign_flip(&[], Statistic::SignedRanks, Side::Both, 1), None);
    assert_eq!(inverted(&[], 0.05), None);
    assert_eq!(standard_deviation(&[1.0]), None);
    assert_eq!(lag_one(&[1.0, 1.0, 1.0]), None);
}

#[test]
fn five_pairs_can_never_reject_and_six_can() {
    assert_eq!(inverted(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.05), None);
    let six = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    assert_eq!(inverted(&six, 0.05), Some(Interval { low: 1.0, high: 6.0 }));
    let test = sign_flip(&six, Statistic::SignedRanks, Side::Both, 1).unwrap();
    assert_eq!((test.p, test.exact), (2.0 / 64.0, true));
}

#[test]
fn equal_pairs_say_nothing() {
    for pairs in [8, 30] {
        let test = sign_flip(&vec![0.0; pairs], Statistic::SignedRanks, Side::Both, 1).unwrap();
        assert_eq!(test.p, 1.0);
    }
}

#[test]
fn drawn_patterns_agree_with_all_patterns() {
    let d: Vec<f64> = (0..EXACT_MAX).map(|n| lab_random::unit(3, n as u64) - 0.38).collect();
    let exact = sign_flip(&d, Statistic::SignedRanks, Side::Both, 1).unwrap();
    // A zero has no sign, and so one pair more changes nothing but the way.
    let mut more = d.clone();
    more.push(0.0);
    let drawn = sign_flip(&more, Statistic::SignedRanks, Side::Both, 1).unwrap();
    assert!(exact.exact && !drawn.exact && drawn.patterns == DRAWS);
    assert!((exact.p - drawn.p).abs() < 0.02, "{} {}", exact.p, drawn.p);
    let other = sign_flip(&more, Statistic::SignedRanks, Side::Both, 1).unwrap();
    assert_eq!(drawn, other, "the same seed is the same p-value");
    let certain = sign_flip(&[1.0; 40], Statistic::SignedRanks, Side::Both, 1).unwrap();
    assert_eq!(certain.p, 1.0 / (DRAWS + 1) as f64, "never zero");
}

#[test]
fn the_interval_covers_exactly_what_the_test_keeps() {
    let d: Vec<f64> = (0..9).map(|n| lab_random::unit(8, n)).collect();
    let interval = inverted(&d, 0.05).unwrap();
    let p = |centre: f64| {
        let shifted: Vec<f64> = d.iter().map(|d| d - centre).collect();
        sign_flip(&shifted, Statistic::SignedRanks, Side::Both, 1).unwrap().p
    };
    for (end, out) in [(interval.low, -1e-6), (interval.high, 1e-6)] {
        assert!(p(end + out) <= 0.05 && p(end - out) > 0.05, "{end}");
    }
}

#[test]
fn correlated_neighbours_show() {
    let rising: Vec<f64> = (0..40).map(f64::from).collect();
    assert!(lag_one(&rising).unwrap() > 0.8);
    let turning: Vec<f64> = (0..40).map(|n| f64::from(n % 2)).collect();
    assert!(lag_one(&turning).unwrap() < -0.8);
}
