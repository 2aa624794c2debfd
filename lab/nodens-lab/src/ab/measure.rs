//! The blocks: pairs in the order of the coin, groups of fresh processes, faults of the machine.

use super::plan::Set;
use super::side::{Instance, Spec, Starter};
use crate::term::{self, Live};
use anyhow::{Context, Result, bail};
use lab_echo::udp::{Echo, Options};
use lab_load::schedule::Arrivals;
use lab_load::{Config, Outcome, Pace};
use lab_result::comparison::{Block, ComparisonPlan, Load};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// More steal than this spoils a block.
const STEAL_MAX: f64 = 0.01;
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
    fn config(&self, server: SocketAddr, rate: f64, duration: Duration, seed: u64) -> Config {
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

/// Which servers, over how many pairs.
pub(crate) struct Phase<'a> {
    /// `noise` or `comparison`.
    pub(crate) name: &'static str,
    pub(crate) specs: [&'a Spec; 2],
    pub(crate) pairs: usize,
    pub(crate) order: Vec<String>,
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
    pub(crate) live: Option<Live>,
    /// Pairs measured so far and in all, for the line of progress.
    pub(crate) done: (usize, usize),
}

/// Where a block stands.
struct Place<'p> {
    phase: &'p Phase<'p>,
    load: &'p Load,
    pair: usize,
    attempt: usize,
    seed: u64,
}

impl Bench<'_> {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// All blocks of a phase; ends early, with whole pairs only, when it is stopped.
    pub(crate) fn phase(&mut self, plan: &ComparisonPlan, phase: &Phase<'_>) -> Result<Vec<Block>> {
        let mut blocks = Vec::new();
        let group = plan.group_pairs.max(1);
        let mut pair = 0;
        while pair < phase.pairs && !self.stopped() {
            let [first, second] = phase.specs;
            let mut servers = [self.starter.start(first)?, self.starter.start(second)?];
            let spoilt = self.echo(plan)?;
            self.fill(plan, &mut servers)?;
            if !self.idle(plan, phase, pair, &servers, &mut blocks)? {
                break;
            }
            for pair in pair..(pair + group).min(phase.pairs) {
                for load in &plan.loads {
                    if self.stopped() {
                        return Ok(blocks);
                    }
                    self.pair(plan, (phase, load, pair), &mut servers, &spoilt, &mut blocks)?;
                    self.show(plan, phase);
                }
            }
            pair += group;
        }
        Ok(blocks)
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
    fn fill(&self, plan: &ComparisonPlan, servers: &mut [Instance; 2]) -> Result<()> {
        for server in servers {
            for load in &plan.loads {
                server.answers += self.warm(plan, load, server.address, plan.seed)?;
            }
        }
        Ok(())
    }

    fn warm(
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
        let config = self.generator.config(server, load.rate, duration, seed);
        Ok(self.run(&config, load)?.tally.counts.answered)
    }

    fn run(&self, config: &Config, load: &Load) -> Result<Outcome> {
        let set = self.sets.iter().find(|set| set.name == load.set);
        let set = set.with_context(|| format!("no queries `{}`", load.set))?;
        Ok(lab_load::run(config, &set.workload, self.stop, |_| {})?)
    }

    /// The servers without load; false if it was stopped meanwhile.
    fn idle(
        &self,
        plan: &ComparisonPlan,
        phase: &Phase<'_>,
        pair: usize,
        servers: &[Instance; 2],
        blocks: &mut Vec<Block>,
    ) -> Result<bool> {
        let before = [servers[0].read()?, servers[1].read()?];
        if before.iter().all(|reading| reading.cpu.is_none()) {
            return Ok(!self.stopped());
        }
        let (started, begin) = (SystemTime::now(), Instant::now());
        let wait = Duration::from_nanos(plan.block_ns).min(IDLE_MAX);
        while begin.elapsed() < wait {
            if self.stopped() {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(20).min(wait));
        }
        for ((server, before), side) in servers.iter().zip(before).zip(["a", "b"]) {
            let after = server.read()?;
            blocks.push(Block {
                phase: phase.name.to_owned(),
                pair,
                side: side.to_owned(),
                load: "idle".to_owned(),
                used: true,
                started_unix_ns: unix(started),
                elapsed_ns: nanos(begin.elapsed()),
                cpu_ns: used(before.cpu, after.cpu),
                memory: after.memory,
                answers_so_far: server.answers,
                incarnation: server.incarnation,
                ..Block::default()
            });
        }
        Ok(true)
    }

    /// One pair, again if the machine or the generator spoilt it.
    fn pair(
        &self,
        plan: &ComparisonPlan,
        (phase, load, pair): (&Phase<'_>, &Load, usize),
        servers: &mut [Instance; 2],
        spoilt: &[String],
        blocks: &mut Vec<Block>,
    ) -> Result<()> {
        let a_first = phase.order.get(pair).is_none_or(|side| side == "a");
        let seed = lab_random::at(self.generator.seed ^ phase.salt, pair as u64);
        for attempt in 0..=self.retries {
            let place = Place { phase, load, pair, attempt, seed };
            let mut both = Vec::with_capacity(2);
            for (first, side) in [(true, usize::from(!a_first)), (false, usize::from(a_first))] {
                let Some(server) = servers.get_mut(side) else { continue };
                let Some(mut block) = self.block(plan, &place, server)? else { return Ok(()) };
                block.first = first;
                block.side = ["a", "b"].get(side).copied().unwrap_or_default().to_owned();
                block.faults.extend(spoilt.iter().cloned());
                block.only_late &= spoilt.is_empty();
                both.push(block);
            }
            // What the echo said holds for the whole group: measuring again would not change it.
            let again = both.iter().any(|block| block.faults.len() > spoilt.len());
            let last = attempt == self.retries;
            both.iter_mut().for_each(|block| block.used = !again || last);
            blocks.append(&mut both);
            if !again {
                break;
            }
        }
        Ok(())
    }

    /// One block; `None` if it was stopped meanwhile.
    fn block(
        &self,
        plan: &ComparisonPlan,
        place: &Place<'_>,
        server: &mut Instance,
    ) -> Result<Option<Block>> {
        server.answers += self.warm(plan, place.load, server.address, place.seed)?;
        let duration = Duration::from_nanos(plan.block_ns);
        let rate = place.load.rate;
        let config = self.generator.config(server.address, rate, duration, place.seed);
        let machine = Machine::read();
        let (before, begin) = (server.read()?, Instant::now());
        let outcome = self.run(&config, place.load)?;
        let (after, elapsed) = (server.read()?, begin.elapsed());
        if outcome.interrupted {
            return Ok(None);
        }
        let counts = &outcome.tally.counts;
        server.answers += counts.answered;
        let mut faults = outcome.verdict.invalid.clone();
        let steal = machine.steal_until(Machine::read());
        if steal > STEAL_MAX {
            faults.push(format!("the hypervisor took {:.1} % of the CPU time", steal * 100.0));
        }
        Ok(Some(Block {
            phase: place.phase.name.to_owned(),
            pair: place.pair,
            set: place.load.set.clone(),
            load: place.load.name.clone(),
            rate,
            attempt: place.attempt,
            only_late: outcome.verdict.only_late && steal <= STEAL_MAX,
            faults,
            started_unix_ns: unix(outcome.started),
            elapsed_ns: nanos(elapsed),
            sent: counts.sent,
            answered: counts.answered,
            lost: counts.lost(),
            plan: format!("{:016x}", outcome.plan_hash),
            response: outcome.tally.response,
            cpu_ns: used(before.cpu, after.cpu),
            memory: after.memory,
            answers_so_far: server.answers,
            incarnation: server.incarnation,
            ..Block::default()
        }))
    }

    /// Asks an echo in this process, as fast as the servers will be asked: what the generator loses
    /// there, no server has lost. Returns the faults, none if all is well.
    fn echo(&self, plan: &ComparisonPlan) -> Result<Vec<String>> {
        let echo = Echo::start((Ipv4Addr::LOCALHOST, 0).into(), Options::default())
            .context("cannot start the echo")?;
        let highest = plan.loads.iter().max_by(|a, b| a.rate.total_cmp(&b.rate));
        let Some(load) = highest else { return Ok(Vec::new()) };
        let rate = load.rate.min(ECHO_RATE_MAX);
        let config = self.generator.config(echo.address, rate, ECHO, plan.seed);
        for _ in 0..=self.retries {
            let outcome = self.run(&config, load)?;
            if outcome.interrupted || outcome.tally.counts.lost() == 0 {
                return Ok(Vec::new());
            }
        }
        Ok(vec!["the echo before the group lost queries".to_owned()])
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

/// CPU time of the whole machine.
#[derive(Clone, Copy, Default)]
struct Machine {
    all: u64,
    stolen: u64,
}

impl Machine {
    fn read() -> Self {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        // user nice system idle iowait irq softirq steal; guest time is part of user (proc(5)).
        let ticks = line.split_ascii_whitespace().skip(1).take(8).map(|t| t.parse().unwrap_or(0));
        let ticks: Vec<u64> = ticks.collect();
        Self { all: ticks.iter().sum(), stolen: ticks.get(7).copied().unwrap_or(0) }
    }

    fn steal_until(self, later: Self) -> f64 {
        let all = later.all.saturating_sub(self.all);
        let stolen = later.stolen.saturating_sub(self.stolen);
        if all == 0 { 0.0 } else { stolen as f64 / all as f64 }
    }
}

fn used(before: Option<Duration>, after: Option<Duration>) -> Option<u64> {
    Some(nanos(after?.saturating_sub(before?)))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds since 1970-01-01 UTC.
pub(crate) fn unix(time: SystemTime) -> u64 {
    nanos(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_a_part_of_what_passed() {
        let (before, after) = (Machine { all: 100, stolen: 1 }, Machine { all: 200, stolen: 3 });
        assert_eq!(before.steal_until(after), 0.02);
        assert_eq!(after.steal_until(after), 0.0);
        assert!(Machine::read().all > 0);
    }
}
