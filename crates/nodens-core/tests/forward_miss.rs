//! What a forwarded question allocates. In a binary of its own, because it counts allocations.

use nodens_core::testing::{Bench, request};
use nodens_core::worker::{Action, Verdict};
use nodens_wire::{Flags, header};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`, and `ptr` came from `System`.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `realloc`, and `ptr` came from `System`.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_forwarded_question_allocates_nothing() {
    let corefile = ".:53 {\n prometheus\n forward . 192.0.2.1 192.0.2.2 192.0.2.3\n}";
    let mut bench = Bench::new(corefile);
    let request = request("www.example.org. A +do");
    let (mut out, mut reply) = (Vec::with_capacity(4096), Vec::with_capacity(4096));
    let mut actions = Vec::with_capacity(16);
    let mut answered = 0;
    let mut forward_one = |bench: &mut Bench| {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        let verdict = bench.worker.receive(bench.now, bench.client, &request, &mut out);
        assert_eq!(verdict, Verdict::Pending);
        bench.worker.take_actions(&mut actions);
        for action in actions.drain(..) {
            let Action::Ask(ask) = action else { continue };
            if let Some(message) = bench.worker.ask_message(ask.ticket) {
                reply.clone_from(message);
                header::set_flags(&mut reply, Flags(Flags::QR | Flags::RD | Flags::RA));
            }
            bench.now.mono_ns += Duration::from_millis(2).as_nanos() as u64;
            bench.worker.tick(bench.now);
            bench.worker.reply(bench.now, ask.ticket, ask.attempt, &reply);
        }
        bench.worker.take_actions(&mut actions);
        for action in actions.drain(..) {
            let Action::Send { wire, .. } = action else { continue };
            answered += 1;
            bench.worker.reuse(wire);
        }
        ALLOCATIONS.load(Ordering::Relaxed) - before
    };
    let warm: usize = (0..1000).map(|_| forward_one(&mut bench)).sum();
    assert!(warm > 0, "the counter works");
    let each: Vec<usize> = (0..1000).map(|_| forward_one(&mut bench)).collect();
    let most = each.iter().max().copied().unwrap_or_default();
    assert_eq!(most, 0, "allocations for one question");
    assert_eq!(answered, 2000);
}
