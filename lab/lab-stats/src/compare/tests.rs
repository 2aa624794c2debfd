use super::*;

fn settings() -> Settings {
    Settings { resamples: 500, ..Settings::default() }
}

/// Differences around `centre`, with a spread of about 1 %.
fn around(centre: f64, pairs: u64) -> Vec<f64> {
    (0..pairs).map(|n| centre + (lab_random::unit(4, n) - 0.5) * 0.034).collect()
}

fn verdict(differences: &[f64]) -> Verdict {
    compare(differences, Margin::ratio(0.02), &settings()).unwrap().verdict
}

#[test]
fn each_verdict_has_its_case() {
    assert_eq!(verdict(&around(-0.05, 12)), Verdict::Faster);
    assert_eq!(verdict(&around(0.05, 12)), Verdict::Slower);
    assert_eq!(verdict(&around(0.0, 30)), Verdict::Equivalent);
    assert_eq!(verdict(&around(0.02, 8)), Verdict::Slower);
    let wide: Vec<f64> = around(0.0, 12).iter().map(|d| d * 20.0).collect();
    assert_eq!(verdict(&wide), Verdict::Inconclusive);
    assert_eq!(verdict(&[0.5, 0.5]), Verdict::Inconclusive, "two pairs prove nothing");
}

#[test]
fn a_sure_difference_within_the_margin_is_equivalent() {
    let found = compare(&around(0.008, 40), Margin::ratio(0.02), &settings()).unwrap();
    assert!(found.difference.p < 0.05, "{found:?}");
    assert_eq!(found.verdict, Verdict::Equivalent);
}

#[test]
fn no_worse_is_less_than_equivalent() {
    let found = compare(&around(-0.02, 12), Margin::ratio(0.02), &settings()).unwrap();
    assert!(found.is_no_worse(0.05) && found.equivalence_p > 0.05);
    let found = compare(&around(0.03, 12), Margin::ratio(0.02), &settings()).unwrap();
    assert!(!found.is_no_worse(0.05));
}

#[test]
fn adjusted_p_values_can_take_a_verdict_back_and_never_give_one() {
    let found = compare(&around(-0.05, 12), Margin::ratio(0.02), &settings()).unwrap();
    assert_eq!(found.verdict_with(0.06, 1.0, 0.05), Verdict::Inconclusive);
    let none = compare(&around(0.0, 5), Margin::ratio(0.02), &settings()).unwrap();
    assert_eq!(none.interval, None);
    assert_eq!(none.verdict_with(0.0, 1.0, 0.05), Verdict::Inconclusive);
}

#[test]
fn the_method_follows_pairs_and_correlation() {
    let method = |d: &[f64]| compare(d, Margin::ratio(0.02), &settings()).unwrap().method;
    assert_eq!(method(&around(0.0, 9)), Method::Inverted);
    assert_eq!(method(&around(0.0, 20)), Method::Bca);
    let drift: Vec<f64> = around(0.0, 30).iter().zip(0..).map(|(d, n)| d + f64::from(n)).collect();
    assert_eq!(method(&drift), Method::Stationary);
}

#[test]
fn equal_blocks_are_equivalent_and_have_no_width() {
    let found = compare(&[0.0; 12], Margin::absolute(0.001), &settings()).unwrap();
    assert_eq!(found.verdict, Verdict::Equivalent);
    assert_eq!(found.interval, Some(Interval { low: 0.0, high: 0.0 }));
    assert_eq!(found.pairs_needed(&[0.0; 12], Margin::absolute(0.001), Plan::default()), Some(6));
}

#[test]
fn the_pairs_still_needed_follow_the_nearer_decision() {
    let wide: Vec<f64> = around(0.0, 12).iter().map(|d| d * 5.0).collect();
    let found = compare(&wide, Margin::ratio(0.02), &settings()).unwrap();
    assert_eq!(found.verdict, Verdict::Inconclusive);
    let needed = found.pairs_needed(&wide, Margin::ratio(0.02), Plan::default()).unwrap();
    assert!((20..500).contains(&needed), "{needed}");
}
