//! What a question that waits takes. In a binary of its own, because it counts octets.

use nodens_core::job::Transport;
use nodens_core::limits::PENDING_OCTETS;
use nodens_core::testing::{Bench, Reaction, request};
use nodens_core::worker::{Action, Verdict};
use nodens_testkit::alloc::{Counting, held};
use nodens_testkit::alone;
use nodens_wire::{Class, Message, Record, Type};
use std::net::SocketAddr;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Octets that the process holds, with 16 for each allocation.
fn octets() -> usize {
    let held = held();
    held.octets + 16 * held.blocks
}

/// An upstream's response of about 56 KiB: a few long records, or thousands of short ones.
fn long_response(query: &Message) -> Vec<u8> {
    let (qname, rtype) = (query.questions[0].qname.clone(), query.questions[0].qtype);
    let record = |n: u16| {
        let rdata = match rtype {
            Type::TXT => [&[250][..], &[b'x'; 250], &[1, n as u8]].concat(),
            _ => [&[192, 0][..], &n.to_be_bytes()].concat(),
        };
        Record { owner: qname.clone(), rtype, class: Class::IN, ttl: 60, rdata }
    };
    let mut response = query.clone();
    response.flags.0 |= 0x8000;
    response.additional.clear();
    let count = if rtype == Type::TXT { 220 } else { 3_500 };
    response.answer = (0..count).map(record).collect();
    let mut wire = Vec::new();
    response.write(&mut wire).unwrap();
    wire
}

#[test]
fn what_many_waited_for_is_not_kept_by_each_of_them() {
    let _alone = alone();
    // What is kept for good is less than a response of either kind needs for each: its octets, or
    // where its TTLs stand.
    assert!(kept("long.example.org. TXT") < QUERIES * PENDING_OCTETS);
    let kept = kept("long.example.org. A");
    assert!(kept < QUERIES * 3_500 * size_of::<u16>(), "{kept} octets");
}

const QUERIES: usize = 1000;

/// How many octets are kept once so many clients have waited for the response to `query`.
fn kept(query: &str) -> usize {
    let mut bench = Bench::new(".:53 {\n cache\n forward . 192.0.2.1\n}");
    let delay = Duration::from_millis(10);
    bench.upstream(move |_, query| {
        Reaction::After(delay, Box::new(Reaction::Reply(long_response(query))))
    });
    bench.client.transport = Transport::Tcp;
    let request = request(query);
    let mut out = Vec::new();
    let before = octets();
    for _ in 0..QUERIES {
        let verdict = bench.worker.receive(bench.now, bench.client, &request, &mut out);
        assert_eq!(verdict, Verdict::Pending);
    }
    assert_eq!(bench.pass(Duration::from_millis(20)).len(), QUERIES);
    octets() - before
}

#[test]
fn a_waiting_question_takes_what_is_reckoned_with() {
    const QUESTIONS: usize = 4096;
    let _alone = alone();
    let mut bench = Bench::new(".:53 {\n errors\n prometheus\n cache\n forward . 192.0.2.1\n}");
    let mut out = Vec::with_capacity(4096);
    let requests: Vec<_> = (0..QUESTIONS)
        .map(|n| request(&format!("service-{n}.some-namespace.svc.cluster.local A +edns")))
        .collect();
    let mut actions = Vec::with_capacity(16);
    let before = octets();
    for (n, request) in requests.iter().enumerate() {
        bench.client.peer = SocketAddr::from(([10, 0, (n >> 8) as u8, n as u8], 40_000));
        let verdict = bench.worker.receive(bench.now, bench.client, request, &mut out);
        assert_eq!(verdict, Verdict::Pending);
        bench.worker.take_actions(&mut actions);
        assert!(actions.drain(..).all(|action| matches!(action, Action::Ask(_))));
    }
    assert_eq!(bench.worker.pending(), QUESTIONS);
    let each = (octets() - before) / QUESTIONS;
    assert!(each <= PENDING_OCTETS, "{each} octets for a question");
    assert!(each > PENDING_OCTETS / 8, "{each} octets: far more could wait");
}
