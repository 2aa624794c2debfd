//! Questions in datagrams.

use super::client::{ask_udp, assert_answered, question, receive, udp_client};
use super::server::Server;
use super::upstream::{Act, Upstream};
use nodens_wire::Rcode;
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

/// Questions that one socket of a server holds even if its worker does not run before the last is
/// sent: the kernel may cap a receive buffer at 416 KiB and counts 1 KiB or less for each.
const SOCKET_HOLDS: u64 = 300;

#[test]
fn both_families_are_answered_from_the_address_asked() {
    let server = Server::start(".:0 {\n whoami\n}");
    let port = server.address().port();
    for ip in ["127.0.0.1", "127.0.0.99", "::1"] {
        let ip: IpAddr = ip.parse().unwrap();
        // The socket is connected, so only an answer from that address arrives.
        let answer = ask_udp(SocketAddr::new(ip, port), "example.org A");
        let rtype = answer.additional[0].rtype;
        assert_eq!(rtype.to_string(), if ip.is_ipv4() { "A" } else { "AAAA" });
    }
    server.stop();
}

#[test]
fn an_answer_that_has_to_be_waited_for_comes_from_the_address_asked() {
    let upstream = Upstream::prompt();
    let server = Server::start(&format!(".:0 {{\n forward . {}\n}}", upstream.address));
    let port = server.address().port();
    for ip in ["127.0.0.1", "127.0.0.98", "::1"] {
        let name = format!("{}.test A", ip.replace([':', '.'], "x"));
        assert_answered(&ask_udp(SocketAddr::new(ip.parse().unwrap(), port), &name));
    }
    server.stop();
}

#[test]
fn only_the_address_of_bind_is_listened_on() {
    let server = Server::start(".:0 {\n bind 127.0.0.3 ::1\n whoami\n}");
    let [v4, v6] = server.runtime.local_addresses()[..] else { panic!() };
    assert_eq!((v4.ip().to_string(), v6.ip().to_string()), ("127.0.0.3".into(), "::1".into()));
    ask_udp(v4, "example.org A");
    ask_udp(v6, "example.org A");
    let elsewhere = udp_client(SocketAddr::from(([127, 0, 0, 1], v4.port())));
    elsewhere.send(&question(1, "example.org A")).unwrap();
    let refused = elsewhere.recv(&mut [0; 64]).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    server.stop();
}

#[test]
fn questions_from_many_ports_reach_all_workers_and_are_all_answered() {
    let server = Server::start(".:0 {\n bind 127.0.0.1\n prometheus localhost:0\n whoami\n}");
    let clients: Vec<UdpSocket> = (0..SOCKET_HOLDS).map(|_| udp_client(server.address())).collect();
    for round in 0..3u16 {
        for client in &clients {
            client.send(&question(round, "example.org A")).unwrap();
        }
        for client in &clients {
            let answer = receive(client);
            assert_eq!((answer.id, answer.flags.rcode()), (round, Rcode::NOERROR));
        }
    }
    assert_eq!(server.count("coredns_dns_requests_total"), 3 * SOCKET_HOLDS);
    assert_eq!(server.count("nodens_udp_dropped_total"), 0);
    server.stop();
}

#[test]
fn a_burst_from_one_client_is_answered_whole() {
    let server = Server::start(".:0 {\n bind 127.0.0.1\n whoami\n}");
    let client = udp_client(server.address());
    let mut missing: HashSet<u16> = (0..200).collect();
    for id in 0..200 {
        client.send(&question(id, "example.org A")).unwrap();
    }
    while !missing.is_empty() {
        assert!(missing.remove(&receive(&client).id));
    }
    server.stop();
}

#[test]
fn what_is_no_question_is_not_answered_and_harms_nobody() {
    let server = Server::start(".:0 {\n bind 127.0.0.1\n whoami\n}");
    let client = udp_client(server.address());
    let mut response = question(2, "example.org A");
    response[2] |= 0x80;
    for junk in [&b""[..], b"x", &response, &[0xff; 5000]] {
        client.send(junk).unwrap();
    }
    client.send(&question(3, "example.org A")).unwrap();
    assert_eq!(receive(&client).id, 3);
    server.wait_for("nodens_udp_dropped_total", 1);
    server.stop();
}

#[test]
fn hundreds_of_equal_misses_do_not_ask_the_upstream_each() {
    let upstream = Upstream::start(|asked| {
        vec![Act::Wait(Duration::from_millis(300)), Act::Send(asked.answer())]
    });
    // The cache answers whoever asks later, on a busy machine.
    let to = upstream.address;
    let corefile = format!(".:0 {{\n bind 127.0.0.1\n cache 30\n forward . {to}\n}}");
    let server = Server::start(&corefile);
    let clients: Vec<UdpSocket> = (0..SOCKET_HOLDS).map(|_| udp_client(server.address())).collect();
    // The first round trip tells how fast the upstream is, so that no second attempt is made.
    assert_answered(&ask_udp(server.address(), "first.test A"));
    let before = upstream.count();
    for client in &clients {
        client.send(&question(9, "same.test A")).unwrap();
    }
    for client in &clients {
        assert_answered(&receive(client));
    }
    let asked = upstream.count() - before;
    // A late first attempt is made good by others, each later than the one before, and never by one
    // per client.
    assert!((1..=8).contains(&asked), "asked {asked} times");
    server.stop();
}

#[test]
fn the_time_a_question_waits_to_be_read_counts() {
    let corefile = ".:0 {\n prometheus localhost:0\n whoami\n}";
    for bind in ["", "127.0.0.1", "::1"] {
        let corefile = corefile.replace("prometheus", &format!("bind {bind}\n prometheus"));
        let corefile = if bind.is_empty() { corefile.replace("bind \n", "") } else { corefile };
        let options = nodens_net::Options { paused: true, ..Default::default() };
        let mut server = Server::with(&corefile, options);
        let ip: IpAddr = if bind.is_empty() { "127.0.0.1" } else { bind }.parse().unwrap();
        let address = SocketAddr::new(ip, server.address().port());
        let clients: Vec<UdpSocket> = (0..20).map(|_| udp_client(address)).collect();
        for client in &clients {
            client.send(&question(1, "example.org A")).unwrap();
        }
        let waits = Duration::from_millis(56);
        std::thread::sleep(waits);
        server.runtime.resume().unwrap();
        clients.iter().for_each(|client| assert_answered(&receive(client)));
        server.wait_for("coredns_dns_request_duration_seconds_count", 20);
        let text = server.shared.registry.render();
        let value = |series: &str| -> f64 {
            let lines = text.lines().filter(|line| line.starts_with(series));
            lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
        };
        // Those that share a batch count with the first of them.
        let sum = value("coredns_dns_request_duration_seconds_sum");
        assert!(sum >= 20.0 * 0.050, "{sum} s for 20 questions that waited {waits:?} each");
        let batches = value("nodens_udp_batch_delay_seconds_count");
        let delay = value("nodens_udp_batch_delay_seconds_sum");
        assert!(batches >= 1.0 && delay >= batches * 0.050, "{delay} s in {batches} batches");
        server.stop();
    }
}
