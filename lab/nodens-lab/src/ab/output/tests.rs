use super::words::change;
use super::*;
use lab_result::comparison::{Cell, ComparisonFile, Finding, Load, Party};

fn finding(metric: &str, verdict: Verdict, estimate: f64) -> Finding {
    Finding {
        cell: Cell { set: "internal".into(), load: "50 %".into(), metric: metric.into() },
        rate: 2_000.0,
        unit: "ns".into(),
        scale: "ratio".into(),
        primary: metric == "p50",
        pairs: 12,
        a: 100_000.0,
        b: 100_000.0 * (1.0 + estimate),
        estimate,
        interval: Some([estimate - 0.01, estimate + 0.01]),
        p: 0.0005,
        p_adjusted: 0.002,
        margin: 0.02,
        detectable: Some(0.013),
        pairs_needed: (verdict == Verdict::Inconclusive).then_some(40),
        verdict,
        ..Finding::default()
    }
}

fn block(side: &str, pair: usize, cpu_ns: u64) -> Block {
    Block {
        phase: "comparison".into(),
        pair,
        side: side.into(),
        set: "internal".into(),
        load: "50 %".into(),
        used: true,
        elapsed_ns: 1_000_000_000,
        cpu_ns: Some(cpu_ns),
        ..Block::default()
    }
}

pub(crate) fn file(findings: Vec<Finding>) -> ComparisonFile {
    let load = Load { name: "50 %".into(), set: "internal".into(), rate: 2_000.0 };
    let party = |name: &str| Party { name: name.into(), ..Party::default() };
    let pairs = (0..10).flat_map(|pair| {
        let more = pair as u64 * 1_000_000;
        [block("a", pair, 283_000_000 + more), block("b", pair, 297_150_000 + more)]
    });
    ComparisonFile {
        kind: "comparison".into(),
        schema: 1,
        generator: lab_result::Generator::default(),
        provenance: lab_result::Provenance::default(),
        plan: ComparisonPlan {
            pairs: 10,
            alpha: 0.05,
            loads: vec![load],
            ..ComparisonPlan::default()
        },
        plan_hash: "abc".into(),
        started_unix_ns: 0,
        finished_unix_ns: 60_000_000_000,
        interrupted: false,
        invalid_because: Vec::new(),
        decided_after: None,
        notes: vec!["a note".into()],
        swap: None,
        a: party("1.11.3"),
        b: party("1.13.1"),
        verdict: findings.first().map_or(Verdict::Inconclusive, |finding| finding.verdict),
        no_worse: findings.first().is_some_and(|finding| finding.verdict == Verdict::Equivalent),
        findings,
        noise: Vec::new(),
        costs: vec![Cost {
            side: "a".into(),
            set: "internal".into(),
            idle: 2e6,
            per_answer: 141e3,
            ..Cost::default()
        }],
        omitted: vec![Omitted {
            cell: Cell { metric: "p99.9".into(), ..Cell::default() },
            reason: "too few".into(),
        }],
        blocks: pairs.collect(),
    }
}

#[test]
fn the_sentence_says_who_by_how_much_and_how_surely() {
    let text = sentence(&file(vec![finding("p50", Verdict::Slower, 0.05)]));
    let expected = "1.13.1 is slower than 1.11.3: p50 at 50 % of internal +5.0 %, +4.0 % to +6.0 %, \
                    p = 0.0005, 12 pairs";
    assert_eq!(text, expected);
    let text = sentence(&file(vec![finding("p50", Verdict::Inconclusive, 0.004)]));
    assert!(text.contains("inconclusive") && text.contains("about 28 more pairs"), "{text}");
    let text = sentence(&file(vec![finding("p50", Verdict::Equivalent, -0.0001)]));
    assert!(text.contains("equivalent within 2.0 %") && text.contains(" 0.0 %"), "{text}");
    assert!(sentence(&file(Vec::new())).contains("no verdict"));
    let mut spoilt = file(vec![finding("p50", Verdict::Faster, 0.5)]);
    spoilt.invalid_because.push("busy".into());
    assert!(sentence(&spoilt).starts_with("no verdict"));
    assert_eq!(change(&finding("p50", Verdict::Slower, 10.0), 10.0), "× 11");
}

#[test]
fn values_among_lost_queries_are_bounds_everywhere() {
    let bounds = |a, b, verdict| Finding {
        a_is_bound: a,
        b_is_bound: b,
        b: 2e9,
        ..finding("p99", verdict, 5.0)
    };
    let slower = file(vec![bounds(false, true, Verdict::Slower)]);
    for text in [text(&slower), markdown(&slower)] {
        assert!(text.contains("≥ 2.00 s") && text.contains("≥ +500 %"), "{text}");
        assert!(text.contains("≥ +499 %") && !text.contains("to +501 %"), "{text}");
    }
    assert!(junit(&slower).contains("≥ +500 % (≥ +499 %)"), "{}", junit(&slower));
    let at_most = text(&file(vec![bounds(true, false, Verdict::Faster)]));
    assert!(at_most.contains("≥ 100 µs") && at_most.contains("≤ +501 %"), "{at_most}");
    let both = Finding { primary: true, ..bounds(true, true, Verdict::Inconclusive) };
    let said = sentence(&file(vec![both]));
    assert!(said.contains("at least the timeout on both sides; queries timed out"), "{said}");
}

#[test]
fn the_table_people_write_by_hand_has_intervals_now() {
    let text = markdown(&file(vec![finding("p50", Verdict::Slower, 0.05)]));
    let row = "| 1.11.3 | internal @ 2000 QPS (50 %) | 287.5m | 285.5m to ";
    assert!(text.contains(row), "{text}");
    assert!(text.contains("+14.1m (+4.9 %; +4.9 % to +"), "{text}");
    assert!(text.contains("not compared: p99.9") && text.contains("a note"), "{text}");
    assert!(text.lines().filter(|line| line.starts_with('|')).all(|line| line.ends_with('|')));
}

#[test]
fn ci_fails_on_anything_surely_worse_and_passes_only_what_is_shown() {
    let code = |findings| ci_code(&file(findings));
    let fine = || finding("p50", Verdict::Equivalent, 0.0);
    assert_eq!(code(vec![fine()]), NO_WORSE);
    assert_eq!(code(vec![finding("p50", Verdict::Faster, -0.1)]), NO_WORSE);
    assert_eq!(code(vec![fine(), finding("cpu", Verdict::Slower, 0.1)]), WORSE);
    assert_eq!(code(vec![finding("p50", Verdict::Inconclusive, 0.0)]), INCONCLUSIVE);
    let mut spoilt = file(vec![fine()]);
    spoilt.invalid_because.push("x".into());
    assert_eq!(ci_code(&spoilt), INCONCLUSIVE);
}

#[test]
fn junit_counts_what_it_lists_and_escapes() {
    let findings = vec![
        finding("p50", Verdict::Equivalent, 0.0),
        finding("cpu", Verdict::Slower, 0.1),
        finding("p99", Verdict::Inconclusive, 0.1),
    ];
    let mut file = file(findings);
    file.b.name = "<b> & \"c\"".into();
    file.invalid_because.push("machine > busy".into());
    let text = junit(&file);
    assert!(text.contains("tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\""), "{text}");
    for (tag, count) in [("<testcase ", 4), ("<failure ", 1), ("<skipped ", 1), ("<error ", 1)] {
        assert_eq!(text.matches(tag).count(), count, "{text}");
    }
    assert!(text.contains("&lt;b&gt; &amp; &quot;c&quot;") && text.contains("machine &gt; busy"));
}

#[test]
fn the_terminal_shows_every_finding_and_why_others_are_missing() {
    let text = text(&file(vec![finding("p50", Verdict::Faster, -0.1)]));
    for part in ["−10.0 %", "faster ◀", "not compared", "CPU of 1.11.3", "141 µs × rate"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn of_capacity_more_is_better_and_a_limit_out_of_reach_is_a_bound() {
    let capacity = |verdict, [b_is_bound, b_at_most]: [bool; 2]| Finding {
        cell: Cell { set: "internal".into(), load: "p99<5ms".into(), metric: "capacity".into() },
        unit: "qps".into(),
        primary: true,
        more_is_better: true,
        a: 2_000.0,
        b: 2_400.0,
        b_is_bound,
        b_at_most,
        ..finding("capacity", verdict, 0.2)
    };
    let known = [false, false];
    let more = text(&file(vec![capacity(Verdict::Faster, known)]));
    for part in
        ["1.13.1 is better than 1.11.3: capacity at p99<5ms of internal +20.0 %", "higher ◀"]
    {
        assert!(more.contains(part), "{part}: {more}");
    }
    assert!(more.contains("2.00k/s") && more.contains("2.40k/s"), "{more}");
    let less = text(&file(vec![capacity(Verdict::Slower, known)]));
    assert!(less.contains("is worse than") && less.contains("lower ◀"), "{less}");
    let at_least = text(&file(vec![capacity(Verdict::Faster, [true, false])]));
    assert!(at_least.contains("≥ 2.40k/s") && at_least.contains("≥ +20.0 %"), "{at_least}");
    let at_most = text(&file(vec![capacity(Verdict::Inconclusive, [false, true])]));
    assert!(
        at_most.contains("≤ 2.40k/s") && at_most.contains("a limit was out of reach"),
        "{at_most}"
    );
    assert_eq!(ci_code(&file(vec![capacity(Verdict::Slower, known)])), WORSE);
}
