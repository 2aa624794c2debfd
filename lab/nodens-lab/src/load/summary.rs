//! The result of a load for people, made from the result file's contents alone.

use crate::term::{self, Style, Table};
use lab_histogram::{Histogram, Quantile};
use lab_result::{ConnectionFates, Group, Pace, ResultFile, Second};
use std::fmt::Write as _;

/// The percentiles that are reported.
const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];
/// Columns that the table with everything needs.
const WIDE: usize = 118;
/// Groups of queries that are worth a line each.
const GROUPS: usize = 8;
/// A second with fewer queries has no p99.
const SECOND_MIN: u64 = 100;

/// The summary for a terminal of `width` columns, or for a file (`None`).
pub(crate) fn text(result: &ResultFile, width: Option<usize>) -> String {
    let mut lines = vec![latencies(result, width.unwrap_or(WIDE) >= WIDE)];
    let room = width.unwrap_or(usize::MAX);
    lines.extend(term::wrap(&outcomes(result), room, 13));
    lines.extend(term::wrap(&answers(result), room, 13));
    lines.extend(connections(result));
    lines.extend(groups("by type", &result.by_qtype));
    lines.extend(groups("by way", &result.by_transport));
    lines.extend(seconds(&result.seconds, width.unwrap_or(80)));
    lines.push(format!(
        "  plan       {}  seed {}  {}",
        result.plan.hash,
        result.plan.seed,
        pace(result)
    ));
    lines.extend(result.provenance.server_version.iter().map(|v| format!("  server     {v}")));
    for note in &result.verdict.notes {
        lines.extend(term::wrap(&format!("  note       {note}"), room, 13));
    }
    lines.extend(super::cost::line(result).iter().flat_map(|text| term::wrap(text, room, 13)));
    lines.extend(super::require::lines(result));
    lines.extend(interrupted(result).map(|text| term::paint(Style::Bad, &text)));
    if result.verdict.valid && !result.run.interrupted {
        let text = "VALID: the generator kept its schedule and lost nothing itself";
        lines.push(term::paint(Style::Good, text));
    }
    for why in &result.verdict.invalid_because {
        let wrapped = term::wrap(&format!("INVALID: {why}"), room, 9);
        lines.extend(wrapped.iter().map(|line| term::paint(Style::Bad, line)));
    }
    lines.join("\n")
}

/// What a run says that was ended before its time.
fn interrupted(result: &ResultFile) -> Option<String> {
    let seconds = |nanos: u64| format!("{:.1}", nanos as f64 / lab_result::SECOND as f64);
    result.run.interrupted.then(|| {
        let (ran, planned) = (seconds(result.run.elapsed_ns), seconds(result.plan.duration_ns));
        format!("INTERRUPTED after {ran} of {planned} s: the numbers cover that part only")
    })
}

/// What is sent, on one line.
pub(crate) fn pace(result: &ResultFile) -> String {
    match &result.plan.pace {
        Pace::Open { rate, arrivals, profile } => {
            let profile = profile.as_ref().map_or(String::new(), |profile| format!(", {profile}"));
            format!("{}/s {arrivals}{profile}", term::rate(*rate))
        }
        Pace::Closed { window_per_client } => {
            format!("closed loop, {window_per_client} in flight per client")
        }
    }
}

fn latencies(result: &ResultFile, wide: bool) -> String {
    let mut header = vec![""];
    let percentiles: Vec<_> =
        PERCENTILES.iter().filter(|(name, _)| wide || !["p90", "p99.99"].contains(name)).collect();
    header.extend(percentiles.iter().map(|(name, _)| *name));
    header.extend(if wide { &["mean of answers", "max"][..] } else { &["max"][..] });
    let mut table = Table::new(&header);
    let none = Histogram::new();
    let fates = result.connection_fates.as_ref();
    let of = |pick: fn(&ConnectionFates) -> &Histogram| fates.map_or(&none, pick);
    let rows = [
        ("response (from intended time)", "response", &result.response),
        ("service (from sending)", "service", &result.service),
        ("lateness of sending", "lateness", &result.lateness),
        ("waiting in the client", "waiting", of(|fates| &fates.waited)),
        ("connecting", "connecting", &result.connect),
        ("  TCP handshake", "  TCP", of(|fates| &fates.tcp)),
        ("  TLS handshake", "  TLS", of(|fates| &fates.tls)),
        ("late answers", "late", &result.late),
        ("response of an echo, before", "echo before", echo(result, "before")),
        ("response of an echo, after", "echo after", echo(result, "after")),
    ];
    for (long, short, histogram) in
        rows.into_iter().filter(|(_, _, h)| h.recorded() + h.censored() > 0)
    {
        let mut row = vec![if wide { long } else { short }.to_owned()];
        row.extend(percentiles.iter().map(|(_, part)| term::quantile(histogram.quantile(*part))));
        if wide {
            row.push(histogram.mean().map_or("n/a".into(), term::nanos));
        }
        row.push(term::quantile(histogram.quantile(1.0)));
        table.row(row);
    }
    table.framed()
}

/// The response times of the baseline's run `when`, if there is one.
fn echo<'r>(result: &'r ResultFile, when: &str) -> &'r Histogram {
    static NONE: Histogram = Histogram::new();
    let mut runs = result.baseline.iter().flat_map(|baseline| &baseline.runs);
    runs.find(|run| run.when == when).map_or(&NONE, |run| &run.response)
}

fn outcomes(result: &ResultFile) -> String {
    let c = &result.counts;
    let loss = result.loss().map_or("n/a".to_owned(), term::percent);
    let mut parts = vec![
        format!("sent {}", term::count(c.sent)),
        format!("answered {} ({}/s)", term::count(c.answered), term::rate(result.answer_rate())),
        format!("lost {} ({loss})", term::count(c.lost())),
    ];
    parts.extend(nonzero(&[
        ("timed out", c.timed_out),
        ("ICMP refused", c.refused),
        ("connection failed", c.connection_failed),
        ("interrupted", c.interrupted),
        ("not sent: no ID", c.skipped.saturating_sub(c.overdue)),
        ("not sent in time", c.overdue),
        ("not sent: error", c.send_errors),
    ]));
    format!("  queries    {}", parts.join("  "))
}

/// What became of the connections, if there were any.
fn connections(result: &ResultFile) -> Option<String> {
    let (all, fates) = (result.connections?, result.connection_fates.as_ref()?);
    let mut parts = vec![format!("attempted {}", term::count(all.attempted))];
    parts.extend(nonzero(&[
        ("opened", all.opened),
        ("resumed", all.resumed),
        ("0-RTT", fates.early_accepted),
        ("refused", fates.refused),
        ("reset", fates.reset),
        ("handshake failed", fates.handshake_failed),
        ("handshake timed out", fates.timed_out),
        ("not tried", fates.not_tried),
        ("unfinished", fates.unfinished),
        ("closed by the server", fates.closed_by_server),
        ("closed by us", fates.closed_by_client),
        ("broken", fates.broken),
        ("left open", fates.left_open),
        ("queries cut", fates.half_written),
        ("sent again", fates.asked_again),
        ("streams rejected", fates.rejected),
        ("waited for a stream", fates.stream_waits),
    ]));
    parts.extend(fates.http.iter().map(|(status, n)| format!("HTTP {status} {}", term::count(*n))));
    Some(format!("  connects   {}", parts.join("  ")))
}

fn answers(result: &ResultFile) -> String {
    let c = &result.counts;
    let mut rcodes: Vec<_> = result.rcodes.iter().collect();
    rcodes.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let mut parts: Vec<_> =
        rcodes.iter().map(|(name, count)| format!("{name} {}", term::count(**count))).collect();
    parts.extend(nonzero(&[
        ("truncated", c.truncated),
        ("late", c.late),
        ("duplicate", c.duplicate),
        ("mismatched", c.mismatched),
        ("unknown ID", c.unknown),
        ("malformed", c.malformed),
    ]));
    format!("  answers    {}", if parts.is_empty() { "none".to_owned() } else { parts.join("  ") })
}

fn nonzero(counts: &[(&str, u64)]) -> Vec<String> {
    let shown = counts.iter().filter(|(_, count)| *count > 0);
    shown.map(|(what, count)| format!("{what} {}", term::count(*count))).collect()
}

/// A line per group if there is more than one.
fn groups(what: &str, groups: &[Group]) -> Vec<String> {
    if groups.len() < 2 {
        return Vec::new();
    }
    let mut shown: Vec<_> = groups.iter().collect();
    shown.sort_by_key(|group| std::cmp::Reverse(group.sent));
    let line = |(at, group): (usize, &&Group)| {
        let quantile = |part| term::quantile(group.response.quantile(part));
        let mut text = format!(
            "  {:<10} {:<8} sent {}  p50 {}  p99 {}",
            if at == 0 { what } else { "" },
            group.name,
            term::count(group.sent),
            quantile(0.5),
            quantile(0.99)
        );
        if group.lost > 0 {
            _ = write!(text, "  lost {}", term::count(group.lost));
        }
        text
    };
    let mut lines: Vec<_> = shown.iter().take(GROUPS).enumerate().map(line).collect();
    if shown.len() > GROUPS {
        lines.push(format!("  {:<10} and {} more", "", shown.len() - GROUPS));
    }
    lines
}

/// How the seconds differ: a mean over the run hides a bad second.
fn seconds(seconds: &[Second], width: usize) -> Vec<String> {
    let full: Vec<_> = seconds.iter().filter(|second| second.sent >= SECOND_MIN).collect();
    if full.len() < 2 {
        return Vec::new();
    }
    let of = |(name, part): (&'static str, f64)| {
        let found: Vec<Quantile> =
            full.iter().map(|second| second.response.quantile(part)).collect();
        let mut sorted = found.clone();
        sorted.sort();
        let text =
            |quantile: Option<&Quantile>| quantile.map_or("n/a".into(), |q| term::quantile(*q));
        let spread = format!(
            "best {}  median {}  worst {}",
            text(sorted.first()),
            text(sorted.get(sorted.len() / 2)),
            text(sorted.last())
        );
        (name, found, spread)
    };
    let all = [("p50", 0.5), ("p99", 0.99)].map(of);
    // One length and one edge for all: bars below each other are of the same seconds.
    let widest = all.iter().map(|(_, _, spread)| spread.chars().count()).max().unwrap_or(0);
    let room = width.saturating_sub(23 + widest).clamp(8, 60);
    let line = |(at, (name, found, spread)): (usize, (&str, Vec<Quantile>, String))| {
        let values = worst_of_each(&found, room);
        let spark =
            term::paint(Style::Accent, &term::spark(&values, term::Scale::Logarithmic, 0.0));
        let what = if at == 0 { "by second" } else { "" };
        format!("  {what:<10} {name:<6} {spread:<widest$}  {spark}")
    };
    all.into_iter().enumerate().map(line).collect()
}

/// At most `room` values: each the worst of as many seconds, so that no bad one is left out.
fn worst_of_each(found: &[Quantile], room: usize) -> Vec<Option<f64>> {
    let size = found.len().div_ceil(room.max(1)).max(1);
    let worst = |of: &[Quantile]| of.iter().max().and_then(|q| q.nanos()).map(|nanos| nanos as f64);
    found.chunks(size).map(worst).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> ResultFile {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab-result/testdata/small.json");
        lab_result::read(path.as_ref()).unwrap()
    }

    #[test]
    fn a_narrow_terminal_gets_lines_that_fit() {
        for width in [80, 100, 120, 200] {
            for line in text(&example(), Some(width)).lines() {
                assert!(term::columns(line) <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn a_run_without_a_single_answer_has_no_number_that_is_none() {
        let mut result = example();
        result.counts = lab_result::Counts::default();
        result.rcodes.clear();
        for histogram in [&mut result.response, &mut result.service, &mut result.lateness] {
            histogram.clear();
        }
        (result.by_qtype, result.by_rcode, result.seconds) = Default::default();
        result.run.active_ns = 0;
        let text = text(&result, None);
        assert!(text.contains("lost 0 (n/a)") && text.contains("answers    none"), "{text}");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }

    #[test]
    fn no_bad_second_is_left_out_of_a_short_line() {
        let mut found = vec![Quantile::Value(10); 1_000];
        found[777] = Quantile::AtLeast(5_000);
        let values = worst_of_each(&found, 10);
        assert_eq!(values.len(), 10);
        assert_eq!(values[7], Some(5_000.0));
        assert_eq!(values.iter().filter(|value| **value == Some(10.0)).count(), 9);
    }
}
