//! Questions in streams, and clients that do not behave.

use super::client::{
    PATIENCE, Stream, ask_tcp, ask_udp, assert_answered, framed, question, read_message,
};
use super::server::{Server, WORKERS, eventually};
use super::upstream::{Act, Upstream, gate};
use super::upstreams::WAITS;
use nodens_core::config::BuildOptions;
use nodens_net::Options;
use nodens_wire::{Flags, Header, Message, Opcode, Rcode};
use rustix::thread::CpuSet;
use socket2::{Domain, Socket, Type};
use std::cell::RefCell;
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const WHOAMI: &str = ".:0 {\n bind 127.0.0.1\n whoami\n}";

#[test]
fn both_families_are_answered() {
    let server = Server::start(".:0 {\n whoami\n}");
    let port = server.address().port();
    for ip in ["127.0.0.1", "::1"] {
        let answer = ask_tcp(SocketAddr::new(ip.parse().unwrap(), port), "example.org A");
        let rtype = answer.additional[0].rtype;
        assert_eq!(rtype.to_string(), if ip == "::1" { "AAAA" } else { "A" });
    }
    server.stop();
}

#[test]
fn many_questions_of_one_connection_are_answered_as_they_are_ready() {
    let (release, gate) = gate();
    let upstream = Upstream::start(move |asked| {
        let slow = asked.name().starts_with("slow");
        let wait = slow.then(|| Act::WaitFor(gate.clone()));
        wait.into_iter().chain([Act::Send(asked.answer())]).collect()
    });
    let corefile = format!(".:0 {{\n bind 127.0.0.1\n forward . {}\n}}", upstream.address);
    let server = Server::start(&corefile);
    let mut client = Stream::connect(server.address());
    client.send(1, "slow.test A");
    client.send(2, "quick.test A");
    client.send(3, "other.test A");
    let mut ids = [client.receive().id, client.receive().id];
    ids.sort_unstable();
    assert_eq!(ids, [2, 3]);
    release.store(true, Ordering::SeqCst);
    assert_eq!(client.receive().id, 1);
    server.stop();
}

#[test]
fn one_connection_has_a_bounded_number_of_questions_under_way() {
    let asked: Arc<Mutex<HashSet<String>>> = Arc::default();
    let names = asked.clone();
    let (release, gate) = gate();
    let upstream = Upstream::start(move |asked| {
        names.lock().unwrap().insert(asked.name());
        vec![Act::WaitFor(gate.clone()), Act::Send(asked.answer())]
    });
    let corefile = format!(".:0 {{\n bind 127.0.0.1\n forward . {}\n}}", upstream.address);
    let server = Server::start(&corefile);
    let mut client = Stream::connect(server.address());
    let questions: Vec<u8> =
        (0..200).flat_map(|id| framed(&question(id, &format!("n{id}.test A")))).collect();
    client.0.write_all(&questions).unwrap();
    // Nothing has been answered when the first 128 are under way, so there must be no others.
    eventually("128 questions", || asked.lock().unwrap().len() >= 128);
    std::thread::sleep(Duration::from_millis(200));
    let under_way = asked.lock().unwrap().len();
    assert_eq!(under_way, 128);
    release.store(true, Ordering::SeqCst);
    let mut missing: HashSet<u16> = (0..200).collect();
    while !missing.is_empty() {
        assert!(missing.remove(&client.receive().id));
    }
    server.stop();
}

#[test]
fn a_client_that_closes_its_side_still_gets_its_answers() {
    let upstream = Upstream::start(|asked| {
        vec![Act::Wait(Duration::from_millis(50)), Act::Send(asked.answer())]
    });
    let corefile = format!(".:0 {{\n bind 127.0.0.1\n forward . {}\n}}", upstream.address);
    let server = Server::start(&corefile);
    let mut client = Stream::connect(server.address());
    client.send(5, "example.org A");
    client.send(6, "example.com A");
    client.0.shutdown(Shutdown::Write).unwrap();
    let mut ids = [client.receive().id, client.receive().id];
    ids.sort_unstable();
    assert_eq!(ids, [5, 6]);
    assert!(client.is_closed());
    server.stop();
}

#[test]
fn a_question_in_single_octets_is_answered() {
    let server = Server::start(WHOAMI);
    let mut client = Stream::connect(server.address());
    let octets = [framed(&question(1, "example.org A")), framed(&question(2, "example.org A"))];
    for octet in octets.concat() {
        client.0.write_all(&[octet]).unwrap();
    }
    assert_eq!((client.receive().id, client.receive().id), (1, 2));
    server.stop();
}

#[test]
fn a_message_longer_than_any_question_is_refused_before_it_is_there() {
    let server = Server::start(WHOAMI);
    let mut client = Stream::connect(server.address());
    let mut stream = framed(&question(1, "example.org A"));
    stream.extend_from_slice(&[0xff, 0xff]);
    stream.extend_from_slice(&question(2, "example.org A"));
    client.0.write_all(&stream).unwrap();
    assert_answered(&client.receive());
    let refusal = client.receive();
    assert_eq!((refusal.id, refusal.flags.rcode()), (2, Rcode::FORMERR));
    assert!(client.is_closed());
    assert_eq!(server.count("nodens_tcp_closed_total"), 1);
    // The longest that is read needs all its octets.
    let mut client = Stream::connect(server.address());
    let mut longest = question(3, "example.org A");
    longest.resize(4096, 0);
    client.0.write_all(&framed(&longest)).unwrap();
    assert_eq!(client.receive().id, 3);
    server.stop();
}

#[test]
fn what_is_too_long_is_refused_in_whatever_pieces_it_comes() {
    let server = Server::start(WHOAMI);
    for len in [4097, 5000, 16_000, 40_000] {
        let mut long = question(4, "example.org A");
        long.resize(len, 0);
        let stream = framed(&long);
        for cut in [0, 1, 2, 3, 13, 14, 4097, len + 1] {
            let mut client = Stream::connect(server.address());
            let (first, second) = stream.split_at(cut.min(stream.len()));
            client.0.write_all(first).unwrap();
            std::thread::sleep(Duration::from_millis(20));
            // The server may have closed.
            _ = client.0.write_all(second);
            let refusal = client.receive();
            assert_eq!((refusal.id, refusal.flags.rcode()), (4, Rcode::FORMERR), "{len} {cut}");
            assert!(client.is_closed());
        }
    }
    server.stop();
}

/// A Corefile with a zone that takes updates, and the folder of its file.
fn with_updates() -> (tempfile::TempDir, String) {
    let folder = tempfile::TempDir::new().unwrap();
    let zone = folder.path().join("zone");
    std::fs::write(&zone, "@ 60 SOA ns hostmaster 1 60 60 60 60\n@ 60 NS ns\n").unwrap();
    let tsig = "tsig {\n secret k. NoTCJU+DMqFWywaPyxSijrDEA/eC3nK0xi3AMEZuPVk=\n}";
    let own = format!("dynupdate {{\n file {}\n allow k. * *\n}}", zone.display());
    (folder, format!("example.org:0 {{\n bind 127.0.0.1\n {tsig}\n {own}\n}}"))
}

/// An UPDATE message of this length that has one record, of type NULL.
fn long_update(len: usize) -> Vec<u8> {
    let flags = Flags(0).with_opcode(Opcode::UPDATE);
    let header = Header { id: 5, flags, counts: [1, 0, 1, 0] }.to_bytes();
    let mut message = [&header[..], b"\x07example\x03org\0\0\x06\0\x01"].concat();
    message.extend_from_slice(b"\0\0\x0a\0\x01\0\0\0\0");
    let rdata = u16::try_from(len - message.len() - 2).unwrap();
    message.extend_from_slice(&rdata.to_be_bytes());
    message.resize(len, 0);
    message
}

#[test]
fn an_update_may_be_as_long_as_a_message_where_updates_are_taken() {
    let (_folder, corefile) = with_updates();
    let (server, other) = (Server::start(&corefile), Server::start(WHOAMI));
    for len in [4096, 4097, 20_000, 65_535] {
        let stream = framed(&long_update(len));
        for cut in [0, 1, 13, 14, 4097, len] {
            let mut client = Stream::connect(server.address());
            let (first, second) = stream.split_at(cut.min(stream.len()));
            client.0.write_all(first).unwrap();
            std::thread::sleep(Duration::from_millis(20));
            client.0.write_all(second).unwrap();
            // It is not signed.
            let refusal = client.receive();
            assert_eq!((refusal.id, refusal.flags.rcode()), (5, Rcode::REFUSED), "{len} {cut}");
            assert_eq!(client.ask("example.org SOA").flags.rcode(), Rcode::NOERROR);
        }
    }
    // Nothing else is, and not where there are none.
    let mut query = question(4, "example.org A");
    query.resize(5000, 0);
    for (address, message) in [(server.address(), query), (other.address(), long_update(5000))] {
        let mut client = Stream::connect(address);
        _ = client.0.write_all(&framed(&message));
        let refusal = client.receive();
        assert_eq!((refusal.id, refusal.flags.rcode()), (message[1].into(), Rcode::FORMERR));
        assert!(client.is_closed());
    }
    server.stop();
    other.stop();
}

/// More questions than one connection has under way, which are 128.
const QUESTIONS: u16 = 160;

/// A server with so many questions of one client, of which 128 are under way and the others read,
/// and what lets the upstream answer.
fn with_questions() -> (Server, Stream, Arc<AtomicBool>, Upstream) {
    let asked: Arc<Mutex<HashSet<String>>> = Arc::default();
    let names = asked.clone();
    let (release, gate) = gate();
    let upstream = Upstream::start(move |asked| {
        names.lock().unwrap().insert(asked.name());
        vec![Act::WaitFor(gate.clone()), Act::Send(asked.answer())]
    });
    let forward = format!("forward . {} {{\n{WAITS}}}", upstream.address);
    let server = Server::start(&format!(".:0 {{\n bind 127.0.0.1\n {forward}\n}}"));
    let mut client = Stream::connect(server.address());
    let questions: Vec<u8> =
        (0..QUESTIONS).flat_map(|id| framed(&question(id, &format!("n{id}.test A")))).collect();
    client.0.write_all(&questions).unwrap();
    eventually("128 questions", || asked.lock().unwrap().len() >= 128);
    (server, client, release, upstream)
}

/// All are answered. A question has only so much time: on a busy machine the answer is SERVFAIL.
fn assert_all_answers(mut client: Stream) {
    let mut missing: HashSet<u16> = (0..QUESTIONS).collect();
    while !missing.is_empty() {
        assert!(missing.remove(&client.receive().id));
    }
    assert!(client.is_closed());
}

#[test]
fn a_stop_answers_all_that_has_been_read() {
    let (server, client, release, _upstream) = with_questions();
    let address = server.address();
    let stop = std::thread::spawn(move || server.runtime.shutdown(Duration::from_secs(30)));
    eventually("the listener to close", || TcpStream::connect(address).is_err());
    release.store(true, Ordering::SeqCst);
    assert_all_answers(client);
    stop.join().unwrap();
}

#[test]
fn a_reload_without_the_listener_answers_all_that_has_been_read() {
    let (mut server, client, release, _upstream) = with_questions();
    server.reload(".:0 {\n bind 127.0.0.2\n whoami\n}").unwrap();
    release.store(true, Ordering::SeqCst);
    assert_all_answers(client);
    server.stop();
}

#[test]
fn silent_and_dribbling_clients_are_closed_in_time() {
    let corefile = ".:0 {\n bind 127.0.0.1\n timeouts {\n  read 1s\n  idle 1s\n }\n whoami\n}";
    let server = Server::start(corefile);
    let mut silent = Stream::connect(server.address());
    let mut idle = Stream::connect(server.address());
    assert_answered(&idle.ask("example.org A"));
    let mut dribbling = Stream::connect(server.address());
    let octets = framed(&question(1, "a-rather-long-name.example.org A"));
    let mut sent = 0;
    for octet in octets.chunks(1) {
        if dribbling.0.write_all(octet).is_err() || !dribbling.is_open() {
            break;
        }
        sent += 1;
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(sent < octets.len(), "a question at 10 octets a second was waited for");
    assert!(silent.is_closed() && idle.is_closed() && dribbling.is_closed());
    eventually("all to be closed", || server.count("nodens_tcp_connections") == 0);
    server.stop();
}

#[test]
fn what_is_not_answered_does_not_keep_a_connection_open() {
    let corefile = ".:0 {\n bind 127.0.0.1\n timeouts {\n  read 1s\n  idle 1s\n }\n whoami\n}";
    // A message without an octet, one shorter than a header, and a response.
    let mut response = question(1, "example.org A");
    response[2] |= 0x80;
    for useless in [framed(&[]), framed(&[0; 11]), framed(&response)] {
        let server = Server::start(corefile);
        let mut client = Stream::connect(server.address());
        assert_answered(&client.ask("example.org A"));
        let start = Instant::now();
        while client.is_open() && client.0.write_all(&useless).is_ok() {
            assert!(start.elapsed() < super::client::PATIENCE, "kept open by {useless:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
        server.stop();
    }
}

/// Waits until the server has closed what it must of `greedy` to hold at most so many octets, and not much more.
fn wait_until_within(server: &Server, greedy: &[Stream], most: usize) {
    eventually("the greedy client to lose connections", || greedy.iter().any(is_reset));
    let held = || server.count("nodens_tcp_held_bytes") as usize;
    eventually("connections to be closed until the rest is little enough", || held() <= most);
    assert!(held() > most / 2, "{} octets held: more was closed than had to be", held());
}

#[test]
fn all_clients_together_hold_no_more_than_they_may_and_the_greediest_loses() {
    const HELD: usize = 4 << 20;
    let upstream = Upstream::start(|asked| vec![Act::Send(asked.long_answer(60_000))]);
    let corefile = format!(
        ".:0 {{\n bind 127.0.0.1\n timeouts {{\n  write 10m\n  idle 10m\n }}\n cache\n forward . {}\n}}",
        upstream.address
    );
    let server = Server::with(&corefile, Options { held_max: HELD, ..Options::default() });
    let port = server.address().port();
    // It reads nothing either, but has asked for so little that even where workers get no time to
    // close what is doomed, it is not among those that close themselves.
    let mut slow = from(port, 3);
    slow.0.write_all(&framed(&question(0, "n0.test TXT"))).unwrap();
    (1..8).for_each(|id| assert_answered(&from(port, 4).ask(&format!("n{id}.test TXT"))));
    let questions: Vec<u8> =
        (0..8).flat_map(|id| framed(&question(id, &format!("n{id}.test TXT")))).collect();
    eventually("the questions upstream", || upstream.count() >= 8);
    let greedy: Vec<Stream> = (0..80)
        .map(|_| {
            let mut stream = from(port, 2);
            for _ in 0..4 {
                // The server may have closed.
                _ = stream.0.write_all(&questions);
            }
            stream
        })
        .collect();
    wait_until_within(&server, &greedy, HELD);
    let closed = server.count("nodens_tcp_closed_total{reason=\"unread_in_all\"}");
    let lost = greedy.iter().filter(|stream| is_reset(stream)).count();
    assert!(closed as usize >= lost, "{closed} counted");
    assert_eq!(slow.receive().id, 0);
    assert_answered(&from(port, 4).ask("n1.test A"));
    drop((greedy, slow));
    eventually("nothing to be held", || server.count("nodens_tcp_held_bytes") == 0);
    server.stop();
}

#[test]
fn long_updates_that_do_not_end_are_held_within_the_budget_of_all_clients() {
    const HELD: usize = 1 << 20;
    let (_folder, corefile) = with_updates();
    let server = Server::with(&corefile, Options { held_max: HELD, ..Options::default() });
    let port = server.address().port();
    let mut part = framed(&long_update(65_535));
    part.pop();
    let greedy: Vec<Stream> = (0..40)
        .map(|_| {
            let mut stream = from(port, 2);
            // The server may have closed.
            _ = stream.0.write_all(&part);
            stream
        })
        .collect();
    wait_until_within(&server, &greedy, HELD);
    assert_eq!(from(port, 4).ask("example.org SOA").flags.rcode(), Rcode::NOERROR);
    drop(greedy);
    eventually("nothing to be held", || server.count("nodens_tcp_held_bytes") == 0);
    server.stop();
}

/// A connection from 127.0.0.`last` that takes little unread.
pub(super) fn from(port: u16, last: u8) -> Stream {
    from_address([127, 0, 0, last], port)
}

/// The same from any address.
pub(super) fn from_address(ip: [u8; 4], port: u16) -> Stream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.bind(&SocketAddr::from((ip, 0)).into()).unwrap();
    socket.connect(&SocketAddr::from(([127, 0, 0, 1], port)).into()).unwrap();
    let stream: TcpStream = socket.into();
    stream.set_read_timeout(Some(super::client::PATIENCE)).unwrap();
    Stream(stream)
}

/// Whether the server has given up a connection of which something is unread.
fn is_reset(stream: &Stream) -> bool {
    matches!(stream.0.take_error(), Ok(Some(_)))
}

/// Half of the clients say that they ask no more; to the others the server says so.
#[test]
fn who_asks_no_more_gets_all_answers_however_slowly_they_are_read() {
    let upstream = Upstream::start(|asked| vec![Act::Send(asked.long_answer(60_000))]);
    for ends_first in [true, false] {
        let most = if ends_first { 100 } else { 4 };
        let corefile = format!(
            ".:0 {{\n bind 127.0.0.1\n timeouts {{\n  maxtcpqueries {most}\n }}\n cache\n forward . {}\n}}",
            upstream.address
        );
        let server = Server::start(&corefile);
        let mut client = from(server.address().port(), 2);
        let questions: Vec<u8> =
            (0..4).flat_map(|id| framed(&question(id, &format!("n{id}.test TXT")))).collect();
        client.0.write_all(&questions).unwrap();
        if ends_first {
            client.0.shutdown(Shutdown::Write).unwrap();
        }
        // Now the server has nothing left to do but to wait for the client.
        eventually("the answers to be held", || server.count("nodens_tcp_held_bytes") > 0);
        std::thread::sleep(Duration::from_millis(200));
        let mut missing: HashSet<u16> = (0..4).collect();
        while !missing.is_empty() {
            missing.remove(&client.receive().id);
        }
        assert_eq!(client.0.read(&mut [0]).unwrap(), 0, "the end of the stream, and no reset");
        drop(client);
        eventually("nothing to be held", || server.count("nodens_tcp_held_bytes") == 0);
        eventually("the connection to be closed", || server.count("nodens_tcp_connections") == 0);
        server.stop();
    }
}

#[test]
fn a_connection_has_as_many_questions_as_maxtcpqueries_says() {
    let corefile = ".:0 {\n bind 127.0.0.1\n timeouts {\n  maxtcpqueries 3\n }\n whoami\n}";
    let server = Server::start(corefile);
    let mut client = Stream::connect(server.address());
    for _ in 0..2 {
        assert_answered(&client.ask("example.org A"));
    }
    client.send(3, "example.org A");
    assert_eq!(client.receive().id, 3);
    assert!(client.is_closed());
    let mut hasty = Stream::connect(server.address());
    let questions: Vec<u8> = (0..5).flat_map(|id| framed(&question(id, "example.org A"))).collect();
    hasty.0.write_all(&questions).unwrap();
    let ids: Vec<u16> = (0..3).map(|_| hasty.receive().id).collect();
    assert_eq!(ids, [0, 1, 2]);
    assert!(hasty.is_closed());
    server.stop();
}

#[test]
fn a_client_that_never_reads_is_closed_and_others_are_served() {
    let upstream = Upstream::start(|asked| vec![Act::Send(asked.long_answer(60_000))]);
    let corefile = format!(
        "test:0 {{\n bind 127.0.0.1\n timeouts {{\n  write 1s\n }}\n forward . {}\n}}\n\
         polite:0 {{\n bind 127.0.0.1\n whoami\n}}",
        upstream.address
    );
    let server = Server::start(&corefile);
    let mut rude = Stream::connect(server.address());
    socket2::SockRef::from(&rude.0).set_recv_buffer_size(4096).unwrap();
    let questions: Vec<u8> =
        (0..128).flat_map(|id| framed(&question(id, &format!("n{id}.test TXT")))).collect();
    rude.0.write_all(&questions).unwrap();
    server.wait_for("nodens_tcp_connections", 1);
    assert_answered(&ask_tcp(server.address(), "polite A"));
    assert_answered(&ask_udp(server.address(), "polite A"));
    server.wait_for("nodens_tcp_closed_total", 1);
    eventually("the end of it", || server.count("nodens_tcp_connections") == 0);
    server.stop();
}

/// Moves this thread to one CPU.
fn run_on(cpu: usize) {
    let mut one = CpuSet::new();
    one.set(cpu);
    rustix::thread::sched_setaffinity(None, &one).unwrap();
}

#[test]
fn one_address_cannot_take_all_connections_and_accepting_never_stops() {
    let options = Options {
        connections_max: Some(40),
        connections_per_client: Some(25),
        ..Options::default()
    };
    // Nobody leaves by himself.
    let corefile = ".:0 {\n timeouts {\n  read 10m\n  idle 10m\n }\n whoami\n}";
    let server = Server::with(corefile, options);
    let port = server.address().port();
    let from = |last: u8| {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let socket = socket.unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, last], 0)).into()).unwrap();
        socket.connect(&SocketAddr::from(([127, 0, 0, 1], port)).into()).unwrap();
        let stream: std::net::TcpStream = socket.into();
        stream.set_read_timeout(Some(super::client::PATIENCE)).unwrap();
        Stream(stream)
    };
    // Connections go to the worker of the CPU they come from: the others must not need their own.
    let cpus = rustix::thread::sched_getaffinity(None).unwrap();
    let allowed = |cpu: &usize| cpus.is_set(*cpu);
    let first = (0..CpuSet::MAX_CPU).find(allowed).unwrap();
    let last = (0..CpuSet::MAX_CPU).rfind(allowed).unwrap();
    run_on(first);
    let greedy: Vec<Stream> = (0..60).map(|_| from(11)).collect();
    server.wait_for("nodens_tcp_accepted_total", 60);
    let open = || greedy.iter().filter(|stream| stream.is_open()).count();
    // The last places are kept free while there are idle connections.
    eventually("no more than 25 connections of 60 to be left", || (17..=25).contains(&open()));
    // Others fill the rest, and then push out those who have been idle for longest, whichever
    // worker has them. One who comes before another worker has made room is turned away and comes again.
    let others = RefCell::new(Vec::new());
    let is_served = |last: u8| {
        let mut stream = from(last);
        let sent = stream.0.write_all(&framed(&question(7, "example.org A"))).is_ok();
        let answered = sent && stream.receive_bytes().is_some();
        others.borrow_mut().push(stream);
        answered
    };
    (20..50).for_each(|last| _ = eventually("an answer for everybody", || is_served(last)));
    run_on(last);
    (50..80).for_each(|last| _ = eventually("an answer by another worker", || is_served(last)));
    assert!(server.count("nodens_tcp_connections") <= 40);
    assert_answered(&ask_udp(SocketAddr::from(([127, 0, 0, 1], port)), "example.org A"));
    drop((greedy, others));
    eventually("all to be closed", || server.count("nodens_tcp_connections") == 0);
    assert_answered(&from(11).ask("example.org A"));
    server.stop();
}

/// A server with so many workers at which one address may have 16 connections, which do not end by
/// themselves, with a block whose answers come once the gate is open.
fn with_few_for_each(workers: usize) -> (Server, Arc<AtomicBool>, Upstream) {
    let (release, gate) = gate();
    let upstream =
        Upstream::start(move |asked| vec![Act::WaitFor(gate.clone()), Act::Send(asked.answer())]);
    let timeouts = "timeouts {\n  read 10m\n  idle 10m\n }";
    let corefile = format!(
        ".:0 {{\n bind 127.0.0.1\n {timeouts}\n whoami\n}}\n\
         slow:0 {{\n bind 127.0.0.1\n forward . {} {{\n{WAITS}}}\n}}",
        upstream.address
    );
    let options = Options { connections_per_client: Some(16), ..Options::default() };
    (Server::of(workers, &corefile, options, &BuildOptions::default()), release, upstream)
}

#[test]
fn a_client_that_has_all_it_may_loses_its_own_longest_idle_connection() {
    let (server, _release, _upstream) = with_few_for_each(1);
    let port = server.address().port();
    let mut other = from(port, 3);
    assert_answered(&other.ask("example.org A"));
    let served = |_| {
        let mut stream = from(port, 2);
        assert_answered(&stream.ask("example.org A"));
        stream
    };
    let mut streams: Vec<Stream> = (0..12).map(served).collect();
    // Now others have been idle for longer than the first.
    assert_answered(&streams[0].ask("example.org A"));
    streams.extend((0..12).map(served));
    let open: Vec<bool> = streams.iter().map(Stream::is_open).collect();
    assert!(open[0] && open[12..].iter().all(|open| *open), "{open:?}");
    assert!(!open[1..11].contains(&true), "{open:?}");
    assert!(server.count("nodens_tcp_connections") <= 17);
    assert!(other.is_open(), "another client lost its connection");
    server.stop();
}

#[test]
fn a_client_that_has_all_it_may_is_served_by_any_worker() {
    let (server, _release, _upstream) = with_few_for_each(WORKERS);
    let port = server.address().port();
    let other = {
        let mut other = from(port, 3);
        assert_answered(&other.ask("example.org A"));
        other
    };
    // Kept open by their client.
    let streams = RefCell::new(Vec::new());
    for _ in 0..100 {
        // One that comes before another worker has made room is turned away and comes again.
        let is_served = || {
            let mut stream = from(port, 2);
            let sent = stream.0.write_all(&framed(&question(7, "example.org A"))).is_ok();
            let answered = sent && stream.receive_bytes().is_some();
            streams.borrow_mut().push(stream);
            answered
        };
        eventually("an answer by whichever worker", is_served);
    }
    assert!(server.count("nodens_tcp_connections") <= 17);
    assert!(other.is_open(), "another client lost its connection");
    server.stop();
}

#[test]
fn a_client_whose_connections_all_wait_for_an_answer_gets_no_more() {
    let (server, release, upstream) = with_few_for_each(WORKERS);
    let port = server.address().port();
    let begun = Instant::now();
    let mut busy: Vec<Stream> = (0..16)
        .map(|id| {
            let mut stream = from(port, 2);
            stream.0.write_all(&framed(&question(id, &format!("n{id}.slow A")))).unwrap();
            eventually("the query upstream", || upstream.knows_of(&format!("n{id}.slow.")));
            stream
        })
        .collect();
    let mut refused = from(port, 2);
    _ = refused.0.write_all(&framed(&question(99, "example.org A")));
    // A query waits for 5 seconds; on a machine that needs as long, some wait no more.
    assert!(refused.is_closed() || begun.elapsed() > Duration::from_secs(4));
    assert_answered(&from(port, 3).ask("example.org A"));
    release.store(true, Ordering::SeqCst);
    for (id, stream) in (0..).zip(&mut busy) {
        assert_eq!(stream.receive().id, id);
    }
    server.stop();
}

#[test]
fn a_query_that_begins_shortly_before_the_end_of_the_idle_time_has_its_time_once() {
    let corefile = ".:0 {\n bind 127.0.0.1\n timeouts {\n  read 2s\n  idle 1s\n }\n whoami\n}";
    let server = Server::start(corefile);
    let address = server.address();
    let query = framed(&question(1, "example.org A"));
    let begin = || {
        let mut client = Stream::connect(address);
        assert_answered(&client.ask("example.org A"));
        std::thread::sleep(Duration::from_millis(700));
        client.0.write_all(&query[..1]).unwrap();
        client
    };
    let (mut client, mut slow) = (begin(), begin());
    let began = Instant::now();
    std::thread::sleep(Duration::from_millis(700));
    client.0.write_all(&query[1..]).unwrap();
    assert_answered(&client.receive());
    // Single octets, and messages without any, do not have it begin anew.
    let mut rest = [0, 0, 0, 0, 0].iter().chain([0].iter().cycle());
    while slow.is_open() {
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        _ = slow.0.write_all(&[*rest.next().unwrap()]);
        std::thread::sleep(Duration::from_millis(100));
    }
    server.stop();
}

#[test]
fn responses_arrive_whole_although_more_was_sent_than_is_read() {
    let upstream = Upstream::start(|asked| vec![Act::Send(asked.long_answer(2_400))]);
    let forward = format!("forward . {} {{\n force_tcp\n }}", upstream.address);
    let server = Server::start(&format!(
        ".:0 {{\n bind 127.0.0.1\n timeouts {{\n maxtcpqueries 3\n }}\n {forward}\n}}"
    ));
    // More queries than may be asked, and a message that is too long behind one.
    let long = [vec![0xff; 2], vec![0; 60_000]].concat();
    let many: Vec<u8> = (3..2000).flat_map(|id| framed(&question(id, "big.test TXT"))).collect();
    for (asked, behind) in [(3, many), (1, long)] {
        // What the server writes has no room at the client until that reads.
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(2048).unwrap();
        socket.connect(&server.address().into()).unwrap();
        let mut client = Stream(socket.into());
        client.0.set_read_timeout(Some(PATIENCE)).unwrap();
        let queries = (0..asked).flat_map(|id| framed(&question(id, "big.test TXT")));
        let octets: Vec<u8> = queries.chain(behind).collect();
        client.0.write_all(&octets).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let mut octets = Vec::new();
        client.0.read_to_end(&mut octets).unwrap();
        let mut rest = &octets[..];
        let messages = std::iter::from_fn(|| {
            let wire = read_message(&mut rest).ok()?;
            Some(Message::parse(&wire).unwrap())
        });
        assert_eq!(messages.filter(|own| own.answer.len() > 5).count(), asked.into());
        drop(client);
        eventually("the end", || server.count("nodens_tcp_connections") == 0);
    }
    server.stop();
}

#[test]
fn a_stop_waits_for_no_client_to_end() {
    let corefile = ".:0 {\n bind 127.0.0.1\n timeouts {\n  maxtcpqueries 1\n }\n whoami\n}";
    let server = Server::start(corefile);
    let mut client = Stream::connect(server.address());
    assert_answered(&client.ask("example.org A"));
    assert!(client.is_closed());
    let began = Instant::now();
    server.runtime.shutdown(Duration::from_secs(10));
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}
