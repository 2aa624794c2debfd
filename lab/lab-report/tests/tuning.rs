//! The page of a trial of settings.

use lab_report::{Document, Source, page};
use lab_result::tuning::{
    Change, Classical, Confirmation, Effect, Groups, KnobPlan, KnobResult, MetricInfo, TuningFile,
    TuningPlan, Verdict,
};
use scraper::{Html, Selector};

fn knob(name: &str) -> KnobPlan {
    let (name, low, high) = (name.to_owned(), "0".to_owned(), "1".to_owned());
    KnobPlan { name, low, high, ..KnobPlan::default() }
}

fn file() -> TuningFile {
    let effect = |estimate: f64, named| Effect {
        estimate,
        interval: Some([estimate - 0.02, estimate + 0.02]),
        statistic: estimate * 50.0,
        expected: 0.7,
        p: 0.01,
        named,
    };
    let change = Change {
        metric: "p99".to_owned(),
        baseline: 1e6,
        changed: 9e5,
        estimate: -0.1,
        interval: Some([-0.12, -0.08]),
        p: 0.001,
        said: "better".to_owned(),
        p_adjusted: None,
        no_worse_p: None,
        bounds: 0,
    };
    let confirmation = Confirmation {
        pairs: 14,
        needed: Some(30),
        changes: vec![change],
        ..Confirmation::default()
    };
    let classical = Some(Classical { variances_p: Some(0.5), ..Classical::default() });
    TuningFile {
        plan: TuningPlan {
            server: "<script>server</script>".to_owned(),
            primary: "p99".to_owned(),
            alpha: 0.05,
            knobs: vec![knob("tcp_sack"), knob("abort")],
            ..TuningPlan::default()
        },
        metrics: vec![MetricInfo {
            name: "p99".to_owned(),
            unit: "ns".to_owned(),
            scale: "ratio".to_owned(),
            less_is_better: true,
            felt: true,
        }],
        knobs: vec![
            KnobResult {
                knob: "tcp_sack".to_owned(),
                verdict: Verdict::NotShown,
                effect: Some(effect(0.004, None)),
                classical: classical.clone(),
                ..KnobResult::default()
            },
            KnobResult {
                knob: "abort".to_owned(),
                verdict: Verdict::Better,
                effect: Some(effect(-0.11, Some(1))),
                classical,
                confirmation: Some(confirmation),
                ..KnobResult::default()
            },
        ],
        groups: Some(Groups { variances_p: Some(0.01), ..Groups::default() }),
        ..TuningFile::default()
    }
}

fn rendered(file: TuningFile) -> Html {
    let document = Document::Tuning(Box::new(file));
    let text = page(&[Source { name: "t".to_owned(), document }], None);
    assert!(!text.contains("<script>server"), "text of a file is not escaped");
    Html::parse_document(&text)
}

fn texts(html: &Html, selector: &str) -> Vec<String> {
    let selector = Selector::parse(selector).unwrap();
    html.select(&selector).map(|element| element.text().collect()).collect()
}

#[test]
fn the_page_has_effects_the_half_normal_plot_fresh_data_and_assumptions() {
    let html = rendered(file());
    assert_eq!(texts(&html, ".verdict .badge"), ["1 OF 2"]);
    let rows = texts(&html, "#effects0 tbody tr");
    assert!(rows[0].starts_with("abort") && rows[0].contains("better"), "{rows:?}");
    assert!(rows[0].contains("−11.0 %") && rows[0].contains("[−13.0 %, −9.0 %]"), "{rows:?}");
    assert!(rows[1].starts_with("tcp_sack") && rows[1].contains("no effect shown"), "{rows:?}");
    assert_eq!(texts(&html, "#half-normal0 tbody tr").len(), 2);
    let all = texts(&html, "main").concat();
    for part in ["14 pairs, about 30 would be needed", "refuted (p 0.0100)", "Games–Howell"] {
        assert!(all.contains(part), "no `{part}`");
    }
}

#[test]
fn a_trial_without_a_result_is_shown_as_such() {
    let mut none = file();
    none.knobs.iter_mut().for_each(|knob| {
        (knob.effect, knob.confirmation, knob.verdict) = (None, None, Verdict::Unknown);
    });
    none.invalid_because = vec!["nothing was measured".to_owned()];
    none.groups = None;
    let html = rendered(none);
    assert_eq!(texts(&html, ".verdict .badge"), ["INVALID"]);
    assert!(texts(&html, ".verdict")[0].contains("nothing was measured"));
}
