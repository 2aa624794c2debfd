//! `nodens-e2e scale`: time to ready, memory, and tails, with very many services and endpoints.

mod changes;
mod relists;
mod starts;
mod window;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::{Args as Arguments, ValueEnum};
use kube::Client;

use crate::control_plane::{self, Component, ControlPlane, Credential, Options, reader_rules};
use crate::measure::Which;
use crate::measure::population::Population;
use crate::measure::store::Store;
use crate::sandbox::Sandbox;

/// Seconds that the reader's token is valid.
const DAY: i64 = 86_400;

/// The lines about the cache: those of the official Corefile.
const CACHE: &str = "cache 30";

#[derive(Arguments)]
pub(crate) struct Args {
    /// Services in the cluster.
    #[arg(long, default_value_t = 10_000)]
    services: usize,
    /// Endpoints of each service.
    #[arg(long, default_value_t = 10)]
    endpoints: usize,
    /// The store of the control plane.
    #[arg(long, value_enum, default_value_t)]
    store: control_plane::Store,
    /// What to measure.
    #[arg(long, value_delimiter = ',', default_value = "starts,relists,changes")]
    parts: Vec<Part>,
    /// Servers to measure.
    #[arg(long, value_delimiter = ',', default_value = "nodens,coredns")]
    servers: Vec<Which>,
    /// Starts of each server.
    #[arg(long, default_value_t = 5)]
    starts: usize,
    /// Relists that are forced.
    #[arg(long, default_value_t = 20)]
    relists: usize,
    /// Rounds of steady load for each server, each without and with changes.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of each load.
    #[arg(long, default_value_t = 6)]
    seconds: u64,
    /// QPS of the steady load.
    #[arg(long, default_value_t = 5_000.0)]
    rate: f64,
    /// Endpoint changes a second.
    #[arg(long, default_value_t = 1_000.0)]
    changes: f64,
    /// Fail when Nodens misses a goal that does not depend on a quiet machine (memory).
    #[arg(long)]
    check: bool,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Time from start to the first answer.
    Starts,
    /// Memory, and over relists.
    Relists,
    /// Tails under steady load, with and without changes.
    Changes,
}

/// What all parts use.
struct Cluster<'a> {
    args: &'a Args,
    sandbox: &'a Sandbox,
    plane: ControlPlane,
    client: Client,
    population: Population,
    /// The population as it is stored.
    store: Store,
    /// Of a user with the rights of CoreDNS's manifest.
    kubeconfig: PathBuf,
}

pub(crate) async fn run(args: &Args, sandbox: &Sandbox) -> Result<ExitCode> {
    let Args { services, endpoints, .. } = *args;
    if args.servers.is_empty() || args.rounds == 0 {
        bail!("expected at least one server and one round");
    }
    let mut plane =
        ControlPlane::start(sandbox, Options { store: args.store, ..Options::default() }).await?;
    let account = plane.account("reader", reader_rules()).await?;
    let token = plane.token(&account, DAY)?;
    let kubeconfig = plane.kubeconfig("reader", &Credential::Token(token))?;
    let client = plane.admin().await?;
    // It has nothing to do, and would read every slice, too.
    plane.stop(Component::Controllers).await?;
    let (population, begin) = (Population { services, endpoints }, Instant::now());
    let store = Store::fill(population, &client).await?;
    let took = begin.elapsed();
    println!("{services} services with {endpoints} endpoints each written in {took:.1?}");
    let mut cluster = Cluster { args, sandbox, plane, client, population, store, kubeconfig };
    let mut missed = Vec::new();
    for part in &args.parts {
        missed.extend(match part {
            Part::Starts => cluster.starts().await?,
            Part::Relists => cluster.relists().await?,
            Part::Changes => cluster.changes().await?,
        });
    }
    for text in &missed {
        println!("Nodens misses a goal: {text}");
    }
    let memory = missed.iter().any(|text| text.starts_with(relists::MEMORY));
    Ok(if args.check && memory { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The median of some values; nothing without one.
fn median<T: Copy + Ord>(values: impl IntoIterator<Item = T>) -> Option<T> {
    let mut values: Vec<T> = values.into_iter().collect();
    values.sort();
    values.get(values.len() / 2).copied()
}
