//! DNS over TLS and over HTTPS against servers and clients that others wrote: dnsdist and kdig, which
//! `cargo xtask peers --tests` installs.

use crate::lab;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A process that is killed with the value.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// dnsdist with one port for DoT and one for DoH, and a certificate of its own making.
struct Dnsdist {
    _process: Process,
    dot: String,
    doh: String,
    certificate: String,
    _folder: tempfile::TempDir,
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn start_dnsdist() -> Dnsdist {
    let folder = tempfile::tempdir().unwrap();
    let made =
        rcgen::generate_simple_self_signed(["localhost".into(), "127.0.0.1".into()]).unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (certificate, key, configuration) =
        (path("cert.pem"), path("key.pem"), path("dnsdist.conf"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    // Another process may take a port between our asking and dnsdist's.
    for _ in 0..5 {
        let (plain, dot, doh) = (free_port(), free_port(), free_port());
        let text = format!(
            "setLocal('127.0.0.1:{plain}')\n\
             addTLSLocal('127.0.0.1:{dot}', '{certificate}', '{key}')\n\
             addDOHLocal('127.0.0.1:{doh}', '{certificate}', '{key}', '/dns-query')\n\
             setSecurityPollSuffix('')\n\
             addAction(AllRule(), RCodeAction(DNSRCode.NXDOMAIN))\n"
        );
        std::fs::write(&configuration, text).unwrap();
        let child = Command::new("dnsdist")
            .args(["--supervised", "--disable-syslog", "-C", &configuration])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("no dnsdist: `cargo xtask peers --tests` installs it");
        let mut process = Process(child);
        let begin = Instant::now();
        let up = |port| TcpStream::connect(("127.0.0.1", port)).is_ok();
        while process.0.try_wait().unwrap().is_none() && begin.elapsed() < Duration::from_secs(60) {
            if up(dot) && up(doh) {
                let (dot, doh) = (dot.to_string(), doh.to_string());
                return Dnsdist { _process: process, dot, doh, certificate, _folder: folder };
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    panic!("dnsdist does not start with {configuration}");
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Every query answered, and what became of the connections.
fn run(arguments: &[&str]) -> Value {
    let all = [&["load", "-l", "0.5", "-t", "20", "-c", "4", "--json", "--no-version"], arguments];
    let result = json(&lab(&all.concat()));
    assert_eq!(result["counts"]["answered"], result["counts"]["sent"], "{arguments:?}: {result:#}");
    assert_eq!(result["rcodes"]["NXDOMAIN"], result["counts"]["sent"], "{arguments:?}");
    assert!(result["counts"]["sent"].as_u64() > Some(30));
    result
}

#[test]
fn dnsdist_answers_over_tls_and_https_and_resumes_sessions() {
    let server = start_dnsdist();
    let trust = ["-Q", "100", "--tls-ca", server.certificate.as_str()];
    let with = |more: &[&str]| run(&[&trust[..], more].concat());
    let dot = with(&["-m", "dot", "-p", &server.dot, "--conn-life", "queries=3"]);
    assert!(dot["connections"]["resumed"].as_u64() > Some(0), "{dot:#}");
    for method in ["get", "post"] {
        let doh = with(&["-m", "doh", "-p", &server.doh, "--doh-method", method]);
        assert_eq!(doh["connection_fates"]["http"]["200"], doh["counts"]["sent"], "{method}");
    }
    let mix = format!("dot:{}=1,doh:{}=1", server.dot, server.doh);
    let mixed = with(&["--mix", &mix]);
    assert_eq!(mixed["by_transport"].as_array().map(Vec::len), Some(2));
    // A path that is none is an HTTP status and a loss, not silence.
    let arguments =
        ["load", "-m", "doh", "-p", &server.doh, "-n", "20", "-l", "0.5", "-t", "20", "--json"];
    let more = ["--doh-path", "/other", "--tls-insecure", "--no-version"];
    let result = json(&lab(&[&arguments[..], &more].concat()));
    assert_eq!(result["counts"]["connection_failed"], 20, "{result:#}");
    assert_eq!(result["connection_fates"]["http"]["404"], 20);
    // No authority signed the certificate: the error comes at once, with the remedy.
    let output = lab(&["load", "-m", "dot", "-p", &server.dot, "-l", "60", "--no-version"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("not trusted") && text.contains("--tls-insecure"), "{text}");
}

/// An echo, where it listens, and its authority.
fn start_echo(arguments: &[&str], authority: &Path) -> (Process, Vec<String>) {
    let child = Command::new(env!("CARGO_BIN_EXE_nodens-lab"))
        .args(["echo", "--listen", "127.0.0.1:0", "--tls-ca-out"])
        .arg(authority)
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut process = Process(child);
    let mut reader = BufReader::new(process.0.stdout.take().unwrap());
    let (mut line, mut hint) = (String::new(), String::new());
    reader.read_line(&mut line).unwrap();
    reader.read_line(&mut hint).unwrap();
    assert!(hint.contains(authority.to_str().unwrap()), "{hint}");
    let ports = line.split(' ').filter_map(|word| word.split_once('/'));
    let ports = ports.filter_map(|(address, _)| address.rsplit_once(':'));
    (process, ports.map(|(_, port)| port.to_owned()).collect())
}

#[test]
fn kdig_trusts_the_echo_that_it_is_told_to_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("authority.pem");
    let (_echo, ports) = start_echo(&["-m", "udp,tcp,dot"], &authority);
    let [udp, tcp, dot] = &ports[..] else { panic!("{ports:?}") };
    assert_eq!(udp, tcp);
    let kdig = |arguments: &[&str]| {
        let output = Command::new("kdig")
            .args(["@127.0.0.1", "+retry=0", "+time=20", "example.org", "A"])
            .args(arguments)
            .output()
            .expect("no kdig: `cargo xtask peers --tests` installs it");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let trust = format!("+tls-ca={}", authority.display());
    let answer = kdig(&["-p", dot, &trust, "+tls-host=localhost"]);
    assert!(answer.contains("TLS session") && answer.contains("NOERROR"), "{answer}");
    let wrong = kdig(&["-p", dot, &trust, "+tls-host=elsewhere.example"]);
    assert!(!wrong.contains("NOERROR"), "{wrong}");
    for transport in ["+tcp", "+notcp"] {
        assert!(kdig(&["-p", udp, transport]).contains("NOERROR"), "{transport}");
    }
}

#[test]
fn an_echo_takes_the_authority_that_it_made_up_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_nodens-lab"))
        .args(["echo", "--listen", "127.0.0.1:0", "-m", "dot"])
        .env("TMPDIR", folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut process = Process(child);
    let mut reader = BufReader::new(process.0.stdout.take().unwrap());
    let (mut line, mut hint) = (String::new(), String::new());
    reader.read_line(&mut line).unwrap();
    reader.read_line(&mut hint).unwrap();
    let path = hint.trim_end().rsplit_once("--tls-ca ").unwrap().1;
    assert!(path.starts_with(folder.path().to_str().unwrap()), "{hint}");
    assert!(std::fs::read_to_string(path).unwrap().contains("BEGIN CERTIFICATE"));
    let pid = process.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    process.0.wait().unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "something was left behind");
}

#[test]
fn an_echo_over_https_does_what_it_is_told_and_a_load_sees_just_that() {
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("ca.pem").to_str().unwrap().to_owned();
    for (mode, method) in [("doh", "get"), ("doh", "post"), ("doh3", "get"), ("doh3", "post")] {
        let mut echo = Command::new(env!("CARGO_BIN_EXE_nodens-lab"))
            .args(["echo", "-m", mode, "-l", "127.0.0.1:0", "--tls-ca-out", &authority])
            .args(["--latency", "20ms", "--loss", "5%", "--rcode", "10%:SERVFAIL", "--seed", "3"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut reader = BufReader::new(echo.stdout.take().unwrap());
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let port = line.split(['/', ':']).nth(1).unwrap().to_owned();
        let result = crate::load::json(&lab(&[
            "load",
            "-m",
            mode,
            "-p",
            &port,
            "--doh-method",
            method,
            "--tls-ca",
            &authority,
            "-Q",
            "250",
            "-l",
            "1",
            "-t",
            "5",
            "-c",
            "4",
            "--no-version",
            "--json",
        ]));
        Command::new("kill").args(["-INT", &echo.id().to_string()]).status().unwrap();
        assert!(echo.wait().unwrap().success());
        let mut report = String::new();
        std::io::Read::read_to_string(&mut reader, &mut report).unwrap();
        let number = |what: &str| -> u64 {
            let rest = report.split(what).nth(1).unwrap_or_else(|| panic!("{what}: {report}"));
            let digits: String =
                rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
            digits.parse().unwrap()
        };
        let counts = &result.counts;
        assert_eq!(counts.answered + counts.timed_out, counts.sent, "{mode} {method}: {counts:?}");
        assert!(counts.timed_out > 0 && counts.answered > 100, "{mode} {method}: {counts:?}");
        assert_eq!(counts.timed_out, number("dropped on purpose"), "{mode} {method}");
        assert_eq!(result.rcodes["SERVFAIL"], number("SERVFAIL"), "{mode} {method}");
        assert!(result.response.min().unwrap() >= 20_000_000, "{mode} {method}");
    }
}

#[test]
fn a_load_over_http_3_on_a_server_without_it_says_so_and_fails() {
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("ca.pem");
    let (_echo, ports) = start_echo(&["-m", "udp,doq"], &authority);
    let [_, doq] = &ports[..] else { panic!("{ports:?}") };
    let run = |mode: &str, port: &str| {
        let trust = ["--tls-ca", authority.to_str().unwrap()];
        let arguments = ["load", "-m", mode, "-p", port, "-l", "0.3", "-n", "20", "--json"];
        let output = lab(&[&arguments[..], &trust].concat());
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, text) = run("doh3", doq);
    assert!(code == Some(1) && text.contains("does not speak HTTP/3 (no ALPN h3)"), "{text}");
    let (code, text) = run("doq", doq);
    assert!(code != Some(1) && !text.contains("does not speak"), "{code:?} {text}");
}

#[test]
fn kdig_gets_an_answer_over_https_from_an_echo() {
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("ca.pem").to_str().unwrap().to_owned();
    let echo =
        crate::Echo::with(&["-m", "doh", "--rcode", "100%:REFUSED", "--tls-ca-out", &authority]);
    for https in ["+https", "+https-get"] {
        let ca = format!("+tls-ca={authority}");
        let output = Command::new("kdig")
            .args(["@127.0.0.1", "-p", &echo.port, https, &ca, "+tls-hostname=localhost"])
            .args(["a.example", "+retry=0", "+time=20"])
            .output()
            .expect("no kdig: `cargo xtask peers --tests` installs it");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("status: REFUSED"), "{https}: {text}");
    }
}
