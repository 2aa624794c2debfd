//! `nodens-e2e faults`: what becomes of names when the control plane fails.
//!
//! Each scenario starts a server of its own, breaks something while known names are asked for, mends
//! it, and says pass or fail. With `--server coredns` the same is asked of CoreDNS, whose log is
//! not looked at.

mod outages;
mod rights;
mod startup;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args as Arguments, ValueEnum};
use kube::Client;
use lab_load::{Outcome, Workload};

use crate::control_plane::{
    Account, Component, ControlPlane, Credential, Options, Store, reader_rules,
};
use crate::measure::population::Population;
use crate::measure::steady::{Running, Steady};
use crate::measure::{Which, start, store};
use crate::sandbox::Sandbox;
use crate::server::Server;

/// Seconds that a reader's token is valid unless a scenario wants otherwise.
const DAY: i64 = 86_400;
/// How long a server may take to be right again: it waits up to 10 seconds between attempts.
const RECOVERY: Duration = Duration::from_secs(60);
/// QPS while something is broken.
const RATE: f64 = 500.0;
/// The longest that a scenario asks.
const LOAD_MAX: Duration = Duration::from_secs(600);

#[derive(Arguments)]
pub(crate) struct Args {
    /// The server.
    #[arg(long, default_value = "nodens")]
    server: Which,
    /// Scenarios to run.
    #[arg(long, value_delimiter = ',', default_value = "api-server,etcd,gone,start,token,rights")]
    only: Vec<Scenario>,
    /// The store of the control plane.
    #[arg(long, value_enum, default_value_t)]
    store: Store,
    /// Services that are there before anything breaks.
    #[arg(long, default_value_t = 200)]
    services: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// The API server is killed and comes back.
    ApiServer,
    /// The store is killed and comes back.
    Etcd,
    /// What happened meanwhile is no longer in the store: 410 Gone.
    Gone,
    /// The server starts while there is no API server.
    Start,
    /// The token ends and is replaced.
    Token,
    /// The right to read is taken and given back.
    Rights,
}

/// What the scenarios use.
struct Stage<'a> {
    sandbox: &'a Sandbox,
    plane: ControlPlane,
    client: Client,
    account: Account,
    population: Population,
    which: Which,
    kubeconfig: PathBuf,
}

pub(crate) async fn run(args: &Args, sandbox: &Sandbox) -> Result<ExitCode> {
    let mut plane =
        ControlPlane::start(sandbox, Options { store: args.store, ..Options::default() }).await?;
    let account = plane.account("reader", reader_rules()).await?;
    let token = plane.token(&account, DAY)?;
    let kubeconfig = plane.kubeconfig("reader", &Credential::Token(token))?;
    let client = plane.admin().await?;
    let population = Population { services: args.services.max(10), endpoints: 3 };
    store::Store::fill(population, &client).await?;
    // Its own lists would be counted.
    plane.stop(Component::Controllers).await?;
    let which = args.server;
    let mut stage = Stage { sandbox, plane, client, account, population, which, kubeconfig };
    let mut failed = false;
    for scenario in &args.only {
        let begin = Instant::now();
        let result = stage.play(*scenario).await;
        let (name, took) = (scenario.name(), begin.elapsed());
        match result {
            Ok(text) => println!("pass  {name}: {text} ({took:.0?})"),
            Err(error) => {
                failed = true;
                println!("FAIL  {name}: {error:#} ({took:.0?})");
            }
        }
        stage.mend().await?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

impl Scenario {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl Stage<'_> {
    /// Runs a scenario; returns the figures of a success.
    async fn play(&mut self, scenario: Scenario) -> Result<String> {
        match scenario {
            Scenario::ApiServer => self.killed(&[Component::ApiServer]).await,
            Scenario::Etcd => self.killed(&[Component::Etcd]).await,
            Scenario::Gone => self.gone().await,
            Scenario::Start => self.start_without_api_server().await,
            Scenario::Token => self.token_ends().await,
            Scenario::Rights => self.rights_are_taken().await,
        }
    }

    /// Starts whatever a scenario has left ended.
    async fn mend(&mut self) -> Result<()> {
        for component in [Component::Etcd, Component::ApiServer] {
            // It fails if the component runs already, which is as good.
            _ = self.plane.start_component(component);
        }
        self.plane.ready().await?;
        self.client = self.plane.admin().await?;
        Ok(())
    }

    /// A server that is ready. Its Corefile has no cache, which would hide what it knows.
    async fn server(&self, name: &str, kubeconfig: &Path) -> Result<Server> {
        let name = format!("{}-{name}", self.which.name());
        start(self.sandbox, self.which, &name, ("", kubeconfig)).await
    }

    /// Asks for known names from now on.
    fn ask(&self, server: &Server) -> Result<Running> {
        let (_, workload): (_, Workload) = self.population.questions(1)?;
        let load = Steady {
            server: server.address(),
            rate: RATE,
            duration: LOAD_MAX,
            cpus: Vec::new(),
            seed: 1,
        };
        Ok(load.start(&workload))
    }

    /// Kills a part of the control plane and starts it again after a while.
    async fn restart(&mut self, components: &[Component], pause: Duration) -> Result<()> {
        for component in components {
            self.plane.kill(*component)?;
        }
        tokio::time::sleep(pause).await;
        for component in components {
            self.plane.start_component(*component)?;
        }
        self.plane.ready().await?;
        self.client = self.plane.admin().await?;
        Ok(())
    }

    /// Fails unless the log has a line from its octet `from` on with all of `words`; how many.
    fn said(&self, server: &mut Server, from: usize, words: &[&str]) -> Result<usize> {
        if self.which != Which::Nodens {
            return Ok(0);
        }
        let log = server.process().log();
        let new = log.get(from..).unwrap_or_default();
        let lines = new.lines().filter(|line| words.iter().all(|word| line.contains(word)));
        match lines.count() {
            0 => bail!("no line with {words:?} in the log:\n{new}"),
            count => Ok(count),
        }
    }

    /// As [`Stage::said`], waiting for the line.
    async fn says(&self, server: &mut Server, from: usize, words: &[&str]) -> Result<usize> {
        let begin = Instant::now();
        loop {
            match self.said(server, from, words) {
                Err(_) if begin.elapsed() < RECOVERY => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                other => return other,
            }
        }
    }
}

/// Fails unless every query about a known name had an answer with addresses; how many there were.
fn all_answered(outcome: &Outcome) -> Result<u64> {
    let (counts, rcodes) = (&outcome.tally.counts, &outcome.tally.rcodes);
    let right = rcodes.get(0);
    let asked = counts.sent - counts.interrupted;
    if right != asked || asked == 0 {
        let lost = counts.lost();
        bail!(
            "of {asked} queries about known names {right} were answered, {lost} lost: {rcodes:?}"
        );
    }
    Ok(right)
}

/// Ends the queries; how many there were, all of them answered.
async fn finish(load: Running) -> Result<u64> {
    all_answered(&load.finish().await.context("the load")?)
}
