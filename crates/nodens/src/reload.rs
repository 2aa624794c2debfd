//! When to look at the Corefile again, and what its state is called in logs and metrics.

use crate::events::Event;
use crate::load::Loaded;
use crate::watch::FileWatch;
use nodens_core::Shared;
use nodens_core::config::{ReloadService, Services};
use nodens_core::log::Level;
use nodens_core::metrics::Counter;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

const VERSION_INFO: &str = "coredns_reload_version_info";

/// The schedule of `reload`.
pub(crate) struct Reloads {
    shared: Arc<Shared>,
    failed: Counter,
    events: Sender<Event>,
    service: Option<ReloadService>,
    next: Option<Instant>,
    watch: Option<FileWatch>,
    /// Hash of the last text looked at, accepted or not: the same bad file is not tried twice.
    seen: String,
}

impl Reloads {
    /// No schedule yet.
    pub(crate) fn new(shared: Arc<Shared>, events: Sender<Event>) -> Self {
        let help = "Configurations that could not be taken up.";
        let failed = shared.registry.counter("coredns_reload_failed_total", help, &[]);
        Self { shared, failed, events, service: None, next: None, watch: None, seen: String::new() }
    }

    /// Follows a configuration that was just taken up.
    pub(crate) fn configure(&mut self, loaded: &Loaded, services: &Services) {
        self.seen.clone_from(&loaded.hash);
        self.service = services.reload.filter(|_| loaded.source.path.is_some());
        self.schedule();
        if self.service.is_none() {
            self.watch = None;
            return;
        }
        let text = format!("Running configuration SHA512 = {}", loaded.hash);
        self.shared.sink.line(Level::Info, "reload", text);
        self.shared.registry.clear(VERSION_INFO);
        let labels = [("hash", "sha512"), ("value", loaded.hash.as_str())];
        let help = "Always 1: hash of the configuration at work.";
        self.shared.registry.gauge(VERSION_INFO, help, &labels, Arc::new(|| 1.0));
        self.start_watch(loaded);
    }

    fn start_watch(&mut self, loaded: &Loaded) {
        let imported = loaded.tree.imported_files.iter().cloned();
        let files: Vec<PathBuf> = loaded.source.path.clone().into_iter().chain(imported).collect();
        match FileWatch::start(files, self.events.clone()) {
            Ok(watch) => self.watch = Some(watch),
            Err(error) => {
                let text = format!("no notice of file changes, only polling: {error}");
                self.shared.sink.line(Level::Warning, "reload", text);
            }
        }
    }

    /// Whether changes of files are to be followed at all.
    pub(crate) fn active(&self) -> bool {
        self.service.is_some()
    }

    /// How long until the Corefile should be looked at.
    pub(crate) fn wait(&self) -> Option<Duration> {
        self.next.map(|next| next.saturating_duration_since(Instant::now()))
    }

    /// Plans the next look.
    pub(crate) fn schedule(&mut self) {
        self.next = self.service.map(|service| {
            let jitter = u64::try_from(service.jitter.as_millis()).unwrap_or(u64::MAX).max(1);
            Instant::now() + service.interval + Duration::from_millis(fastrand::u64(..jitter))
        });
    }

    /// Whether this text has not been looked at before; from now on it has.
    pub(crate) fn is_new(&mut self, hash: &str) -> bool {
        let new = self.seen != hash;
        if new {
            hash.clone_into(&mut self.seen);
        }
        new
    }

    /// What was looked at last is looked at again next time.
    pub(crate) fn forget(&mut self) {
        self.seen.clear();
    }

    /// Counts a configuration that could not be taken up: alerts watch this number, whatever was
    /// wrong with it.
    pub(crate) fn count_failure(&self) {
        // The writer of everything that is no worker; reloads are the main thread's alone.
        self.shared.registry.cells(self.shared.workers()).add(self.failed, 1);
    }

    /// Counts and reports a reload that failed.
    pub(crate) fn failed(&self, error: &dyn std::fmt::Display) {
        self.count_failure();
        let text = format!("Corefile changed but reload failed: {error}");
        self.shared.sink.line(Level::Error, "reload", text);
    }
}
