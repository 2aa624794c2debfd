//! A server in this process.

use nodens_core::config::BuildOptions;
use nodens_core::log::{Record, Sink};
use nodens_core::{Config, Shared, build};
use nodens_net::{ListenError, Options, Runtime};
pub(crate) use nodens_testkit::eventually;
use std::net::SocketAddr;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Weak};
use std::time::Duration;

pub(crate) const WORKERS: usize = 4;

pub(crate) struct Server {
    pub(crate) runtime: Runtime,
    pub(crate) shared: Arc<Shared>,
    /// The configuration it started with, for as long as anybody uses it.
    pub(crate) first: Weak<Config>,
    log: Receiver<Record>,
}

impl Server {
    pub(crate) fn start(corefile: &str) -> Self {
        Self::with(corefile, Options::default())
    }

    pub(crate) fn with(corefile: &str, options: Options) -> Self {
        Self::with_zones(corefile, options, &BuildOptions::default())
    }

    /// With zones that no directive has, among what is not in a Corefile.
    pub(crate) fn with_zones(corefile: &str, options: Options, zones: &BuildOptions) -> Self {
        Self::of(WORKERS, corefile, options, zones)
    }

    /// With so many workers.
    pub(crate) fn of(
        workers: usize,
        corefile: &str,
        options: Options,
        zones: &BuildOptions,
    ) -> Self {
        let (sender, log) = std::sync::mpsc::sync_channel(1 << 16);
        let shared = Arc::new(Shared::new(workers, Sink::new(sender)));
        let config = compile(&shared, corefile, zones);
        let first = Arc::downgrade(&config);
        let runtime = Runtime::start(shared.clone(), config, options).unwrap();
        Self { runtime, shared, first, log }
    }

    pub(crate) fn reload(&mut self, corefile: &str) -> Result<(), ListenError> {
        let silent =
            self.runtime.apply(compile(&self.shared, corefile, &BuildOptions::default()))?;
        assert!(silent.is_empty(), "workers {silent:?} do not answer");
        Ok(())
    }

    /// Where its first listener is.
    pub(crate) fn address(&self) -> SocketAddr {
        self.runtime.local_addresses()[0]
    }

    /// The sum of all series of a metric family.
    pub(crate) fn count(&self, family: &str) -> u64 {
        let text = self.shared.registry.render();
        let series = text.lines().filter(|line| !line.starts_with('#'));
        let series = series.filter(|line| {
            line.strip_prefix(family).is_some_and(|rest| rest.starts_with(['{', ' ']))
        });
        series.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64).sum()
    }

    /// Waits until a metric family has reached `count`.
    pub(crate) fn wait_for(&self, family: &str, count: u64) {
        eventually(&format!("{family} to reach {count}"), || self.count(family) >= count);
    }

    /// The log so far.
    pub(crate) fn log(&self) -> String {
        self.log.try_iter().map(|record| format!("{record:?}\n")).collect()
    }

    pub(crate) fn stop(self) {
        self.runtime.shutdown(Duration::from_secs(1));
    }
}

fn compile(shared: &Arc<Shared>, corefile: &str, options: &BuildOptions) -> Arc<Config> {
    let tree = nodens_corefile::parse("Corefile", corefile, &nodens_corefile::SystemSources);
    Arc::new(build(&tree.unwrap(), options, shared).unwrap())
}
