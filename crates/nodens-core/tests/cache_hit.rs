//! A hit in the cache allocates nothing. In a binary of its own, because it counts allocations.

use nodens_core::testing::{Bench, request};
use nodens_core::worker::Verdict;
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
fn a_hit_allocates_nothing() {
    let corefile =
        ".:53 {\n cache {\n  prefetch 5\n  serve_stale 1h immediate 30s 30s\n }\n whoami\n}";
    let mut bench = Bench::new(corefile);
    let requests =
        ["a.example.org. A", "b.Example.org. AAAA +do", "c.example.org. A +cd +edns"].map(request);
    let mut out = Vec::with_capacity(4096);
    let mut ask_all = |bench: &mut Bench| {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        for request in &requests {
            let verdict = bench.worker.receive(bench.now, bench.client, request, &mut out);
            assert_eq!(verdict, Verdict::Answered);
        }
        ALLOCATIONS.load(Ordering::Relaxed) - before
    };
    assert!(ask_all(&mut bench) > 0, "a miss allocates, so the counter works");
    let warm: usize = (0..10).map(|_| ask_all(&mut bench)).sum();
    assert!(warm < 20, "{warm}: buffers reach their size");
    bench.now.mono_ns += Duration::from_secs(2).as_nanos() as u64;
    let hits: usize = (0..1000).map(|_| ask_all(&mut bench)).sum();
    assert_eq!(hits, 0);
}
