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
use nodens_net::limits::{HTTP3_COST, QUIC_COST, QUIC_STREAM_COST};
use nodens_testkit::alloc::{Counting, held};
use quic_client::{QuicClient, config, config_of};
use quinn_proto::congestion::CubicConfig;
use quinn_proto::{Dir, TransportConfig};
use server::{Server, eventually};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Connections that are open at once.
const COUNT: usize = 100;

/// One at a time: each reads what the whole process holds.
static ALONE: Mutex<()> = Mutex::new(());

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
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
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

/// An idle connection of a client that has begun all streams of control, with a query in a target.
fn ask_over_http(server: &Server, config: &quinn_proto::ClientConfig) -> QuicClient {
    let mut client = QuicClient::connect(server.address(), config);
    for octets in [&[0, 4, 0][..], &[2], &[3]] {
        client.send_aside(octets).unwrap();
    }
    // Nothing of a dynamic table; then GET, `https`, the authority, and the path in letters.
    let fields = b"\0\0\xd1\xd7\x50\x01a\x51\x2c/dns-query?dns=AAABAAABAAAAAAAAAWEAAAEAAQ";
    let mut fields = fields.to_vec();
    let path = fields.len() - 9;
    fields[8] = path as u8;
    let request = [&[1, 0x40, fields.len() as u8][..], &fields].concat();
    let id = client.send(&request, true).unwrap();
    let (response, _) = client.end_of(id);
    // HEADERS with the status 200.
    assert_eq!((response.first(), response.get(4)), (Some(&1), Some(&0xd9)), "{response:?}");
    client
}

#[test]
fn a_connection_of_http3_holds_what_is_reckoned_with() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let authority = Authority::new();
    let (tls, times) = (authority.tls(), "timeouts {\n idle 100s\n }");
    let http3 = "https3 {\n max_connections 0\n }";
    let server = Server::start(&format!(
        "https3://.:0 {{\n bind 127.0.0.1\n {tls}\n {http3}\n {times}\n whoami\n}}"
    ));
    let config = config_of(b"h3", &authority.client(false), TransportConfig::default());
    drop(ask_over_http(&server, &config));
    let (before, open_before) = (held().octets, server.count("nodens_quic_connections"));
    let clients: Vec<_> = (0..COUNT).map(|_| ask_over_http(&server, &config)).collect();
    assert_eq!(server.count("nodens_quic_connections") - open_before, COUNT as u64);
    drop(clients);
    let each = (held().octets - before) / COUNT;
    let reckoned = QUIC_COST + 256 * QUIC_STREAM_COST + HTTP3_COST;
    eprintln!("{each} octets, reckoned with {reckoned}");
    assert!(each < reckoned, "{each} octets, reckoned with {reckoned}");
    let counted = server.count("nodens_tcp_held_bytes") as usize;
    assert!(counted >= COUNT * each, "{counted} octets are in the books");
    server.stop();
}

/// Sends one octet on each of these streams, in a packet of its own, behind one that is lost.
fn send_gapped(client: &mut QuicClient, streams: &[quinn_proto::StreamId]) {
    for id in streams {
        client.send_more(*id, &[0], false);
        assert!(!client.packets().is_empty(), "the client may send no more");
        client.send_more(*id, &[0], false);
        client.transmit();
        // The server keeps up.
        std::thread::sleep(Duration::from_micros(300));
    }
}

#[test]
fn packets_with_one_octet_that_cannot_be_read_count_whole() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let authority = Authority::new();
    let (tls, times) = (authority.tls(), "timeouts {\n read 100s\n idle 100s\n }");
    let server =
        Server::start(&format!("quic://.:0 {{\n bind 127.0.0.1\n {tls}\n {times}\n whoami\n}}"));
    let mut transport = TransportConfig::default();
    let mut window = CubicConfig::default();
    window.initial_window(1 << 30);
    transport.pad_to_mtu(true).congestion_controller_factory(Arc::new(window));
    let config = config(&authority.client(false), transport);
    let mut client = QuicClient::connect(server.address(), &config);
    assert_answered(&client.ask("a.test A").unwrap());
    let streams: Vec<_> =
        (0..200).filter_map(|_| client.connection.streams().open(Dir::Bi)).collect();
    assert_eq!(streams.len(), 200);
    let (before, reckoned) = (held().octets, server.count("nodens_tcp_held_bytes"));
    send_gapped(&mut client, &streams);
    let enough = || server.count("nodens_tcp_held_bytes") - reckoned > 150 * 1200;
    eventually("the packets to be reckoned with", enough);
    let counted = (server.count("nodens_tcp_held_bytes") - reckoned) as usize;
    // The client's tables for these streams are beside it.
    eprintln!("{} octets, reckoned with {counted}", held().octets - before);
    assert!(held().octets - before >= 200 * 1200, "the packets are not kept");
    let mut packets = 200;
    while server.count("nodens_quic_connections") == 1 && packets < 2000 {
        send_gapped(&mut client, &streams[..5]);
        packets += 5;
    }
    // No more than one for each stream that may be open.
    assert!((300..600).contains(&packets), "{packets} packets");
    client.drive("the end", |_| false);
    assert_eq!(client.closed_with(), Some(4), "{:?}", client.lost);
    eventually("all to be given back", || server.count("nodens_tcp_held_bytes") == 0);
    server.stop();
}
