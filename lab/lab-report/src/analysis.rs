//! Results that were analysed: groups beside each other, every value, and what weakens it.

mod values;

pub(crate) use values::values;

use crate::percentiles::{self, Curve};
use crate::plot::{Key, legend, plain};
use crate::svg::{Drawing, Path, WIDTH};
use crate::table::{Head, Table, facts};
use crate::{COLOURS, text};
use lab_result::analysis::{AnalysedMetric, AnalysisFile, Assumed, Contrast, Family, Shown};
use maud::{Markup, html};

/// Units of height of an interval.
const ROW: f64 = 24.0;

/// A heading for a page about this alone.
pub(crate) fn heading(file: &AnalysisFile) -> String {
    let names: Vec<&str> = file.groups.iter().map(|group| group.name.as_str()).collect();
    match names.as_slice() {
        [] => "No results".to_owned(),
        [one] => (*one).to_owned(),
        [first, second] => format!("{second} beside {first}"),
        all => format!("{} groups", all.len()),
    }
}

/// How many findings there are, and what weakens them.
pub(crate) fn verdict(file: &AnalysisFile) -> Markup {
    let shown = |wanted: &[Shown]| {
        let all = file.metrics.iter().flat_map(|metric| &metric.contrasts);
        all.filter(|contrast| wanted.contains(&contrast.shown)).count()
    };
    let counts = [
        ("different", shown(&[Shown::Lower, Shown::Higher])),
        ("equivalent", shown(&[Shown::Equivalent])),
        ("inconclusive", shown(&[Shown::Inconclusive])),
        ("not judged", shown(&[Shown::Unjudged])),
    ];
    let said: Vec<String> = counts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(what, count)| format!("{count} {what}"))
        .collect();
    let trials: usize = file.groups.iter().map(|group| group.trials.len()).sum();
    html! {
        div.verdict.open {
            span.badge { (text::of(trials, "trial").to_uppercase()) }
            div {
                p {
                    (text::of(file.groups.len(), "group"))
                    @if !said.is_empty() { "; compared with each other: " (said.join(", ")) }
                    "."
                }
                @if !file.warnings.is_empty() {
                    ul.notes { @for warning in &file.warnings { li { (warning) } } }
                }
            }
        }
    }
}

/// The colour of a group.
fn class(file: &AnalysisFile, name: &str) -> String {
    let at = file.groups.iter().position(|group| group.name == name).unwrap_or(0);
    format!("s{}", at % COLOURS)
}

/// A value in the unit of its metric.
fn value(metric: &AnalysedMetric, value: f64) -> String {
    let (sign, size) = (if value < 0.0 { "−" } else { "" }, value.abs());
    match metric.unit.as_str() {
        "ns" => format!("{sign}{}", text::nanos(size)),
        "/s" => format!("{sign}{}", text::rate(size)),
        "part" => format!("{sign}{}", text::percent(size)),
        "" => format!("{sign}{}", text::trimmed(size, 3)),
        other => format!("{sign}{} {other}", text::trimmed(size, 2)),
    }
}

/// A difference on the scale of its metric.
fn change(metric: &AnalysedMetric, difference: f64) -> String {
    let (sign, size) = (if difference < 0.0 { "−" } else { "+" }, difference.abs());
    if metric.scale == "ratio" && difference > 2.0 {
        return format!("× {}", text::trimmed(1.0 + difference, 1));
    }
    if metric.unit == "part" {
        return format!("{sign}{} points", text::trimmed(size * 100.0, 3));
    }
    if metric.scale == "ratio" {
        return format!("{sign}{} %", text::trimmed(size * 100.0, if size < 0.1 { 2 } else { 1 }));
    }
    format!("{sign}{}", value(metric, size))
}

/// All contrasts of each metric, with their intervals drawn.
pub(crate) fn findings(file: &AnalysisFile, at: usize) -> Markup {
    let metrics: Vec<&AnalysedMetric> =
        file.metrics.iter().filter(|metric| !metric.contrasts.is_empty()).collect();
    let all = metrics.iter().flat_map(|metric| &metric.contrasts);
    if file.groups.len() > 2 && all.clone().all(|contrast| contrast.p.is_none()) {
        return html! { p { "No group has two values: how much they differ by chance is not in the data, and none is compared." } };
    }
    if metrics.is_empty() {
        return html! {};
    }
    let keys = [
        Key::line("interval", "interval"),
        Key::dot("estimate", "estimate"),
        Key::filled("margin", "margin: differences that do not matter"),
    ];
    html! {
        (legend(&keys))
        @for (number, metric) in metrics.iter().enumerate() {
            h3 { (metric.name) }
            (contrasts(metric, &format!("contrasts{at}-{number}")))
            @for note in &metric.notes { p.lead { (note) } }
        }
    }
}

/// Columns behind the groups.
const DECIDES: [&str; 4] = ["verdict", "difference", "interval", "p (Holm)"];

fn contrasts(metric: &AnalysedMetric, id: &str) -> Markup {
    let reach = reach(metric);
    html! {
        div.scroll tabindex="0" role="group" aria-label="Groups compared" {
            table.findings id=(id) {
                thead { tr {
                    th scope="col" { "groups" }
                    @for head in DECIDES { th scope="col" { (head) } }
                    th.drawn scope="col" { span { "less" } span { "0" } span { "more" } }
                    th.name scope="col" { "test" }
                } }
                tbody { @for contrast in &metric.contrasts { (row(metric, contrast, reach)) } }
            }
        }
    }
}

fn row(metric: &AnalysedMetric, contrast: &Contrast, reach: f64) -> Markup {
    let (class, verdict) = match (contrast.shown, metric.better.as_str()) {
        (Shown::Lower, "lower") => ("good", "lower"),
        (Shown::Higher, "higher") => ("good", "higher"),
        (Shown::Lower, "higher") => ("bad", "lower"),
        (Shown::Higher, "lower") => ("bad", "higher"),
        (Shown::Lower, _) => ("same", "lower"),
        (Shown::Higher, _) => ("same", "higher"),
        (Shown::Equivalent, _) => ("same", "equivalent"),
        (Shown::Inconclusive, _) => ("open", "inconclusive"),
        (Shown::Unjudged, _) => ("open", "not judged"),
    };
    let interval = contrast.interval.map_or("none".to_owned(), |[low, high]| {
        format!("[{}, {}]", change(metric, low), change(metric, high))
    });
    let [first, second] = contrast.values;
    html! {
        tr {
            th scope="row" { (contrast.group) small { "beside " (contrast.with) } }
            @let [of_verdict, of_change, of_interval, of_p] = DECIDES;
            td.(class) data-of=(of_verdict) { (verdict) }
            td data-of=(of_change) { (change(metric, contrast.estimate)) }
            td data-of=(of_interval) { (interval) }
            td data-of=(of_p) { @match contrast.p_adjusted { Some(p) => { (p_value(p)) } None => { "–" } } }
            td.drawn { (drawn(metric, contrast, reach)) }
            td.name data-of="test" {
                (contrast.test) @if !contrast.test.is_empty() { ": " } (second) " and " (first) " values"
                @if !contrast.because.is_empty() { ", " (contrast.because) }
            }
        }
    }
}

fn p_value(p: f64) -> String {
    if p < 0.0001 { "< 0.0001".to_owned() } else { format!("{p:.4}") }
}

/// A difference on an axis on which ratios and their inverses are equally far from 0.
fn place(metric: &AnalysedMetric, difference: f64) -> f64 {
    if metric.scale == "ratio" { (1.0 + difference).max(1e-3).ln() } else { difference }
}

/// How far the drawing reaches to both sides.
fn reach(metric: &AnalysedMetric) -> f64 {
    let of = |contrast: &Contrast| {
        let ends = contrast.interval.unwrap_or([contrast.estimate; 2]);
        let estimate = place(metric, contrast.estimate).abs();
        ends.into_iter().map(|end| place(metric, end).abs()).fold(estimate, f64::max)
    };
    let margin = place(metric, metric.margin).abs() * 1.5;
    let all = metric.contrasts.iter().map(of).filter(|end| end.is_finite());
    all.fold(margin.max(1e-9), f64::max) * 1.05
}

fn drawn(metric: &AnalysedMetric, contrast: &Contrast, reach: f64) -> Markup {
    let x = |value: f64| ((place(metric, value) / reach).clamp(-1.0, 1.0) + 1.0) / 2.0 * WIDTH;
    let (mut margin, mut zero, mut line, mut dot) = Default::default();
    let (from, to) = (x(-metric.margin), x(metric.margin));
    Path::rect(&mut margin, from, 2.0, to - from, ROW - 4.0);
    Path::upright(&mut zero, WIDTH / 2.0, 0.0, ROW);
    if let Some([low, high]) = contrast.interval {
        Path::across(&mut line, x(low), ROW / 2.0, x(high));
    }
    Path::dot(&mut dot, x(contrast.estimate), ROW / 2.0);
    let mut drawing = Drawing::default();
    drawing.path("fill margin", &margin);
    drawing.path("grid", &zero);
    drawing.path("line interval", &line);
    drawing.path("dot estimate", &dot);
    drawing.finish(ROW)
}

/// The slowest part of all queries of each group.
pub(crate) fn curves(file: &AnalysisFile, at: usize) -> Markup {
    let curves: Vec<Curve<'_>> = file
        .groups
        .iter()
        .filter_map(|group| {
            let histogram = &group.response.as_ref()?.0;
            Some(Curve { histogram, key: Key::line(class(file, &group.name), group.name.clone()) })
        })
        .collect();
    if curves.is_empty() {
        return html! {};
    }
    let name = "Response time of the slowest part of all queries of each group";
    percentiles::plot(&format!("groups{at}"), name, &curves, 360.0)
}

/// Trials whose loop is known.
pub(crate) fn loops(file: &AnalysisFile, at: usize) -> Markup {
    if file.loops.is_empty() {
        return html! {};
    }
    let head = [
        "trial",
        "group",
        "in flight",
        "rate",
        "lost",
        "in flight ÷ rate",
        "in the file",
        "the loop alone",
    ];
    let mut table = Table::new(format!("loops-table{at}"), head.map(Head::plain).into());
    table.rows = file
        .loops
        .iter()
        .map(|check| {
            vec![
                check.place.clone(),
                check.group.clone(),
                text::trimmed(check.window, 1),
                text::rate(check.rate),
                text::percent(check.loss),
                text::nanos(check.predicted_ns),
                text::nanos(check.mean_ns),
                if check.explained { "yes" } else { "no" }.to_owned(),
            ]
        })
        .collect();
    table.render()
}

/// What the tests of papers are beside the findings.
pub(crate) fn families_lead() -> Markup {
    plain(
        "For comparison with papers. None of these tests knows about blocks or the order of time but \
         Friedman’s, and each is right only as far as its assumptions hold.",
    )
}

/// The tests that papers use, metric by metric.
pub(crate) fn families(file: &AnalysisFile, at: usize) -> Markup {
    let metrics = || file.metrics.iter().filter(|metric| !metric.families.is_empty());
    html! {
        @for (number, metric) in metrics().enumerate() {
            h3 { (metric.name) }
            @for (place, family) in metric.families.iter().enumerate() {
                (family_of(metric, family, &format!("family{at}-{number}-{place}")))
            }
        }
    }
}

fn family_of(metric: &AnalysedMetric, family: &Family, id: &str) -> Markup {
    let assumed: Vec<String> = family.assumes.iter().map(assumption).collect();
    let is_of_means = family.pairs.iter().any(|pair| pair.interval.is_some());
    let head = ["groups", "difference", "interval", "p"];
    let mut table = Table::new(id, head.map(Head::plain).into());
    table.rows = family
        .pairs
        .iter()
        .map(|pair| {
            let of = |number: f64| {
                if is_of_means { value(metric, number) } else { text::trimmed(number, 1) }
            };
            let interval = pair.interval.map(|[low, high]| format!("[{}, {}]", of(low), of(high)));
            vec![
                format!("{} beside {}", pair.group, pair.with),
                of(pair.difference),
                interval.unwrap_or_else(|| "–".to_owned()),
                p_value(pair.p),
            ]
        })
        .collect();
    html! {
        p {
            b { (family.test) }
            @if let (Some(statistic), Some(p)) = (family.statistic, family.p) {
                ": " (text::trimmed(statistic, 2)) ", p " (p_value(p))
            }
            @if !assumed.is_empty() { span.lead { " assumes " (assumed.join("; ")) } }
        }
        @if !table.rows.is_empty() { (table.render()) }
    }
}

fn assumption(assumed: &Assumed) -> String {
    let holds = match assumed.refuted {
        Some(true) => "REFUTED",
        Some(false) => "not refuted",
        None => "unknown",
    };
    format!("{}: {holds} ({})", assumed.what, assumed.by)
}

/// The files, and what was taken for true to read them.
pub(crate) fn sources(file: &AnalysisFile, at: usize) -> Markup {
    let head = ["file", "format", "trials", "SHA-256"];
    let mut table = Table::new(format!("sources-table{at}"), head.map(Head::plain).into());
    table.rows = file
        .sources
        .iter()
        .map(|source| {
            let trials = text::count(source.trials as u64);
            vec![source.path.clone(), source.format.clone(), trials, source.sha256.clone()]
        })
        .collect();
    let settings = &file.settings;
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    html! {
        @if !file.assumptions.is_empty() { ul { @for text in &file.assumptions { li { (text) } } } }
        (facts(&[
            ("level", text::trimmed(settings.alpha, 4)),
            ("one value is", if settings.unit == "part" { "a second or reading" } else { "a run" }.to_owned()),
            ("compared within blocks", yes(settings.paired)),
            ("equal readings in a row count once", yes(settings.once)),
            ("baseline", settings.baseline.clone().unwrap_or_default()),
            ("metric that decides", settings.primary.clone().unwrap_or_default()),
            ("made by", format!("{} {}", file.generator.name, file.generator.version)),
        ]))
        (table.render())
    }
}
