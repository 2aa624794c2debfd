//! Places for connections over QUIC, and for handshakes.

use super::{ASKED, client, corefile, outcomes, query, start, start_one};
use crate::authority::Authority;
use crate::client::{PATIENCE, assert_answered};
use crate::quic_client::QuicClient;
use crate::server::{Server, eventually};
use crate::upstream::{Act, Upstream, gate};
use nodens_net::Options;
use nodens_net::limits::HELD_STEP;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{ClientConfig, ConnectionError};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[test]
fn no_more_connections_are_open_than_the_corefile_allows() {
    let (opener, waiter) = gate();
    let upstream =
        Upstream::start(move |asked| vec![Act::WaitFor(waiter.clone()), Act::Send(asked.answer())]);
    let more = format!("quic {{\n max_connections 2\n }}\n forward . {}", upstream.address);
    let (server, config) = start_one(&more, Options::default());
    let mut first = QuicClient::connect(server.address(), &config);
    let mut second = QuicClient::connect(server.address(), &config);
    let ids = [&mut first, &mut second].map(|client| client.send(&query(), true).unwrap());
    first.drive_for(Duration::from_millis(50));
    second.drive_for(Duration::from_millis(50));
    let third = QuicClient::connect(server.address(), &config);
    assert!(!third.is_open, "a third connection");
    assert!(matches!(third.lost, Some(ConnectionError::ConnectionClosed(_))), "{:?}", third.lost);
    opener.store(true, Ordering::Relaxed);
    assert_answered(&first.response(ids[0]).unwrap());
    assert_answered(&second.response(ids[1]).unwrap());
    first.drive_for(Duration::from_millis(100));
    second.drive_for(Duration::from_millis(100));
    // Whoever is idle for longest makes room.
    assert_answered(&second.ask(ASKED).unwrap());
    let mut third = QuicClient::connect(server.address(), &config);
    assert_answered(&third.ask(ASKED).unwrap());
    assert_eq!(server.count("nodens_quic_connections"), 2);
    first.drive("the end", |_| false);
    assert_eq!(first.closed_with(), Some(0));
    assert_eq!(second.lost, None);
    server.stop();
}

#[test]
fn no_client_keeps_all_connections_of_a_listener() {
    for workers in [1, 4] {
        let authority = Authority::new();
        let corefile = corefile(&authority, "quic {\n max_connections 4\n }\n whoami");
        let zones = nodens_core::config::BuildOptions::default();
        let server = Server::of(workers, &corefile, Options::default(), &zones);
        let config = client(&authority);
        // A query of which one octet is there: none of them is idle.
        let mut held: Vec<_> = (0..4)
            .map(|_| {
                let mut client = QuicClient::connect(server.address(), &config);
                assert_answered(&client.ask(ASKED).unwrap());
                client.send(&[0], false).unwrap();
                client.drive_for(Duration::from_millis(30));
                client
            })
            .collect();
        let mut others = Vec::new();
        for n in 1..=3 {
            // One of another worker may have made room a moment too late.
            let until = Instant::now() + PATIENCE;
            let mut client = loop {
                let mut client = QuicClient::new_from([127, 0, n, 1], server.address(), &config);
                client.drive("the handshake", |client| client.is_open);
                if let Some(answer) = client.ask(ASKED) {
                    assert_answered(&answer);
                    break client;
                }
                assert!(workers > 1 && Instant::now() < until, "{n}, {workers}: {:?}", client.lost);
            };
            client.send(&[0], false).unwrap();
            client.drive_for(Duration::from_millis(30));
            others.push(client);
        }
        // Nobody has more than a share.
        let mut last = QuicClient::new_from([127, 0, 9, 1], server.address(), &config);
        last.drive("the handshake", |client| client.is_open);
        assert!(last.lost.is_some());
        held.iter_mut().for_each(|client| client.drive_for(Duration::from_millis(20)));
        let codes: Vec<_> = held.iter().filter_map(QuicClient::closed_with).collect();
        assert_eq!(codes, [4, 4, 4]);
        assert!(others.iter().all(|client| client.lost.is_none()));
        server.stop();
    }
}

#[test]
fn a_client_has_no_more_connections_than_one_may_have() {
    let options = Options { connections_per_client: Some(3), ..Options::default() };
    let (server, config) = start_one("whoami", options);
    let mut clients: Vec<_> = (0..5)
        .map(|_| {
            let mut client = QuicClient::connect(server.address(), &config);
            assert_answered(&client.ask(ASKED).unwrap());
            client.drive_for(Duration::from_millis(50));
            client
        })
        .collect();
    assert_eq!(server.count("nodens_quic_connections"), 3);
    clients[0].drive("the end", |_| false);
    assert_answered(&clients[4].ask(ASKED).unwrap());
    server.stop();
}

#[test]
fn clients_that_do_not_finish_their_handshake_take_no_place() {
    // None is given up before the last is counted, however slow the machine is: its place would be another's.
    let (server, config) = start("timeouts {\n read 1m\n }\n whoami");
    // Each from a port of its own, as if their addresses were forged: they never read.
    let mut forged = Vec::new();
    for _ in 0..600 {
        let mut client = QuicClient::new(server.address(), &config);
        client.transmit();
        forged.push(client);
    }
    eventually("some to be asked for their address", || outcomes(&server, "retry") > 0);
    let began = Instant::now();
    let mut good = QuicClient::connect(server.address(), &config);
    assert_answered(&good.ask(ASKED).unwrap());
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    // What was begun is bounded, and none of it is a connection.
    // The workers may each begin one at the same moment.
    let accepted = outcomes(&server, "accepted");
    assert!(accepted <= 33 + 4, "{accepted}");
    assert_eq!(server.count("nodens_quic_connections"), 1);
    drop(forged);
    server.stop();
}

#[test]
fn parts_of_a_handshake_behind_a_gap_count() {
    let authority = Authority::new();
    let zones = nodens_core::config::BuildOptions::default();
    let corefile = corefile(&authority, "whoami");
    let server = Server::of(1, &corefile, Options::default(), &zones);
    let mut tls = rustls::ClientConfig::clone(&authority.client(false));
    // So many names that the first message of the handshake takes several packets.
    tls.alpn_protocols = (0..50).map(|name| vec![name; 250]).collect();
    let tls = QuicClientConfig::try_from(tls).unwrap();
    let mut client = QuicClient::new(server.address(), &ClientConfig::new(Arc::new(tls)));
    let packets = client.packets();
    client.socket.connect(server.address()).unwrap();
    client.socket.send(&packets[0]).unwrap();
    let held = || server.count("nodens_tcp_held_bytes") as usize;
    eventually("the connection to begin", || held() > 0);
    let before = held();
    packets[2..].iter().for_each(|packet| _ = client.socket.send(packet).unwrap());
    let octets: usize = packets[2..].iter().map(Vec::len).sum();
    assert!(octets > HELD_STEP, "{octets}");
    // It is reckoned in whole pieces.
    eventually("the packets to count", || held() >= before + octets / HELD_STEP * HELD_STEP);
    server.stop();
}

#[test]
fn clients_that_come_all_at_once_need_not_begin_again() {
    let (server, config) =
        start_one("quic {\n max_connections 1000\n }\n whoami", Options::default());
    let mut clients: Vec<_> =
        (0..200).map(|_| QuicClient::new(server.address(), &config)).collect();
    clients.iter_mut().for_each(QuicClient::transmit);
    let taken = || outcomes(&server, "accepted") + outcomes(&server, "retry");
    eventually("each to be begun or asked for its address", || taken() >= 200);
    assert_eq!(outcomes(&server, "refused"), 0);
    server.stop();
}

#[test]
fn forged_packets_close_nobodys_connection_for_want_of_memory() {
    let authority = Authority::new();
    let options = Options { held_max: 800 << 10, ..Options::default() };
    let server = Server::with(&corefile(&authority, "whoami"), options);
    let config = client(&authority);
    // Each asks at once: one that never asks ends after a while.
    let asking = |_| {
        let mut client = QuicClient::connect(server.address(), &config);
        assert_answered(&client.ask(ASKED).unwrap());
        client
    };
    let mut clients: Vec<_> = (0..8).map(asking).collect();
    let mut forged = Vec::new();
    for _ in 0..200 {
        let mut client = QuicClient::new(server.address(), &config);
        client.transmit();
        forged.push(client);
        std::thread::sleep(Duration::from_millis(1));
    }
    eventually("some to be asked for their address", || outcomes(&server, "retry") > 100);
    for client in &mut clients {
        client.drive_for(Duration::from_millis(20));
        assert_eq!(client.lost, None);
    }
    assert!(server.count("nodens_tcp_held_bytes") < 600 << 10);
    server.stop();
}
