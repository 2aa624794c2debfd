//! What search lists cost, from names and from recorded traffic.

use crate::lab;
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const CONF: &str = "nameserver 10.100.0.10\n\
    search default.svc.cluster.local svc.cluster.local cluster.local ap-southeast-1.compute.internal\n\
    options ndots:5\n";

/// The names of one lookup of `www.amazon.com`, each asked for with A and AAAA.
const WALK: [&str; 5] = [
    "www.amazon.com.default.svc.cluster.local",
    "www.amazon.com.svc.cluster.local",
    "www.amazon.com.cluster.local",
    "www.amazon.com.ap-southeast-1.compute.internal",
    "www.amazon.com",
];

fn json(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Queries, denied ones and lookups that found something, of a measure.
fn cost(measures: &Value, title: &str) -> [u64; 3] {
    let all = measures.as_array().unwrap();
    let row = all.iter().find(|row| row["measure"] == title).unwrap_or_else(|| panic!("{title}"));
    ["queries", "denied", "found"].map(|field| row[field].as_u64().unwrap())
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn octets(field: u64, value: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
}

/// A message of DNS: a query, or a response with an address or NXDOMAIN.
pub(crate) fn message(id: u16, name: &str, qtype: u8, response: Option<bool>) -> Vec<u8> {
    let mut wire = id.to_be_bytes().to_vec();
    wire.extend(match response {
        None => [1, 0, 0, 1, 0, 0, 0, 0, 0, 0],
        Some(true) => [0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0],
        Some(false) => [0x81, 0x83, 0, 1, 0, 0, 0, 0, 0, 0],
    });
    for label in name.split('.') {
        wire.push(label.len() as u8);
        wire.extend(label.as_bytes());
    }
    wire.extend([0, 0, qtype, 0, 1]);
    if response == Some(true) {
        let len = if qtype == 1 { 4 } else { 16 };
        wire.extend([0xc0, 12, 0, qtype, 0, 1, 0, 0, 0, 60, 0, len]);
        wire.extend(std::iter::repeat_n(1, usize::from(len)));
    }
    wire
}

/// A frame of dnstap: what a server writes about a client's query or its response.
pub(crate) fn frame(at_ms: u64, wire: &[u8]) -> Vec<u8> {
    let is_response = wire[2] & 0x80 != 0;
    let time = |field: u64| {
        let nanos = (at_ms * 1_000_000) as u32;
        [number(field, 1_000), varint((field + 1) << 3 | 5), nanos.to_le_bytes().to_vec()].concat()
    };
    let inner = [
        number(1, if is_response { 6 } else { 5 }),
        number(2, 1),
        number(3, 1),
        octets(4, &[10, 0, 0, 7]),
        number(6, 40_000 + u64::from(wire[1])),
        time(8),
        if is_response { time(12) } else { Vec::new() },
        octets(if is_response { 14 } else { 10 }, wire),
    ];
    let outer = [octets(1, b"server"), octets(14, &inner.concat()), number(15, 1)].concat();
    [&(outer.len() as u32).to_be_bytes()[..], &outer].concat()
}

/// The frames of the lookup, a name each 2 ms.
pub(crate) fn frames() -> Vec<u8> {
    let mut all = Vec::new();
    for (at, name) in WALK.iter().enumerate() {
        for qtype in [1, 28] {
            let (id, time) = (2 * at as u16 + u16::from(qtype == 28), 2 * at as u64);
            all.extend(frame(time, &message(id, name, qtype, None)));
            all.extend(frame(time + 1, &message(id, name, qtype, Some(at == 4))));
        }
    }
    all
}

pub(crate) fn control(kind: u32, with_type: bool) -> Vec<u8> {
    let mut frame = kind.to_be_bytes().to_vec();
    if with_type {
        let content = b"protobuf:dnstap.Dnstap";
        frame.extend([0, 0, 0, 1, 0, 0, 0, content.len() as u8]);
        frame.extend(content);
    }
    [&[0; 4][..], &(frame.len() as u32).to_be_bytes(), &frame].concat()
}

fn write_dnstap(path: &Path) {
    let file = [control(2, true), frames(), control(3, false)].concat();
    std::fs::write(path, file).unwrap();
}

#[test]
fn the_ten_queries_of_one_name_and_what_saves_eight_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let conf = folder.path().join("resolv.conf");
    std::fs::write(&conf, CONF).unwrap();
    let conf = conf.to_str().unwrap();
    let arguments = ["search", "www.amazon.com", "--resolv-conf", conf];
    let result = json(&lab(&[&arguments[..], &["--json"]].concat()));
    let results = result["results"].as_array().unwrap();
    assert_eq!(results.len(), 1, "glibc, musl and Go ask the same");
    let asked: Vec<_> = results[0]["lookups"][0]["asked"].as_array().unwrap().to_vec();
    let names: Vec<_> = asked.iter().map(|asked| asked["name"].as_str().unwrap()).collect();
    assert_eq!(names, WALK.map(|name| format!("{name}.")));
    let measures = &results[0]["measures"];
    assert_eq!(cost(measures, "as it is, ndots:5"), [10, 8, 1]);
    for measure in ["ndots:1", "ndots:2", "a trailing dot", "autopath"] {
        assert_eq!(cost(measures, measure), [2, 0, 1]);
    }
    let timed = ["--time", "1.4ms", "--time", "compute.internal=10ms", "--time", "local=150us"];
    let text = lab(&[&arguments[..], &timed].concat());
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("8 (80.0 %)") && text.contains("1.40 ms to 11.8 ms"), "{text}");
    // A service in another namespace is not found by musl any more if its one dot is enough.
    let exists = folder.path().join("exists");
    std::fs::write(&exists, "db.other.svc.cluster.local\n").unwrap();
    let more = ["--exists", exists.to_str().unwrap(), "--libc", "musl", "--json"];
    let arguments = ["search", "db.other", "--search", "a.svc.cluster.local,svc.cluster.local"];
    let result = json(&lab(&[&arguments[..], &more].concat()));
    let measures = &result["results"][0]["measures"];
    assert_eq!(cost(measures, "as it is, ndots:5"), [4, 2, 1]);
    assert_eq!(cost(measures, "ndots:1"), [2, 2, 0]);
}

#[test]
fn lookups_in_a_capture_are_found_with_the_list_of_their_client() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.fstrm");
    write_dnstap(&path);
    let arguments = ["search", "--capture", path.to_str().unwrap()];
    let result = json(&lab(&[&arguments[..], &["--json"]].concat()));
    assert_eq!((result["queries"].as_u64(), result["lookups"].as_u64()), (Some(10), Some(1)));
    let client = &result["clients"][0];
    assert_eq!(client["address"], "10.0.0.7");
    let search: Vec<_> = client["search"].as_array().unwrap().iter().map(Value::as_str).collect();
    let domains = ["default.svc.cluster.local.", "svc.cluster.local.", "cluster.local."];
    assert_eq!(search[..3], domains.map(Some));
    assert_eq!(search[3], Some("ap-southeast-1.compute.internal."));
    assert_eq!(cost(&result["measures"], "as it is"), [10, 8, 1]);
    assert_eq!(cost(&result["measures"], "a trailing dot"), [2, 0, 1]);
    assert_eq!(result["measures"][0]["mean_wait_ns"]["most"], 5_000_000);
    let text = String::from_utf8(lab(&arguments).stdout).unwrap();
    assert!(text.contains("1 client: default.svc.cluster.local. svc."), "{text}");
    let none = lab(&[&arguments[..], &["--server", "192.0.2.1"]].concat());
    let errors = String::from_utf8(none.stderr).unwrap();
    assert!(errors.contains("messages of other servers than --server"), "{errors}");
    // The same file is a load.
    let echo = crate::Echo::start();
    let load = ["load", "-p", &echo.port, "--original-timing", "--no-version", "--json"];
    let output = lab(&[&load[..], &["-t", "30", "--capture", path.to_str().unwrap()]].concat());
    let result = crate::load::json(&output);
    assert_eq!((result.counts.sent, result.counts.answered), (10, 10));
}

#[test]
fn a_server_that_writes_dnstap_is_listened_to() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("tap.sock");
    let listening = Command::new(env!("CARGO_BIN_EXE_nodens-lab"))
        .args(["search", "--json", "--for", "60s", "--listen", socket.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let patience = Instant::now() + Duration::from_secs(30);
    let connect = || loop {
        match UnixStream::connect(&socket) {
            Ok(stream) => break stream,
            Err(error) => assert!(Instant::now() < patience, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    // One for each server block that writes: all are read at the same time.
    let mut writers = [connect(), connect()];
    for stream in &mut writers {
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(&control(4, true)).unwrap();
        let mut told = vec![0; control(1, true).len()];
        stream.read_exact(&mut told).unwrap();
        assert_eq!(told, control(1, true));
    }
    for (stream, frames) in writers.iter_mut().zip([frames(), Vec::new()]) {
        let sent = [control(2, true), frames, control(3, false)].concat();
        stream.write_all(&sent).unwrap();
    }
    for stream in &mut writers {
        let mut finish = vec![0; 12];
        stream.read_exact(&mut finish).unwrap();
        assert_eq!(finish, control(5, false));
    }
    Command::new("kill").args(["-INT", &listening.id().to_string()]).status().unwrap();
    let result = json(&listening.wait_with_output().unwrap());
    assert_eq!((result["queries"].as_u64(), result["lookups"].as_u64()), (Some(10), Some(1)));
    assert!(!socket.exists(), "the socket goes with the program");
}

#[test]
fn what_cannot_be_worked_out_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, octets: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, octets).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let text = write("text", b"nonsense");
    let other = [&[0; 4][..], &[0, 0, 0, 13], &[0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, b'x']].concat();
    let other = write("other", &other);
    let empty = write("empty", &[control(2, true), control(3, false)].concat());
    let conf = write("resolv.conf", b"search a.example\noptions ndots:five\n");
    let exists = write("exists", b"a.example MAYBE\n");
    let comments = write("comments", b"; none\n");
    for (arguments, reason) in [
        (&[][..], "nothing to look up, expected names, -d FILE, --capture FILE or --listen SOCKET"),
        (&["-d", &comments], "has no name, expected one a line"),
        (&["a", "--resolv-conf", "/nowhere"], "cannot read /nowhere"),
        (
            &["a", "--resolv-conf", &conf],
            "resolv.conf:2:9: `ndots:five`, expected ndots: and a number",
        ),
        (&["a", "--search", "a..b"], "--search: `a..b` is not a domain name"),
        (&["a", "--exists", &exists], "exists:1:1: `a.example MAYBE`, expected a name"),
        (&["10.0.0.1"], "no resolver sends a query for 10.0.0.1, expected domain names"),
        (&["a", "--time", "x..y=1ms"], "`x..y` is not a domain name, expected ZONE=TIME"),
        (&["a", "--time", "fast"], "expected a number and ns, us, ms"),
        (&["a", "--cached-time", "1ms"], "--time"),
        (&["--capture", &text], "not a capture, expected the format pcap, pcapng or dnstap"),
        (
            &["--capture", &other],
            "frame 1 (octet 0): content type `x`, expected `protobuf:dnstap.Dnstap`",
        ),
        (&["--capture", &empty], "has no query for A or AAAA (0 others)"),
        (
            &["--capture", &empty, "--libc", "go,musl"],
            "expected one: a capture is worked out for one",
        ),
        (&["--capture", &empty, "--ndots", "2"], "cannot be used with"),
        (&["--listen", "nonsense"], "expected a path such as ./tap.sock, or ADDRESS:PORT"),
        (&["--listen", &text], "expected a path where nothing is yet"),
    ] {
        let output = lab(&[&["search"][..], arguments].concat());
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && errors.contains(reason), "{arguments:?}: {errors}");
    }
}
