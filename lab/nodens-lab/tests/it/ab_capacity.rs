//! `nodens-lab ab --capacity` on echoes whose capacity is known.

use crate::lab;
use serde_json::Value;
use std::path::Path;
use std::process::Output;

const LAB: &str = env!("CARGO_BIN_EXE_nodens-lab");

/// An echo that needs so long for each query, one after the other.
fn echo(service: &str) -> String {
    format!("{LAB} echo --listen 127.0.0.1:{{port}} {service}")
}

/// Short searches of A and B.
fn ab(folder: &Path, [a, b]: [&str; 2], more: &[&str]) -> Output {
    let (a, b) = (echo(a), echo(b));
    let mut all = vec!["ab", "--out", folder.to_str().unwrap(), "--a-cmd", &a, "--b-cmd", &b];
    all.extend([
        "--capacity",
        "p90<10ms,loss<1%",
        "--capacity-probe",
        "200ms",
        "--timeout",
        "300ms",
    ]);
    all.extend([
        "--capacity-probes",
        "14",
        "--capacity-precision",
        "8%",
        "--capacity-floor",
        "500",
    ]);
    all.extend(["--warm-up", "0s", "--noise-pairs", "0", "--no-html"]);
    all.extend(more);
    lab(&all)
}

/// The result; none if the machine is so busy that the generator, and no server, ended both first searches,
/// which must be said.
fn result(folder: &Path, output: &Output) -> Option<Value> {
    let Ok(text) = std::fs::read_to_string(folder.join("result.json")) else {
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(told.contains("capacities cannot be compared"), "{told}");
        return None;
    };
    let result = serde_json::from_str(&text).unwrap();
    assert_eq!(crate::schema::Schema::of("comparison").faults(&result), [""; 0]);
    Some(result)
}

/// Whether the machine was too busy for a verdict; then that must be what is said.
fn is_spoilt(result: &Value) -> bool {
    let spoilt = !result["invalid_because"].as_array().unwrap().is_empty();
    assert!(!spoilt || result["verdict"] == "inconclusive", "{result}");
    spoilt
}

#[test]
fn a_server_that_takes_a_fifth_more_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let sides = ["--service-time 500us", "--service-time 417us"];
    let output = ab(folder.path(), sides, &["--pairs", "6", "--retries", "1", "--ci"]);
    let Some(result) = result(folder.path(), &output) else { return };
    let told = String::from_utf8(output.stdout).unwrap();
    let pair = |pair: u64| -> Vec<&Value> {
        let blocks = result["blocks"].as_array().unwrap().iter();
        blocks.filter(|block| block["pair"] == pair && block["used"] == true).collect()
    };
    for number in 0..6 {
        let pair = pair(number);
        let first = |block: &Value| block["capacity"]["probes"][0].clone();
        assert_eq!(pair.len(), 2, "{result}");
        // The same rate and the same queries to begin with.
        assert_eq!(first(pair[0])["rate"], first(pair[1])["rate"]);
        assert_eq!(first(pair[0])["plan"], first(pair[1])["plan"]);
        let probes = |block: &Value| block["capacity"]["probes"].as_array().unwrap().len();
        assert!(pair.iter().all(|block| probes(block) <= 14), "{result}");
    }
    if is_spoilt(&result) {
        assert_eq!(output.status.code(), Some(2), "{told}");
        return;
    }
    let found = &result["findings"][0];
    assert_eq!((&found["cell"]["metric"], &found["unit"]), (&"capacity".into(), &"qps".into()));
    assert_eq!(found["verdict"], "faster", "{found}");
    let estimate = found["estimate"].as_f64().unwrap();
    assert!((0.1..0.3).contains(&estimate), "{found}");
    let a = found["a"].as_f64().unwrap();
    assert!((1_700.0..2_300.0).contains(&a), "{found}");
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("is better than") && told.contains("capacity at p90<10ms"), "{told}");
    assert!(told.contains("higher"), "{told}");
    let report = std::fs::read_to_string(folder.path().join("report.md")).unwrap();
    assert!(
        report.contains("searches for the highest rate that meets p90<10ms,loss<1%"),
        "{report}"
    );
    let plan = std::fs::read_to_string(folder.path().join("plan.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&plan).unwrap(), result["plan"]);
    assert_eq!(result["plan"]["capacity"]["objective"], "p90<10ms,loss<1%");
}

#[test]
fn answers_that_are_failures_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (echo("--latency 100us"), echo("--rcode 30%:SERVFAIL"));
    let out = folder.path().to_str().unwrap();
    let mut all = vec!["ab", "--out", out, "--a-cmd", &a, "--b-cmd", &b, "--no-html"];
    // Few probes find no limit, which does not matter here.
    all.extend(["--capacity", "p90<1s", "--capacity-probe", "100ms", "--capacity-probes", "2"]);
    all.extend(["--capacity-ceiling", "100k", "--timeout", "300ms", "--warm-up", "0s"]);
    all.extend(["--noise-pairs", "0", "--pairs", "6", "--retries", "0"]);
    let output = lab(&all);
    let Some(result) = result(folder.path(), &output) else { return };
    let notes = result["notes"].as_array().unwrap().iter().filter_map(Value::as_str);
    let told: Vec<_> = notes.filter(|note| note.contains("SERVFAIL")).collect();
    assert_eq!(told.len(), 1, "{}", result["notes"]);
    assert!(told[0].contains("p90<1s: ") && told[0].contains("of B are"), "{told:?}");
}

#[test]
fn two_servers_of_the_same_capacity_are_not_called_different() {
    let folder = tempfile::tempdir().unwrap();
    let sides = ["--service-time 500us"; 2];
    // A margin that the noise of short probes stays within: a difference would be called by chance in
    // one of twenty comparisons otherwise.
    let margin = ["--pairs", "6", "--retries", "1", "--margin", "capacity=40%"];
    let output = ab(folder.path(), sides, &margin);
    let Some(result) = result(folder.path(), &output) else { return };
    if is_spoilt(&result) {
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        return;
    }
    assert_eq!(result["verdict"], "equivalent", "{}", result["findings"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn a_capacity_out_of_reach_is_a_bound_and_no_number() {
    let folder = tempfile::tempdir().unwrap();
    // The echo without a service time takes all that is tried.
    let sides = ["--service-time 1ms", "--latency 1ms"];
    let most = ["--pairs", "6", "--retries", "1", "--capacity-ceiling", "1500"];
    let output = ab(folder.path(), sides, &most);
    let Some(result) = result(folder.path(), &output) else { return };
    let blocks = result["blocks"].as_array().unwrap().iter();
    let of_b = |block: &&Value| block["side"] == "b" && block["used"] == true;
    for block in blocks.filter(of_b) {
        assert_ne!(block["capacity"]["limited_by"], "server", "{block}");
        assert!(block["capacity"]["interval"].is_null(), "{block}");
    }
    if !is_spoilt(&result) {
        let found = &result["findings"][0];
        assert_eq!((&found["b_is_bound"], &found["a_is_bound"]), (&true.into(), &false.into()));
        assert_eq!(found["p_equivalent"], 1.0, "{found}");
        assert_eq!(found["verdict"], "faster", "{found}");
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(
            told.contains("≥ 1.50k/s") && told.contains("the limit was out of reach"),
            "{told}"
        );
    }
    let neither = ab(folder.path(), ["--latency 1ms"; 2], &["--capacity-ceiling", "1000", "--ci"]);
    let told = String::from_utf8(neither.stderr).unwrap();
    assert_eq!(neither.status.code(), Some(4), "{told}");
    assert!(told.contains("capacit") && told.contains("compared"), "{told}");
    let never = ["--capacity", "p90<1us", "--capacity-ceiling", "1000"];
    let (a, b) = (echo("--latency 1ms"), echo("--latency 1ms"));
    let never = lab(&[&["ab", "--a-cmd", &a, "--b-cmd", &b], &never[..]].concat());
    let told = String::from_utf8(never.stderr).unwrap();
    assert_eq!(never.status.code(), Some(1), "{told}");
    // On a machine that is too busy to tell, that is said, and no more is measured.
    let is_told = told.contains("meets p90<1us at 100/s, the lowest rate tried");
    assert!(is_told || told.contains("the first search of"), "{told}");
}

#[test]
fn capacity_and_rates_do_not_go_together() {
    let sides = ["ab", "--a", "127.0.0.1:9", "--b", "127.0.0.1:9", "--capacity", "p99<5ms"];
    for other in [&["--rates", "1k"][..], &["--duet", "--rates", "1k"], &["--primary", "p50"]] {
        let output = lab(&[&sides[..], other].concat());
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains("'--capacity <LIMITS>' cannot be used with"), "{told}");
        assert_eq!(lab(&[&sides[..], other, &["--ci"]].concat()).status.code(), Some(4));
    }
}
