//! HTTP and gRPC within TLS.

use super::{frames, query};
use crate::authority::Authority;
use crate::client::{assert_answered, question};
use crate::server::Server;
use crate::tls::Client;
use frames::{DATA, END_HEADERS, END_STREAM, HEADERS, SETTINGS, frame};
use nodens_net::Options;
use nodens_wire::{Message, Rcode};
use rustls::version::{TLS12, TLS13};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Reads frames until the response to a request is whole; gives its body.
fn body(client: &mut Client, stream: u32) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let (kind, flags, of, payload) = frames::read(&mut client.0).expect("a frame");
        if of != stream {
            continue;
        }
        if kind == DATA {
            body.extend_from_slice(&payload);
        }
        if flags & END_STREAM > 0 && [DATA, HEADERS].contains(&kind) {
            return body;
        }
    }
}

fn connect(server: &Server, authority: &Authority, protocol: &[u8]) -> Client {
    let mut config = Arc::unwrap_or_clone(authority.client(false));
    config.alpn_protocols = vec![protocol.to_vec()];
    Client::connect(server.address(), &Arc::new(config))
}

#[test]
fn both_versions_and_grpc_are_spoken_within_tls() {
    let authority = Authority::new();
    let dns = query(7);
    let call = [&[0, 0, 0, 0, dns.len() as u8 + 2, 0x0a, dns.len() as u8][..], &dns].concat();
    let path =
        b"\x83\x87\x04\x1d/coredns.dns.DnsService/Query\x01\x01x\x0f\x10\x10application/grpc";
    let cases = [("https", frames::POST, &dns, 0), ("grpc", &path[..], &call, 7)];
    for (scheme, head, request, around) in cases {
        let corefile = authority.corefile("").replace("tls://", &format!("{scheme}://"));
        let server = Server::start(&corefile);
        let mut client = connect(&server, &authority, b"h2");
        client.0.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        client.0.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
        for stream in [1, 3, 5] {
            client.0.write_all(&frame(HEADERS, END_HEADERS, stream, head)).unwrap();
            client.0.write_all(&frame(DATA, END_STREAM, stream, request)).unwrap();
            let body = body(&mut client, stream);
            assert_answered(&Message::parse(&body[around..]).unwrap());
        }
        server.stop();
    }
    let server = Server::start(&authority.corefile("").replace("tls://", "https://"));
    let mut client = connect(&server, &authority, b"http/1.1");
    let head =
        format!("POST /dns-query HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", dns.len());
    client.0.write_all(&[head.as_bytes(), &dns].concat()).unwrap();
    let mut front = [0; 15];
    client.0.read_exact(&mut front).unwrap();
    assert_eq!(&front, b"HTTP/1.1 200 OK");
    server.stop();
}

#[test]
fn a_catalog_for_encrypted_clients_is_told_within_tls_1_3_alone() {
    let authority = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("db");
    std::fs::write(&db, "@ 60 SOA . . 1 2 3 4 5").unwrap();
    let (tls, db) = (authority.tls(), db.display());
    let server = Server::start(&format!(
        "https://example.org:0 {{\n bind 127.0.0.1\n {tls}\n transfer {{\n  to *\n  encrypted\n  \
         catalog catalog.example.org\n }}\n file {db}\n}}"
    ));
    // Nothing makes the catalog here, so that who may see it gets SERVFAIL.
    for (version, wanted) in [(&TLS13, Rcode::SERVFAIL), (&TLS12, Rcode::REFUSED)] {
        let mut config = Arc::unwrap_or_clone(authority.client_of(version));
        config.alpn_protocols = vec![b"h2".to_vec()];
        let mut client = Client::connect(server.address(), &Arc::new(config));
        client.0.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        client.0.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
        client.0.write_all(&frame(HEADERS, END_HEADERS, 1, frames::POST)).unwrap();
        let request = question(7, "version.catalog.example.org TXT");
        client.0.write_all(&frame(DATA, END_STREAM, 1, &request)).unwrap();
        let answer = body(&mut client, 1);
        assert_eq!(Message::parse(&answer).unwrap().flags.rcode(), wanted, "{version:?}");
    }
    server.stop();
}

#[test]
fn clients_that_are_silent_in_a_handshake_cost_no_turns() {
    let authority = Authority::new();
    for scheme in ["tls", "https", "grpc"] {
        let corefile = authority.corefile("").replace("tls://", &format!("{scheme}://"));
        let server = Server::of(1, &corefile, Options::default(), &Default::default());
        let _silent = TcpStream::connect(server.address()).unwrap();
        let mut half = TcpStream::connect(server.address()).unwrap();
        half.write_all(&[22, 3, 1, 2, 0, 1]).unwrap();
        // Past its handshake, and silent from there on.
        let mut client = connect(&server, &authority, if scheme == "tls" { b"dot" } else { b"h2" });
        while client.0.conn.is_handshaking() {
            client.0.conn.complete_io(&mut client.0.sock).unwrap();
        }
        std::thread::sleep(Duration::from_millis(100));
        let (began, mut last, mut turns) = (Instant::now(), 0, 0);
        while began.elapsed() < Duration::from_millis(400) {
            let turn = server.runtime.vitals().turn(0);
            turns += u32::from(turn != last);
            last = turn;
            std::thread::sleep(Duration::from_micros(500));
        }
        assert!(turns < 50, "{scheme}: {turns} turns");
        server.stop();
    }
}

#[test]
fn of_few_connections_one_that_is_silent_in_its_handshake_makes_room() {
    let authority = Authority::new();
    for (scheme, directive) in [("https", "https"), ("grpc", "grpc_server")] {
        let corefile = authority.corefile("").replace("tls://", &format!("{scheme}://"));
        let few = format!(" {directive} {{\n  max_connections 1\n }}\n whoami");
        let corefile = corefile.replace(" whoami", &few);
        let server = Server::of(1, &corefile, Options::default(), &Default::default());
        let mut silent = TcpStream::connect(server.address()).unwrap();
        silent.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let _other = TcpStream::connect(server.address()).unwrap();
        // It would have three seconds for its handshake.
        assert!(matches!(silent.read(&mut [0; 64]), Ok(0..=63)), "{scheme}");
        server.stop();
    }
}
