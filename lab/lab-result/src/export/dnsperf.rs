//! The text of dnsperf 2.14.0, line for line, from `print_initial_status`, `print_final_status` and
//! `print_statistics` in its `dnsperf.c`.
//!
//! Latency is dnsperf's: from sending to the answer. One thing differs on purpose: where dnsperf
//! divides by the number of answers without looking whether there is one, it prints `-nan`.

use super::moments::Moments;
use crate::{Connections, ResultFile, SECOND};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use lab_histogram::Histogram;
use nodens_wire::Rcode;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The version whose text this is.
pub const VERSION: &str = "2.14.0";

/// Nanoseconds in a microsecond, dnsperf's unit of time.
const MICRO: u64 = 1_000;
/// dnsperf's histogram divides every power of two into 32: hg64 with these significant bits.
const SIGNIFICANT_BITS: u32 = 5;

/// The first two lines and the empty one behind them.
pub fn banner(generator: &crate::Generator) -> String {
    let crate::Generator { name, version } = generator;
    format!("DNS Performance Testing Tool\nVersion {VERSION} ({name} {version})\n\n")
}

/// What is known before the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// Name of the program and its arguments.
    pub command_line: String,
    /// Address and port, an IPv6 address in brackets.
    pub server: String,
    /// Nanoseconds since 1970-01-01 UTC.
    pub started_unix_ns: u64,
    /// Nanoseconds, if limited.
    pub time_limit: Option<u64>,
    /// Runs through the query file, if limited.
    pub runs: Option<u64>,
    /// Whether updates are sent and no queries.
    pub updates: bool,
}

/// The status lines before the run.
pub fn start(of: &Start) -> String {
    let what = if of.updates { "updates" } else { "queries" };
    let limit = of.time_limit.map(|nanos| format!("{} seconds", seconds(nanos)));
    let runs = of.runs.map(|runs| {
        let plural = if runs == 1 { "" } else { "s" };
        format!("{runs} run{plural} through file")
    });
    let stop: Vec<_> = [limit, runs].into_iter().flatten().collect();
    format!(
        "[Status] Command line: {}\n[Status] Sending {what} (to {})\n[Status] Started at: {}\n\
         [Status] Stopping after {}\n",
        of.command_line,
        of.server,
        ctime(of.started_unix_ns, TimeZone::system()),
        stop.join(" or "),
    )
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its time was over.
    TimeLimit,
    /// The query file had been sent as often as wanted.
    EndOfFile,
    /// From outside.
    Interruption,
}

/// The status line behind the run, with the empty line behind it.
pub fn complete(end: End) -> String {
    let reason = match end {
        End::TimeLimit => "time limit",
        End::EndOfFile => "end of file",
        End::Interruption => "interruption",
    };
    format!("[Status] Testing complete ({reason})\n\n")
}

/// The numbers of a run or of an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics<'r> {
    /// Sent.
    pub sent: u64,
    /// Answered in time.
    pub completed: u64,
    /// Lost, whatever the cause.
    pub lost: u64,
    /// In flight at the end of an interrupted run.
    pub interrupted: u64,
    /// Answers by RCODE mnemonic.
    pub rcodes: BTreeMap<String, u64>,
    /// Octets of what was sent.
    pub request_octets: u64,
    /// Octets of the answers.
    pub response_octets: u64,
    /// Nanoseconds from the start to the end of the run or interval.
    pub run_time: u64,
    /// Nanoseconds of the interval; `None` for a whole run.
    pub interval: Option<u64>,
    /// From sending to the answer.
    pub latency: Option<&'r Histogram>,
    /// Connections and how long they took, if the transport has any.
    pub connections: Option<(Connections, &'r Histogram)>,
    /// Whether updates were sent and no queries.
    pub updates: bool,
    /// Whether to print the latency buckets.
    pub histogram: bool,
}

/// The block of statistics.
pub fn statistics(of: &Statistics<'_>) -> String {
    let units = if of.updates { "Updates" } else { "Queries" };
    let mut out = if of.interval.is_some() { "Interval ".to_owned() } else { String::new() };
    let sent_part = |count: u64| percent(count, of.sent);
    // Writing to a string cannot fail.
    _ = write!(out, "Statistics:\n\n  {units} sent:         {}\n", of.sent);
    _ = writeln!(out, "  {units} completed:    {} ({}%)", of.completed, sent_part(of.completed));
    _ = writeln!(out, "  {units} lost:         {} ({}%)", of.lost, sent_part(of.lost));
    if of.interrupted > 0 {
        let part = sent_part(of.interrupted);
        _ = writeln!(out, "  {units} interrupted:  {} ({part}%)", of.interrupted);
    }
    _ = write!(out, "\n  Response codes:       {}\n", rcodes(&of.rcodes, of.completed));
    let request = of.request_octets.checked_div(of.sent).unwrap_or(0);
    let response = of.response_octets.checked_div(of.completed).unwrap_or(0);
    _ = writeln!(out, "  Average packet size:  request {request}, response {response}");
    _ = writeln!(out, "  Run time (s):         {}", seconds(of.run_time));
    let time = of.interval.unwrap_or(of.run_time) as f64 / SECOND as f64;
    let rate = if time > 0.0 { of.completed as f64 / time } else { 0.0 };
    _ = write!(out, "  {units} per second:   {rate:.6}\n\n");
    let empty = Histogram::new();
    out += &latency(of, of.latency.unwrap_or(&empty), "answer count");
    if let Some((connections, times)) = of.connections.filter(|(found, _)| found.attempted > 0) {
        let Connections { attempted, opened, .. } = connections;
        let part = percent(opened, attempted);
        _ = write!(
            out,
            "Connection Statistics:\n\n  Connection attempts:  {attempted} ({opened} successful, \
             {part}%)\n\n"
        );
        out += &latency(of, times, "connection count");
    }
    out
}

fn latency(of: &Statistics<'_>, times: &Histogram, heading: &str) -> String {
    let moments = Moments::of(times);
    let mut out = format!("  Average Latency (s):  {}", seconds(moments.mean as u64));
    if of.interval.is_none() {
        _ = write!(out, " (min {}, max {})", seconds(moments.min), seconds(moments.max));
    }
    out.push('\n');
    if moments.count > 1 {
        _ = writeln!(out, "  Latency StdDev (s):   {:.6}", moments.deviation / SECOND as f64);
        if of.histogram {
            _ = writeln!(out, "  Latency bucket (s):   {heading}");
            for (low, high, count) in buckets(times) {
                let (low, high) = (seconds(low * MICRO), seconds(high * MICRO));
                _ = writeln!(out, "  {low} - {high}:  {count}");
            }
        }
    }
    out.push('\n');
    out
}

/// dnsperf's buckets as lowest and highest microsecond and count.
///
/// A bucket of ours goes where its lowest value does: at most 0.4 % of a value may go one bucket too
/// low, since powers of two of nanoseconds are none of microseconds.
pub(super) fn buckets(times: &Histogram) -> Vec<(u64, u64, u64)> {
    let mut buckets: Vec<(u64, u64, u64)> = Vec::new();
    for (low, _, count) in times.buckets() {
        let micros = low.max(times.min().unwrap_or(0)) / MICRO;
        let shift = micros.max(1).ilog2().saturating_sub(SIGNIFICANT_BITS);
        let (first, last) = (micros >> shift << shift, (((micros >> shift) + 1) << shift) - 1);
        match buckets.last_mut() {
            Some(bucket) if bucket.0 == first => bucket.2 += count,
            _ => buckets.push((first, last, count)),
        }
    }
    buckets
}

/// By code, with the names of dnsperf.
fn rcodes(counts: &BTreeMap<String, u64>, completed: u64) -> String {
    let mut coded: Vec<(u16, &str, u64)> = counts
        .iter()
        .map(|(name, count)| (name.parse().map_or(u16::MAX, |Rcode(code)| code), &**name, *count))
        .collect();
    coded.sort_unstable();
    let text = |(code, name, count): &(u16, &str, u64)| {
        let part = percent(*count, completed);
        match unnamed(*code) {
            Some(number) => format!("{number} {count} ({part}%)"),
            None => format!("{name} {count} ({part}%)"),
        }
    };
    coded.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// dnsperf has no names for these.
fn unnamed(code: u16) -> Option<String> {
    (11..=15).contains(&code).then(|| format!("rcode{code}"))
}

/// The line of an answered query, which `-v` prints: `> NOERROR www.example.com A 0.001234`.
pub fn answer_line(rcode: u16, query: &str, service: u64) -> String {
    let rcode = unnamed(rcode).unwrap_or_else(|| Rcode(rcode).to_string());
    format!("> {rcode} {query} {}\n", seconds(service))
}

fn percent(part: u64, whole: u64) -> String {
    let percent = if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 };
    format!("{percent:.2}")
}

/// `%u.%06u`: cut, not rounded.
fn seconds(nanos: u64) -> String {
    format!("{}.{:06}", nanos / SECOND, nanos % SECOND / MICRO)
}

/// As `ctime`: `Sat Nov 21 02:03:04 2026`.
fn ctime(unix_ns: u64, zone: TimeZone) -> String {
    let time = Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default();
    time.to_zoned(zone).strftime("%a %b %e %H:%M:%S %Y").to_string()
}

/// `micros` as dnsperf prints the time of an interval line: `1675865568.761088: 28651.000000`.
pub fn interval_line(unix_ns: u64, answers: u64, interval: u64) -> String {
    let time = interval as f64 / SECOND as f64;
    let rate = if time > 0.0 { answers as f64 / time } else { 0.0 };
    format!("{}: {rate:.6}\n", seconds(unix_ns))
}

/// The numbers of a whole run.
pub fn whole_run(result: &ResultFile, histogram: bool) -> Statistics<'_> {
    // dnsperf's time ends with its last query or answer, not when it has given up the last query.
    let run_time = result.run.active_ns;
    Statistics {
        sent: result.counts.sent,
        completed: result.counts.answered,
        lost: result.counts.lost(),
        interrupted: result.counts.interrupted,
        rcodes: result.rcodes.clone(),
        request_octets: result.counts.question_octets,
        response_octets: result.counts.answer_octets,
        run_time,
        interval: None,
        latency: Some(&result.service),
        connections: result.connections.map(|found| (found, &result.connect)),
        updates: false,
        histogram,
    }
}

/// Everything that dnsperf would have printed.
pub(super) fn whole(result: &ResultFile, histogram: bool) -> String {
    let queries = result.plan.queries.filter(|queries| result.counts.scheduled >= *queries);
    let end = match (result.run.interrupted, queries) {
        (true, _) => End::Interruption,
        (false, Some(_)) => End::EndOfFile,
        (false, None) => End::TimeLimit,
    };
    let of = Start {
        command_line: result.provenance.argv.join(" "),
        server: result.plan.server.clone(),
        started_unix_ns: result.run.started_unix_ns,
        time_limit: Some(result.plan.duration_ns),
        runs: None,
        updates: false,
    };
    let banner = banner(&result.generator);
    let (start, complete) = (start(&of), complete(end));
    let statistics = statistics(&whole_run(result, histogram));
    format!("{banner}{start}{complete}{statistics}")
}
