//! Log records as JSON, with the fields and their order of CoreDNS's `-log-format json`.

use nodens_core::log::{Level, QueryRecord};
use serde::Serialize;

/// One record; a line of the log.
#[derive(Serialize)]
struct Line<'a> {
    /// RFC 3339, in UTC.
    time: String,
    level: &'static str,
    msg: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    plugin: &'a str,
    #[serde(flatten)]
    query: Option<Query>,
}

/// What `log` knows of a query beside its `msg`.
#[derive(Serialize)]
struct Query {
    client_ip: String,
    client_port: u16,
    qname: String,
    qtype: String,
    qclass: String,
    protocol: &'static str,
    id: u16,
    opcode: u8,
    request_size: usize,
    dnssec_ok: bool,
    bufsize: u16,
    rcode: Option<String>,
    response_size: usize,
    duration_seconds: f64,
}

/// A line with its end.
pub(super) fn line(level: Level, plugin: &str, msg: &str) -> String {
    render(level, plugin, msg, None)
}

/// The line of a query, with its end.
pub(super) fn query(query: &QueryRecord) -> String {
    let fields = Query {
        client_ip: query.peer.ip().to_canonical().to_string(),
        client_port: query.peer.port(),
        qname: query.qname.to_folded().to_string(),
        qtype: query.qtype.to_string(),
        qclass: query.class(),
        protocol: query.protocol(),
        id: query.id,
        opcode: query.opcode.0,
        request_size: query.size,
        dnssec_ok: query.dnssec_ok,
        bufsize: query.bufsize,
        rcode: query.response_code(),
        response_size: query.response_size,
        duration_seconds: query.took.as_secs_f64(),
    };
    render(Level::Info, "log", &query.line(), Some(fields))
}

fn render(level: Level, plugin: &str, msg: &str, query: Option<Query>) -> String {
    let (time, level) = (jiff::Timestamp::now().to_string(), level_name(level));
    let line = serde_json::to_string(&Line { time, level, msg, plugin, query });
    // Text and numbers are always JSON.
    line.unwrap_or_default() + "\n"
}

/// The levels of Go's `slog`, and one that CoreDNS adds.
fn level_name(level: Level) -> &'static str {
    match level {
        Level::Warning => "WARN",
        other => super::level_name(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn a_line_has_the_fields_of_coredns_in_their_order() {
        let text = line(Level::Warning, "reload", "\"a\"\nb");
        let value: Value = serde_json::from_str(&text).unwrap();
        let time: jiff::Timestamp = value["time"].as_str().unwrap().parse().unwrap();
        assert!(jiff::Timestamp::now().duration_since(time).as_secs() < 60, "{text}");
        let rest = r#","level":"WARN","msg":"\"a\"\nb","plugin":"reload"}"#;
        assert!(text.trim_end().ends_with(rest) && text.lines().count() == 1, "{text}");
        assert!(line(Level::Fatal, "", "x").contains(r#""level":"FATAL","msg":"x"}"#));
    }
}
