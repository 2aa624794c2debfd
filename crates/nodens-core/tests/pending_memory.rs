//! What a question that waits takes. In a binary of its own, because it counts octets.

use nodens_core::job::Transport;
use nodens_core::limits::{PENDING_OCTETS, SPARE_JOB_PLACES, SPARE_JOBS_MAX};
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

/// What waits may take in the tests below, in octets.
const MEMORY: usize = 16 << 20;

/// A query for the name `n` of one of two lengths, with an option of so many octets that is passed on.
fn query(n: usize, is_long: bool, option: u16) -> Vec<u8> {
    let label = "x".repeat(60);
    let parent = if is_long { [label.as_str(); 3].join(".") } else { "test".to_owned() };
    let mut query = request(&format!("{n}.{parent}. AAAA +edns"));
    query.truncate(query.len() - 2);
    for field in [option + 4, 65_001, option] {
        query.extend(field.to_be_bytes());
    }
    query.resize(query.len() + usize::from(option), b'x');
    query
}

/// Asks for many names of which the upstream answers none. Gives the most octets that were held meanwhile, and
/// those that still are when all have ended.
fn flood(bench: &mut Bench, query: impl Fn(usize) -> Vec<u8>) -> (usize, usize) {
    let mut out = Vec::with_capacity(4096);
    let mut actions = Vec::with_capacity(16);
    let (before, mut most) = (octets(), 0);
    for n in 0..6_000 {
        let request = query(n);
        assert_eq!(
            bench.worker.receive(bench.now, bench.client, &request, &mut out),
            Verdict::Pending
        );
        bench.worker.take_actions(&mut actions);
        actions.clear();
        most = most.max(octets() - before - request.capacity());
    }
    assert!(!bench.shared.take_freed());
    bench.pass(Duration::from_secs(6));
    assert!(bench.shared.take_freed(), "the allocator would keep it");
    assert_eq!(bench.worker.pending(), 0);
    assert!(bench.shared.in_flight.is_empty());
    (most, octets() - before)
}

/// Gives the octets that are still held when all have ended.
fn check(directives: &str, is_long: bool, option: u16) -> usize {
    check_with(directives, "", |n| query(n, is_long, option))
}

/// The same for these queries, where a cluster has these objects.
fn check_with(directives: &str, objects: &str, query: impl Fn(usize) -> Vec<u8>) -> usize {
    let directives =
        format!(".:53 {{\n errors\n prometheus\n{directives}\n forward . 192.0.2.1\n}}");
    let mut bench = Bench::new(&directives);
    if !objects.is_empty() {
        bench.publish(objects, 1);
    }
    bench.shared.set_pending_memory(MEMORY);
    let (most, after) = flood(&mut bench, query);
    let what = format!("{directives}: {most}, {after} afterwards");
    assert!(most <= MEMORY, "{what}");
    assert!(most > MEMORY / 2, "far more could wait: {what}");
    let spare = SPARE_JOBS_MAX * SPARE_JOB_PLACES * PENDING_OCTETS;
    assert!(after < spare, "{what}");
    after
}

#[test]
fn long_queries_take_no_more_than_all_that_wait_may_and_give_it_back() {
    let _alone = alone();
    for (is_long, option) in [(false, 0), (true, 0), (false, 500), (true, 1_200)] {
        check(" cache", is_long, option);
    }
    // No job with such buffers is kept for reuse.
    let after = check(" cache", false, 3_900);
    assert!(after < MEMORY / 16, "{after}");
    // Lookups of handlers, and options that are kept to be put back.
    check(" dns64 {\n  allow_ipv4\n }", true, 0);
    check(" dns64 {\n  allow_ipv4\n }", true, 3_900);
    check(" rewrite edns0 local replace 0xfde9 abc", true, 3_900);
}

#[test]
fn records_that_wait_for_the_target_of_an_alias_count() {
    let _alone = alone();
    let texts = "  additional \"{{ .Name }} 60 IN TXT a\"\n".repeat(60);
    let alias = "  answer \"{{ .Name }} 60 IN CNAME x.{{ .Name }}example.\"\n";
    check(&format!(" template IN AAAA test {{\n{alias}{texts} }}"), false, 0);
    let ports: String = (0..100).map(|n| format!(" p{n}:tcp:{}", 8000 + n)).collect();
    let objects = format!("namespace shop\nservice shop/media 10.0.0.1{ports} external=lb.test");
    let directives = " kubernetes cluster.local\n k8s_external example.com";
    check_with(directives, &objects, |_| request("media.shop.example.com. SRV +edns"));
}
