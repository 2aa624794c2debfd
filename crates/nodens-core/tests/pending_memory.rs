//! What a question that waits takes. In a binary of its own, because it counts octets.

use nodens_core::limits::PENDING_OCTETS;
use nodens_core::testing::{Bench, request};
use nodens_core::worker::{Action, Verdict};
use std::alloc::{GlobalAlloc, Layout, System};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static OCTETS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        OCTETS.fetch_add(layout.size() + 16, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        OCTETS.fetch_sub(layout.size() + 16, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`, and `ptr` came from `System`.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_waiting_question_takes_what_is_reckoned_with() {
    const QUESTIONS: usize = 4096;
    let mut bench = Bench::new(".:53 {\n errors\n prometheus\n cache\n forward . 192.0.2.1\n}");
    let mut out = Vec::with_capacity(4096);
    let requests: Vec<_> = (0..QUESTIONS)
        .map(|n| request(&format!("service-{n}.some-namespace.svc.cluster.local A +edns")))
        .collect();
    let mut actions = Vec::with_capacity(16);
    let before = OCTETS.load(Ordering::Relaxed);
    for (n, request) in requests.iter().enumerate() {
        bench.client.peer = SocketAddr::from(([10, 0, (n >> 8) as u8, n as u8], 40_000));
        let verdict = bench.worker.receive(bench.now, bench.client, request, &mut out);
        assert_eq!(verdict, Verdict::Pending);
        bench.worker.take_actions(&mut actions);
        assert!(actions.drain(..).all(|action| matches!(action, Action::Ask(_))));
    }
    assert_eq!(bench.worker.pending(), QUESTIONS);
    let each = (OCTETS.load(Ordering::Relaxed) - before) / QUESTIONS;
    assert!(each <= PENDING_OCTETS, "{each} octets for a question");
    assert!(each > PENDING_OCTETS / 8, "{each} octets: far more could wait");
}
