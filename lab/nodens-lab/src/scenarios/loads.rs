//! Load on a server of a scenario: its highest rate, and a part of that.

use super::Lab;
use super::probe::stopped;
use anyhow::Result;
use lab_load::run::Spin;
use lab_load::schedule::Arrivals;
use lab_load::{Config, Outcome, Pace, Stamps, Workload};
use lab_result::collect::Collector;
use lab_result::{About, Generator, ResultFile};
use nodens_wire::{Name, Type};
use std::net::SocketAddr;
use std::time::Duration;

/// Sockets that queries come from, as in the talk that the scenario is from.
const CLIENTS: usize = 256;
/// Queries in flight for the highest rate, over fewer sockets.
const IN_FLIGHT: usize = 128;
const CLIENTS_OF_MAXIMUM: usize = 32;
const MAXIMUM_TIME: Duration = Duration::from_secs(3);
const TIMEOUT: Duration = Duration::from_secs(2);
/// Draws before the order of names repeats.
const ORDER_LEN: usize = 1 << 18;

/// How much nicer than the load the work beside it is, where they share a CPU.
const NICER: i32 = 10;

/// Keeps the calling thread on these CPUs, and lets the load go first there: a query that is sent late because of
/// the primary would count as a slow response.
pub(super) fn stand_back(cpus: &[usize]) {
    if !cpus.is_empty() && lab_sys::cpu::pin(cpus).is_err() {
        eprintln!("a thread could not be pinned to its CPU");
    }
    // Being nicer is always allowed.
    _ = rustix::process::nice(NICER);
}

/// Queries for the addresses of these names, in a random order.
pub(super) fn workload(names: impl Iterator<Item = Result<Name>>, seed: u64) -> Result<Workload> {
    let mut workload = Workload::new(seed);
    for name in names {
        workload.push(name?.view(), Type::A, None);
    }
    workload.shuffle(ORDER_LEN);
    Ok(workload)
}

fn config(lab: &Lab<'_>, server: SocketAddr) -> Config {
    Config {
        timeout: TIMEOUT,
        clients: CLIENTS,
        cpus: lab.cpus.load.clone(),
        // The primary has the same CPUs: how long a response waits in the socket is not the server's doing.
        spin: Spin::Never,
        stamps: Stamps::Kernel,
        seed: lab.args.seed,
        ..Config::new(server, 1.0)
    }
}

fn run(lab: &Lab<'_>, config: &Config, workload: &Workload) -> Result<Outcome> {
    let outcome = lab_load::run(config, workload, lab.stop, |_| {})?;
    stopped(lab.stop)?;
    Ok(outcome)
}

/// Answers a second with as many queries as are answered.
pub(super) fn maximum(lab: &Lab<'_>, server: SocketAddr, workload: &Workload) -> Result<f64> {
    let pace = Pace::Closed { window: IN_FLIGHT / CLIENTS_OF_MAXIMUM };
    let clients = CLIENTS_OF_MAXIMUM;
    let config = Config { pace, clients, duration: MAXIMUM_TIME, ..config(lab, server) };
    Ok(run(lab, &config, workload)?.answer_rate())
}

/// What came of a load at a rate.
pub(super) struct Loaded {
    pub(super) outcome: Outcome,
    pub(super) result: ResultFile,
}

impl Loaded {
    /// Queries without an answer, and answers with an error.
    pub(super) fn lost(&self) -> u64 {
        let tally = &self.outcome.tally;
        tally.counts.lost() + tally.rcodes.total().saturating_sub(tally.rcodes.get(0))
    }
}

/// Queries at this rate whatever the server does, for so many seconds.
pub(super) fn at_rate(
    lab: &Lab<'_>,
    server: SocketAddr,
    (workload, about): (&Workload, &str),
    rate: f64,
    seconds: f64,
) -> Result<Loaded> {
    let pace = Pace::Open { rate, arrivals: Arrivals::Poisson };
    let duration = Duration::from_secs_f64(seconds);
    let config = Config { pace, duration, ..config(lab, server) };
    let collector = Collector::start(server, false, []);
    let outcome = run(lab, &config, workload)?;
    let about = About {
        generator: Generator {
            name: "nodens-lab".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        provenance: collector.finish(),
        workload: lab_result::Workload {
            source: about.to_owned(),
            questions: Some(workload.len() as u64),
            period: workload.period(),
        },
    };
    let result = lab_result::convert(&config, &outcome, about);
    Ok(Loaded { outcome, result })
}
