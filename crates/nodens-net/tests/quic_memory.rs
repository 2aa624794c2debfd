//! What connections over QUIC hold. In a binary of its own, because it counts the octets of the whole
//! process.

#[allow(dead_code)]
#[path = "it/authority.rs"]
mod authority;
#[allow(dead_code)]
#[path = "it/client.rs"]
mod client;
#[allow(dead_code)]
#[path = "it/quic_client.rs"]
mod quic_client;
#[allow(dead_code)]
#[path = "it/server.rs"]
mod server;

use authority::Authority;
use client::assert_answered;
use nodens_net::limits::{QUIC_COST, QUIC_STREAM_COST};
use nodens_testkit::alloc::{Counting, held};
use quic_client::{QuicClient, config};
use quinn_proto::TransportConfig;
use server::Server;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Connections that are open at once.
const COUNT: usize = 100;

/// Octets that each idle connection of the server holds.
fn each(server: &Server, config: &quinn_proto::ClientConfig) -> usize {
    let (before, open_before) = (held().octets, server.count("nodens_quic_connections"));
    let open = |_| {
        let mut client = QuicClient::connect(server.address(), config);
        assert_answered(&client.ask("example.org A").unwrap());
        client
    };
    let clients: Vec<_> = (0..COUNT).map(open).collect();
    assert_eq!(server.count("nodens_quic_connections") - open_before, COUNT as u64);
    // The clients' side goes without a word.
    drop(clients);
    (held().octets - before) / COUNT
}

#[test]
fn a_connection_holds_what_is_reckoned_with() {
    let authority = Authority::new();
    let start = |streams: usize| {
        let quic = format!("quic {{\n max_streams {streams}\n max_connections 0\n }}");
        let tls = authority.tls();
        Server::start(&format!(
            "quic://.:0 {{\n bind 127.0.0.1\n {tls}\n {quic}\n timeouts {{\n idle 100s\n }}\n whoami\n}}"
        ))
    };
    let config = config(&authority.client(false), TransportConfig::default());
    for streams in [16, 256, 4096] {
        let server = start(streams);
        // What the first connections leave behind is nobody's.
        assert_answered(&QuicClient::connect(server.address(), &config).ask("a.test A").unwrap());
        let (each, reckoned) = (each(&server, &config), QUIC_COST + streams * QUIC_STREAM_COST);
        eprintln!("{streams} streams: {each} octets, reckoned with {reckoned}");
        assert!(each < reckoned, "{streams} streams: {each} octets, reckoned with {reckoned}");
        server.stop();
    }
}
