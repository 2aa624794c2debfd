//! Clients behind proxies that send PROXY protocol headers.

use super::client::{Stream, assert_answered, framed, question, receive, udp_client};
use super::server::{Server, WORKERS, eventually};
use super::upstream::{Act, Upstream, gate};
use nodens_net::Options;
use nodens_wire::Message;
use nodens_wire::proxy::SIGNATURE;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

const CLIENT: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);
const ALL: &str = ".:0 {\n bind 127.0.0.1\n proxyproto\n whoami\n}";

/// A header of version 2 that names `client`.
fn header(family: u8, client: Ipv4Addr, tlvs: &[u8]) -> Vec<u8> {
    let addresses = [client.octets(), [198, 51, 100, 2]].concat();
    of(0x21, family, &[&addresses[..], &[0x12, 0x34, 0, 53], tlvs].concat())
}

fn of(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let len = u16::try_from(rest.len()).unwrap().to_be_bytes();
    [&SIGNATURE[..], &[command, family], &len, rest].concat()
}

fn local() -> Vec<u8> {
    of(0x20, 0, &[])
}

/// Whom the server takes for the client.
fn seen(answer: &Message) -> IpAddr {
    assert_answered(answer);
    let rdata = &answer.additional[0].rdata;
    match <[u8; 4]>::try_from(rdata.as_slice()) {
        Ok(v4) => v4.into(),
        Err(_) => <[u8; 16]>::try_from(rdata.as_slice()).unwrap().into(),
    }
}

fn query() -> Vec<u8> {
    framed(&question(7, "example.org A"))
}

/// What the client of a connection that begins with `octets` is to the server.
fn seen_at(server: &Server, octets: &[u8]) -> IpAddr {
    let mut stream = Stream::connect(server.address());
    stream.0.write_all(&[octets, &query()].concat()).unwrap();
    let first = seen(&stream.receive());
    // The header counts for all queries of the connection.
    assert_eq!(seen(&stream.ask("example.org A")), first);
    first
}

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

#[test]
fn a_connection_is_the_clients_that_its_header_names() {
    let server = Server::start(ALL);
    let line = b"PROXY TCP4 203.0.113.7 198.51.100.2 4660 53\r\n";
    let mut tlvs = vec![0xea, 0x0f, 0xf1];
    tlvs.resize(4084, 7);
    let v6 = [&[0x20, 1, 0xd, 0xb8][..], &[0; 28], &[0x12, 0x34, 0, 53]].concat();
    let cases = [
        (header(0x11, CLIENT, &[]), CLIENT.into()),
        // Of the longest there may be.
        (header(0x11, CLIENT, &tlvs), CLIENT.into()),
        (of(0x21, 0x21, &v6), "2001:db8::".parse().unwrap()),
        (line.to_vec(), CLIENT.into()),
        (local(), LOOPBACK),
        (of(0x20, 0x11, &[1; 40]), LOOPBACK),
        (of(0x21, 0x31, &[b'/'; 216]), LOOPBACK),
        (b"PROXY UNKNOWN\r\n".to_vec(), LOOPBACK),
        (Vec::new(), LOOPBACK),
    ];
    for (octets, client) in cases {
        assert_eq!(seen_at(&server, &octets), client, "{octets:?}");
    }
    assert_eq!(server.count("nodens_tcp_closed_total"), 0);
    server.stop();
}

#[test]
fn a_header_may_come_octet_by_octet_and_costs_no_work_meanwhile() {
    let server = Server::start(ALL);
    for octets in [header(0x11, CLIENT, &[1, 0, 0]), b"PROXY UNKNOWN\r\n".to_vec()] {
        let mut stream = Stream::connect(server.address());
        for octet in &octets {
            stream.0.write_all(&[*octet]).unwrap();
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(stream.is_open());
        stream.0.write_all(&query()).unwrap();
        assert_answered(&stream.receive());
    }
    // Parts of it do not keep a worker busy.
    let mut half = Stream::connect(server.address());
    half.0.write_all(&SIGNATURE[..7]).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let began = || [0, 1, 2, 3].map(|worker| server.runtime.vitals().turn(worker));
    let mut seen = vec![began()];
    for _ in 0..200 {
        std::thread::sleep(Duration::from_millis(1));
        seen.push(began());
    }
    // A busy worker has begun another turn at each look.
    let turns = seen.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(turns < 100, "{turns} turns at 200 looks");
    server.stop();
}

#[test]
fn a_header_that_is_cut_wrong_or_too_long_ends_the_connection() {
    let server = Server::start(ALL);
    let whole = header(0x11, CLIENT, &[]);
    let bad = [
        of(0x22, 0x11, &[0; 12]),
        of(0x11, 0x11, &[0; 12]),
        of(0x21, 0x00, &[]),
        of(0x21, 0x13, &[0; 12]),
        of(0x21, 0x11, &[0; 11]),
        of(0x21, 0x11, &[0; 4097]),
        b"PROXY TCP4 203.0.113.7\r\n".to_vec(),
        [b"PROXY UNKNOWN".as_slice(), &[b' '; 100]].concat(),
    ];
    for octets in &bad {
        let mut stream = Stream::connect(server.address());
        stream.0.write_all(octets).unwrap();
        _ = stream.0.write_all(&query());
        assert!(stream.is_closed(), "{octets:?}");
    }
    for cut in [1, 11, 12, 15, 16, whole.len() - 1] {
        let mut stream = Stream::connect(server.address());
        stream.0.write_all(&whole[..cut]).unwrap();
        std::thread::sleep(Duration::from_millis(10));
        stream.0.shutdown(Shutdown::Write).unwrap();
        let start = Instant::now();
        assert!(stream.is_closed(), "{cut}");
        assert!(start.elapsed() < Duration::from_secs(2), "{cut}");
    }
    assert_eq!(server.count("nodens_tcp_closed_total"), bad.len() as u64 + 6);
    let log = server.log();
    assert!(log.contains("refused: PROXY protocol header: unknown version or command"), "{log}");
    // Not a line for each: one of each worker.
    assert!(log.lines().filter(|line| line.contains("PROXY")).count() <= WORKERS, "{log}");
    server.stop();
}

#[test]
fn a_header_has_the_time_of_the_first_query() {
    let corefile =
        ".:0 {\n bind 127.0.0.1\n timeouts {\n read 1s\n idle 20s\n }\n proxyproto\n whoami\n}";
    let server = Server::start(corefile);
    let start = Instant::now();
    let mut silent = Stream::connect(server.address());
    let mut slow = Stream::connect(server.address());
    slow.0.write_all(&header(0x11, CLIENT, &[])[..20]).unwrap();
    let mut late = Stream::connect(server.address());
    late.0.write_all(&header(0x11, CLIENT, &[])).unwrap();
    for stream in [&mut silent, &mut slow, &mut late] {
        assert!(stream.is_closed());
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(900) && took < Duration::from_secs(5), "{took:?}");
    }
    server.stop();
}

#[test]
fn only_proxies_that_are_allowed_are_believed() {
    let server = |lines: &str| {
        Server::start(&format!(
            ".:0 {{\n bind 127.0.0.1\n proxyproto {{\n {lines}\n }}\n whoami\n}}"
        ))
    };
    let tcp = header(0x11, CLIENT, &[]);
    let udp = [header(0x12, CLIENT, &[]), question(7, "example.org A")].concat();
    let ask = |server: &Server, octets: &[u8]| {
        let socket = udp_client(server.address());
        socket.send(octets).unwrap();
        receive(&socket)
    };
    for (lines, client) in [
        ("allow 127.0.0.0/8", CLIENT.into()),
        ("default use", CLIENT.into()),
        ("allow 192.0.2.0/24", LOOPBACK),
        ("default ignore", LOOPBACK),
    ] {
        let server = server(lines);
        assert_eq!(seen_at(&server, &tcp), client, "{lines}");
        assert_eq!(seen(&ask(&server, &udp)), client, "{lines}");
        server.stop();
    }
    let reject = server("allow 192.0.2.0/24\n default reject");
    for octets in [&tcp, &local()] {
        let mut stream = Stream::connect(reject.address());
        stream.0.write_all(octets).unwrap();
        assert!(stream.is_closed());
    }
    assert_eq!(seen_at(&reject, &[]), LOOPBACK);
    let socket = udp_client(reject.address());
    socket.send(&udp).unwrap();
    socket.send(&question(8, "example.org A")).unwrap();
    assert_eq!(receive(&socket).id, 8);
    assert_eq!(reject.count("nodens_udp_dropped_total"), 1);
    reject.stop();
    // Nothing is looked for, so the signature announces a message of 3,338 octets.
    let skip = server("default skip");
    let mut stream = Stream::connect(skip.address());
    stream.0.write_all(&[&tcp[..], &query(), &[0; 4000]].concat()).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(skip.count("nodens_tcp_closed_total"), 0);
    assert_eq!(seen_at(&skip, &[]), LOOPBACK);
    skip.stop();
}

#[test]
fn a_datagram_is_the_clients_that_its_header_names_and_its_answer_the_proxys() {
    let (release, gate) = gate();
    let upstream = Upstream::start(move |asked| {
        let slow = asked.name().starts_with("slow");
        let wait = slow.then(|| Act::WaitFor(gate.clone()));
        wait.into_iter().chain([Act::Send(asked.answer())]).collect()
    });
    let corefile = format!(
        ".:0 {{\n bind 127.0.0.1\n proxyproto\n log . {{remote}}\n forward . {}\n}}",
        upstream.address
    );
    let server = Server::start(&corefile);
    let sockets: Vec<_> = (1..=20_u16)
        .map(|number| {
            let socket = udp_client(server.address());
            let client = Ipv4Addr::new(203, 0, 113, number as u8);
            let query = question(number, &format!("slow{number}.test A"));
            socket.send(&[header(0x12, client, &[]), query].concat()).unwrap();
            socket
        })
        .collect();
    // One without a header beside them.
    let bare = udp_client(server.address());
    bare.send(&question(99, "slow99.test A")).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    release.store(true, Ordering::SeqCst);
    for (number, socket) in (1..).zip(&sockets) {
        assert_eq!(receive(socket).id, number);
    }
    assert_eq!(receive(&bare).id, 99);
    let log = server.log();
    for number in 1..=20 {
        assert!(log.contains(&format!("203.0.113.{number}")), "{number}: {log}");
    }
    server.stop();
}

#[test]
fn datagrams_with_headers_that_cannot_be_used_are_dropped() {
    let server = Server::start(ALL);
    let socket = udp_client(server.address());
    let query = question(7, "example.org A");
    let bad = [
        header(0x11, CLIENT, &[]),
        of(0x21, 0x32, &[0; 216]),
        of(0x23, 0x12, &[0; 12]),
        of(0x21, 0x12, &[0; 11]),
        b"PROXY TCP4 203.0.113.7 198.51.100.2 4660 53\r\n".to_vec(),
        SIGNATURE.to_vec(),
    ];
    for octets in &bad {
        let whole = if octets.len() < 16 { octets.clone() } else { [&octets[..], &query].concat() };
        socket.send(&whole).unwrap();
    }
    socket.send(&header(0x12, CLIENT, &[])[..27]).unwrap();
    // A header without anything behind it is an empty message.
    socket.send(&header(0x12, CLIENT, &[])).unwrap();
    socket.send(&[local(), question(9, "example.org A")].concat()).unwrap();
    let answer = receive(&socket);
    assert_eq!((answer.id, seen(&answer)), (9, LOOPBACK));
    assert_eq!(server.count("nodens_udp_dropped_total"), bad.len() as u64 + 1);
    server.stop();
}

#[test]
fn a_session_of_datagrams_begins_with_a_header() {
    let corefile =
        ".:0 {\n bind 127.0.0.1\n proxyproto {\n udp_session_tracking 1s\n }\n whoami\n}";
    let mut server = Server::start(corefile);
    let socket = udp_client(server.address());
    let ask = || {
        socket.send(&question(7, "example.org A")).unwrap();
        seen(&receive(&socket))
    };
    assert_eq!(ask(), LOOPBACK);
    socket.send(&header(0x12, CLIENT, &[])).unwrap();
    assert_eq!(ask(), IpAddr::from(CLIENT));
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(ask(), IpAddr::from(CLIENT));
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(ask(), IpAddr::from(CLIENT));
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(ask(), LOOPBACK);
    // A reload can take it away, at the same socket.
    socket.send(&header(0x12, CLIENT, &[])).unwrap();
    assert_eq!(ask(), IpAddr::from(CLIENT));
    server.reload(".:0 {\n bind 127.0.0.1\n whoami\n}").unwrap();
    assert_eq!(ask(), LOOPBACK);
    server.stop();
}

#[test]
fn quotas_are_those_of_the_clients_behind_a_proxy() {
    let options = Options {
        connections_max: Some(100),
        connections_per_client: Some(16),
        ..Options::default()
    };
    let server = Server::with(ALL, options);
    let mut other = Stream::connect(server.address());
    other.0.write_all(&header(0x11, Ipv4Addr::new(203, 0, 113, 99), &[])).unwrap();
    assert_answered(&other.ask("example.org A"));
    // Many clients by one proxy, which alone may have 16.
    let mut streams: Vec<_> = (0..40_u8)
        .map(|number| {
            let mut stream = Stream::connect(server.address());
            let client = Ipv4Addr::new(203, 0, 113, 100 + number / 2);
            stream.0.write_all(&header(0x11, client, &[])).unwrap();
            assert_answered(&stream.ask("example.org A"));
            stream
        })
        .collect();
    assert_eq!(server.count("nodens_tcp_closed_total"), 0);
    // One client with many: its own oldest goes.
    let mut own: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = Stream::connect(server.address());
            stream.0.write_all(&header(0x11, CLIENT, &[])).unwrap();
            assert_answered(&stream.ask("example.org A"));
            std::thread::sleep(Duration::from_millis(5));
            stream
        })
        .collect();
    eventually("old connections to close", || server.count("nodens_tcp_closed_total") >= 4);
    std::thread::sleep(Duration::from_millis(100));
    let (gone, open): (Vec<_>, Vec<_>) = own.iter_mut().partition(|stream| !stream.is_open());
    assert!((4..=12).contains(&gone.len()), "{}", gone.len());
    for stream in open.into_iter().chain(&mut streams).chain([&mut other]) {
        assert_answered(&stream.ask("example.org A"));
    }
    server.stop();
}

#[test]
fn a_connection_by_a_proxy_is_answered_and_ends_with_its_process() {
    let options = || Options::default();
    let old = Server::with(ALL, options());
    let mut named = Stream::connect(old.address());
    named.0.write_all(&[header(0x11, CLIENT, &[]), query()].concat()).unwrap();
    assert_eq!(seen(&named.receive()), IpAddr::from(CLIENT));
    let mut bare = Stream::connect(old.address());
    assert_eq!(seen(&bare.ask("example.org A")), LOOPBACK);
    let mut fresh = Stream::connect(old.address());
    let mut half = Stream::connect(old.address());
    half.0.write_all(&header(0x11, CLIENT, &[])[..20]).unwrap();
    old.wait_for("nodens_tcp_accepted_total", 4);
    std::thread::sleep(Duration::from_millis(50));
    let inherited = old.runtime.export();
    let heir = Server::with(ALL, Options { inherited, paused: true, ..options() });
    let kept = old.runtime.bound_listeners();
    let (sender, connections) = channel();
    old.runtime.pause().unwrap();
    // A query that has arrived is answered by whoever knows the client.
    named.0.write_all(&query()).unwrap();
    let leave =
        std::thread::spawn(move || old.runtime.leave(&kept, &sender, Duration::from_secs(2)));
    let mut adopter = heir.runtime.adopter();
    assert_eq!(connections.iter().map(|connection| adopter.adopt(connection)).count(), 3);
    leave.join().unwrap();
    let mut heir = heir;
    heir.runtime.resume().unwrap();
    assert_eq!(seen(&named.receive()), IpAddr::from(CLIENT));
    assert_eq!(named.0.read(&mut [0]).unwrap(), 0);
    assert_eq!(seen(&bare.ask("example.org A")), LOOPBACK);
    fresh.0.write_all(&[header(0x11, CLIENT, &[]), query()].concat()).unwrap();
    assert_eq!(seen(&fresh.receive()), IpAddr::from(CLIENT));
    half.0.write_all(&[&header(0x11, CLIENT, &[])[20..], &query()].concat()).unwrap();
    assert_eq!(seen(&half.receive()), IpAddr::from(CLIENT));
    heir.stop();
}

#[test]
fn metadata_has_the_tlvs_of_the_header() {
    let corefile = ".:0 {\n bind 127.0.0.1\n metadata\n proxyproto {\n tlv_metadata\n \
                    udp_session_tracking 10s\n }\n log . \"{remote} <{/proxyproto/tlv}> {proto}\"\n whoami\n}";
    let server = Server::start(corefile);
    assert_eq!(seen_at(&server, &header(0x11, CLIENT, &[0xea, 0, 1, 5])), IpAddr::from(CLIENT));
    assert_eq!(seen_at(&server, &[]), LOOPBACK);
    let socket = udp_client(server.address());
    socket.send(&header(0x12, CLIENT, &[0xeb, 0, 1, 6])).unwrap();
    socket.send(&question(1, "example.org A")).unwrap();
    assert_answered(&receive(&socket));
    let bare = udp_client(server.address());
    bare.send(&question(1, "example.org A")).unwrap();
    assert_answered(&receive(&bare));
    let log = server.log();
    let count = |parts: [&str; 3]| {
        log.lines().filter(|line| parts.iter().all(|part| line.contains(part))).count()
    };
    assert_eq!(count(["peer: 203.0.113.7:4660", "transport: Tcp", "[\"ea000105\"]"]), 2, "{log}");
    assert_eq!(count(["peer: 127.0.0.1:", "transport: Tcp", "[\"-\"]"]), 2, "{log}");
    assert_eq!(count(["peer: 203.0.113.7:4660", "transport: Udp", "[\"eb000106\"]"]), 1, "{log}");
    assert_eq!(count(["peer: 127.0.0.1:", "transport: Udp", "[\"-\"]"]), 1, "{log}");
    server.stop();
}

#[test]
fn addresses_of_every_form_are_taken_for_what_they_are() {
    let server = Server::start(".:0 {\n proxyproto {\n allow 127.0.0.1/32 ::1/128\n }\n whoami\n}");
    let port = server.address().port();
    for ip in ["127.0.0.1", "::1"] {
        let mut stream = Stream::connect(SocketAddr::new(ip.parse().unwrap(), port));
        stream.0.write_all(&[header(0x11, CLIENT, &[]), query()].concat()).unwrap();
        assert_eq!(seen(&stream.receive()), IpAddr::from(CLIENT), "{ip}");
        let socket = udp_client(SocketAddr::new(ip.parse().unwrap(), port));
        socket.send(&[header(0x12, CLIENT, &[]), question(1, "example.org A")].concat()).unwrap();
        assert_eq!(seen(&receive(&socket)), IpAddr::from(CLIENT), "{ip}");
    }
    server.stop();
}

/// dnsdist as the proxy, where the machine has it: its health checks are answered, and its clients
/// are who they are.
#[test]
fn dnsdist_names_its_clients() {
    let server =
        Server::start(".:0 {\n bind 127.0.0.1\n proxyproto {\n allow 127.0.0.1/32\n }\n whoami\n}");
    let free = nodens_testkit::free_address();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dnsdist.conf");
    let backend = |options: &str| {
        let address = server.address();
        format!(
            "newServer({{address=\"{address}\", useProxyProtocol=true, checkInterval=1, {options}}})\n"
        )
    };
    let config = format!(
        "setLocal(\"{free}\")\nsetSecurityPollSuffix(\"\")\n{}{}addAction(makeRule(\"tcp.test.\"), PoolAction(\"tcp\"))\n",
        backend("name=\"udp\""),
        backend("name=\"tcp\", tcpOnly=true, pool=\"tcp\""),
    );
    std::fs::write(&file, config).unwrap();
    let mut command = std::process::Command::new("dnsdist");
    command.arg("--supervised").arg("--disable-syslog").arg("-C").arg(&file);
    command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
    let mut dnsdist = match command.stderr(std::process::Stdio::null()).spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return server.stop(),
        Err(error) => panic!("{error}"),
    };
    let client = |name: &str| {
        let socket = std::net::UdpSocket::bind("127.0.0.77:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        socket.send_to(&question(3, &format!("{name} A")), free).unwrap();
        let mut buffer = [0; 512];
        let len = socket.recv(&mut buffer).ok()?;
        Message::parse(&buffer[..len]).ok().filter(|answer| !answer.additional.is_empty())
    };
    for name in ["udp.test", "a.tcp.test"] {
        let mut answer = None;
        eventually("an answer by dnsdist", || {
            answer = client(name);
            answer.is_some()
        });
        assert_eq!(seen(&answer.unwrap()), IpAddr::from([127, 0, 0, 77]), "{name}");
    }
    dnsdist.kill().unwrap();
    dnsdist.wait().unwrap();
    assert_eq!(server.count("nodens_udp_dropped_total"), 0);
    assert_eq!(server.count("nodens_tcp_closed_total"), 0);
    server.stop();
}
