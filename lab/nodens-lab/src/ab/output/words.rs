//! One finding in words.

use crate::term::{self, Style};
use lab_result::comparison::{ComparisonFile, Finding, Shift, Verdict};

/// What is known of a difference of two quantiles that both lie among lost queries.
const UNKNOWN: &str = "at least the timeout on both sides";

/// The same of two capacities out of reach.
const UNKNOWN_CAPACITY: &str = "out of reach on both sides";

/// The name of a load and, unless that is its name, its rate.
pub(super) fn load_name(finding: &Finding) -> String {
    let name = &finding.cell.load;
    if name.ends_with("/s") || finding.unit == "qps" {
        name.clone()
    } else {
        format!("{name} ({}/s)", term::rate(finding.rate))
    }
}

/// A value of one side in its unit.
pub(super) fn value(finding: &Finding, value: f64) -> String {
    match &*finding.unit {
        "ns" => term::nanos(value),
        "octets" => format!("{:.1} MiB", value / f64::from(1 << 20)),
        "qps" => format!("{}/s", term::rate(value)),
        _ => term::percent(value),
    }
}

/// A value that may be only a bound: at least this, because it lies among the lost queries, or at most.
pub(super) fn bound(bounds: [bool; 2], text: String) -> String {
    match bounds {
        [false, false] => text,
        [true, false] => format!("≥ {text}"),
        [false, true] => format!("≤ {text}"),
        [true, true] => "unknown".to_owned(),
    }
}

/// The estimated difference, as far as it is known.
pub(super) fn estimate(finding: &Finding) -> String {
    finding.shift().sign(&change(finding, finding.estimate))
}

/// A difference with its sign: percent of A, for parts in percentage points.
pub(super) fn change(finding: &Finding, value: f64) -> String {
    let points = if finding.scale == "ratio" { "%" } else { "points" };
    if finding.scale == "ratio" && value >= 9.0 {
        return format!("× {:.0}", value + 1.0);
    }
    let percent = value * 100.0;
    let digits = if percent.abs() >= 100.0 { 0 } else { 1 };
    let text = format!("{percent:+.digits$}").replace('-', "−");
    let zero = ["+0.0", "−0.0"].contains(&&*text);
    format!("{} {points}", if zero { "0.0" } else { &text })
}

pub(super) fn size(finding: &Finding, value: f64) -> String {
    change(finding, value.abs()).trim_start_matches('+').to_owned()
}

pub(super) fn interval(finding: &Finding) -> String {
    finding.interval.map_or("too few pairs".to_owned(), |ends| {
        let ends = ends.map(|end| change(finding, end));
        finding.shift().interval(ends, |low, high| format!("{low} to {high}"))
    })
}

/// A probability behind its `p`: `= 0.0312`, `< 0.0001`.
pub(super) fn p_of(p: f64) -> String {
    let text = term::probability(p);
    if text.starts_with('<') { text } else { format!("= {text}") }
}

/// Whether the metric is a time to answer.
fn timed(finding: &Finding) -> bool {
    finding.cell.metric.starts_with('p')
}

/// The word for a verdict on a metric: only time is fast or slow.
pub(super) fn verdict(finding: &Finding) -> String {
    let timed = timed(finding);
    match finding.verdict {
        Verdict::Faster if timed => "faster".to_owned(),
        Verdict::Slower if timed => "slower".to_owned(),
        Verdict::Faster | Verdict::Slower => {
            let is_more = (finding.verdict == Verdict::Faster) == finding.more_is_better;
            if is_more { "higher" } else { "lower" }.to_owned()
        }
        Verdict::Equivalent => "equivalent".to_owned(),
        Verdict::Inconclusive => finding.pairs_needed.map_or_else(
            || "inconclusive".to_owned(),
            |pairs| format!("inconclusive, ~{}", term::of(pairs, "pair")),
        ),
    }
}

/// The verdict as a sentence.
pub(crate) fn sentence(file: &ComparisonFile) -> String {
    let Some(finding) = file.findings.first().filter(|finding| finding.primary) else {
        return term::paint(Style::Bad, "no verdict: the primary metric was not measured");
    };
    let (a, b) = (&file.a.name, &file.b.name);
    let cell = &finding.cell;
    let place = format!("{} at {} of {}", cell.metric, cell.load, cell.set);
    let by = match finding.shift() {
        Shift::Unknown if finding.unit == "qps" => UNKNOWN_CAPACITY.to_owned(),
        Shift::Unknown => UNKNOWN.to_owned(),
        _ => format!("{}, {}", estimate(finding), interval(finding)),
    };
    let margin = size(finding, finding.margin);
    let (style, text) = match finding.verdict {
        Verdict::Faster | Verdict::Slower => {
            let better = finding.verdict == Verdict::Faster;
            let word = match (better, timed(finding)) {
                (true, true) => "faster",
                (false, true) => "slower",
                (true, false) => "better",
                (false, false) => "worse",
            };
            let style = if better { Style::Good } else { Style::Bad };
            (style, format!("{b} is {word} than {a}: {place} {by}"))
        }
        Verdict::Equivalent => {
            (Style::Good, format!("{b} and {a} are equivalent within {margin}: {place} {by}"))
        }
        Verdict::Inconclusive => {
            let needed = match finding.pairs_needed {
                _ if finding.shift() != Shift::Known && finding.unit == "qps" => {
                    "a limit was out of reach: more --threads, or other --capacity-floor and \
                     --capacity-ceiling"
                        .to_owned()
                }
                _ if finding.shift() != Shift::Known => {
                    "queries timed out: a longer --timeout or a lower rate would decide".to_owned()
                }
                Some(pairs) if pairs > finding.pairs => {
                    format!("about {} would decide", term::of(pairs - finding.pairs, "more pair"))
                }
                _ if file.plan.sequential && !file.interrupted => {
                    let most = lab_stats::sequential::DRAWN_MAX;
                    format!("even {most} pairs of this length would hardly decide")
                }
                _ => "more pairs of this length would hardly decide".to_owned(),
            };
            (Style::Accent, format!("inconclusive: {place} {by}; {needed}"))
        }
    };
    let text = format!("{text}, p {}, {}", p_of(finding.p), term::of(finding.pairs, "pair"));
    if file.invalid_because.is_empty() {
        term::paint(style, &text)
    } else {
        term::paint(Style::Bad, &format!("no verdict; the estimate is: {text}"))
    }
}
