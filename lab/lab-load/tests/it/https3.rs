//! Runs over HTTP/3, against echoes and against a server that misbehaves as it is told.

mod server;

use crate::{closed, measure, workload};
use h3::error::Code;
use lab_echo::identity::Identity;
use lab_echo::udp::Echo;
use lab_echo::{Injection, doh3, quic};
use lab_load::schedule::Arrivals;
use lab_load::tally::Connections;
use lab_load::transport::{Method, Tls, Trust};
use lab_load::{Config, Outcome, Pace, Transport, run};
use server::{Reply, Server, Settings, Way};
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Longer than any thread waits for a CPU.
const PATIENCE: Duration = Duration::from_secs(60);
const MEDIA_TYPE: &str = "application/dns-message";

fn any() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn identity() -> Identity {
    Identity::make(&["127.0.0.1".to_owned()]).unwrap()
}

fn echo(options: quic::Options) -> Echo {
    doh3::start(any(), options).unwrap()
}

fn options() -> quic::Options {
    quic::Options::new(identity().quic_config("h3").unwrap())
}

/// 8 clients that POST, `rate` QPS, evenly, for `millis`.
fn load(server: SocketAddr, life: &str, rate: f64, millis: u64) -> Config {
    let pace = Pace::Open { rate, arrivals: Arrivals::Uniform };
    let duration = Duration::from_millis(millis);
    let base = Config::new(server, rate);
    let mut config = Config { transport: Transport::Doh3, pace, duration, clients: 8, ..base };
    config.timeout = PATIENCE;
    config.streams.life = life.parse().unwrap();
    config.streams.tls = Tls { trust: Trust::Anyone, ..Tls::default() };
    config.streams.doh.method = Method::Post;
    config
}

/// `queries` queries of one client, each of which waits for the answer to the one before it.
fn one_by_one(server: SocketAddr, life: &str, queries: u64) -> Config {
    let (pace, queries) = (Pace::Closed { window: 1 }, Some(queries));
    let base = load(server, life, 1.0, 0);
    Config { pace, queries, duration: PATIENCE, clients: 1, ..base }
}

fn connections(outcome: &Outcome) -> &Connections {
    &outcome.tally.connections
}

fn error(config: &Config) -> String {
    run(config, &workload(), &AtomicBool::new(false), |_| {}).unwrap_err().to_string()
}

#[test]
fn queries_over_http_3_have_a_stream_each_and_none_is_unaccounted_for() {
    let injection =
        Injection { latency: Some("20ms".parse().unwrap()), loss: 0.1, ..Injection::default() };
    let echo = echo(quic::Options { injection, threads: 2, ..options() });
    let mut config = load(echo.address, "persistent", 400.0, 1_000);
    config.timeout = Duration::from_secs(10);
    config.streams.doh.method = Method::Get;
    let outcome = measure(&config);
    let (seen, counts) = (connections(&outcome), outcome.tally.counts);
    let truth = echo.stop().unwrap().truth;
    assert!(truth.adds_up(), "{truth:?}");
    assert_eq!((seen.opened, seen.left_open, seen.broken), (8, 8, 0));
    assert_eq!((seen.tls.recorded(), seen.tcp.recorded()), (8, 0));
    assert_eq!((counts.sent, truth.sent), (400, counts.answered), "{counts:?}");
    assert_eq!((counts.timed_out, truth.lost), (400 - counts.answered, counts.timed_out));
    assert!(counts.timed_out > 10, "{counts:?}");
    assert_eq!(seen.http[&200], counts.answered);
    assert!(outcome.tally.service.min() >= Some(20_000_000));
}

#[test]
fn a_life_of_some_queries_ends_connections_and_loses_nothing() {
    let echo = echo(options());
    for (life, queries, opened) in [("queries=1", 20, 20), ("queries=10", 40, 4)] {
        let outcome = measure(&one_by_one(echo.address, life, queries));
        let seen = connections(&outcome);
        assert_eq!((outcome.tally.counts.answered, seen.opened), (queries, opened), "{life}");
        assert_eq!((seen.broken, seen.failed()), (0, 0), "{life}");
    }
}

#[test]
fn queries_go_out_early_with_a_ticket_and_again_where_they_are_not_taken() {
    let echo = echo(options());
    let mut config = one_by_one(echo.address, "queries=1", 20);
    config.streams.tls.early_data = true;
    let outcome = measure(&config);
    let seen = connections(&outcome);
    assert_eq!((outcome.tally.counts.answered, seen.closed_by_client), (20, 20), "{seen:?}");
    // The first has no ticket.
    assert!(seen.early_accepted > 0 && seen.early_offered < 20, "{seen:?}");
    assert_eq!(seen.resumed, seen.early_accepted);
    // A server that forgets its sessions with every connection takes no early data.
    let server = Server::start(Settings { forgets: true, ..Settings::default() }, |_, message| {
        Reply::Message(message)
    });
    let mut config = one_by_one(server.address, "queries=1", 20);
    config.streams.tls.early_data = true;
    let outcome = measure(&config);
    let seen = connections(&outcome);
    assert_eq!((outcome.tally.counts.answered, seen.early_accepted), (20, 0), "{seen:?}");
    assert_eq!((seen.early_questions_taken, seen.broken), (0, 0), "{seen:?}");
    assert!(seen.early_offered > 0 && seen.asked_again == seen.early_questions, "{seen:?}");
}

#[test]
fn connections_are_there_before_the_schedule_or_with_it() {
    let echo = echo(options());
    for first in [true, false] {
        let mut config = load(echo.address, "persistent", 200.0, 300);
        config.streams.connect_first = Some(first);
        let outcome = measure(&config);
        let seen = connections(&outcome);
        assert_eq!((outcome.tally.counts.answered, seen.opened), (60, 8), "{first}: {seen:?}");
        assert_eq!(seen.seconds.iter().map(|second| second.opened).sum::<u64>(), 8);
    }
}

#[test]
fn a_server_that_says_goodbye_loses_no_query_that_waits_for_its_answer() {
    let echo = echo(quic::Options { close_after: Some(5), ..options() });
    let outcome = measure(&one_by_one(echo.address, "persistent", 50));
    let (seen, counts) = (connections(&outcome), outcome.tally.counts);
    assert_eq!((counts.answered, counts.lost()), (50, 0), "{counts:?}");
    // A new connection at the latest when the one before takes no more.
    assert!((9..=10).contains(&seen.opened), "{seen:?}");
    assert_eq!((seen.broken, seen.rejected), (0, 0), "{seen:?}");
    assert_eq!(seen.closed_by_client + seen.left_open, seen.opened, "{seen:?}");
    let truth = echo.stop().unwrap().truth;
    assert!(truth.adds_up() && truth.sent == 50, "{truth:?}");
}

#[test]
fn what_is_asked_of_a_server_that_has_said_goodbye_is_lost_with_a_reason_or_asked_again() {
    let echo = echo(quic::Options { close_after: Some(10), ..options() });
    let outcome = measure(&load(echo.address, "persistent", 100.0, 2000));
    let (seen, counts) = (connections(&outcome), outcome.tally.counts);
    assert_eq!(counts.answered + counts.connection_failed, 200, "{counts:?}");
    assert!(seen.opened > 16 && counts.answered > 100, "{seen:?}");
    let truth = echo.stop().unwrap().truth;
    assert_eq!(truth.sent, counts.answered);
    assert!(truth.unsent <= counts.connection_failed);
}

#[test]
fn nobody_listening_for_http_3_is_refused() {
    let (_socket, address) = closed(socket2::Type::DGRAM);
    let outcome = measure(&load(address, "persistent", 100.0, 300));
    let seen = connections(&outcome);
    assert_eq!((seen.opened, seen.refused + seen.unfinished), (0, seen.attempts), "{seen:?}");
    assert_eq!(outcome.tally.counts.connection_failed, 30);
    assert!(outcome.nothing_listens());
}

#[test]
fn a_server_of_something_else_ends_the_run_at_once_and_says_so() {
    let tls = identity().quic_config("doq").unwrap();
    let other = quic::start(any(), quic::Options::new(tls)).unwrap();
    let wrong = error(&load(other.address, "persistent", 100.0, 60_000));
    assert!(wrong.contains("does not speak HTTP/3 (no ALPN h3)"), "{wrong}");
    let http = echo(options());
    let config = load(http.address, "persistent", 100.0, 60_000);
    let wrong = error(&Config { transport: Transport::Doq, ..config });
    assert!(wrong.contains("does not speak DNS over QUIC (no ALPN doq)"), "{wrong}");
}

#[test]
fn a_certificate_that_nobody_vouches_for_ends_a_run_over_http_3() {
    let identity = identity();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("authority.pem");
    std::fs::write(&path, Identity::make(&[]).unwrap().authority.unwrap()).unwrap();
    let echo = echo(quic::Options::new(identity.quic_config("h3").unwrap()));
    let mut config = load(echo.address, "persistent", 100.0, 60_000);
    config.streams.tls.trust = Trust::File(path.clone());
    let unknown = error(&config);
    assert!(unknown.contains("not trusted") && unknown.contains("--tls-ca"), "{unknown}");
    std::fs::write(&path, identity.authority.unwrap()).unwrap();
    assert_eq!(measure(&one_by_one(echo.address, "persistent", 5)).tally.counts.answered, 5);
    config.duration = Duration::from_millis(200);
    assert_eq!(measure(&config).tally.counts.answered, 20);
}

#[test]
fn a_response_that_carries_no_message_is_a_loss_and_no_answer() {
    // But for what is wrong with it, each is the answer.
    let cut: Way = |_, message| {
        let len = (message.len() + 1).to_string();
        Reply::Response(200, MEDIA_TYPE, answer(message), Some(("content-length", len)))
    };
    let fields: Way = |_, message| {
        Reply::Response(200, MEDIA_TYPE, answer(message), Some(("x", "x".repeat(256 << 10))))
    };
    let ways: [(&str, Way, Option<u16>); 8] = [
        ("status 400", |_, m| Reply::Response(400, MEDIA_TYPE, answer(m), None), Some(400)),
        ("status 500", |_, m| Reply::Response(500, MEDIA_TYPE, answer(m), None), Some(500)),
        ("a page", |_, m| Reply::Response(200, "text/html", answer(m), None), Some(200)),
        ("no body", |_, _| Reply::Response(200, MEDIA_TYPE, Vec::new(), None), Some(200)),
        ("too long", |_, m| Reply::Response(200, MEDIA_TYPE, long(m), None), Some(200)),
        ("a body that is cut", cut, Some(200)),
        ("fields without end", fields, None),
        ("a reset", |_, _| Reply::Reset(Code::H3_INTERNAL_ERROR), None),
    ];
    for (what, way, status) in ways {
        let server = Server::start(Settings::default(), way);
        let config = load(server.address, "persistent", 50.0, 400);
        let outcome = measure(&Config { timeout: PATIENCE / 2, ..config });
        let (seen, counts) = (connections(&outcome), outcome.tally.counts);
        assert_eq!((counts.sent, counts.connection_failed), (20, 20), "{what}: {counts:?}");
        assert_eq!((seen.rejected, seen.opened, seen.broken), (20, 8, 0), "{what}: {seen:?}");
        let statuses: Vec<_> = seen.http.iter().map(|(status, count)| (*status, *count)).collect();
        let wanted: Vec<_> = status.map(|status| (status, 20)).into_iter().collect();
        assert_eq!(statuses, wanted, "{what}");
    }
}

/// The message as its own answer.
fn answer(mut message: Vec<u8>) -> Vec<u8> {
    message[2] |= 0x80;
    message
}

/// An answer with more octets behind it than a message may have.
fn long(message: Vec<u8>) -> Vec<u8> {
    [answer(message), vec![0; 65_536]].concat()
}

#[test]
fn a_query_that_the_server_has_not_looked_at_is_asked_again_on_another_connection() {
    let server = Server::start(Settings::default(), |number, message| match number {
        3 => Reply::Reset(Code::H3_REQUEST_REJECTED),
        _ => Reply::Message(message),
    });
    let outcome = measure(&one_by_one(server.address, "persistent", 30));
    let (seen, counts) = (connections(&outcome), outcome.tally.counts);
    assert_eq!((counts.answered, counts.lost()), (30, 0), "{counts:?}");
    assert_eq!((seen.opened, seen.asked_again), (15, 14));
}

#[test]
fn an_answer_before_the_query_is_read_is_an_answer() {
    let server = Server::start(Settings { is_rash: true, ..Settings::default() }, |_, _| {
        Reply::Response(404, "text/plain", Vec::new(), None)
    });
    let outcome = measure(&one_by_one(server.address, "persistent", 10));
    assert_eq!(connections(&outcome).http[&404], 10);
    assert_eq!(connections(&outcome).opened, 1);
}

#[test]
fn a_connection_that_both_sides_gave_up_as_idle_is_opened_again_with_the_next_query() {
    let settings = Settings { idle: Duration::from_millis(500), ..Settings::default() };
    let server = Server::start(settings, |_, message| Reply::Message(message));
    // A query at once and one after two seconds.
    let config = load(server.address, "persistent", 0.5, 4_000);
    let outcome = measure(&Config { clients: 1, ..config });
    let seen = connections(&outcome);
    assert_eq!(outcome.tally.counts.answered, 2, "{seen:?}");
    assert_eq!((seen.opened, seen.broken), (2, 0), "{seen:?}");
    assert_eq!(seen.closed_by_server + seen.left_open, 2, "{seen:?}");
}

#[test]
fn silence_is_a_timeout_and_the_run_ends() {
    let server = Server::start(Settings::default(), |_, _| Reply::Silence);
    let mut config = load(server.address, "queries=5", 100.0, 300);
    config.timeout = Duration::from_millis(300);
    let outcome = measure(&config);
    let counts = outcome.tally.counts;
    assert_eq!((counts.sent, counts.timed_out), (30, 30), "{counts:?}");
}

#[test]
fn no_more_streams_are_out_than_the_server_allows() {
    let settings = Settings { streams: 2, ..Settings::default() };
    let server = Server::start(settings, |_, message| Reply::Message(message));
    let base = one_by_one(server.address, "persistent", 200);
    let outcome = measure(&Config { pace: Pace::Closed { window: 10 }, ..base });
    let (seen, counts) = (connections(&outcome), outcome.tally.counts);
    assert!(counts.answered >= 200 && counts.lost() == 0, "{counts:?}");
    assert!(seen.opened == 1 && seen.stream_waits > 0, "{seen:?}");
}

#[test]
fn a_frame_without_end_on_a_control_stream_ends_the_connection() {
    let settings = Settings { is_endless: true, ..Settings::default() };
    let server = Server::start(settings, |_, message| Reply::Message(message));
    let mut config = one_by_one(server.address, "persistent", 1);
    config.timeout = Duration::from_secs(5);
    let outcome = measure(&config);
    let seen = connections(&outcome);
    let flooded = server.flooded.load(std::sync::atomic::Ordering::Relaxed);
    assert!(seen.broken > 0, "{seen:?} {flooded}");
    // What was on its way when the connection ended is more than what was taken.
    assert!(flooded < 8 << 20, "{flooded}");
}
