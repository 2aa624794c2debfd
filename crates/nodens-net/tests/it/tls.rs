//! DNS over TLS: real handshakes on real sockets, and clients that do not behave.

use super::authority::Authority;
use super::client::{ask_udp, assert_answered, framed, question};
use super::server::{Server, eventually};
use nodens_core::config::BuildOptions;
use nodens_net::Options;
use nodens_wire::{Message, Rcode};
use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, StreamOwned};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A client within TLS.
pub(super) struct Client(pub(super) StreamOwned<ClientConnection, TcpStream>);

impl Client {
    pub(super) fn connect(server: SocketAddr, config: &Arc<ClientConfig>) -> Self {
        let stream = TcpStream::connect(server).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let name = ServerName::try_from("dns.example").unwrap();
        let session = ClientConnection::new(config.clone(), name).unwrap();
        Self(StreamOwned::new(session, stream))
    }

    fn receive(&mut self) -> std::io::Result<Message> {
        let mut len = [0; 2];
        self.0.read_exact(&mut len)?;
        let mut message = vec![0; usize::from(u16::from_be_bytes(len))];
        self.0.read_exact(&mut message)?;
        Ok(Message::parse(&message).unwrap())
    }

    fn ask(&mut self, text: &str) -> std::io::Result<Message> {
        self.0.write_all(&framed(&question(7, text)))?;
        self.receive()
    }
}

#[test]
fn queries_within_tls_are_answered_and_sessions_resumed() {
    let authority = Authority::new();
    let server = Server::start(&authority.corefile(""));
    let config = authority.client(false);
    for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
        let mut client = Client::connect(server.address(), &config);
        assert_answered(&client.ask("example.org A").unwrap());
        assert_eq!(client.0.conn.handshake_kind(), Some(kind));
        // Several at once, in one record.
        let many: Vec<u8> =
            (0..200).flat_map(|id| framed(&question(id, "example.org A"))).collect();
        client.0.write_all(&many).unwrap();
        for id in 0..200 {
            assert_eq!(client.receive().unwrap().id, id);
        }
    }
    server.stop();
}

#[test]
fn zones_are_given_within_tls_1_3_alone() {
    let authority = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("db");
    std::fs::write(&db, "@ 60 SOA . . 1 2 3 4 5").unwrap();
    let (tls, db) = (authority.tls(), db.display());
    let server = Server::start(&format!(
        "tls://example.org:0 {{\n bind 127.0.0.1\n {tls}\n transfer {{\n  to *\n }}\n file {db}\n}}"
    ));
    for (version, wanted) in [(&TLS13, Rcode::NOERROR), (&TLS12, Rcode::REFUSED)] {
        let mut client = Client::connect(server.address(), &authority.client_of(version));
        for (question, wanted) in [("SOA", Rcode::NOERROR), ("AXFR", wanted)] {
            let answer = client.ask(&format!("example.org {question}")).unwrap();
            assert_eq!(answer.flags.rcode(), wanted, "{version:?} {question}");
        }
    }
    server.stop();
}

#[test]
fn a_query_in_many_records_and_one_longer_than_a_record_is_read_whole() {
    let authority = Authority::new();
    let server = Server::start(&authority.corefile(""));
    let mut client = Client::connect(server.address(), &authority.client(false));
    for octet in framed(&question(3, "example.org A")) {
        client.0.write_all(&[octet]).unwrap();
        client.0.flush().unwrap();
    }
    assert_eq!(client.receive().unwrap().id, 3);
    // More plaintext than any buffer takes at once.
    let many: Vec<u8> = (0..2000).flat_map(|id| framed(&question(id, "example.org A"))).collect();
    let mut reader = Client::connect(server.address(), &authority.client(false));
    for piece in many.chunks(16_000) {
        reader.0.write_all(piece).unwrap();
    }
    for id in 0..2000 {
        assert_eq!(reader.receive().unwrap().id, id);
    }
    server.stop();
}

#[test]
fn clients_need_a_certificate_where_the_corefile_says_so() {
    let authority = Authority::new();
    let answers = |auth: &str, has_certificate: bool| {
        let server = Server::start(&authority.corefile(&format!("{{\n client_auth {auth}\n }}")));
        let mut client = Client::connect(server.address(), &authority.client(has_certificate));
        let answered = client.ask("example.org A").is_ok();
        server.stop();
        answered
    };
    for (auth, without, with) in [
        ("nocert", true, true),
        ("request", true, true),
        ("require", false, true),
        ("verify_if_given", true, true),
        ("require_and_verify", false, true),
    ] {
        assert_eq!((answers(auth, false), answers(auth, true)), (without, with), "{auth}");
    }
}

/// How often a log has this behind an address.
pub(super) fn said(log: &str, text: &str) -> usize {
    log.lines()
        .filter(|line| line.contains("Warning, origin: \"tls\"") && line.contains(text))
        .count()
}

#[test]
fn clients_without_an_accepted_certificate_are_counted_and_logged_once_for_each_reason() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let verified = authority.corefile("{\n client_auth require_and_verify\n }");
    for corefile in [verified.clone(), verified.replace("tls://", "https://")] {
        let (options, zones) = (Options::default(), BuildOptions::default());
        let server = Server::of(1, &corefile, options, &zones);
        for _ in 0..3 {
            for config in [authority.client(false), authority.client_as(&stranger)] {
                let mut client = Client::connect(server.address(), &config);
                assert!(client.ask("example.org A").is_err());
            }
        }
        // A client that sends no TLS is another matter.
        TcpStream::connect(server.address()).unwrap().write_all(&[0; 64]).unwrap();
        server.wait_for("nodens_tcp_closed_total{reason=\"client_certificate\"}", 6);
        let log = server.log();
        let text = "refused: tls: client didn't provide a certificate";
        assert_eq!((said(&log, text), said(&log, "")), (1, 2), "{log}");
        let text = "refused: tls: failed to verify certificate: x509: certificate signed by unknown authority";
        assert_eq!(said(&log, text), 1, "{log}");
        server.stop();
    }
}

#[test]
fn what_is_no_tls_is_closed_and_nothing_stays() {
    let authority = Authority::new();
    let timeouts = " timeouts {\n  read 1s\n }\n whoami";
    let corefile = authority.corefile("").replace(" whoami", timeouts);
    let server = Server::start(&corefile);
    let connect = || {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    };
    // Plain DNS, HTTP, noise, the front of a record, and nothing at all.
    let plain = framed(&question(1, "example.org A"));
    let inputs: [&[u8]; 5] =
        [&plain, b"GET / HTTP/1.1\r\n\r\n", &[0xff; 600], &[22, 3, 1, 64], &[]];
    for input in inputs {
        let (mut stream, began) = (connect(), Instant::now());
        stream.write_all(input).unwrap();
        let mut rest = Vec::new();
        // An alert at most, and no DNS.
        _ = stream.read_to_end(&mut rest);
        assert!(rest.len() <= 7, "{input:?}: {rest:?}");
        assert!(began.elapsed() < Duration::from_secs(5), "{input:?}");
    }
    let mut good = Client::connect(server.address(), &authority.client(false));
    assert_answered(&good.ask("example.org A").unwrap());
    server.stop();
}

#[test]
fn garbage_after_the_handshake_ends_the_connection() {
    let authority = Authority::new();
    let server = Server::start(&authority.corefile(""));
    let mut client = Client::connect(server.address(), &authority.client(false));
    assert_answered(&client.ask("example.org A").unwrap());
    client.0.sock.write_all(&[23, 3, 3, 0, 40]).unwrap();
    client.0.sock.write_all(&[9; 40]).unwrap();
    assert!(client.receive().is_err());
    server.stop();
}

#[test]
fn idle_connections_are_free_and_end_with_a_farewell() {
    let authority = Authority::new();
    let timeouts = " timeouts {\n  idle 1s\n }\n whoami";
    let corefile = authority.corefile("").replace(" whoami", timeouts);
    // Room for one connection that holds more than each may.
    let server = Server::with(&corefile, Options { held_max: 8 << 10, ..Options::default() });
    let config = authority.client(false);
    let mut clients: Vec<_> = (0..40).map(|_| Client::connect(server.address(), &config)).collect();
    for client in &mut clients {
        assert_answered(&client.ask("example.org A").unwrap());
    }
    for client in &mut clients {
        // Without the farewell this is an error, "unexpected end of file".
        assert_eq!(client.0.read(&mut [0; 1]).unwrap(), 0);
    }
    server.stop();
}

#[test]
fn a_client_that_says_goodbye_with_its_query_gets_the_answer_and_the_end() {
    let authority = Authority::new();
    let server = Server::start(&authority.corefile(""));
    let mut client = Client::connect(server.address(), &authority.client(false));
    assert_answered(&client.ask("example.org A").unwrap());
    let began = Instant::now();
    client.0.conn.writer().write_all(&framed(&question(9, "example.org A"))).unwrap();
    client.0.conn.send_close_notify();
    client.0.conn.write_tls(&mut client.0.sock).unwrap();
    assert_eq!(client.receive().unwrap().id, 9);
    assert_eq!(client.0.read(&mut [0; 1]).unwrap(), 0);
    // Not after the idle timeout of ten seconds.
    assert!(began.elapsed() < Duration::from_secs(5));
    server.stop();
}

#[test]
fn queries_that_came_with_the_end_of_a_handshake_are_answered_at_the_end() {
    let authority = Authority::new();
    let server = Server::start(&authority.corefile(""));
    let config = authority.client(false);
    let mut clients: Vec<Client> =
        (0..32).map(|_| Client::connect(server.address(), &config)).collect();
    for Client(StreamOwned { conn, sock }) in &mut clients {
        // The query does not wait until the server has confirmed the handshake's end.
        sock.set_nodelay(true).unwrap();
        // Up to the server's part of it.
        conn.write_tls(sock).unwrap();
        while conn.is_handshaking() {
            conn.read_tls(sock).unwrap();
            conn.process_new_packets().unwrap();
        }
    }
    // Handshakes take turns, so that most have to wait.
    for client in &mut clients {
        client.0.write_all(&framed(&question(7, "example.org A"))).unwrap();
    }
    server.stop();
    for client in &mut clients {
        assert_answered(&client.receive().unwrap());
    }
}

#[test]
fn handshakes_that_wait_are_done_or_closed_and_nothing_is_forgotten() {
    let authority = Authority::new();
    let server = Server::start(&authority.corefile(""));
    let config = authority.client(false);
    // Those that never begin, and many that do.
    let silent: Vec<_> = (0..50).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    let mut clients: Vec<_> =
        (0..200).map(|_| Client::connect(server.address(), &config)).collect();
    for client in &mut clients {
        client.0.conn.write_tls(&mut client.0.sock).unwrap();
    }
    for client in &mut clients {
        assert_answered(&client.ask("example.org A").unwrap());
    }
    drop((silent, clients));
    eventually("all to be closed", || server.count("nodens_tcp_connections") == 0);
    server.stop();
}

#[test]
fn plain_dns_beside_it_is_answered() {
    let authority = Authority::new();
    let corefile = format!("{}\n.:0 {{\n bind 127.0.0.1\n whoami\n}}", authority.corefile(""));
    let server = Server::start(&corefile);
    assert_answered(&ask_udp(server.runtime.local_addresses()[1], "example.org A"));
    let mut client = Client::connect(server.runtime.local_addresses()[0], &authority.client(false));
    assert_answered(&client.ask("example.org A").unwrap());
    server.stop();
}

#[test]
fn a_proxy_names_the_client_in_front_of_the_handshake() {
    let authority = Authority::new();
    let proxied = " proxyproto {\n  allow 127.0.0.1/32\n }\n whoami";
    let server = Server::start(&authority.corefile("").replace(" whoami", proxied));
    let mut client = Client::connect(server.address(), &authority.client(false));
    // In two segments, so that the handshake is not there when the header is.
    client.0.sock.write_all(b"PROXY TCP4 192.0.2.7 192.0.2.53 40000 ").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    client.0.sock.write_all(b"853\r\n").unwrap();
    let answer = client.ask("example.org A").unwrap();
    assert_eq!(answer.additional[0].rdata, [192, 0, 2, 7]);
    server.stop();
}
