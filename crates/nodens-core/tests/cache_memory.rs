//! What a cached name costs. In a binary of its own, because it counts allocated octets.

use nodens_core::testing::{Bench, Reaction, request};
use nodens_testkit::alloc::{Counting, held};
use nodens_wire::{Class, Flags, Record, Type};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const NAMES: usize = 100_000;

#[test]
fn a_name_with_one_address_costs_at_most_160_octets() {
    let mut bench = Bench::new(".:53 {\n cache\n forward . 192.0.2.9\n}");
    bench.upstream(|_, question| {
        let mut reply = question.clone();
        reply.flags = question.flags.reply().with(Flags::RA, true);
        let owner = question.questions[0].qname.clone();
        let (rtype, class, rdata) = (Type::A, Class::IN, vec![192, 0, 2, 1]);
        reply.answer = vec![Record { owner, rtype, class, ttl: 300, rdata }];
        let mut out = Vec::new();
        reply.write(&mut out).unwrap();
        Reaction::Reply(out)
    });
    bench.ask_bytes(&request("first.example.org. A"));
    let before = held().chunks;
    for n in 0..NAMES {
        assert!(bench.ask_bytes(&request(&format!("name{n:06}.example.org. A"))).is_some());
        if n % 1000 == 0 {
            // Timers that nobody waits for are kept until their time.
            bench.pass(Duration::from_secs(1));
        }
    }
    let each = (held().chunks - before) / NAMES;
    let booked = bench.shared.cache.used() / NAMES;
    assert_eq!(bench.shared.cache.entries(), NAMES + 1);
    assert!(each <= 160, "{each} octets per name, {booked} booked");
    assert!(each.abs_diff(booked) <= 8, "{each} octets per name, {booked} booked");
}
