//! DNS over HTTPS on HTTP/3: real handshakes on real sockets, and clients that do not behave. What it
//! shares with DNS over QUIC is tested there.

use super::authority::Authority;
use super::client::{PATIENCE, assert_answered, question};
use super::quic_client::{End, QuicClient, config_of};
use super::server::{Server, eventually};
use super::upstream::{Act, Upstream, gate};
use nodens_net::Options;
use nodens_wire::{Message, Rcode};
use quinn_proto::{ClientConfig, Dir, Side, StreamId, TransportConfig, VarInt, WriteError};
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

const ASKED: &str = "example.org A";
const DATA: u8 = 0;
const HEADERS: u8 = 1;

fn corefile(authority: &Authority, more: &str) -> String {
    let metrics = "prometheus 127.0.0.1:0";
    format!("https3://.:0 {{\n bind 127.0.0.1\n {}\n {metrics}\n {more}\n}}", authority.tls())
}

fn client(authority: &Authority) -> ClientConfig {
    config_of(b"h3", &authority.client(false), TransportConfig::default())
}

fn start(more: &str) -> (Server, ClientConfig) {
    let authority = Authority::new();
    (Server::start(&corefile(&authority, more)), client(&authority))
}

fn number(number: usize) -> Vec<u8> {
    match number {
        0..=63 => vec![number as u8],
        64..=16_383 => vec![0x40 | (number >> 8) as u8, number as u8],
        _ => (0x8000_0000 | number as u32).to_be_bytes().to_vec(),
    }
}

fn frame(kind: u8, content: &[u8]) -> Vec<u8> {
    [number(usize::from(kind)), number(content.len()), content.to_vec()].concat()
}

/// Fields in letters, of names and values that are not coded.
fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = vec![0, 0];
    let mut text = |first: u8, most: usize, text: &str| {
        // Lengths behind a full first octet; none here needs a third.
        match text.len() < most {
            true => block.push(first | text.len() as u8),
            false => {
                let mut rest = text.len() - most;
                block.push(first | most as u8);
                while rest >= 0x80 {
                    block.push(0x80 | (rest & 0x7f) as u8);
                    rest >>= 7;
                }
                block.push(rest as u8);
            }
        }
        block.extend_from_slice(text.as_bytes());
    };
    for (name, value) in fields {
        text(0x20, 7, name);
        text(0, 127, value);
    }
    frame(HEADERS, &block)
}

fn request(method: &str, path: &str) -> Vec<u8> {
    headers(&[
        (":method", method),
        (":scheme", "https"),
        (":authority", "dns.example"),
        (":path", path),
        ("user-agent", "test"),
    ])
}

fn post(text: &str) -> Vec<u8> {
    [request("POST", "/dns-query"), frame(DATA, &question(0, text))].concat()
}

/// A client whose control stream has begun.
fn connect(server: &Server, config: &ClientConfig) -> QuicClient {
    let mut client = QuicClient::connect(server.address(), config);
    assert!(client.send_aside(&[0, 4, 0]).is_some(), "{:?}", client.lost);
    client
}

/// The status of a response and its body, from the frames on its stream.
fn response(octets: &[u8]) -> Option<(u16, Vec<u8>)> {
    let length = |octets: &[u8]| match octets {
        [first, ..] if *first < 64 => Some((usize::from(*first), 1)),
        [first, second, ..] if *first < 128 => {
            Some((usize::from(u16::from_be_bytes([first & 0x3f, *second])), 2))
        }
        [first, rest @ ..] if rest.len() >= 3 => {
            let octets = [first & 0x3f, rest[0], rest[1], rest[2]];
            Some((u32::from_be_bytes(octets) as usize, 4))
        }
        _ => None,
    };
    let (mut status, mut body, mut rest) = (None, Vec::new(), octets);
    while let Some((kind, behind)) = rest.split_first() {
        let (len, taken) = length(behind)?;
        let content = behind.get(taken..taken + len)?;
        rest = &behind[taken + len..];
        match *kind {
            HEADERS => {
                status = Some(match content[2..4] {
                    [0xd9, _] => 200,
                    [0xdb, _] => 404,
                    // Numbers from 63 on have two octets.
                    [0xff, 4] => 400,
                    [0xff, 8] => 500,
                    // By the number of the name, and three digits behind it.
                    _ => {
                        let digits =
                            content.windows(3).find(|text| text.iter().all(u8::is_ascii_digit));
                        std::str::from_utf8(digits?).ok()?.parse().ok()?
                    }
                });
            }
            DATA => body.extend_from_slice(content),
            other => panic!("a frame {other}"),
        }
    }
    Some((status?, body))
}

/// The status and the body on a stream that ends.
fn end(client: &mut QuicClient, id: StreamId) -> (u16, Vec<u8>) {
    let (octets, end) = client.end_of(id);
    assert_eq!(end, Some(End::Finished), "{:?}", client.lost);
    response(&octets).unwrap_or_else(|| panic!("no response: {octets:?}"))
}

fn answer(client: &mut QuicClient, id: StreamId) -> Message {
    let (status, body) = end(client, id);
    assert_eq!(status, 200);
    Message::parse(&body).unwrap()
}

fn ask(client: &mut QuicClient, text: &str) -> Message {
    let id = client.send(&post(text), true).unwrap();
    answer(client, id)
}

/// The number of responses with this status.
fn responses(server: &Server, status: u16) -> u64 {
    let text = server.shared.registry.render();
    let status = format!("status=\"{status}\"");
    let line = text.lines().find(|line| {
        line.starts_with("coredns_dns_https3_responses_total{") && line.contains(&status)
    });
    line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

#[test]
fn requests_are_answered_and_counted() {
    let (server, config) = start("whoami");
    let mut client = connect(&server, &config);
    assert_answered(&ask(&mut client, ASKED));
    let target = "/dns-query?dns=AAABAAABAAAAAAAAB2V4YW1wbGUDb3JnAAABAAE";
    let id = client.send(&request("GET", target), true).unwrap();
    assert_answered(&answer(&mut client, id));
    // One whose end comes later, behind what is of no use.
    let id = client.send(&request("GET", target), false).unwrap();
    client.drive_for(Duration::from_millis(20));
    client.send_more(id, &frame(DATA, &[7; 5000]), true);
    assert_answered(&answer(&mut client, id));
    // More than may be open at once.
    let mut waiting = Vec::new();
    for _ in 0..500 {
        while waiting.len() > 200 {
            assert_answered(&answer(&mut client, waiting.remove(0)));
        }
        let until = Instant::now() + PATIENCE;
        let id = loop {
            match client.send(&post(ASKED), true) {
                Some(id) => break id,
                None => client.turn(),
            }
            assert!(client.lost.is_none() && Instant::now() < until, "no stream is free");
        };
        waiting.push(id);
    }
    for id in waiting {
        assert_answered(&answer(&mut client, id));
    }
    assert_eq!(responses(&server, 200), 503);
    assert_eq!(server.count("nodens_quic_connections"), 1);
    let text = server.shared.registry.render();
    let requests = text.lines().find(|line| line.starts_with("coredns_dns_requests_total{"));
    let requests = requests.unwrap();
    assert!(
        requests.contains("proto=\"udp\"") && requests.contains("server=\"https3://127.0.0.1:0\""),
        "{requests}"
    );
    // Its settings, on a control stream.
    assert_eq!(client.heard_aside(), [0, 4, 5, 6, 0x80, 0, 0x40, 0]);
    client.close();
    eventually("the connection to end", || server.count("nodens_quic_connections") == 0);
    server.stop();
}

#[test]
fn requests_without_a_query_get_a_status_and_the_connection_goes_on() {
    let (server, config) = start("acl {\n drop type TXT\n }\n whoami");
    let mut client = connect(&server, &config);
    let long = "x".repeat(20_000);
    let bomb = headers(&[(":method", "GET"), ("a", &long)]);
    let many: Vec<_> = (0..100).map(|_| ("a", "b")).collect();
    let oversized = format!("/dns-query?dns={}", "A".repeat(6000));
    let cases = [
        (request("GET", "/other"), 404),
        (request("GET", "/dns-query"), 400),
        (request("GET", &oversized), 400),
        (request("DELETE", "/dns-query"), 400),
        (post("example.org TXT"), 500),
        ([request("POST", "/dns-query"), frame(DATA, &[0; 4000])].concat(), 400),
        ([request("POST", "/dns-query"), vec![DATA, 0x80, 0, 0x20, 0]].concat(), 400),
        (bomb[..2000].to_vec(), 431),
        (headers(&many), 431),
    ];
    for (octets, status) in cases {
        let id = client.send(&octets, status != 431).unwrap();
        assert_eq!(end(&mut client, id).0, status);
    }
    assert_answered(&ask(&mut client, ASKED));
    assert_eq!([200, 400, 404, 500].map(|status| responses(&server, status)), [1, 5, 1, 1]);
    assert_eq!(client.lost, None);
    server.stop();
}

#[test]
fn a_client_that_sends_too_much_gets_its_response_first() {
    let (server, config) = start("whoami");
    let mut client = connect(&server, &config);
    // As much as is dropped without a word, and more.
    for (len, is_stopped) in [(60_000, false), (300_000, true)] {
        let head = [request("POST", "/dns-query"), vec![DATA, 0x80, 0x0f, 0xff, 0xff]].concat();
        let id = client.send(&head, false).unwrap();
        let mut sent = 0;
        let began = Instant::now();
        let is_refused = loop {
            let rest = vec![0; 10_000.min(len - sent)];
            match client.connection.send_stream(id).write(&rest) {
                Ok(count) => sent += count,
                Err(WriteError::Stopped(code)) => break Some(code.into_inner()),
                Err(_) => {}
            }
            client.turn();
            if sent == len {
                break None;
            }
            assert!(began.elapsed() < PATIENCE);
        };
        assert_eq!(is_refused, is_stopped.then_some(0x100), "{len} octets");
        if is_stopped {
            _ = client.connection.send_stream(id).reset(VarInt::from_u32(0x10c));
        }
        assert_eq!(end(&mut client, id).0, 400);
    }
    assert_answered(&ask(&mut client, ASKED));
    assert_eq!(client.lost, None);
    server.stop();
}

#[test]
fn a_request_in_pieces_is_answered_and_malformed_ones_are_refused_alone() {
    let (server, config) = start("whoami");
    let mut client = connect(&server, &config);
    let octets = post(ASKED);
    let id = client.send(&octets[..1], false).unwrap();
    for octet in &octets[1..octets.len() - 1] {
        client.turn();
        client.send_more(id, &[*octet], false);
    }
    client.send_more(id, &octets[octets.len() - 1..], true);
    assert_answered(&answer(&mut client, id));
    let cases = [
        // Malformed, not whole, and with a length that is not that of the body.
        (headers(&[(":method", "GET"), ("Upper", "x")]), 0x10e),
        (Vec::new(), 0x10d),
    ];
    for (octets, code) in cases {
        let id = client.send(&octets, true).unwrap();
        assert_eq!(client.end_of(id).1, Some(End::Reset(code)));
    }
    assert_answered(&ask(&mut client, ASKED));
    assert_eq!(client.lost, None);
    server.stop();
}

#[test]
fn what_breaks_the_rules_of_a_connection_ends_it() {
    let (server, config) = start("whoami");
    let push_promise = frame(5, &[0, 0, 0]);
    let on_requests: [(Vec<u8>, u64); 5] = [
        (frame(DATA, b"x"), 0x105),
        (push_promise, 0x105),
        (frame(4, &[]), 0x105),
        (post(ASKED)[..30].to_vec(), 0x106),
        // A field of the dynamic table.
        (frame(HEADERS, &[0, 0, 0x80]), 0x200),
    ];
    for (octets, code) in on_requests {
        let mut client = connect(&server, &config);
        assert_answered(&ask(&mut client, ASKED));
        client.send(&octets, true).unwrap();
        client.drive("the end", |_| false);
        assert_eq!(client.closed_with(), Some(code), "{octets:?}: {:?}", client.lost);
    }
    let aside: [(Vec<u8>, u64); 7] = [
        (vec![0, 7, 1, 0], 0x10a),
        // Settings twice, a push of a client, CANCEL_PUSH, another control stream.
        ([[0, 4, 0], [4, 0, 0]].concat(), 0x105),
        (vec![1, 0], 0x103),
        (vec![0, 4, 0, 3, 1, 0], 0x108),
        (vec![0, 4, 0xbf, 0xff, 0xff, 0xff], 0x107),
        // Instructions for a dynamic table, and about one.
        (vec![2, 0x3f, 0xe1, 0x1f], 0x201),
        (vec![3, 0x80], 0x202),
    ];
    for (octets, code) in aside {
        let mut client = QuicClient::connect(server.address(), &config);
        client.send_aside(&octets).unwrap();
        client.drive("the end", |_| false);
        assert_eq!(client.closed_with(), Some(code), "{octets:?}: {:?}", client.lost);
    }
    let mut client = connect(&server, &config);
    let control = client.send_aside(&[0]).unwrap();
    client.drive("the end", |_| false);
    assert_eq!(client.closed_with(), Some(0x103), "{control} is a second one");
    let mut client = QuicClient::connect(server.address(), &config);
    let control = client.send_aside(&[0, 4, 0]).unwrap();
    assert_answered(&ask(&mut client, ASKED));
    client.send_more(control, &[], true);
    client.drive("the end", |_| false);
    assert_eq!(client.closed_with(), Some(0x104));
    server.stop();
}

#[test]
fn a_client_that_allows_no_control_stream_is_closed() {
    let authority = Authority::new();
    let server = Server::start(&corefile(&authority, "whoami"));
    let mut transport = TransportConfig::default();
    transport.max_concurrent_uni_streams(VarInt::from_u32(0));
    let config = config_of(b"h3", &authority.client(false), transport);
    let mut client = QuicClient::connect(server.address(), &config);
    client.drive("the end", |_| false);
    assert_eq!(client.closed_with(), Some(0x101), "{:?}", client.lost);
    let doq = super::quic_client::config(&authority.client(false), TransportConfig::default());
    assert!(!QuicClient::connect(server.address(), &doq).is_open, "another protocol is spoken");
    server.stop();
}

#[test]
fn streams_frames_and_requests_of_no_use_end_a_connection() {
    let (server, config) = start("whoami");
    // Streams of a type that means nothing: the server takes no more of each.
    let mut client = connect(&server, &config);
    // One that has asked has more time.
    assert_answered(&ask(&mut client, ASKED));
    let mut opened = 0;
    let began = Instant::now();
    while client.lost.is_none() && began.elapsed() < PATIENCE {
        opened += usize::from(client.send_aside(&[0x21, 0]).is_some());
        // A stream that is stopped has to be reset before another may be opened.
        for number in opened.saturating_sub(8)..=opened {
            let id = StreamId::new(Side::Client, Dir::Uni, number as u64);
            let mut stream = client.connection.send_stream(id);
            if stream.stopped().is_ok_and(|code| code.is_some()) {
                _ = stream.reset(VarInt::from_u32(0x103));
            }
        }
        client.turn();
    }
    assert_eq!(client.closed_with(), Some(0x107), "{opened} streams: {:?}", client.lost);
    assert!((64..400).contains(&opened), "{opened}");
    // Frames without a meaning on the control stream.
    let mut client = QuicClient::connect(server.address(), &config);
    client.send_aside(&[&[0, 4, 0][..], &[0x21, 0].repeat(200)].concat()).unwrap();
    client.drive("the end", |_| false);
    assert_eq!(client.closed_with(), Some(0x107), "{:?}", client.lost);
    // Requests that are given up.
    let mut client = connect(&server, &config);
    assert_answered(&ask(&mut client, ASKED));
    let mut given_up = 0;
    let began = Instant::now();
    while client.lost.is_none() && began.elapsed() < PATIENCE {
        if let Some(id) = client.send(&post(ASKED)[..20], false) {
            given_up += 1;
            client.turn();
            _ = client.connection.send_stream(id).reset(VarInt::from_u32(0x10c));
        }
        client.turn();
    }
    assert_eq!(client.closed_with(), Some(0x107), "{given_up} requests: {:?}", client.lost);
    assert!((129..400).contains(&given_up), "{given_up}");
    eventually("all to be given back", || server.count("nodens_tcp_held_bytes") == 0);
    server.stop();
}

#[test]
fn requests_of_one_octet_are_given_up_and_others_answered() {
    let (server, config) = start("timeouts {\n read 1s\n }\n whoami");
    let mut client = connect(&server, &config);
    assert_answered(&ask(&mut client, ASKED));
    let slow: Vec<_> = (0..100).map(|_| client.send(&[1], false).unwrap()).collect();
    assert_answered(&ask(&mut client, ASKED));
    let began = Instant::now();
    for id in slow {
        assert_eq!(client.end_of(id).1, Some(End::Reset(0x10c)));
    }
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_answered(&ask(&mut client, ASKED));
    server.stop();
}

#[test]
fn requests_that_are_not_whole_take_no_more_than_they_may() {
    let (server, config) = start("timeouts {\n read 100s\n idle 100s\n }\n whoami");
    let mut client = connect(&server, &config);
    assert_answered(&ask(&mut client, ASKED));
    // All but the last octet of long fields, on as many streams as there are.
    let long = "x".repeat(3000);
    let begun = headers(&[(":method", "GET"), ("a", &long)]);
    let mut ids = Vec::new();
    for _ in 0..100 {
        ids.push(client.send(&begun[..begun.len() - 1], false).unwrap());
        client.drive_for(Duration::from_millis(5));
    }
    let rejected = |client: &QuicClient| {
        ids.iter().filter(|id| client.has_ended(**id) == Some(End::Reset(0x10b))).count()
    };
    client.drive("some to be refused", |client| rejected(client) > 50);
    assert!(server.count("nodens_tcp_held_bytes") < 250 << 10);
    // Those that are refused may be asked again once there is room.
    for id in ids.iter().take(20) {
        _ = client.connection.send_stream(*id).reset(VarInt::from_u32(0x10c));
    }
    client.drive_for(Duration::from_millis(100));
    assert_answered(&ask(&mut client, ASKED));
    server.stop();
}

#[test]
fn no_more_streams_are_open_than_the_corefile_allows() {
    let (server, config) = start("https3 {\n max_streams 16\n }\n whoami");
    let mut client = connect(&server, &config);
    let open: Vec<_> = (0..17).map(|_| client.send(&[1], false)).collect();
    assert_eq!(open.iter().flatten().count(), 16);
    for id in open.into_iter().flatten() {
        client.send_more(id, &post(ASKED)[1..], true);
        assert_answered(&answer(&mut client, id));
    }
    client.drive_for(Duration::from_millis(50));
    assert_answered(&ask(&mut client, ASKED));
    // Beside the control stream.
    let aside: Vec<_> = (0..8).map(|_| client.send_aside(&[0x40])).collect();
    assert_eq!(aside.iter().flatten().count(), 7);
    server.stop();
}

#[test]
fn no_more_connections_are_open_than_the_corefile_allows() {
    let authority = Authority::new();
    let corefile = corefile(&authority, "https3 {\n max_connections 2\n }\n whoami");
    let zones = nodens_core::config::BuildOptions::default();
    let server = Server::of(1, &corefile, Options::default(), &zones);
    let config = client(&authority);
    let mut clients: Vec<_> = (0..3)
        .map(|_| {
            let mut client = connect(&server, &config);
            assert_answered(&ask(&mut client, ASKED));
            client.drive_for(Duration::from_millis(50));
            client
        })
        .collect();
    // The one that has been idle for longest makes room.
    assert_eq!(server.count("nodens_quic_connections"), 2);
    clients[0].drive("the end", |_| false);
    assert_eq!(clients[0].closed_with(), Some(0x100));
    server.stop();
}

#[test]
fn a_connection_that_asks_nothing_ends_whatever_else_it_says() {
    let (server, config) = start("timeouts {\n idle 1s\n }\n whoami");
    let mut client = QuicClient::connect(server.address(), &config);
    let control = client.send_aside(&[0, 4, 0]).unwrap();
    assert_answered(&ask(&mut client, ASKED));
    let began = Instant::now();
    while client.lost.is_none() {
        assert!(began.elapsed() < Duration::from_secs(10));
        client.send_more(control, &[0x21, 0], false);
        client.drive_for(Duration::from_millis(100));
    }
    assert_eq!(client.closed_with(), Some(0x100), "{:?}", client.lost);
    server.stop();
}

#[test]
fn long_answers_arrive_whole_and_a_client_that_reads_nothing_is_closed_in_time() {
    let upstream = Upstream::start(|asked| vec![Act::Send(asked.long_answer(60_000))]);
    let forward = format!("forward . {} {{\n force_tcp\n }}", upstream.address);
    let authority = Authority::new();
    let times = "timeouts {\n write 1s\n }";
    let server = Server::start(&corefile(&authority, &format!("{forward}\n {times}")));
    let mut whole = connect(&server, &client(&authority));
    let id = whole.send(&post("a.example TXT"), true).unwrap();
    assert!(end(&mut whole, id).1.len() > 59_000);
    let mut small = TransportConfig::default();
    small.receive_window(VarInt::from_u32(3000)).stream_receive_window(VarInt::from_u32(1100));
    let small = config_of(b"h3", &authority.client(false), small);
    let mut client = connect(&server, &small);
    client.reads = false;
    for number in 0..60 {
        _ = client.send(&post(&format!("a{number}.example TXT")), true);
    }
    client.drive("the end", |_| false);
    assert_eq!(client.closed_with(), Some(0x107), "{:?}", client.lost);
    whole.close();
    eventually("all to be given back", || server.count("nodens_quic_connections") == 0);
    server.stop();
}

#[test]
fn a_stop_tells_clients_answers_first_and_closes_then() {
    let (opener, waiter) = gate();
    let upstream =
        Upstream::start(move |asked| vec![Act::WaitFor(waiter.clone()), Act::Send(asked.answer())]);
    let (server, config) = start(&format!("forward . {} {{\n force_tcp\n }}", upstream.address));
    let mut client = connect(&server, &config);
    let id = client.send(&post(ASKED), true).unwrap();
    let part = client.send(&post(ASKED)[..30], false).unwrap();
    let until = Instant::now() + PATIENCE;
    while upstream.count() == 0 && Instant::now() < until {
        client.turn();
    }
    client.drive_for(Duration::from_millis(50));
    let stop = std::thread::spawn(|| server.runtime.shutdown(Duration::from_secs(10)));
    // A request that is not whole is not looked at; nor are those behind the number in GOAWAY.
    assert_eq!(client.end_of(part).1, Some(End::Reset(0x10b)));
    client.drive_for(Duration::from_millis(50));
    assert!(client.heard_aside().ends_with(&[7, 1, 8]), "{:?}", client.heard_aside());
    assert_eq!(client.lost, None);
    opener.store(true, Ordering::Relaxed);
    assert_answered(&answer(&mut client, id));
    client.drive("the end", |_| false);
    assert_eq!(client.closed_with(), Some(0x100));
    stop.join().unwrap();
}

#[test]
fn a_hand_over_answers_first_and_new_connections_go_to_the_successor() {
    let (opener, waiter) = gate();
    let upstream =
        Upstream::start(move |asked| vec![Act::WaitFor(waiter.clone()), Act::Send(asked.answer())]);
    let forward = format!("forward . {} {{\n force_tcp\n }}", upstream.address);
    let (old, config) = start(&forward);
    let address = old.address();
    let mut client = connect(&old, &config);
    let id = client.send(&post(ASKED), true).unwrap();
    let until = Instant::now() + PATIENCE;
    while upstream.count() == 0 && Instant::now() < until {
        client.turn();
    }
    let authority = Authority::new();
    old.runtime.pause().unwrap();
    let options = Options { inherited: old.runtime.export(), paused: true, ..Options::default() };
    let mut heir = Server::with(&corefile(&authority, "whoami"), options);
    assert_eq!(heir.address(), address);
    let kept = old.runtime.bound_listeners();
    let (sender, _connections) = channel();
    heir.runtime.resume().unwrap();
    let leave =
        std::thread::spawn(move || old.runtime.leave(&kept, &sender, Duration::from_secs(10)));
    client.drive_for(Duration::from_millis(100));
    assert_eq!(client.lost, None);
    opener.store(true, Ordering::Relaxed);
    assert_answered(&answer(&mut client, id));
    client.drive("the end", |_| false);
    assert_eq!(client.closed_with(), Some(0x100));
    leave.join().unwrap();
    let mut other = connect(&heir, &super::http3::client(&authority));
    assert_answered(&ask(&mut other, ASKED));
    heir.stop();
}

#[test]
fn a_reload_ends_the_connections_of_a_listener_that_goes() {
    let authority = Authority::new();
    let mut server = Server::start(&corefile(&authority, "whoami"));
    let mut client = connect(&server, &self::client(&authority));
    assert_answered(&ask(&mut client, ASKED));
    server.reload(&corefile(&authority, "erratic {\n drop 0\n }")).unwrap();
    assert_eq!(ask(&mut client, ASKED).answer[0].rdata, [192, 0, 2, 53]);
    server.reload(".:0 {\n bind 127.0.0.1\n whoami\n}").unwrap();
    client.drive("the end", |_| false);
    assert_eq!(client.closed_with(), Some(0x100));
    assert!(client.heard_aside().ends_with(&[7, 1, 8]), "{:?}", client.heard_aside());
    server.stop();
}

#[test]
fn zones_are_not_transferred() {
    let (server, config) = start("transfer {\n to *\n }\n whoami");
    let mut client = connect(&server, &config);
    assert_eq!(ask(&mut client, "example.org AXFR").flags.rcode(), Rcode::REFUSED);
    server.stop();
}
