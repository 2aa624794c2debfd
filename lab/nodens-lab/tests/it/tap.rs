//! `tap`: what servers write as dnstap to a socket, as a file that the other commands read.

use crate::lab;
use crate::search::{control, frames};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// A running `tap`.
struct Tap {
    child: Child,
    errors: BufReader<ChildStderr>,
    /// Where it listens.
    place: String,
}

impl Tap {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_nodens-lab"))
            .arg("tap")
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        let place = line.strip_prefix("waiting at ").and_then(|line| line.split(' ').next());
        let place = place.unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { child, errors, place }
    }

    /// Its exit code, and everything that it has said.
    fn ended(mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        self.errors.read_to_string(&mut text).unwrap();
        let Output { status, stdout, .. } = self.child.wait_with_output().unwrap();
        text.push_str(&String::from_utf8(stdout).unwrap());
        (status.code(), text)
    }
}

trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

fn unix(place: &str) -> Box<dyn Stream> {
    let stream = UnixStream::connect(place).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    Box::new(stream)
}

/// Sends READY, and START when that was accepted.
fn begin(stream: &mut dyn Stream) {
    stream.write_all(&control(4, true)).unwrap();
    let mut told = vec![0; control(1, true).len()];
    stream.read_exact(&mut told).unwrap();
    assert_eq!(told, control(1, true));
    stream.write_all(&control(2, true)).unwrap();
}

/// Sends STOP and waits for FINISH.
fn finish(stream: &mut dyn Stream) {
    stream.write_all(&control(3, false)).unwrap();
    let mut told = vec![0; control(5, false).len()];
    stream.read_exact(&mut told).unwrap();
    assert_eq!(told, control(5, false));
}

fn file(frames: &[u8]) -> Vec<u8> {
    [control(2, true), frames.to_vec(), control(3, false)].concat()
}

#[test]
fn what_a_server_writes_is_a_capture_that_other_commands_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (socket, out) = (path("tap.sock"), path("tap.fstrm"));
    // What a killed program left is no obstacle.
    drop(UnixListener::bind(&socket).unwrap());
    let mut tap = Tap::start(&["--listen", &format!("unix:{socket}"), "-o", &out]);
    // Somebody who only looks is not a server that has ended.
    drop(UnixStream::connect(&socket).unwrap());
    let mut line = String::new();
    tap.errors.read_line(&mut line).unwrap();
    assert!(line.starts_with("writer 1: frame 1 (octet 0): not a Frame Stream"), "{line}");
    std::thread::sleep(Duration::from_millis(200));
    let mut stream = unix(&socket);
    begin(&mut stream);
    stream.write_all(&frames()).unwrap();
    finish(&mut stream);
    drop(stream);
    let (code, text) = tap.ended();
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("20 messages of ") && !Path::new(&socket).exists(), "{text}");
    assert!(text.contains("│ client        │      10 │        10 │"), "{text}");
    assert_eq!(std::fs::read(&out).unwrap(), file(&frames()));
    let read = lab(&["search", "--capture", &out, "--json"]);
    let read: serde_json::Value = serde_json::from_slice(&read.stdout).unwrap();
    assert_eq!(read["queries"].as_u64(), Some(10));
    // An echo does not answer as recorded, but is sent all of it.
    let echo = crate::Echo::start();
    let target = format!("127.0.0.1:{}", echo.port);
    let replay = lab(&["replay", &out, "-s", &target, "--no-version", "--json", "-t", "30"]);
    let counts = crate::load::json(&replay).counts;
    assert_eq!((counts.sent, counts.answered), (10, 10));
    let again = lab(&["tap", "--listen", &socket, "-o", &out, "--for", "10ms"]);
    let errors = String::from_utf8(again.stderr).unwrap();
    assert!(errors.contains("is not empty, expected a new or an empty file"), "{errors}");
    assert_eq!(std::fs::read(&out).unwrap(), file(&frames()));
}

#[test]
fn writers_over_tcp_that_break_off_or_say_nothing_leave_the_frames_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("tap.fstrm");
    let tap = Tap::start(&["--listen", "127.0.0.1:0", "-o", out.to_str().unwrap(), "--for", "1h"]);
    let connect = || -> Box<dyn Stream> {
        let stream = TcpStream::connect(&tap.place).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Box::new(stream)
    };
    // Writer 1 never says anything; it is let go in the end.
    let mut silent = connect();
    let frames = frames();
    let first = frames.len() / 2;
    let first = (0..)
        .scan(0, |at, _| {
            let len = u32::from_be_bytes(*frames[*at..].first_chunk().unwrap()) as usize;
            *at += 4 + len;
            Some(*at)
        })
        .find(|at| *at >= first)
        .unwrap();
    let mut good = connect();
    begin(&mut good);
    good.write_all(&frames[..first]).unwrap();
    let mut half = connect();
    begin(&mut half);
    half.write_all(&[0, 0, 0, 99, 1, 2, 3]).unwrap();
    let mut long = connect();
    begin(&mut long);
    long.write_all(&[0xff; 4]).unwrap();
    let mut other = connect();
    other.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    // A writer that expects no answers, with a frame that is no message.
    let mut lone = connect();
    lone.write_all(&[control(2, true), vec![0, 0, 0, 1, 0x0b], control(3, false)].concat())
        .unwrap();
    drop(lone);
    // All of them end but the good one.
    for stream in [&mut silent, &mut half, &mut long, &mut other] {
        let mut rest = Vec::new();
        // What was sent and not read makes it a reset.
        _ = stream.read_to_end(&mut rest);
    }
    good.write_all(&frames[first..]).unwrap();
    finish(&mut good);
    Command::new("kill").args(["-INT", &tap.child.id().to_string()]).status().unwrap();
    let (code, text) = tap.ended();
    assert_eq!(code, Some(0), "{text}");
    for said in [
        "writer 1: frame 1 (octet 0): nothing more came after 0 of 4 octets",
        "writer 3: frame 3 (octet 88): nothing more came after 3 of 99 octets",
        "writer 4: frame 3 (octet 84): a frame of 4294967295 octets, expected at most 262144",
        "writer 5: frame 1 (octet 0): a frame of 1195725856 octets",
        "writer 6: frame 2 (octet 46): ",
        "20 messages of 6 writers",
        "and 5 that cannot be read",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    // A frame that is whole is in the file, also where nobody here can read it.
    let (mut written, broken) = (std::fs::read(&out).unwrap(), [0, 0, 0, 1, 0x0b]);
    let at = written.windows(5).position(|window| window == broken).unwrap();
    written.drain(at..at + 5);
    assert_eq!(written, file(&frames));
}

#[test]
fn what_cannot_be_recorded_is_refused_with_the_reason_and_ends() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("tap.fstrm");
    let out = out.to_str().unwrap();
    let folder = folder.path().to_str().unwrap();
    for (arguments, reason) in [
        (
            ["--listen", "nonsense", "-o", out],
            "expected a path such as ./tap.sock, or ADDRESS:PORT",
        ),
        (["--listen", folder, "-o", out], "expected a path where nothing is yet"),
        (["--listen", "127.0.0.1:0", "-o", folder], "cannot write"),
        (["--listen", "127.0.0.1:0", "-o", "/dev/full"], "cannot write /dev/full: No space left"),
    ] {
        let output = lab(&[&["tap", "--for", "10ms"][..], &arguments].concat());
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains(reason), "{errors}");
        assert!(!errors.contains("panicked"), "{errors}");
    }
    let output = lab(&["tap", "--listen", "127.0.0.1:0", "-o", out, "--for", "10ms"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("no message came, expected a server that writes dnstap"), "{errors}");
}
