//! Rates, schedules, sources, and the search for the highest rate.

use crate::load::json;
use crate::{Echo, lab};
use std::path::Path;

#[test]
fn rates_change_as_told_and_clients_grow_with_what_they_need() {
    let echo = Echo::start();
    let load =
        |arguments: &[&str]| lab(&[&["load", "-p", &echo.port, "--json"], arguments].concat());
    let result = json(&load(&["--steps", "100:500ms,900:500ms", "--arrivals", "uniform"]));
    assert_eq!(result.counts.sent, 500);
    let result = json(&load(&["--ramp", "0:1000", "-l", "0.6", "--arrivals", "uniform"]));
    assert_eq!(result.counts.sent, 300);
    // The silence behind a burst is a part of the rate.
    let burst = ["--arrivals", "on-off:200ms/1800ms", "-Q", "100", "-l", "2"];
    let result = json(&load(&burst));
    let rate = result.answer_rate();
    assert_eq!(result.counts.answered, result.counts.sent);
    assert!((rate - result.counts.sent as f64 / 2.0).abs() < 1.0, "{rate}");
    assert!(result.run.elapsed_ns >= 2_000_000_000, "{:?}", result.run);
    // 40,000 a second for 60 seconds take 2.4 million IDs.
    let result =
        json(&load(&["-Q", "40000", "-t", "60", "-n", "100", "--source", "127.0.0.5-127.0.0.9"]));
    assert_eq!(result.counts.answered, 100);
    for (arguments, reason) in [
        (["--steps", "100"], "expected RATE:TIME"),
        (["--ramp", "5"], "expected RATE:RATE"),
        (["--arrivals", "often"], "expected uniform, poisson"),
        (["--source", "here"], "`here` is not a source address"),
    ] {
        let errors = String::from_utf8(load(&arguments).stderr).unwrap();
        assert!(errors.contains(reason), "{errors}");
    }
}

#[test]
fn a_search_says_what_it_tried_and_what_it_ran_into() {
    let echo = Echo::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("search.json");
    let file = file.to_str().unwrap();
    let arguments = [
        "load",
        "-p",
        &echo.port,
        "--slo",
        "p50=5s,loss=100%",
        "--slo-floor",
        "100",
        "--slo-ceiling",
        "400",
        "--slo-probe",
        "300ms",
        "-o",
        file,
    ];
    let output = lab(&arguments);
    let text = String::from_utf8(output.stdout).unwrap();
    let heading = text.lines().next().unwrap();
    let plan = "100/s to 400/s poisson for p50=5s,loss=100%, probes of 300";
    assert!(heading.contains(plan) && !heading.contains("1,000"), "{heading}");
    let search = lab_result::search::read(Path::new(file)).unwrap();
    assert_eq!(search.searches.len(), 1);
    assert!(search.probes.iter().all(|probe| probe.sent > 0 && probe.rate <= 400.0), "{text}");
    // On a machine that is too busy to send 400 a second, it must say just that.
    if search.probes.iter().all(|probe| probe.said == "met") {
        assert_eq!((search.median, search.limited_by.as_deref()), (Some(400.0), Some("ceiling")));
        assert!(text.contains("is met up to at least 400 QPS"), "{text}");
        assert_eq!(output.status.code(), Some(0));
    } else {
        assert!(search.probes.iter().all(|probe| probe.said != "missed"), "{text}");
    }
    assert!(text.contains("p50=5s,loss=100%") && text.contains("search.json"), "{text}");
}

#[test]
fn a_search_for_what_a_server_never_does_ends_at_the_floor() {
    let echo = Echo::with(&["--loss", "100%"]);
    let output = lab(&[
        "load",
        "-p",
        &echo.port,
        "--slo",
        "loss=0",
        "--slo-floor",
        "50",
        "--slo-probe",
        "200ms",
        "-t",
        "0.2",
        "--json",
        "--no-version",
    ]);
    let search = lab_result::search::from_json(Path::new("stdout"), &output.stdout).unwrap();
    assert_eq!(search.median, Some(0.0));
    assert!(search.probes.last().unwrap().rate == 50.0 && search.probes.len() >= 6);
    assert!(search.probes.iter().all(|probe| probe.said != "met"));
    assert_ne!(output.status.code(), Some(0));
    let output = lab(&["load", "-p", &crate::load::closed_port(), "--slo", "loss=0", "--json"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let errors = lab(&["load", "--slo", "p99=fast"]).stderr;
    assert!(String::from_utf8(errors).unwrap().contains("expected limits such as p99.9=5ms"));
}

#[test]
fn generators_are_measured_by_what_the_echo_saw() {
    let folder = tempfile::tempdir().unwrap();
    let docs = folder.path().join("lab.md");
    std::fs::write(&docs, "<!-- bench-lab: begin -->\n<!-- bench-lab: end -->\n").unwrap();
    let docs = docs.to_str().unwrap();
    let output =
        lab(&["bench-lab", "--no-veth", "-r", "1", "-l", "1", "-Q", "500", "--docs", docs]);
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}{errors}");
    let written = std::fs::read_to_string(docs).unwrap();
    let rows: Vec<&str> =
        written.lines().filter(|line| line.starts_with("| nodens-lab |")).collect();
    let cells = |row: &str| row.matches(" | ").count();
    assert_eq!(rows.iter().map(|row| cells(row)).collect::<Vec<_>>(), [3, 7], "{written}{errors}");
    assert!(rows.iter().all(|row| !row.contains('–')), "{written}");
    assert!(written.contains("nodens-lab --idle sleep") && text.contains("kxdpgun is left out"));
}
