//! The JSON that a fork of dnsperf prints with `-O json-output`: an object per line, microseconds.

use super::moments::Moments;
use crate::{ResultFile, SECOND};
use lab_histogram::Histogram;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const VERSION: u64 = 20_221_207;
const MICRO: u64 = 1_000;

/// One of its statistics objects.
struct Stats<'r> {
    kind: &'static str,
    since: u64,
    until: u64,
    requests: u64,
    answers: u64,
    timeouts: u64,
    interrupted: u64,
    unexpected: u64,
    rcodes: &'r BTreeMap<String, u64>,
    latency: &'r Histogram,
}

/// Intervals are cohorts of a second. Their latencies are from the intended time of sending, those of
/// the sum from sending, as dnsperf's are.
pub(super) fn text(result: &ResultFile) -> String {
    let generator = format!("{} {}", result.generator.name, result.generator.version);
    let mut lines = vec![json!({
        "type": "header",
        "version": VERSION,
        "merged": true,
        "time_units_per_sec": SECOND / MICRO,
        "generator": generator,
        "stats_interval": SECOND / MICRO,
        "timeout": result.plan.timeout_ns / MICRO,
    })];
    let start = result.run.started_unix_ns / MICRO;
    lines.extend(result.seconds.iter().map(|second| {
        let since = start + second.second * SECOND / MICRO;
        stats(&Stats {
            kind: "stats_periodic",
            since,
            // An interval begins one unit after the end of the one before.
            until: since + SECOND / MICRO - 1,
            requests: second.sent,
            answers: second.answered,
            timeouts: second.lost,
            interrupted: second.interrupted,
            unexpected: 0,
            rcodes: &second.rcodes,
            latency: &second.response,
        })
    }));
    lines.push(stats(&Stats {
        kind: "stats_sum",
        since: start,
        until: start + result.run.elapsed_ns / MICRO,
        requests: result.counts.sent,
        answers: result.counts.answered,
        timeouts: result.counts.lost(),
        interrupted: result.counts.interrupted,
        unexpected: result.counts.received.saturating_sub(result.counts.answered),
        rcodes: &result.rcodes,
        latency: &result.service,
    }));
    lines.iter().map(|line| super::compact(line) + "\n").collect()
}

fn stats(of: &Stats<'_>) -> Value {
    json!({
        "type": of.kind,
        "since": of.since,
        "until": of.until,
        "requests": of.requests,
        "answers": of.answers,
        "timeouts": of.timeouts,
        "interrupted": of.interrupted,
        "unexpected": of.unexpected,
        "responses": of.rcodes,
        "answer_latency": latency(of.latency),
    })
}

/// What is 0 is left out, and buckets with at most one answer are, as there.
fn latency(histogram: &Histogram) -> Value {
    let Moments { count, mean, deviation, min, max } = Moments::of(histogram);
    let mut fields = Map::new();
    for (name, value) in
        [("avg", mean as u64), ("min", min), ("max", max), ("stddev", deviation as u64)]
    {
        if value / MICRO > 0 || ["avg", "stddev"].contains(&name) {
            fields.insert(name.to_owned(), json!(value / MICRO));
        }
    }
    if count > 1 {
        fields.insert("buckets".to_owned(), json!(super::dnsperf::buckets(histogram)));
    }
    Value::Object(fields)
}
