//! The result of a load for people and for programs.

use crate::term::{self, Style, Table};
use lab_histogram::{Histogram, Quantile};
use lab_load::tally::Cohort;
use lab_load::{Config, Outcome, Pace};
use nodens_wire::Rcode;
use serde_json::{Value, json};
use std::time::{Duration, UNIX_EPOCH};

/// Version of the JSON.
const SCHEMA: u32 = 1;
/// The percentiles that are reported.
const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

pub(super) fn print(config: &Config, outcome: &Outcome) {
    let tally = &outcome.tally;
    let mut header = vec![""];
    header.extend(PERCENTILES.iter().map(|(name, _)| *name));
    header.extend(["mean of answers", "max"]);
    let mut table = Table::new(&header);
    let rows = [
        ("response (from intended time)", &tally.response),
        ("service (from sending)", &tally.service),
        ("lateness of sending", &tally.lateness),
        ("connecting", &tally.connect),
        ("late answers", &tally.late),
    ];
    for (what, histogram) in rows.into_iter().filter(|(_, h)| h.recorded() + h.censored() > 0) {
        table.row(histogram_row(what, histogram));
    }
    term::out(&table.framed());
    term::out(&outcomes(outcome));
    term::out(&answers(outcome));
    let spread = seconds_spread(&tally.cohorts);
    if !spread.is_empty() {
        term::out(&spread);
    }
    term::out(&format!("  plan       {:016x}  seed {}", outcome.plan_hash, config.seed));
    for note in &outcome.verdict.notes {
        term::out(&format!("  note       {note}"));
    }
    if outcome.verdict.is_valid() {
        let text = "VALID: the generator kept its schedule and lost nothing itself";
        term::out(&term::paint(Style::Good, text));
    }
    for why in &outcome.verdict.invalid {
        term::out(&term::paint(Style::Bad, &format!("INVALID: {why}")));
    }
}

fn histogram_row(what: &str, histogram: &Histogram) -> Vec<String> {
    let mut row = vec![what.to_owned()];
    row.extend(PERCENTILES.iter().map(|(_, part)| term::quantile(histogram.quantile(*part))));
    row.push(histogram.mean().map_or("n/a".into(), term::nanos));
    row.push(term::quantile(histogram.quantile(1.0)));
    row
}

fn outcomes(outcome: &Outcome) -> String {
    let c = &outcome.tally.counts;
    let mut parts = vec![
        format!("sent {}", term::count(c.sent)),
        format!("answered {} ({}/s)", term::count(c.answered), term::rate(outcome.answer_rate())),
        format!("lost {} ({})", term::count(c.lost()), term::percent(outcome.loss())),
    ];
    let causes = [
        ("timed out", c.timed_out),
        ("refused", c.refused),
        ("connection failed", c.connection_failed),
        ("interrupted", c.interrupted),
        ("not sent: no ID", c.skipped),
        ("not sent: error", c.send_errors),
    ];
    parts.extend(nonzero(&causes));
    format!("  questions  {}", parts.join("  "))
}

fn answers(outcome: &Outcome) -> String {
    let c = &outcome.tally.counts;
    let rcodes = outcome.tally.rcodes.iter();
    let mut parts: Vec<_> =
        rcodes.map(|(rcode, count)| format!("{} {}", Rcode(rcode), term::count(count))).collect();
    let oddities = [
        ("truncated", c.truncated),
        ("late", c.late),
        ("duplicate", c.duplicate),
        ("mismatched", c.mismatched),
        ("unknown ID", c.unknown),
        ("malformed", c.malformed),
    ];
    parts.extend(nonzero(&oddities));
    format!("  answers    {}", if parts.is_empty() { "none".to_owned() } else { parts.join("  ") })
}

fn nonzero(counts: &[(&str, u64)]) -> Vec<String> {
    let shown = counts.iter().filter(|(_, count)| *count > 0);
    shown.map(|(what, count)| format!("{what} {}", term::count(*count))).collect()
}

/// The spread of the seconds' p99: a mean over the run hides a bad second.
fn seconds_spread(cohorts: &[Cohort]) -> String {
    let mut p99: Vec<Quantile> = cohorts
        .iter()
        .filter(|cohort| cohort.sent >= 100)
        .map(|cohort| cohort.response.quantile(0.99))
        .collect();
    p99.sort();
    let (Some(best), Some(worst)) = (p99.first(), p99.last()) else { return String::new() };
    let median = p99.get(p99.len() / 2).copied().unwrap_or(Quantile::Empty);
    format!(
        "  p99 by second: best {}  median {}  worst {}",
        term::quantile(*best),
        term::quantile(median),
        term::quantile(*worst)
    )
}

/// Everything, with all times in nanoseconds.
pub(super) fn json(config: &Config, outcome: &Outcome) -> Value {
    let tally = &outcome.tally;
    let since_epoch = outcome.started.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let threads = outcome.threads.iter().map(|thread| {
        json!({
            "cpu_ns": nanos(thread.cpu), "waited_ns": nanos(thread.waited), "wall_ns": nanos(thread.wall), "spun": thread.spun,
            "dropped": thread.dropped, "blocked": thread.blocked,
        })
    });
    let seconds = tally.cohorts.iter().enumerate().map(|(second, cohort)| {
        json!({
            "second": second, "sent": cohort.sent, "answered": cohort.answered,
            "lost": cohort.lost(), "response": histogram(&cohort.response, false),
        })
    });
    json!({
        "schema": SCHEMA,
        "generator": { "name": "nodens-lab", "version": env!("CARGO_PKG_VERSION") },
        "command": std::env::args().collect::<Vec<_>>(),
        "started_unix_ns": nanos(since_epoch),
        "server": config.server.to_string(),
        "transport": format!("{:?}", config.transport).to_lowercase(),
        "pace": pace(config),
        "clients": config.clients,
        "timeout_ns": nanos(config.timeout),
        "seed": config.seed,
        "plan": format!("{:016x}", outcome.plan_hash),
        "active_ns": nanos(outcome.active),
        "elapsed_ns": nanos(outcome.elapsed),
        "interrupted": outcome.interrupted,
        "valid": outcome.verdict.is_valid(),
        "invalid_because": outcome.verdict.invalid,
        "notes": outcome.verdict.notes,
        "answers_per_second": outcome.answer_rate(),
        "counts": counts(outcome),
        "rcodes": rcodes(outcome),
        "response": histogram(&tally.response, true),
        "service": histogram(&tally.service, true),
        "lateness": histogram(&tally.lateness, true),
        "late_answers": histogram(&tally.late, true),
        "connect": histogram(&tally.connect, true),
        "threads": threads.collect::<Vec<_>>(),
        "seconds": seconds.collect::<Vec<_>>(),
    })
}

fn pace(config: &Config) -> Value {
    match config.pace {
        Pace::Open { rate, arrivals } => {
            json!({ "loop": "open", "rate": rate, "arrivals": format!("{arrivals:?}").to_lowercase() })
        }
        Pace::Closed { window } => json!({ "loop": "closed", "window_per_client": window }),
    }
}

fn counts(outcome: &Outcome) -> Value {
    let c = &outcome.tally.counts;
    json!({
        "scheduled": c.scheduled, "skipped": c.skipped, "send_errors": c.send_errors,
        "sent": c.sent, "answered": c.answered, "timed_out": c.timed_out, "refused": c.refused,
        "connection_failed": c.connection_failed, "interrupted": c.interrupted,
        "received": c.received, "late": c.late, "duplicate": c.duplicate,
        "mismatched": c.mismatched, "unknown": c.unknown, "malformed": c.malformed,
        "truncated": c.truncated, "answer_octets": c.answer_octets,
        "connect_failures": outcome.tally.connect_failures,
    })
}

fn rcodes(outcome: &Outcome) -> Value {
    let rcodes = outcome.tally.rcodes.iter();
    rcodes.map(|(rcode, count)| (Rcode(rcode).to_string(), json!(count))).collect()
}

fn histogram(histogram: &Histogram, buckets: bool) -> Value {
    let mut value = json!({
        "recorded": histogram.recorded(), "censored": histogram.censored(),
        "min": histogram.min(), "mean": histogram.mean(), "max": histogram.max(),
    });
    for (name, part) in PERCENTILES {
        let quantile = histogram.quantile(part);
        value[name] = json!(quantile.nanos());
        if matches!(quantile, Quantile::AtLeast(_)) {
            value[format!("{name}_censored")] = json!(true);
        }
    }
    if buckets {
        value["buckets"] =
            histogram.buckets().map(|(low, high, n)| json!([low, high, n])).collect();
    }
    value
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
