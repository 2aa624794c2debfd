//! Runs over connections, against echoes and against servers that misbehave in known ways.

use crate::{measure, workload};
use lab_echo::identity::Identity;
use lab_echo::udp::{self, Echo};
use lab_echo::{Injection, quic, stream};
use lab_load::schedule::Arrivals;
use lab_load::tally::Connections;
use lab_load::transport::{Share, Tls, Trust};
use lab_load::{Config, Outcome, Pace, Transport, run};
use nodens_wire::framing::{framed, read_message};
use rustls::ServerConfig;
use socket2::{Domain, Socket, Type};
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

fn any() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn tcp_echo(options: stream::Options) -> Echo {
    stream::start(any(), options).unwrap()
}

/// An echo over TLS and the file with its authority.
struct Dot {
    echo: Echo,
    authority: PathBuf,
    _folder: tempfile::TempDir,
}

fn dot_echo(options: stream::Options) -> Dot {
    let identity = Identity::make(&["127.0.0.1".to_owned(), "echo.example".to_owned()]).unwrap();
    let tls = Some(identity.config("dot").unwrap());
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("authority.pem");
    std::fs::write(&authority, identity.authority.unwrap()).unwrap();
    Dot { echo: tcp_echo(stream::Options { tls, ..options }), authority, _folder: folder }
}

/// 8 clients, `rate` QPS, evenly, for `millis`.
fn config(server: SocketAddr, rate: f64, millis: u64) -> Config {
    let pace = Pace::Open { rate, arrivals: Arrivals::Uniform };
    let (duration, timeout) = (Duration::from_millis(millis), Duration::from_secs(60));
    Config { pace, duration, timeout, clients: 8, ..Config::new(server, rate) }
}

/// 8 clients, `rate` QPS for `millis`, with a life.
fn load(transport: Transport, server: SocketAddr, life: &str, rate: f64, millis: u64) -> Config {
    let mut config = Config { transport, ..config(server, rate, millis) };
    config.streams.life = life.parse().unwrap();
    config
}

/// `queries` queries, each of which waits for the answer to the one before it.
fn one_by_one(config: Config, queries: u64) -> Config {
    let (pace, queries) = (Pace::Closed { window: 1 }, Some(queries));
    Config { pace, queries, duration: Duration::from_secs(60), ..config }
}

fn trusting(mut config: Config, trust: Trust) -> Config {
    config.streams.tls = Tls { trust, ..Tls::default() };
    config
}

fn connections(outcome: &Outcome) -> &Connections {
    &outcome.tally.connections
}

#[test]
fn a_life_of_one_query_is_a_connection_for_each() {
    let echo = tcp_echo(stream::Options::default());
    let outcome = measure(&load(Transport::Tcp, echo.address, "queries=1", 400.0, 500));
    let seen = connections(&outcome);
    assert_eq!(
        (outcome.tally.counts.answered, seen.opened, seen.closed_by_client),
        (200, 200, 200)
    );
    assert_eq!((seen.tcp.recorded(), seen.tls.recorded(), seen.waited.recorded()), (200, 0, 200));
    assert_eq!(seen.seconds.iter().map(|second| second.opened).sum::<u64>(), 200);
}

#[test]
fn lives_of_several_queries_and_of_time_end_connections_and_lose_nothing() {
    let echo = tcp_echo(stream::Options::default());
    // Those with a time last so long that no pause of a busy machine leaves one connection for all.
    for (life, low, high, millis) in [
        ("queries=10", 40, 48, 500),
        ("queries=uniform:5-15", 25, 90, 500),
        ("time=150ms", 16, 112, 2_000),
    ] {
        let rate = 400_000.0 / millis as f64;
        let outcome = measure(&load(Transport::Tcp, echo.address, life, rate, millis));
        let seen = connections(&outcome);
        assert_eq!(outcome.tally.counts.answered, 400, "{life}");
        // One more for each client and 150 ms by which a busy machine was late.
        let late = outcome.elapsed.saturating_sub(Duration::from_millis(millis)).as_millis() as u64;
        let high = if life.starts_with("time") { high + 8 * late.div_ceil(150) } else { high };
        assert!((low..=high).contains(&seen.opened), "{life}: {}", seen.opened);
        assert!(seen.closed_by_client > 0 && seen.broken == 0, "{life}: {seen:?}");
    }
}

#[test]
fn an_idle_connection_is_closed_and_opened_again_with_the_next_query() {
    let echo = tcp_echo(stream::Options::default());
    // One client, a query every 200 ms: each finds its connection closed.
    let config = load(Transport::Tcp, echo.address, "idle=20ms", 5.0, 1_200);
    let outcome = measure(&Config { clients: 1, ..config });
    let seen = connections(&outcome);
    // Fewer only if the machine stood still for longer than it is from one to the next.
    assert!((3..=6).contains(&seen.opened), "{seen:?}");
    assert_eq!(outcome.tally.counts.answered, 6);
    assert_eq!(seen.closed_by_client + seen.left_open, seen.opened);
    assert!(seen.left_open <= 1, "{seen:?}");
}

#[test]
fn a_resumed_session_is_counted_and_can_be_done_without() {
    let dot = dot_echo(stream::Options::default());
    let config = load(Transport::Dot, dot.echo.address, "queries=1", 50.0, 1_000);
    let config = trusting(Config { clients: 1, ..config }, Trust::File(dot.authority.clone()));
    // Each begins when the one before it is over.
    let config = one_by_one(config, 50);
    let outcome = measure(&config);
    let seen = connections(&outcome);
    assert_eq!((outcome.tally.counts.answered, seen.opened, seen.tls.recorded()), (50, 50, 50));
    assert_eq!(seen.resumed, 49, "the first has no ticket");
    let mut full = config;
    full.streams.tls.no_resumption = true;
    assert_eq!(connections(&measure(&full)).resumed, 0);
}

#[test]
fn a_certificate_that_nobody_vouches_for_ends_the_run_at_once_and_says_why() {
    let dot = dot_echo(stream::Options::default());
    let config = load(Transport::Dot, dot.echo.address, "persistent", 100.0, 30_000);
    let error = |config: &Config| {
        run(config, &workload(), &AtomicBool::new(false), |_| {}).unwrap_err().to_string()
    };
    let other = Identity::make(&["127.0.0.1".to_owned()]).unwrap().authority.unwrap();
    let path = dot.authority.with_file_name("other.pem");
    std::fs::write(&path, other).unwrap();
    let unknown = error(&trusting(config.clone(), Trust::File(path)));
    assert!(unknown.contains("not trusted") && unknown.contains("--tls-ca"), "{unknown}");
    let mut named = trusting(config.clone(), Trust::File(dot.authority.clone()));
    named.streams.tls.name = Some("other.example".to_owned());
    let wrong = error(&named);
    assert!(wrong.contains("other.example") && wrong.contains("--tls-sni"), "{wrong}");
    named.streams.tls.name = Some("echo.example".to_owned());
    named.duration = Duration::from_millis(200);
    assert_eq!(measure(&named).tally.counts.answered, 20);
    let anyone = Config { duration: Duration::from_millis(200), ..config };
    assert_eq!(measure(&trusting(anyone, Trust::Anyone)).tally.counts.answered, 20);
}

#[test]
fn a_server_of_something_else_than_http_2_ends_the_run_at_once_and_says_so() {
    // One refuses what is asked for, the other takes it and says nothing about it.
    let identity = Identity::make(&["127.0.0.1".to_owned()]).unwrap();
    let mut silent = ServerConfig::clone(&*identity.config("dot").unwrap());
    silent.alpn_protocols.clear();
    for tls in [identity.config("dot").unwrap(), Arc::new(silent)] {
        let echo = tcp_echo(stream::Options { tls: Some(tls), ..stream::Options::default() });
        let config = load(Transport::Doh, echo.address, "persistent", 100.0, 60_000);
        let config = trusting(config, Trust::Anyone);
        let error = run(&config, &workload(), &AtomicBool::new(false), |_| {}).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("does not speak HTTP/2 (no ALPN h2)"), "{error}");
    }
}

/// Serves each connection in a thread of its own until the returned flag is set.
fn serve(each: impl Fn(TcpStream) + Send + Sync + 'static) -> (SocketAddr, Arc<AtomicBool>) {
    let listener = TcpListener::bind(any()).unwrap();
    let address = listener.local_addr().unwrap();
    let over = Arc::new(AtomicBool::new(false));
    listener.set_nonblocking(true).unwrap();
    let (stop, each) = (over.clone(), Arc::new(each));
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false).unwrap();
                    let each = each.clone();
                    std::thread::spawn(move || each(stream));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    });
    (address, over)
}

/// The next query; `None` at the end.
fn read_question(stream: &mut TcpStream) -> Option<Vec<u8>> {
    read_message(stream).ok().map(|query| framed(&query))
}

#[test]
fn a_handshake_that_never_ends_has_its_own_timeout_and_its_own_count() {
    let (address, over) = serve(|mut stream| _ = std::io::copy(&mut stream, &mut std::io::sink()));
    let mut config = load(Transport::Dot, address, "persistent", 50.0, 300);
    config.streams.set_up_timeout = Some(Duration::from_millis(100));
    let outcome = measure(&trusting(config, Trust::Anyone));
    over.store(true, Ordering::Relaxed);
    let (seen, counts) = (connections(&outcome), outcome.tally.counts);
    assert_eq!((seen.opened, seen.timed_out), (0, seen.attempts - seen.unfinished));
    assert!(seen.timed_out > 0 && seen.tcp.recorded() > 0, "{seen:?}");
    assert_eq!((counts.sent, counts.answered, counts.connection_failed), (15, 0, 15));
    assert_eq!(counts.timed_out, 0, "their connections failed before they timed out");
}

#[test]
fn resets_and_refusals_are_no_timeouts() {
    let reset = |stream: TcpStream| {
        let socket = Socket::from(stream);
        socket.set_linger(Some(Duration::ZERO)).unwrap();
    };
    let (address, over) = serve(reset);
    let tls = trusting(load(Transport::Dot, address, "persistent", 100.0, 300), Trust::Anyone);
    let outcome = measure(&tls);
    let seen = connections(&outcome);
    assert!(seen.reset > 0 && seen.opened == 0, "{seen:?}");
    assert_eq!(seen.reset + seen.unfinished, seen.attempts);
    let plain = measure(&load(Transport::Tcp, address, "persistent", 100.0, 300));
    let seen = connections(&plain);
    assert!(seen.broken + seen.reset > 0 && seen.refused + seen.timed_out == 0, "{seen:?}");
    assert!(plain.tally.counts.connection_failed > 0);
    over.store(true, Ordering::Relaxed);
    // A port that is bound and not listened on refuses.
    let closed = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    closed.bind(&any().into()).unwrap();
    let address = closed.local_addr().unwrap().as_socket().unwrap();
    let outcome = measure(&load(Transport::Tcp, address, "persistent", 100.0, 300));
    let seen = connections(&outcome);
    assert_eq!((seen.refused, seen.opened), (seen.attempts, 0));
    assert_eq!(outcome.tally.counts.connection_failed, 30);
    assert!(
        outcome.verdict.is_valid() || !outcome.verdict.invalid.join(" ").contains("could not open")
    );
}

#[test]
fn a_server_that_closes_loses_what_was_asked_and_nothing_else() {
    let echo = tcp_echo(stream::Options { close_after: Some(20), ..stream::Options::default() });
    let outcome = measure(&load(Transport::Tcp, echo.address, "persistent", 1_000.0, 500));
    let (seen, counts) = (connections(&outcome), outcome.tally.counts);
    assert!(seen.closed_by_server > 3, "{seen:?}");
    assert_eq!(counts.answered + counts.connection_failed, 500);
    assert!(counts.answered > 100, "{counts:?}");
    let truth = echo.stop().unwrap().truth;
    // Every query that reached the server was either answered or came too late for it.
    assert_eq!(truth.sent, counts.answered);
    assert!(truth.unsent <= counts.connection_failed);
}

#[test]
fn no_more_queries_are_out_than_the_pipelining_depth() {
    for depth in [1, 3] {
        let most = Arc::new(AtomicUsize::new(0));
        let seen = most.clone();
        let (address, over) = serve(move |mut stream| {
            stream.set_nodelay(true).unwrap();
            // Waits, and then looks how many queries have come without an answer.
            while let Some(mut first) = read_question(&mut stream) {
                std::thread::sleep(Duration::from_millis(15));
                let mut waiting = vec![0; 4_096];
                stream.set_nonblocking(true).unwrap();
                let octets = stream.peek(&mut waiting).unwrap_or(0);
                stream.set_nonblocking(false).unwrap();
                let (mut at, mut count) = (0, 1);
                while let Some(len) = waiting[..octets].get(at..at + 2) {
                    at += 2 + usize::from(u16::from_be_bytes([len[0], len[1]]));
                    count += 1;
                }
                seen.fetch_max(count, Ordering::Relaxed);
                first[4] |= 0x80;
                if stream.write_all(&first).is_err() {
                    return;
                }
            }
        });
        let config = load(Transport::Tcp, address, "persistent", 200.0, 300);
        let mut config = Config { clients: 1, ..config };
        config.streams.pipelining = std::num::NonZeroUsize::new(depth);
        let outcome = measure(&config);
        over.store(true, Ordering::Relaxed);
        assert_eq!(most.load(Ordering::Relaxed), depth);
        assert_eq!(outcome.tally.counts.answered, 60);
        // They had to wait for their turn, and that is no lateness of the generator.
        let waited = connections(&outcome).waited.quantile(0.9).nanos();
        assert!(waited > Some(100_000_000), "{waited:?}");
    }
}

#[test]
fn a_mix_divides_the_clients_and_its_parts_add_up() {
    let plain = tcp_echo(stream::Options::default());
    let dot = dot_echo(stream::Options::default());
    let options = udp::Options { threads: 1, ..udp::Options::default() };
    let datagrams = Echo::start(any(), options).unwrap();
    let share = |transport, weight, server| Share { transport, weight, server };
    let mix = vec![
        share(Transport::Udp, 60, datagrams.address),
        share(Transport::Tcp, 30, plain.address),
        share(Transport::Dot, 10, dot.echo.address),
    ];
    let config = Config { clients: 20, mix, ..config(datagrams.address, 1_000.0, 500) };
    let config = trusting(config, Trust::File(dot.authority.clone()));
    for threads in [1, 2] {
        let outcome = measure(&Config { threads, ..config.clone() });
        assert_eq!(outcome.tally.counts.answered, 500);
        let parts: Vec<_> = outcome.by_transport.iter().map(|(name, _)| *name).collect();
        assert_eq!(parts, [Transport::Udp, Transport::Tcp, Transport::Dot]);
        let mut sum = lab_load::tally::Tally::default();
        for (name, tally) in &outcome.by_transport {
            assert_eq!(tally.contradictions(), [""; 0], "{name}");
            sum.merge(tally);
        }
        assert_eq!(sum.counts, outcome.tally.counts);
        assert_eq!(sum.response, outcome.tally.response);
        // The order of queries is shuffled over clients: shares hold on average.
        let udp = outcome.by_transport[0].1.counts.answered;
        assert!((200..400).contains(&udp), "{udp}");
        assert_eq!(connections(&outcome).opened, 8, "six clients with TCP, two with TLS");
    }
}

#[test]
fn silence_on_open_connections_is_a_timeout_and_the_run_ends() {
    let (address, over) = serve(|mut stream| _ = std::io::copy(&mut stream, &mut std::io::sink()));
    let mut config = load(Transport::Tcp, address, "queries=5", 200.0, 300);
    config.timeout = Duration::from_millis(200);
    let outcome = measure(&config);
    let counts = outcome.tally.counts;
    assert_eq!((counts.sent, counts.timed_out), (60, 60));
    assert!(connections(&outcome).closed_by_client > 0);
    let closed = Config { pace: Pace::Closed { window: 3 }, ..config };
    let outcome = measure(&closed);
    assert_eq!(outcome.tally.counts.sent, outcome.tally.counts.timed_out);
    over.store(true, Ordering::Relaxed);
}

#[test]
fn a_closed_loop_does_not_race_against_a_server_that_refuses() {
    let closed = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    closed.bind(&any().into()).unwrap();
    let address = closed.local_addr().unwrap().as_socket().unwrap();
    let config = load(Transport::Tcp, address, "persistent", 1.0, 500);
    let outcome = measure(&Config { pace: Pace::Closed { window: 2 }, ..config });
    let attempts = connections(&outcome).attempts;
    // Eight clients, half a second, one try every 100 ms.
    assert!((8..=64).contains(&attempts), "{attempts}");
    assert_eq!(outcome.tally.counts.answered, 0);
}

#[test]
fn queries_over_quic_have_a_stream_each_and_go_out_early_with_a_ticket() {
    let identity = Identity::make(&["127.0.0.1".to_owned()]).unwrap();
    let tls = identity.quic_config("doq").unwrap();
    let injection = Injection { latency: Some("3ms".parse().unwrap()), ..Injection::default() };
    let options = quic::Options { injection, threads: 2, ..quic::Options::new(tls) };
    let echo = quic::start(any(), options).unwrap();
    let config = load(Transport::Doq, echo.address, "persistent", 200.0, 500);
    let outcome = measure(&trusting(config, Trust::Anyone));
    let seen = connections(&outcome);
    assert_eq!((outcome.tally.counts.answered, seen.opened, seen.left_open), (100, 8, 8));
    assert_eq!((seen.tls.recorded(), seen.tcp.recorded(), seen.early_offered), (8, 0, 0));
    assert!(outcome.tally.service.min() >= Some(3_000_000), "{:?}", outcome.tally.service.min());
    let config = load(Transport::Doq, echo.address, "queries=1", 20.0, 1_000);
    let early = trusting(Config { clients: 1, ..config }, Trust::Anyone);
    let mut early = one_by_one(early, 20);
    early.streams.tls.early_data = true;
    let outcome = measure(&early);
    let seen = connections(&outcome);
    assert_eq!((outcome.tally.counts.answered, seen.closed_by_client), (20, 20));
    // The first has no ticket.
    assert!(seen.early_accepted > 0 && seen.early_offered < 20, "{seen:?}");
    assert_eq!(seen.resumed, seen.early_accepted);
    assert!(seen.early_questions_taken <= seen.early_questions && seen.early_questions > 0);
    let truth = echo.stop().unwrap().truth;
    assert!(truth.adds_up(), "{truth:?}");
    assert_eq!(truth.sent, 120);
}

#[test]
fn nobody_listening_for_quic_is_refused() {
    let socket = std::net::UdpSocket::bind(any()).unwrap();
    let address = socket.local_addr().unwrap();
    // Connected to another peer it takes nothing from us, and nobody else can have the port.
    socket.connect(("127.0.0.1", 9)).unwrap();
    let config = load(Transport::Doq, address, "persistent", 100.0, 300);
    let outcome = measure(&trusting(config, Trust::Anyone));
    let seen = connections(&outcome);
    assert_eq!((seen.opened, seen.refused + seen.unfinished), (0, seen.attempts), "{seen:?}");
    assert_eq!(outcome.tally.counts.connection_failed, 30);
}

#[test]
fn datagrams_of_quic_that_the_load_did_not_fetch_in_time_make_it_invalid() {
    let server = std::net::UdpSocket::bind(any()).unwrap();
    let address = server.local_addr().unwrap();
    // Who sends shares one CPU with the load: while they have their turns, nothing is read.
    let cpus: Vec<_> = lab_sys::cpu::allowed().unwrap().into_iter().take(1).collect();
    let (pinned, over) = (cpus.clone(), Arc::new(AtomicBool::new(false)));
    let is_over = over.clone();
    let flood = std::thread::spawn(move || {
        let (_, client) = server.recv_from(&mut [0; 2_048]).unwrap();
        lab_sys::cpu::pin(&pinned).unwrap();
        let send = || {
            while !is_over.load(Ordering::Relaxed) {
                _ = server.send_to(&[0; 1_200], client);
            }
        };
        std::thread::scope(|scope| (0..8).for_each(|_| _ = scope.spawn(send)));
    });
    let config = load(Transport::Doq, address, "persistent", 20.0, 500);
    let config = Config { clients: 1, cpus, timeout: Duration::from_secs(2), ..config };
    let outcome = measure(&trusting(config, Trust::Anyone));
    over.store(true, Ordering::Relaxed);
    flood.join().unwrap();
    assert!(outcome.threads.iter().any(|thread| thread.dropped > 0), "{:?}", outcome.threads);
    let why = outcome.verdict.invalid.join("; ");
    assert!(why.contains("answers were dropped because the generator"), "{why}");
}
