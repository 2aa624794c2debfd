//! What happens to a server in a busy cluster: its Corefile and hosts file change, and its metrics
//! are scraped ten times a second.

use super::{INTERNAL, INTERNAL_ADDRESS};
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Lines of the hosts file.
pub(super) const LINES: usize = 100_000;
/// Time between two scrapes.
const SCRAPE_EVERY: Duration = Duration::from_millis(100);
/// Time between two changes of a file: the servers look every half second.
const CHANGE_EVERY: Duration = Duration::from_millis(700);

/// A hosts file with the internal name and `lines` others; `version` makes it differ.
pub(super) fn hosts(lines: usize, version: usize) -> String {
    let name = INTERNAL.trim_end_matches('.');
    let mut text = format!("{INTERNAL_ADDRESS} {name}\n");
    for n in 0..lines {
        let address = [198, 18 + (version & 1) as u8, (n >> 8 & 255) as u8, (n & 255) as u8];
        let address = std::net::Ipv4Addr::from(address);
        _ = writeln!(text, "{address} host{n}.example.net");
    }
    text
}

/// Replaces a file at once, as an editor or the kubelet does.
fn replace(path: &Path, text: &str) -> Result<()> {
    let beside = path.with_extension("new");
    std::fs::write(&beside, text).with_context(|| format!("cannot write {}", beside.display()))?;
    std::fs::rename(&beside, path).with_context(|| format!("cannot replace {}", path.display()))
}

/// A thread that disturbs until the value goes.
pub(super) struct Disturbance {
    over: Arc<AtomicBool>,
    scrapes: Arc<AtomicU64>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Disturbance {
    pub(super) fn start(corefile: PathBuf, hosts: PathBuf, metrics: SocketAddr) -> Self {
        let (over, scrapes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let thread = std::thread::spawn({
            let (over, scrapes) = (over.clone(), scrapes.clone());
            move || disturb(&over, &scrapes, &corefile, &hosts, metrics)
        });
        Self { over, scrapes, thread: Some(thread) }
    }

    /// Ends it; fails if a file could not be changed or nothing was ever scraped.
    pub(super) fn finish(mut self) -> Result<()> {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().map_err(|_| anyhow::anyhow!("the disturbing thread panicked"))??;
        }
        if self.scrapes.load(Ordering::Relaxed) == 0 {
            anyhow::bail!("no scrape of the metrics succeeded");
        }
        Ok(())
    }
}

impl Drop for Disturbance {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

fn disturb(
    over: &AtomicBool,
    scrapes: &AtomicU64,
    corefile: &Path,
    hosts_file: &Path,
    metrics: SocketAddr,
) -> Result<()> {
    let original = std::fs::read_to_string(corefile)
        .with_context(|| format!("cannot read {}", corefile.display()))?;
    let versions = [hosts(LINES, 0), hosts(LINES, 1)];
    let mut changed = Instant::now();
    let mut version = 0;
    while !over.load(Ordering::Relaxed) {
        if scrape(metrics).is_ok() {
            scrapes.fetch_add(1, Ordering::Relaxed);
        }
        if changed.elapsed() >= CHANGE_EVERY {
            version += 1;
            replace(corefile, &format!("# version {version}\n{original}"))?;
            if let Some(text) = versions.get(version % versions.len()) {
                replace(hosts_file, text)?;
            }
            changed = Instant::now();
        }
        std::thread::sleep(SCRAPE_EVERY);
    }
    Ok(())
}

fn scrape(metrics: SocketAddr) -> std::io::Result<usize> {
    let mut stream = TcpStream::connect_timeout(&metrics, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
    let mut page = Vec::new();
    stream.read_to_end(&mut page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hosts_file_has_the_internal_name_and_differs_by_version() {
        let (first, second) = (hosts(300, 0), hosts(300, 1));
        assert_eq!(first.lines().count(), 301);
        assert!(first.starts_with("192.0.2.53 svc.internal.example\n"));
        assert_ne!(first, second);
        assert_eq!(first.lines().next(), second.lines().next());
    }
}
