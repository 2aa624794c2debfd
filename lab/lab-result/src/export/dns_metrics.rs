//! DNS-OARC's dns-metrics: a JSON object per line, a header, a line per second, a sum.
//!
//! Times are nanoseconds and the header says so. The schema calls `stats_interval` and `timeout`
//! fractional seconds where its examples count in units; the examples' way is followed, since
//! `time_units_per_sec` would say nothing otherwise. What the format has no name for is in
//! `x_nodens`.

use super::moments::Moments;
use crate::{Connections, ResultFile, SECOND, Second};
use lab_histogram::Histogram;
use serde_json::{Map, Value, json};

/// The version of the format in the published examples.
const VERSION: u64 = 20_221_207;

pub(super) fn text(result: &ResultFile) -> String {
    let run = format!("{}-{}", result.plan.hash, result.run.started_unix_ns);
    let mut lines = vec![json!({
        "runid": run,
        "type": "header",
        "schema_version": VERSION,
        "generator": result.generator.name,
        "generator_version": result.generator.version,
        "generator_params": result.provenance.argv.get(1..).unwrap_or_default(),
        "time_units_per_sec": SECOND,
        "stats_interval": SECOND,
        "timeout": result.plan.timeout_ns,
        "x_nodens": {
            "valid": result.verdict.valid,
            "invalid_because": result.verdict.invalid_because,
            "intervals": "cohorts by intended time of sending",
            "latency": "from the intended time of sending to the answer",
        },
    })];
    lines.extend(result.seconds.iter().map(|second| periodic(result, second, &run)));
    lines.push(sum(result, &run));
    let mut text: String = lines.iter().map(|line| super::compact(line) + "\n").collect();
    text.shrink_to_fit();
    text
}

fn periodic(result: &ResultFile, second: &Second, run: &str) -> Value {
    let since = result.run.started_unix_ns + second.second * SECOND;
    let mut line = json!({
        "runid": run,
        "type": "stats_periodic",
        "since": since,
        "until": since + SECOND,
        "queries": second.sent,
        "responses": second.answered,
        "timeouts": second.timed_out,
        "interrupted": second.interrupted,
        "discarded": second.unsent,
        "response_rcodes": second.rcodes,
        "response_latency": latency(&second.response),
        "x_nodens": {
            "final": second.is_final,
            "lost": second.lost,
            "icmp_refused": second.refused,
            "connection_failed": second.connection_failed,
        },
    });
    if let (Some(connections), Some(line)) = (second.connections, line.as_object_mut()) {
        connection_info(result, connections, None, line);
    }
    line
}

fn sum(result: &ResultFile, run: &str) -> Value {
    let counts = &result.counts;
    let since = result.run.started_unix_ns;
    let mut line = json!({
        "runid": run,
        "type": "stats_sum",
        "since": since,
        "until": since + result.run.elapsed_ns,
        "queries": counts.sent,
        "responses": counts.answered,
        "timeouts": counts.timed_out,
        "interrupted": counts.interrupted,
        "unexpected": counts.received.saturating_sub(counts.answered),
        "discarded": counts.skipped + counts.send_errors,
        "response_rcodes": result.rcodes,
        "response_latency": latency(&result.response),
        "x_nodens": {
            "lost": counts.lost(),
            "icmp_refused": counts.refused,
            "connection_failed": counts.connection_failed,
            "late": counts.late,
            "duplicate": counts.duplicate,
            "mismatched": counts.mismatched,
            "unknown": counts.unknown,
            "malformed": counts.malformed,
            "truncated": counts.truncated,
            "service_latency": latency(&result.service),
            "lateness": latency(&result.lateness),
        },
    });
    let Some(fields) = line.as_object_mut() else { return line };
    match result.connections {
        Some(connections) => {
            connection_info(result, connections, Some(&result.connect), fields);
        }
        None => {
            let info = json!({
                "type": "udp",
                "packets_sent": counts.sent,
                "packets_received": counts.received,
                "socket_errors": counts.refused + counts.send_errors,
            });
            fields.insert("conn_info".to_owned(), info);
        }
    }
    line
}

/// One transport's connections; a mix has no place in the format.
fn connection_info(
    result: &ResultFile,
    connections: Connections,
    times: Option<&Histogram>,
    line: &mut Map<String, Value>,
) {
    let [share] = &result.plan.transports[..] else { return };
    // The schema's own names for the last two.
    let kind = match &*share.transport {
        "tcp" => "tcp",
        "dot" | "doh" => "tls_conn",
        "doq" | "doh3" => "quic_conn",
        _ => return,
    };
    let mut info = json!({
        "type": kind,
        "handshakes": connections.attempted,
        "handshakes_failed": connections.failed,
    });
    if let Some(info) = info.as_object_mut() {
        if kind != "tcp" {
            let resumed = json!({ "established": connections.resumed });
            info.insert("resumption".to_owned(), resumed);
        }
        if let Some(times) = times {
            info.insert("latency".to_owned(), json!({ "handshake": latency(times) }));
        }
    }
    line.insert("conn_info".to_owned(), info);
}

/// Without a value there are no values, and without two no deviation.
fn latency(histogram: &Histogram) -> Value {
    let Moments { count, mean, deviation, min, max } = Moments::of(histogram);
    let mut fields = Map::new();
    if count > 0 {
        fields.insert("avg".to_owned(), json!(mean as u64));
        fields.insert("min".to_owned(), json!(min));
        fields.insert("max".to_owned(), json!(max));
        fields.insert("buckets".to_owned(), json!(histogram.buckets().collect::<Vec<_>>()));
    }
    if count > 1 {
        fields.insert("stddev".to_owned(), json!(deviation as u64));
    }
    Value::Object(fields)
}
