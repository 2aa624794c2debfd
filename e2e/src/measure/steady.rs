//! Steady load from this process, on threads of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use lab_load::{Config, Outcome, Spin, Workload, run};
use tokio::task::JoinHandle;

/// What is asked of a server and how often.
#[derive(Debug, Clone)]
pub(crate) struct Steady {
    pub(crate) server: SocketAddr,
    /// QPS.
    pub(crate) rate: f64,
    pub(crate) duration: Duration,
    /// CPUs of the thread that asks; empty leaves it where it is.
    pub(crate) cpus: Vec<usize>,
    pub(crate) seed: u64,
}

/// Load that is under way.
#[derive(Debug)]
pub(crate) struct Running {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Result<Outcome, lab_load::run::RunError>>,
}

impl Steady {
    /// Starts to ask.
    pub(crate) fn start(&self, workload: &Workload) -> Running {
        let stop = Arc::new(AtomicBool::new(false));
        let config = Config {
            duration: self.duration,
            cpus: self.cpus.clone(),
            seed: self.seed,
            // It would take a CPU from the control plane.
            spin: Spin::Never,
            ..Config::new(self.server, self.rate)
        };
        let task = tokio::task::spawn_blocking({
            let (stop, workload) = (stop.clone(), workload.clone());
            move || run(&config, &workload, &stop, |_| {})
        });
        Running { stop, task }
    }
}

impl Running {
    /// The outcome of all queries, after the requested time.
    pub(crate) async fn outcome(self) -> Result<Outcome> {
        Ok(self.task.await??)
    }

    /// Ends it now and returns the outcome of the queries so far.
    pub(crate) async fn finish(self) -> Result<Outcome> {
        self.stop.store(true, Ordering::Relaxed);
        self.outcome().await
    }
}
