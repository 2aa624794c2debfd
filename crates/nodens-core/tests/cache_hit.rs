//! A hit in the cache allocates nothing. In a binary of its own, because it counts allocations.

use nodens_core::testing::{Bench, Reaction, request};
use nodens_core::worker::Verdict;
use nodens_testkit::alloc::{Counting, allocations_of_thread};
use nodens_wire::{Builder, Class, Flags, Message, Name, Section, Type};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_hit_allocates_nothing() {
    let corefile =
        ".:53 {\n cache {\n  prefetch 5\n  serve_stale 1h immediate 30s 30s\n }\n whoami\n}";
    let mut bench = Bench::new(corefile);
    // Counting who asks for what allocates nothing either.
    bench.shared.seeing.open(1);
    assert!(bench.reload(corefile).is_ok());
    let requests =
        ["a.example.org. A", "b.Example.org. AAAA +do", "c.example.org. A +cd +edns"].map(request);
    let mut out = Vec::with_capacity(4096);
    let mut ask_all = |bench: &mut Bench| {
        let before = allocations_of_thread();
        for request in &requests {
            let verdict = bench.worker.receive(bench.now, bench.client, request, &mut out);
            assert_eq!(verdict, Verdict::Answered);
        }
        allocations_of_thread() - before
    };
    assert!(ask_all(&mut bench) > 0, "a miss allocates, so the counter works");
    let warm: usize = (0..10).map(|_| ask_all(&mut bench)).sum();
    assert!(warm < 20, "{warm}: buffers reach their size");
    bench.now.mono_ns += Duration::from_secs(2).as_nanos() as u64;
    let hits: usize = (0..1000).map(|_| ask_all(&mut bench)).sum();
    assert_eq!(hits, 0);
}

/// A CNAME and three addresses for every question, in an OPT-less response.
fn three_addresses(question: &Message) -> Reaction {
    let asked = &question.questions[0];
    let target: Name = "target.example.net".parse().unwrap();
    let mut reply = Vec::new();
    let mut builder = Builder::new(&mut reply, 0, Flags(Flags::QR | Flags::RA));
    builder.question(asked.qname.view(), asked.qtype, asked.qclass);
    let mut push = |section, owner: &Name, rtype, rdata: &[u8]| {
        builder.record(section, owner.view(), (rtype, Class::IN, 3600), rdata).unwrap();
    };
    push(Section::Answer, &asked.qname, Type::CNAME, target.as_wire());
    for last in 1..=3 {
        push(Section::Answer, &target, Type::A, &[192, 0, 2, last]);
    }
    push(Section::Authority, &target, Type::NS, target.as_wire());
    Reaction::Reply(reply)
}

#[test]
fn handlers_around_the_cache_allocate_nothing_on_a_hit() {
    let corefile = ".:53 {
        nsid node-1
        bufsize 1100
        local
        dns64
        any
        chaos
        loadbalance {
            prefer 192.0.2.2/32
        }
        rewrite type MX TXT
        rewrite name old.example.com new.example.com
        rewrite name suffix .old.example.com .new.example.com answer auto
        rewrite ttl suffix .example.org 30-300
        cache
        header {
            response set aa
        }
        minimal
        forward . 192.0.2.53
    }";
    let mut bench = Bench::new(corefile);
    bench.upstream(|_, question| three_addresses(question));
    let questions = ["a.example.org. A", "a.Example.net. A +edns", "b.example.org. A +cd"];
    for question in questions {
        let answer = bench.ask(question);
        assert_eq!((answer.answer.len(), answer.authority.len()), (4, 0));
        assert_eq!(answer.answer[1].rdata, [192, 0, 2, 2], "preferred");
    }
    let requests = questions.map(request);
    let mut out = Vec::with_capacity(4096);
    let mut ask_all = |bench: &mut Bench| {
        let before = allocations_of_thread();
        for request in &requests {
            let verdict = bench.worker.receive(bench.now, bench.client, request, &mut out);
            assert_eq!(verdict, Verdict::Answered);
        }
        allocations_of_thread() - before
    };
    let warm: usize = (0..10).map(|_| ask_all(&mut bench)).sum();
    assert!(warm < 20, "{warm}: buffers reach their size");
    let hits: usize = (0..1000).map(|_| ask_all(&mut bench)).sum();
    assert_eq!(hits, 0);
    assert_eq!(bench.asked, 3);
}
