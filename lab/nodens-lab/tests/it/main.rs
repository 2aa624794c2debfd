//! The program as its users run it.

mod ab;
mod ab_capacity;
mod ab_restarted;
mod analyse;
mod capacity;
mod compare;
mod dnsperf;
mod encrypted;
mod limits;
mod load;
mod pace;
mod questions;
mod replay;
mod schema;
mod search;
mod signed;
mod swap;
mod tap;
mod truth;
mod tune;
mod typed;
mod workers;
mod zones;

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nodens-lab")).args(arguments).output().unwrap()
}

/// An echo on a free port, killed with the value.
struct Echo {
    child: Child,
    port: String,
}

impl Echo {
    fn start() -> Self {
        Self::with(&[])
    }

    fn with(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_nodens-lab"))
            .args(["echo", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.split(['/', ':']).nth(1).unwrap().to_owned();
        Self { child, port }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn an_echo_says_what_it_injected_and_a_load_sees_just_that() {
    let echo = Command::new(env!("CARGO_BIN_EXE_nodens-lab"))
        .args(["echo", "--listen", "127.0.0.1:0", "--latency", "95%:2ms,5%:30ms"])
        .args(["--loss", "2%", "--rcode", "10%:SERVFAIL", "--truncate", "5%", "--duplicate", "3%"])
        .args(["--arrivals", "--seed", "7"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut echo = echo;
    let mut reader = BufReader::new(echo.stdout.take().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let port = line.split(['/', ':']).nth(1).unwrap().to_owned();
    let arguments = ["load", "-p", &port, "-Q", "250", "-l", "1", "-t", "5"];
    // The query for the version would be one more that the echo counts.
    let result = load::json(&lab(&[&arguments[..], &["--no-version", "--json"]].concat()));
    Command::new("kill").args(["-INT", &echo.id().to_string()]).status().unwrap();
    assert!(echo.wait().unwrap().success());
    let mut report = String::new();
    std::io::Read::read_to_string(&mut reader, &mut report).unwrap();
    let number = |what: &str| -> u64 {
        let rest = report.split(what).nth(1).unwrap_or_else(|| panic!("{what}: {report}"));
        let digits: String = rest.trim_start().chars().take_while(|c| c.is_ascii_digit()).collect();
        digits.parse().unwrap()
    };
    let counts = &result.counts;
    assert_eq!(counts.timed_out, number("dropped on purpose"));
    assert_eq!(counts.truncated, number("answered with TC"));
    assert_eq!(counts.duplicate, number("answered twice"));
    assert_eq!(result.rcodes["SERVFAIL"], number("SERVFAIL"));
    assert!(report.contains("as drawn") && report.contains("arrivals: "), "{report}");
    assert!(result.response.min().unwrap() >= 2_000_000);
}

#[test]
fn an_injection_that_makes_no_sense_is_refused_with_the_reason() {
    for (arguments, reason) in [
        (["--latency", "99%:1ms,2%:5ms"], "add up to 101"),
        (["--latency", "fast"], "expected a number and ns, us, ms"),
        (["--loss", "5"], "expected percent"),
        (["--rcode", "1%:BOGUS"], "expected PART:RCODE"),
        (["--freeze", "at=1s"], "expected for=TIME"),
    ] {
        let output = lab(&[&["echo"][..], &arguments].concat());
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && errors.contains(reason), "{errors}");
    }
}

#[test]
fn a_benchmark_names_what_is_missing_and_writes_its_numbers() {
    let out = std::env::temp_dir().join(format!("nodens-lab-bench-{}", std::process::id()));
    let folder = out.to_str().unwrap();
    let arguments = [
        "bench",
        "--servers",
        "echo,nodens",
        "--cells",
        "hits,latency,tcp-100",
        "--nodens",
        "/nonexistent",
        "-r",
        "1",
        // Long enough for some answers, whatever else the machine does.
        "-l",
        "2",
        "--retries",
        "0",
        "-Q",
        "1000",
        "-o",
        folder,
    ];
    let output = lab(&arguments);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("nodens is missing: get it with"), "{text}");
    let markdown = std::fs::read_to_string(out.join("bench.md")).unwrap();
    assert!(markdown.contains("| echo |") && markdown.contains("nodens is missing"), "{markdown}");
    let numbers: Value =
        serde_json::from_str(&std::fs::read_to_string(out.join("bench.json")).unwrap()).unwrap();
    let samples = numbers["samples"].as_array().unwrap();
    assert_eq!(samples.len(), 3);
    assert!(samples.iter().all(|s| s["answered"].as_u64() > Some(0) && s["server"] == "echo"));
    std::fs::remove_dir_all(&out).unwrap();
}
