//! Upstreams that answer well, badly, late or not at all.

use super::client::{Stream, ask_tcp, ask_udp, assert_answered, question, receive, udp_client};
use super::server::Server;
use super::upstream::{Act, Upstream, with_id};
use nodens_net::limits::UPSTREAM_CONNECTIONS;
use nodens_wire::{Rcode, Type};
use std::collections::HashSet;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn forward(to: &[SocketAddr], options: &str) -> Server {
    let to: Vec<String> = to.iter().map(ToString::to_string).collect();
    let to = to.join(" ");
    Server::start(&format!(
        ".:0 {{\n bind 127.0.0.1\n errors\n forward . {to} {{\n{options}\n}}\n}}"
    ))
}

/// No attempt times out before its question does, which then is answered with SERVFAIL: what has
/// another answer did not wait for that.
pub(crate) const WAITS: &str = "read_timeout 60s\n";

/// An address where nobody listens and, as long as this process lives, nobody else can: two sockets
/// have it, one of which does not listen and the other has another peer.
fn nobody() -> SocketAddr {
    use socket2::{Domain, Socket, Type};
    loop {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = udp.local_addr().unwrap();
        let tcp = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        if tcp.bind(&address.into()).is_ok() {
            udp.connect(("127.0.0.1", 9)).unwrap();
            std::mem::forget((udp, tcp));
            return address;
        }
    }
}

#[test]
fn queries_at_once_are_all_answered_by_an_upstream_that_closes_after_each_answer() {
    let upstream = Upstream::start(|asked| vec![Act::Send(asked.answer()), Act::Reset]);
    let server = forward(&[upstream.address], "force_tcp");
    let address = server.address();
    for round in 0..3 {
        let clients: Vec<_> = (0..20)
            .map(|n| {
                let text = format!("n{n}.r{round}.test A");
                std::thread::spawn(move || assert_answered(&ask_udp(address, &text)))
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
    }
    // Over TLS it is never asked.
    assert!(!server.shared.registry.render().contains("tcp-tls"));
    server.stop();
}

#[test]
fn wrong_ids_and_questions_are_ignored_and_the_true_answer_counts() {
    let upstream = Upstream::start(|asked| {
        let wrong_id = with_id(asked.answer(), asked.message.id ^ 1);
        let mut wrong_name = asked.answer();
        wrong_name[14] ^= 1;
        let mut wrong_type = asked.answer();
        let type_at = 12 + asked.message.questions[0].qname.as_wire().len() + 1;
        wrong_type[type_at] = 28;
        let echo = asked.wire.clone();
        let mut upper_case = asked.answer();
        upper_case[13..17].make_ascii_uppercase();
        [wrong_id, wrong_name, wrong_type, echo, upper_case].map(Act::Send).into()
    });
    let server = forward(&[upstream.address], "policy sequential");
    let answer = ask_udp(server.address(), "name.test A");
    assert_answered(&answer);
    assert_eq!(answer.answer[0].rdata, [192, 0, 2, 1]);
    assert_eq!(answer.questions[0].qname.to_string(), "name.test.");
    let answer = ask_tcp(server.address(), "mane.test A");
    assert_eq!(answer.answer[0].rdata, [192, 0, 2, 1]);
    assert_eq!(server.count("nodens_upstream_strays_total"), 8);
    server.stop();
}

#[test]
fn a_header_alone_that_complains_is_an_answer() {
    let upstream = Upstream::start(|asked| {
        let mut header = asked.answer()[..12].to_vec();
        header[3] = 0x80 | Rcode::NOTIMP.0 as u8;
        header[4..].fill(0);
        vec![Act::Send(header)]
    });
    let server = forward(&[upstream.address], "");
    let answer = ask_udp(server.address(), "name.test A");
    assert_eq!(answer.flags.rcode(), Rcode::NOTIMP);
    assert_eq!(answer.questions[0].qname.to_string(), "name.test.");
    server.stop();
}

#[test]
fn a_silent_upstream_is_made_good_by_another() {
    let (silent, prompt) = (Upstream::start(|_| Vec::new()), Upstream::prompt());
    let to = [prompt.address, silent.address];
    let server = forward(&to, &format!("{WAITS}policy round_robin"));
    // The first one and the third begin with the second upstream.
    assert_answered(&ask_udp(server.address(), "udp.test A"));
    assert_answered(&ask_udp(server.address(), "turn.test A"));
    assert_answered(&ask_tcp(server.address(), "tcp.test A"));
    assert!(silent.count() >= 2 && prompt.count() >= 3);
    server.stop();
}

#[test]
fn a_silent_upstream_alone_ends_in_a_servfail_whose_reason_is_logged() {
    let silent = Upstream::start(|_| Vec::new());
    let options = "read_timeout 300ms\nmax_connect_attempts 1";
    let server = forward(&[silent.address], options);
    for transport in ["udp", "tcp"] {
        let name = format!("{transport}.test A");
        let answer = match transport {
            "udp" => ask_udp(server.address(), &name),
            _ => ask_tcp(server.address(), &name),
        };
        assert_eq!(answer.flags.rcode(), Rcode::SERVFAIL);
        // Our own address is told of an attempt that timed out, and not of a question that did.
        let (log, to) = (server.log(), silent.address);
        assert!(log.contains(&format!("read {transport} 127.0.0.1:")), "{log}");
        assert!(log.contains(&format!("->{to}: i/o timeout")), "{log}");
    }
    server.stop();
}

#[test]
fn a_connection_that_is_not_made_is_given_up() {
    // A listener that accepts nobody: once its queue is full, the kernel answers no SYN.
    let deaf = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    deaf.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    deaf.listen(0).unwrap();
    let address = deaf.local_addr().unwrap().as_socket().unwrap();
    let _waiting: Vec<_> = (0..3)
        .map(|_| std::net::TcpStream::connect_timeout(&address, Duration::from_millis(100)))
        .collect();
    let server = forward(&[address], "read_timeout 300ms\nmax_connect_attempts 1");
    assert_eq!(ask_tcp(server.address(), "tcp.test A").flags.rcode(), Rcode::SERVFAIL);
    let log = server.log();
    assert!(log.contains(&format!("dial tcp {address}: i/o timeout")), "{log}");
    server.stop();
}

#[test]
fn a_refusal_is_logged_in_the_words_of_go() {
    let nobody = nobody();
    let server = forward(&[nobody], "");
    assert_eq!(ask_udp(server.address(), "udp.test A").flags.rcode(), Rcode::SERVFAIL);
    assert_eq!(ask_tcp(server.address(), "tcp.test A").flags.rcode(), Rcode::SERVFAIL);
    let log = server.log();
    let (udp, tcp) = (
        format!("->{nobody}: read: connection refused"),
        format!("dial tcp {nobody}: connect: connection refused"),
    );
    assert!(log.contains("read udp 127.0.0.1:") && log.contains(&udp), "{log}");
    assert!(log.contains(&tcp), "{log}");
    server.stop();
}

#[test]
fn a_connection_that_went_dead_does_not_hold_up_questions_for_long() {
    // The first connection hears nothing any more after its first question.
    let first: Mutex<Option<SocketAddr>> = Mutex::default();
    let silences: Arc<Mutex<Vec<String>>> = Arc::default();
    let unheard = silences.clone();
    let upstream = Upstream::start(move |asked| {
        let dead = *first.lock().unwrap().get_or_insert(asked.from);
        if asked.number > 0 && asked.from == dead {
            unheard.lock().unwrap().push(asked.name());
            return Vec::new();
        }
        vec![Act::Send(asked.answer())]
    });
    let server = forward(&[upstream.address], "force_tcp\nread_timeout 400ms");
    let mut client = Stream::connect(server.address());
    assert_answered(&client.ask("first.test A"));
    for number in 0..20 {
        client.send(number, &format!("n{number}.test A"));
    }
    for _ in 0..20 {
        assert_answered(&client.receive());
    }
    assert_answered(&client.ask("last.test A"));
    let silences = silences.lock().unwrap();
    assert!(
        !silences.is_empty() && !silences.iter().any(|name| name == "last.test."),
        "{silences:?}"
    );
    server.stop();
}

#[test]
fn a_closed_port_is_noticed_at_once() {
    let prompt = Upstream::prompt();
    let server = forward(&[nobody(), prompt.address], &format!("{WAITS}policy sequential"));
    assert_answered(&ask_udp(server.address(), "udp.test A"));
    assert_answered(&ask_tcp(server.address(), "tcp.test A"));
    server.stop();
}

#[test]
fn a_reset_connection_loses_no_question() {
    let upstream = Upstream::start(|asked| match asked.number {
        2 | 5 => vec![Act::Reset],
        _ => vec![Act::Send(asked.answer())],
    });
    let server = forward(&[upstream.address], "");
    let mut client = Stream::connect(server.address());
    for number in 0..10 {
        assert_answered(&client.ask(&format!("n{number}.test A")));
    }
    server.stop();
}

#[test]
fn the_longest_answer_there_can_be_comes_through() {
    let upstream = Upstream::start(|asked| vec![Act::Send(asked.long_answer(65_535))]);
    let server = forward(&[upstream.address], "force_tcp");
    let mut client = Stream::connect(server.address());
    client.send(1, "long.test TXT");
    let answer = client.receive_bytes().unwrap();
    assert!(answer.len() > 65_500, "{} octets", answer.len());
    let cut = ask_udp(server.address(), "long.test TXT");
    assert!(cut.flags.has(nodens_wire::Flags::TC));
    server.stop();
}

#[test]
fn answers_of_one_connection_may_come_in_any_order() {
    // Keeps questions back until it has ten, then answers the last one first.
    let held: Mutex<Vec<Vec<u8>>> = Mutex::default();
    let upstream = Upstream::start(move |asked| {
        let mut held = held.lock().unwrap();
        held.push(asked.answer());
        if held.len() < 10 {
            return Vec::new();
        }
        held.drain(..).rev().map(Act::Send).collect()
    });
    let server = forward(&[upstream.address], "force_tcp");
    let mut client = Stream::connect(server.address());
    let ids: HashSet<u16> = (0..10).collect();
    for id in &ids {
        client.send(*id, &format!("n{id}.test A"));
    }
    let mut answered = HashSet::new();
    for _ in 0..10 {
        let answer = client.receive();
        let expected = format!("n{}.test.", answer.id);
        assert_eq!(answer.questions[0].qname.to_string(), expected);
        assert_eq!(answer.answer[0].rtype, Type::A);
        answered.insert(answer.id);
    }
    assert_eq!(answered, ids);
    assert!(upstream.connections.load(std::sync::atomic::Ordering::SeqCst) <= 2);
    server.stop();
}

#[test]
fn many_questions_share_a_few_connections() {
    let upstream = Upstream::start(|asked| {
        vec![Act::Wait(Duration::from_millis(20)), Act::Send(asked.answer())]
    });
    // Each is asked once, on a connection that as few others as possible wait for.
    let options = format!("{WAITS}force_tcp\nmax_connect_attempts 1");
    let server = forward(&[upstream.address], &options);
    let client = udp_client(server.address());
    for round in 0..10 {
        for number in 0..50 {
            client.send(&question(number, &format!("n{round}-{number}.test A"))).unwrap();
        }
        for _ in 0..50 {
            assert_answered(&receive(&client));
        }
    }
    let connections = upstream.connections.load(std::sync::atomic::Ordering::SeqCst);
    assert!((1..=16).contains(&connections), "{connections} connections");
    server.stop();
}

#[test]
fn a_slow_upstream_keeps_its_connections() {
    // Slow so rarely that such a question is asked twice, and the second answer comes for nobody.
    let upstream = Upstream::start(|asked| {
        let slow = asked.name().starts_with("slow");
        let wait = slow.then_some(Act::Wait(Duration::from_millis(250)));
        wait.into_iter().chain([Act::Send(asked.answer())]).collect()
    });
    let server = forward(&[upstream.address], &format!("{WAITS}force_tcp"));
    let mut client = Stream::connect(server.address());
    for round in 0..10 {
        for batch in 0..12 {
            (0..50).for_each(|id| client.send(id, &format!("quick{round}-{batch}-{id}.test A")));
            (0..50).for_each(|_| assert_answered(&client.receive()));
        }
        (0..2).for_each(|id| client.send(id, &format!("slow{round}-{id}.test A")));
        (0..2).for_each(|_| assert_answered(&client.receive()));
    }
    assert!(upstream.count() > 10 * (12 * 50 + 2), "nothing was asked twice");
    let connections = upstream.connections.load(std::sync::atomic::Ordering::SeqCst);
    assert!(connections <= 2 * UPSTREAM_CONNECTIONS, "{connections} connections");
    server.stop();
}

#[test]
fn ports_and_ids_towards_an_upstream_cannot_be_foreseen() {
    let upstream = Upstream::prompt();
    let server = forward(&[upstream.address], "");
    let client = udp_client(server.address());
    for number in 0..256 {
        client.send(&question(number, &format!("n{number}.test A"))).unwrap();
        receive(&client);
    }
    let seen = upstream.seen.lock().unwrap().clone();
    let ports: HashSet<u16> = seen.iter().map(|(from, _)| from.port()).collect();
    let ids: HashSet<u16> = seen.iter().map(|(_, id)| *id).collect();
    assert!(ports.len() >= 32, "{} ports", ports.len());
    assert!(ids.len() > 200, "{} IDs", ids.len());
    let neighbours = seen.windows(2).filter(|pair| pair[0].1.abs_diff(pair[1].1) < 16).count();
    assert!(neighbours < 10, "{neighbours} IDs are near the one before");
    server.stop();
}

#[test]
fn a_truncated_answer_is_asked_for_again_in_a_stream() {
    let upstream = Upstream::start(|asked| {
        let mut answer = asked.long_answer(3000);
        if asked.number == 0 {
            answer.truncate(12 + asked.message.questions[0].qname.as_wire().len() + 4);
            answer[2] |= 0x02;
            answer[6..8].fill(0);
        }
        vec![Act::Send(answer)]
    });
    let server = forward(&[upstream.address], "prefer_udp");
    let answer = ask_tcp(server.address(), "long.test TXT");
    assert!(answer.answer.len() > 5 && !answer.flags.has(nodens_wire::Flags::TC));
    server.stop();
}

#[test]
fn the_source_address_is_the_one_asked_for() {
    let upstream = Upstream::start(|asked| {
        assert_eq!(asked.from.ip().to_string(), "127.0.0.42");
        vec![Act::Send(asked.answer())]
    });
    let server = forward(&[upstream.address], "source_address 127.0.0.42");
    assert_answered(&ask_udp(server.address(), "udp.test A"));
    assert_answered(&ask_tcp(server.address(), "tcp.test A"));
    server.stop();
}
