//! An analysis for people.

use crate::term::{self, Style, Table};
use lab_result::analysis::{
    AnalysedMetric, AnalysisFile, Assumed, Contrast, Family, LoopCheck, Sample, Shown,
};
use std::fmt::Write as _;

/// Trials of closed loops that are shown one by one.
const LOOPS_SHOWN: usize = 24;

/// Everything, with a line end behind the last line.
pub(super) fn text(file: &AnalysisFile) -> String {
    let mut text = String::new();
    line(&mut text, &head(file));
    for source in &file.sources {
        let trials = term::of(source.trials, "trial");
        line(
            &mut text,
            &term::paint(Style::Dim, &format!("  {}  {}, {trials}", source.path, source.format)),
        );
    }
    list(&mut text, "taken for true", &file.assumptions, Style::Dim);
    list(&mut text, "what weakens it", &file.warnings, Style::Accent);
    line(&mut text, "");
    let all = || file.metrics.iter().flat_map(|metric| &metric.samples);
    let is_single = all().all(|sample| sample.values.len() == 1);
    line(&mut text, &if is_single { singles(file) } else { samples(file) }.framed());
    let mut all = file.metrics.iter().flat_map(|metric| &metric.contrasts).peekable();
    if all.peek().is_some() {
        let has_any = all.any(|contrast| contrast.p.is_some() || file.groups.len() == 2);
        let none = "no group has two values: how much they differ by chance is not in the data, and none is compared";
        line(&mut text, &if has_any { contrasts(file).framed() } else { format!("  {none}") });
    }
    for metric in &file.metrics {
        families(&mut text, metric);
        metric
            .notes
            .iter()
            .for_each(|note| wrapped(&mut text, &format!("{}: {note}", metric.name), Style::Plain));
    }
    if !file.loops.is_empty() {
        line(&mut text, "");
        line(&mut text, &loops(&file.loops).framed());
    }
    text
}

fn line(text: &mut String, what: &str) {
    // Writing to a string does not fail.
    _ = writeln!(text, "{what}");
}

fn wrapped(text: &mut String, what: &str, style: Style) {
    let width = term::width().unwrap_or(120).max(40);
    for one in term::wrap(&format!("  {what}"), width, 4) {
        line(text, &term::paint(style, &one));
    }
}

fn list(text: &mut String, heading: &str, lines: &[String], style: Style) {
    if lines.is_empty() {
        return;
    }
    line(text, "");
    line(text, &term::paint(Style::Bold, heading));
    lines.iter().for_each(|one| wrapped(text, one, style));
}

fn head(file: &AnalysisFile) -> String {
    let trials: usize = file.groups.iter().map(|group| group.trials.len()).sum();
    let unit =
        if file.settings.unit == "part" { ", a value for each second or reading" } else { "" };
    let paired = if file.settings.paired { ", compared within blocks" } else { "" };
    let all = format!("{} in {}", term::of(trials, "trial"), term::of(file.groups.len(), "group"));
    format!("{}{unit}{paired}", term::paint(Style::Bold, &all))
}

/// A value in its unit.
fn value(unit: &str, value: f64) -> String {
    let sign = if value < 0.0 { "−" } else { "" };
    let size = value.abs();
    match unit {
        "ns" => format!("{sign}{}", term::nanos(size)),
        "/s" => format!("{sign}{}", term::rate(size)),
        "part" => format!("{sign}{}", term::percent(size)),
        other => {
            let digits = if size >= 100.0 || size.fract() == 0.0 { 1 } else { 3 };
            let number = format!("{size:.digits$}");
            let number = number.strip_suffix(".0").unwrap_or(&number);
            format!("{sign}{number}{}{other}", if other.is_empty() { "" } else { " " })
        }
    }
}

/// A difference on the scale of its metric.
fn change(metric: &AnalysedMetric, difference: f64) -> String {
    let sign = if difference < 0.0 { "−" } else { "+" };
    let size = difference.abs();
    if metric.scale == "ratio" && difference > 2.0 {
        return format!("× {:.1}", 1.0 + difference);
    }
    if metric.unit == "part" {
        return format!("{sign}{:.3} points", size * 100.0);
    }
    if metric.scale == "ratio" {
        let digits = if size < 0.1 { 2 } else { 1 };
        return format!("{sign}{:.digits$} %", size * 100.0);
    }
    format!("{sign}{}", value(&metric.unit, size))
}

/// One value of each metric for each group, as a page would have them.
fn singles(file: &AnalysisFile) -> Table {
    let mut header = vec!["group"];
    header.extend(file.metrics.iter().map(|metric| metric.name.as_str()));
    let mut table = Table::new(&header);
    for group in &file.groups {
        let cell = |metric: &AnalysedMetric| {
            let sample = metric.samples.iter().find(|sample| sample.group == group.name);
            sample.map_or("–".to_owned(), |sample| {
                let bound = if sample.bounds > 0 { "≥ " } else { "" };
                format!("{bound}{}", value(&metric.unit, sample.mean))
            })
        };
        table.row([group.name.clone()].into_iter().chain(file.metrics.iter().map(cell)).collect());
    }
    table
}

fn samples(file: &AnalysisFile) -> Table {
    let level = format!("its {:.0} % interval", (1.0 - file.settings.alpha) * 100.0);
    let header =
        ["metric", "group", "values", "median", &level, "lowest", "highest", "mean", "deviation"];
    let mut table = Table::new(&header);
    for metric in &file.metrics {
        for (at, sample) in metric.samples.iter().enumerate() {
            let name = if at == 0 { metric.name.clone() } else { String::new() };
            table.row(sample_row(metric, name, sample));
        }
    }
    table
}

fn sample_row(metric: &AnalysedMetric, name: String, sample: &Sample) -> Vec<String> {
    let of = |number: f64| value(&metric.unit, number);
    let [lowest, _, median, _, highest] = sample.five;
    // Values that are only bounds are the highest ones.
    let bound = |rank: f64| {
        let known = sample.values.len().saturating_sub(sample.bounds) as f64;
        if sample.bounds > 0 && rank * sample.values.len() as f64 >= known { "≥ " } else { "" }
    };
    let interval = sample
        .median_interval
        .map_or("–".to_owned(), |[low, high]| format!("{} to {}", of(low), of(high)));
    vec![
        name,
        sample.group.clone(),
        sample.values.len().to_string(),
        format!("{}{}", bound(0.5), of(median)),
        interval,
        format!("{}{}", bound(0.0), of(lowest)),
        format!("{}{}", bound(1.0), of(highest)),
        format!("{}{}", bound(1.0), of(sample.mean)),
        sample.deviation.map_or("–".to_owned(), of),
    ]
}

fn contrasts(file: &AnalysisFile) -> Table {
    let level = format!("{:.0} % interval", (1.0 - file.settings.alpha) * 100.0);
    let header = ["metric", "group", "beside", "difference", &level, "p", "p (Holm)", "verdict"];
    let mut table = Table::new(&header);
    for metric in &file.metrics {
        for (at, contrast) in metric.contrasts.iter().enumerate() {
            let name = if at == 0 { metric.name.clone() } else { String::new() };
            table.styled(style(metric, contrast.shown), contrast_row(metric, name, contrast));
        }
    }
    table
}

fn style(metric: &AnalysedMetric, shown: Shown) -> Style {
    match (shown, metric.better.as_str()) {
        (Shown::Lower, "lower") | (Shown::Higher, "higher") => Style::Good,
        (Shown::Lower, "higher") | (Shown::Higher, "lower") => Style::Bad,
        (Shown::Equivalent, _) => Style::Accent,
        (Shown::Inconclusive | Shown::Unjudged, _) => Style::Dim,
        _ => Style::Plain,
    }
}

fn contrast_row(metric: &AnalysedMetric, name: String, contrast: &Contrast) -> Vec<String> {
    let p = |p: Option<f64>| p.map_or("–".to_owned(), term::probability);
    vec![
        name,
        contrast.group.clone(),
        contrast.with.clone(),
        change(metric, contrast.estimate),
        contrast.interval.map_or("–".to_owned(), |[low, high]| {
            format!("{} to {}", change(metric, low), change(metric, high))
        }),
        p(contrast.p),
        p(contrast.p_adjusted),
        verdict(metric, contrast),
    ]
}

fn verdict(metric: &AnalysedMetric, contrast: &Contrast) -> String {
    let word = match (contrast.shown, metric.better.as_str()) {
        (Shown::Lower, "lower") => "lower: better",
        (Shown::Lower, "higher") => "lower: worse",
        (Shown::Lower, _) => "lower",
        (Shown::Higher, "higher") => "higher: better",
        (Shown::Higher, "lower") => "higher: worse",
        (Shown::Higher, _) => "higher",
        (Shown::Equivalent, _) => "equivalent",
        (Shown::Inconclusive, _) => "inconclusive",
        (Shown::Unjudged, _) => "not judged",
    };
    let is_open = matches!(contrast.shown, Shown::Inconclusive | Shown::Unjudged);
    if contrast.because.is_empty() || !is_open {
        return word.to_owned();
    }
    let because = contrast.because.split(':').next().unwrap_or_default();
    format!("{word}: {because}")
}

/// The tests that papers use, a line each.
fn families(text: &mut String, metric: &AnalysedMetric) {
    if metric.families.is_empty() {
        return;
    }
    line(text, &term::paint(Style::Bold, &format!("{}, as papers test it", metric.name)));
    let mut said: &[Assumed] = &[];
    for family in &metric.families {
        wrapped(text, &format!("{}: {}", family.test, found(family)), Style::Plain);
        let assumed: Vec<String> = family.assumes.iter().map(assumption).collect();
        if family.assumes != said {
            wrapped(text, &format!("  assumes {}", assumed.join("; ")), Style::Dim);
        }
        said = &family.assumes;
    }
}

fn found(family: &Family) -> String {
    if let (Some(statistic), Some(p)) = (family.statistic, family.p) {
        return format!("{statistic:.2}, p {}", term::probability(p));
    }
    let pair = |pair: &lab_result::analysis::FamilyPair| {
        format!("{} beside {} p {}", pair.group, pair.with, term::probability(pair.p))
    };
    family.pairs.iter().map(pair).collect::<Vec<_>>().join(", ")
}

fn assumption(assumed: &Assumed) -> String {
    let holds = match assumed.refuted {
        Some(true) => "REFUTED",
        Some(false) => "not refuted",
        None => "unknown",
    };
    format!("{}: {holds} ({})", assumed.what, assumed.by)
}

fn loops(loops: &[LoopCheck]) -> Table {
    let header = [
        "closed loop",
        "group",
        "in flight",
        "rate",
        "lost",
        "÷ rate",
        "in the file",
        "the loop alone?",
    ];
    let mut table = Table::new(&header);
    for check in loops.iter().take(LOOPS_SHOWN) {
        let style = if check.explained { Style::Bad } else { Style::Plain };
        table.styled(
            style,
            vec![
                check.place.rsplit('/').next().unwrap_or_default().to_owned(),
                check.group.clone(),
                format!("{:.0}", check.window),
                term::rate(check.rate),
                term::percent(check.loss),
                term::nanos(check.predicted_ns),
                term::nanos(check.mean_ns),
                if check.explained { "yes" } else { "no" }.to_owned(),
            ],
        );
    }
    if loops.len() > LOOPS_SHOWN {
        let more = format!("and {} more", loops.len() - LOOPS_SHOWN);
        table.row([more].into_iter().chain((1..header.len()).map(|_| String::new())).collect());
    }
    table
}
