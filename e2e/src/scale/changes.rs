//! Tails under steady load, without and with endpoint changes, each server on a CPU of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use lab_histogram::Histogram;
use lab_load::Workload;

use super::{CACHE, Cluster, Target};
use crate::measure::bulk::Churn;
use crate::measure::cpus::Cpus;
use crate::measure::echo::Echo;
use crate::measure::steady::Steady;
use crate::measure::store::Store;
use crate::measure::table::{self, Table};
use crate::measure::{Which, await_answer, corefile, variables};
use crate::server::Server;

/// How much longer the slowest of a thousand answers may take while endpoints change.
const RATIO: f64 = 1.3;
/// The part of the wanted changes that has to be reached for a run to count.
const REACHED: f64 = 0.9;
/// Between the start of the changes and of the load.
const LEAD: Duration = Duration::from_secs(2);

/// Answers' times of one server.
struct Times {
    name: &'static str,
    quiet: Histogram,
    busy: Histogram,
    /// Changes a second, of each round.
    changes: Vec<f64>,
    lost: u64,
}

impl Times {
    fn new(name: &'static str) -> Self {
        let (quiet, busy) = (Histogram::new(), Histogram::new());
        Times { name, quiet, busy, changes: Vec::new(), lost: 0 }
    }

    /// The ratio of a quantile with changes to that without.
    fn ratio(&self, part: f64) -> f64 {
        let nanos = |times: &Histogram| times.quantile(part).nanos().unwrap_or(0) as f64;
        nanos(&self.busy) / nanos(&self.quiet).max(1.0)
    }
}

impl Cluster<'_> {
    /// Loads one server after the other; the goals that Nodens misses.
    pub(super) async fn changes(&mut self) -> Result<Vec<String>> {
        let cpus = Cpus::choose()?;
        match &cpus {
            Some(cpus) => cpus.confine_others()?,
            None => println!("Fewer than four CPUs: server, load and control plane share them."),
        }
        if self.args.write_to == Target::Store {
            self.store = Some(Arc::new(Store::read(self.population).await?));
        }
        let (_, drawn) = self.population.questions(1)?;
        let mut all = vec![Times::new("echo")];
        all.extend(self.args.servers.iter().map(|which| Times::new(which.name())));
        for round in 0..self.args.rounds {
            for times in &mut all {
                self.round(times, round, (&drawn, cpus.as_ref())).await?;
            }
        }
        println!(
            "\nAnswers at {} questions/s, while nothing changes and while endpoints do, {} × {} s each:\n",
            self.args.rate, self.args.rounds, self.args.seconds
        );
        println!("{}", table(&all));
        Ok(self.missed(&all))
    }

    async fn round(
        &self,
        times: &mut Times,
        round: usize,
        (workload, cpus): (&Workload, Option<&Cpus>),
    ) -> Result<()> {
        let name = format!("changes-{}-{round}", times.name);
        let which = self.args.servers.iter().find(|which| which.name() == times.name);
        let server = which.map(|which| self.confined(*which, &name, cpus)).transpose()?;
        let echo_cpus = cpus.map_or(&[][..], |cpus| &cpus.server);
        let echo = if server.is_none() { Some(Echo::start(echo_cpus)?) } else { None };
        let address = match (&server, &echo) {
            (Some(server), _) => server.address(),
            (_, Some(echo)) => echo.address,
            _ => bail!("nothing to measure"),
        };
        if let Some(mut server) = server {
            server.ready().await?;
            await_answer(&server).await?;
            self.pair(times, round, (address, workload, cpus)).await?;
            return server.process().stop().await;
        }
        self.pair(times, round, (address, workload, cpus)).await
    }

    fn confined(&self, which: Which, name: &str, cpus: Option<&Cpus>) -> Result<Server> {
        let (corefile, variables) = (corefile(CACHE), variables(&self.kubeconfig));
        let program = which.program()?;
        let start = || Server::start(self.sandbox, &program, name, &corefile, &variables);
        match cpus {
            Some(cpus) => cpus.for_server(start),
            None => start(),
        }
    }

    /// The same load twice, once with changes; which one is first changes from round to round.
    async fn pair(
        &self,
        times: &mut Times,
        round: usize,
        (server, workload, cpus): (SocketAddr, &Workload, Option<&Cpus>),
    ) -> Result<()> {
        let mut load = Steady {
            server,
            rate: self.args.rate,
            duration: Duration::from_secs(3),
            cpus: cpus.map(|cpus| cpus.load.clone()).unwrap_or_default(),
            seed: 1 + round as u64,
        };
        // Caches and code are warm, and what a start leaves to be done is done.
        load.start(workload).outcome().await?;
        load.duration = Duration::from_secs(self.args.seconds);
        let order = if round.is_multiple_of(2) { [false, true] } else { [true, false] };
        for busy in order {
            let churn = busy.then(|| self.churn());
            tokio::time::sleep(LEAD).await;
            let outcome = load.start(workload).outcome().await?;
            times.lost += outcome.tally.counts.lost();
            let into = if busy { &mut times.busy } else { &mut times.quiet };
            into.merge(&outcome.tally.response);
            if let Some(churn) = churn {
                times.changes.push(churn.finish().await?);
            }
        }
        Ok(())
    }

    /// Begins to change endpoints.
    fn churn(&self) -> Churn {
        let (rate, population) = (self.args.changes, self.population);
        if let Some(store) = self.store.clone() {
            return Churn::start(rate, move |number| store.change(number));
        }
        let client = self.client.clone();
        Churn::start(rate, move |number| {
            let (client, write) = (client.clone(), population.change(number));
            async move { write.send(&client).await.map(|_| ()) }
        })
    }

    fn missed(&self, all: &[Times]) -> Vec<String> {
        let mut missed = Vec::new();
        for times in all.iter().filter(|times| times.name == Which::Nodens.name()) {
            if times.changes.iter().any(|changes| *changes < self.args.changes * REACHED) {
                let wanted = self.args.changes;
                println!("There were fewer than {wanted} changes a second on this machine.");
            }
            let ratio = times.ratio(0.999);
            if ratio > RATIO {
                missed.push(format!("p99.9 under changes is {ratio:.2} times, wanted {RATIO}"));
            }
            if times.lost > 0 {
                missed.push(format!("{} questions were lost", times.lost));
            }
        }
        missed
    }
}

fn table(all: &[Times]) -> Table {
    let head = [
        "server",
        "p50",
        "p99",
        "p99.9",
        "p50, changes",
        "p99, changes",
        "p99.9, changes",
        "p99.9 ratio",
        "lost",
        "changes/s",
    ];
    let mut table = Table::new(&head);
    for times in all {
        let mut row = vec![times.name.to_owned()];
        for histogram in [&times.quiet, &times.busy] {
            let parts = [0.5, 0.99, 0.999];
            row.extend(parts.map(|part| table::quantile(histogram.quantile(part))));
        }
        row.push(format!("{:.2}", times.ratio(0.999)));
        row.push(times.lost.to_string());
        let changes = times.changes.iter().copied().fold(f64::INFINITY, f64::min);
        row.push(format!("{changes:.0}"));
        table.row(row);
    }
    table
}
