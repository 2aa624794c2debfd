//! The program against a socket that serves a report as a server does, or something else.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output};

const REPORT: &str = include_str!("report.json");

/// What the program prints and says while `body` is served at a socket.
fn shown(body: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("top");
    let listener = UnixListener::bind(&path).unwrap();
    let response = format!("HTTP/1.0 200 OK\r\n\r\n{body}");
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 256];
        let len = stream.read(&mut request).unwrap();
        stream.write_all(response.as_bytes()).unwrap();
        String::from_utf8_lossy(&request[..len]).into_owned()
    });
    let output = run(&path);
    assert!(server.join().unwrap().starts_with("GET /debug/dns.json HTTP/1.0\r\n"));
    output
}

fn run(socket: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nodens-top"));
    command.args(["-once", "-socket"]).arg(socket).output().unwrap()
}

fn error(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_report_is_drawn() {
    let output = shown(REPORT);
    assert!(output.status.success(), "{output:?}");
    let screen = String::from_utf8(output.stdout).unwrap();
    for part in ["node-7", "bad.invalid.", "shop/pod-7", "api.test."] {
        assert!(screen.contains(part), "{part} in {screen}");
    }
}

#[test]
fn what_is_no_report_is_refused_and_not_shown() {
    let output = shown("\u{1b}[2Jnothing");
    assert!(error(&output).contains("no report of this version"), "{output:?}");
    assert!(output.stdout.is_empty());
}

#[test]
fn where_no_server_runs_that_is_said() {
    let output = run(Path::new("/nowhere/top"));
    assert!(error(&output).contains("is a server running here with -top?"), "{output:?}");
}
