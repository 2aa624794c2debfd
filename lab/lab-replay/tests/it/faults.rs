//! Recordings that are refused, and those of which a part is left out.

use crate::recording::{Pcap, SECOND, capture, query, response};
use crate::{check_books, echo, run, settings};
use lab_echo::udp::Options;
use lab_replay::replay::look;
use nodens_wire::Rcode;
use proptest::prelude::*;
use std::net::SocketAddr;

fn nowhere() -> SocketAddr {
    "127.0.0.1:9".parse().unwrap()
}

#[test]
fn what_cannot_be_replayed_is_refused_with_the_reason() {
    let mut link = Pcap::of_link(147);
    link.packet(0, b"no packet that is known");
    let mut other = Pcap::new();
    other.udp(0, 1, 4_000, b"no DNS");
    let mut years = Pcap::new();
    years.udp(0, 1, 4_000, &query(1, "a.example"));
    years.udp(500 * 86_400 * SECOND, 1, 4_000, &query(2, "b.example"));
    let mut cut = Pcap::new();
    cut.udp(0, 1, 4_000, &query(1, "a.example"));
    let cut = cut.file();
    let empty = Pcap::new().file();
    for (file, expected) in [
        (b"text".to_vec(), "the test is not a capture, expected the format pcap, pcapng or dnstap"),
        (
            empty[..20].to_vec(),
            "the test is not a capture, expected the format pcap, pcapng or dnstap",
        ),
        (empty, "no query in the recording, expected DNS over UDP or TCP to the server's port"),
        (
            link.file(),
            "no query in the recording; the first broken part: packet 1: link type 147 is not supported, \
             expected Ethernet, Linux cooked, loopback or raw IP",
        ),
        (
            other.file(),
            "no query in the recording; the first broken part: packet 1: a message of 6 octets, expected at \
             least 12",
        ),
        (
            cut[..cut.len() - 1].to_vec(),
            "no query in the recording; the first broken part: packet 1: the file ends inside it (it starts at \
             octet 24)",
        ),
        (
            years.file(),
            "the queries span 500 days, from packet 1 to packet 2: times like these are not those of one recording",
        ),
    ] {
        let error = run(&settings(nowhere()), &file).unwrap_err().to_string();
        assert_eq!(error, expected);
    }
}

#[test]
fn a_client_that_cannot_send_from_its_address_is_named() {
    let mut pcap = Pcap::new();
    pcap.udp(0, 7, 4_000, &query(1, "a.example"));
    for (rewrite, expected) in [
        ("10.0.0.0/24=192.0.2.0/24", "10.0.0.7 cannot send from 192.0.2.7: "),
        ("10.0.0.7=10.0.0.7", "10.0.0.7 cannot send from 10.0.0.7: "),
    ] {
        let mut settings = settings(nowhere());
        settings.addresses.rewrites = vec![rewrite.parse().unwrap()];
        let error = run(&settings, &pcap.file()).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    let mut settings = settings(nowhere());
    settings.addresses.sources = vec!["::1".parse().unwrap()];
    let error = run(&settings, &pcap.file()).unwrap_err().to_string();
    assert_eq!(error, "10.0.0.7 cannot send from ::1 to 127.0.0.1:9, expected an IPv4 address");
    settings.addresses.sources.clear();
    settings.sample.part = 0.0;
    let error = run(&settings, &pcap.file()).unwrap_err().to_string();
    assert_eq!(error, "no query in the recording: all 1 are of clients that are left out");
}

#[test]
fn a_cut_recording_is_replayed_up_to_the_cut() {
    let mut pcap = Pcap::new();
    (0..20).for_each(|n| pcap.udp(n * 1_000_000, 1, 4_000, &query(n as u16, "a.example")));
    let mut file = pcap.file();
    file.truncate(file.len() - 5);
    let echo = echo(Options::default());
    let settings = settings(echo.address);
    let survey = look(&settings, &|| capture(file.clone())).unwrap();
    assert_eq!((survey.queries(), survey.broken), (19, 1));
    assert!(
        survey.named[0].starts_with("packet 20: the file ends inside it"),
        "{:?}",
        survey.named
    );
    let replayed = run(&settings, &file).unwrap();
    check_books(&replayed, 19);
    assert_eq!(replayed.outcome.tally.counts.answered, 19);
}

#[test]
fn times_that_go_back_are_followed_in_order_and_those_too_far_back_are_said() {
    let mut pcap = Pcap::new();
    // Two interfaces, one 30 ms behind the other.
    for n in 0..40_u64 {
        let behind = if n % 2 == 1 { 30_000_000 } else { 0 };
        pcap.udp(SECOND + n * 10_000_000 - behind, 1, 4_000, &query(n as u16, "a.example"));
    }
    // And one packet of long ago.
    pcap.udp(SECOND + 100_000_000, 1, 4_000, &query(500, "b.example"));
    let echo = echo(Options { arrivals_kept: 100, ..Options::default() });
    let replayed = run(&settings(echo.address), &pcap.file()).unwrap();
    check_books(&replayed, 41);
    let notes = &replayed.outcome.verdict.notes;
    let note = "queries stand behind later ones in the recording by more than 100 ms";
    // A response is looked for during five seconds, so nothing has left yet that should have been behind it.
    assert!(!notes.iter().any(|found| found.contains(note)), "{notes:?}");
    let span = replayed.outcome.tally.span.unwrap();
    assert!(
        span.intended.0 < 1_000_000 && span.intended.1.abs_diff(400_000_000) < 1_000_000,
        "{span:?}"
    );
    let mut far = Pcap::new();
    (0..20)
        .for_each(|n| far.udp(10 * SECOND + n * SECOND, 1, 4_000, &query(n as u16, "a.example")));
    far.udp(SECOND * 11, 1, 4_000, &query(500, "b.example"));
    let mut settings = settings(echo.address);
    settings.speed = 100.0;
    let replayed = run(&settings, &far.file()).unwrap();
    check_books(&replayed, 21);
    let notes = &replayed.outcome.verdict.notes;
    assert!(notes.iter().any(|found| found.starts_with("1 ") && found.contains(note)), "{notes:?}");
    let invalid = &replayed.outcome.verdict.invalid;
    let why = "1 of 21 queries were sent when they were read";
    assert!(invalid.iter().any(|found| found.contains(why)), "{invalid:?}");
    let plan = lab_replay::fidelity::plan(
        &settings,
        &look(&settings, &|| capture(far.file())).unwrap(),
        &|| capture(far.file()),
    );
    assert_eq!(plan.unwrap().moved, 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn spoilt_recordings_are_surveyed_without_a_fault_of_ours(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..30),
        cut in any::<proptest::sample::Index>(),
    ) {
        let mut pcap = Pcap::new();
        (0..10).for_each(|n| pcap.udp(n * 1_000_000, 1, 4_000, &query(n as u16, "a.example")));
        pcap.connection(0, 1, 4_000, &[&query(1, "c.example"), &query(2, "d.example")], true);
        let mut file = pcap.file();
        for (at, octet) in changes {
            let at = at.index(file.len());
            file[at] = octet;
        }
        file.truncate(cut.index(file.len() + 1));
        if let Ok(survey) = look(&settings(nowhere()), &|| capture(file.clone())) {
            prop_assert!(survey.queries() <= 12);
        }
    }
}

#[test]
fn responses_over_udp_may_be_longer_than_clients_ask_for() {
    let asked = query(7, "long.example");
    let long = response(&asked, Rcode::NOERROR, &[[10, 0, 0, 1]; 400]);
    assert!(long.len() > 6_000);
    let mut pcap = Pcap::new();
    pcap.udp(0, 1, 4_000, &asked);
    pcap.answer(1_000_000, 1, 4_000, &long);
    let server = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let serving = std::thread::spawn(move || {
        let (_, from) = server.recv_from(&mut [0; 512]).unwrap();
        // In another order, so that it has to be read.
        let addresses: Vec<_> = (0..400_u16).map(|n| [10, 0, (n % 2) as u8, 1]).collect();
        server
            .send_to(&response(&query(7, "long.example"), Rcode::NOERROR, &addresses), from)
            .unwrap();
    });
    let replayed = run(&settings(address), &pcap.file()).unwrap();
    serving.join().unwrap();
    check_books(&replayed, 1);
    let comparison = &replayed.comparison;
    assert_eq!((comparison.other_records, comparison.unreadable), (1, 0), "{comparison:?}");
}
