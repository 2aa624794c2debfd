//! What a load must achieve: a search for the rate that does, and requirements at a rate.

use crate::schema::Schema;
use crate::{Echo, lab};
use serde_json::Value;
use std::path::Path;

#[test]
fn a_search_has_a_page_exports_and_a_schema_and_bounds_for_timeouts() {
    let echo = Echo::with(&["--loss", "100%"]);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (file, page, table) = (path("s.json"), path("page.html"), path("s.csv"));
    let export = format!("csv={table}");
    let search = ["load", "-p", &echo.port, "--slo", "p99=1s,loss=0", "--slo-floor", "0.1k"];
    let more = ["--slo-ceiling", "0.1k", "--slo-probe", "200ms", "-t", "200ms"];
    let places = ["-o", &file, "--html", &page, "--export", &export, "--no-version"];
    let output = lab(&[&search[..], &more, &places].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("│ ≥ 200 ms │"), "{text}");
    assert!(text.contains("page.html"), "{text}");
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    assert!(read(&page).contains("≥ 200 ms"));
    assert!(read(&table).lines().nth(1).unwrap().contains(",200000000,true,200000000,true,"));
    let kept = lab_result::search::read(Path::new(&file)).unwrap();
    assert_eq!(kept.probes[0].at_least, ["p50", "p99", "p99.9"]);
    let value: Value = serde_json::from_str(&read(&file)).unwrap();
    assert_eq!(Schema::of("search").faults(&value), [""; 0]);
    let again = lab(&["export", &file, "-f", "csv"]);
    assert_eq!(String::from_utf8(again.stdout).unwrap(), read(&table));
    for arguments in
        [&["export", &file, "-f", "dnsperf"][..], &[&search[..], &["--export", "hgrm=x"]].concat()]
    {
        let output = lab(arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains("only as csv or json"), "{error}");
    }
}

#[test]
fn a_requirement_at_a_rate_has_its_exit_code_and_report() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("junit.xml");
    let report = report.to_str().unwrap();
    let run = |port: &str, require: &str| {
        let load = ["load", "-p", port, "-Q", "300", "-l", "500ms", "-t", "300ms", "--no-out"];
        let output = lab(&[&load[..], &["--require", require, "--junit", report]].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), text, std::fs::read_to_string(report).unwrap())
    };
    let echo = Echo::with(&["--loss", "50%"]);
    let (code, text, junit) = run(&echo.port, "p99<5ms,loss<90%");
    assert!(text.contains("required   p99<5ms: MISSED, p99 ≥ 300 ms"), "{text}");
    assert!(text.contains("required   loss<90%: met, loss "), "{text}");
    // A machine too busy for 300 a second makes the run INVALID, and that comes first.
    let valid = text.contains("VALID: the generator kept");
    assert_eq!(code, Some(if valid { 5 } else { 3 }), "{text}");
    assert_eq!(junit.contains("<failure message=\"p99 ≥ 300 ms\""), valid, "{junit}");
    assert_eq!(junit.contains("<skipped message=\"p99 ≥ 300 ms\""), !valid, "{junit}");
    let (code, text, _) = run(&Echo::start().port, "max<=5s,loss<90%");
    let valid = text.contains("VALID: the generator kept");
    assert_eq!(code, Some(if valid { 0 } else { 3 }), "{text}");
    let error = String::from_utf8(lab(&["load", "--require", "p99>5ms"]).stderr).unwrap();
    assert!(error.contains("expected limits such as p99.9=5ms"), "{error}");
    let error = String::from_utf8(
        lab(&["load", "--require", "loss=0", "--junit", "/nonexistent/x"]).stderr,
    );
    assert!(error.unwrap().contains("/nonexistent is not a directory"));
}

#[test]
fn the_cost_of_the_server_stands_in_the_result_and_counters_that_fail_are_told_before() {
    let echo = Echo::start();
    let pid = echo.child.id().to_string();
    let load = ["load", "-p", &echo.port, "-Q", "500", "-l", "1.2s", "--server-pid", &pid];
    let result = crate::load::json(&lab(&[&load[..], &["--json"]].concat()));
    let cost = result.server_cost.as_ref().unwrap();
    assert_eq!(cost.cpu_per_answer_ns, Some(cost.cpu_ns / result.counts.answered));
    assert!(cost.cpu_ns > 0 && cost.wall_ns >= 1_200_000_000, "{cost:?}");
    assert!(cost.memory_peak >= cost.memory_before && cost.memory_before > Some(100_000));
    let sum = result.seconds.iter().map(|second| second.service.recorded()).sum::<u64>();
    assert_eq!(sum, result.service.recorded());
    for (option, value) in [
        ("--server-pid", "4194304000"),
        ("--server-pid", "0"),
        ("--server-cgroup", "/nonexistent"),
        ("--server-metrics", "ftp://x"),
        ("--server-metrics", "http://127.0.0.1:1/metrics"),
    ] {
        let output = lab(&["load", "-p", &echo.port, "-l", "600", option, value]);
        assert!(
            !output.status.success() && output.stdout.is_empty(),
            "{option} {value}: {output:?}"
        );
    }
}

#[test]
fn a_load_that_asks_nothing_is_no_measurement_and_meets_nothing() {
    let echo = Echo::start();
    let load = ["load", "-p", &echo.port, "--no-out", "--no-version"];
    let output = lab(&[&load[..], &["-n", "0"]].concat());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("the number of queries must be positive"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("junit.xml");
    let more = ["-Q", "1e-300", "-l", "200ms", "--require", "loss<0.1%", "--junit"];
    let output = lab(&[&load[..], &more, &[report.to_str().unwrap()]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("INVALID: no query was sent"), "{text}");
    assert!(text.contains("loss<0.1%: MISSED, loss unknown, no query was sent"), "{text}");
    assert!(std::fs::read_to_string(&report).unwrap().contains("<error message=\"no query was"));
}

#[test]
fn a_rate_beyond_every_machine_is_refused_before_anything_is_made_for_it() {
    let error = |arguments: &[&str]| {
        let output = lab(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    for arguments in [
        &["load", "-Q", "1e300"][..],
        &["load", "-Q", "1e18"],
        &["load", "--steps", "1e300:1s"],
        &["load", "-c", "1000000000000", "--slo", "loss=0"],
    ] {
        let error = error(&[arguments, &["--no-out", "--no-version"]].concat());
        assert!(error.contains("clients need") && error.contains("but there are"), "{error}");
    }
    for arguments in [&["-Q", "1e13"][..], &["-l", "10000h"]] {
        let error = error(&[&["demo"], arguments].concat());
        assert!(error.contains("queries (rate times time)"), "{error}");
    }
    assert!(error(&["demo", "-p", "1000000000000"]).contains("pods, expected 1 to"));
}

#[test]
fn a_report_that_cannot_be_written_costs_no_result_and_replaces_none() {
    let echo = Echo::start();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (file, page) = (path("r.json"), path("r.html"));
    let load = ["load", "-p", &echo.port, "-l", "200ms", "--require", "loss<90%", "-o", &file];
    for twice in [&file, &page] {
        let output = lab(&[&load[..], &["--junit", twice]].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.stdout.is_empty() && error.contains("is named twice"), "{error}");
    }
    // A device that can be opened and takes nothing.
    let output = lab(&[&load[..], &["--junit", "/dev/full"]].concat());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8(output.stderr).unwrap().contains("/dev/full"));
    assert!(lab_result::read(Path::new(&file)).is_ok());
}
