//! Tails under steady load, without and with endpoint changes, each server on a CPU of its own.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use lab_load::Workload;

use super::window::{Measured, Window};
use super::{CACHE, Cluster};
use crate::measure::bulk::Churn;
use crate::measure::cpus::Cpus;
use crate::measure::echo::Echo;
use crate::measure::steady::Steady;
use crate::measure::table::{self, Table};
use crate::measure::{Which, await_answer, corefile, variables};
use crate::server::Server;

/// How much longer the slowest of a thousand answers may take while endpoints change.
const RATIO: f64 = 1.3;
/// The part of the wanted changes that has to be reached for a run to count.
const REACHED: f64 = 0.9;
/// Load after each start, before anything is measured: caches and code are warm then.
const WARM_UP: Duration = Duration::from_secs(2);
/// Between the start or end of the changes and the load.
const LEAD: Duration = Duration::from_millis(500);

/// The quantiles that are shown.
const SHOWN: [f64; 3] = [0.5, 0.99, 0.999];

/// Who is measured: a server, or the echo.
struct Subject {
    which: Option<Which>,
    rounds: Vec<Round>,
}

/// The same load twice.
struct Round {
    quiet: Window,
    busy: Window,
}

impl Round {
    /// The ratio of p99.9 with changes to that without.
    fn ratio(&self) -> f64 {
        quantile(&self.busy, 0.999) / quantile(&self.quiet, 0.999).max(1.0)
    }

    fn disturbed(&self) -> Option<&String> {
        self.quiet.disturbed.as_ref().or(self.busy.disturbed.as_ref())
    }
}

impl Subject {
    fn name(&self) -> &'static str {
        self.which.map_or("echo", Which::name)
    }

    /// The rounds that nothing else disturbed; all, if there is none.
    fn counted(&self) -> Vec<&Round> {
        let good: Vec<&Round> =
            self.rounds.iter().filter(|round| round.disturbed().is_none()).collect();
        if good.is_empty() { self.rounds.iter().collect() } else { good }
    }

    /// The median of a number of each round, and the lowest and highest.
    fn spread(&self, of: impl Fn(&Round) -> f64) -> [f64; 3] {
        let mut all: Vec<f64> = self.counted().into_iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        let at = |place: usize| all.get(place).copied().unwrap_or(f64::NAN);
        let middle = (at(all.len().saturating_sub(1) / 2) + at(all.len() / 2)) / 2.0;
        [middle, at(0), at(all.len().saturating_sub(1))]
    }

    fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        self.spread(of)[0]
    }

    fn lost(&self) -> u64 {
        self.rounds.iter().map(|round| round.quiet.lost + round.busy.lost).sum()
    }
}

fn quantile(window: &Window, part: f64) -> f64 {
    window.response.quantile(part).nanos().unwrap_or(0) as f64
}

impl Cluster<'_> {
    /// Loads one server after the other, round after round; the goals that Nodens misses.
    pub(super) async fn changes(&mut self) -> Result<Vec<String>> {
        let cpus = Cpus::choose()?;
        match &cpus {
            Some(cpus) => cpus.confine_others()?,
            None => println!("Fewer than four CPUs: server, load and control plane share them."),
        }
        let (_, workload) = self.population.questions(1)?;
        let measured = [None].into_iter().chain(self.args.servers.iter().copied().map(Some));
        let mut all: Vec<Subject> =
            measured.map(|which| Subject { which, rounds: Vec::new() }).collect();
        for number in 0..self.args.rounds {
            for subject in &mut all {
                let round = self.round(subject.which, number, (&workload, cpus.as_ref())).await;
                subject.rounds.push(round.with_context(|| subject.name())?);
            }
        }
        let (rate, rounds, seconds) = (self.args.rate, self.args.rounds, self.args.seconds);
        println!(
            "\nAnswers at {rate} QPS, while nothing changes and while endpoints do, {rounds} × {seconds} s \
             each, medians of rounds (lowest to highest):\n\n{}",
            tails(&all)
        );
        println!("Changes, and CPUs used while there are any:\n\n{}", costs(&all));
        for subject in &all {
            for (number, round) in subject.rounds.iter().enumerate() {
                if let Some(text) = round.disturbed() {
                    println!("Round {} of {} was disturbed: {text}", number + 1, subject.name());
                }
            }
        }
        Ok(self.missed(&all))
    }

    async fn round(
        &self,
        which: Option<Which>,
        number: usize,
        (workload, cpus): (&Workload, Option<&Cpus>),
    ) -> Result<Round> {
        let cpu = cpus.and_then(|cpus| cpus.server.first().copied());
        let Some(which) = which else {
            let echo = Echo::start(cpus.map_or(&[], |cpus| &cpus.server))?;
            let measured = Measured { server: None, cpu };
            return self.pair(measured, number, (echo.address, workload, cpus)).await;
        };
        let name = format!("changes-{}-{number}", which.name());
        let mut server = self.confined(which, &name, cpus)?;
        server.ready().await?;
        await_answer(&server).await?;
        let address = server.address();
        let measured = Measured { server: Some(&mut server), cpu };
        let round = self.pair(measured, number, (address, workload, cpus)).await?;
        server.process().stop().await?;
        Ok(round)
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
        mut measured: Measured<'_>,
        number: usize,
        (server, workload, cpus): (SocketAddr, &Workload, Option<&Cpus>),
    ) -> Result<Round> {
        let mut load = Steady {
            server,
            rate: self.args.rate,
            duration: WARM_UP,
            cpus: cpus.map(|cpus| cpus.load.clone()).unwrap_or_default(),
            seed: 1 + number as u64,
        };
        load.start(workload).outcome().await?;
        load.duration = Duration::from_secs(self.args.seconds);
        if number.is_multiple_of(2) {
            let quiet = self.window(&mut measured, (&load, workload), false).await?;
            let busy = self.window(&mut measured, (&load, workload), true).await?;
            return Ok(Round { quiet, busy });
        }
        let busy = self.window(&mut measured, (&load, workload), true).await?;
        let quiet = self.window(&mut measured, (&load, workload), false).await?;
        Ok(Round { quiet, busy })
    }

    async fn window(
        &self,
        measured: &mut Measured<'_>,
        (load, workload): (&Steady, &Workload),
        with_changes: bool,
    ) -> Result<Window> {
        let churn = with_changes.then(|| {
            let store = self.store.clone();
            Churn::start(self.args.changes, move |number| store.change(number))
        });
        tokio::time::sleep(LEAD).await;
        let before = measured.read()?;
        let outcome = load.start(workload).outcome().await?;
        let after = measured.read()?;
        let written = match churn {
            Some(churn) => churn.finish().await?,
            None => 0.0,
        };
        Ok(measured.window((&before, &after), &outcome, written))
    }

    fn missed(&self, all: &[Subject]) -> Vec<String> {
        let mut missed = Vec::new();
        let Some(nodens) = all.iter().find(|subject| subject.which == Some(Which::Nodens)) else {
            return missed;
        };
        let heard = nodens.median(|round| round.busy.heard.map_or(0.0, |heard| heard.0));
        if heard < self.args.changes * REACHED {
            let wanted = self.args.changes;
            println!("Nodens received {heard:.0} changes per second, wanted {wanted}.");
        }
        let ratio = nodens.median(Round::ratio);
        if ratio > RATIO {
            missed.push(format!("p99.9 under changes is {ratio:.2} times, wanted {RATIO}"));
        }
        if nodens.lost() > 0 {
            missed.push(format!("{} queries were lost", nodens.lost()));
        }
        missed
    }
}

fn tails(all: &[Subject]) -> Table {
    let mut table = Table::new(&[
        "server",
        "p50",
        "p99",
        "p99.9",
        "p50, changes",
        "p99, changes",
        "p99.9, changes",
        "p99.9 ratio",
        "lost",
        "rounds, disturbed",
    ]);
    for subject in all {
        let mut row = vec![subject.name().to_owned()];
        let parts: [fn(&Round) -> &Window; 2] = [|round| &round.quiet, |round| &round.busy];
        for of in parts {
            row.extend(SHOWN.map(|part| {
                let nanos = subject.median(|round| quantile(of(round), part));
                table::duration(Duration::from_secs_f64(nanos / 1e9))
            }));
        }
        let [ratio, low, high] = subject.spread(Round::ratio);
        row.push(format!("{ratio:.2} ({low:.2} to {high:.2})"));
        row.push(subject.lost().to_string());
        let disturbed = subject.rounds.iter().filter(|round| round.disturbed().is_some()).count();
        row.push(format!("{}, {disturbed}", subject.rounds.len()));
        table.row(row);
    }
    table
}

fn costs(all: &[Subject]) -> Table {
    let mut table = Table::new(&[
        "server",
        "written/s",
        "answered from/s",
        "after, on average",
        "its CPU, no changes",
        "its CPU",
        "for each change",
        "the API server's",
        "the store's",
    ]);
    for subject in all {
        let busy = |of: fn(&Window) -> f64| subject.median(|round| of(&round.busy));
        let written = busy(|window| window.written);
        let mut row = vec![subject.name().to_owned(), format!("{written:.0}")];
        let heard = busy(|window| window.heard.map_or(f64::NAN, |heard| heard.0));
        let after = busy(|window| window.heard.map_or(f64::NAN, |heard| heard.1.as_secs_f64()));
        if subject.which.is_some() && !heard.is_nan() {
            let quiet = subject.median(|round| round.quiet.cpus[0]);
            let own = busy(|window| window.cpus[0]);
            row.push(format!("{heard:.0}"));
            row.push(table::duration(Duration::from_secs_f64(after)));
            row.extend([quiet, own].map(|part| format!("{part:.3}")));
            let each = subject.median(|round| (round.busy.cpus[0] - round.quiet.cpus[0]) / heard);
            row.push(table::duration(Duration::from_secs_f64(each.max(0.0))));
        } else {
            row.extend(["–"; 5].map(str::to_owned));
        }
        row.push(format!("{:.2}", busy(|window| window.cpus[1])));
        row.push(format!("{:.2}", busy(|window| window.cpus[2])));
        table.row(row);
    }
    table
}
