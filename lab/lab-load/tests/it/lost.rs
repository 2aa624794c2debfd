//! Queries that are lost on streams of their own do not take the room of those after them.

use crate::measure;
use lab_echo::identity::Identity;
use lab_echo::udp::Echo;
use lab_echo::{Injection, doh, doh3, quic, stream};
use lab_load::transport::{Tls, Trust};
use lab_load::{Config, Pace, Transport};
use std::net::SocketAddr;
use std::time::Duration;

/// Streams that a client may have open.
const STREAMS: u32 = 8;
const QUESTIONS: u64 = 120;

/// An echo that loses 30 of 100 queries.
fn echo(transport: Transport) -> Echo {
    let identity = Identity::make(&["127.0.0.1".to_owned()]).unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let injection = Injection { loss: 0.3, seed: 1, ..Injection::default() };
    if transport == Transport::Doh {
        let (tls, streams_max) = (Some(identity.config("h2").unwrap()), Some(STREAMS));
        let options = stream::Options { injection, tls, streams_max, ..stream::Options::default() };
        return doh::start(any, options).unwrap();
    }
    let is_http = transport == Transport::Doh3;
    let tls = identity.quic_config(if is_http { "h3" } else { "doq" }).unwrap();
    let options = quic::Options { injection, streams_max: STREAMS, ..quic::Options::new(tls) };
    let start = if is_http { doh3::start } else { quic::start };
    start(any, options).unwrap()
}

/// One client with `window` queries out at once.
fn check(transport: Transport, window: usize) {
    let echo = echo(transport);
    let base = Config::new(echo.address, 1.0);
    let (pace, queries) = (Pace::Closed { window }, Some(QUESTIONS));
    let timeout = Duration::from_millis(100);
    let mut config = Config { transport, pace, queries, timeout, clients: 1, ..base };
    config.duration = Duration::from_secs(60);
    config.streams.life = "persistent".parse().unwrap();
    config.streams.tls = Tls { trust: Trust::Anyone, ..Tls::default() };
    let outcome = measure(&config);
    let (counts, seen) = (outcome.tally.counts, outcome.tally.connections);
    let truth = echo.stop().unwrap().truth;
    assert!(truth.adds_up(), "{truth:?}");
    assert_eq!(
        (seen.opened, seen.left_open, seen.broken),
        (1, 1, 0),
        "{transport}: {:?}",
        seen.failures
    );
    assert!(truth.lost > 2 * u64::from(STREAMS), "{transport}: {truth:?}");
    assert_eq!((seen.asked_again, seen.rejected), (0, 0), "{transport}");
    // A loaded machine may answer a few too late.
    let room = counts.sent / 4;
    assert!(truth.questions + room >= counts.sent, "{transport}: {counts:?} {truth:?}");
    assert!(counts.timed_out <= truth.lost + room, "{transport}: {counts:?} {truth:?}");
}

#[test]
fn lost_queries_leave_their_streams_of_http_2_to_others() {
    check(Transport::Doh, 8);
}

#[test]
fn lost_queries_leave_their_streams_of_quic_to_others() {
    check(Transport::Doq, 8);
}

#[test]
fn lost_queries_leave_their_streams_of_http_3_to_others() {
    check(Transport::Doh3, 8);
}
