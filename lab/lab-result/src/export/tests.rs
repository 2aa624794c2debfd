//! Consumers of the formats, written from what those tools read.

use super::*;
use crate::tests::{example, golden};
use crate::{Connections, Counts, SECOND};
use lab_histogram::Histogram;
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeMap;

fn made(result: &ResultFile, format: Format) -> String {
    export(result, format, Options { latency_histogram: true, ..Options::default() })
}

/// A run that nothing came of: sent into the void, or nothing sent at all.
fn without_answers(sent: u64) -> ResultFile {
    let mut lost = Histogram::new();
    (0..sent).for_each(|_| lost.record_censored(2 * SECOND));
    let mut result = example();
    result.counts = Counts { scheduled: sent, sent, timed_out: sent, ..Counts::default() };
    (result.response, result.service) = (lost.clone(), lost);
    (result.lateness, result.late) = (Histogram::new(), Histogram::new());
    result.lateness.record_n(5, sent);
    result.rcodes.clear();
    (result.by_qtype, result.by_rcode) = Default::default();
    result.seconds.truncate(1);
    for second in &mut result.seconds {
        (second.sent, second.answered, second.lost, second.timed_out) = (sent, 0, sent, sent);
        second.response = result.response.clone();
        second.rcodes.clear();
    }
    result
}

/// Over TCP, with connections that failed.
fn over_tcp() -> ResultFile {
    let mut result = example();
    result.plan.transports[0].transport = "tcp".into();
    let found =
        Connections { active: 32, attempted: 34, opened: 32, failed: 2, ..Connections::default() };
    result.connections = Some(found);
    result.connect.record_n(300_000, 32);
    result.seconds.iter_mut().for_each(|second| second.connections = Some(found));
    result
}

#[test]
fn exports_made_again_from_the_file_are_the_same_octet_for_octet() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/small.json");
    let result = crate::read(path.as_ref()).unwrap();
    // The only thing that is not in the file is the reader's time zone.
    let started = Regex::new("Started at: .*").unwrap();
    for (name, format) in Format::ALL {
        let text = made(&result, format);
        assert_eq!(text, made(&crate::read(path.as_ref()).unwrap(), format), "{name}");
        let text = started.replace(&text, "Started at: TIME");
        golden(&format!("testdata/small.{name}"), &text);
        assert_eq!(name.parse::<Format>().unwrap().to_string(), name);
    }
    assert!(
        "xml"
            .parse::<Format>()
            .unwrap_err()
            .to_string()
            .contains("expected dnsperf, dnsperf-json, shotgun")
    );
}

#[test]
fn no_export_of_a_run_without_answers_has_a_number_that_is_none() {
    let no_number = Regex::new(r"(?i)\b-?(nan|inf|infinity)\b").unwrap();
    for result in [without_answers(0), without_answers(7), example()] {
        for (name, format) in Format::ALL {
            let text = made(&result, format);
            // The table of percentiles ends at 1/(1-1) on purpose.
            let text = text.replace("           inf\n", "\n");
            assert!(!no_number.is_match(&text), "{name}: {text}");
            if [Format::Shotgun, Format::Json].contains(&format) {
                serde_json::from_str::<Value>(&text).unwrap();
            }
        }
    }
}

/// What kubernetes/perf-tests looks for in dnsperf's text, and of which type it takes it to be.
const PERF_TESTS: [(&str, &str); 9] = [
    ("queries_sent", r"^\s*Queries sent:\s*(\d+)"),
    ("queries_completed", r"^\s*Queries completed:\s*(\d+).*"),
    ("queries_lost", r"^\s*Queries lost:\s*(\d+).*"),
    ("run_time", r"^\s*Run time \(s\):\s*([0-9.]+)"),
    ("qps", r"^\s*Queries per second:\s*([0-9.]+)"),
    ("avg_latency", r"^\s*Average Latency \(s\):\s*([0-9.]+).*"),
    ("min_latency", r"^\s*Average Latency \(s\):.*min ([0-9.]+).*"),
    ("max_latency", r"^\s*Average Latency \(s\):.*max ([0-9.]+).*"),
    ("stddev_latency", r"^\s*Latency StdDev \(s\):\s*([0-9.]+)"),
];

fn perf_tests(text: &str) -> BTreeMap<&'static str, f64> {
    let mut found = BTreeMap::new();
    for (name, pattern) in PERF_TESTS {
        let pattern = Regex::new(pattern).unwrap();
        // As there: the last line that matches.
        for line in text.lines().map(str::trim) {
            if let Some(groups) = pattern.captures(line) {
                found.insert(name, groups[1].parse().unwrap());
            }
        }
    }
    found
}

#[test]
fn scripts_that_read_dnsperfs_text_find_every_number() {
    let result = example();
    let found = perf_tests(&made(&result, Format::Dnsperf));
    assert_eq!(found.len(), PERF_TESTS.len());
    assert_eq!(found["queries_sent"], 1_200.0);
    assert_eq!((found["queries_completed"], found["queries_lost"]), (1_197.0, 3.0));
    assert_eq!((found["run_time"], found["qps"]), (3.0, 1_197.0 / 3.0));
    assert_eq!((found["min_latency"], found["max_latency"]), (0.000_040, 0.007_669));
    let mean = result.service.mean().unwrap() / 1e9;
    assert!((found["avg_latency"] - mean).abs() < 1e-6);
    let found = perf_tests(&made(&without_answers(7), Format::Dnsperf));
    assert_eq!(found.len(), PERF_TESTS.len() - 1, "no deviation of no answers");
    assert_eq!((found["queries_lost"], found["qps"]), (7.0, 0.0));
}

#[test]
fn waiting_for_lost_queries_is_no_time_of_dnsperf() {
    let mut result = example();
    assert!(result.counts.lost() > 0);
    (result.run.active_ns, result.run.elapsed_ns) = (5 * SECOND, 10 * SECOND);
    let found = perf_tests(&made(&result, Format::Dnsperf));
    assert_eq!((found["run_time"], found["qps"]), (5.0, 1_197.0 / 5.0));
}

#[test]
fn dnsperfs_lines_stand_in_their_order_and_nothing_between_them() {
    let text = made(&over_tcp(), Format::Dnsperf);
    let shapes = [
        r"DNS Performance Testing Tool",
        r"Version 2\.14\.0 \(nodens-lab [0-9.]+\)",
        r"",
        r"\[Status\] Command line: \S.*",
        r"\[Status\] Sending queries \(to 192\.0\.2\.1:53\)",
        r"\[Status\] Started at: [A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9]\d \d\d:\d\d:\d\d \d{4}",
        r"\[Status\] Stopping after 3\.000000 seconds",
        r"\[Status\] Testing complete \(time limit\)",
        r"",
        r"Statistics:",
        r"",
        r"  Queries sent:         1200",
        r"  Queries completed:    1197 \(99\.75%\)",
        r"  Queries lost:         3 \(0\.25%\)",
        r"",
        r"  Response codes:       NOERROR 957 \(79\.95%\), NXDOMAIN 240 \(20\.05%\)",
        r"  Average packet size:  request 30, response 60",
        r"  Run time \(s\):         3\.000000",
        r"  Queries per second:   399\.000000",
        r"",
        r"  Average Latency \(s\):  0\.000179 \(min 0\.000040, max 0\.007669\)",
        r"  Latency StdDev \(s\):   0\.\d{6}",
        r"  Latency bucket \(s\):   answer count",
    ];
    let mut lines = text.lines();
    for shape in shapes {
        let line = lines.next().unwrap();
        assert!(Regex::new(&format!("^{shape}$")).unwrap().is_match(line), "{line}: {shape}");
    }
    let bucket = Regex::new(r"^  (\d\.\d{6}) - (\d\.\d{6}):  (\d+)$").unwrap();
    let mut take_buckets = || -> u64 {
        let mut last = -1.0;
        let rows = lines.by_ref().map_while(|line| bucket.captures(line));
        rows.map(|row| {
            let (low, high): (f64, f64) = (row[1].parse().unwrap(), row[2].parse().unwrap());
            assert!(low > last && high >= low && high - low <= low / 31.0 + 1e-9, "{row:?}");
            last = high;
            row[3].parse::<u64>().unwrap()
        })
        .sum()
    };
    assert_eq!(take_buckets(), 1_197, "the buckets have every answer");
    let rest: Vec<_> = text.split("Connection Statistics:\n").nth(1).unwrap().lines().collect();
    assert_eq!(rest[1], "  Connection attempts:  34 (32 successful, 94.12%)");
    assert_eq!(rest[3], "  Average Latency (s):  0.000300 (min 0.000300, max 0.000300)");
    assert_eq!(rest[5], "  Latency bucket (s):   connection count");
    assert_eq!(rest[6], "  0.000296 - 0.000303:  32", "dnsperf prints the answers here");
    assert!(text.ends_with("\n\n"));
}

#[test]
fn rcodes_are_called_as_dnsperf_calls_them() {
    let mut result = example();
    result.rcodes = [("REFUSED", 1_000), ("RCODE12", 100), ("BADVERS", 97)]
        .map(|(name, count)| (name.to_owned(), count))
        .into();
    let text = made(&result, Format::Dnsperf);
    let line =
        "  Response codes:       REFUSED 1000 (83.54%), rcode12 100 (8.35%), BADVERS 97 (8.10%)";
    assert!(text.lines().any(|found| found == line), "{text}");
}

/// The fields that Shotgun's merge-data.py adds up; it stops at the first that is missing.
const SHOTGUN_STATS: [&str; 32] = [
    "since_ms",
    "until_ms",
    "requests",
    "ongoing",
    "answers",
    "conn_active",
    "conn_resumed",
    "conn_handshakes",
    "conn_quic_0rtt_loaded",
    "quic_0rtt_sent",
    "quic_0rtt_answered",
    "conn_handshakes_failed",
    "rcode_noerror",
    "rcode_formerr",
    "rcode_servfail",
    "rcode_nxdomain",
    "rcode_notimp",
    "rcode_refused",
    "rcode_yxdomain",
    "rcode_yxrrset",
    "rcode_nxrrset",
    "rcode_notauth",
    "rcode_notzone",
    "rcode_badvers",
    "rcode_badkey",
    "rcode_badtime",
    "rcode_badmode",
    "rcode_badname",
    "rcode_badalg",
    "rcode_badtrunc",
    "rcode_badcookie",
    "rcode_other",
];

fn latency(stats: &Value) -> Vec<u64> {
    stats["latency"].as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).collect()
}

/// Everything that its tools check, and that they add up without checking.
fn check_shotgun(text: &str) -> Value {
    let data: Value = serde_json::from_str(text).unwrap();
    assert_eq!(data["version"], 20_200_527);
    assert!(data["merged"].is_boolean());
    for field in ["stats_interval_ms", "timeout_ms", "discarded"] {
        assert!(data[field].is_u64(), "{field}");
    }
    let periodic = data["stats_periodic"].as_array().unwrap();
    let sum = &data["stats_sum"];
    for stats in periodic.iter().chain([sum]) {
        for field in SHOTGUN_STATS {
            assert!(stats[field].is_u64(), "{field}");
        }
        let rcodes = SHOTGUN_STATS.iter().filter(|field| field.starts_with("rcode_"));
        let rcodes: u64 = rcodes.map(|field| stats[field].as_u64().unwrap()).sum();
        assert_eq!(stats["answers"], rcodes);
        let ended = stats["requests"].as_u64().unwrap() - stats["ongoing"].as_u64().unwrap();
        assert_eq!(latency(stats).iter().sum::<u64>(), ended);
        assert_eq!(latency(stats).len(), latency(sum).len());
    }
    // plot-latency.py leaves out what starts 100 ms before the sum.
    let start = sum["since_ms"].as_u64().unwrap();
    for (stats, at) in periodic.iter().zip(0..) {
        assert_eq!(stats["since_ms"], start + at * 1_000);
        assert_eq!(stats["until_ms"], start + (at + 1) * 1_000);
    }
    let requests: u64 = periodic.iter().map(|stats| stats["requests"].as_u64().unwrap()).sum();
    assert_eq!(sum["requests"], requests);
    data
}

#[test]
fn shotguns_tools_find_every_field_and_all_queries_in_their_milliseconds() {
    let data = check_shotgun(&made(&example(), Format::Shotgun));
    let sum = latency(&data["stats_sum"]);
    assert_eq!((sum.len(), data["timeout_ms"].as_u64()), (2_001, Some(2_000)));
    assert_eq!(sum[2_000], 3, "lost queries are in the last element");
    let slowest = sum.iter().take(2_000).rposition(|count| *count > 0).unwrap();
    assert_eq!(slowest, 7, "the slowest took 7.669 ms");
    check_shotgun(&made(&over_tcp(), Format::Shotgun));
    check_shotgun(&made(&without_answers(7), Format::Shotgun));
    check_shotgun(&made(&without_answers(0), Format::Shotgun));
    let options = Options { shotgun_unit: 10_000, ..Options::default() };
    let fine = check_shotgun(&export(&example(), Format::Shotgun, options));
    let sum = latency(&fine["stats_sum"]);
    assert_eq!((sum.len(), sum[200_000], fine["timeout_ms"].as_u64()), (200_001, 3, Some(2_000)));
    assert_eq!(sum.iter().position(|count| *count > 0), Some(4), "the fastest took 40 µs");
}

/// The schema of dns-metrics, with what it leaves open closed.
fn check_dns_metrics(text: &str) -> Vec<Value> {
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(text.ends_with('\n'));
    let run = lines[0]["runid"].as_str().unwrap();
    assert_eq!(lines[0]["type"], "header");
    for field in ["schema_version", "time_units_per_sec", "stats_interval", "timeout"] {
        assert!(lines[0][field].is_u64(), "{field}");
    }
    for field in ["generator", "generator_version"] {
        assert!(lines[0][field].is_string(), "{field}");
    }
    let strings = lines[0]["generator_params"].as_array().unwrap();
    assert!(strings.iter().all(Value::is_string));
    for line in &lines {
        assert_eq!(line["runid"], run);
    }
    let name = Regex::new(r"^\w+$").unwrap();
    let mut last = 0;
    for line in &lines[1..] {
        for field in
            ["since", "until", "queries", "responses", "timeouts", "interrupted", "discarded"]
        {
            assert!(line[field].is_u64(), "{field}");
        }
        let rcodes = line["response_rcodes"].as_object().unwrap();
        assert!(rcodes.keys().all(|rcode| name.is_match(rcode)));
        let rcodes: u64 = rcodes.values().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(line["responses"], rcodes);
        let latency = line["response_latency"].as_object().unwrap();
        let buckets = latency.get("buckets").map_or(&[][..], |b| b.as_array().unwrap());
        let sum: u64 = buckets.iter().map(|bucket| bucket[2].as_u64().unwrap()).sum();
        assert_eq!(line["responses"], sum);
        let numbers = latency.iter().filter(|(name, _)| *name != "buckets");
        assert!(numbers.clone().all(|(_, value)| value.is_u64()), "{latency:?}");
        if line["type"] == "stats_periodic" {
            assert!(line["since"].as_u64().unwrap() >= last, "intervals follow each other");
            last = line["until"].as_u64().unwrap();
        }
    }
    assert_eq!(lines.last().unwrap()["type"], "stats_sum");
    lines
}

#[test]
fn dns_metrics_lines_are_what_their_schema_says() {
    let lines = check_dns_metrics(&made(&example(), Format::DnsMetrics));
    assert_eq!(lines.len(), 1 + 3 + 1);
    assert_eq!(lines[4]["queries"], 1_200);
    assert_eq!(lines[4]["conn_info"]["type"], "udp");
    let tcp = check_dns_metrics(&made(&over_tcp(), Format::DnsMetrics));
    assert_eq!(tcp[1]["conn_info"]["type"], "tcp");
    assert_eq!(tcp[4]["conn_info"]["handshakes_failed"], 2);
    check_dns_metrics(&made(&without_answers(7), Format::DnsMetrics));
    check_dns_metrics(&made(&without_answers(0), Format::DnsMetrics));
}

#[test]
fn csv_has_a_full_line_per_second_and_says_where_only_a_bound_is_known() {
    for result in [example(), without_answers(7), without_answers(0)] {
        let text = made(&result, Format::Csv);
        let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let header = lines.next().unwrap();
        let rows: Vec<BTreeMap<_, _>> = lines
            .map(|cells| {
                assert_eq!(cells.len(), header.len());
                header.iter().copied().zip(cells).collect()
            })
            .collect();
        assert_eq!(rows.len(), result.seconds.len());
        for (row, second) in rows.iter().zip(&result.seconds) {
            assert_eq!(row["sent"], second.sent.to_string());
            let number = |name: &str| row[name].parse::<u64>().unwrap();
            let rcodes = ["noerror", "nxdomain", "servfail", "refused_rcode", "other_rcodes"];
            assert_eq!(rcodes.map(number).iter().sum::<u64>(), second.answered);
        }
        if result.counts.answered == 0 && result.counts.sent > 0 {
            assert_eq!((rows[0]["p50_ns"], rows[0]["max_ns"]), ("2000000000", ""));
            assert_eq!(rows[0]["at_least"], "p50 p90 p99 p99.9");
        }
    }
}

#[test]
fn a_table_of_percentiles_rises_and_leaves_room_for_the_lost() {
    let text = made(&example(), Format::Hgrm);
    let rows: Vec<Vec<f64>> = text
        .lines()
        .skip(2)
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_whitespace().map(|word| word.parse().unwrap()).collect())
        .collect();
    assert!(
        rows.windows(2).all(|pair| pair[0][..3].iter().zip(&pair[1][..3]).all(|(a, b)| a <= b))
    );
    let last = rows.last().unwrap();
    assert_eq!((last[0], last[2]), (7.669, 1_197.0));
    assert!((last[1] - 1_197.0 / 1_200.0).abs() < 1e-9 && last[3] == 400.0, "{last:?}");
    assert!(text.contains("Total count    =         1200]"));
}

#[test]
fn the_forks_json_has_its_fields_and_adds_up() {
    for result in [example(), without_answers(7), without_answers(0)] {
        let text = made(&result, Format::DnsperfJson);
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let header = &lines[0];
        assert_eq!((&header["version"], &header["merged"]), (&20_221_207.into(), &true.into()));
        assert_eq!(header["time_units_per_sec"], 1_000_000);
        let mut expected = None;
        for line in &lines[1..] {
            let buckets = line["answer_latency"].get("buckets").map_or(0, |buckets| {
                buckets.as_array().unwrap().iter().map(|b| b[2].as_u64().unwrap()).sum::<u64>()
            });
            assert_eq!(line["answers"], buckets);
            let since = line["since"].as_u64().unwrap();
            if line["type"] == "stats_periodic" {
                assert_eq!(since, expected.unwrap_or(since), "since is the previous until + 1");
                expected = Some(line["until"].as_u64().unwrap() + 1);
            }
        }
        assert_eq!(lines.last().unwrap()["requests"], result.counts.sent);
    }
}
