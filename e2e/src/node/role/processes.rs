//! Processes of the node: those of its pods are the sandbox's.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::sim::servers::START_TIMEOUT;

/// A process in the sandbox.
pub(super) type Id = Pid;

/// Every server of the node cache, oldest first; one that stays for its successors is one of them.
pub(super) fn running() -> Result<Vec<Id>> {
    find(|words| words.contains(&&b"-localip"[..]))
}

/// Every central server.
pub(super) fn centrals() -> Result<Vec<Id>> {
    find(|words| words.starts_with(&[b"/coredns", b"-conf", b"/etc/coredns/Corefile"]))
}

/// Processes by their command lines.
fn find(is_wanted: impl Fn(&[&[u8]]) -> bool) -> Result<Vec<Id>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        let id = path.file_name().and_then(|name| name.to_str()?.parse().ok());
        let Some(id) = id.and_then(Pid::from_raw) else { continue };
        // A process may end while it is looked at, and one that has ended has no command line.
        let line = fs::read(path.join("cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|octet| *octet == 0).collect();
        if is_wanted(&words) {
            found.push(id);
        }
    }
    found.sort_by_key(|id| id.as_raw_nonzero());
    Ok(found)
}

/// Sends a signal; a process that has ended just now needs none.
pub(super) fn signal(id: Id, signal: Signal) -> Result<()> {
    match kill_process(id, signal) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("process {}", id.as_raw_nonzero())),
    }
}

/// Waits until one server runs, and none of those that ran `before`.
pub(super) fn alone(before: &[Id]) -> Result<()> {
    let begun = Instant::now();
    loop {
        let now = running()?;
        if now.len() == 1 && !before.contains(&now[0]) {
            return Ok(());
        }
        ensure!(
            begun.elapsed() < START_TIMEOUT,
            "expected {before:?} to run still, but {now:?} run"
        );
        thread::sleep(Duration::from_millis(50));
    }
}

/// Waits for a server that did not run `before`.
pub(super) fn next(before: &[Id]) -> Result<Id> {
    let begun = Instant::now();
    loop {
        if let Some(new) = running()?.into_iter().find(|id| !before.contains(id)) {
            return Ok(new);
        }
        ensure!(begun.elapsed() < START_TIMEOUT, "no successor starts beside {before:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A process that is stopped until this is dropped.
pub(super) struct Stopped(Id);

impl Stopped {
    pub(super) fn new(id: Id) -> Result<Self> {
        signal(id, Signal::STOP)?;
        Ok(Stopped(id))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // Where it cannot continue it has ended, and that shows elsewhere.
        _ = signal(self.0, Signal::CONT);
    }
}
