//! Upstreams over QUIC, those that they are and others, which keep to the rules or do not.

use super::client::{ask_tcp, ask_udp, assert_answered, framed, question, receive, udp_client};
use super::encrypted::{ADDRESS, Authority, forward};
use super::quic_upstream::{Act, QuicUpstream, Setup, get};
use super::server::eventually;
use super::upstream::{Asked, Upstream, with_id};
use nodens_core::upstream::Peer;
use nodens_net::Way;
use nodens_net::limits::UPSTREAM_CONNECTIONS;
use nodens_tls::{Client, ClientFiles, Protocol, server_name};
use nodens_wire::{Message, Name, Rcode, Type};
use rcgen::date_time_ymd;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

#[test]
fn queries_of_all_clients_share_a_few_connections_over_quic() {
    let authority = Authority::new();
    let upstream = QuicUpstream::prompt(authority.signed(ADDRESS, |_| {}));
    let server = forward(&upstream.to(), &authority.tls());
    let address = server.address();
    let clients: Vec<_> = (0..20)
        .map(|client| {
            std::thread::spawn(move || {
                for n in 0..20 {
                    let text = format!("n{n}.c{client}.test A");
                    let answer = match n % 2 {
                        0 => ask_udp(address, &text),
                        _ => ask_tcp(address, &text),
                    };
                    assert_eq!(answer.answer[0].rdata, [192, 0, 2, 1]);
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    // A query that takes long on a busy machine is asked again.
    let queries = get(&upstream.seen.queries);
    assert!((400..=500).contains(&queries), "{queries}");
    let connections = get(&upstream.seen.connections);
    assert!(connections <= 2 * UPSTREAM_CONNECTIONS, "{connections}");
    let text = server.shared.registry.render();
    let series = |kind: &str| {
        let to = upstream.address;
        let line = format!(
            "coredns_proxy_conn_cache_{kind}_total{{proxy_name=\"forward\",to=\"{to}\",proto=\"quic\"}} "
        );
        let found = text.lines().find_map(|own| own.strip_prefix(&line));
        found.unwrap_or_else(|| panic!("{line} in {text}")).parse::<usize>().unwrap()
    };
    assert!(series("misses") >= 1 && series("hits") + series("misses") >= 400);
    server.stop();
    // It was told that nothing follows.
    eventually("the end of all connections", || get(&upstream.seen.open) == 0);
    let closed = upstream.seen.closed.lock().unwrap();
    assert!(!closed.is_empty() && closed.iter().all(|code| *code == 0), "{closed:?}");
}

#[test]
fn the_length_of_a_query_over_quic_says_little_of_what_is_asked() {
    let authority = Authority::new();
    let lens = Arc::new(Mutex::new(Vec::new()));
    let seen = lens.clone();
    let pair = authority.signed(ADDRESS, |_| {});
    let upstream = QuicUpstream::start(pair, Setup::default(), move |asked| {
        seen.lock().unwrap().push(asked.wire.len());
        vec![Act::Answer]
    });
    let server = forward(&upstream.to(), &authority.tls());
    let long = "n".repeat(63);
    for name in
        ["a", "much.longer.names.are.padded.to.the.same.length", &format!("{long}.{long}.{long}")]
    {
        assert_answered(&ask_udp(server.address(), &format!("{name}.test A")));
    }
    let lens = lens.lock().unwrap();
    assert!(lens.len() >= 3 && lens.iter().all(|len| [128, 256].contains(len)), "{lens:?}");
    server.stop();
}

#[test]
fn who_is_not_the_upstream_is_asked_nothing_over_quic_and_the_log_says_why() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let good = authority.signed(ADDRESS, |_| {});
    let expired = authority.signed(ADDRESS, |params| params.not_after = date_time_ymd(2020, 2, 3));
    let refused = "(local): tls: failed to verify certificate: x509: ";
    let dot = Setup { protocol: b"dot", ..Setup::default() };
    for (pair, setup, options, wanted) in [
        (
            &good,
            Setup::default(),
            "tls_servername other.example",
            [refused, "certificate is valid for dns.example, not other.example"],
        ),
        (&expired, Setup::default(), "", [refused, "Z is after 2020-02-03T00:00:00Z"]),
        (
            &stranger.signed(ADDRESS, |_| {}),
            Setup::default(),
            "",
            ["CRYPTO_ERROR 0x1", "certificate signed by unknown authority"],
        ),
        (&good, dot, "", ["CRYPTO_ERROR 0x178 (remote): ", "protocol"]),
    ] {
        let pair = (pair.0.clone(), pair.1.clone_key());
        let upstream = QuicUpstream::start(pair, setup, |_| vec![Act::Answer]);
        let server = forward(&upstream.to(), &format!("{}{options}", authority.tls()));
        let begun = Instant::now();
        assert_eq!(ask_udp(server.address(), "name.test A").flags.rcode(), Rcode::SERVFAIL);
        let log = server.log();
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}: {log}", begun.elapsed());
        assert!(wanted.iter().all(|one| log.contains(one)), "{wanted:?}: {log}");
        assert_eq!(get(&upstream.seen.queries) + get(&upstream.seen.checks), 0, "{wanted:?}");
        server.stop();
    }
}

/// Answers with this in the place of a response.
fn instead(of: impl Fn(Vec<u8>) -> Vec<Act> + Send + Sync + 'static) -> Box<BadScript> {
    Box::new(move |asked| of(asked.answer()))
}

type BadScript = dyn Fn(&Asked) -> Vec<Act> + Send + Sync;

#[test]
fn what_is_no_response_fails_the_query_and_what_is_no_dns_over_quic_the_connection() {
    let authority = Authority::new();
    let prefix = "DNS-over-QUIC protocol error: ";
    let end = |octets| vec![Act::Raw(octets), Act::Finish];
    let other = |mut answer: Vec<u8>| {
        answer[14] ^= 1;
        answer
    };
    for (script, wanted, code) in [
        (
            instead(move |answer| end(framed(&with_id(answer, 7)))),
            "response message ID is 7, want 0",
            Some(2),
        ),
        (instead(move |_| end(vec![0, 0])), "zero-length DNS message", Some(2)),
        (instead(move |_| end(vec![1])), "incomplete message length", Some(2)),
        (instead(move |_| end(Vec::new())), "incomplete message length", Some(2)),
        (
            instead(move |answer| end(framed(&answer)[..9].to_vec())),
            "message ended before ",
            Some(2),
        ),
        (
            instead(move |answer| end([framed(&answer), framed(&answer)].concat())),
            "multiple responses on one query stream",
            Some(2),
        ),
        // Responses to other queries, and what is no response at all.
        (instead(move |answer| end(framed(&other(answer)))), "is none to the query", None),
        (instead(move |_| end(framed(&[0; 5]))), "is none to the query", None),
        (instead(|_| vec![Act::Reset(1)]), "stream 0 canceled by remote with error code 1", None),
        // Whole, but who knows what follows.
        (
            instead(|answer| vec![Act::Raw(framed(&answer)), Act::Wait(20_000 * MS)]),
            "i/o timeout",
            None,
        ),
        (instead(|_| vec![Act::Wait(20_000 * MS)]), "i/o timeout", None),
    ] {
        let pair = authority.signed(ADDRESS, |_| {});
        let upstream = QuicUpstream::start(pair, Setup::default(), script);
        let options = "read_timeout 200ms\nmax_connect_attempts 1";
        let server = forward(&upstream.to(), &format!("{}{options}", authority.tls()));
        assert_eq!(ask_udp(server.address(), "name.test A").flags.rcode(), Rcode::SERVFAIL);
        let log = server.log();
        assert!(log.contains(wanted), "{wanted}: {log}");
        assert_eq!(log.contains(prefix), code.is_some(), "{wanted}: {log}");
        let has_ended = || upstream.seen.closed.lock().unwrap().first().copied() == code;
        eventually("the end of a connection", has_ended);
        assert_eq!(get(&upstream.seen.queries), 1);
        // It may be meant for another upstream, or another time.
        let plain = Upstream::prompt();
        let to = format!("{} {}", plain.address, upstream.to());
        // This begins with the second one.
        let options = "read_timeout 60s\npolicy round_robin";
        let both = forward(&to, &format!("{}{options}", authority.tls()));
        assert_answered(&ask_udp(both.address(), "name.test A"));
        both.stop();
        server.stop();
    }
}

#[test]
fn a_connection_that_its_upstream_closes_costs_no_query_and_its_session_is_resumed_over_quic() {
    let authority = Authority::new();
    let pair = authority.signed(ADDRESS, |_| {});
    let upstream = QuicUpstream::start(pair, Setup::default(), |_| {
        vec![Act::Answer, Act::Wait(30 * MS), Act::Close(0)]
    });
    let server = forward(&upstream.to(), &authority.tls());
    for n in 0..5 {
        assert_answered(&ask_udp(server.address(), &format!("n{n}.test A")));
        std::thread::sleep(60 * MS);
    }
    let (all, resumed) = (get(&upstream.seen.connections), get(&upstream.seen.resumed));
    assert!(all >= 5 && resumed >= 3 && resumed < all, "{resumed} of {all}");
    server.stop();
    // One that closes in the place of an answer is asked once more, on another connection.
    for code in [0, 1, 4] {
        let pair = authority.signed(ADDRESS, |_| {});
        let upstream =
            QuicUpstream::start(pair, Setup::default(), move |asked| match asked.number {
                0 => vec![Act::Close(code)],
                _ => vec![Act::Answer],
            });
        let server = forward(&upstream.to(), &authority.tls());
        assert_answered(&ask_udp(server.address(), "name.test A"));
        assert_eq!(get(&upstream.seen.connections), 2);
        server.stop();
    }
}

#[test]
fn why_an_upstream_closes_is_logged() {
    let authority = Authority::new();
    let pair = authority.signed(ADDRESS, |_| {});
    let upstream = QuicUpstream::start(pair, Setup::default(), |_| vec![Act::Close(2)]);
    let server = forward(&upstream.to(), &authority.tls());
    assert_eq!(ask_udp(server.address(), "name.test A").flags.rcode(), Rcode::SERVFAIL);
    let log = server.log();
    assert!(log.contains("Application error 0x2 (remote): so it is"), "{log}");
    server.stop();
}

#[test]
fn a_query_that_nobody_waits_for_is_cancelled() {
    let authority = Authority::new();
    let pair = authority.signed(ADDRESS, |_| {});
    let upstream = QuicUpstream::start(pair, Setup::default(), |asked| match asked.number {
        0 => vec![Act::Wait(20_000 * MS)],
        _ => vec![Act::Answer],
    });
    let server = forward(&upstream.to(), &authority.tls());
    // It takes longer than usual, and is asked elsewhere.
    assert_answered(&ask_udp(server.address(), "name.test A"));
    eventually("a query that is cancelled", || !upstream.seen.cancelled.lock().unwrap().is_empty());
    assert!(upstream.seen.cancelled.lock().unwrap().iter().all(|code| *code == 3));
    // Its connection goes on.
    assert!(upstream.seen.closed.lock().unwrap().is_empty());
    server.stop();
}

#[test]
fn as_many_queries_wait_as_an_upstream_allows_streams() {
    let authority = Authority::new();
    let pair = authority.signed(ADDRESS, |_| {});
    let setup = Setup { streams_max: 2, window: 20, ..Setup::default() };
    let upstream = QuicUpstream::start(pair, setup, |_| vec![Act::Answer]);
    let options = format!("{}read_timeout 60s\nmax_connect_attempts 1", authority.tls());
    let server = forward(&upstream.to(), &options);
    let client = udp_client(server.address());
    for number in 0..200 {
        client.send(&question(number, &format!("n{number}.a-name-of-some-length.test A"))).unwrap();
    }
    (0..200).for_each(|_| assert_answered(&receive(&client)));
    let streams = get(&upstream.seen.streams);
    assert!((1..=2).contains(&streams), "{streams}");
    assert_eq!(get(&upstream.seen.queries), 200);
    server.stop();
}

#[test]
fn answers_over_quic_may_come_in_any_order_and_at_any_length() {
    let authority = Authority::new();
    let pair = authority.signed(ADDRESS, |_| {});
    let upstream = QuicUpstream::start(pair, Setup::default(), |asked| {
        match asked.name().strip_prefix('n').and_then(|rest| rest.split('.').next()?.parse().ok()) {
            Some(n) => vec![Act::Wait(MS * 3 * (20_u32.saturating_sub(n))), Act::Answer],
            None => {
                let octets = framed(&asked.long_answer(65_535));
                let (first, rest) = octets.split_at(1);
                let (first, rest) = (Act::Raw(first.to_vec()), Act::Raw(rest.to_vec()));
                vec![first, Act::Wait(30 * MS), rest, Act::Wait(30 * MS), Act::Finish]
            }
        }
    });
    let options = format!("{}read_timeout 60s\nmax_connect_attempts 1", authority.tls());
    let server = forward(&upstream.to(), &options);
    let client = udp_client(server.address());
    for number in 0..20 {
        client.send(&question(number, &format!("n{number}.test A"))).unwrap();
    }
    for _ in 0..20 {
        let answer = receive(&client);
        assert_answered(&answer);
        assert_eq!(answer.questions[0].qname.to_string(), format!("n{}.test.", answer.id));
    }
    let answer = ask_tcp(server.address(), "long.test TXT");
    assert!(answer.answer.len() > 200, "{}", answer.answer.len());
    server.stop();
}

#[test]
fn acknowledgements_to_upstreams_are_not_padded() {
    let authority = Authority::new();
    let upstream = QuicUpstream::prompt(authority.signed(ADDRESS, |_| {}));
    let server = forward(&upstream.to(), &authority.tls());
    for n in 0..6 {
        assert_answered(&ask_udp(server.address(), &format!("n{n}.test A")));
        // The response is acknowledged before the next query.
        std::thread::sleep(60 * MS);
    }
    // Padding makes them count as in flight, and no server acknowledges them (RFC 9000 section 13.2.7).
    let lengths = upstream.seen.lengths.lock().unwrap().clone();
    let short = lengths.iter().filter(|len| **len < 60).count();
    assert!(short >= 3, "{lengths:?}");
    server.stop();
}

#[test]
fn packets_that_are_lost_lose_no_query() {
    let authority = Authority::new();
    for loss in [6, 10] {
        let pair = authority.signed(ADDRESS, |_| {});
        let setup = Setup { loss, ..Setup::default() };
        let upstream = QuicUpstream::start(pair, setup, |_| vec![Act::Answer]);
        let server = forward(&upstream.to(), &format!("{}read_timeout 60s", authority.tls()));
        for n in 0..20 {
            let answer = ask_udp(server.address(), &format!("n{n}.test A"));
            assert_eq!(answer.flags.rcode(), Rcode::NOERROR, "{loss}: {}", server.log());
        }
        server.stop();
    }
}

#[test]
fn forged_packets_and_streams_of_a_server_harm_nothing() {
    let authority = Authority::new();
    let pair = authority.signed(ADDRESS, |_| {});
    let upstream = QuicUpstream::start(pair, Setup::default(), |_| {
        vec![Act::Forge, Act::Stop(0), Act::Open, Act::Answer]
    });
    let options = format!("{}read_timeout 60s\nmax_connect_attempts 1", authority.tls());
    let server = forward(&upstream.to(), &options);
    for n in 0..20 {
        assert_answered(&ask_udp(server.address(), &format!("n{n}.test A")));
    }
    assert_eq!(get(&upstream.seen.connections), 1);
    assert!(upstream.seen.closed.lock().unwrap().is_empty());
    server.stop();
}

#[test]
fn an_upstream_that_starts_again_says_so_and_loses_no_query() {
    let authority = Authority::new();
    let pair = || authority.signed(ADDRESS, |_| {});
    let mut upstream = QuicUpstream::prompt(pair());
    // Nothing is made good by another attempt but the broken connection.
    let server = forward(&upstream.to(), &format!("{}read_timeout 60s", authority.tls()));
    for n in 0..3 {
        assert_answered(&ask_udp(server.address(), &format!("n{n}.test A")));
        let address = upstream.address;
        drop(upstream);
        upstream = QuicUpstream::start_at(address, pair(), Setup::default(), |_| vec![Act::Answer]);
        let begun = Instant::now();
        assert_answered(&ask_udp(server.address(), &format!("m{n}.test A")));
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }
    server.stop();
}

#[test]
fn an_upstream_that_falls_silent_is_made_good_by_another() {
    let authority = Authority::new();
    let upstream = QuicUpstream::prompt(authority.signed(ADDRESS, |_| {}));
    let plain = Upstream::prompt();
    let to = format!("{} {}", upstream.to(), plain.address);
    let server = forward(&to, &format!("{}policy sequential\nread_timeout 400ms", authority.tls()));
    assert_answered(&ask_udp(server.address(), "first.test A"));
    assert_eq!(plain.count(), 0);
    upstream.seen.is_frozen.store(true, Ordering::SeqCst);
    let begun = Instant::now();
    for n in 0..20 {
        assert_answered(&ask_udp(server.address(), &format!("n{n}.test A")));
    }
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert!(plain.count() >= 20);
    // It is found again, by a health check at the latest.
    upstream.seen.is_frozen.store(false, Ordering::SeqCst);
    eventually("the first upstream to be asked", || {
        assert_answered(&ask_udp(server.address(), "again.test A"));
        get(&upstream.seen.queries) > 1 && get(&upstream.seen.checks) > 0
    });
    server.stop();
}

#[test]
fn where_nobody_listens_for_quic_is_noticed_at_once() {
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = closed.local_addr().unwrap();
    // It has the port, and takes nothing from others.
    closed.connect(("127.0.0.1", 9)).unwrap();
    let plain = Upstream::prompt();
    let authority = Authority::new();
    let to = format!("quic://{address} {}", plain.address);
    let begun = Instant::now();
    let server = forward(&to, &format!("{}policy sequential", authority.tls()));
    assert_answered(&ask_udp(server.address(), "name.test A"));
    server.stop();
    let server = forward(&format!("quic://{address}"), &authority.tls());
    assert_eq!(ask_udp(server.address(), "name.test A").flags.rcode(), Rcode::SERVFAIL);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    let log = server.log();
    assert!(log.contains(&format!("dial udp {address}: connect: connection refused")), "{log}");
    server.stop();
}

#[test]
fn a_handshake_over_quic_may_be_slow_but_not_endless() {
    let authority = Authority::new();
    let slow = Setup { delay: 400 * MS, ..Setup::default() };
    let upstream =
        QuicUpstream::start(authority.signed(ADDRESS, |_| {}), slow, |_| vec![Act::Answer]);
    let server = forward(&upstream.to(), &format!("{}read_timeout 200ms", authority.tls()));
    assert_answered(&ask_udp(server.address(), "name.test A"));
    assert_eq!((get(&upstream.seen.connections), get(&upstream.seen.queries)), (1, 1));
    server.stop();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let server = forward(&format!("quic://{address}"), &authority.tls());
    let begun = Instant::now();
    assert_eq!(ask_udp(server.address(), "name.test A").flags.rcode(), Rcode::SERVFAIL);
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    let log = server.log();
    assert!(log.contains(&format!("dial udp {address}: quic handshake: i/o timeout")), "{log}");
    server.stop();
}

#[test]
fn an_idle_connection_over_quic_ends_in_time() {
    let authority = Authority::new();
    let upstream = QuicUpstream::prompt(authority.signed(ADDRESS, |_| {}));
    let server = forward(&upstream.to(), &format!("{}expire 200ms", authority.tls()));
    assert_answered(&ask_udp(server.address(), "name.test A"));
    eventually("the end of the connection", || *upstream.seen.closed.lock().unwrap() == [0]);
    assert_answered(&ask_udp(server.address(), "other.test A"));
    assert!(get(&upstream.seen.resumed) >= 1);
    server.stop();
}

#[test]
fn the_source_address_over_quic_is_the_one_asked_for() {
    let authority = Authority::new();
    let pair = authority.signed(ADDRESS, |_| {});
    let upstream = QuicUpstream::start(pair, Setup::default(), |asked| {
        assert_eq!(asked.from.ip().to_string(), "127.0.0.42");
        vec![Act::Answer]
    });
    let server = forward(&upstream.to(), &format!("{}source_address 127.0.0.42", authority.tls()));
    assert_answered(&ask_udp(server.address(), "udp.test A"));
    assert_answered(&ask_tcp(server.address(), "tcp.test A"));
    server.stop();
}

#[test]
fn one_query_may_be_asked_over_quic_without_a_worker() {
    let authority = Authority::new();
    let upstream = QuicUpstream::prompt(authority.signed(ADDRESS, |_| {}));
    let files = ClientFiles { certificate: None, authorities: Some(authority.file("ca.pem")) };
    let client = Arc::new(Client::load(files).unwrap());
    let qname: Name = "name.test.".parse().unwrap();
    let ask = |name: &str| {
        let peer = Peer::new(client.clone(), server_name(name).unwrap(), Protocol::Doq);
        let way = Way::Quic(Arc::new(peer));
        nodens_net::ask(upstream.address, &way, qname.view(), Type::A, 250 * MS)
    };
    assert_eq!(Message::parse(&ask("dns.example").unwrap()).unwrap().answer.len(), 1);
    let error = ask("other.example").unwrap_err();
    assert!(error.to_string().contains("x509: certificate is valid for dns.example"), "{error}");
    upstream.seen.is_frozen.store(true, Ordering::SeqCst);
    assert_eq!(ask("dns.example").unwrap_err().kind(), ErrorKind::TimedOut);
    let address = upstream.address;
    drop(upstream);
    let peer = Peer::new(client.clone(), server_name("dns.example").unwrap(), Protocol::Doq);
    let way = Way::Quic(Arc::new(peer));
    let error = nodens_net::ask(address, &way, qname.view(), Type::A, 250 * MS).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}
