//! Answers one cached question again and again, for counting instructions:
//!
//! ```sh
//! cargo build --release --example hits -p nodens-core
//! valgrind --tool=callgrind target/release/examples/hits 100000
//! ```
//!
//! The instructions of a hit are the difference between two counts, divided by the difference
//! between the numbers of questions.

use nodens_core::testing::{Bench, Reaction, request};
use nodens_wire::{Class, Flags, Record, Type};

/// The chain of a cluster's Corefile without `kubernetes`.
const COREFILE: &str = ".:53 {
    errors
    prometheus
    loadbalance
    cache 30
    forward . 192.0.2.53
}";

fn main() {
    let hits: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let mut bench = Bench::new(COREFILE);
    bench.upstream(|_, question| {
        let mut answer = question.clone();
        answer.flags = question.flags.reply().with(Flags::RA, true);
        let owner = question.questions[0].qname.clone();
        let rdata = vec![192, 0, 2, 1];
        answer.answer.push(Record { owner, rtype: Type::A, class: Class::IN, ttl: 60, rdata });
        let mut out = Vec::new();
        _ = answer.write(&mut out);
        Reaction::Reply(out)
    });
    bench.ask("www.example.org A");
    let request = request("www.example.org A");
    let mut out = Vec::with_capacity(512);
    for _ in 0..hits {
        let verdict = bench.worker.receive(bench.now, bench.client, &request, &mut out);
        assert_eq!(verdict, nodens_core::Verdict::Answered);
    }
}
