//! Other transports than the recorded ones.

use crate::recording::{Pcap, query};
use crate::{check_books, echo, run, servers, settings};
use lab_echo::identity::Identity;
use lab_echo::stream;
use lab_echo::udp::{Echo, Options};
use lab_load::transport::Trust;
use lab_replay::replay::look;
use lab_replay::{Over, ReplayError, Settings, replay};
use lab_workload::recorded::{Carrier, Content, Record};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Two clients over UDP, each from two ports, and a recorded connection of the first.
fn mixed() -> Pcap {
    let mut pcap = Pcap::new();
    let names = ["a", "b", "c", "d"].map(|name| format!("{name}.example"));
    for n in 0..8_u16 {
        let (client, port) = (1 + (n % 2) as u8, 4_000 + n % 4);
        let asked = query(n, &names[usize::from(n / 2)]);
        pcap.udp(u64::from(n) * 1_000_000, client, port, &asked);
    }
    let [e, f] = ["e", "f"].map(|name| query(7, &format!("{name}.example")));
    pcap.connection(20_000_000, 1, 5_000, &[&e, &f], true);
    pcap
}

fn by_transport(settings: &Settings) -> lab_replay::Replayed {
    let replayed = run(settings, &mixed().file()).unwrap();
    check_books(&replayed, 10);
    let verdict = &replayed.outcome.verdict;
    assert_eq!(replayed.outcome.tally.counts.answered, 10, "{verdict:?}");
    replayed
}

#[test]
fn clients_over_udp_have_a_connection_each_and_recorded_ones_are_kept() {
    let server = servers::Server::start();
    let mut settings = settings(server.address);
    settings.over = Some(Over::Tcp);
    let replayed = by_transport(&settings);
    assert_eq!(replayed.config.transport.name(), "tcp");
    let mut streams = server.streams();
    streams.sort();
    assert_eq!(streams, [vec!["a", "b", "c", "d"], vec!["a", "b", "c", "d"], vec!["e", "f"]]);
    assert!(server.clients().is_empty());
    let connections = &replayed.outcome.tally.connections;
    assert_eq!((connections.opened, connections.closed_by_client), (3, 3));
    assert_eq!(connections.tls.recorded(), 0);
}

#[test]
fn connections_become_datagrams_of_their_addresses_and_ports() {
    let server = servers::Server::start();
    let mut settings = settings(server.address);
    settings.over = Some(Over::Udp);
    let replayed = by_transport(&settings);
    assert_eq!((server.streams().len(), server.clients().len()), (0, 5));
    assert_eq!(replayed.config.transport.name(), "udp");
    assert!(replayed.outcome.by_transport.is_empty());
}

#[test]
fn a_client_that_is_silent_for_long_enough_connects_again() {
    let mut pcap = Pcap::new();
    for time in [0, 10, 700, 710] {
        pcap.udp(time * 1_000_000, 1, 4_000, &query(time as u16, "a.example"));
    }
    let server = servers::Server::start();
    let mut settings = settings(server.address);
    (settings.over, settings.idle) = (Some(Over::Tcp), Duration::from_millis(200));
    let replayed = run(&settings, &pcap.file()).unwrap();
    check_books(&replayed, 4);
    assert_eq!(server.streams(), [["a", "a"], ["a", "a"]]);
    settings.idle = Duration::from_secs(20);
    run(&settings, &pcap.file()).unwrap();
    assert_eq!(server.streams().len(), 3);
}

#[test]
fn connections_without_a_recorded_start_end_when_they_are_idle() {
    // As in dnstap: queries over TCP, and nothing of connections.
    let records = |port: u16| {
        [0, 1_000].map(|millis| Record {
            number: u64::from(port),
            time: (millis + u64::from(port)) * 1_000_000,
            client: ([10, 0, 0, 1], 4_000 + port).into(),
            server: ([10, 0, 9, 53], 53).into(),
            carrier: Carrier::Tcp,
            content: Content::Query(query(port, "a.example")),
        })
    };
    let mut records: Vec<_> = (0..20).flat_map(records).collect();
    records.sort_by_key(|record| record.time);
    let open = || Ok::<lab_replay::Recording, _>(Box::new(records.clone().into_iter().map(Ok)));
    let server = servers::Server::start();
    let settings = Settings { idle: Duration::from_millis(300), ..settings(server.address) };
    let survey = look(&settings, &open).unwrap();
    let replayed = replay(&settings, &survey, &open, &AtomicBool::new(false), &mut ()).unwrap();
    check_books(&replayed, 40);
    assert_eq!(server.streams(), [["a"]; 40]);
}

#[test]
fn recorded_connections_do_not_keep_those_of_clients_open() {
    let mut pcap = Pcap::new();
    let asked = query(7, "b.example");
    let ports = 4_000..4_071;
    for port in ports.clone() {
        pcap.connection(u64::from(port), 1, port, &[&asked], false);
    }
    for time in [100, 1_000] {
        pcap.udp(time * 1_000_000, 2, 4_000, &query(time as u16, "a.example"));
    }
    // Of the first, the end was not captured.
    for port in ports.skip(1) {
        pcap.end(1_100_000_000, 1, port, &[&asked]);
    }
    pcap.more(1_200_000_000, 1, 4_000, &[&asked], &[&asked]);
    let server = servers::Server::start();
    let mut settings = settings(server.address);
    (settings.over, settings.idle) = (Some(Over::Tcp), Duration::from_millis(300));
    let replayed = run(&settings, &pcap.file()).unwrap();
    check_books(&replayed, 74);
    let mut streams = server.streams();
    streams.sort();
    let [clients, recorded] =
        ["a", "b"].map(|name| streams.iter().filter(|asked| *asked == &[name]).count());
    assert_eq!((clients, recorded, streams.len()), (2, 72, 74));
}

/// An echo over TLS and the authority of its certificate.
fn over_tls() -> (Echo, String) {
    let identity = Identity::make(&["127.0.0.1".to_owned(), "dns.example".to_owned()]).unwrap();
    let tls = Some(identity.config("dot").unwrap());
    let options = stream::Options { threads: 1, tls, ..stream::Options::default() };
    let echo = stream::start("127.0.0.1:0".parse().unwrap(), options).unwrap();
    (echo, identity.authority.unwrap())
}

#[test]
fn all_of_it_goes_over_tls_to_a_server_with_a_certificate() {
    let (echo, authority) = over_tls();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("authority.pem");
    std::fs::write(&file, authority).unwrap();
    let mut settings = settings(echo.address);
    settings.over = Some(Over::Tls);
    settings.tls.trust = Trust::File(file);
    let replayed = by_transport(&settings);
    assert_eq!(replayed.config.transport.name(), "dot");
    let connections = &replayed.outcome.tally.connections;
    assert_eq!((connections.opened, connections.closed_by_client), (3, 3));
    assert_eq!((connections.tls.recorded(), connections.tcp.recorded()), (3, 3));
    assert_eq!(echo.stop().unwrap().truth.questions, 10);
}

#[test]
fn a_server_that_is_not_trusted_gets_no_query() {
    let (echo, _) = over_tls();
    let mut settings = settings(echo.address);
    settings.over = Some(Over::Tls);
    settings.tls.name = Some("dns.example".to_owned());
    let (other, authority) = over_tls();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("authority.pem");
    std::fs::write(&file, authority).unwrap();
    settings.tls.trust = Trust::File(file);
    let replayed = run(&settings, &mixed().file()).unwrap();
    check_books(&replayed, 10);
    let (counts, verdict) = (replayed.outcome.tally.counts, &replayed.outcome.verdict);
    assert_eq!((counts.answered, counts.connection_failed), (0, 10));
    let why = "connections failed: the server's certificate is not trusted";
    assert!(verdict.notes.iter().any(|note| note.contains(why)), "{verdict:?}");
    assert_eq!(echo.stop().unwrap().truth.questions, 0);
    drop(other);
    settings.tls.trust = Trust::File("/nonexistent.pem".into());
    let error = run(&settings, &mixed().file()).unwrap_err();
    assert!(matches!(error, ReplayError::Tls(_)), "{error}");
    assert!(error.to_string().contains("/nonexistent.pem"), "{error}");
}

#[test]
fn a_server_without_tls_is_named_as_one() {
    let server = servers::Server::start();
    let mut settings = settings(server.address);
    settings.over = Some(Over::Tls);
    settings.tls.trust = Trust::Anyone;
    settings.timeout = Duration::from_millis(400);
    let replayed = run(&settings, &mixed().file()).unwrap();
    check_books(&replayed, 10);
    assert_eq!(replayed.outcome.tally.counts.answered, 0);
    let udp_only = echo(Options::default());
    settings.target = udp_only.address;
    let replayed = run(&settings, &mixed().file()).unwrap();
    assert!(replayed.outcome.nothing_listens(), "{:?}", replayed.outcome.verdict);
}
