//! What tests of several crates share: a counting allocator, ports, patience.
//!
//! What is deliberately absent: every other crate of the workspace. Only development dependencies may name this one.

#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "an allocator cannot be written without it")]
pub mod alloc;
mod ports;
mod turns;

pub use ports::{free_address, free_port};
pub use turns::{Turn, alone, among_few};

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

/// Fails with the package to install if `tool` is missing.
pub fn need(tool: &str, package: &str) {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(tool).exists()));
    assert!(found, "`{tool}` is missing: apt-get install {package} (or `make setup`)");
}
