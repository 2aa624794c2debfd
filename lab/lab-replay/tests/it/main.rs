//! Recordings written here, replayed to echoes and to servers of a few lines.

mod chosen;
mod faults;
mod over;
mod recording;
mod servers;

use lab_echo::Injection;
use lab_echo::udp::{Echo, Options};
use lab_load::transport::Tls;
use lab_replay::replay::look;
use lab_replay::{Addresses, Over, ReplayError, Replayed, Sample, Settings, replay};
use nodens_wire::Rcode;
use recording::{Pcap, SECOND, capture, query, response};
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How often a test of times may try until the machine has time for it.
const ATTEMPTS: usize = 4;
/// Nanoseconds by which quartiles of gaps between arrivals may be off.
const GAP_ERROR: u64 = 1_000_000;

fn settings(target: SocketAddr) -> Settings {
    Settings {
        target,
        speed: 1.0,
        loops: 1,
        servers: Vec::new(),
        sample: Sample { part: 1.0, seed: 1 },
        addresses: Addresses::default(),
        over: None,
        tls: Tls::default(),
        idle: Duration::from_secs(20),
        timeout: Duration::from_secs(2),
        sockets: None,
        differences: 10,
    }
}

fn run(settings: &Settings, file: &[u8]) -> Result<Replayed, ReplayError> {
    let open = || capture(file.to_vec());
    let survey = look(settings, &open)?;
    replay(settings, &survey, &open, &AtomicBool::new(false), &mut ())
}

fn echo(options: Options) -> Echo {
    Echo::start("127.0.0.1:0".parse().unwrap(), options).unwrap()
}

fn keeping_arrivals() -> Options {
    Options { arrivals_kept: 1 << 20, ..Options::default() }
}

/// The quartiles of the gaps between neighbours.
fn quartiles(times: &[u64]) -> [u64; 3] {
    let mut gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    [1, 2, 3].map(|quarter| gaps[gaps.len() * quarter / 4])
}

/// What has to be true of every replay: all counts add up, and nothing was invented or forgotten.
fn check_books(replayed: &Replayed, queries: u64) {
    let tally = &replayed.outcome.tally;
    assert_eq!(tally.contradictions(), Vec::<&str>::new());
    assert_eq!(tally.counts.scheduled, queries);
}

#[test]
fn ten_thousand_queries_arrive_as_recorded() {
    let mut pcap = Pcap::new();
    let mut times = Vec::new();
    let mut time = 0;
    for n in 0..10_000_u64 {
        // Gaps of 20 to 380 us.
        time += 20_000 + lab_random(n) % 360_000;
        times.push(time);
        let (client, id) = ((n % 40) as u8, (n % 60_000) as u16);
        let asked = query(id, &format!("n{}.example", n % 500));
        pcap.udp(time, client, 4_000 + (n % 7) as u16, &asked);
        pcap.answer(
            time + 90_000,
            client,
            4_000 + (n % 7) as u16,
            &response(&asked, Rcode::NOERROR, &[]),
        );
    }
    // On a machine that has no time for it, a replay says so and is no measurement.
    let file = pcap.file();
    let mut faults = Vec::new();
    while faults.len() < ATTEMPTS {
        match arrives_as_recorded(&file, &times) {
            Ok(()) => return,
            Err(fault) => faults.push(fault),
        }
    }
    panic!("{faults:#?}");
}

/// Whether the 10,000 queries of `file`, of 280 sources, arrive at `times`. What is counted has to add up in any case.
fn arrives_as_recorded(file: &[u8], times: &[u64]) -> Result<(), String> {
    let echo = echo(keeping_arrivals());
    let replayed = run(&settings(echo.address), file).unwrap();
    check_books(&replayed, 10_000);
    let report = echo.stop().unwrap();
    let counts = replayed.outcome.tally.counts;
    let comparison = &replayed.comparison;
    assert_eq!(comparison.same, counts.answered, "{comparison:?}");
    if (counts.sent, counts.answered, report.truth.questions) != (10_000, 10_000, 10_000) {
        return Err(format!("{:?}", replayed.outcome.verdict));
    }
    assert_eq!(comparison.compared(), 10_000);
    assert_eq!(replayed.config.clients, 280, "a socket for each source");
    // Single queries may be late, but the whole keeps its length and shape.
    let span = |times: &[u64]| times[times.len() - 1] - times[0];
    let off = span(&report.arrivals).abs_diff(span(times));
    if off >= SECOND / 50 {
        return Err(format!("took {} as {}", span(&report.arrivals), span(times)));
    }
    let (found, recorded) = (quartiles(&report.arrivals), quartiles(times));
    let far = found.iter().zip(recorded).any(|(found, at)| found.abs_diff(at) > GAP_ERROR);
    if far { Err(format!("gaps {found:?} as {recorded:?}")) } else { Ok(()) }
}

fn lab_random(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 17
}

#[test]
fn speed_and_loops_change_times_and_numbers() {
    let mut pcap = Pcap::new();
    (0..101).for_each(|n| pcap.udp(n * SECOND / 100, 1, 4_000, &query(n as u16, "a.example")));
    let echo = echo(keeping_arrivals());
    let mut settings = settings(echo.address);
    (settings.speed, settings.loops) = (4.0, 3);
    let replayed = run(&settings, &pcap.file()).unwrap();
    check_books(&replayed, 303);
    assert_eq!(replayed.outcome.tally.counts.answered, 303);
    let span = replayed.outcome.tally.span.unwrap().intended;
    // Three times 250 ms, and two gaps of 2.5 ms between them.
    assert!(span.1.abs_diff(755_000_000) < 1_000, "{span:?}");
    assert_eq!(echo.stop().unwrap().arrivals.len(), 303);
}

#[test]
fn whole_clients_stay_in_a_sample() {
    let mut pcap = Pcap::new();
    for n in 0..2_000_u64 {
        pcap.udp(n * 100_000, (n % 200) as u8, 4_000 + n as u16, &query(n as u16, "a.example"));
    }
    let file = pcap.file();
    let echo = echo(Options::default());
    let mut settings = settings(echo.address);
    settings.sample.part = 0.25;
    let replayed = run(&settings, &file).unwrap();
    let sent = replayed.outcome.tally.counts.sent;
    assert!(sent.is_multiple_of(10) && (200..=800).contains(&sent), "{sent}: ten of each client");
    check_books(&replayed, sent);
    let again = run(&settings, &file).unwrap();
    assert_eq!(again.outcome.plan_hash, replayed.outcome.plan_hash);
    settings.sample.seed = 2;
    assert_ne!(run(&settings, &file).unwrap().outcome.plan_hash, replayed.outcome.plan_hash);
}

#[test]
fn differences_are_counted_by_kind_and_named_by_packet() {
    let mut pcap = Pcap::new();
    let one = [10, 0, 0, 1];
    // The server answers all with NOERROR and 10.0.0.1, and 10.0.0.2 in front of it for "two".
    for (n, (name, rcode, records)) in [
        ("one.example", Rcode::NOERROR, vec![one]),
        ("ONE.example", Rcode::NOERROR, vec![one]),
        ("two.example", Rcode::NOERROR, vec![one, [10, 0, 0, 2]]),
        ("one.example", Rcode::NXDOMAIN, vec![]),
        ("one.example", Rcode::NOERROR, vec![[10, 0, 0, 9]]),
        ("lost.example", Rcode::NOERROR, vec![one]),
    ]
    .into_iter()
    .enumerate()
    {
        let asked = query(n as u16, name);
        let time = n as u64 * 1_000_000;
        pcap.udp(time, 1, 4_000, &asked);
        pcap.answer(time + 500_000, 1, 4_000, &response(&asked, rcode, &records));
    }
    pcap.udp(7_000_000, 1, 4_000, &query(99, "one.example"));
    let server = servers::Server::start();
    let mut settings = settings(server.address);
    settings.timeout = Duration::from_millis(400);
    let replayed = run(&settings, &pcap.file()).unwrap();
    check_books(&replayed, 7);
    let found = &replayed.comparison;
    assert_eq!(
        (found.same, found.other_rcode, found.other_records, found.missing, found.not_recorded),
        (3, 1, 1, 1, 1),
        "{found:?}"
    );
    assert_eq!(
        found.named,
        [
            "packet 7, one.example. A: recorded NXDOMAIN, got NOERROR",
            "packet 9, one.example. A: recorded A 10.0.0.9, got A 10.0.0.1",
            "packet 11, lost.example. A: recorded NOERROR, no response: timed out",
        ]
    );
}

#[test]
fn clients_send_from_the_addresses_they_are_given() {
    let mut pcap = Pcap::new();
    for n in 0..20_u16 {
        pcap.udp(u64::from(n) * 100_000, 1 + (n % 2) as u8, 4_000, &query(n, "one.example"));
    }
    let server = servers::Server::start();
    let mut settings = settings(server.address);
    settings.addresses.rewrites = vec!["10.0.0.0/24=127.7.7.0/24".parse().unwrap()];
    run(&settings, &pcap.file()).unwrap();
    let mut seen: Vec<_> = server.clients().iter().map(|client| client.ip().to_string()).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, ["127.7.7.1", "127.7.7.2"]);
    assert_eq!(server.clients().len(), 2, "one port for each source");
}

#[test]
fn more_sources_than_sockets_share_them_and_it_is_said() {
    let mut pcap = Pcap::new();
    for n in 0..500_u16 {
        pcap.udp(u64::from(n) * 400_000, 1, 4_000 + n, &query(n, "one.example"));
    }
    let server = servers::Server::start();
    let mut settings = settings(server.address);
    settings.sockets = Some(8);
    let replayed = run(&settings, &pcap.file()).unwrap();
    check_books(&replayed, 500);
    assert_eq!(replayed.outcome.tally.counts.answered, 500);
    assert_eq!(server.clients().len(), 8);
    let expected = "492 times a socket was given to another source: there were 8 sockets at most";
    let notes = &replayed.outcome.verdict.notes;
    assert!(notes.iter().any(|note| note == expected), "{notes:?}");
}

#[test]
fn connections_that_are_closed_for_want_of_sockets_make_a_replay_invalid() {
    let (mut pcap, asked) = (Pcap::new(), query(1, "a.example"));
    // Far enough apart that none of 8 sockets still waits for a response when it is wanted, on a busy machine as well.
    let at = |n: u16| u64::from(n) * 40_000_000;
    (0..40).for_each(|n| {
        pcap.connection(at(n), 1, 4_000 + n, &[&asked], false);
    });
    (0..40).for_each(|n| {
        pcap.more(2 * SECOND + at(n), 1, 4_000 + n, &[&asked], &[&asked]);
    });
    let server = servers::Server::start();
    let invalid = |sockets| {
        let settings = Settings { sockets: Some(sockets), ..settings(server.address) };
        let replayed = run(&settings, &pcap.file()).unwrap();
        check_books(&replayed, 80);
        assert_eq!(replayed.outcome.tally.counts.answered, 80);
        let verdict = replayed.outcome.verdict;
        verdict.invalid.into_iter().find(|why| why.contains("for want of sockets"))
    };
    assert_eq!(invalid(40), None);
    let found = invalid(8).unwrap();
    assert!(found.starts_with("72 of 80 connections were closed"), "{found}");
}

#[test]
fn a_server_that_loses_and_delays_is_seen_as_one() {
    let mut pcap = Pcap::new();
    (0..1_000)
        .for_each(|n| pcap.udp(n * 500_000, (n % 9) as u8, 4_000, &query(n as u16, "a.example")));
    let injection = Injection {
        latency: Some("20ms".parse().unwrap()),
        loss: 0.1,
        duplicate: 0.1,
        seed: 5,
        ..Injection::default()
    };
    let echo = echo(Options { injection, ..Options::default() });
    let mut settings = settings(echo.address);
    settings.timeout = Duration::from_millis(900);
    let replayed = run(&settings, &pcap.file()).unwrap();
    check_books(&replayed, 1_000);
    let (counts, truth) = (replayed.outcome.tally.counts, echo.stop().unwrap().truth);
    assert_eq!((counts.sent, counts.timed_out), (truth.questions, truth.lost));
    assert_eq!(counts.duplicate, truth.duplicated);
    let p50 = replayed.outcome.tally.response.quantile(0.5).nanos().unwrap();
    assert!(p50 >= 19_900_000, "{p50}");
}

#[test]
fn nothing_that_listens_is_no_measurement() {
    let mut pcap = Pcap::new();
    (0..50).for_each(|n| pcap.udp(n * 1_000_000, 1, 4_000, &query(n as u16, "a.example")));
    let closed = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let replayed = run(&settings(closed), &pcap.file()).unwrap();
    check_books(&replayed, 50);
    assert!(replayed.outcome.nothing_listens());
    assert_eq!(replayed.outcome.tally.counts.refused, 50);
}

#[test]
fn connections_are_as_they_were() {
    let mut pcap = Pcap::new();
    // Three queries on one connection, two on another that stays open, and the first one's ports once more.
    let [a, b, c, d, e, f] =
        ["a", "b", "c", "d", "e", "f"].map(|name| query(7, &format!("{name}.example")));
    pcap.connection(0, 1, 4_000, &[&a, &b, &c], true);
    pcap.connection(50_000_000, 1, 4_001, &[&d, &e], false);
    pcap.connection(100_000_000, 1, 4_000, &[&f], true);
    pcap.udp(110_000_000, 1, 4_000, &query(7, "one.example"));
    let server = servers::Server::start();
    let replayed = run(&settings(server.address), &pcap.file()).unwrap();
    check_books(&replayed, 7);
    let tally = &replayed.outcome.tally;
    assert_eq!(tally.counts.answered, 7, "{:?}", replayed.outcome.verdict);
    assert_eq!((tally.connections.opened, tally.connections.closed_by_client), (3, 3));
    assert_eq!(tally.connections.waited.recorded(), 0);
    let asked = server.streams();
    assert_eq!(asked, [vec!["a", "b", "c"], vec!["d", "e"], vec!["f"]]);
    let by: Vec<_> = replayed
        .outcome
        .by_transport
        .iter()
        .map(|(t, part)| (t.name(), part.counts.sent))
        .collect();
    assert_eq!(by, [("udp", 1), ("tcp", 6)]);
}

#[test]
fn a_connection_that_the_server_ends_loses_what_is_in_flight_and_the_next_query_opens_another() {
    let mut pcap = Pcap::new();
    let [a, end, b] = ["a", "end", "b"].map(|name| query(7, &format!("{name}.example")));
    pcap.connection(0, 1, 4_000, &[&a], false);
    pcap.more(100_000_000, 1, 4_000, &[&a], &[&end]);
    pcap.more(400_000_000, 1, 4_000, &[&a, &end], &[&b]);
    let server = servers::Server::start();
    let replayed = run(&settings(server.address), &pcap.file()).unwrap();
    check_books(&replayed, 3);
    let tally = &replayed.outcome.tally;
    assert_eq!((tally.counts.answered, tally.counts.connection_failed), (2, 1));
    let connections = &tally.connections;
    assert_eq!((connections.opened, connections.closed_by_server), (2, 1), "{connections:?}");
}

#[test]
fn sockets_are_there_before_the_first_query() {
    let mut pcap = Pcap::new();
    // 41 sources, one of which asks twice, and one connection.
    (0..40).for_each(|n| pcap.udp(n * SECOND, n as u8, 4_000, &query(n as u16, "a.example")));
    pcap.udp(40 * SECOND, 7, 4_000, &query(1, "b.example"));
    pcap.udp(41 * SECOND, 7, 4_001, &query(1, "b.example"));
    pcap.connection(42 * SECOND, 7, 4_002, &[&query(1, "b.example")], true);
    let file = pcap.file();
    for (sockets, over, expected) in [
        (None, None, 41),
        (Some(20), None, 20),
        (None, Some(Over::Udp), 42),
        (None, Some(Over::Tcp), 0),
    ] {
        let (echo, stop) = (echo(Options::default()), AtomicBool::new(false));
        let settings = Settings { sockets, over, ..settings(echo.address) };
        let open = || capture(file.clone());
        let survey = look(&settings, &open).unwrap();
        let replayed = std::thread::scope(|scope| {
            let run = scope.spawn(|| replay(&settings, &survey, &open, &stop, &mut ()));
            std::thread::sleep(Duration::from_millis(500));
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            run.join().unwrap().unwrap()
        });
        assert!(replayed.outcome.tally.counts.sent <= 2);
        assert_eq!(replayed.config.clients, expected, "{sockets:?} {over:?}");
    }
}

#[test]
fn a_replay_that_is_stopped_says_what_it_did_up_to_then() {
    let mut pcap = Pcap::new();
    (0..100).for_each(|n| pcap.udp(n * SECOND, 1, 4_000, &query(n as u16, "a.example")));
    let (file, echo, stop) = (pcap.file(), echo(Options::default()), AtomicBool::new(false));
    let settings = settings(echo.address);
    let open = || capture(file.clone());
    let survey = look(&settings, &open).unwrap();
    let replayed = std::thread::scope(|scope| {
        let run = scope.spawn(|| replay(&settings, &survey, &open, &stop, &mut ()));
        std::thread::sleep(Duration::from_millis(500));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        run.join().unwrap().unwrap()
    });
    assert!(replayed.outcome.interrupted && replayed.outcome.tally.counts.sent <= 2);
    assert_eq!(replayed.outcome.tally.contradictions(), Vec::<&str>::new());
}
