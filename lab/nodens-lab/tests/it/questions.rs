//! Where `nodens-lab load` takes its queries from.

use crate::load::json;
use crate::{Echo, lab};
use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A query for `name`, a label of five octets, and type A.
fn query(name: &str) -> Vec<u8> {
    let question = [b"\x05", name.as_bytes(), b"\0\0\x01\0\x01"].concat();
    [&b"\0\0\x01\0\0\x01\0\0\0\0\0\0"[..], &question].concat()
}

/// A capture of raw IP packets: UDP queries to port 53 at the given milliseconds, then half a packet.
fn write_capture(path: &Path, times: &[u32]) {
    let mut file =
        vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0];
    file.extend(101_u32.to_le_bytes());
    for time in times {
        let query = query("names");
        let len = 28 + query.len() as u16;
        let mut packet = vec![0x45, 0];
        packet.extend(len.to_be_bytes());
        packet.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 53, 0x9c, 0x40, 0, 53]);
        packet.extend((len - 20).to_be_bytes());
        packet.extend([0, 0]);
        packet.extend(query);
        let octets = u32::from(len).to_le_bytes();
        file.extend([(time / 1_000).to_le_bytes(), (time % 1_000 * 1_000).to_le_bytes()].concat());
        file.extend([octets, octets].concat());
        file.extend(packet);
    }
    file.extend([7; 9]);
    std::fs::write(path, file).unwrap();
}

#[test]
fn a_capture_is_replayed_at_its_own_times() {
    let echo = Echo::start();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("questions.pcap");
    write_capture(&path, &[5_000, 5_100, 9_000, 9_100, 9_200]);
    let file = path.to_str().unwrap();
    let timed = ["load", "-p", &echo.port, "--capture", file, "--original-timing", "--speed", "2"];
    let output = lab(&[&timed[..], &["-t", "30", "--no-version", "--json"]].concat());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = format!("{file}: packet 6: the file ends inside it");
    assert!(errors.contains(&expected) && errors.contains("5 queries in 6 packets"), "{errors}");
    let result = json(&output);
    assert_eq!((result.counts.sent, result.counts.answered), (5, 5));
    let sent: Vec<_> = result.seconds.iter().take(3).map(|second| second.sent).collect();
    assert_eq!(sent, [2, 0, 3], "two at once, the others two seconds later at double speed");
    let output = lab(&[&timed[..], &["--strict"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&expected));
}

#[test]
fn one_client_of_a_capture_has_ids_for_all_queries() {
    let echo = Echo::start();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("questions.pcap");
    write_capture(&path, &[0; 20]);
    let file = path.to_str().unwrap();
    // Every ID rests for six seconds, so a client whose IDs are a 32nd of all finds none soon.
    let load = ["load", "-p", &echo.port, "--capture", file, "-Q", "1500", "-l", "1.5"];
    let result = json(&lab(&[&load[..], &["--no-version", "--json"]].concat()));
    assert!(result.counts.sent > 1_000, "{:?}", result.counts);
    assert_eq!(result.counts.skipped, 0, "{:?}", result.counts);
}

#[test]
fn a_client_of_a_capture_that_asks_more_than_one_socket_has_ids_for_gets_several() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port().to_string();
    let clients = std::thread::spawn(move || {
        let (mut clients, mut question) = (BTreeSet::new(), [0; 512]);
        for _ in 0..200 {
            let (len, client) = server.recv_from(&mut question).unwrap();
            question[2] |= 0x80;
            server.send_to(&question[..len], client).unwrap();
            clients.insert(client);
        }
        clients.len()
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("questions.pcap");
    write_capture(&path, &[0; 20]);
    // 2,000 a second, given up after 600 s, may all be in flight: half of the 65,536 IDs of 37 sockets.
    let load = ["load", "-p", &port, "--capture", path.to_str().unwrap(), "-t", "600"];
    let more = ["-Q", "2000", "-n", "200", "--no-version", "--json"];
    let result = json(&lab(&[&load[..], &more].concat()));
    assert_eq!((result.counts.answered, result.counts.skipped), (200, 0));
    assert_eq!(clients.join().unwrap(), 37);
}

#[test]
fn each_rate_of_a_search_gives_clients_of_a_capture_their_sockets() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port().to_string();
    let over = Arc::new(AtomicBool::new(false));
    let is_over = over.clone();
    server.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let clients = std::thread::spawn(move || {
        let (mut clients, mut question) = (BTreeSet::new(), [0; 512]);
        while !is_over.load(Ordering::Relaxed) {
            let Ok((len, client)) = server.recv_from(&mut question) else { continue };
            question[2] |= 0x80;
            server.send_to(&question[..len], client).unwrap();
            clients.insert(client);
        }
        clients.len()
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("questions.pcap");
    write_capture(&path, &[0; 20]);
    // 3,000 a second, given up after 600 s: half of the 65,536 IDs of 55 sockets. A probe's queries
    // all fit into the server's buffer, since none may be lost.
    let load = ["load", "-p", &port, "--capture", path.to_str().unwrap(), "-t", "600", "--slo"];
    let search = ["loss=0", "--slo-floor", "3000", "--slo-ceiling", "3000"];
    let more = ["--slo-probe", "50ms", "--no-version", "--json"];
    lab(&[&load[..], &search, &more].concat());
    over.store(true, Ordering::Relaxed);
    // A probe may be taken again, from other ports. At 1,000 a second it takes 19 sockets, twice 38.
    let clients = clients.join().unwrap();
    assert!(clients >= 55, "{clients}");
}

#[test]
fn queries_are_made_or_refused_with_the_reason() {
    let echo = Echo::start();
    let folder = tempfile::tempdir().unwrap();
    let names = folder.path().join("names");
    std::fs::write(&names, "one.example\ntwo.example MX\n").unwrap();
    let names = names.to_str().unwrap();
    let load = |arguments: &[&str]| {
        let fixed =
            ["load", "-p", &echo.port, "-Q", "200", "-l", "0.5", "-t", "30", "--no-version"];
        lab(&[&fixed[..], &["--json"], arguments].concat())
    };
    for (arguments, questions) in [
        (&["--template", "{seq}.{hex:4}.example"][..], None),
        (
            &["-d", names, "--qtype", "A=1,AAAA=1", "-e", "--nsid", "--ecs", "10.0.0.0/8,24"],
            Some(2),
        ),
        (&["-d", names, "--hit-rate", "0.5", "--cookie", "-E", "65001:00ff"], None),
        (&["-w", "unique", "--suffix", "test."], None),
        (&["-w", "zipf", "--count", "50", "--qtype", "A,AAAA,HTTPS"], Some(150)),
        (&["-d", names, "--search", "a.example,b.example", "--libc", "musl"], Some(12)),
    ] {
        let result = json(&load(arguments));
        assert!(result.counts.sent > 50 && result.counts.answered == result.counts.sent);
        assert_eq!(result.plan.workload.questions, questions, "{arguments:?}");
        assert_eq!(result.plan.hash, json(&load(arguments)).plan.hash, "{arguments:?}");
    }
    for (arguments, reason) in [
        (
            &["--template", "{nope}.example"][..],
            "template, column 1: `nope` is not a template field",
        ),
        (&["--template", "{zipf:/nowhere}"], "cannot read /nowhere"),
        (&["--qtype", "A=1,B=2"], "`B` is not a record type"),
        (&["--hit-rate", "2"], "expected percent or a number from 0 to 1"),
        (&["-E", "10:zz"], "expected CODE:HEX"),
        (&["--ecs", "10.0.0.0"], "expected ADDRESS/BITS"),
        (&["-y", "nope:key:c2VjcmV0"], "`nope` is not a TSIG algorithm"),
        (&["--warm-up", "--template", "{seq}", "--count", "0"], "--count 0"),
        (&["-w", "unique", "--warm-up"], "--warm-up needs queries that repeat"),
        (&["--capture", names, "--original-timing", "--slo", "loss=0"], "cannot be used with"),
        (&["--capture", names], "expected the format pcap, pcapng or dnstap"),
        (
            &["-u", "-d", names, "--strict"],
            "names:2:1: `two.example` is not a command of an update",
        ),
        (&["-B", "-d", names, "--strict"], "names: octet 0: message of 28526 octets"),
        (&["--search", "a.example"], "--search needs -d or --template"),
        (&["--suffix", "a."], "--suffix has no effect on the cluster mix"),
        (&["-d", names, "--suffix", "a."], "--suffix has no effect on the queries of a file"),
        (
            &["-w", "unique", "--count", "5"],
            "--count has no effect on names that are all different",
        ),
        (&["--template", "{seq}", "--count", "5"], "--count has no effect on a template"),
        (&["--qtype", "AAAA"], "--qtype has no effect on the cluster mix"),
        (&["-w", "unique", "--hit-rate", "0.5"], "--hit-rate has no effect on names that are all"),
        (&["--capture", names, "-D"], "--dnssec has no effect on the queries of a capture"),
        (
            &["-B", "-d", names, "--ecs", "10.0.0.0/8"],
            "--ecs has no effect on the queries of a file",
        ),
        (&["-B", "-d", names, "--search", "a."], "cannot be used with"),
        (&["-m", "tcp", "--kernel-stamps"], "--kernel-stamps has no effect on tcp, expected -m"),
        (&["-m", "dot", "--doh-path", "/x"], "--doh-path has no effect on dot"),
    ] {
        let output = load(arguments);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && errors.contains(reason), "{arguments:?}: {errors}");
    }
}
