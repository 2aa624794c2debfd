//! All watches of the process, on one thread.

use crate::access::ConfigError;
use crate::connection::Connection;
use crate::kinds;
use crate::metrics::Metrics;
use crate::publish::Known;
use crate::report::Report;
use crate::watch::{Common, Loop, Moments, OnSynced};
use nodens_core::Shared;
use nodens_core::cluster::Feed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// The watches at work. They outlive reloads: a feed that is wanted again goes on undisturbed.
pub struct Watches {
    shared: Arc<Shared>,
    moments: Moments,
    /// Made for the first watch.
    machine: Option<Machine>,
    running: Running,
}

/// Also read by the metrics.
type Running = Arc<Mutex<Vec<Watch>>>;

struct Machine {
    runtime: Runtime,
    metrics: Arc<Metrics>,
    on_synced: OnSynced,
    lists_read: fn(),
}

/// One watch; dropping it ends it.
struct Watch {
    feed: Arc<Feed>,
    report: Arc<Mutex<Report>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl std::fmt::Debug for Watches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watches({})", self.running().len())
    }
}

impl Watches {
    /// No watch yet, and no thread.
    pub fn new(shared: Arc<Shared>, moments: Moments) -> Self {
        Self { shared, moments, machine: None, running: Running::default() }
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Vec<Watch>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to watch for those of `feeds` that nobody watches for yet.
    ///
    /// # Errors
    /// If a configuration or credentials cannot be read. Watches for the feeds before that one
    /// have been started then; [`Watches::retain`] ends them. An API server that does not answer
    /// is no error.
    pub fn start(&mut self, feeds: &[Arc<Feed>]) -> Result<(), ConfigError> {
        for feed in feeds {
            let known = self.running().iter().any(|watch| Arc::ptr_eq(&watch.feed, feed));
            if !known {
                let watch = self.watch(feed)?;
                self.running().push(watch);
            }
        }
        Ok(())
    }

    /// Ends the watches for all but `feeds`.
    pub fn retain(&mut self, feeds: &[Arc<Feed>]) {
        let wanted = |watch: &Watch| feeds.iter().any(|feed| Arc::ptr_eq(&watch.feed, feed));
        self.running().retain(wanted);
    }

    fn watch(&mut self, feed: &Arc<Feed>) -> Result<Watch, ConfigError> {
        let machine = match &self.machine {
            Some(machine) => machine,
            None => {
                let machine = Machine::new(&self.shared, &self.running, self.moments)?;
                self.machine.insert(machine)
            }
        };
        let source = feed.source();
        let connection = Connection::new(source, machine.metrics.clone());
        let connection = Arc::new(machine.runtime.block_on(connection)?);
        let kinds = || kinds::wanted(source).map(|resource| resource.kind);
        let host = connection.host().to_owned();
        let report = Report::new(host, source.is_optional(), kinds());
        let report = Arc::new(Mutex::new(report));
        let common = Common {
            feed: feed.clone(),
            known: Arc::new(Known::new(feed.clone(), kinds())),
            connection,
            report: report.clone(),
            metrics: machine.metrics.clone(),
            sink: self.shared.sink.clone(),
            on_synced: machine.on_synced.clone(),
            lists_read: machine.lists_read,
        };
        let spawn = |resource| machine.runtime.spawn(Loop::new(resource, common.clone()).run());
        let mut tasks: Vec<_> = kinds::wanted(source).map(spawn).collect();
        let (known, metrics) = (common.known.clone(), machine.metrics.clone());
        tasks.push(machine.runtime.spawn(async move { known.publish(&metrics).await }));
        Ok(Watch { feed: feed.clone(), report, tasks })
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        self.running().clear();
        if let Some(machine) = self.machine.take() {
            machine.runtime.shutdown_background();
        }
    }
}

impl Machine {
    fn new(shared: &Arc<Shared>, running: &Running, moments: Moments) -> Result<Self, ConfigError> {
        // One thread: watches wait far more than they work, and a counter has one writer.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("kubernetes")
            .enable_all()
            .build()
            .map_err(ConfigError::Thread)?;
        register(shared, running);
        let on_synced = Arc::new(Mutex::new(Some(moments.synced)));
        let metrics = Arc::new(Metrics::new(shared.clone()));
        Ok(Self { runtime, metrics, on_synced, lists_read: moments.lists_read })
    }
}

/// Metrics that are read at each scrape.
fn register(shared: &Arc<Shared>, running: &Running) {
    for resource in kinds::all() {
        let (running, kind) = (running.clone(), resource.kind);
        let oldest = move || {
            let watches = running.lock().unwrap_or_else(PoisonError::into_inner);
            let since = |watch: &Watch| {
                watch.report.lock().unwrap_or_else(PoisonError::into_inner).lost_since(kind)
            };
            let since = watches.iter().filter_map(since).min();
            let age = since.and_then(|since| SystemTime::now().duration_since(since).ok());
            age.unwrap_or_default().as_secs_f64()
        };
        let help =
            "How long what is known of a kind of object may have been wrong; 0 while it is right.";
        let labels = [("kind", resource.label)];
        shared.registry.gauge("nodens_kubernetes_age_seconds", help, &labels, Arc::new(oldest));
    }
    for (place, kind) in ["service", "endpoint_address", "pod_address"].into_iter().enumerate() {
        let running = running.clone();
        let count = move || {
            let watches = running.lock().unwrap_or_else(PoisonError::into_inner);
            let sizes = watches.iter().map(|watch| watch.feed.load().sizes());
            sizes.filter_map(|sizes| sizes.get(place).copied()).sum::<usize>() as f64
        };
        let help = "What is known of clusters and answered from.";
        let labels = [("kind", kind)];
        shared.registry.gauge("nodens_kubernetes_objects", help, &labels, Arc::new(count));
    }
}
