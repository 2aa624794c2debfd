//! `nodens-lab dnsperf` beside dnsperf itself.

use crate::{Echo, lab};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Writes a query file with comments and an empty line and returns how many queries it has.
fn queries(path: &Path) -> usize {
    let names = (0..50).map(|n| format!("name{n}.example A\nname{n}.example\tTYPE28\n"));
    let text = format!("; comment\n\n{}", names.collect::<String>());
    std::fs::write(path, text).unwrap();
    100
}

/// The program with dnsperf's arguments behind its own, or dnsperf; `None` if it is not installed.
fn run(program: &str, arguments: &[String]) -> Option<Output> {
    let mut command = match program {
        "dnsperf" => Command::new("dnsperf"),
        _ => {
            let mut command = Command::new(env!("CARGO_BIN_EXE_nodens-lab"));
            command.arg("dnsperf");
            command
        }
    };
    command.args(arguments).output().ok()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A line without its numbers; dates and command lines differ.
fn shape(line: &str) -> String {
    for known in ["[Status] Command line: ", "[Status] Started at: "] {
        if line.starts_with(known) {
            return known.to_owned();
        }
    }
    let mut shape = String::new();
    for c in line.chars() {
        match c {
            '0'..='9' if shape.ends_with('N') => {}
            '0'..='9' => shape.push('N'),
            _ => shape.push(c),
        }
    }
    shape
}

/// The lines up to the connections, which dnsperf 2.14 calls by other names than Debian's; not the
/// version, and none of the `-S` lines, of which nobody knows how many there are.
fn shapes(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.starts_with("Version "));
    let lines = lines.filter(|line| !line.starts_with(|c: char| c.is_ascii_digit()));
    lines.take_while(|line| *line != "Connection Statistics:").map(shape).collect()
}

/// The number behind `what`.
fn number(text: &str, what: &str) -> f64 {
    let line = text.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{text}"));
    let behind = line.split(what).nth(1).unwrap().trim();
    behind.split([' ', ',']).next().unwrap().parse().unwrap()
}

#[test]
fn the_same_command_prints_the_same_lines_as_dnsperf() {
    let echo = Echo::with(&["-m", "udp,tcp"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queries");
    let lines = queries(&file);
    let base = ["-s", "127.0.0.1", "-p", &echo.port, "-d", file.to_str().unwrap()];
    for more in [
        &["-n", "2"][..],
        &["-n", "1", "-l", "20"],
        &["-l1", "-c4", "-T2", "-q20"],
        &["-n", "1", "-e"],
        &["-n1", "-D", "-E", "65001:00ff"],
        &["-l", "1.5", "-S", "1", "-Q", "100"],
        &["-n", "3", "-m", "tcp", "-c", "3"],
    ] {
        let arguments: Vec<String> = base.iter().chain(more).map(|a| (*a).to_owned()).collect();
        let ours = run("ours", &arguments).unwrap();
        assert!(ours.status.success(), "{ours:?}");
        let ours = text(&ours);
        if let Some(runs) = more.iter().position(|argument| *argument == "-n") {
            let runs: f64 = more[runs + 1].parse().unwrap();
            assert_eq!(number(&ours, "Queries sent:"), runs * lines as f64, "{more:?}");
        }
        assert!(ours.ends_with("\n\n") && !ours.contains("nan"), "{ours}");
        let Some(theirs) = run("dnsperf", &arguments) else { continue };
        let theirs = text(&theirs);
        assert_eq!(shapes(&ours), shapes(&theirs), "{more:?}");
        for octets in ["request", "response"] {
            assert_eq!(number(&ours, octets), number(&theirs, octets), "{more:?}");
        }
        let connections = "Connection Statistics:";
        assert_eq!(ours.contains(connections), theirs.contains(connections));
    }
}

#[test]
fn intervals_are_printed_while_it_runs_in_both_forms() {
    let echo = Echo::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queries");
    queries(&file);
    let base =
        ["dnsperf", "-p", &echo.port, "-d", file.to_str().unwrap(), "-Q", "100", "-l", "2.5"];
    let plain = text(&lab(&[&base[..], &["-S", "1"]].concat()));
    let lines: Vec<_> = plain.lines().map(shape).filter(|line| line == "N.N: N.N").collect();
    assert!(!lines.is_empty(), "{plain}");
    let verbose = ["-S", "1", "-O", "verbose-interval-stats", "-O", "latency-histogram"];
    let verbose = text(&lab(&[&base[..], &verbose].concat()));
    let blocks: Vec<_> = verbose.split("Interval Statistics:\n").collect();
    assert!(blocks.len() > 1, "{verbose}");
    assert!(blocks[1].contains("  Queries sent:         "), "{verbose}");
    assert!(!blocks[1].contains("(min "), "an interval has no extremes");
    assert!(verbose.contains("  Latency bucket (s):   answer count\n"));
    assert!(blocks.last().unwrap().contains("\nStatistics:\n"));
}

#[test]
fn its_json_is_an_object_per_line_and_the_result_file_is_ours() {
    let echo = Echo::start();
    let folder = tempfile::tempdir().unwrap();
    let (file, result) = (folder.path().join("queries"), folder.path().join("r.json"));
    queries(&file);
    let keep = format!("result={}", result.display());
    let arguments = [
        "dnsperf",
        "-p",
        &echo.port,
        "-d",
        file.to_str().unwrap(),
        "-n",
        "3",
        "-O",
        "json",
        "-O",
        &keep,
    ];
    let output = lab(&arguments);
    let lines: Vec<Value> =
        text(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["type"], "header");
    assert_eq!(lines.last().unwrap()["requests"], 300);
    assert_eq!(lab_result::read(&result).unwrap().counts.sent, 300);
}

#[test]
fn nothing_to_send_and_nobody_to_answer_are_told_and_have_no_nan() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queries");
    std::fs::write(&file, "; nothing\n").unwrap();
    let empty = lab(&["dnsperf", "-d", file.to_str().unwrap()]);
    assert!(!empty.status.success());
    assert!(String::from_utf8_lossy(&empty.stderr).contains("the input has no query"));
    std::fs::write(&file, "a.example A\nbroken..name A\nb.example A\n").unwrap();
    let port = crate::load::closed_port();
    let dead = lab(&["dnsperf", "-p", &port, "-d", file.to_str().unwrap(), "-t", "0.5", "-W"]);
    let text = text(&dead);
    assert!(text.contains("Warning: invalid input: 2:"), "{text}");
    assert_eq!(number(&text, "Queries lost:"), 2.0);
    assert!(text.contains("\n  Response codes:       \n") && !text.contains("nan"), "{text}");
    let wrong = lab(&["dnsperf", "-Z"]);
    assert_eq!(wrong.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(errors.contains("invalid option -- 'Z'\nUsage: dnsperf "), "{errors}");
    assert!(lab(&["dnsperf", "-h"]).status.success());
}

#[test]
fn called_by_dnsperfs_name_it_is_dnsperf_and_ctrl_c_ends_it_with_its_numbers() {
    let echo = Echo::start();
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("queries"), folder.path().join("dnsperf"));
    queries(&file);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_nodens-lab"), &link).unwrap();
    let child = Command::new(&link)
        .args(["-p", &echo.port, "-d", file.to_str().unwrap(), "-l", "600", "-Q", "100", "-S", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut child = child;
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    // The first interval says that the run is on.
    let mut seen = String::new();
    while !seen.lines().any(|line| shape(line) == "N.N: N.N") {
        assert!(std::io::BufRead::read_line(&mut out, &mut seen).unwrap() > 0, "{seen}");
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    std::io::Read::read_to_string(&mut out, &mut seen).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(seen.contains("[Status] Testing complete (interruption)\n\nStatistics:"), "{seen}");
    assert!(number(&seen, "Queries completed:") > 0.0);
}
