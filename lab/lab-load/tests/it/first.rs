//! Connections that are there before the schedule starts.

use crate::{PATIENCE, measure, workload};
use lab_echo::identity::Identity;
use lab_load::schedule::Arrivals;
use lab_load::transport::{Share, Trust};
use lab_load::{Config, Pace, Transport, run};
use nodens_wire::framing::{framed, read_message};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a server has seen, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Connection,
    Question,
}

type Log = Arc<Mutex<Vec<Seen>>>;

/// A server of TLS that takes one connection after the other, slowly, and answers with the query.
fn slow_server(tls: Arc<ServerConfig>) -> (SocketAddr, Log) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, log) = (listener.local_addr().unwrap(), Log::default());
    let shared = log.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // Before the server's part of the handshake, so before the client can have the connection.
            shared.lock().unwrap().push(Seen::Connection);
            let (tls, log) = (tls.clone(), shared.clone());
            std::thread::spawn(move || answer(stream, tls, &log));
            std::thread::sleep(Duration::from_millis(15));
        }
    });
    (address, log)
}

/// Until the client is gone.
fn answer(stream: TcpStream, tls: Arc<ServerConfig>, log: &Log) -> Option<()> {
    let mut stream = StreamOwned::new(ServerConnection::new(tls).unwrap(), stream);
    loop {
        let mut message = read_message(&mut stream).ok()?;
        log.lock().unwrap().push(Seen::Question);
        *message.get_mut(2)? |= 0x80;
        stream.write_all(&framed(&message)).ok()?;
    }
}

fn config(transport: Transport, server: SocketAddr) -> Config {
    let pace = Pace::Open { rate: 400.0, arrivals: Arrivals::Uniform };
    let (duration, timeout) = (Duration::from_millis(400), Duration::from_secs(60));
    let base = Config::new(server, 400.0);
    let mut config = Config { transport, pace, duration, timeout, clients: 20, threads: 2, ..base };
    config.streams.tls.trust = Trust::Anyone;
    config
}

#[test]
fn connections_are_there_before_the_first_query_and_their_times_are_kept() {
    let identity = Identity::make(&["127.0.0.1".to_owned()]).unwrap();
    let (server, log) = slow_server(identity.config("dot").unwrap());
    let outcome = measure(&config(Transport::Dot, server));
    let log = log.lock().unwrap();
    let first = log.iter().position(|seen| *seen == Seen::Question).unwrap();
    assert_eq!(first, 20, "a query came before all connections were asked for: {log:?}");
    assert_eq!(outcome.tally.counts.answered, 160);
    // The last of them waited for the 19 before it; no query did.
    let (tally, connections) = (&outcome.tally, &outcome.tally.connections);
    assert_eq!((tally.connect.recorded(), connections.opened, connections.attempts), (20, 20, 20));
    assert!(tally.connect.max() >= Some(200_000_000), "{:?}", tally.connect.max());
    assert_eq!((connections.seconds[0].opened, tally.contradictions()), (20, vec![]));
}

#[test]
fn without_it_connections_are_asked_for_as_the_schedule_begins() {
    let identity = Identity::make(&["127.0.0.1".to_owned()]).unwrap();
    let (server, log) = slow_server(identity.config("dot").unwrap());
    let mut config = config(Transport::Dot, server);
    config.streams.connect_first = Some(false);
    let outcome = measure(&config);
    assert_eq!(outcome.tally.counts.answered, 160);
    // The last connection is had 300 ms after the start at the earliest, so queries waited for it.
    assert!(outcome.tally.connections.waited.max() >= Some(100_000_000));
    assert_eq!(log.lock().unwrap().iter().filter(|seen| **seen == Seen::Connection).count(), 20);
}

#[test]
fn a_connection_that_cannot_be_had_first_is_asked_for_by_its_first_query() {
    // no process listens: each connection is refused, before the start and again.
    let server = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut config = config(Transport::Tcp, server);
    config.streams.tls = Default::default();
    let outcome = run(&config, &workload(), &AtomicBool::new(false), |_| {}).unwrap();
    let connections = &outcome.tally.connections;
    assert!(outcome.nothing_listens() && connections.refused >= 40, "{connections:?}");
    assert_eq!(outcome.tally.counts.connection_failed, outcome.tally.counts.sent);
    assert_eq!(outcome.tally.contradictions(), [""; 0]);
}

#[test]
fn against_a_server_that_never_shakes_hands_the_schedule_begins_all_the_same() {
    // The kernel takes connections for it, and that is all.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = config(Transport::Dot, listener.local_addr().unwrap());
    (config.clients, config.threads, config.queries) = (300, 1, Some(1));
    config.streams.set_up_timeout = Some(Duration::from_millis(200));
    let outcome = measure(&config);
    // As many as are set up at once, all of them until the time for the first is over, and that of the
    // only query; without that bound 300 and one.
    assert_eq!(outcome.tally.connections.attempts, 65);
    let notes = outcome.verdict.notes.join("; ");
    assert!(notes.contains("236 of 300 connections were not attempted"), "{notes}");
    assert_eq!(outcome.tally.contradictions(), [""; 0]);
}

#[test]
fn a_thread_that_waits_for_the_others_looks_after_its_connections() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let dot = TcpListener::bind("127.0.0.1:0").unwrap();
    let servers = [&tcp, &dot].map(|listener| listener.local_addr().unwrap());
    let waiting = std::thread::spawn(move || {
        let (mut closing, _) = tcp.accept().unwrap();
        // The handshake lasts until the client has noticed that the other server closed. The client
        // would wait longer for it, so this is before the start.
        let (_stream, _) = dot.accept().unwrap();
        // What comes before it waits is noticed by other means.
        std::thread::sleep(Duration::from_millis(500));
        closing.shutdown(std::net::Shutdown::Write).unwrap();
        closing.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        closing.read_to_end(&mut Vec::new()).is_ok()
    });
    let mut config = config(Transport::Tcp, servers[0]);
    config.streams.set_up_timeout = Some(PATIENCE);
    (config.clients, config.queries) = (2, Some(2));
    let share = |(transport, server)| Share { transport, weight: 1, server };
    config.mix = [(Transport::Tcp, servers[0]), (Transport::Dot, servers[1])].map(share).into();
    _ = measure(&config);
    assert!(waiting.join().unwrap(), "a closed connection was not noticed before the start");
}
