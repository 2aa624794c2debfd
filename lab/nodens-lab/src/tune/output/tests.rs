use super::*;
use lab_result::tuning::{Claim, Confirmation, Effect, TuningPlan};

fn metric(name: &str, unit: &str, scale: &str) -> MetricInfo {
    MetricInfo {
        name: name.to_owned(),
        unit: unit.to_owned(),
        scale: scale.to_owned(),
        less_is_better: true,
        felt: name != "cpu",
    }
}

fn file() -> TuningFile {
    let claim = |by: &str, expects: &str| Claim {
        by: by.to_owned(),
        expects: expects.to_owned(),
        ..Claim::default()
    };
    let plan = |name: &str, claims: Vec<Claim>| KnobPlan {
        name: name.to_owned(),
        low: "0".to_owned(),
        high: "1".to_owned(),
        claims,
        ..KnobPlan::default()
    };
    let effect = |estimate, named| Effect {
        estimate,
        interval: Some([estimate - 0.03, estimate + 0.03]),
        statistic: estimate * 100.0,
        p: 0.0002,
        named,
        ..Effect::default()
    };
    let change = |metric: &str, estimate, said: &str| Change {
        metric: metric.to_owned(),
        baseline: 1e5,
        changed: 0.9e5,
        estimate,
        said: said.to_owned(),
        ..Change::default()
    };
    let confirmation = Confirmation {
        pairs: 14,
        changes: vec![change("p99", -0.1, "better"), change("failures", 0.02, "worse")],
        ..Confirmation::default()
    };
    TuningFile {
        plan: TuningPlan {
            server: "nodens -conf {config}".to_owned(),
            primary: "p99".to_owned(),
            alpha: 0.05,
            knobs: vec![
                plan("tcp_sack", vec![]),
                plan(
                    "abort",
                    vec![claim("A", "better"), claim("B", "no change"), claim("C", "better")],
                ),
            ],
            ..TuningPlan::default()
        },
        metrics: vec![metric("p99", "ns", "ratio"), metric("failures", "part", "difference")],
        knobs: vec![
            KnobResult {
                knob: "tcp_sack".to_owned(),
                verdict: Verdict::NotShown,
                effect: Some(effect(0.01, None)),
                ..KnobResult::default()
            },
            KnobResult {
                knob: "abort".to_owned(),
                verdict: Verdict::Mixed,
                because: vec!["better: p99".to_owned(), "worse: failures".to_owned()],
                effect: Some(effect(-0.11, Some(1))),
                confirmation: Some(confirmation),
                ..KnobResult::default()
            },
        ],
        ..TuningFile::default()
    }
}

#[test]
fn what_matters_comes_first_with_what_got_worse_and_who_claimed_what() {
    let text = text(&file());
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("no `{what}` in:\n{text}"));
    assert!(at("abort") < at("tcp_sack"), "{text}");
    assert!(text.contains("−11.00 %") && text.contains("−14.00 to −8.00 %"), "{text}");
    assert!(text.contains("better: A, C; no change: B"), "{text}");
    assert!(
        text.contains("mixed (better: p99; worse: failures), 14 pairs on fresh data"),
        "{text}"
    );
    assert!(text.contains("failures (felt)") && text.contains("+2.00 points"), "{text}");
    assert!(text.contains("of 2 settings: mixed: abort"), "{text}");
}

#[test]
fn nothing_shown_invalid_and_interrupted_are_said() {
    let mut file = file();
    file.knobs.iter_mut().for_each(|knob| knob.verdict = Verdict::NotShown);
    file.invalid_because = vec!["9 of 10 measurements are disturbed".to_owned()];
    file.interrupted = true;
    let text = text(&file);
    assert!(text.contains("of 2 settings none is shown to change p99"), "{text}");
    assert!(text.contains("INVALID: 9 of 10"), "{text}");
    assert!(text.contains("interrupted: the findings are of the measurements so far"), "{text}");
}
