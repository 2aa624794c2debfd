//! Upstreams that fail in every way, and clients that misbehave: good queries get good answers
//! throughout.

use crate::fixture::{
    PATIENCE, Server, alone, ask_udp, eventually, framed, free_port, read_message, request,
};
use crate::load::{Load, SOCKET_HOLDS};
use crate::upstreams::{Habit, Upstream, closed};
use nodens_wire::{Message, Rcode, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

const QUICK: Habit = Habit::Answers(Duration::ZERO);

fn forwarding(name: &str, upstreams: &[SocketAddr], options: &str) -> Server {
    let list: Vec<_> = upstreams.iter().map(ToString::to_string).collect();
    let corefile = format!(
        ".:PORT {{\n bind 127.0.0.1\n errors\n cache 30\n forward . {} {{\n {options}\n }}\n}}\n",
        list.join(" ")
    );
    Server::start(name, &corefile)
}

#[test]
fn one_dead_one_frozen_and_one_slow_upstream_fail_no_question() {
    let _alone = alone();
    let frozen = Upstream::start(Habit::Frozen);
    let slow = Upstream::start(Habit::Answers(Duration::from_millis(40)));
    let (dead, metrics) = (closed(), free_port());
    let corefile = format!(
        ".:PORT {{\n bind 127.0.0.1\n errors\n cache 30\n prometheus 127.0.0.1:{metrics}\n \
         forward . {dead} {} {} {{\n force_tcp\n }}\n}}\n",
        frozen.address, slow.address
    );
    let server = Server::start_with("three", &corefile, &["-workers", "2"]);
    let load = Load::start(server.address, (500, SOCKET_HOLDS), |n| format!("n{n}.example.org"));
    let count = |family: &str| {
        let (_, text) = server.get(metrics, "/metrics");
        let of = |to: SocketAddr| {
            let (family, to) = (format!("{family}{{"), format!("to=\"{to}\""));
            let mut lines =
                text.lines().filter(|line| line.starts_with(&family) && line.contains(&to));
            lines.next().map_or(0.0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
        };
        [of(dead), of(frozen.address), of(slow.address)]
    };
    // After more than two failed health checks an upstream is down, and is not asked any more: that
    // nobody waits for it then needs no clock. How few do before is shown where time is simulated.
    eventually("the dead one and the frozen one are down", || {
        let [dead, frozen, _] = count("coredns_proxy_healthcheck_failures_total");
        dead > 2.0 && frozen > 2.0
    });
    let requests = || count("coredns_forward_requests_total");
    let before = requests();
    eventually("2,000 questions to the slow one", || requests()[2] >= before[2] + 2_000.0);
    let after = requests();
    let tally = load.finish();
    let (p50, p99) = (tally.percentile(50.0), tally.percentile(99.0));
    eprintln!("p50 {p50:?}, p99 {p99:?}, {} questions, {before:?} {after:?}", tally.sent);
    let said = (0..server.count_seen("[ERROR]")).map(|_| server.wait_for("[ERROR]"));
    let said: Vec<String> = said.collect();
    assert_eq!((tally.lost, tally.wrong), (0, 0), "of {}: {said:#?}", tally.sent);
    assert!(p99 < Duration::from_secs(1), "p99 {p99:?}");
    let asked = |upstream: usize| after[upstream] - before[upstream];
    // Each worker may have been about to ask when the last health check failed.
    assert!(asked(0) <= 2.0 && asked(1) <= 2.0, "{before:?} {after:?}");
    assert!(before[0] > 0.0 && before[1] > 0.0 && frozen.asked() > 0, "they were asked before");
}

#[test]
fn identical_simultaneous_misses_ask_the_upstream_once() {
    let upstream = Upstream::start(Habit::Uneven);
    let server = forwarding("flight", &[upstream.address], "max_fails 0");
    // Nodens asks again when an upstream takes longer than usual: let it see what is usual here.
    let slow = (0..50).map(|n| send(&server, &format!("slow{n}.example.org"))).collect();
    receive_all(slow);
    let before = upstream.asked();
    let same = (0..SOCKET_HOLDS).map(|_| send(&server, "same.example.org")).collect();
    receive_all(same);
    assert_eq!(upstream.asked() - before, 1);
}

fn send(server: &Server, qname: &str) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send(&request(qname, Type::A)).unwrap();
    socket
}

fn receive_all(sockets: Vec<UdpSocket>) {
    for socket in sockets {
        let mut reply = [0; 512];
        let len = socket.recv(&mut reply).unwrap();
        assert_eq!(Message::parse(&reply[..len]).unwrap().answer.len(), 1);
    }
}

#[test]
fn babbling_resetting_refusing_and_truncating_upstreams_are_lived_with() {
    for (name, habit, options) in [
        ("babbles", Habit::Babbles, "max_fails 3"),
        ("babbles-tcp", Habit::Babbles, "force_tcp"),
        ("truncates", Habit::Truncates, "prefer_udp"),
    ] {
        let upstream = Upstream::start(habit);
        let server = forwarding(name, &[upstream.address], options);
        let answer = server.ask("www.example.org", Type::A);
        assert_eq!((answer.flags.rcode(), answer.answer.len()), (Rcode::NOERROR, 1), "{name}");
    }
    for (name, bad) in [("resets", Upstream::start(Habit::Resets).address), ("refuses", closed())] {
        let good = Upstream::start(QUICK);
        let server = forwarding(name, &[bad, good.address], "force_tcp\n policy sequential");
        for n in 0..20 {
            let answer = server.ask(&format!("n{n}.example.org"), Type::A);
            assert_eq!(answer.answer.len(), 1, "{name}");
        }
    }
}

#[test]
fn an_upstream_may_fill_a_whole_message() {
    let upstream = Upstream::start(Habit::Fills);
    let server = forwarding("fills", &[upstream.address], "force_tcp");
    let mut stream = TcpStream::connect(server.address).unwrap();
    let answer = ask_stream(&mut stream, "big.example.org");
    assert!(answer.answer.len() > 4000, "{} records", answer.answer.len());
    let cut = server.ask("big.example.org", Type::A);
    assert!(cut.flags.has(nodens_wire::Flags::TC) && cut.answer.len() < 40);
}

#[test]
fn an_upstream_that_is_silent_costs_a_servfail_in_time() {
    let upstream = Upstream::start(Habit::Frozen);
    let server = forwarding("silent", &[upstream.address], "max_fails 2");
    let start = Instant::now();
    let answer = ask_udp(server.address, "www.example.org", Type::A).unwrap();
    assert_eq!(answer.flags.rcode(), Rcode::SERVFAIL);
    // Five seconds, as is shown where time is simulated; the rest is for a busy machine.
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    server.wait_for("i/o timeout");
}

fn ask_stream(stream: &mut TcpStream, qname: &str) -> Message {
    let request = request(qname, Type::A);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&framed(&request)).unwrap();
    Message::parse(&read_message(stream).unwrap()).unwrap()
}

#[test]
fn bad_stream_clients_do_not_stop_good_ones() {
    let upstream = Upstream::start(QUICK);
    let server = forwarding("streams", &[upstream.address], "max_fails 3");
    let connect = || TcpStream::connect(server.address).unwrap();
    let mut bad = Vec::new();
    for n in 0..200 {
        let mut stream = connect();
        let start: &[u8] = match n % 4 {
            0 => b"",
            1 => b"\x00",
            2 => b"\xff\xff\x12",
            _ => b"\x00\x05hello",
        };
        _ = stream.write_all(start);
        bad.push(stream);
    }
    // One that asks and never reads.
    let mut greedy = connect();
    greedy.set_nonblocking(true).unwrap();
    let question = request("greedy.example.org", Type::A);
    let framed = framed(&question);
    for _ in 0..20_000 {
        if greedy.write_all(&framed).is_err() {
            break;
        }
    }
    for n in 0..50 {
        let answer = ask_stream(&mut connect(), &format!("n{n}.example.org"));
        assert_eq!(answer.answer.len(), 1);
    }
    server.ask("still.example.org", Type::A);
}

#[test]
fn questions_from_many_ports_are_all_answered() {
    let _alone = alone();
    let server = Server::start("ports", ".:PORT {\n bind 127.0.0.1\n whoami\n}\n");
    for _ in 0..50_000 / SOCKET_HOLDS {
        let sockets: Vec<_> = (0..SOCKET_HOLDS).map(|_| send(&server, "a.example.org")).collect();
        for socket in sockets {
            socket.recv(&mut [0; 512]).expect("an answer on every port");
        }
    }
}

#[test]
fn connections_to_metrics_do_not_take_the_descriptors_of_the_server() {
    let metrics = free_port();
    let corefile =
        format!(".:PORT {{\n bind 127.0.0.1\n whoami\n prometheus 127.0.0.1:{metrics}\n}}\n");
    let server = Server::start("http-flood", &corefile);
    let folder = format!("/proc/{}/fd", server.pid());
    let descriptors = || std::fs::read_dir(&folder).unwrap().count();
    let before = descriptors();
    let open = || TcpStream::connect(("127.0.0.1", metrics)).unwrap();
    let mut held: Vec<TcpStream> = (0..400).map(|_| open()).collect();
    // The oldest have ended by the time that a new one is answered, and who asks is answered.
    assert!(server.get(metrics, "/metrics").0.contains("200"));
    eventually("the oldest end", || descriptors() <= before + 130);
    held[0].set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(matches!(held[0].read(&mut [0]), Ok(0) | Err(_)));
    // Those that wait for a slow client are no exception: they have asked, and read nothing.
    for stream in held.iter_mut().rev().take(64) {
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    }
    held.extend((0..400).map(|_| open()));
    assert!(server.get(metrics, "/metrics").0.contains("200"));
    eventually("they end, too", || descriptors() <= before + 130);
}
