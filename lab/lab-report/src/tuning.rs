//! A trial of settings: which knobs matter, by how much, and what fresh data says.

mod pictures;

use crate::table::{Head, Table, facts};
use crate::text;
use lab_result::tuning::{Change, KnobPlan, KnobResult, MetricInfo, TuningFile, Verdict};
use maud::{Markup, html};

/// The class of a verdict, as the style sheet colours it.
fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better | Verdict::Cheaper => "good",
        Verdict::Worse | Verdict::Dearer => "bad",
        Verdict::NotShown | Verdict::NotFelt => "same",
        Verdict::Mixed | Verdict::Unconfirmed | Verdict::Unknown => "open",
    }
}

/// What was found in a few words.
pub(crate) fn verdict(file: &TuningFile) -> Markup {
    let is_sure = |knob: &&KnobResult| {
        !matches!(knob.verdict, Verdict::NotShown | Verdict::Unconfirmed | Verdict::Unknown)
    };
    let sure: Vec<&KnobResult> = file.knobs.iter().filter(is_sure).collect();
    let (class, word) = match sure.len() {
        _ if !file.invalid_because.is_empty() => ("invalid", "INVALID".to_owned()),
        0 => ("open", "NOTHING CONFIRMED".to_owned()),
        _ => ("valid", format!("{} OF {}", sure.len(), file.knobs.len())),
    };
    let all = text::of(file.knobs.len(), "setting");
    html! {
        div.verdict.(class) {
            span.badge { (word) }
            div {
                @if sure.is_empty() {
                    p { "Of " (all) " none changes " b { (file.plan.primary) } " by as much as this trial can show." }
                } @else {
                    p { "Of " (all) " these change " b { (file.plan.primary) } ", on fresh data too: "
                        @for (at, knob) in sure.iter().enumerate() {
                            @if at > 0 { ", " }
                            b { (knob.knob) } " (" (knob.verdict.words()) ")"
                        } "."
                    }
                }
                @for why in &file.invalid_because { p { (why) } }
                @if file.interrupted { p { "The trial was interrupted; the findings are of the measurements so far." } }
                @if !file.notes.is_empty() { ul.notes { @for note in &file.notes { li { (note) } } } }
            }
        }
    }
}

fn metric<'a>(file: &'a TuningFile, name: &str) -> Option<&'a MetricInfo> {
    file.metrics.iter().find(|metric| metric.name == name)
}

/// A change of a metric as text.
fn change(metric: Option<&MetricInfo>, value: f64) -> String {
    let (unit, scaled) = match metric {
        Some(metric) if metric.scale == "ratio" => (" %", value * 100.0),
        Some(metric) if metric.unit == "part" => (" points", value * 100.0),
        _ => ("", value),
    };
    let digits = if scaled.abs() < 1.0 { 2 } else { 1 };
    let sign = if scaled < 0.0 { "−" } else { "+" };
    format!("{sign}{:.digits$}{unit}", scaled.abs())
}

fn interval(metric: Option<&MetricInfo>, ends: Option<[f64; 2]>) -> String {
    let text =
        |[low, high]: [f64; 2]| format!("[{}, {}]", change(metric, low), change(metric, high));
    ends.map_or("(no interval)".to_owned(), text)
}

fn value(metric: Option<&MetricInfo>, value: f64) -> String {
    match metric.map(|metric| metric.unit.as_str()) {
        Some("ns") => text::nanos(value),
        Some("part") => text::percent(value),
        Some("per second") => text::rate(value),
        _ => text::trimmed(value, 2),
    }
}

fn probability(p: Option<f64>) -> String {
    match p {
        None => "–".to_owned(),
        Some(p) if p < 0.0001 => "< 0.0001".to_owned(),
        Some(p) => format!("{p:.4}"),
    }
}

/// The knobs with what the screening says of them, what matters most first.
fn ranked(file: &TuningFile) -> Vec<(&KnobPlan, &KnobResult)> {
    let mut all: Vec<(&KnobPlan, &KnobResult)> = file.plan.knobs.iter().zip(&file.knobs).collect();
    let key = |knob: &KnobResult| {
        let effect = knob.effect.as_ref();
        let named = effect.and_then(|effect| effect.named).unwrap_or(usize::MAX);
        (named, effect.map_or(0.0, |effect| effect.statistic.abs()))
    };
    all.sort_by(|a, b| {
        let ((one, size), (other, other_size)) = (key(a.1), key(b.1));
        one.cmp(&other).then(other_size.total_cmp(&size))
    });
    all
}

/// Effects, pictures, fresh data, and the tests of papers.
pub(crate) fn findings(file: &TuningFile, at: usize) -> Markup {
    let confirmed = ranked(file).into_iter().filter(|(_, knob)| knob.confirmation.is_some());
    let confirmed: Vec<_> = confirmed.collect();
    html! {
        (pictures::effects(file, at))
        h3 { "Half-normal plot" }
        p.lead { "Effects by size against the sizes that their ranks have if no setting matters: what does not matter lies on the line." }
        (pictures::half_normal(file, at))
        @if !confirmed.is_empty() {
            h3 { "On fresh data" }
            p.lead { "Each named setting alone beside the baseline, in pairs of neighbours in time. Nothing of the screening is used again." }
            @for (number, (plan, knob)) in confirmed.iter().enumerate() {
                (confirmation(file, plan, knob, &format!("fresh{at}-{number}")))
            }
        }
        h3 { "The tests of papers" }
        p.lead { "They do not decide: none of them knows about blocks, so what drifts counts as an effect or hides one. p-values are adjusted for all settings (Holm)." }
        (papers(file, at).render())
        (groups(file))
    }
}

fn confirmation(file: &TuningFile, plan: &KnobPlan, knob: &KnobResult, id: &str) -> Markup {
    let Some(confirmation) = &knob.confirmation else { return html! {} };
    let head = ["metric", "baseline", "changed", "change", "interval", "p", ""];
    let mut table = Table::new(id, head.map(Head::plain).into());
    for Change { metric: name, baseline, changed, estimate, interval: ends, p, said, .. } in
        &confirmation.changes
    {
        let metric = metric(file, name);
        let felt = metric.is_some_and(|metric| metric.felt);
        table.rows.push(vec![
            if felt { format!("{name} (felt)") } else { name.clone() },
            value(metric, *baseline),
            value(metric, *changed),
            change(metric, *estimate),
            interval(metric, *ends),
            probability(Some(*p)),
            said.clone(),
        ]);
    }
    let needed = match confirmation.needed {
        Some(needed) if needed > confirmation.pairs => format!(", about {needed} would be needed"),
        None => ", more than can be planned would be needed".to_owned(),
        Some(_) => String::new(),
    };
    html! {
        p {
            b { (knob.knob) } " " (plan.low) " → " (plan.high) ": " b { (knob.verdict.words()) } ", "
            (text::of(confirmation.pairs, "pair")) (needed) ", p "
            (probability(Some(confirmation.p_adjusted))) " for all named settings together."
            @if !knob.because.is_empty() { " " (knob.because.join("; ")) "." }
        }
        (table.render())
    }
}

fn papers(file: &TuningFile, at: usize) -> Table {
    let head = [
        "setting",
        "maxT p",
        "Dunn p",
        "means test",
        "p",
        "equal variances p",
        "normal values p",
        "fresh: Dunn",
        "Dunnett",
        "Tukey or Games–Howell",
    ];
    let mut table = Table::new(format!("papers{at}"), head.map(Head::plain).into());
    for (_, knob) in ranked(file) {
        let classical = knob.classical.clone().unwrap_or_default();
        let fresh = knob.confirmation.as_ref();
        table.rows.push(vec![
            knob.knob.clone(),
            probability(knob.effect.as_ref().map(|effect| effect.p)),
            probability(classical.dunn_p),
            means(&classical.means_test).to_owned(),
            probability(classical.means_p),
            probability(classical.variances_p),
            probability(classical.normality_p),
            probability(fresh.and_then(|fresh| fresh.dunn_p)),
            probability(fresh.and_then(|fresh| fresh.dunnett_p)),
            probability(fresh.and_then(|fresh| fresh.means_p)),
        ]);
    }
    table
}

fn means(test: &str) -> &'static str {
    match test {
        "tukey" => "Tukey",
        "games_howell" => "Games–Howell",
        _ => "–",
    }
}

/// The groups of the confirmation with the assumptions of their tests.
fn groups(file: &TuningFile) -> Markup {
    let Some(groups) = &file.groups else { return html! {} };
    let held = |p: Option<f64>| match p {
        None => "could not be tested".to_owned(),
        Some(p) if p <= file.plan.alpha => format!("refuted (p {})", probability(Some(p))),
        Some(p) => format!("not refuted (p {})", probability(Some(p))),
    };
    let list = [
        (
            "groups of fresh data differ (Kruskal–Wallis)",
            format!("p {}", probability(groups.kruskal_wallis_p)),
        ),
        ("equal variances, for Tukey and Dunnett", held(groups.variances_p)),
        ("normal values, for Tukey, Games–Howell and Dunnett", held(groups.normality_p)),
        ("so all pairs of means by", means(&groups.means_test).to_owned()),
    ];
    html! { (facts(&list)) }
}

/// What was planned, and what has been said of each knob.
pub(crate) fn plan(file: &TuningFile, at: usize) -> Markup {
    let plan = &file.plan;
    let host = &file.provenance.host;
    let list = [
        ("server", plan.server.clone()),
        ("load", plan.load.clone()),
        ("changed in", plan.scope.clone()),
        ("decided by", plan.primary.clone()),
        (
            "screening",
            format!(
                "{} of {} combinations, resolution {}, {} each",
                text::of(plan.blocks, "block"),
                plan.runs,
                plan.resolution,
                text::of(plan.baselines, "baseline"),
            ),
        ),
        ("level, for all settings together", text::trimmed(plan.alpha, 4)),
        ("permutations", text::count(plan.permutations as u64)),
        ("measurement", text::nanos(plan.measure_ns as f64)),
        ("load before it", text::nanos(plan.warm_up_ns as f64)),
        ("seed", plan.seed.to_string()),
        ("kernel", host.kernel.clone()),
        ("measured by", format!("{} {}", file.generator.name, file.generator.version)),
        ("started", text::utc(file.started_unix_ns / 1_000_000_000)),
    ];
    let head = ["setting", "low", "high", "takes effect", "what has been said of it"];
    let mut table = Table::new(format!("knobs{at}"), head.map(Head::plain).into());
    for knob in &plan.knobs {
        let claims: Vec<String> =
            knob.claims.iter().map(|claim| format!("{}: {}", claim.by, claim.says)).collect();
        let KnobPlan { name, low, high, takes_effect, .. } = knob.clone();
        table.rows.push(vec![name, low, high, takes_effect, claims.join("; ")]);
    }
    html! { (facts(&list)) (table.render()) }
}
