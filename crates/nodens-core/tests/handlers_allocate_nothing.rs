//! What `acl`, `template` and `hosts` do for usual questions allocates nothing. In a binary of its
//! own, because it counts allocations.

use nodens_core::testing::{Bench, request};
use nodens_core::worker::Verdict;
use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

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

/// A Corefile whose questions pass 100 rules of `acl` and two of `template` before `hosts`.
fn corefile() -> String {
    let mut networks = String::new();
    for n in 0..100 {
        _ = write!(networks, " 10.{n}.0.0/16 2001:db8:{n:x}::/48");
    }
    format!(
        ".:53 {{
            acl {{
                block net {networks}
                filter type ANY
            }}
            template IN A {{
                match ^blocked[.] (bad|worse)[.]example[.]
                rcode NXDOMAIN
                authority \"example. 60 SOA ns.example. host.example. 1 60 60 60 60\"
                ederror 15 blocked
                fallthrough
            }}
            template IN AAAA v4only.example {{
            }}
            hosts /nonexistent/hosts {{
                192.0.2.1 www.example.org host.example.org
                2001:db8::1 www.example.org
                192.0.2.2 *.apps.example.org
            }}
        }}"
    )
}

#[test]
fn the_usual_questions_allocate_nothing() {
    let mut bench = Bench::new(&corefile());
    let requests = [
        "www.Example.org. A",
        "www.example.org. AAAA +edns",
        "www.example.org. MX",
        "x.apps.example.org. A",
        "1.2.0.192.in-addr.arpa. PTR",
        "blocked.example.org. A +edns",
        "x.v4only.example. AAAA",
    ]
    .map(request);
    let mut out = Vec::with_capacity(4096);
    let mut ask_all = |bench: &mut Bench| {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        for request in &requests {
            let verdict = bench.worker.receive(bench.now, bench.client, request, &mut out);
            assert_eq!(verdict, Verdict::Answered);
        }
        ALLOCATIONS.load(Ordering::Relaxed) - before
    };
    assert!(ask_all(&mut bench) > 0, "buffers and series are made once, so the counter works");
    for _ in 0..10 {
        ask_all(&mut bench);
    }
    let usual: usize = (0..1000).map(|_| ask_all(&mut bench)).sum();
    assert_eq!(usual, 0);
}
