//! What tests of several crates share: a counting allocator, ports, patience.
//!
//! What is deliberately absent: every other crate of the workspace. Only development dependencies may name this one.

#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "an allocator cannot be written without it")]
pub mod alloc;
mod turns;

pub use turns::{Turn, alone, among_few};

use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Longest wait for anything that has to happen: long enough for a busy machine, short enough for a test that fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `condition` holds, and returns how long that took. Panics after [`PATIENCE`].
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) -> Duration {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
    started.elapsed()
}

/// A port that was free for UDP and TCP on loopback a moment ago, below those that the system gives to clients, and
/// another one each time.
pub fn free_port() -> u16 {
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 20_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        // Runs beside this one begin elsewhere.
        let number = NEXT.fetch_add(1, Ordering::Relaxed) + std::process::id().wrapping_mul(97);
        let port = (FIRST + number % COUNT) as u16;
        let free = TcpListener::bind(("127.0.0.1", port)).is_ok()
            && UdpSocket::bind(("127.0.0.1", port)).is_ok();
        if free {
            return port;
        }
    }
}

/// Fails with the package to install if `tool` is missing.
pub fn need(tool: &str, package: &str) {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(tool).exists()));
    assert!(found, "`{tool}` is missing: apt-get install {package} (or `make setup`)");
}
