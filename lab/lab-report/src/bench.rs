//! The file of `nodens-lab bench`, and its pictures: bars with their spread, and ratios.

use crate::table::{Head, Table};
use crate::text;
use maud::{Markup, html};
use serde::Deserialize;
use std::collections::BTreeMap;

/// What `kind` says in such a file.
pub(crate) const KIND: &str = "bench";

/// Several servers beside each other.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct BenchFile {
    /// Machine, CPUs, versions, a line each.
    #[serde(default)]
    pub about: Vec<String>,
    /// Every measurement.
    pub samples: Vec<Sample>,
}

/// One measurement.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Sample {
    /// The server.
    pub server: String,
    /// What was measured.
    pub cell: String,
    /// The repeat, from 0.
    #[serde(default)]
    pub repeat: usize,
    /// Answers a second.
    pub answers_per_second: f64,
    /// CPU of the server in microseconds.
    pub cpu_us_per_answer: f64,
    /// Queries sent.
    pub sent: u64,
    /// Of these, lost.
    pub lost: u64,
    /// Response times in nanoseconds by percentile.
    #[serde(default)]
    pub response_ns: BTreeMap<String, Option<u64>>,
    /// Octets of memory of the server.
    #[serde(default)]
    pub resident: Option<u64>,
    /// Why its measurement is INVALID.
    #[serde(default)]
    pub invalid_because: Vec<String>,
}

/// The median of a few values and how far they lie apart.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    median: f64,
    low: f64,
    high: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let (left, right) = (values.get((values.len() - 1) / 2)?, values.get(values.len() / 2)?);
        Some(Self { median: (left + right) / 2.0, low, high })
    }
}

/// A number of which there are bars.
struct Measure {
    id: &'static str,
    name: &'static str,
    better: &'static str,
    of: fn(&Sample) -> Option<f64>,
    text: fn(f64) -> String,
}

const MEASURES: [Measure; 5] = [
    Measure {
        id: "rate",
        name: "answers per second",
        better: "more is better",
        of: |sample| Some(sample.answers_per_second),
        text: text::rate,
    },
    Measure {
        id: "cpu",
        name: "CPU per answer",
        better: "less is better",
        of: |sample| Some(sample.cpu_us_per_answer * 1e3),
        text: text::nanos,
    },
    Measure {
        id: "p50",
        name: "p50",
        better: "less is better",
        of: |s| response(s, "p50"),
        text: text::nanos,
    },
    Measure {
        id: "p99",
        name: "p99",
        better: "less is better",
        of: |s| response(s, "p99"),
        text: text::nanos,
    },
    Measure {
        id: "lost",
        name: "lost",
        better: "less is better",
        of: |sample| Some(sample.lost as f64 / sample.sent.max(1) as f64),
        text: text::percent,
    },
];

fn response(sample: &Sample, name: &str) -> Option<f64> {
    sample.response_ns.get(name).copied().flatten().map(|nanos| nanos as f64)
}

/// The names in the order in which they come first.
fn in_order<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

/// The pictures of `bench`, which is the `at`th on its page.
pub(crate) fn bench(bench: &BenchFile, at: usize) -> Markup {
    let servers = in_order(bench.samples.iter().map(|sample| sample.server.as_str()));
    let cells = in_order(bench.samples.iter().map(|sample| sample.cell.as_str()));
    let invalid = bench.samples.iter().filter(|sample| !sample.invalid_because.is_empty()).count();
    html! {
        @if invalid > 0 {
            p.none { "In " (invalid) " of " (bench.samples.len()) " measurements the load generator was disturbed itself: "
                "compare CPU per answer, and repeat on a quiet machine." }
        }
        @for (number, cell) in cells.iter().enumerate() {
            h3 { (cell) }
            div.bars-of { @for measure in &MEASURES { (bars(bench, &servers, cell, measure)) } }
            (table(bench, &servers, cell, &format!("bench{at}-{number}")).render())
        }
        ul.setting { @for line in &bench.about { li { (line.trim_start_matches("- ")) } } }
    }
}

fn spreads(
    bench: &BenchFile,
    servers: &[&str],
    cell: &str,
    measure: &Measure,
) -> Vec<Option<Spread>> {
    let of = |server: &&str| {
        let samples =
            bench.samples.iter().filter(|sample| sample.server == **server && sample.cell == cell);
        Spread::of(samples.filter_map(measure.of))
    };
    servers.iter().map(of).collect()
}

/// Bars of one number; nothing if no server has it, or all have none of it.
fn bars(bench: &BenchFile, servers: &[&str], cell: &str, measure: &Measure) -> Markup {
    let spreads = spreads(bench, servers, cell, measure);
    let most = spreads.iter().flatten().map(|spread| spread.high).fold(0.0, f64::max);
    if most <= 0.0 {
        return html! {};
    }
    let part = |value: f64| format!("{:.2}%", (value / most * 100.0).clamp(0.0, 100.0));
    html! {
        div.bars {
            p.bars-name { b { (measure.name) } " " (measure.better) }
            @for (at, (server, spread)) in servers.iter().zip(&spreads).enumerate() {
                @if let Some(spread) = spread {
                    @let said = format!(
                        "{server}: {} (from {} to {})",
                        (measure.text)(spread.median), (measure.text)(spread.low), (measure.text)(spread.high)
                    );
                    div.bar tabindex="0" title=(said) role="img" aria-label=(said) {
                        span.of { (server) }
                        span.track {
                            span.body.{ "b" (at % crate::COLOURS) } style={ "width:" (part(spread.median)) } {}
                            span.range style={ "left:" (part(spread.low)) ";width:" (part(spread.high - spread.low)) } {}
                        }
                        span.much { ((measure.text)(spread.median)) }
                    }
                }
            }
        }
    }
}

/// How many times the value of another server this one has, repeat by repeat: what drifts on the
/// machine from one repeat to the next is in both.
fn paired(
    bench: &BenchFile,
    cell: &str,
    (server, other): (&str, &str),
    of: impl Fn(&Sample) -> Option<f64>,
) -> Option<Spread> {
    let samples =
        |server| bench.samples.iter().filter(move |s| s.server == server && s.cell == cell);
    Spread::of(samples(server).filter_map(|over| {
        let under = samples(other).find(|under| under.repeat == over.repeat)?;
        Some(of(over)? / of(under)?)
    }))
}

/// All numbers of one cell, with ratios to the first server.
fn table(bench: &BenchFile, servers: &[&str], cell: &str, id: &str) -> Table {
    let mut head = vec![Head::plain("server")];
    for measure in &MEASURES {
        head.push(Head::plain(measure.name));
        head.push(Head::plain("from – to"));
        if matches!(measure.id, "rate" | "cpu") {
            head.push(Head::plain(format!("× {}", servers.first().copied().unwrap_or_default())));
        }
    }
    head.push(Head::plain("memory"));
    let mut table = Table::new(id, head);
    let all: Vec<_> =
        MEASURES.iter().map(|measure| (measure, spreads(bench, servers, cell, measure))).collect();
    for (at, server) in servers.iter().enumerate() {
        let mut row = vec![(*server).to_owned()];
        for (measure, spreads) in &all {
            let here = spreads.get(at).copied().flatten();
            let text = measure.text;
            row.push(here.map_or("–".to_owned(), |spread| text(spread.median)));
            row.push(here.map_or(String::new(), |s| format!("{} – {}", text(s.low), text(s.high))));
            if matches!(measure.id, "rate" | "cpu") {
                let ratio = servers.first().and_then(|first| {
                    paired(bench, cell, (server, first), |sample| (measure.of)(sample))
                });
                row.push(ratio.map_or(String::new(), |s| format!("{:.2}", s.median)));
            }
        }
        let samples = bench.samples.iter().filter(|s| s.server == *server && s.cell == cell);
        let memory = samples.filter_map(|sample| sample.resident).max();
        row.push(memory.map(text::octets).unwrap_or_default());
        if row.iter().skip(1).any(|text| !matches!(text.as_str(), "" | "–")) {
            table.rows.push(row);
        }
    }
    table
}
