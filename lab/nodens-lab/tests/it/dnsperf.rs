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
/// version, and none of the `-S` lines, whose number is not known.
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
        &["-n", "1", "-p", &echo.port, "-x", "0", "-l", "0", "-S", "0"],
        &["-n", "1", "-v", "-q", "1"],
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

/// A table of losses, options and modes. Neither program's time ends with its last timeout.
#[test]
fn after_losses_time_and_rate_are_those_of_dnsperf() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queries");
    let lines = queries(&file) as f64;
    for (loss, mode, more, least) in [
        ("0%", "udp", &["-n", "2"][..], 0.0),
        ("10%", "udp", &["-n", "2"], 0.0),
        ("10%", "udp", &["-l", "1", "-Q", "200"], 1.0),
        ("10%", "udp", &["-l", "1", "-n", "500", "-Q", "100"], 1.0),
        ("10%", "tcp", &["-n", "2", "-c", "3"], 0.0),
        ("100%", "udp", &["-n", "1", "-Q", "200", "-q", "200"], 0.4),
        ("100%", "udp", &["-l", "1", "-q", "5"], 1.0),
    ] {
        let echo = Echo::with(&["-m", mode, "--loss", loss, "--seed", "3"]);
        // Much longer than the run, so that waiting for it would show on any machine.
        let base = ["-p", &echo.port, "-m", mode, "-t", "3", "-d", file.to_str().unwrap()];
        let arguments: Vec<String> = base.iter().chain(more).map(|a| (*a).to_owned()).collect();
        let most = least + 2.0;
        for program in ["ours", "dnsperf"] {
            let Some(output) = run(program, &arguments) else { continue };
            let text = text(&output);
            let (time, rate) = (number(&text, "Run time (s):"), number(&text, "per second:"));
            assert!((least..most).contains(&time), "{program} {arguments:?}: {text}");
            let completed = number(&text, "Queries completed:");
            assert!((rate - completed / time).abs() <= 0.01 * rate, "{program}: {text}");
            let lost = text.lines().filter(|line| line.starts_with("[Timeout] Query timed out: "));
            assert_eq!(lost.count() as f64, number(&text, "Queries lost:"), "{program}: {text}");
            if more.contains(&"-n") && !more.contains(&"-l") {
                let runs: f64 = more[1].parse().unwrap();
                assert_eq!(number(&text, "Queries sent:"), runs * lines, "{program}");
            }
        }
    }
}

#[test]
fn each_query_has_its_line_with_v_and_each_timeout_without_unless_suppressed() {
    let echo = Echo::with(&["--loss", "20%", "--seed", "5", "--rcode", "20%:NXDOMAIN"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queries");
    queries(&file);
    let base = ["-p", &echo.port, "-d", file.to_str().unwrap(), "-t", "0.5"];
    let lines = |program: &str, more: &[&str]| -> Option<(String, Vec<String>)> {
        let arguments: Vec<String> = base.iter().chain(more).map(|a| (*a).to_owned()).collect();
        let text = text(&run(program, &arguments)?);
        let lines = text.lines().filter(|l| l.starts_with("> ") || l.starts_with("[Timeout]"));
        let lines = lines.map(String::from).collect();
        Some((text, lines))
    };
    for program in ["ours", "dnsperf"] {
        let Some((text, all)) = lines(program, &["-v"]) else { continue };
        let count = |start: &str| all.iter().filter(|line| line.starts_with(start)).count() as f64;
        assert_eq!(all.len(), 100, "{program}");
        assert_eq!(count("> T "), number(&text, "Queries lost:"), "{program}");
        assert_eq!(count("> NXDOMAIN "), number(&text, ", NXDOMAIN"), "{program}");
        let shape = |line: &String| shape(line.rsplit_once(' ').unwrap().0);
        let shapes: std::collections::BTreeSet<_> = all.iter().map(shape).collect();
        let wanted = ["> NOERROR nameN.example A", "> NOERROR nameN.example\tTYPEN"];
        assert!(wanted.iter().all(|line| shapes.contains(*line)), "{program}: {shapes:?}");
        let (text, all) = lines(program, &[]).unwrap();
        assert_eq!(all.len() as f64, number(&text, "Queries lost:"), "{program}");
        let (_, all) = lines(program, &["-O", "suppress=timeouts"]).unwrap();
        assert_eq!(all, [""; 0], "{program}");
    }
}

#[test]
fn zeros_and_local_ports_are_what_they_are_there() {
    let echo = Echo::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queries");
    queries(&file);
    let base = ["-p", &echo.port, "-d", file.to_str().unwrap(), "-n", "1"];
    let run = |program: &str, more: &[&str]| {
        let arguments: Vec<String> = base.iter().chain(more).map(|a| (*a).to_owned()).collect();
        run(program, &arguments)
    };
    for program in ["ours", "dnsperf"] {
        let Some(none_in_time) = run(program, &["-t", "0"]) else { continue };
        assert_eq!(number(&text(&none_in_time), "Queries sent:"), 100.0, "{program}");
        assert_eq!(number(&text(&none_in_time), "Queries lost:"), 100.0, "{program}");
        assert_eq!(number(&text(&run(program, &["-l", "0"]).unwrap()), "sent:"), 100.0);
        let taken = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        let port = taken.local_addr().unwrap().port().to_string();
        let busy = run(program, &["-x", &port]).unwrap();
        assert!(!busy.status.success() && !text(&busy).contains("Statistics:"), "{program}");
        let errors = String::from_utf8_lossy(&busy.stderr).into_owned();
        assert!(errors.contains("Address") && errors.contains("in use"), "{program}: {errors}");
        let beyond = run(program, &["-x", "65535", "-c", "3"]).unwrap();
        assert!(!beyond.status.success(), "{program}");
        let errors = String::from_utf8_lossy(&beyond.stderr).into_owned();
        assert!(errors.contains("out of range"), "{program}: {errors}");
        drop(taken);
        let free = run(program, &["-x", &port]).unwrap();
        assert_eq!(number(&text(&free), "Queries completed:"), 100.0, "{program}");
    }
    let ours = run("ours", &[]).unwrap();
    let errors = String::from_utf8_lossy(&ours.stderr).into_owned();
    assert_eq!(errors.matches("closed loop").count(), 1, "{errors}");
    let ours = run("ours", &["-Q", "1000"]).unwrap();
    assert!(!String::from_utf8_lossy(&ours.stderr).contains("closed loop"));
}
