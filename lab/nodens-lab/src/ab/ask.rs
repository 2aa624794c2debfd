//! Who asks a server, and what one block of load brings.

use super::measure::{Phase, nanos, unix};
use super::plan::Set;
use super::side::Instance;
use anyhow::{Context, Result};
use lab_experiment::disturbance::{Kind, Machine, Signs};
use lab_experiment::{Measured, Place};
use lab_load::schedule::Arrivals;
use lab_load::{Config, Outcome, Pace, Workload};
use lab_result::comparison::{Block, ComparisonPlan, Load};
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Who asks, and how.
#[derive(Clone, Debug)]
pub(crate) struct Generator {
    pub(crate) clients: usize,
    pub(crate) threads: usize,
    pub(crate) cpus: Vec<usize>,
    pub(crate) timeout: Duration,
    pub(crate) seed: u64,
}

impl Generator {
    pub(super) fn config(
        &self,
        server: SocketAddr,
        rate: f64,
        duration: Duration,
        seed: u64,
    ) -> Config {
        Config {
            pace: Pace::Open { rate, arrivals: Arrivals::Poisson },
            duration,
            timeout: self.timeout,
            clients: self.clients,
            threads: self.threads,
            cpus: self.cpus.clone(),
            seed,
            ..Config::new(server, rate)
        }
    }
}

/// Asks servers for blocks.
#[derive(Clone)]
pub(super) struct Asker<'a> {
    pub(super) generator: Generator,
    pub(super) sets: &'a [Set],
    pub(super) stop: &'a AtomicBool,
}

impl Asker<'_> {
    /// The load before a block that is not measured.
    pub(super) fn warm_block(
        &self,
        plan: &ComparisonPlan,
        phase: &Phase<'_>,
        place: &Place<'_>,
        server: &mut Instance,
    ) -> Result<()> {
        let load = plan.loads.get(place.unit.condition).context("there is no such load")?;
        let seed = self.seed(phase, place);
        server.answers += self.warm(plan, load, server.address, seed)?;
        Ok(())
    }

    /// The same for both blocks of a pair.
    pub(super) fn seed(&self, phase: &Phase<'_>, place: &Place<'_>) -> u64 {
        lab_random::at(self.generator.seed ^ phase.salt, place.unit.block.index as u64)
    }

    pub(super) fn warm(
        &self,
        plan: &ComparisonPlan,
        load: &Load,
        server: SocketAddr,
        seed: u64,
    ) -> Result<u64> {
        if plan.warm_up_ns == 0 {
            return Ok(0);
        }
        let duration = Duration::from_nanos(plan.warm_up_ns);
        let rate = super::capacity::warm_rate(plan, load);
        let config = self.generator.config(server, rate, duration, seed);
        Ok(self.run(&config, load)?.tally.counts.answered)
    }

    pub(super) fn run(&self, config: &Config, load: &Load) -> Result<Outcome> {
        Ok(lab_load::run(config, self.workload(load)?, self.stop, |_| {})?)
    }

    /// The queries of a load.
    pub(super) fn workload(&self, load: &Load) -> Result<&Workload> {
        let set = self.sets.iter().find(|set| set.name == load.set);
        Ok(&set.with_context(|| format!("no queries `{}`", load.set))?.workload)
    }

    /// One block; `None` if it was stopped meanwhile.
    pub(super) fn block(
        &self,
        plan: &ComparisonPlan,
        phase: &Phase<'_>,
        place: &Place<'_>,
        server: &mut Instance,
    ) -> Result<Option<Measured<Block>>> {
        let pair = place.unit.block.index;
        let load = plan.loads.get(place.unit.condition).context("there is no such load")?;
        let seed = self.seed(phase, place);
        let duration = Duration::from_nanos(plan.block_ns);
        let config = self.generator.config(server.address, load.rate, duration, seed);
        let machine = Machine::read();
        let (before, begin) = (server.read()?, Instant::now());
        let outcome = self.run(&config, load)?;
        let (after, elapsed) = (server.read()?, begin.elapsed());
        if outcome.interrupted {
            return Ok(None);
        }
        let counts = &outcome.tally.counts;
        let failures = super::failed::of_load(&outcome);
        server.answers += counts.answered;
        let stolen = machine.stolen_until(Machine::read());
        let used = before.used_until(after);
        let restarted = used.err().map(str::to_owned);
        let is_restarted = restarted.is_some();
        let invalid = outcome.verdict.invalid.into_iter().chain(restarted).collect();
        let faults = Signs { stolen, invalid, robbed: 0.0 }.faults();
        let other = is_restarted || faults.iter().any(|fault| fault.kind != Kind::Invalid);
        let value = Block {
            phase: phase.name.to_owned(),
            pair,
            set: load.set.clone(),
            load: load.name.clone(),
            rate: load.rate,
            only_late: outcome.verdict.only_late && !other,
            started_unix_ns: unix(outcome.started),
            elapsed_ns: nanos(elapsed),
            sent: counts.sent,
            answered: counts.answered,
            lost: counts.lost(),
            failures,
            plan: format!("{:016x}", outcome.plan_hash),
            response: outcome.tally.response,
            cpu_ns: used.ok().flatten().map(nanos),
            memory: after.memory,
            answers_so_far: server.answers,
            incarnation: server.incarnation,
            ..Block::default()
        };
        Ok(Some(Measured { value, faults }))
    }
}
