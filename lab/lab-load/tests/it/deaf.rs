//! Runs against servers that accept connections and then read nothing: the way is full after a while,
//! and no query is ever answered.

use lab_echo::identity::Identity;
use lab_load::schedule::Arrivals;
use lab_load::transport::{Tls, Trust};
use lab_load::{Config, Outcome, Pace, Transport, Workload, run};
use nodens_wire::{Name, Type};
use rustls::{ServerConfig, ServerConnection};
use socket2::SockRef;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// Longer than any thread waits for a CPU.
const PATIENCE: Duration = Duration::from_secs(60);
/// A receive buffer that is full soon.
const BUFFER: usize = 4_096;

/// A server that shakes hands, if there is TLS, and reads nothing after that.
fn deaf(tls: Option<Arc<ServerConfig>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // Connections inherit it.
    SockRef::from(&listener).set_recv_buffer_size(BUFFER).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            kept.push((greet(&stream, tls.clone()), stream));
        }
    });
    address
}

fn greet(mut stream: &TcpStream, tls: Option<Arc<ServerConfig>>) -> Option<ServerConnection> {
    let mut connection = ServerConnection::new(tls?).unwrap();
    while connection.is_handshaking() {
        connection.complete_io(&mut stream).unwrap();
    }
    Some(connection)
}

/// Queries of a load: with names as long as can be, more octets than find room on the way of one
/// connection, which the kernel gives up to [`ROOM`].
const QUESTIONS: u64 = 20_000;
/// Octets that a connection may have on its way by Linux's own settings.
const ROOM: u64 = 4 << 20;

/// Whether this machine has Linux's own settings: with more room, the way may never be full.
fn room_is_known() -> bool {
    let settings = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_wmem").unwrap_or_default();
    let most = settings.split_ascii_whitespace().last().and_then(|most| most.parse().ok());
    most.is_some_and(|most: u64| most <= ROOM)
}

/// One client, [`QUESTIONS`] in a second, each given up after half a second.
fn config(transport: Transport, server: SocketAddr) -> Config {
    let rate = QUESTIONS as f64;
    let pace = Pace::Open { rate, arrivals: Arrivals::Uniform };
    let (duration, timeout) = (Duration::from_secs(1), Duration::from_millis(500));
    let mut config = Config::new(server, rate);
    config.streams.tls = Tls { trust: Trust::Anyone, ..Tls::default() };
    config.streams.set_up_timeout = Some(PATIENCE);
    Config { transport, pace, duration, timeout, clients: 1, ..config }
}

/// Runs it on a thread of its own, so that a run without an end fails the test. `stop_after` is when it
/// is told to end.
fn ends(what: &str, config: Config, stop_after: Option<Duration>) -> Outcome {
    let (done, outcome) = mpsc::channel();
    let stop = Arc::new(AtomicBool::new(false));
    let told = stop.clone();
    let mut workload = Workload::new(1);
    let name = ["a-label-of-63-octets".repeat(4).split_at(63).0; 3].join(".");
    workload.push(Name::parse(&name).unwrap().view(), Type::A, None);
    std::thread::spawn(move || {
        // The client has timed out if that took too long.
        done.send(run(&config, &workload, &told, |_| {}).unwrap()).is_ok()
    });
    if let Some(after) = stop_after {
        std::thread::sleep(after);
        stop.store(true, Ordering::Relaxed);
    }
    outcome.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what}: the run does not end"))
}

/// All servers that read nothing, and loads that find no more room on the way to them.
fn loads() -> Vec<(&'static str, Config)> {
    let identity = Identity::make(&["127.0.0.1".to_owned()]).unwrap();
    let tls = |protocol: &str| deaf(Some(identity.config(protocol).unwrap()));
    let mut pipelined = config(Transport::Tcp, deaf(None));
    pipelined.streams.pipelining = NonZeroUsize::new(1);
    vec![
        ("TCP without a limit", config(Transport::Tcp, deaf(None))),
        ("TCP with a limit", pipelined),
        ("DoT", config(Transport::Dot, tls("dot"))),
        ("DoH", config(Transport::Doh, tls("h2"))),
    ]
}

#[test]
fn a_server_that_reads_nothing_makes_no_load_endless() {
    for (what, config) in loads() {
        let outcome = ends(what, config, None);
        let counts = outcome.tally.counts;
        assert_eq!(outcome.tally.contradictions(), [""; 0], "{what}");
        assert_eq!((counts.scheduled, counts.answered), (QUESTIONS, 0), "{what}: {counts:?}");
        assert_eq!(counts.timed_out, QUESTIONS, "{what}: {counts:?}");
        // With a limit, the limit is reached first; over HTTP/2 lost queries then leave their streams to
        // others, which may fill the way.
        let is_full = outcome.threads.iter().any(|thread| thread.blocked > 0);
        let can_be_full = matches!(what, "TCP without a limit" | "DoT");
        assert!(is_full == can_be_full || what == "DoH" || !room_is_known(), "{what}");
    }
}

#[test]
fn a_load_on_a_server_that_reads_nothing_can_be_stopped() {
    for (what, config) in loads() {
        let config = Config { duration: PATIENCE, ..config };
        let outcome = ends(what, config, Some(Duration::from_millis(400)));
        let counts = outcome.tally.counts;
        assert!(outcome.interrupted && outcome.elapsed < PATIENCE / 2, "{what}");
        assert_eq!(counts.interrupted + counts.timed_out, counts.sent, "{what}: {counts:?}");
        assert_eq!(outcome.tally.contradictions(), [""; 0], "{what}");
    }
}
