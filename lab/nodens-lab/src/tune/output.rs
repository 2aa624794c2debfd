//! What a trial says, for a terminal.

use crate::term::{self, Style, Table};
use lab_result::tuning::{Change, Groups, KnobPlan, KnobResult, MetricInfo, TuningFile, Verdict};
use std::fmt::Write as _;

/// Everything.
pub(super) fn text(file: &TuningFile) -> String {
    let mut text = String::new();
    line(
        &mut text,
        &format!("{}  {}", term::paint(Style::Bold, &file.plan.server), file.plan.load),
    );
    line(&mut text, &effects(file).framed());
    for (_, knob) in ranked(file).into_iter().filter(|(_, knob)| knob.confirmation.is_some()) {
        fresh(&mut text, file, knob);
    }
    for paragraph in papers(file) {
        line(&mut text, &format!("  {paragraph}"));
    }
    file.notes.iter().for_each(|note| line(&mut text, &format!("  {note}")));
    if file.interrupted {
        let told = "interrupted: the findings are of the measurements so far";
        line(&mut text, &term::paint(Style::Bad, told));
    }
    for why in &file.invalid_because {
        line(&mut text, &term::paint(Style::Bad, &format!("INVALID: {why}")));
    }
    line(&mut text, &sentence(file));
    text
}

fn line(text: &mut String, what: &str) {
    // Writing to a string does not fail.
    _ = writeln!(text, "{what}");
}

fn style(verdict: Verdict) -> Style {
    match verdict {
        Verdict::Better | Verdict::Cheaper => Style::Good,
        Verdict::Worse | Verdict::Dearer => Style::Bad,
        Verdict::Mixed | Verdict::NotFelt | Verdict::Unconfirmed => Style::Accent,
        Verdict::NotShown | Verdict::Unknown => Style::Dim,
    }
}

/// The settings, those that were named first, and then by the size of the effect.
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

fn effects(file: &TuningFile) -> Table {
    let level = format!("{:.0} % interval", (1.0 - file.plan.alpha) * 100.0);
    let effect = format!("effect on {}", file.plan.primary);
    let header =
        ["setting", "low", "high", &effect, &level, "p", "on fresh data", "verdict", "claimed"];
    let mut table = Table::new(&header);
    let primary = file.metrics.first();
    for (plan, knob) in ranked(file) {
        let effect = knob.effect.as_ref();
        let fresh = knob.confirmation.as_ref().and_then(|fresh| fresh.changes.first());
        let claims = plan.claims.iter().map(|claim| (claim.expects.as_str(), claim.by.as_str()));
        table.styled(
            style(knob.verdict),
            vec![
                plan.name.clone(),
                term::cut(&plan.low, 24),
                term::cut(&plan.high, 24),
                effect.map_or("–".to_owned(), |effect| change(primary, effect.estimate)),
                effect.map_or("–".to_owned(), |effect| interval(primary, effect.interval)),
                effect.map_or("–".to_owned(), |effect| term::probability(effect.p)),
                fresh.map_or("–".to_owned(), |fresh| change(primary, fresh.estimate)),
                knob.verdict.words().to_owned(),
                by_expectation(claims),
            ],
        );
    }
    table
}

/// Who expects what, as `better: A, B; no change: C`.
pub(super) fn by_expectation<'a>(claims: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    for (expects, by) in claims {
        match all.iter_mut().find(|known| known.0 == expects) {
            Some((_, names)) if names.contains(&by) => {}
            Some((_, names)) => names.push(by),
            None => all.push((expects, vec![by])),
        }
    }
    let parts = all.iter().map(|(expects, names)| format!("{expects}: {}", names.join(", ")));
    parts.collect::<Vec<_>>().join("; ")
}

/// A change of a metric: percent of what it was, percentage points, or in its unit.
fn change(metric: Option<&MetricInfo>, value: f64) -> String {
    let (unit, scaled) = match metric {
        Some(metric) if metric.scale == "ratio" => (" %", value * 100.0),
        Some(metric) if metric.unit == "part" => (" points", value * 100.0),
        _ => ("", value),
    };
    let digits = if scaled.abs() >= 100.0 { 0 } else { 2 };
    format!("{scaled:+.digits$}{unit}").replace('-', "−")
}

fn interval(metric: Option<&MetricInfo>, ends: Option<[f64; 2]>) -> String {
    let text = |[low, high]: [f64; 2]| {
        format!("{} to {}", change(metric, low).trim_end_matches(" %"), change(metric, high))
    };
    ends.map_or("none".to_owned(), text)
}

fn value(metric: &MetricInfo, value: f64) -> String {
    match metric.unit.as_str() {
        "ns" => term::nanos(value),
        "part" => term::percent(value),
        "per second" => term::rate(value),
        _ => format!("{value:.2}"),
    }
}

/// One setting on fresh data, metric by metric.
fn fresh(text: &mut String, file: &TuningFile, knob: &KnobResult) {
    let Some(confirmation) = &knob.confirmation else { return };
    let because = match knob.because.is_empty() {
        true => String::new(),
        false => format!(" ({})", knob.because.join("; ")),
    };
    let verdict = term::paint(style(knob.verdict), knob.verdict.words());
    line(
        text,
        &format!(
            "{}  {verdict}{because}, {} on fresh data, p {}",
            term::paint(Style::Bold, &knob.knob),
            term::of(confirmation.pairs, "pair"),
            term::probability(confirmation.p_adjusted),
        ),
    );
    let mut table = Table::new(&["metric", "baseline", "changed", "change", "interval", "p", ""]);
    for one in &confirmation.changes {
        let Some(metric) = file.metrics.iter().find(|metric| metric.name == one.metric) else {
            continue;
        };
        table.row(row(metric, one));
    }
    line(text, &table.framed());
}

fn row(metric: &MetricInfo, one: &Change) -> Vec<String> {
    let felt = if metric.felt { " (felt)" } else { "" };
    vec![
        format!("{}{felt}", metric.name),
        value(metric, one.baseline),
        value(metric, one.changed),
        change(Some(metric), one.estimate),
        interval(Some(metric), one.interval),
        term::probability(one.p),
        one.said.clone(),
    ]
}

/// What the tests of papers say beside the verdict, with their assumptions.
fn papers(file: &TuningFile) -> Vec<String> {
    let alpha = file.plan.alpha;
    let by = |p: fn(&KnobResult) -> Option<f64>| {
        let named = file.knobs.iter().filter(|knob| p(knob).is_some_and(|p| p <= alpha));
        let names: Vec<&str> = named.map(|knob| knob.knob.as_str()).collect();
        if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
    };
    let mut all = Vec::new();
    if file.knobs.iter().any(|knob| knob.classical.is_some()) {
        let dunn = by(|knob| knob.classical.as_ref()?.dunn_p);
        let means = by(|knob| knob.classical.as_ref()?.means_p);
        let uneven = by(|knob| knob.classical.as_ref()?.variances_p);
        let odd = file.knobs.iter().filter_map(|knob| knob.classical.as_ref()?.normality_p);
        let (refuted, tested) =
            odd.fold((0, 0), |(n, all), p| (n + usize::from(p <= alpha), all + 1));
        all.push(format!(
            "papers' tests of the same runs, which know no blocks and do not decide: Dunn names {dunn}; Tukey or \
             Games–Howell names {means}"
        ));
        all.push(format!(
            "what they assume: equal variances are refuted for {uneven}; normal values are refuted for {refuted} of \
             {tested} settings"
        ));
    }
    all.extend(file.groups.as_ref().map(|groups| of_groups(file, groups)));
    all
}

fn of_groups(file: &TuningFile, groups: &Groups) -> String {
    let p = |p: Option<f64>| p.map_or("unknown".to_owned(), term::probability);
    let test = if groups.means_test == "tukey" { "Tukey" } else { "Games–Howell" };
    let knobs = file.knobs.iter().filter_map(|knob| Some((knob, knob.confirmation.as_ref()?)));
    let each = knobs.map(|(knob, fresh)| {
        let (dunn, dunnett, means) = (p(fresh.dunn_p), p(fresh.dunnett_p), p(fresh.means_p));
        format!("{}: Dunn {dunn}, Dunnett {dunnett}, {test} {means}", knob.knob)
    });
    format!(
        "of fresh data: Kruskal–Wallis p {}, equal variances p {}, normal values p {}; {}",
        p(groups.kruskal_wallis_p),
        p(groups.variances_p),
        p(groups.normality_p),
        each.collect::<Vec<_>>().join("; ")
    )
}

/// The result in a sentence.
fn sentence(file: &TuningFile) -> String {
    let of = |verdict: Verdict| {
        let mine = file.knobs.iter().filter(|knob| knob.verdict == verdict);
        let names: Vec<&str> = mine.map(|knob| knob.knob.as_str()).collect();
        (!names.is_empty()).then(|| format!("{}: {}", verdict.words(), names.join(", ")))
    };
    use Verdict::{Better, Cheaper, Dearer, Mixed, NotFelt, Unconfirmed, Worse};
    let told: Vec<String> = [Better, Cheaper, Mixed, Worse, Dearer, NotFelt, Unconfirmed]
        .into_iter()
        .filter_map(of)
        .collect();
    let all = term::of(file.knobs.len(), "setting");
    let sentence = match told.is_empty() {
        true => format!("of {all} none is shown to change {}", file.plan.primary),
        false => format!("of {all}: {}", told.join("; ")),
    };
    term::paint(Style::Bold, &sentence)
}

#[cfg(test)]
mod tests;
