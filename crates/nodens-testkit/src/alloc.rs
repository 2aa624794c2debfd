//! An allocator that counts.
//!
//! A test binary installs it with `#[global_allocator] static ALLOCATOR: Counting = Counting;` and reads the counters.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, with counters.
pub struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
static BLOCKS: AtomicUsize = AtomicUsize::new(0);
static OCTETS: AtomicUsize = AtomicUsize::new(0);
static CHUNKS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OF_THREAD: Cell<usize> = const { Cell::new(0) };
}

/// Allocations of the whole process so far; one that grows or shrinks counts again.
pub fn allocations() -> usize {
    ALLOCATIONS.load(Ordering::Relaxed)
}

/// Allocations of the calling thread so far, because others of the test harness allocate meanwhile.
pub fn allocations_of_thread() -> usize {
    OF_THREAD.with(Cell::get)
}

/// Memory that the process holds.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Allocations that were not freed.
    pub blocks: usize,
    /// Octets that were asked for.
    pub octets: usize,
    /// Octets that glibc takes for them: eight more for each, in steps of sixteen.
    pub chunks: usize,
}

/// Memory that the process holds now.
pub fn held() -> Held {
    let [blocks, octets, chunks] =
        [&BLOCKS, &OCTETS, &CHUNKS].map(|counter| counter.load(Ordering::Relaxed));
    Held { blocks, octets, chunks }
}

fn chunk(size: usize) -> usize {
    (size + 8).next_multiple_of(16).max(32)
}

fn allocated(size: usize) {
    ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    BLOCKS.fetch_add(1, Ordering::Relaxed);
    OCTETS.fetch_add(size, Ordering::Relaxed);
    CHUNKS.fetch_add(chunk(size), Ordering::Relaxed);
    // A thread that is ending has no counter any more, and nothing to count.
    _ = OF_THREAD.try_with(|counter| counter.set(counter.get() + 1));
}

fn freed(size: usize) {
    BLOCKS.fetch_sub(1, Ordering::Relaxed);
    OCTETS.fetch_sub(size, Ordering::Relaxed);
    CHUNKS.fetch_sub(chunk(size), Ordering::Relaxed);
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocated(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        freed(layout.size());
        // SAFETY: the caller keeps the contract of `dealloc`, and `ptr` came from `System`.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        allocated(new_size);
        freed(layout.size());
        // SAFETY: the caller keeps the contract of `realloc`, and `ptr` came from `System`.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}
