//! What a cached name costs. In a binary of its own, because it counts allocated octets.

use nodens_core::testing::{Bench, Reaction, request};
use nodens_wire::{Class, Flags, Record, Type};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

/// What glibc takes for `size` octets: eight more, in steps of sixteen.
fn chunk(size: usize) -> usize {
    (size + 8).next_multiple_of(16).max(32)
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(chunk(layout.size()), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        LIVE.fetch_sub(chunk(layout.size()), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`, and `ptr` came from `System`.
        unsafe { System.dealloc(ptr, layout) }
    }
}

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
    let before = LIVE.load(Ordering::Relaxed);
    for n in 0..NAMES {
        assert!(bench.ask_bytes(&request(&format!("name{n:06}.example.org. A"))).is_some());
        if n % 1000 == 0 {
            // Timers that nobody waits for are kept until their time.
            bench.pass(Duration::from_secs(1));
        }
    }
    let each = (LIVE.load(Ordering::Relaxed) - before) / NAMES;
    let booked = bench.shared.cache.used() / NAMES;
    assert_eq!(bench.shared.cache.entries(), NAMES + 1);
    assert!(each <= 160, "{each} octets per name, {booked} booked");
    assert!(each.abs_diff(booked) <= 8, "{each} octets per name, {booked} booked");
}
