//! Upstreams over HTTPS, those that keep to the rules and others.

use super::client::{ask_tcp, ask_udp, assert_answered};
use super::encrypted::{ADDRESS, Authority, Pair, forward};
use super::server::{Server, eventually};
use super::upstream::{Asked, Upstream};
use nodens_core::config::BuildOptions;
use nodens_net::limits::{CONNECT_TIMEOUT, UPSTREAM_CONNECTIONS};
use nodens_net::{Options, Way};
use nodens_tls::{Client, ClientFiles, server_name};
use nodens_wire::{Message, Name, Rcode, Type};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const END: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const REFUSED_STREAM: u32 = 7;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A head with this status and content type.
fn head(stream: u32, status: &str, media_type: &str) -> Vec<u8> {
    let status = [&[8, status.len() as u8], status.as_bytes()].concat();
    let media_type = [&[0x0f, 0x10, media_type.len() as u8], media_type.as_bytes()].concat();
    frame(HEADERS, END_HEADERS, stream, &[status, media_type].concat())
}

/// What an upstream does with a connection.
#[derive(Clone, Copy, Debug)]
enum Habit {
    /// Answers every query, on so many streams at a time.
    Answers(u32),
    /// With this status and content type.
    Says(&'static str, &'static str),
    /// So long after the query.
    Slow(Duration),
    /// Closes the first connection in the middle of the first response.
    Breaks,
    /// Refuses the first query of a connection.
    RefusesFirst,
    /// Says after the first answer of a connection that it takes no more.
    GoesAway,
    /// Answers with another message than was asked for.
    Misunderstands,
    /// Resets every stream.
    Resets,
    /// Speaks HTTP/1.1, whatever was agreed on.
    SpeaksOne,
    /// Says nothing after the handshake.
    Silent,
    /// Answers nothing but pings without end.
    Pings,
    /// Responds with fields without end.
    Bombs,
}

struct Scripted {
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
    queries: AtomicUsize,
    checks: AtomicUsize,
    resets: AtomicUsize,
    flooding: AtomicUsize,
    sent: AtomicUsize,
}

fn add(count: &AtomicUsize) {
    count.fetch_add(1, Ordering::SeqCst);
}

fn get(count: &AtomicUsize) -> usize {
    count.load(Ordering::SeqCst)
}

/// With these names for ALPN.
fn config(pair: Pair, names: &[&str]) -> Arc<ServerConfig> {
    let mut config = Arc::unwrap_or_clone(super::encrypted::config(pair));
    config.alpn_protocols = names.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}

impl Scripted {
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
                let (habit, config, seen) = (habit.clone(), config.clone(), seen.clone());
                std::thread::spawn(move || {
                    add(&seen.open);
                    stream.set_nonblocking(false).unwrap();
                    stream.set_nodelay(true).unwrap();
                    _ = serve(stream, &config, &habit, &seen);
                    seen.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, habit, seen, ended, listener: Some(listener) }
    }

    /// One of its own for each test.
    fn with(authority: &Authority, habit: Habit) -> Self {
        Self::start(&config(authority.signed(ADDRESS, |_| {}), &["h2", "http/1.1"]), habit)
    }

    fn set(&self, habit: Habit) {
        *self.habit.lock().unwrap() = habit;
    }

    fn to(&self) -> String {
        format!("https://{}", self.address)
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        if let Some(listener) = self.listener.take() {
            listener.join().unwrap();
        }
    }
}

type Tls = StreamOwned<ServerConnection, TcpStream>;

/// Kind, flags, stream, payload.
fn read_frame(tls: &mut Tls) -> io::Result<(u8, u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    tls.read_exact(&mut head)?;
    let [a, b, c, kind, flags, d, e, f, g] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
    tls.read_exact(&mut payload)?;
    Ok((kind, flags, u32::from_be_bytes([d, e, f, g]), payload))
}

fn serve(
    stream: TcpStream,
    config: &Arc<ServerConfig>,
    habits: &Mutex<Habit>,
    seen: &Seen,
) -> io::Result<()> {
    let session = ServerConnection::new(config.clone()).unwrap();
    let mut tls = StreamOwned::new(session, stream);
    while tls.conn.is_handshaking() {
        tls.conn.complete_io(&mut tls.sock)?;
    }
    let mut preface = [0; 24];
    tls.read_exact(&mut preface)?;
    assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    let habit = *habits.lock().unwrap();
    match habit {
        Habit::Silent => return linger(tls),
        Habit::SpeaksOne => {
            tls.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")?;
            return linger(tls);
        }
        _ => {}
    }
    let streams = if let Habit::Answers(streams) = habit { streams } else { 100 };
    let mut settings = vec![0, 3];
    settings.extend(streams.to_be_bytes());
    tls.write_all(&frame(SETTINGS, 0, 0, &settings))?;
    let mut answered = 0;
    loop {
        let (kind, flags, stream, payload) = read_frame(&mut tls)?;
        match kind {
            SETTINGS if flags & ACK == 0 => tls.write_all(&frame(SETTINGS, ACK, 0, &[]))?,
            RST_STREAM => add(&seen.resets),
            DATA => {
                assert!(flags & END != 0 && payload.starts_with(&[0, 0]), "{payload:?}");
                let message = Message::parse(&payload).unwrap();
                let is_check = message.questions[0].qname.view().is_root();
                add(if is_check { &seen.checks } else { &seen.queries });
                let (habit, from) = (*habits.lock().unwrap(), tls.sock.peer_addr()?);
                let answer = Asked { wire: payload, message, from, number: 0 }.answer();
                respond(&mut tls, (stream, answered), habit, &answer, seen)?;
                answered += 1;
            }
            _ => {}
        }
    }
}

fn respond(
    tls: &mut Tls,
    (stream, answered): (u32, usize),
    habit: Habit,
    answer: &[u8],
    seen: &Seen,
) -> io::Result<()> {
    let head_of = |status, media_type| head(stream, status, media_type);
    let good = head_of("200", "application/dns-message");
    let whole = [good.clone(), frame(DATA, END, stream, answer)].concat();
    match habit {
        Habit::Says(status, media_type) => {
            tls.write_all(&[head_of(status, media_type), frame(DATA, END, stream, answer)].concat())
        }
        Habit::Slow(time) => {
            std::thread::sleep(time);
            tls.write_all(&whole)
        }
        Habit::Breaks if get(&seen.connections) == 1 => {
            tls.write_all(&[good, frame(DATA, 0, stream, &answer[..12])].concat())?;
            tls.conn.send_close_notify();
            tls.flush()?;
            Err(ErrorKind::BrokenPipe.into())
        }
        Habit::RefusesFirst if answered == 0 => {
            tls.write_all(&frame(RST_STREAM, 0, stream, &REFUSED_STREAM.to_be_bytes()))
        }
        Habit::GoesAway => {
            let last = [stream.to_be_bytes(), [0; 4]].concat();
            tls.write_all(&[whole, frame(GOAWAY, 0, 0, &last)].concat())
        }
        Habit::Misunderstands => {
            let mut other = answer.to_vec();
            other[13] ^= 1;
            tls.write_all(&[good, frame(DATA, END, stream, &other)].concat())
        }
        Habit::Resets => tls.write_all(&frame(RST_STREAM, 0, stream, &2_u32.to_be_bytes())),
        Habit::Pings => flood(tls, &[], &frame(PING, 0, 0, &[0; 8]), seen),
        Habit::Bombs => {
            let field = [&b"\0\x01x\x7f\x80\x7f"[..], &[b'y'; 255]].concat();
            flood(tls, &frame(HEADERS, 0, stream, b"\x88"), &frame(9, 0, stream, &field), seen)
        }
        _ => tls.write_all(&whole),
    }
}

/// Sends without end, and reads nothing.
fn flood(tls: &mut Tls, first: &[u8], rest: &[u8], seen: &Seen) -> io::Result<()> {
    let rest = rest.repeat(8000_usize.div_ceil(rest.len()));
    add(&seen.flooding);
    let mut written = tls.write_all(first);
    while written.is_ok() {
        written = tls.write_all(&rest);
        seen.sent.fetch_add(rest.len(), Ordering::SeqCst);
    }
    seen.flooding.fetch_sub(1, Ordering::SeqCst);
    written
}

/// What comes is read, so that it is no reset that ends the connection.
fn linger(mut tls: Tls) -> io::Result<()> {
    while tls.read(&mut [0; 512])? > 0 {}
    Ok(())
}

#[test]
fn queries_of_all_clients_share_a_few_connections() {
    let authority = Authority::new();
    let upstream = Scripted::with(&authority, Habit::Answers(100));
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
    let queries = get(&upstream.seen.queries);
    assert!((400..=500).contains(&queries), "{queries}");
    let connections = get(&upstream.seen.connections);
    assert!(connections <= 2 * UPSTREAM_CONNECTIONS, "{connections}");
    let text = server.shared.registry.render();
    let mut pools = text.lines().filter(|line| line.starts_with("coredns_proxy_conn_cache"));
    assert!(pools.all(|line| line.contains("proto=\"https\"")), "{text}");
    server.stop();
}

#[test]
fn an_upstream_may_take_few_queries_at_a_time() {
    let authority = Authority::new();
    let upstream = Scripted::with(&authority, Habit::Answers(1));
    let server = forward(&upstream.to(), &authority.tls());
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
fn who_is_not_the_upstream_or_does_not_speak_http2_is_asked_nothing() {
    let authority = Authority::new();
    let pair = authority.signed(ADDRESS, |_| {});
    let pair = || (pair.0.clone(), pair.1.clone_key());
    let no_offer = "the upstream does not offer HTTP/2 (ALPN h2)";
    for (names, habit, options, wanted) in [
        (&["h2"][..], Habit::Answers(9), "tls_servername other.example", "valid for dns.example"),
        (&["http/1.1"], Habit::Answers(9), "", "remote error: tls: no application protocol"),
        (&[], Habit::Answers(9), "", no_offer),
        (&["h2"], Habit::SpeaksOne, "", "it does not speak HTTP/2"),
        (&["h2"], Habit::Silent, "read_timeout 300ms", "i/o timeout"),
    ] {
        let upstream = Scripted::start(&config(pair(), names), habit);
        let server = forward(&upstream.to(), &format!("{}{options}", authority.tls()));
        let begun = Instant::now();
        assert_eq!(ask_udp(server.address(), "name.test A").flags.rcode(), Rcode::SERVFAIL);
        assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
        let log = server.log();
        assert!(log.contains(wanted), "{names:?} {habit:?}: {log}");
        assert_eq!(get(&upstream.seen.queries) + get(&upstream.seen.checks), 0, "{habit:?}");
        // A connection that never says anything is closed.
        std::thread::sleep(if matches!(habit, Habit::Silent) {
            CONNECT_TIMEOUT
        } else {
            Duration::ZERO
        });
        let connections = get(&upstream.seen.connections);
        assert!(connections <= 40, "{habit:?}: {connections}");
        server.stop();
        eventually("the end of all connections", || get(&upstream.seen.open) == 0);
    }
}

#[test]
fn what_is_no_answer_fails_and_says_why() {
    let authority = Authority::new();
    let media_type = "application/dns-message";
    for (habit, wanted) in [
        (Habit::Says("503", media_type), "the HTTP status 503 Service Unavailable"),
        (Habit::Says("404", "text/html"), "the HTTP status 404 Not Found"),
        (Habit::Says("200", "text/html"), "the content type \\\"text/html\\\""),
        (Habit::Misunderstands, "its response is not to the query"),
        (Habit::Resets, "stream error received"),
        (Habit::Slow(Duration::from_secs(2)), "i/o timeout"),
        (Habit::Pings, "octets without a response|i/o timeout"),
        (Habit::Bombs, "failed"),
    ] {
        let upstream = Scripted::with(&authority, habit);
        let options = format!("{}read_timeout 500ms", authority.tls());
        let server = forward(&upstream.to(), &options);
        let answer = ask_udp(server.address(), "name.test A");
        assert_eq!(answer.flags.rcode(), Rcode::SERVFAIL, "{habit:?}");
        let log = server.log();
        assert!(wanted.split('|').any(|one| log.contains(one)), "{habit:?}: {log}");
        upstream.set(Habit::Answers(100));
        eventually("an answer", || {
            ask_udp(server.address(), "name.test A").flags.rcode() == Rcode::NOERROR
        });
        // A flood has ended on each connection, after what the kernel takes and little more.
        eventually("the end of floods", || get(&upstream.seen.flooding) == 0);
        let sent = get(&upstream.seen.sent);
        let connections = get(&upstream.seen.connections);
        assert!(sent < connections * (8 << 20), "{habit:?}: {sent} on {connections}");
        server.stop();
    }
}

#[test]
fn a_query_that_the_upstream_did_not_see_or_answer_whole_is_asked_again() {
    let authority = Authority::new();
    for habit in [Habit::Breaks, Habit::RefusesFirst, Habit::GoesAway] {
        let upstream = Scripted::with(&authority, habit);
        let server = forward(&upstream.to(), &authority.tls());
        for n in 0..10 {
            assert_answered(&ask_udp(server.address(), &format!("n{n}.test A")));
        }
        let connections = get(&upstream.seen.connections);
        match habit {
            Habit::GoesAway => assert!(connections >= 10, "{connections}"),
            _ => assert!(connections <= 8, "{habit:?}: {connections}"),
        }
        server.stop();
        eventually("the end of all connections", || get(&upstream.seen.open) == 0);
    }
}

#[test]
fn another_upstream_answers_for_one_that_speaks_no_http2_or_answers_late() {
    let authority = Authority::new();
    let plain = Upstream::prompt();
    for habit in [Habit::SpeaksOne, Habit::Silent, Habit::Slow(Duration::from_secs(1))] {
        let upstream = Scripted::with(&authority, habit);
        let to = format!("{} {}", upstream.to(), plain.address);
        let server = forward(&to, &format!("{}policy round_robin", authority.tls()));
        let begun = Instant::now();
        for n in 0..20 {
            assert_answered(&ask_udp(server.address(), &format!("n{n}.test A")));
        }
        assert!(begun.elapsed() < Duration::from_secs(4), "{habit:?}: {:?}", begun.elapsed());
        server.stop();
    }
}

#[test]
fn an_idle_connection_ends_in_time_and_a_wrong_name_is_said() {
    let authority = Authority::new();
    let upstream = Scripted::with(&authority, Habit::Answers(100));
    let to = format!("https://127.0.0.1%dns.example:{}", upstream.address.port());
    let server = forward(&to, &format!("{}expire 200ms", authority.tls()));
    assert_answered(&ask_udp(server.address(), "name.test A"));
    assert!(get(&upstream.seen.open) >= 1);
    eventually("the end of the connection", || get(&upstream.seen.open) == 0);
    assert_answered(&ask_udp(server.address(), "other.test A"));
    server.stop();
}

/// A server of one worker with this Corefile.
fn server(corefile: &str) -> Server {
    Server::of(1, corefile, Options::default(), &BuildOptions::default())
}

#[test]
fn nodens_asks_nodens_with_either_method_and_responses_of_any_length() {
    let authority = Authority::new();
    authority.signed(ADDRESS, |_| {});
    let source = Upstream::start(|asked| {
        let answer = if asked.message.questions[0].qtype == Type::TXT {
            asked.long_answer(60_000)
        } else {
            asked.answer()
        };
        vec![super::upstream::Act::Send(answer)]
    });
    let (certificate, key) = (authority.file("cert.pem"), authority.file("key.pem"));
    let upstream = server(&format!(
        "https://.:0 {{\n bind 127.0.0.1\n tls {} {}\n forward . {} {{\n force_tcp\n }}\n}}",
        certificate.display(),
        key.display(),
        source.address
    ));
    for method in ["GET", "POST"] {
        let options = format!("{}doh_method {method}", authority.tls());
        let server = forward(&format!("https://{}", upstream.address()), &options);
        let address = server.address();
        let clients: Vec<_> = (0..50)
            .map(|n| {
                std::thread::spawn(move || {
                    assert_answered(&ask_udp(address, &format!("n{n}.test A")));
                    let long = ask_tcp(address, &format!("n{n}.test TXT"));
                    assert!(long.answer.len() > 100, "{}", long.answer.len());
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        server.stop();
    }
    assert!(upstream.count("coredns_dns_https_responses_total") >= 200);
    upstream.stop();
}

#[test]
fn nodens_asks_nodens_by_grpc_with_and_without_tls() {
    let authority = Authority::new();
    authority.signed(ADDRESS, |_| {});
    let source = Upstream::prompt();
    let (certificate, key) = (authority.file("cert.pem"), authority.file("key.pem"));
    for (served, asked) in [
        (String::new(), String::new()),
        (format!("tls {} {}", certificate.display(), key.display()), authority.tls()),
    ] {
        let upstream = server(&format!(
            "grpc://.:0 {{\n bind 127.0.0.1\n {served}\n forward . {} {{\n force_tcp\n }}\n}}",
            source.address
        ));
        let to = upstream.address();
        let server =
            server(&format!(".:0 {{\n bind 127.0.0.1\n errors\n grpc . {to} {{\n {asked}\n}}\n}}"));
        let address = server.address();
        let clients: Vec<_> = (0..50)
            .map(|n| {
                std::thread::spawn(move || {
                    assert_answered(&ask_udp(address, &format!("n{n}.test A")));
                    assert_answered(&ask_tcp(address, &format!("m{n}.test A")));
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        assert_eq!(server.count("coredns_grpc_requests_total"), 100);
        // Nobody is there any more.
        upstream.stop();
        let answer = ask_udp(address, "gone.test A");
        assert_eq!(answer.flags.rcode(), Rcode::SERVFAIL);
        let log = server.log();
        assert!(log.contains("connect: connection refused"), "{log}");
        server.stop();
    }
}

#[test]
fn one_query_may_be_asked_over_https_without_a_worker() {
    let authority = Authority::new();
    let upstream = Scripted::with(&authority, Habit::Answers(100));
    let files = ClientFiles { certificate: None, authorities: Some(authority.file("ca.pem")) };
    let client = Arc::new(Client::load(files).unwrap());
    let qname: Name = "name.test.".parse().unwrap();
    let ask = |name: &str| {
        let (name, protocol) = (server_name(name).unwrap(), nodens_tls::Protocol::Https);
        let peer = nodens_core::upstream::Peer::new(client.clone(), name, protocol);
        let way = Way::Https(Arc::new(peer));
        nodens_net::ask(upstream.address, &way, qname.view(), Type::A, Duration::from_millis(500))
    };
    assert_eq!(Message::parse(&ask("dns.example").unwrap()).unwrap().answer.len(), 1);
    let error = ask("other.example").unwrap_err();
    assert!(error.to_string().contains("x509: certificate is valid for dns.example"), "{error}");
    for (habit, wanted) in [
        (Habit::Says("503", "text/html"), "503 Service Unavailable"),
        (Habit::SpeaksOne, "it does not speak HTTP/2"),
        (Habit::Misunderstands, "its response is malformed"),
    ] {
        upstream.set(habit);
        let error = ask("dns.example").unwrap_err();
        assert!(error.to_string().contains(wanted), "{habit:?}: {error}");
    }
    upstream.set(Habit::Silent);
    assert_eq!(ask("dns.example").unwrap_err().kind(), ErrorKind::TimedOut);
}
