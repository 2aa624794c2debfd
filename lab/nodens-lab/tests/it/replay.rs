//! `replay` as its users run it.

use crate::{Echo, lab, load};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Milliseconds between two queries.
const GAP: u64 = 10;
const CLIENTS: u8 = 12;

/// A capture of 60 queries, five of each client, 10 ms apart.
fn write_capture(path: &Path) {
    let mut file = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
    file.extend([2, 0, 4, 0]);
    file.extend([0_u32, 0, 65_535, 101].map(u32::to_le_bytes).concat());
    for n in 0..60_u16 {
        let mut query = n.to_be_bytes().to_vec();
        query.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, b'a', 0, 0, 1, 0, 1]);
        let len = 28 + query.len() as u16;
        let mut packet = vec![0x45, 0];
        packet.extend(len.to_be_bytes());
        packet.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 1, 0, 1 + (n % 12) as u8, 10, 9, 0, 53]);
        packet
            .extend([4_000 + n % 12, 53, 8 + query.len() as u16, 0].map(u16::to_be_bytes).concat());
        packet.extend(query);
        let micros = u64::from(n) * GAP * 1_000;
        let times = [1_700_000_000, micros as u32].map(u32::to_le_bytes).concat();
        file.extend(times);
        file.extend([u32::from(len); 2].map(u32::to_le_bytes).concat());
        file.extend(packet);
    }
    std::fs::write(path, file).unwrap();
}

/// The result of a replay with these arguments; it may be INVALID on a busy machine.
fn replay(target: &str, arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("day.pcap");
    write_capture(&path);
    let common = ["replay", path.to_str().unwrap(), "-s", target, "--json", "--no-version"];
    lab(&[&common[..], arguments].concat())
}

#[test]
fn speed_and_loops_are_those_of_the_command_line() {
    let echo = Echo::start();
    let target = format!("127.0.0.1:{}", echo.port);
    let result = load::json(&replay(&target, &["--speed", "2", "--loops", "3"]));
    assert_eq!((result.counts.sent, result.counts.answered), (180, 180));
    // Three times 295 ms, and two gaps.
    let planned = result.plan.duration_ns;
    assert!(planned.abs_diff(895_000_000) < 20_000_000, "{planned}");
}

#[test]
fn whole_clients_are_left_out_and_the_seed_chooses() {
    let echo = Echo::start();
    let target = format!("127.0.0.1:{}", echo.port);
    let sent = |seed| {
        let part = ["--speed", "20", "--clients", "50%", "--seed", seed];
        let result = load::json(&replay(&target, &part));
        (result.counts.sent, result.plan.hash)
    };
    let found = ["1", "2", "1"].map(sent);
    assert!(found.iter().all(|(sent, _)| sent % 5 == 0 && *sent < 60), "{found:?}");
    assert_eq!(found[0], found[2]);
    assert_ne!(found[0].1, found[1].1);
}

#[test]
fn sources_are_kept_apart_at_the_addresses_they_are_given() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let target = server.local_addr().unwrap().to_string();
    let seen = std::thread::spawn(move || {
        let (mut seen, mut room) = (std::collections::BTreeSet::new(), [0; 512]);
        for _ in 0..60 {
            let (len, from) = server.recv_from(&mut room).unwrap();
            room[2] |= 0x80;
            server.send_to(&room[..len], from).unwrap();
            seen.insert(from);
        }
        seen
    });
    replay(&target, &["--speed", "5", "--rewrite", "10.1.0.0/24=127.3.0.0/24"]);
    let seen = seen.join().unwrap();
    assert_eq!(seen.len(), usize::from(CLIENTS), "one port each: {seen:?}");
    let addresses: Vec<_> = seen.iter().map(std::net::SocketAddr::ip).collect();
    let expected = (1..=CLIENTS).map(|n| IpAddr::V4(Ipv4Addr::new(127, 3, 0, n)));
    assert_eq!(addresses, expected.collect::<Vec<_>>());
}

#[test]
fn a_capture_over_udp_is_replayed_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("ca.pem");
    let ca = authority.to_str().unwrap();
    let echo = Echo::with(&["-m", "dot", "--tls-ca-out", ca]);
    let target = format!("127.0.0.1:{}", echo.port);
    let output = replay(&target, &["--speed", "2", "--over", "tls", "--tls-ca", ca]);
    let result = load::json(&output);
    assert_eq!((result.counts.sent, result.counts.answered), (60, 60));
    let transports: Vec<_> =
        result.plan.transports.iter().map(|share| share.transport.clone()).collect();
    assert_eq!(transports, ["dot"]);
}

#[test]
fn the_server_whose_queries_are_replayed_is_chosen_by_its_address() {
    let echo = Echo::start();
    let target = format!("127.0.0.1:{}", echo.port);
    let chosen = ["--speed", "20", "--server", "192.0.2.1", "--server", "10.9.0.53"];
    let result = load::json(&replay(&target, &chosen));
    assert_eq!(result.counts.sent, 60);
    assert!(result.plan.workload.source.ends_with(", queries to 192.0.2.1, 10.9.0.53"));
    let output = replay(&target, &["--server", "192.0.2.1"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("all 60 are to other servers"), "{errors}");
}

#[test]
fn what_makes_no_sense_is_refused_with_the_reason() {
    for (arguments, reason) in [
        (&["--speed", "0"][..], "--speed 0, expected a factor from 0.001"),
        (&["--loops", "0"], "--loops 0, expected at least 1"),
        (&["--clients", "0"], "expected a part of more than 0"),
        (&["--over", "sctp"], "possible values: udp, tcp, tls"),
        (&["--fidelity"], "cannot be used with"),
        (&["--rewrite", "10.0.0.0/8"], "is not a rewriting of addresses"),
        (&["--tls-ca", "a", "--tls-insecure"], "cannot be used with"),
        (&["--over", "tls", "--tls-ca", "/nonexistent"], "/nonexistent"),
    ] {
        let output = replay("127.0.0.1:9", arguments);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && errors.contains(reason), "{arguments:?}: {errors}");
    }
    let output = lab(&["replay", "day.pcap", "--fidelity", "--over", "tls"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("--fidelity needs the receive stamps of datagrams"), "{errors}");
}

/// Waits until `is` holds.
fn wait_until(what: &str, is: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// This needs root, as all namespaces do.
#[test]
fn a_replay_across_namespaces_that_is_killed_leaves_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("day.pcap");
    write_capture(&path);
    let mut command = Command::new(env!("CARGO_BIN_EXE_nodens-lab"));
    command.args(["replay", path.to_str().unwrap(), "--fidelity", "--speed", "0.002"]);
    command.arg("--no-out").stdout(Stdio::null()).stderr(Stdio::null());
    let mut run = command.spawn().unwrap();
    let prefix = format!("nodens-lab-{}-", run.id());
    let namespaces = || {
        let all = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
        all.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix)).count()
    };
    wait_until("there are two namespaces", || namespaces() == 2);
    run.kill().unwrap();
    run.wait().unwrap();
    wait_until("both are gone", || namespaces() == 0);
}
