//! The blocks: two arms on the engine of `lab-experiment`, with servers, loads and an echo.

use super::ask::{Asker, Generator};
use super::duet::{Duet, Half};
use super::plan::Set;
use super::side::{Instance, Spec, Starter};
use crate::counters::Reading;
use crate::term::{self, Live};
use anyhow::{Context, Result, bail};
use lab_echo::udp::{Echo, Options};
use lab_experiment::disturbance::{Again, Fault, Kind, Together};
use lab_experiment::{Arm, Design, Measured, Place, Ready, Record, Simultaneous, Subject, Unit};
use lab_load::{Config, Pace};
use lab_result::comparison::{Block, ComparisonPlan};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long the echo is asked before a group, and at which rate at most.
const ECHO: Duration = Duration::from_millis(200);
const ECHO_RATE_MAX: f64 = 20_000.0;
/// The longest measurement without load.
const IDLE_MAX: Duration = Duration::from_secs(2);
/// How long the search for the capacity asks each server.
const SEARCH: Duration = Duration::from_secs(1);
/// Queries in flight per client meanwhile.
const WINDOW: usize = 4;
/// The part of the queries that may be lost at the capacity.
const LOSS_MAX: f64 = 0.001;

/// Name of the phase that decides.
pub(crate) const COMPARISON: &str = "comparison";

/// Which servers, over how many pairs.
pub(crate) struct Phase<'a> {
    /// `noise` or `comparison`.
    pub(crate) name: &'static str,
    pub(crate) specs: [&'a Spec; 2],
    pub(crate) pairs: usize,
    /// Decides which side comes first in each pair.
    pub(crate) seed: u64,
    /// Distinguishes the queries of phases.
    pub(crate) salt: u64,
}

/// Measures blocks.
pub(crate) struct Bench<'a> {
    pub(crate) generator: Generator,
    pub(crate) sets: &'a [Set],
    pub(crate) starter: Starter<'a>,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) retries: usize,
    /// The two places of a duet.
    pub(crate) places: Option<[Half; 2]>,
    pub(crate) live: Option<Live>,
    /// Pairs measured so far and in all, for the line of progress.
    pub(crate) done: (usize, usize),
}

/// The pairs of a phase, for the engine.
struct Pairs<'p, 'b> {
    bench: &'p mut Bench<'b>,
    plan: &'p ComparisonPlan,
    phase: &'p Phase<'p>,
    /// Of the group that is measured, in the order of the arms.
    servers: Vec<Instance>,
    /// Everything so far, if it may end early.
    so_far: Vec<Block>,
}

impl Subject for Pairs<'_, '_> {
    type Value = Block;
    type Error = anyhow::Error;

    fn start(&mut self, _: &Arm, index: usize) -> Result<()> {
        let spec = self.phase.specs.get(index).context("there is no such server")?;
        self.servers.push(self.bench.starter.start(spec)?);
        Ok(())
    }

    fn ready(&mut self, first: &lab_experiment::Block) -> Result<Option<Ready<Block>>> {
        let mut faults = self.bench.echo(self.plan)?;
        self.bench.fill(self.plan, &mut self.servers)?;
        let idle = self.bench.idle(self.plan, self.phase, first.index, &self.servers)?;
        let Some((values, restarted)) = idle else { return Ok(None) };
        faults.extend(restarted);
        Ok(Some(Ready { faults, values }))
    }

    /// The servers differ as they are: there is nothing to set.
    fn set(&mut self, _: &Place<'_>) -> Result<()> {
        Ok(())
    }

    fn measure(&mut self, place: &Place<'_>) -> Result<Option<Measured<Block>>> {
        let server = self.servers.get_mut(place.index).context("the server was not started")?;
        let asker = self.bench.asker();
        asker.warm_block(self.plan, self.phase, place, server)?;
        if self.plan.capacity.is_some() {
            return asker.search_block(self.plan, self.phase, place, server);
        }
        asker.block(self.plan, self.phase, place, server)
    }

    fn side_by_side(&self) -> bool {
        self.plan.duet
    }

    fn measure_all(&mut self, places: &[Place<'_>]) -> Result<Simultaneous<Block>> {
        let halves = self.bench.places.as_ref().context("the CPUs were not divided")?;
        let duet = Duet { asker: &self.bench.asker(), plan: self.plan, phase: self.phase };
        duet.measure(halves, places, &mut self.servers)
    }

    fn restore(&mut self, _: &Place<'_>) -> Result<()> {
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        self.servers.clear();
        Ok(())
    }

    fn passed(&mut self, _: &Unit<'_>) {
        self.bench.show(self.plan, self.phase);
    }

    fn enough(&mut self, so_far: &[Record<Block>]) -> bool {
        if !self.plan.sequential || self.phase.name != COMPARISON {
            return false;
        }
        let new = so_far.iter().skip(self.so_far.len());
        self.so_far.extend(new.cloned().map(kept));
        super::is_decided(self.plan, &self.so_far)
    }
}

/// A block as the result file has it.
fn kept(record: Record<Block>) -> Block {
    let Record { arm, turn, attempt, used, condition, faults, value, .. } = record;
    let of_group = faults.iter().any(|fault| fault.kind == Kind::Group);
    Block {
        side: arm,
        first: turn == 0 && condition.is_some(),
        attempt,
        used,
        only_late: value.only_late && !of_group,
        faults: faults.iter().map(ToString::to_string).collect(),
        ..value
    }
}

impl Bench<'_> {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// All blocks of a phase; ends early, with whole pairs only, when it is stopped.
    pub(crate) fn phase(&mut self, plan: &ComparisonPlan, phase: &Phase<'_>) -> Result<Vec<Block>> {
        if phase.pairs == 0 {
            return Ok(Vec::new());
        }
        let design = Design {
            group_blocks: plan.group_pairs,
            conditions: plan.loads.len(),
            ..super::plan::design(phase.pairs, phase.seed)
        };
        let again = Again { retries: self.retries, together: Together::Block };
        let (order, stop) = (design.plan()?, self.stop);
        let mut pairs = Pairs { bench: self, plan, phase, servers: Vec::new(), so_far: Vec::new() };
        let stopped = || stop.load(Ordering::Relaxed);
        let results = lab_experiment::run(&design, &order, again, &mut pairs, &stopped)?;
        Ok(results.records.into_iter().map(kept).collect())
    }

    fn show(&mut self, plan: &ComparisonPlan, phase: &Phase<'_>) {
        self.done.0 += 1;
        let (done, all) = self.done;
        let each = 2 * (plan.block_ns + plan.warm_up_ns);
        let left = Duration::from_nanos(each.saturating_mul(all.saturating_sub(done) as u64));
        let text = format!("{}: pair {done} of {all}, {} s left", phase.name, left.as_secs());
        if let Some(live) = &self.live {
            live.show(done as f64, all as f64, &text);
        }
    }

    /// Load that fills caches after a start; nothing of it is kept.
    fn fill(&self, plan: &ComparisonPlan, servers: &mut [Instance]) -> Result<()> {
        for server in servers {
            for load in &plan.loads {
                server.answers += self.asker().warm(plan, load, server.address, plan.seed)?;
            }
        }
        Ok(())
    }

    /// Asks as the generator does.
    pub(super) fn asker(&self) -> Asker<'_> {
        Asker { generator: self.generator.clone(), sets: self.sets, stop: self.stop }
    }

    /// The servers without load, if their counters can be read, and faults of restarts; `None` if it was stopped
    /// meanwhile.
    fn idle(
        &self,
        plan: &ComparisonPlan,
        phase: &Phase<'_>,
        pair: usize,
        servers: &[Instance],
    ) -> Result<Option<(Vec<Block>, Vec<Fault>)>> {
        if plan.capacity.is_some() {
            return Ok((!self.stopped()).then(Default::default));
        }
        let before: Vec<Reading> = servers.iter().map(Instance::read).collect::<Result<_>>()?;
        if before.iter().all(|reading| reading.cpu.is_none()) {
            return Ok((!self.stopped()).then(Default::default));
        }
        let (started, begin) = (SystemTime::now(), Instant::now());
        let wait = Duration::from_nanos(plan.block_ns).min(IDLE_MAX);
        while begin.elapsed() < wait {
            if self.stopped() {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(20).min(wait));
        }
        let (mut blocks, mut faults) = (Vec::new(), Vec::new());
        for (server, before) in servers.iter().zip(before) {
            let after = server.read()?;
            let used = before.used_until(after);
            faults.extend(used.err().map(Fault::of_group));
            blocks.push(Block {
                phase: phase.name.to_owned(),
                pair,
                load: "idle".to_owned(),
                started_unix_ns: unix(started),
                elapsed_ns: nanos(begin.elapsed()),
                cpu_ns: used.ok().flatten().map(nanos),
                memory: after.memory,
                answers_so_far: server.answers,
                incarnation: server.incarnation,
                ..Block::default()
            });
        }
        Ok(Some((blocks, faults)))
    }

    /// Asks an echo in this process, as fast as the servers will be asked: what the generator loses
    /// there, no server has lost. Returns the faults, none if all is well.
    fn echo(&self, plan: &ComparisonPlan) -> Result<Vec<Fault>> {
        let echo = Echo::start((Ipv4Addr::LOCALHOST, 0).into(), Options::default())
            .context("cannot start the echo")?;
        let highest = plan.loads.iter().max_by(|a, b| a.rate.total_cmp(&b.rate));
        let Some(load) = highest else { return Ok(Vec::new()) };
        let rate = load.rate.min(ECHO_RATE_MAX);
        let config = self.generator.config(echo.address, rate, ECHO, plan.seed);
        for _ in 0..=self.retries {
            let outcome = self.asker().run(&config, load)?;
            if outcome.interrupted || outcome.tally.counts.lost() == 0 {
                return Ok(Vec::new());
            }
        }
        Ok(vec![Fault::of_group("the echo before the group lost queries")])
    }

    /// The rate that both servers can take of a set: the smaller maximum of a closed loop, lowered
    /// until an open loop at `top` of it loses nothing and the generator keeps up.
    pub(crate) fn capacity(&mut self, specs: &[Spec; 2], set: &Set, top: f64) -> Result<f64> {
        let servers = [self.starter.start(&specs[0])?, self.starter.start(&specs[1])?];
        let mut smaller = f64::INFINITY;
        for server in &servers {
            let config = self.generator.config(server.address, 1_000.0, SEARCH, 1);
            let config = Config { pace: Pace::Closed { window: WINDOW }, ..config };
            let outcome = lab_load::run(&config, &set.workload, self.stop, |_| {})?;
            smaller = smaller.min(outcome.answer_rate());
        }
        for _ in 0..12 {
            let mut good = true;
            for server in &servers {
                let rate = (smaller * top).max(1.0);
                let config = self.generator.config(server.address, rate, SEARCH / 2, 1);
                // Too few clients for a rate is an answer too: the rate is too high.
                let outcome = lab_load::run(&config, &set.workload, self.stop, |_| {});
                good &= outcome.is_ok_and(|o| {
                    o.verdict.is_valid() && o.loss().is_some_and(|loss| loss <= LOSS_MAX)
                });
            }
            if self.stopped() {
                bail!("interrupted");
            }
            if good {
                return Ok(smaller);
            }
            smaller *= 0.8;
        }
        let (names, rate) =
            (format!("{} or {}", specs[0].name, specs[1].name), term::rate(smaller));
        bail!(
            "{names} loses queries, or this machine is too busy, even at {rate} QPS; give --rates"
        )
    }
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds since 1970-01-01 UTC.
pub(crate) fn unix(time: SystemTime) -> u64 {
    nanos(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}
