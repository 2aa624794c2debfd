//! Captures with more than what clients ask one server.

use crate::recording::query;
use crate::{check_books, echo, settings};
use lab_echo::udp::Options;
use lab_replay::replay::look;
use lab_replay::{Recording, ReplayError, Settings, Survey, replay};
use lab_workload::recorded::{Carrier, Content, Record};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::AtomicBool;

const RESOLVER: [u8; 4] = [10, 9, 9, 9];
const ROOT: [u8; 4] = [198, 41, 0, 4];

fn asked(micros: u64, (from, port): ([u8; 4], u16), server: [u8; 4], id: u16) -> Record {
    Record {
        number: micros,
        time: micros * 1_000,
        client: (from, port).into(),
        server: (server, 53).into(),
        carrier: Carrier::Udp,
        content: Content::Query(query(id, "a.example")),
    }
}

/// What is in `records`, and how many queries are sent of it.
fn sent(settings: &Settings, records: &[Record]) -> (Survey, u64) {
    let open = || -> Result<Recording, ReplayError> {
        Ok(Box::new(Vec::from(records).into_iter().map(Ok)))
    };
    let survey = look(settings, &open).unwrap();
    let replayed = replay(settings, &survey, &open, &AtomicBool::new(false), &mut ()).unwrap();
    check_books(&replayed, survey.queries());
    (survey, replayed.outcome.tally.counts.sent)
}

#[test]
fn what_a_resolver_asks_itself_is_left_out_or_told() {
    let client = |n: u16| asked(u64::from(n) * 4_000, ([10, 0, 0, 1], 4_000), RESOLVER, n);
    let resolver = |n: u16| asked(u64::from(n) * 4_000 + 500, (RESOLVER, 9_000 + n), ROOT, n);
    let records: Vec<_> = (0..50).flat_map(|n| [client(n), resolver(n)]).collect();
    let echo = echo(Options::default());
    let mut settings = settings(echo.address);
    let (survey, all) = sent(&settings, &records);
    let [one, two] = [RESOLVER, ROOT].map(|server| IpAddr::from(Ipv4Addr::from(server)));
    assert_eq!((survey.by_server, all), (vec![(one, 50), (two, 50)], 100));
    settings.servers = vec![one];
    let (survey, some) = sent(&settings, &records);
    assert_eq!((survey.by_server, survey.other_servers, some), (vec![(one, 50)], 50, 50));
    settings.servers = vec!["192.0.2.1".parse().unwrap()];
    let none = look(&settings, &|| Ok(Box::new(records.clone().into_iter().map(Ok)))).unwrap();
    let why = ReplayError::NoQuery(Box::new(none)).to_string();
    assert_eq!(why, "no query in the recording: all 100 are to other servers");
}

#[test]
fn a_query_that_several_devices_have_captured_is_sent_once() {
    let query = |n: u16, later: u64| {
        asked(u64::from(n) * 3_000 + later, ([10, 0, 0, 1], 4_000), RESOLVER, n)
    };
    let mut records: Vec<_> =
        (0..50).flat_map(|n| [query(n, 0), query(n, 2), query(n, 4)]).collect();
    // Sent again by the client.
    records.push(query(49, 2_000));
    let echo = echo(Options::default());
    let (survey, sent) = sent(&settings(echo.address), &records);
    assert_eq!((survey.copies, survey.queries(), sent), (100, 51, 51));
}
