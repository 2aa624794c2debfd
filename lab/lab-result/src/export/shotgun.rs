//! The JSON of DNS Shotgun, which its plot-latency.py, plot-response-rate.py, plot-connections.py
//! and merge-data.py read.
//!
//! Its intervals are cohorts as ours are: answers, RCODEs and latencies belong to the interval in
//! which the query was meant to be sent. Its latencies are an array whose index is the
//! millisecond and whose last element counts the queries without an answer.

use crate::{Connections, ResultFile};
use lab_histogram::Histogram;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The only version that its tools take.
const VERSION: u64 = 20_200_527;
const MILLI: u64 = 1_000_000;
/// RCODEs that it counts apart.
const RCODES: [&str; 19] = [
    "NOERROR",
    "FORMERR",
    "SERVFAIL",
    "NXDOMAIN",
    "NOTIMP",
    "REFUSED",
    "YXDOMAIN",
    "YXRRSET",
    "NXRRSET",
    "NOTAUTH",
    "NOTZONE",
    "BADVERS",
    "BADKEY",
    "BADTIME",
    "BADMODE",
    "BADNAME",
    "BADALG",
    "BADTRUNC",
    "BADCOOKIE",
];

/// One of its statistics objects.
struct Stats<'r> {
    since_ms: u64,
    until_ms: u64,
    requests: u64,
    answers: u64,
    interrupted: u64,
    rcodes: &'r BTreeMap<String, u64>,
    response: &'r Histogram,
    connections: Option<Connections>,
}

pub(super) fn text(result: &ResultFile, unit: u64) -> String {
    let slots = (result.plan.timeout_ns / unit.max(1)) as usize;
    let start = result.run.started_unix_ns / MILLI;
    let periodic = result.seconds.iter().map(|second| {
        let since_ms = start + second.second * 1_000;
        stats(
            slots,
            unit,
            &Stats {
                since_ms,
                until_ms: since_ms + 1_000,
                requests: second.sent,
                answers: second.answered,
                interrupted: second.interrupted,
                rcodes: &second.rcodes,
                response: &second.response,
                connections: second.connections,
            },
        )
    });
    let sum = Stats {
        since_ms: start,
        until_ms: start + 1_000 * result.seconds.len() as u64,
        requests: result.counts.sent,
        answers: result.counts.answered,
        interrupted: result.counts.interrupted,
        rcodes: &result.rcodes,
        response: &result.response,
        connections: result.connections,
    };
    let timeout_ms = result.plan.timeout_ns / MILLI;
    let mut root = json!({
        "version": VERSION,
        "merged": true,
        "stats_interval_ms": 1_000,
        "timeout_ms": timeout_ms,
        "idle_timeout_ms": 0,
        "handshake_timeout_ms": timeout_ms,
        "discarded": result.counts.skipped + result.counts.send_errors,
        "stats_sum": stats(slots, unit, &sum),
        "stats_periodic": periodic.collect::<Vec<_>>(),
    });
    if let Some(root) = root.as_object_mut().filter(|_| unit != MILLI) {
        root.insert("x_nodens".to_owned(), json!({ "latency_unit_ns": unit }));
    }
    let mut text = super::compact(&root);
    text.push('\n');
    text
}

fn stats(slots: usize, unit: u64, of: &Stats<'_>) -> Value {
    let connections = of.connections.unwrap_or_default();
    let mut fields = Map::new();
    let counts = [
        ("since_ms", of.since_ms),
        ("until_ms", of.until_ms),
        ("requests", of.requests),
        ("ongoing", of.interrupted),
        ("answers", of.answers),
        ("conn_active", connections.active),
        ("conn_resumed", connections.resumed),
        ("conn_handshakes", connections.attempted),
        ("conn_quic_0rtt_loaded", connections.early_data_sent),
        ("quic_0rtt_sent", connections.early_data_sent),
        ("quic_0rtt_answered", connections.early_data_answered),
        ("conn_handshakes_failed", connections.failed),
    ];
    fields.extend(counts.map(|(name, count)| (name.to_owned(), json!(count))));
    let mut named = 0;
    for name in RCODES {
        let count = of.rcodes.get(name).copied().unwrap_or(0);
        named += count;
        fields.insert(format!("rcode_{}", name.to_lowercase()), json!(count));
    }
    fields.insert("rcode_other".to_owned(), json!(of.answers.saturating_sub(named)));
    fields.insert("latency".to_owned(), json!(latency(slots, unit, of.response)));
    Value::Object(fields)
}

/// A response that took the whole timeout, as one can that was sent late, is in the last element
/// with the lost ones: there is none behind it.
fn latency(slots: usize, unit: u64, response: &Histogram) -> Vec<u64> {
    let mut latency = vec![0; slots + 1];
    let (min, max) = (response.min().unwrap_or(0), response.max().unwrap_or(0));
    for (low, high, count) in response.buckets() {
        let slot = (low + (high - low) / 2).clamp(min, max) / unit.max(1);
        let slot = usize::try_from(slot).unwrap_or(slots).min(slots);
        if let Some(into) = latency.get_mut(slot) {
            *into += count;
        }
    }
    if let Some(last) = latency.last_mut() {
        *last += response.censored();
    }
    latency
}
