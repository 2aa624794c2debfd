//! The numbers of a benchmark: medians, spread, ratios; for the terminal, in Markdown, in JSON.

use super::peers::{Missing, Peer};
use super::{Bench, Cell, Sample, UPSTREAM_BUSY};
use crate::term::{self, Style, Table};
use anyhow::{Context, Result};
use serde_json::json;

/// Quantiles of the latency table.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// The part of the answers that may miss the cache where hits are measured.
const MISSES: f64 = 0.01;

/// The median of a few values and how far they lie apart.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Summary {
    median: f64,
    min: f64,
    max: f64,
}

impl Summary {
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let (low, high) = (values.get((values.len() - 1) / 2)?, values.get(values.len() / 2)?);
        Some(Self { median: (low + high) / 2.0, min, max })
    }

    /// Half the range in percent of the median.
    fn spread(self) -> f64 {
        if self.median > 0.0 { (self.max - self.min) / 2.0 / self.median * 100.0 } else { 0.0 }
    }

    /// The spread for a table; beyond 100 % its size says nothing more.
    fn spread_text(self) -> String {
        match self.spread() {
            spread if spread > 100.0 => "±>100 %".to_owned(),
            spread => format!("±{spread:.0} %"),
        }
    }
}

struct Numbers<'a> {
    samples: &'a [Sample],
}

impl Numbers<'_> {
    fn summary(&self, server: &str, cell: Cell, of: impl Fn(&Sample) -> f64) -> Option<Summary> {
        let samples = self.samples.iter().filter(|s| s.server == server && s.cell == cell);
        Summary::of(samples.map(of).collect())
    }

    fn rate(&self, server: &str, cell: Cell) -> Option<Summary> {
        self.summary(server, cell, Sample::rate)
    }

    fn cost(&self, server: &str, cell: Cell) -> Option<Summary> {
        self.summary(server, cell, Sample::cost)
    }

    fn is_spoilt(&self, server: &str, cell: Cell) -> bool {
        let mut samples = self.samples.iter().filter(|s| s.server == server && s.cell == cell);
        samples.any(|sample| sample.is_spoilt() || sample.upstream_busy() > UPSTREAM_BUSY)
    }

    /// How many times the questions of `other` this server answers.
    ///
    /// From the median rates; if other processes or the upstream spoilt one of them, from CPU per
    /// question, which they hardly touch, with a star.
    fn ratio(&self, server: &str, other: &str, cell: Cell) -> Option<String> {
        let spoilt = self.is_spoilt(server, cell) || self.is_spoilt(other, cell);
        let (over, under) = if spoilt {
            (self.cost(other, cell)?, self.cost(server, cell)?)
        } else {
            (self.rate(server, cell)?, self.rate(other, cell)?)
        };
        let star = if spoilt { "*" } else { "" };
        (under.median > 0.0).then(|| format!("{:.2}{star}", over.median / under.median))
    }
}

pub(super) fn write(
    bench: &Bench<'_>,
    peers: &[Peer],
    missing: &[Missing],
    samples: &[Sample],
) -> Result<()> {
    let numbers = Numbers { samples };
    let (rates, latencies) = (rates(peers, &numbers), latencies(peers, &numbers));
    let (about, warnings) = (about(bench, (peers, missing), samples), warnings(samples));
    let latency_title = format!(
        "Latency at {} questions/s, 10,000 names in the cache",
        term::count(bench.args.rate as u64)
    );
    let rate_title = "Maximum questions/s and CPU per question (server on one CPU)";
    for (title, table) in [(rate_title, &rates), (&latency_title, &latencies)] {
        term::out(&format!("\n{}\n{}", term::paint(Style::Bold, title), table.framed()));
    }
    for line in summary_of_warnings(samples) {
        term::out(&term::paint(Style::Bad, &line));
    }
    let folder = &bench.args.out;
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let markdown = format!(
        "# Nodens beside other servers\n\n{}\n\n## {rate_title}\n\n{}\n\n## {latency_title}\n\n{}\n{}",
        about.join("\n"),
        rates.markdown(),
        latencies.markdown(),
        warnings.iter().map(|warning| format!("\n- {warning}")).collect::<String>(),
    );
    let json = json!({
        "kind": "bench",
        "schema": 1,
        "about": about,
        "missing": missing,
        "samples": samples.iter().map(sample_json).collect::<Vec<_>>(),
    });
    for (name, text) in
        [("bench.md", markdown), ("bench.json", serde_json::to_string_pretty(&json)?)]
    {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        term::out(&format!("  written: {}", path.display()));
    }
    let source = lab_report::read(&folder.join("bench.json"))?;
    crate::report::write(&folder.join("bench.html"), &[source], None)?;
    Ok(())
}

fn rates(peers: &[Peer], numbers: &Numbers<'_>) -> Table {
    let mut table = Table::new(&[
        "server",
        "1 name",
        "CPU",
        "10,000 names",
        "CPU",
        "×CoreDNS",
        "×echo",
        "misses",
        "CPU",
        "×CoreDNS",
    ]);
    for peer in peers {
        let rate = |cell| numbers.rate(peer.name, cell).map_or("–".into(), rate_text);
        let cost = |cell| {
            numbers
                .cost(peer.name, cell)
                .map_or("–".to_owned(), |cost| format!("{:.2} µs", cost.median))
        };
        let ratio = |other, cell| numbers.ratio(peer.name, other, cell).unwrap_or("–".to_owned());
        let cells = vec![
            peer.name.to_owned(),
            rate(Cell::OneName),
            cost(Cell::OneName),
            rate(Cell::ManyNames),
            cost(Cell::ManyNames),
            ratio("coredns", Cell::ManyNames),
            ratio("echo", Cell::ManyNames),
            rate(Cell::Misses),
            cost(Cell::Misses),
            ratio("coredns", Cell::Misses),
        ];
        push(&mut table, peer, cells);
    }
    table
}

fn rate_text(rate: Summary) -> String {
    format!("{} {}", term::rate(rate.median), rate.spread_text())
}

fn latencies(peers: &[Peer], numbers: &Numbers<'_>) -> Table {
    let mut header = vec!["server"];
    header.extend(QUANTILES.iter().map(|(name, _)| *name));
    header.extend(["lost", "CPU", "memory"]);
    let mut table = Table::new(&header);
    for peer in peers {
        let mut cells = vec![peer.name.to_owned()];
        for (_, part) in QUANTILES {
            // A rank among timeouts counts with its bound; the loss beside it tells.
            let nanos = |sample: &Sample| {
                sample.outcome.tally.response.quantile(part).nanos().unwrap_or(0) as f64
            };
            let summary = numbers.summary(peer.name, Cell::Rate, nanos);
            cells.push(summary.map_or("–".into(), |s| {
                format!("{} {}", term::nanos(s.median), s.spread_text())
            }));
        }
        let lost = numbers.summary(peer.name, Cell::Rate, |sample| sample.outcome.loss());
        cells.push(lost.map_or("–".into(), |lost| term::percent(lost.median)));
        let cost = numbers.cost(peer.name, Cell::Rate);
        cells.push(cost.map_or("–".into(), |cost| format!("{:.2} µs", cost.median)));
        let memory =
            numbers.summary(peer.name, Cell::ManyNames, |s| s.resident.unwrap_or(0) as f64);
        cells
            .push(memory.map_or("–".into(), |m| format!("{:.0} MiB", m.median / (1 << 20) as f64)));
        push(&mut table, peer, cells);
    }
    table
}

fn push(table: &mut Table, peer: &Peer, cells: Vec<String>) {
    match peer.name {
        "nodens" => table.styled(Style::Good, cells),
        "echo" => table.styled(Style::Dim, cells),
        _ => table.row(cells),
    }
}

/// What a reader needs to judge the numbers.
fn about(
    bench: &Bench<'_>,
    (peers, missing): (&[Peer], &[Missing]),
    samples: &[Sample],
) -> Vec<String> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model =
        cpuinfo.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let cpus = &bench.cpus;
    let mut lines = vec![
        format!(
            "- {} repeats of {} s each, interleaved; medians, ± half the range; seed {}",
            bench.args.repeats, bench.args.seconds, bench.args.seed
        ),
        format!(
            "- CPUs: server {:?}, upstream {:?}, load {:?}{}",
            cpus.server,
            cpus.upstream,
            cpus.load,
            if cpus.shared { " (too few CPUs: load and upstream share)" } else { "" }
        ),
        format!(
            "- {}, Linux {}",
            model.trim_start_matches([' ', '\t', ':']),
            read("/proc/sys/kernel/osrelease").trim()
        ),
        format!(
            "- load average {} (1, 5, 15 minutes)",
            read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" ")
        ),
        format!(
            "- measured again because others used the server's CPU: {} times",
            samples.iter().map(|sample| sample.tries - 1).sum::<usize>()
        ),
        "- echo is `nodens-lab echo`: what sending and receiving alone cost".to_owned(),
    ];
    lines.extend(peers.iter().map(|peer| format!("- {}: {}", peer.name, peer.version)));
    lines.extend(missing.iter().map(|(name, why)| format!("- {name} is missing: {why}")));
    lines
}

/// The warnings in a few lines; each of them is in the files.
fn summary_of_warnings(samples: &[Sample]) -> Vec<String> {
    let all = samples.len();
    let spoilt = samples.iter().filter(|sample| sample.is_spoilt()).count();
    let invalid = samples.iter().filter(|s| !s.outcome.verdict.is_valid()).count();
    let mut lines = Vec::new();
    if spoilt > 0 {
        lines.push(format!(
            "In {spoilt} of {all} measurements other processes used the server's CPU: compare CPU per \
             question, and the ratios with * that come from it. For rates and latencies, repeat on a \
             quiet machine."
        ));
    }
    let slow = samples.iter().filter(|sample| sample.upstream_busy() > UPSTREAM_BUSY).count();
    if slow > 0 {
        lines.push(format!(
            "In {slow} of {all} measurements the embedded upstream was the limit and not the server: \
             compare CPU per question."
        ));
    }
    let missing =
        samples.iter().filter(|s| s.cell != Cell::Misses && s.miss_rate() > MISSES).count();
    if missing > 0 {
        lines.push(format!(
            "In {missing} of {all} measurements hits were asked for and not all were hits."
        ));
    }
    if invalid > 0 {
        lines.push(format!(
            "In {invalid} of {all} measurements the load generator was disturbed itself."
        ));
    }
    lines
}

/// What spoils a number: the generator does not vouch for it, or others used the server's CPU.
fn warnings(samples: &[Sample]) -> Vec<String> {
    let mut warnings = Vec::new();
    for sample in samples {
        let place =
            format!("{}, {}, repeat {}", sample.server, sample.cell.name(), sample.repeat + 1);
        for why in &sample.outcome.verdict.invalid {
            warnings.push(format!("{place}: {why}"));
        }
        if sample.cell != Cell::Misses && sample.miss_rate() > MISSES {
            let part = term::percent(sample.miss_rate());
            warnings
                .push(format!("{place}: {part} of the answers took a question to the upstream"));
        }
        if sample.upstream_busy() > UPSTREAM_BUSY {
            let percent = sample.upstream_busy() * 100.0;
            warnings.push(format!("{place}: the upstream was busy {percent:.0} % of the time"));
        }
        if sample.is_spoilt() {
            let percent = sample.robbed() * 100.0;
            warnings
                .push(format!("{place}: other processes took {percent:.0} % of the server's CPU"));
        }
    }
    warnings
}

fn sample_json(sample: &Sample) -> serde_json::Value {
    let tally = &sample.outcome.tally;
    let quantiles = QUANTILES
        .map(|(name, part)| (name.to_owned(), json!(tally.response.quantile(part).nanos())));
    json!({
        "server": sample.server,
        "repeat": sample.repeat,
        "tries": sample.tries,
        "cell": sample.cell.name(),
        "answers_per_second": sample.rate(),
        "cpu_us_per_answer": sample.cost(),
        "sent": tally.counts.sent,
        "answered": tally.counts.answered,
        "lost": tally.counts.lost(),
        "server_ran_ns": sample.account.ran.as_nanos() as u64,
        "upstream_questions": sample.asked,
        "upstream_busy": sample.upstream_busy(),
        "server_waited_ns": sample.account.waited.as_nanos() as u64,
        "resident": sample.resident,
        "response_ns": serde_json::Map::from_iter(quantiles),
        "plan": format!("{:016x}", sample.outcome.plan_hash),
        "invalid_because": sample.outcome.verdict.invalid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_spread_are_those_of_the_sorted_values() {
        let summary = Summary::of(vec![30.0, 10.0, 20.0]).unwrap();
        assert_eq!((summary.median, summary.spread()), (20.0, 50.0));
        assert_eq!(Summary::of(vec![4.0, 1.0, 3.0, 2.0]).unwrap().median, 2.5);
        assert_eq!(Summary::of(Vec::new()), None);
        assert_eq!(Summary::of(vec![0.0]).unwrap().spread(), 0.0);
    }
}
