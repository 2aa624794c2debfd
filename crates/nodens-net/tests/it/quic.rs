//! DNS over QUIC: real handshakes on real sockets, and clients that do not behave.

mod places;

use super::authority::Authority;
use super::client::{PATIENCE, assert_answered, framed, question};
use super::quic_client::{End, QuicClient, config};
use super::server::{Server, eventually};
use super::tls::said;
use super::transfer::Endpoints;
use super::upstream::{Act, Upstream, gate};
use nodens_core::config::BuildOptions;
use nodens_net::Options;
use nodens_wire::{Message, Opcode, Rcode, Type};
use quinn_proto::{ClientConfig, TransportConfig, VarInt};
use std::collections::HashSet;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const ASKED: &str = "example.org A";

fn corefile(authority: &Authority, more: &str) -> String {
    let metrics = "prometheus 127.0.0.1:0";
    format!("quic://.:0 {{\n bind 127.0.0.1\n {}\n {metrics}\n {more}\n}}", authority.tls())
}

fn client(authority: &Authority) -> ClientConfig {
    config(&authority.client(false), TransportConfig::default())
}

fn start(more: &str) -> (Server, ClientConfig) {
    let authority = Authority::new();
    (Server::start(&corefile(&authority, more)), client(&authority))
}

/// With a zone to transfer.
fn start_with(more: &str, zone: &Arc<Endpoints>) -> (Server, ClientConfig) {
    let authority = Authority::new();
    let corefile = corefile(&authority, more);
    let server = Server::with_zones(&corefile, Options::default(), &zone.options());
    (server, client(&authority))
}

/// One worker, so that all connections are of it.
fn start_one(more: &str, options: Options) -> (Server, ClientConfig) {
    let authority = Authority::new();
    let corefile = corefile(&authority, more);
    let zones = nodens_core::config::BuildOptions::default();
    (Server::of(1, &corefile, options, &zones), client(&authority))
}

fn query() -> Vec<u8> {
    framed(&question(0, ASKED))
}

/// The metric with this code.
fn responses(server: &Server, status: &str) -> u64 {
    let text = server.shared.registry.render();
    let line = text.lines().find(|line| {
        line.starts_with("coredns_dns_quic_responses_total{") && line.contains(status)
    });
    line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

#[test]
fn queries_on_streams_are_answered_and_counted() {
    let (server, config) = start("whoami");
    let mut client = QuicClient::connect(server.address(), &config);
    let first = client.ask(ASKED).unwrap();
    assert_answered(&first);
    assert_eq!(first.id, 0);
    // More than may be open at once, and more than may wait for the client to take them.
    let mut waiting = Vec::new();
    for _ in 0..1000 {
        while waiting.len() > 200 {
            assert_answered(&client.response(waiting.remove(0)).unwrap());
        }
        // The server allows more once it has heard that its responses arrived.
        let until = Instant::now() + PATIENCE;
        let id = loop {
            match client.send(&query(), true) {
                Some(id) => break id,
                None => client.turn(),
            }
            assert!(client.lost.is_none() && Instant::now() < until, "no stream is free");
        };
        waiting.push(id);
    }
    for id in waiting {
        assert_answered(&client.response(id).unwrap());
    }
    assert_eq!(responses(&server, "0x0"), 1001);
    assert_eq!(server.count("nodens_quic_connections"), 1);
    let text = server.shared.registry.render();
    let requests = text.lines().find(|line| line.starts_with("coredns_dns_requests_total{"));
    let requests = requests.unwrap();
    assert!(
        requests.contains("proto=\"udp\"") && requests.contains("server=\"quic://127.0.0.1:0\""),
        "{requests}"
    );
    client.close();
    eventually("the connection to end", || server.count("nodens_quic_connections") == 0);
    server.stop();
}

#[test]
fn a_session_is_resumed_but_nothing_is_taken_before_the_handshake_is_over() {
    let (server, config) = start("whoami");
    let mut client = QuicClient::connect(server.address(), &config);
    assert_answered(&client.ask(ASKED).unwrap());
    client.drive_for(Duration::from_millis(50));
    client.close();
    // A ticket that allows early data would have it there.
    let mut again = QuicClient::new(server.address(), &config);
    assert!(!again.connection.has_0rtt());
    again.drive("the handshake", |client| client.is_open);
    assert_answered(&again.ask(ASKED).unwrap());
    server.stop();
}

#[test]
fn a_query_in_pieces_and_one_without_an_end_are_answered() {
    let (server, config) = start("whoami");
    let mut client = QuicClient::connect(server.address(), &config);
    let query = query();
    let id = client.send(&query[..1], false).unwrap();
    for octet in &query[1..] {
        client.turn();
        client.send_more(id, &[*octet], false);
    }
    // CoreDNS answers before the end too.
    assert_answered(&client.response(id).unwrap());
    client.send_more(id, &[], true);
    assert_answered(&client.ask(ASKED).unwrap());
    server.stop();
}

#[test]
fn what_follows_a_query_ends_the_connection_whenever_it_comes() {
    // Behind the response, and while the query waits for it.
    let silent = Upstream::start(|_| Vec::new());
    let forward = format!("forward . {}", silent.address);
    for (more, waits) in [("whoami", false), (&*forward, true)] {
        let (server, config) = start(more);
        let mut client = QuicClient::connect(server.address(), &config);
        let id = client.send(&query(), false).unwrap();
        client.drive_for(Duration::from_millis(50));
        match waits {
            true => _ = eventually("the query upstream", || silent.count() > 0),
            false => assert_answered(&client.response(id).unwrap()),
        }
        client.send_more(id, &[0], false);
        client.drive("the end", |_| false);
        assert_eq!(client.closed_with(), Some(2), "{waits}: {:?}", client.lost);
        server.stop();
    }
}

#[test]
fn what_is_no_query_ends_the_connection() {
    let (server, config) = start("whoami");
    let with_id = framed(&question(7, ASKED));
    let mut is_response = question(0, ASKED);
    is_response[2] |= 0x80;
    let mut update = question(0, ASKED);
    update[2] |= 5 << 3;
    assert_eq!(nodens_wire::Message::parse(&update).unwrap().flags.opcode(), Opcode(5));
    let mut keepalive = question(0, "example.org A +edns");
    // The option without data, and its length in that of the OPT record.
    keepalive.extend([0, 11, 0, 0]);
    let at = keepalive.len() - 5;
    keepalive[at] = 4;
    let cases: [(&str, Vec<u8>); 11] = [
        ("an ID", with_id),
        ("a response", framed(&is_response)),
        ("an UPDATE", framed(&update)),
        ("edns-tcp-keepalive", framed(&keepalive)),
        ("nothing", Vec::new()),
        ("half a length", vec![0]),
        ("a length of nothing", vec![0, 0]),
        ("less than announced", query()[..20].to_vec()),
        ("no header", framed(&[0; 5])),
        ("two queries", query().repeat(2)),
        ("an octet more", [query(), vec![0]].concat()),
    ];
    let count = cases.len() as u64;
    for (what, octets) in cases {
        let mut client = QuicClient::connect(server.address(), &config);
        assert_answered(&client.ask(ASKED).unwrap());
        _ = client.send(&octets, true);
        client.drive(what, |_| false);
        assert_eq!(client.closed_with(), Some(2), "{what}: {:?}", client.lost);
    }
    assert_eq!(responses(&server, "0x2"), count);
    server.stop();
}

#[test]
fn a_message_longer_than_any_query_is_refused_and_the_connection_goes_on() {
    let (server, config) = start("whoami");
    let mut client = QuicClient::connect(server.address(), &config);
    let mut long = question(0, ASKED);
    long.resize(5000, 0);
    let id = client.send(&framed(&long)[..4000], false).unwrap();
    let answer = client.response(id).unwrap();
    assert_eq!(answer.flags.rcode(), Rcode::FORMERR);
    assert_answered(&client.ask(ASKED).unwrap());
    assert_eq!(server.count("nodens_tcp_closed_total"), 1);
    server.stop();
}

#[test]
fn streams_of_one_octet_are_given_up_and_others_answered() {
    let (server, config) = start("timeouts {\n read 1s\n }\n whoami");
    let mut client = QuicClient::connect(server.address(), &config);
    let slow: Vec<_> = (0..200).map(|_| client.send(&[0], false).unwrap()).collect();
    assert_answered(&client.ask(ASKED).unwrap());
    let began = Instant::now();
    for id in slow {
        assert_eq!(client.end_of(id).1, Some(End::Reset(1)));
    }
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_answered(&client.ask(ASKED).unwrap());
    assert_eq!(responses(&server, "0x1"), 200);
    server.stop();
}

#[test]
fn streams_that_are_cancelled_in_a_flood_leave_nothing_behind() {
    let (server, config) = start("whoami");
    let mut client = QuicClient::connect(server.address(), &config);
    let code = VarInt::from_u32(3);
    let mut count = 0;
    for number in 0..4000 {
        if let Some(id) = client.send(&query()[..10 + number % 20], false) {
            count += 1;
            client.connection.send_stream(id).reset(code).unwrap();
            _ = client.connection.recv_stream(id).stop(code);
        }
        if number % 40 == 0 {
            client.turn();
        }
    }
    assert!(count > 250, "{count} streams");
    // The connection goes on, with as many streams as before.
    client.drive_for(Duration::from_millis(100));
    let ids: Vec<_> = (0..200).map(|_| client.send(&query(), true)).collect();
    assert!(ids.iter().flatten().count() > 100, "streams that are cancelled stay open");
    for id in ids.into_iter().flatten() {
        assert_answered(&client.response(id).unwrap());
    }
    server.stop();
}

#[test]
fn no_more_streams_are_open_than_the_corefile_allows() {
    let (server, config) = start("quic {\n max_streams 16\n }\n whoami");
    let mut client = QuicClient::connect(server.address(), &config);
    let open: Vec<_> = (0..17).map(|_| client.send(&[0], false)).collect();
    assert_eq!(open.iter().flatten().count(), 16);
    // Answered ones make room.
    for id in open.into_iter().flatten() {
        client.send_more(id, &query()[1..], true);
        assert_answered(&client.response(id).unwrap());
    }
    client.drive_for(Duration::from_millis(50));
    assert_answered(&client.ask(ASKED).unwrap());
    server.stop();
}

#[test]
fn no_stream_in_one_direction_can_be_opened() {
    let (server, config) = start("whoami");
    let mut client = QuicClient::connect(server.address(), &config);
    assert_eq!(client.connection.streams().open(quinn_proto::Dir::Uni), None);
    server.stop();
}

#[test]
fn queries_beyond_those_that_may_wait_wait_in_their_streams() {
    let (opener, waiter) = gate();
    let names = Arc::new(Mutex::new(HashSet::new()));
    let seen = names.clone();
    let upstream = Upstream::start(move |asked| {
        seen.lock().unwrap().insert(asked.name());
        vec![Act::WaitFor(waiter.clone()), Act::Send(asked.answer())]
    });
    let forward = format!("forward . {}\n quic {{\n worker_pool_size 3\n }}", upstream.address);
    let (server, config) = start(&forward);
    let mut client = QuicClient::connect(server.address(), &config);
    let queries = (0..10).map(|number| framed(&question(0, &format!("a{number}.example A"))));
    let ids: Vec<_> = queries.map(|query| client.send(&query, true).unwrap()).collect();
    client.drive_for(Duration::from_millis(300));
    assert_eq!(names.lock().unwrap().len(), 3);
    opener.store(true, Ordering::Relaxed);
    for id in ids {
        assert_answered(&client.response(id).unwrap());
    }
    server.stop();
}

#[test]
fn a_client_with_all_places_keeps_nobody_waiting() {
    let (opener, waiter) = gate();
    let names = Arc::new(Mutex::new(HashSet::new()));
    let seen = names.clone();
    let upstream = Upstream::start(move |asked| {
        seen.lock().unwrap().insert(asked.name());
        vec![Act::WaitFor(waiter.clone()), Act::Send(asked.answer())]
    });
    let forward = format!("forward . {}\n quic {{\n worker_pool_size 3\n }}", upstream.address);
    let authority = Authority::new();
    let server = Server::start(&corefile(
        &authority,
        &format!("template IN TXT {{\n rcode NXDOMAIN\n }}\n {forward}"),
    ));
    let config = super::quic::client(&authority);
    let mut greedy = QuicClient::connect(server.address(), &config);
    let ask = |client: &mut QuicClient, name: String| {
        client.send(&framed(&question(0, &format!("{name}.example A"))), true).unwrap()
    };
    let ids: Vec<_> = (0..40).map(|number| ask(&mut greedy, format!("a{number}"))).collect();
    greedy.drive_for(Duration::from_millis(200));
    assert_eq!(names.lock().unwrap().len(), 3);
    let mut other = QuicClient::connect(server.address(), &config);
    // What is answered at once needs no place, and one query may wait.
    assert_eq!(other.ask("b.example TXT").unwrap().flags.rcode(), Rcode::NXDOMAIN);
    let first = ask(&mut other, "b0".to_owned());
    let second = ask(&mut other, "b1".to_owned());
    other.drive_for(Duration::from_millis(200));
    let asked = names.lock().unwrap().len();
    assert_eq!(asked, 4);
    opener.store(true, Ordering::Relaxed);
    assert_answered(&other.response(first).unwrap());
    assert_answered(&other.response(second).unwrap());
    for id in ids {
        assert_answered(&greedy.response(id).unwrap());
    }
    server.stop();
}

#[test]
fn clients_without_an_accepted_certificate_are_counted_and_logged_once_for_each_reason() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let tls = format!("{} {{\n client_auth require_and_verify\n }}", authority.tls());
    let corefile = corefile(&authority, "whoami").replace(&authority.tls(), &tls);
    let server = Server::of(1, &corefile, Options::default(), &BuildOptions::default());
    for _ in 0..3 {
        for tls in [authority.client(false), authority.client_as(&stranger)] {
            let config = config(&tls, TransportConfig::default());
            let mut client = QuicClient::new(server.address(), &config);
            client.drive("the refusal", |client| client.lost.is_some());
        }
    }
    let count = || outcomes(&server, "client_certificate");
    eventually("the clients to be counted", || count() == 6);
    let log = server.log();
    let text = "refused: tls: client didn't provide a certificate";
    assert_eq!((said(&log, text), said(&log, "")), (1, 2), "{log}");
    assert_eq!(said(&log, "refused: tls: invalid peer certificate: BadSignature"), 1, "{log}");
    server.stop();
}

fn outcomes(server: &Server, outcome: &str) -> u64 {
    let text = server.shared.registry.render();
    let wanted = format!("nodens_quic_begun_total{{outcome=\"{outcome}\"}}");
    let line = text.lines().find(|line| line.starts_with(&wanted));
    line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

#[test]
fn garbage_is_dropped_and_never_answered_with_more() {
    let (server, config) = start("whoami");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut long_header = vec![0xff; 1200];
    // A version that nobody speaks.
    long_header[1..5].copy_from_slice(&[0xba, 0xba, 0xba, 0xba]);
    // The lengths of both connection IDs.
    (long_header[5], long_header[14]) = (8, 8);
    let mut initial = QuicClient::new(server.address(), &config).packets().remove(0);
    for octet in initial.iter_mut().skip(60) {
        *octet ^= 0x55;
    }
    let plain = question(1, ASKED);
    let short = [0x40; 40];
    let long = vec![0xff; 1600];
    // Whether it is answered: with the versions that there are.
    let packets: [(&str, &[u8], bool); 8] = [
        ("a query without QUIC", &plain, false),
        ("a short header", &short, false),
        ("a version that nobody speaks", &long_header, true),
        ("the beginning of an Initial packet", &initial[..200], false),
        ("an Initial packet that is not whole", &initial, false),
        ("one octet", &[0xc0], false),
        ("nothing", &[], false),
        ("more than a packet may have", &long, false),
    ];
    for (what, packet, is_answered) in packets {
        socket.send_to(packet, server.address()).unwrap();
        let mut buffer = [0; 2000];
        let answer = socket.recv(&mut buffer);
        assert_eq!(answer.is_ok(), is_answered, "{what}");
        assert!(answer.unwrap_or(0) <= packet.len(), "{what}");
    }
    assert_answered(&QuicClient::connect(server.address(), &config).ask(ASKED).unwrap());
    assert_eq!(server.count("nodens_quic_connections"), 1);
    server.stop();
}

#[test]
fn a_packet_from_another_address_changes_nothing() {
    let (server, config) = start_one("whoami", Options::default());
    let mut client = QuicClient::connect(server.address(), &config);
    assert_answered(&client.ask(ASKED).unwrap());
    let id = client.send(&query(), true).unwrap();
    let elsewhere = UdpSocket::bind("127.0.0.1:0").unwrap();
    elsewhere.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    for packet in client.packets() {
        elsewhere.send_to(&packet, server.address()).unwrap();
    }
    assert!(elsewhere.recv(&mut [0; 2000]).is_err(), "an answer to the wrong address");
    // From its own address it is sent again.
    assert_answered(&client.response(id).unwrap());
    server.stop();
}

#[test]
fn a_query_that_is_dropped_ends_its_stream() {
    let (server, config) = start("acl {\n drop type TXT\n }\n whoami");
    let mut client = QuicClient::connect(server.address(), &config);
    let id = client.send(&framed(&question(0, "example.org TXT")), true).unwrap();
    assert_eq!(client.end_of(id).1, Some(End::Reset(1)));
    assert_answered(&client.ask(ASKED).unwrap());
    server.stop();
}

/// The records of a response of many messages.
fn records_of(octets: &[u8]) -> Vec<nodens_wire::Record> {
    let (mut rest, mut records) = (octets, Vec::new());
    while let Some((message, end)) = nodens_wire::framing::first_message(rest) {
        let message = Message::parse(message).unwrap();
        assert_eq!((message.id, message.flags.rcode()), (0, Rcode::NOERROR));
        records.extend(message.answer);
        rest = &rest[end..];
    }
    assert!(rest.is_empty());
    records
}

#[test]
fn a_zone_is_transferred_on_one_stream_and_others_have_their_turn() {
    let zone = Endpoints::new(20_000);
    let corefile = "transfer {\n  to *\n }\n whoami";
    let (server, config) = start_with(corefile, &zone);
    let mut client = QuicClient::connect(server.address(), &config);
    let ids: Vec<_> = (0..3)
        .map(|_| client.send(&framed(&question(0, "cluster.local AXFR")), true).unwrap())
        .collect();
    assert_answered(&client.ask(ASKED).unwrap());
    for id in ids {
        let (octets, end) = client.end_of(id);
        assert_eq!(end, Some(End::Finished));
        assert!(octets.len() > 16 * 16_384, "{}", octets.len());
        let records = records_of(&octets);
        assert_eq!(records.len(), 20_004);
        assert!(records.first() == records.last() && records[0].rtype == Type::SOA);
    }
    assert_eq!(server.shared.transfers.count(), 0);
    assert_answered(&client.ask(ASKED).unwrap());
    server.stop();
}

#[test]
fn a_transfer_that_is_cancelled_or_never_read_leaves_nothing_behind() {
    let zone = Endpoints::new(200_000);
    let (server, config) = start_with("transfer {\n  to *\n }\n whoami", &zone);
    let mut client = QuicClient::connect(server.address(), &config);
    let id = client.send(&framed(&question(0, "cluster.local AXFR")), true).unwrap();
    client.drive("the first octets", |client| client.response_so_far(id) > 0);
    assert_eq!(server.shared.transfers.count(), 1);
    _ = client.connection.recv_stream(id).stop(VarInt::from_u32(3));
    eventually("the end of the transfer", || {
        client.turn();
        server.shared.transfers.count() == 0
    });
    assert_answered(&client.ask(ASKED).unwrap());
    let id = client.send(&framed(&question(0, "cluster.local AXFR")), true).unwrap();
    client.drive("the first octets", |client| client.response_so_far(id) > 0);
    client.close();
    eventually("the end of the other", || server.shared.transfers.count() == 0);
    server.stop();
}

#[test]
fn long_answers_arrive_whole_whatever_the_client_says_of_datagrams() {
    let upstream = Upstream::start(|asked| vec![Act::Send(asked.long_answer(60_000))]);
    let (server, config) = start(&format!("forward . {} {{\n force_tcp\n }}", upstream.address));
    let mut client = QuicClient::connect(server.address(), &config);
    for text in ["a.example TXT", "b.example TXT +edns"] {
        let id = client.send(&framed(&question(0, text)), true).unwrap();
        let (octets, end) = client.end_of(id);
        assert_eq!(end, Some(End::Finished), "{text}");
        assert!(octets.len() > 59_000, "{text}: {} octets", octets.len());
    }
    server.stop();
}

#[test]
fn a_client_that_reads_nothing_is_closed_in_time() {
    let upstream = Upstream::start(|asked| vec![Act::Send(asked.long_answer(60_000))]);
    let times = "timeouts {\n write 1s\n }";
    let more = format!("forward . {} {{\n force_tcp\n }}\n {times}", upstream.address);
    let authority = Authority::new();
    let server = Server::start(&corefile(&authority, &more));
    let mut small = TransportConfig::default();
    small.receive_window(VarInt::from_u32(2000)).stream_receive_window(VarInt::from_u32(1000));
    let mut client =
        QuicClient::connect(server.address(), &config(&authority.client(false), small));
    client.reads = false;
    for number in 0..60 {
        _ = client.send(&framed(&question(0, &format!("a{number}.example TXT"))), true);
    }
    client.drive("the end", |_| false);
    assert_eq!(client.closed_with(), Some(4), "{:?}", client.lost);
    eventually("all to be given back", || server.count("nodens_quic_connections") == 0);
    server.stop();
}

#[test]
fn connections_that_ask_nothing_end_with_no_error_however_much_they_ping() {
    let (server, config) = start("timeouts {\n idle 1s\n }\n whoami");
    let mut client = QuicClient::connect(server.address(), &config);
    assert_answered(&client.ask(ASKED).unwrap());
    let began = Instant::now();
    while client.lost.is_none() {
        assert!(began.elapsed() < Duration::from_secs(10));
        client.connection.ping();
        client.drive_for(Duration::from_millis(100));
    }
    assert_eq!(client.closed_with(), Some(0), "{:?}", client.lost);
    server.stop();
}

#[test]
fn acknowledgements_are_not_padded() {
    let (server, config) = start("whoami");
    let mut client = QuicClient::connect(server.address(), &config);
    assert_answered(&client.ask(ASKED).unwrap());
    client.drive_for(Duration::from_millis(100));
    client.lengths.clear();
    for _ in 0..20 {
        client.connection.ping();
        client.drive_for(Duration::from_millis(40));
    }
    // Padding makes them count as in flight, and no client acknowledges them (RFC 9000 section 13.2.7).
    let lengths = &client.lengths;
    assert!(lengths.len() >= 10 && lengths.iter().all(|len| *len < 100), "{lengths:?}");
    server.stop();
}

#[test]
fn a_query_that_takes_longer_than_connections_may_be_idle_is_answered() {
    let upstream = Upstream::start(|asked| {
        vec![Act::Wait(Duration::from_millis(2500)), Act::Send(asked.answer())]
    });
    let forward = format!("forward . {} {{\n read_timeout 4s\n }}", upstream.address);
    let (server, config) = start(&format!("timeouts {{\n idle 1s\n }}\n {forward}"));
    let mut client = QuicClient::connect(server.address(), &config);
    let id = client.send(&query(), true).unwrap();
    let began = Instant::now();
    assert_answered(&client.response(id).unwrap());
    assert!(began.elapsed() > Duration::from_secs(2));
    // Then it ends as others do.
    client.drive("the end", |_| false);
    assert_eq!(client.closed_with(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    server.stop();
}

#[test]
fn connections_that_never_ask_end_when_a_first_query_should_have_come() {
    let (server, config) = start("timeouts {\n read 1s\n idle 1h\n }\n whoami");
    let mut asks = QuicClient::connect(server.address(), &config);
    assert_answered(&asks.ask(ASKED).unwrap());
    let mut silent = QuicClient::connect(server.address(), &config);
    let mut slow = QuicClient::connect(server.address(), &config);
    _ = slow.send(&[0], false);
    slow.drive_for(Duration::from_millis(50));
    let began = Instant::now();
    while silent.lost.is_none() || slow.lost.is_none() {
        assert!(began.elapsed() < Duration::from_secs(10));
        silent.connection.ping();
        silent.drive_for(Duration::from_millis(50));
        // Each time another query begins.
        _ = slow.send(&[0], false);
        slow.drive_for(Duration::from_millis(50));
    }
    assert_eq!(silent.closed_with(), Some(0), "{:?}", silent.lost);
    assert_eq!(slow.closed_with(), Some(4), "{:?}", slow.lost);
    assert_answered(&asks.ask(ASKED).unwrap());
    server.stop();
}

#[test]
fn all_connections_hold_no_more_than_they_may() {
    let authority = Authority::new();
    let corefile = corefile(&authority, "quic {\n max_connections 0\n }\n whoami");
    let options = Options { held_max: 400 << 10, ..Options::default() };
    let server = Server::with(&corefile, options);
    let config = client(&authority);
    let mut clients: Vec<_> =
        (0..40).map(|_| QuicClient::connect(server.address(), &config)).collect();
    for client in &mut clients {
        client.drive_for(Duration::from_millis(5));
    }
    let open = server.count("nodens_quic_connections");
    assert!((5..20).contains(&open), "{open}");
    assert!(server.count("nodens_tcp_held_bytes") <= 500 << 10);
    // Whoever comes later finds room, at the cost of those that ask nothing.
    for _ in 0..10 {
        // On a busy machine one may be the idle connection that makes room for the next.
        let mut tries = (0..5).map(|_| QuicClient::connect(server.address(), &config).ask(ASKED));
        assert_answered(&tries.find_map(|answer| answer).expect("an answer"));
    }
    server.stop();
}

#[test]
fn a_reload_keeps_connections_and_ends_those_of_listeners_that_go() {
    let authority = Authority::new();
    let mut server = Server::start(&corefile(&authority, "whoami"));
    let config = client(&authority);
    let mut client = QuicClient::connect(server.address(), &config);
    assert_answered(&client.ask(ASKED).unwrap());
    server.reload(&corefile(&authority, "erratic {\n drop 0\n }")).unwrap();
    let answer = client.ask(ASKED).unwrap();
    assert_eq!(answer.answer[0].rdata, [192, 0, 2, 53]);
    server.reload(".:0 {\n bind 127.0.0.1\n whoami\n}").unwrap();
    client.drive("the end", |_| false);
    assert_eq!(client.closed_with(), Some(0));
    server.stop();
}

/// A server that waits with an answer, its client, and what it waits for.
fn waiting() -> (Server, QuicClient, quinn_proto::StreamId, super::upstream::Gate, Upstream) {
    waiting_for(|asked| asked.answer())
}

fn waiting_for(
    answer: impl Fn(&super::upstream::Asked) -> Vec<u8> + Send + Sync + 'static,
) -> (Server, QuicClient, quinn_proto::StreamId, super::upstream::Gate, Upstream) {
    let (opener, waiter) = gate();
    let upstream =
        Upstream::start(move |asked| vec![Act::WaitFor(waiter.clone()), Act::Send(answer(asked))]);
    let (server, config) = start(&format!("forward . {} {{\n force_tcp\n }}", upstream.address));
    let mut client = QuicClient::connect(server.address(), &config);
    let id = client.send(&query(), true).unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    while upstream.count() == 0 && Instant::now() < until {
        client.turn();
    }
    (server, client, id, opener, upstream)
}

#[test]
fn a_stop_answers_first_and_closes_then() {
    let (server, mut client, id, opener, _upstream) = waiting();
    let stop = std::thread::spawn(|| server.runtime.shutdown(Duration::from_secs(10)));
    client.drive_for(Duration::from_millis(100));
    assert_eq!(client.lost, None);
    opener.store(true, Ordering::Relaxed);
    assert_answered(&client.response(id).unwrap());
    client.drive("the end", |_| false);
    assert_eq!(client.closed_with(), Some(0));
    stop.join().unwrap();
}

#[test]
fn a_hand_over_answers_first_and_new_connections_go_to_the_successor() {
    let (old, mut client, id, opener, upstream) = waiting();
    let address: SocketAddr = old.address();
    let authority = Authority::new();
    let corefile = corefile(&authority, &format!("forward . {}", upstream.address));
    old.runtime.pause().unwrap();
    let inherited = old.runtime.export();
    let options = Options { inherited, paused: true, ..Options::default() };
    let mut heir = Server::with(&corefile, options);
    assert_eq!(heir.address(), address);
    let kept = old.runtime.bound_listeners();
    let (sender, _connections) = channel();
    heir.runtime.resume().unwrap();
    let leave =
        std::thread::spawn(move || old.runtime.leave(&kept, &sender, Duration::from_secs(10)));
    client.drive_for(Duration::from_millis(100));
    assert_eq!(client.lost, None);
    opener.store(true, Ordering::Relaxed);
    assert_answered(&client.response(id).unwrap());
    client.drive("the end", |_| false);
    assert_eq!(client.closed_with(), Some(0));
    leave.join().unwrap();
    let config = super::quic::client(&authority);
    assert_answered(&QuicClient::connect(address, &config).ask(ASKED).unwrap());
    heir.stop();
}

#[test]
fn a_response_that_a_hand_over_cuts_off_is_asked_for_again() {
    let (old, mut client, id, opener, _upstream) = waiting_for(|asked| asked.long_answer(60_000));
    old.runtime.pause().unwrap();
    let kept = old.runtime.bound_listeners();
    let (sender, _connections) = channel();
    let leave =
        std::thread::spawn(move || old.runtime.leave(&kept, &sender, Duration::from_secs(10)));
    client.drive_for(Duration::from_millis(100));
    assert_eq!(client.lost, None);
    opener.store(true, Ordering::Relaxed);
    client.drive("the end", |_| false);
    assert!(client.response_so_far(id) < 60_000);
    assert_eq!(client.closed_with(), Some(1), "{:?}", client.lost);
    leave.join().unwrap();
}
