//! Upstreams within TLS, those that they are and others, which keep to the rules or do not.

use super::client::{ask_tcp, ask_udp, assert_answered, framed, read_message};
use super::server::{Server, eventually};
use super::upstream::{Asked, Upstream};
use nodens_core::config::BuildOptions;
use nodens_core::upstream::Peer;
use nodens_net::limits::UPSTREAM_CONNECTIONS;
use nodens_net::{Options, Way};
use nodens_tls::{Client, ClientFiles, server_name};
use nodens_wire::{Message, Name, Rcode, Type};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{HandshakeKind, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// An authority, and files of certificates that it signed.
pub(super) struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key.
pub(super) type Pair = (CertificateDer<'static>, PrivateKeyDer<'static>);

impl Authority {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let issuer = CertifiedIssuer::self_signed(params, key).unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { folder, issuer }
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A certificate for these names, changed in some way.
    pub(super) fn signed(&self, names: &[&str], change: impl Fn(&mut CertificateParams)) -> Pair {
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.file("cert.pem"), certificate.pem()).unwrap();
        std::fs::write(self.file("key.pem"), key.serialize_pem()).unwrap();
        (certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    }

    /// `tls` with this authority.
    pub(super) fn tls(&self) -> String {
        format!("tls {}\n", self.file("ca.pem").display())
    }
}

pub(super) const ADDRESS: &[&str] = &["127.0.0.1", "dns.example"];

pub(super) fn config((certificate, key): Pair) -> Arc<ServerConfig> {
    config_of(&[&TLS13, &TLS12], (certificate, key))
}

pub(super) fn config_of(
    versions: &[&'static rustls::SupportedProtocolVersion],
    (certificate, key): Pair,
) -> Arc<ServerConfig> {
    let builder = ServerConfig::builder_with_protocol_versions(versions).with_no_client_auth();
    Arc::new(builder.with_single_cert(vec![certificate], key).unwrap())
}

/// What an upstream does with a connection.
#[derive(Clone, Copy, Debug)]
enum Habit {
    /// Answers every query.
    Answers,
    /// Answers one query and closes.
    AnswersOnce,
    /// Answers one query and sends octets that are no TLS, in one segment.
    AnswersAndBabbles,
    /// Answers one query, says goodbye, and leaves the connection open.
    SaysGoodbye,
    /// Takes one connection, on which answers take a while, and closes others before the handshake.
    TakesOne,
    /// Closes when the handshake is done.
    Closes,
    /// Closes before the handshake.
    Leaves,
    /// Sends this in the place of a handshake.
    Babbles(&'static [u8]),
    /// Sends half of its part of the handshake and no more.
    Half,
    /// Sends nothing.
    Silent,
    /// Waits so long before the handshake.
    Slow(Duration),
    /// Sends every octet by itself.
    Dribbles,
    /// Sends octets that are no TLS when the handshake is done.
    BabblesLater,
}

/// An upstream within TLS.
struct Encrypted {
    address: SocketAddr,
    habit: Arc<Mutex<Habit>>,
    seen: Arc<Seen>,
    ended: Arc<AtomicBool>,
    listener: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    open: AtomicUsize,
    full: AtomicUsize,
    resumed: AtomicUsize,
    queries: AtomicUsize,
    checks: AtomicUsize,
}

fn add(count: &AtomicUsize) {
    count.fetch_add(1, Ordering::SeqCst);
}

fn get(count: &AtomicUsize) -> usize {
    count.load(Ordering::SeqCst)
}

impl Encrypted {
    fn start(config: &Arc<ServerConfig>, habit: Habit) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let (habit, seen) = (Arc::new(Mutex::new(habit)), Arc::<Seen>::default());
        let ended = Arc::<AtomicBool>::default();
        let state = (config.clone(), habit.clone(), seen.clone(), ended.clone());
        let listener = std::thread::spawn(move || {
            let (config, habit, seen, ended) = state;
            while !ended.load(Ordering::SeqCst) {
                let Ok((stream, _)) = listener.accept() else {
                    std::thread::sleep(Duration::from_millis(2));
                    continue;
                };
                add(&seen.connections);
                let habit = *habit.lock().unwrap();
                let (config, seen, ended) = (config.clone(), seen.clone(), ended.clone());
                std::thread::spawn(move || {
                    add(&seen.open);
                    stream.set_nonblocking(false).unwrap();
                    stream.set_nodelay(true).unwrap();
                    _ = serve(stream, &config, habit, (&seen, &ended));
                    seen.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, habit, seen, ended, listener: Some(listener) }
    }

    fn set(&self, habit: Habit) {
        *self.habit.lock().unwrap() = habit;
    }
}

impl Drop for Encrypted {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        if let Some(listener) = self.listener.take() {
            listener.join().unwrap();
        }
    }
}

/// Writes octet by octet.
struct Dribble(TcpStream, bool);

impl Read for Dribble {
    fn read(&mut self, octets: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(octets)
    }
}

impl Write for Dribble {
    fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
        let len = if self.1 { octets.len().min(1) } else { octets.len() };
        self.0.write(&octets[..len])
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn serve(
    mut stream: TcpStream,
    config: &Arc<ServerConfig>,
    habit: Habit,
    (seen, ended): (&Seen, &AtomicBool),
) -> std::io::Result<()> {
    let linger = |mut stream: TcpStream| {
        // What comes is read, so that it is no reset that ends the connection.
        stream.set_read_timeout(Some(Duration::from_millis(20)))?;
        while !ended.load(Ordering::SeqCst) {
            match stream.read(&mut [0; 512]) {
                Ok(0) => break,
                Err(error) if error.kind() != ErrorKind::WouldBlock => break,
                _ => {}
            }
        }
        std::io::Result::Ok(())
    };
    let mut session = ServerConnection::new(config.clone()).unwrap();
    match habit {
        Habit::TakesOne if get(&seen.connections) > 1 => {
            return stream.read(&mut [0; 4096]).map(|_| ());
        }
        // What is not read would make it a reset.
        Habit::Leaves => return stream.read(&mut [0; 4096]).map(|_| ()),
        Habit::Silent => return linger(stream),
        Habit::Babbles(octets) => {
            _ = stream.read(&mut [0; 512])?;
            stream.write_all(octets)?;
            return linger(stream);
        }
        Habit::Half => {
            session.read_tls(&mut stream)?;
            session.process_new_packets().unwrap();
            let mut octets = Vec::new();
            session.write_tls(&mut octets)?;
            stream.write_all(&octets[..octets.len() / 2])?;
            return linger(stream);
        }
        Habit::Slow(time) => std::thread::sleep(time),
        _ => {}
    }
    let mut tls = StreamOwned::new(session, Dribble(stream, matches!(habit, Habit::Dribbles)));
    while tls.conn.is_handshaking() {
        tls.conn.complete_io(&mut tls.sock)?;
    }
    add(match tls.conn.handshake_kind() {
        Some(HandshakeKind::Resumed) => &seen.resumed,
        _ => &seen.full,
    });
    match habit {
        Habit::Closes => return Ok(()),
        Habit::BabblesLater => {
            tls.sock.0.write_all(b"no record of TLS at all")?;
            return linger(tls.sock.0);
        }
        _ => {}
    }
    loop {
        let wire = read_message(&mut tls)?;
        let message = Message::parse(&wire).unwrap();
        let is_check = message.questions[0].qname.view().is_root();
        add(if is_check { &seen.checks } else { &seen.queries });
        if matches!(habit, Habit::TakesOne) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let from = tls.sock.0.peer_addr()?;
        let answer = Asked { wire, message, from, number: 0 }.answer();
        if matches!(habit, Habit::SaysGoodbye | Habit::AnswersAndBabbles) {
            // All in one segment.
            tls.conn.writer().write_all(&framed(&answer))?;
            if matches!(habit, Habit::SaysGoodbye) {
                tls.conn.send_close_notify();
            }
            let mut octets = Vec::new();
            while tls.conn.wants_write() {
                tls.conn.write_tls(&mut octets)?;
            }
            if matches!(habit, Habit::AnswersAndBabbles) {
                octets.extend_from_slice(b"no record of TLS at all");
            }
            tls.sock.0.write_all(&octets)?;
            return linger(tls.sock.0);
        }
        tls.write_all(&framed(&answer))?;
        if matches!(habit, Habit::AnswersOnce) {
            tls.conn.send_close_notify();
            return tls.flush();
        }
    }
}

/// A server of one worker that forwards to `to`.
pub(super) fn forward(to: &str, options: &str) -> Server {
    let corefile =
        format!(".:0 {{\n bind 127.0.0.1\n errors\n forward . {to} {{\n{options}\n}}\n}}");
    Server::of(1, &corefile, Options::default(), &BuildOptions::default())
}

fn tls(upstream: &Encrypted) -> String {
    format!("tls://{}", upstream.address)
}

#[test]
fn queries_of_all_clients_share_a_few_connections_within_tls() {
    let authority = Authority::new();
    let upstream = Encrypted::start(&config(authority.signed(ADDRESS, |_| {})), Habit::Answers);
    let server = forward(&tls(&upstream), &authority.tls());
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
            "coredns_proxy_conn_cache_{kind}_total{{proxy_name=\"forward\",to=\"{to}\",proto=\"tcp-tls\"}} "
        );
        let found = text.lines().find_map(|own| own.strip_prefix(&line));
        found.unwrap_or_else(|| panic!("{line} in {text}")).parse::<usize>().unwrap()
    };
    assert!(series("misses") >= 1 && series("hits") + series("misses") >= 400);
    let mut pools = text.lines().filter(|line| line.starts_with("coredns_proxy_conn_cache"));
    assert!(pools.all(|line| line.contains("proto=\"tcp-tls\"")), "{text}");
    server.stop();
}

#[test]
fn who_is_not_the_upstream_is_asked_nothing_and_the_log_says_why() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let good = authority.signed(ADDRESS, |_| {});
    let prefix = "tls: failed to verify certificate: x509: ";
    let only_name = authority.signed(&["dns.example"], |_| {});
    let expired = authority.signed(ADDRESS, |params| params.not_after = date_time_ymd(2020, 2, 3));
    let early = authority.signed(ADDRESS, |params| params.not_before = date_time_ymd(2099, 2, 3));
    let unknown = "certificate signed by unknown authority";
    let time = "certificate has expired or is not yet valid: current time 2";
    let no_address =
        "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs";
    for (pair, options, wanted) in [
        (
            &good,
            "tls_servername other.example",
            "certificate is valid for dns.example, not other.example",
        ),
        (&good, "tls_servername 192.0.2.1", "certificate is valid for 127.0.0.1, not 192.0.2.1"),
        (&only_name, "", no_address),
        (&expired, "", time),
        (&expired, "", "Z is after 2020-02-03T00:00:00Z"),
        (&early, "", "Z is before 2099-02-03T00:00:00Z"),
        (&stranger.signed(ADDRESS, |_| {}), "", unknown),
    ] {
        let pair = (pair.0.clone(), pair.1.clone_key());
        let upstream = Encrypted::start(&config(pair), Habit::Answers);
        let server = forward(&tls(&upstream), &format!("{}{options}", authority.tls()));
        assert_eq!(ask_udp(server.address(), "name.test A").flags.rcode(), Rcode::SERVFAIL);
        let log = server.log();
        assert!(log.contains(prefix) && log.contains(wanted), "{wanted}: {log}");
        assert_eq!(get(&upstream.seen.queries) + get(&upstream.seen.checks), 0, "{wanted}");
        server.stop();
    }
    // The system's authorities, which do not know it.
    let upstream = Encrypted::start(&config(good), Habit::Answers);
    let server = forward(&tls(&upstream), "");
    assert_eq!(ask_udp(server.address(), "name.test A").flags.rcode(), Rcode::SERVFAIL);
    assert!(server.log().contains(unknown));
    server.stop();
}

#[test]
fn the_name_of_each_upstream_counts_and_a_certificate_may_be_its_own_authority() {
    let authority = Authority::new();
    let upstream =
        Encrypted::start(&config(authority.signed(&["dns.example"], |_| {})), Habit::Answers);
    let to = format!("tls://127.0.0.1%DNS.example:{}", upstream.address.port());
    let server = forward(&to, &authority.tls());
    assert_answered(&ask_udp(server.address(), "name.test A"));
    server.stop();
    // As `openssl req -x509` makes it: a server that says it is an authority.
    let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let own = params.self_signed(&key).unwrap();
    std::fs::write(authority.file("own.pem"), own.pem()).unwrap();
    let pair = (own.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).unwrap());
    let upstream = Encrypted::start(&config(pair), Habit::Answers);
    let server = forward(&tls(&upstream), &format!("tls {}", authority.file("own.pem").display()));
    assert_answered(&ask_udp(server.address(), "name.test A"));
    server.stop();
}

#[test]
fn a_handshake_that_fails_is_a_connection_that_fails() {
    let authority = Authority::new();
    let config = config(authority.signed(ADDRESS, |_| {}));
    let alert = b"\x15\x03\x03\x00\x02\x02\x28";
    let old = b"\x15\x03\x01\x00\x02\x02\x46";
    for (habit, wanted) in [
        (
            Habit::Babbles(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
            "tls: first record does not look like a TLS handshake",
        ),
        (Habit::Babbles(alert), "remote error: tls: handshake failure"),
        (Habit::Babbles(old), "remote error: tls: protocol version not supported"),
        (Habit::Babbles(b"\x16\x03\x03\xff\xff\x02"), "tls: "),
        (Habit::Leaves, "EOF|connection reset by peer"),
        (Habit::Half, "tls handshake: i/o timeout"),
        (Habit::Silent, "tls handshake: i/o timeout"),
        // A reset if it had not read all.
        (Habit::Closes, "EOF|connection reset by peer"),
        (Habit::BabblesLater, "tls: "),
    ] {
        let upstream = Encrypted::start(&config, habit);
        let options = format!("{}read_timeout 300ms", authority.tls());
        let server = forward(&tls(&upstream), &options);
        let begun = Instant::now();
        let answer = ask_udp(server.address(), "name.test A");
        assert_eq!(answer.flags.rcode(), Rcode::SERVFAIL, "{habit:?}");
        assert!(begun.elapsed() < Duration::from_secs(6), "{habit:?}: {:?}", begun.elapsed());
        let log = server.log();
        assert!(wanted.split('|').any(|one| log.contains(one)), "{habit:?}: {log}");
        let connections = get(&upstream.seen.connections);
        assert!(connections <= 40, "{habit:?}: {connections}");
        // Once it is well, health checks find that out.
        upstream.set(Habit::Answers);
        eventually("an answer", || {
            ask_udp(server.address(), "name.test A").flags.rcode() == Rcode::NOERROR
        });
        server.stop();
        // Nothing is left open.
        eventually("the end of all connections", || get(&upstream.seen.open) == 0);
    }
}

#[test]
fn a_handshake_may_be_slow_and_come_in_any_pieces() {
    let authority = Authority::new();
    let config = config(authority.signed(ADDRESS, |_| {}));
    for habit in [Habit::Slow(Duration::from_millis(400)), Habit::Dribbles] {
        let upstream = Encrypted::start(&config, habit);
        let server = forward(&tls(&upstream), &authority.tls());
        assert_answered(&ask_udp(server.address(), "name.test A"));
        assert_answered(&ask_udp(server.address(), "other.test A"));
        server.stop();
    }
}

#[test]
fn another_upstream_answers_for_one_that_is_not_who_it_has_to_be() {
    let authority = Authority::new();
    let wrong =
        Encrypted::start(&config(authority.signed(&["other.example"], |_| {})), Habit::Answers);
    let silent = Encrypted::start(&config(authority.signed(ADDRESS, |_| {})), Habit::Silent);
    let plain = Upstream::prompt();
    for first in [&wrong, &silent] {
        let to = format!("{} {}", tls(first), plain.address);
        let server = forward(&to, &format!("{}policy sequential", authority.tls()));
        let begun = Instant::now();
        for n in 0..20 {
            assert_answered(&ask_udp(server.address(), &format!("n{n}.test A")));
        }
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        server.stop();
    }
    assert!(plain.count() >= 40);
}

#[test]
fn a_connection_that_its_upstream_closes_costs_no_query_and_its_session_is_resumed() {
    let authority = Authority::new();
    for versions in [&[&TLS13][..], &[&TLS12]] {
        let config = config_of(versions, authority.signed(ADDRESS, |_| {}));
        let upstream = Encrypted::start(&config, Habit::AnswersOnce);
        let server = forward(&tls(&upstream), &authority.tls());
        for n in 0..5 {
            assert_answered(&ask_udp(server.address(), &format!("n{n}.test A")));
        }
        assert!(get(&upstream.seen.queries) >= 5);
        let (full, resumed) = (get(&upstream.seen.full), get(&upstream.seen.resumed));
        assert!(full >= 1 && resumed >= 3 && full < resumed, "{full} {resumed}");
        server.stop();
    }
}

#[test]
fn what_was_answered_before_a_connection_breaks_counts() {
    let authority = Authority::new();
    let config = config(authority.signed(ADDRESS, |_| {}));
    let upstream = Encrypted::start(&config, Habit::AnswersAndBabbles);
    // Nothing is made good by another attempt.
    let options = format!("{}max_connect_attempts 1", authority.tls());
    let server = forward(&tls(&upstream), &options);
    for n in 0..3 {
        assert_answered(&ask_udp(server.address(), &format!("n{n}.test A")));
    }
    assert_eq!(get(&upstream.seen.queries), 3);
    server.stop();
}

#[test]
fn queries_at_once_are_all_answered_by_an_upstream_that_closes_after_each_answer() {
    let authority = Authority::new();
    let config = config(authority.signed(ADDRESS, |_| {}));
    let upstream = Encrypted::start(&config, Habit::AnswersOnce);
    let server = forward(&tls(&upstream), &authority.tls());
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
    server.stop();
}

#[test]
fn a_connection_that_works_is_used_where_no_other_can_be_made() {
    let authority = Authority::new();
    let config = config(authority.signed(ADDRESS, |_| {}));
    let upstream = Encrypted::start(&config, Habit::TakesOne);
    let server = forward(&tls(&upstream), &authority.tls());
    let address = server.address();
    assert_answered(&ask_udp(address, "first.test A"));
    for round in 0..3 {
        let clients: Vec<_> = (0..40)
            .map(|n| {
                let text = format!("n{n}.r{round}.test A");
                std::thread::spawn(move || assert_answered(&ask_udp(address, &text)))
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
    }
    assert!(get(&upstream.seen.connections) > 1);
    assert_eq!(get(&upstream.seen.full), 1);
    server.stop();
}

#[test]
fn a_connection_that_is_being_made_has_a_time_of_its_own() {
    let authority = Authority::new();
    let config = config(authority.signed(ADDRESS, |_| {}));
    // Longer than hedging would wait, and than a query may take once it has left.
    let upstream = Encrypted::start(&config, Habit::Slow(Duration::from_millis(400)));
    let options = format!("{}read_timeout 200ms", authority.tls());
    let server = forward(&tls(&upstream), &options);
    assert_answered(&ask_udp(server.address(), "name.test A"));
    let Seen { connections, queries, checks, .. } = &*upstream.seen;
    assert_eq!((get(connections), get(queries), get(checks)), (1, 1, 0));
    server.stop();
}

#[test]
fn handshakes_that_fail_follow_each_other_with_pauses() {
    let authority = Authority::new();
    let wrong = authority.signed(&["other.example"], |_| {});
    let upstream = Encrypted::start(&config(wrong), Habit::Answers);
    // Without health checks, which have a rhythm of their own.
    let server = forward(&tls(&upstream), &format!("{}max_fails 0", authority.tls()));
    let begun = Instant::now();
    // Fewer than there is budget for: who waits for that takes up to a second each.
    for n in 0..30 {
        let answer = ask_udp(server.address(), &format!("n{n}.test A"));
        assert_eq!(answer.flags.rcode(), Rcode::SERVFAIL);
    }
    // 50, 100, 200, 400, 800 ms and then one a second.
    let most = 7 + begun.elapsed().as_secs() as usize;
    let connections = get(&upstream.seen.connections);
    assert!((1..=most).contains(&connections), "{connections} > {most}");
    assert!(server.log().contains("x509: cannot validate certificate for 127.0.0.1"));
    server.stop();
}

#[test]
fn a_connection_that_began_with_other_files_is_replaced() {
    let authority = Authority::new();
    let (certificate, key) = authority.signed(ADDRESS, |_| {});
    let upstream = Encrypted::start(&config((certificate, key)), Habit::Answers);
    let files = ClientFiles { certificate: None, authorities: Some(authority.file("ca.pem")) };
    let server = forward(&tls(&upstream), &authority.tls());
    assert_answered(&ask_udp(server.address(), "a.test A"));
    assert_answered(&ask_udp(server.address(), "b.test A"));
    assert_eq!(get(&upstream.seen.connections), 1);
    let own = std::fs::read_to_string(authority.file("ca.pem")).unwrap();
    std::fs::write(authority.file("ca.pem"), format!("\n{own}")).unwrap();
    // A configuration that is read, and perhaps refused, changes nothing.
    let client = server.shared.upstreams.client(files).unwrap();
    assert_answered(&ask_udp(server.address(), "still.test A"));
    assert_eq!(get(&upstream.seen.connections), 1);
    assert!(client.reload().unwrap());
    assert_answered(&ask_udp(server.address(), "c.test A"));
    assert_eq!(get(&upstream.seen.connections), 2);
    eventually("the end of the first", || get(&upstream.seen.open) == 1);
    server.stop();
}

#[test]
fn a_connection_whose_upstream_says_goodbye_is_asked_nothing_more() {
    let authority = Authority::new();
    let upstream = Encrypted::start(&config(authority.signed(ADDRESS, |_| {})), Habit::SaysGoodbye);
    // Nothing is made good by another attempt.
    let options = format!("{}read_timeout 60s\nmax_connect_attempts 1", authority.tls());
    let server = forward(&tls(&upstream), &options);
    for n in 0..3 {
        assert_answered(&ask_udp(server.address(), &format!("n{n}.test A")));
    }
    assert_eq!(get(&upstream.seen.connections), 3);
    server.stop();
}

#[test]
fn an_idle_connection_ends_in_time() {
    let authority = Authority::new();
    let upstream = Encrypted::start(&config(authority.signed(ADDRESS, |_| {})), Habit::Answers);
    let server = forward(&tls(&upstream), &format!("{}expire 200ms", authority.tls()));
    assert_answered(&ask_udp(server.address(), "name.test A"));
    assert!(get(&upstream.seen.open) >= 1);
    eventually("the end of the connection", || get(&upstream.seen.open) == 0);
    assert_answered(&ask_udp(server.address(), "other.test A"));
    assert!(get(&upstream.seen.full) >= 1 && get(&upstream.seen.resumed) >= 1);
    server.stop();
}

#[test]
fn an_upstream_that_wants_a_certificate_is_shown_one() {
    let authority = Authority::new();
    let (certificate, key) = authority.signed(ADDRESS, |_| {});
    let mut roots = RootCertStore::empty();
    roots.add(authority.issuer.der().clone()).unwrap();
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap();
    for version in [&TLS13, &TLS12] {
        let builder = ServerConfig::builder_with_protocol_versions(&[version]);
        let builder = builder.with_client_cert_verifier(verifier.clone());
        let config = builder.with_single_cert(vec![certificate.clone()], key.clone_key()).unwrap();
        let upstream = Encrypted::start(&Arc::new(config), Habit::Answers);
        let at = |name: &str| authority.file(name).display().to_string();
        let shown = format!("tls {} {} {}", at("cert.pem"), at("key.pem"), at("ca.pem"));
        let server = forward(&tls(&upstream), &shown);
        assert_answered(&ask_udp(server.address(), "name.test A"));
        server.stop();
        let server = forward(&tls(&upstream), &authority.tls());
        assert_eq!(ask_udp(server.address(), "name.test A").flags.rcode(), Rcode::SERVFAIL);
        let log = server.log();
        assert!(log.contains("remote error: tls: certificate required"), "{log}");
        server.stop();
    }
}

#[test]
fn one_query_may_be_asked_without_a_worker() {
    let authority = Authority::new();
    let upstream = Encrypted::start(&config(authority.signed(ADDRESS, |_| {})), Habit::Answers);
    let files = ClientFiles { certificate: None, authorities: Some(authority.file("ca.pem")) };
    let client = Arc::new(Client::load(files).unwrap());
    let qname: Name = "name.test.".parse().unwrap();
    let ask = |name: &str| {
        let peer = Peer::new(client.clone(), server_name(name).unwrap(), nodens_tls::Protocol::Dot);
        let way = Way::Tls(Arc::new(peer));
        nodens_net::ask(upstream.address, &way, qname.view(), Type::A, Duration::from_millis(500))
    };
    assert_eq!(Message::parse(&ask("dns.example").unwrap()).unwrap().answer.len(), 1);
    let error = ask("other.example").unwrap_err();
    assert!(error.to_string().contains("x509: certificate is valid for dns.example"), "{error}");
    upstream.set(Habit::Half);
    assert_eq!(ask("dns.example").unwrap_err().kind(), ErrorKind::TimedOut);
}
