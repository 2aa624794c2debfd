//! Formats by their content, refused files, and our own exports read back.

use super::*;
use crate::trial::Unit;
use lab_result::ResultFile;
use lab_result::export::{self, Options, export};

const RESULT: &str = include_str!("../../../lab-result/testdata/small.json");

fn parsed(text: &str) -> Result<ReadFile, ReadError> {
    from_octets("f", text.as_bytes(), &Given::default())
}

#[track_caller]
fn close(found: Option<f64>, expected: f64, tolerance: f64) {
    let found = found.unwrap();
    assert!((found / expected - 1.0).abs() <= tolerance, "{found}, expected {expected}");
}

fn own() -> ResultFile {
    lab_result::from_json(std::path::Path::new("r.json"), RESULT.as_bytes()).unwrap()
}

/// A percentile of the whole, made as an analysis makes it.
fn percentile(trial: &Trial, name: &str) -> Option<f64> {
    trial.whole.all(8).into_iter().find(|figure| figure.metric == name).map(|figure| figure.value)
}

#[test]
fn our_own_exports_are_recognised_and_read_back() {
    let own = own();
    let lost = own.loss().unwrap();
    let of = |part: f64| own.response.quantile(part).nanos().unwrap() as f64;
    for (name, format) in export::Format::ALL {
        let options = Options { latency_histogram: true, ..Options::default() };
        let read = parsed(&export(&own, format, options)).unwrap();
        let expected = if name == "json" { "result" } else { name };
        assert_eq!(read.format.to_string(), expected);
        assert_eq!(read.trials.len(), 1, "{name}");
        let trial = &read.trials[0];
        close(trial.figure("loss"), lost, 0.011);
        if name != "hgrm" {
            close(trial.figure("qps"), own.answer_rate(), 0.001);
        }
        match name {
            // Only seconds have percentiles there, and Shotgun's steps are too wide.
            "csv" => assert_eq!((trial.parts.len(), trial.whole.response.as_ref()), (3, None)),
            "shotgun" => {
                assert_eq!(percentile(trial, "p50"), None);
                close(percentile(trial, "p99"), of(0.99), 0.2);
            }
            // dnsperf's buckets are 3 % wide, and its latency counts from sending.
            "dnsperf" | "dnsperf-json" => {
                let service = own.service.quantile(0.9).nanos().unwrap() as f64;
                close(percentile(trial, "p90"), service, 0.035);
                close(trial.figure("mean"), own.service.mean().unwrap(), 0.01);
            }
            _ => close(percentile(trial, "p90"), of(0.9), 0.005),
        }
    }
}

#[test]
fn a_last_second_that_is_not_whole_is_none_of_the_rate() {
    let whole = export(&own(), export::Format::Csv, Options::default());
    let head = whole.lines().next().unwrap().to_owned();
    let names: Vec<&str> = head.split(',').collect();
    let row = |second: u64, answered: u64, is_final: bool| {
        let cell = |name: &&str| match *name {
            "second" => second.to_string(),
            "start_unix" => (1_700_000_000 + second).to_string(),
            "final" => u8::from(is_final).to_string(),
            "sent" | "answered" => answered.to_string(),
            "at_least" => String::new(),
            _ => "0".to_owned(),
        };
        names.iter().map(cell).collect::<Vec<_>>().join(",")
    };
    let qps = |rows: &[(u64, bool)]| {
        let rows = (0..).zip(rows).map(|(second, (answered, done))| row(second, *answered, *done));
        let lines: Vec<String> = std::iter::once(head.clone()).chain(rows).collect();
        let read = parsed(&lines.join("\n")).unwrap();
        assert!(read.assumptions.iter().any(|text| text.contains("may not be a whole one")));
        read.trials[0].figure("qps")
    };
    let mut rows = vec![(1_000, true); 5];
    rows.push((10, true));
    assert_eq!(qps(&rows), Some(1_000.0));
    // Seconds that were not over count neither with their answers nor with their time.
    rows[5] = (10, false);
    assert_eq!(qps(&rows), Some(1_000.0));
    assert_eq!(qps(&[(1_000, true), (0, true), (500, true)]), Some(500.0));
    assert_eq!(qps(&[(10, true)]), Some(10.0));
}

#[test]
fn shotgun_in_finer_steps_has_the_percentiles() {
    let options = Options { shotgun_unit: 10_000, ..Options::default() };
    let read = parsed(&export(&own(), export::Format::Shotgun, options)).unwrap();
    let p50 = own().response.quantile(0.5).nanos().unwrap() as f64;
    close(percentile(&read.trials[0], "p50"), p50, 0.1);
    assert!(read.assumptions.iter().any(|text| text.contains("steps of 10 µs")));
}

const DNSPERF: &str = include_str!("../../tests/data/dnsperf.txt");
const DNSCALC: &str = include_str!("../../tests/data/dnscalc.res");

#[test]
fn the_text_of_dnsperf_is_read_by_the_names_of_its_lines() {
    let read = parsed(DNSPERF).unwrap();
    assert_eq!(read.format, Format::Dnsperf);
    let trial = &read.trials[0];
    assert_eq!(trial.figure("qps"), Some(19_544.836_950));
    assert_eq!(trial.figure("mean"), Some(485_000.0));
    assert_eq!((trial.figure("min"), trial.figure("max")), (Some(12_000.0), Some(14_494_000.0)));
    close(trial.figure("loss"), 15.0 / 19_564.0, 1e-9);
    assert_eq!(trial.parts.len(), 4);
    let window = trial.window.unwrap();
    assert_eq!((window.in_flight, window.timeout_ns), (20.0, 1e9));
    assert_eq!(trial.started_unix_ns, Some(1_795_491_552_000_000_000));
    assert_eq!(trial.labels["server"], "127.0.0.1");
    // With a rate, the loop is not closed; without the option it has 100 in flight.
    let rate = parsed(&DNSPERF.replace("-q 20", "-Q 20")).unwrap();
    assert_eq!((rate.trials[0].window, &*rate.trials[0].labels["max_qps"]), (None, "20"));
    let default = parsed(&DNSPERF.replace("-t 1 -q 20", "")).unwrap();
    assert_eq!(default.trials[0].window.unwrap().in_flight, 100.0);
    assert_eq!(default.trials[0].window.unwrap().timeout_ns, 5e9);
}

#[test]
fn ends_of_output_that_follow_each_other_are_trials() {
    let read = parsed(DNSCALC).unwrap();
    assert_eq!((read.format, read.trials.len()), (Format::Dnscalc, 6));
    let connect: Vec<_> =
        read.trials.iter().map(|trial| trial.figure("connect").is_some()).collect();
    assert_eq!(connect, [true; 6]);
    assert!(read.trials.iter().all(|trial| trial.window.is_none()));
    assert!(
        read.assumptions.iter().any(|text| text.contains("is not known")),
        "{:?}",
        read.assumptions
    );
    let given = Given { window: Some(100.0), ..Given::default() };
    let read = from_octets("f", DNSCALC.as_bytes(), &given).unwrap();
    assert_eq!(read.trials[5].window.unwrap().in_flight, 100.0);
}

#[test]
fn intervals_and_the_histogram_of_perf_tests_belong_to_their_run() {
    let interval = "Interval Statistics:\n\n  Queries sent:         10\n  Queries completed:    9 (90.00%)\n  \
        Queries lost:         1 (10.00%)\n\n  Run time (s):         1.000000\n  Queries per second:   9.000000\n\n  \
        Average Latency (s):  0.000100\n\n";
    let text = DNSPERF.replace("Statistics:\n", &format!("{interval}{interval}Statistics:\n"));
    let read = parsed(&text).unwrap();
    assert_eq!((read.trials.len(), read.trials[0].parts.len()), (1, 6));
    let patched = format!(
        "{DNSPERF}\n  Latency histogram\n#histogram 0 19000\n#histogram 2 500\n#histogram 14 49\n"
    );
    let prefixed: String = patched.lines().map(|line| format!("out | {line}\n")).collect();
    let read = parsed(&prefixed).unwrap();
    let trial = &read.trials[0];
    assert_eq!((percentile(trial, "p50"), trial.whole.step_ns), (None, 1_000_000));
    close(percentile(trial, "p99"), 2.5e6, 0.01);
}

#[test]
fn a_ramp_of_resperf_has_its_throughput_and_no_loop() {
    let read = parsed(include_str!("../../tests/data/resperf.txt")).unwrap();
    assert_eq!(read.format, Format::Resperf);
    assert_eq!(read.trials[0].figure("throughput"), Some(3_750.0));
    assert_eq!((read.trials[0].figure("qps"), read.trials[0].window), (None, None));
    let read = parsed(include_str!("../../tests/data/resperf-plot.txt")).unwrap();
    assert_eq!(read.format, Format::ResperfPlot);
    assert_eq!(read.trials[0].figure("throughput"), Some(3_750.0));
    close(read.trials[0].figure("mean at throughput"), 645_000.0, 1e-9);
    assert!(read.trials[0].parts.is_empty());
}

/// Two seconds of flamethrower and what came after them, twice in one file.
fn flame() -> String {
    let run = [
        r#"{"cmdline":"flame -Q 100","run_id":"a","start_timestamp":"2026-11-21T02:03:04Z","version":"0.12.0"}"#,
        r#"{"period_number":1,"run_id":"a","runtime_s":1.0,"total_s_count":100,"total_r_count":90,"total_timeouts":0,"total_net_errors":0,"total_bad_count":0,"total_qps_r_avg":90.0,"total_response_min_ms":0.5,"total_response_max_ms":9.0,"total_response_avg_ms":2.0,"period_response_avg_ms":2.0,"period_response_max_ms":9.0,"period_timeouts":0,"period_in_flight":10}"#,
        r#"{"period_number":1,"run_id":"a","runtime_s":1.0,"trafgen_id":"1","period_s_count":100,"period_r_count":90}"#,
        r#"{"period_number":2,"run_id":"a","runtime_s":2.0,"total_s_count":200,"total_r_count":100,"total_timeouts":5,"total_net_errors":1,"total_bad_count":0,"total_qps_r_avg":50.0,"total_response_min_ms":0.5,"total_response_max_ms":12.0,"total_response_avg_ms":7.0,"period_response_avg_ms":12.0,"period_response_max_ms":12.0,"period_timeouts":5}"#,
        r#"{"period_number":3,"run_id":"a","runtime_s":4.0,"total_s_count":200,"total_r_count":100,"total_timeouts":99,"total_net_errors":1,"total_bad_count":0,"total_qps_r_avg":50.0,"total_response_min_ms":0.5,"total_response_max_ms":12.0,"total_response_avg_ms":7.0,"period_response_avg_ms":null,"period_timeouts":94}"#,
    ];
    run.join("\n") + "\n" + &run.join("\n")
}

#[test]
fn flamethrowers_mean_of_means_is_weighed_by_answers() {
    let read = parsed(&flame()).unwrap();
    assert_eq!((read.format, read.trials.len()), (Format::Flamethrower, 2));
    let trial = &read.trials[1];
    assert_eq!((trial.line, trial.parts.len()), (6, 2));
    // 90 answers of 2 ms and 10 of 12 ms; the file's own mean of means is 7.
    close(trial.figure("mean"), 3e6, 1e-9);
    close(trial.figure("loss"), 0.5, 1e-9);
    assert_eq!(trial.figure("qps"), Some(50.0));
    assert_eq!(trial.started_unix_ns, Some(1_795_226_584_000_000_000));
    let header = flame().lines().next().unwrap().to_owned();
    let error = parsed(&header).unwrap_err().to_string();
    assert!(error.contains("did not end"), "{error}");
}

#[test]
fn perf_tests_items_are_trials_and_its_ninetieth_percentile_is_the_ninety_fifth() {
    let item =
        r#"{"data":{"perc50":0,"perc90":1,"perc99":4},"unit":"ms","labels":{"max_qps":"500"}}"#;
    let read = parsed(&format!("{{\"version\":\"v1\",\"dataItems\":[{item},{item}]}}")).unwrap();
    assert_eq!((read.format, read.trials.len()), (Format::PerfTests, 2));
    assert_eq!((read.trials[0].figure("p95"), read.trials[0].figure("p90")), (Some(1e6), None));
    assert_eq!(read.trials[0].labels["max_qps"], "500");
    let run = r#"{"code":0,"data":{"ok":true,"qps":99.9,"avg_latency":0.000772,"latency_99_percentile":4.0,
        "queries_sent":1000,"queries_lost":10},"params":{"max_qps":100,"dnsmasq_cpu":null}}"#;
    let read = parsed(run).unwrap();
    let trial = &read.trials[0];
    assert_eq!((trial.figure("p99"), trial.figure("loss")), (Some(4e6), Some(0.01)));
    close(trial.figure("mean"), 772_000.0, 1e-9);
    assert_eq!((trial.labels.len(), &*trial.labels["max_qps"]), (1, "100"));
}

#[test]
fn the_metrics_of_kxdpgun_have_no_latency_and_numbers_as_ids() {
    let text = "{\"type\":\"header\",\"runid\":7,\"schema_version\":20221207,\"generator\":\"kxdpgun\",\
        \"time_units_per_sec\":1000000000}\n\
        {\"type\":\"stats_sum\",\"runid\":7,\"since\":1000000000,\"until\":3000000000,\"queries\":100,\
        \"responses\":98,\"response_rcodes\":{\"NOERROR\":98}}\n";
    let read = parsed(text).unwrap();
    assert_eq!(read.format, Format::DnsMetrics);
    assert_eq!((read.trials[0].figure("qps"), read.trials[0].figure("mean")), (Some(49.0), None));
    let cut = text.lines().next().unwrap();
    assert_eq!(
        parsed(cut).unwrap_err().to_string(),
        "f:1: the run of line 1 has no object of the type `stats_sum`, expected before here"
    );
}

#[test]
fn a_table_has_units_labels_and_runs_of_readings() {
    let text = "# from a page\ngroup,run,qps,mean [ms],loss [%],cpu [m],note,window,timeout [s]\n\
        a,1,100,3,0.03,280,x,100,5\na,1,300,5,0.01,290,x,100,5\nb,2,7,2.50,,1,y,,\n";
    let read = parsed(text).unwrap();
    assert_eq!((read.format, read.trials.len()), (Format::Table, 2));
    let trial = &read.trials[0];
    assert_eq!((trial.figure("qps"), trial.figure("mean")), (Some(200.0), Some(4e6)));
    assert_eq!((trial.parts.len(), &*trial.labels["note"]), (2, "x"));
    close(
        trial.parts[0].figures.iter().find(|f| f.metric == "loss").map(|f| f.value),
        0.0003,
        1e-9,
    );
    let window = trial.window.unwrap();
    assert_eq!((window.in_flight, window.timeout_ns, window.precision_ns), (100.0, 5e9, 1e6));
    assert_eq!((read.trials[1].window, read.trials[1].figure("loss")), (None, None));
}

#[test]
fn what_cannot_be_read_is_refused_with_its_line_and_what_was_expected() {
    let table = "group,qps\na,1\n";
    let cases = [
        (String::new(), "f:1: empty, expected a result of a load generator"),
        ("hello\n".into(), "f:1: `hello` begins no format, expected one of dnsperf, dnscalc"),
        ("\n{\"a\":1}".into(), "f:2: JSON with the fields `a` is no known format"),
        ("{\"a\":".into(), "f:1: EOF while parsing"),
        ("{\"kind\":\"search\",\"schema\":1}".into(), "the kind `search` has no trials"),
        (
            DNSPERF.lines().take(14).collect::<Vec<_>>().join("\n"),
            "f:1: output of dnsperf or resperf without `Queries sent:`",
        ),
        (
            DNSPERF.lines().take(18).collect::<Vec<_>>().join("\n"),
            "the statistics that begin in line 16 have no `Queries per second:`, expected before here",
        ),
        (
            DNSPERF.replace("19549 (", "many ("),
            "f:17: `Queries completed`: `many` is no count, expected digits",
        ),
        (
            DNSPERF.replace("19564", "99999999999999999"),
            "f:16: `Queries sent` is 99999999999999999, expected at most 1000000000000",
        ),
        (format!("{table}b\n"), "f:3: 1 cells, expected 2 as in line 1"),
        (format!("{table}b,x\n").replace("qps", "qps [1/s]"), "f:1: no trial"),
        ("# time target_qps\n 1 2 3\n".into(), "f:2: no `responses_per_sec`, expected 8 columns"),
    ];
    for (text, expected) in cases {
        match parsed(&text) {
            Err(error) => assert!(error.to_string().contains(expected), "{error}\n{expected}"),
            // A column with a word in it is a label: such a table has trials without values.
            Ok(read) => assert_eq!(read.trials[1].whole.figures.len(), 0, "{expected}"),
        }
    }
    let octets = [DNSPERF.as_bytes(), b"\n\xff\n"].concat();
    let error = from_octets("f", &octets, &Given::default()).unwrap_err().to_string();
    assert!(error.ends_with(": not text in UTF-8"), "{error}");
}

#[test]
fn a_format_that_was_asked_for_is_not_guessed() {
    let given = Given { format: Some(Format::Table), ..Given::default() };
    let error = from_octets("f", DNSPERF.as_bytes(), &given).unwrap_err().to_string();
    assert!(error.starts_with("f:"), "{error}");
    assert_eq!("dnscalc".parse(), Ok(Format::Dnscalc));
    assert!("x".parse::<Format>().unwrap_err().to_string().contains("expected one of dnsperf"));
}

/// The end of dnsperf's output where nothing was answered.
pub(crate) const UNANSWERED: &str = "DNS Performance Testing Tool\nVersion 2.14.0\n\n\
    [Status] Command line: dnsperf -s 127.0.0.1 -d q -l 2 -t 1 -q 20\n[Status] Sending queries (to 127.0.0.1:53)\n\
    [Status] Testing complete (time limit)\n\nStatistics:\n\n  Queries sent:         40\n  \
    Queries completed:    0 (0.00%)\n  Queries lost:         40 (100.00%)\n\n  \
    Average packet size:  request 31, response 0\n  Run time (s):         3.001000\n  \
    Queries per second:   0.000000\n\n  Average Latency (s):  0.000000 (min 0.000000, max 0.000000)\n";

#[test]
fn a_run_without_an_answer_has_no_latency() {
    let run = |latency: &str| {
        format!(
            r#"{{"data":{{"ok":true,"queries_sent":40,"queries_lost":40,{latency}}},"params":{{"dns":"x"}}}}"#
        )
    };
    let item = r#"{"dataItems":[{"data":{"avg_latency":0,"max_latency":0,"perc50":0},"unit":"ms","labels":{}}]}"#;
    let metrics = [
        r#"{"type":"header","runid":"x","time_units_per_sec":1000000000,"timeout":5}"#,
        r#"{"type":"stats_sum","runid":"x","since":0,"until":1,"queries":40,"responses":0,"timeouts":40,"response_latency":{"avg":0,"min":0,"max":0,"buckets":[]}}"#,
    ];
    let flame = r#"{"run_id":"1","total_s_count":40,"total_r_count":0,"total_timeouts":40,"total_qps_r_avg":0.0,"total_response_min_ms":0.0,"total_response_max_ms":0.0}"#;
    let with_rate = r#""qps":0,"avg_latency":0,"stddev_latency":0,"latency_50_percentile":0"#;
    for text in [
        UNANSWERED.to_owned(),
        run(with_rate),
        run(r#""avg_latency":0.0"#),
        item.to_owned(),
        metrics.join("\n"),
        flame.to_owned(),
    ] {
        let read = parsed(&text).unwrap();
        let trial = &read.trials[0];
        let times = trial.whole.all(8).into_iter().filter(|figure| figure.unit == Unit::Time);
        assert_eq!(times.count(), 0, "{text}");
        assert_eq!(trial.warnings, ["no query was answered: it has no latency"], "{text}");
    }
    let trial = &parsed(UNANSWERED).unwrap().trials[0];
    assert_eq!((trial.figure("qps"), trial.figure("loss")), (Some(0.0), Some(1.0)));
    assert_eq!(parsed(DNSPERF).unwrap().trials[0].warnings, [""; 0]);
}
