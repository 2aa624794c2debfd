//! How fast the demonstration asks and on which CPUs: what this machine can do on time now.

use super::{Args, Phase};
use crate::authority::Authority;
use crate::term::{self, Live};
use anyhow::{Context, Result, bail};
use lab_load::cluster::{self, Cluster};
use lab_load::schedule::Arrivals;
use lab_load::{Config, Pace, Spin};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// QPS, the highest that this machine can send on time, by default. The
/// lowest still shows what a cache saves.
pub(super) const RATES: [f64; 5] = [4_000.0, 2_000.0, 1_000.0, 500.0, 250.0];
/// Queries of a phase, made before it: some 16 octets each.
const QUESTIONS_MAX: f64 = 20e6;
/// QPS below which a few queries decide the result.
const RATE_MIN: f64 = 100.0;
/// Pods, each with a socket: a hundred times what a node has by default.
const PODS_MAX: usize = 11_000;
/// Seconds of a trial.
const TRIAL: f64 = 0.4;
/// How often the measurement is taken, if the machine has become too busy for it meanwhile.
const TAKES: usize = 3;

/// Refuses what the demonstration cannot be done with, before anything is made or started.
pub(super) fn check(args: &Args) -> Result<()> {
    if let Some(rate) = args.rate.filter(|rate| rate.is_nan() || *rate < RATE_MIN) {
        bail!("--rate: {rate} is too low, expected at least {RATE_MIN} QPS");
    }
    if args.seconds.is_nan() || args.seconds < 1.0 {
        bail!("--seconds: {} is too short, expected at least 1 second", args.seconds);
    }
    let questions = args.rate.unwrap_or(RATES[0]) * args.seconds;
    if questions > QUESTIONS_MAX {
        bail!("{questions:.1e} queries (rate times time), expected {QUESTIONS_MAX:e} at most");
    }
    if args.pods == 0 || args.pods > PODS_MAX {
        bail!("{} pods, expected 1 to {PODS_MAX}", args.pods);
    }
    super::page::check(&args.out)
}

/// Who runs where, and how fast it is asked.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Setting {
    pub(super) rate: f64,
    /// CPUs of the generator; anywhere if empty.
    pub(super) load: Vec<usize>,
    /// What the generator does between two queries.
    pub(super) spin: Spin,
    /// CPUs of both servers; anywhere if empty. Nothing else that the demonstration runs uses them.
    pub(super) servers: Vec<usize>,
    /// Takes left, this one included.
    pub(super) takes: usize,
}

impl Setting {
    /// The first to try on the CPUs that this process may use.
    pub(super) fn first(args: &Args) -> Result<Self> {
        let cpus = lab_sys::cpu::allowed().context("cannot read the allowed CPUs")?;
        let (load, servers) = places(&cpus);
        let rate = args.rate.unwrap_or(RATES[0]);
        let spin = if load.is_empty() { Spin::Auto } else { Spin::Always };
        Ok(Self { rate, load, spin, servers, takes: TAKES })
    }

    /// The plan of `seconds` of queries from `pods` to `to`.
    pub(super) fn config(&self, args: &Args, to: SocketAddr, seconds: f64, queries: u64) -> Config {
        Config {
            pace: Pace::Open { rate: self.rate, arrivals: Arrivals::Poisson },
            // The plan is sent exactly once: the number of queries ends it and not the time.
            duration: Duration::from_secs_f64(seconds * 2.0),
            queries: Some(queries),
            clients: args.pods,
            cpus: self.load.clone(),
            spin: self.spin,
            seed: args.seed,
            ..Config::new(to, self.rate)
        }
    }

    /// Lowers the rate until a short trial goes well. Each rate is tried with a CPU that the generator
    /// does not let go, the most exact where nothing else runs; then asleep between two queries, since
    /// others who want that CPU delay a thread less that has not used its share; then wherever there is
    /// room.
    pub(super) fn calibrate(
        mut self,
        args: &Args,
        stop: &AtomicBool,
        live: &Live,
        upstream: &Authority,
    ) -> Result<Self> {
        if args.rate.is_some() {
            return Ok(self);
        }
        let first = self.clone();
        for rate in RATES.into_iter().filter(|rate| *rate <= first.rate) {
            self.rate = rate;
            let text = format!("trying {} QPS on this machine", term::count(rate as u64));
            live.show(0.0, 1.0, &text);
            let ways = [
                (first.load.clone(), first.spin),
                (first.load.clone(), Spin::Never),
                (Vec::new(), Spin::Never),
            ];
            for (load, spin) in ways {
                (self.load, self.spin) = (load, spin);
                if self.trial(args, stop, upstream)? || stop.load(Ordering::Relaxed) {
                    return Ok(self);
                }
            }
        }
        // What asks for least continues: the last way at the lowest rate.
        Ok(self)
    }

    /// Whether the generator vouches for a short run.
    fn trial(&self, args: &Args, stop: &AtomicBool, upstream: &Authority) -> Result<bool> {
        let count = (self.rate * TRIAL) as usize;
        let mix = cluster::mix(&Cluster::default(), args.pods, count, args.seed);
        let queries = mix.workload.period().unwrap_or(count as u64);
        let config = self.config(args, upstream.address, TRIAL, queries);
        let outcome = lab_load::run(&config, &mix.workload, stop, |_| {}).context("the trial")?;
        Ok(outcome.verdict.is_valid())
    }

    /// What to try after `phases`, unless they are good, or are all that there will be.
    pub(super) fn after(&self, args: &Args, phases: &[&Phase]) -> Option<Self> {
        let valid = phases.iter().all(|phase| phase.outcome.verdict.is_valid());
        if valid || self.takes <= 1 || args.rate.is_some() {
            return None;
        }
        let again = Self::first(args).ok()?;
        let rate = lower(self.rate).unwrap_or(self.rate);
        Some(Self { rate, takes: self.takes - 1, ..again })
    }
}

/// The next rate below `rate`.
fn lower(rate: f64) -> Option<f64> {
    RATES.into_iter().find(|lower| *lower < rate)
}

/// CPUs of the generator and of the servers. The generator has one for itself, the last: the first
/// takes the interrupts of many machines.
fn places(cpus: &[usize]) -> (Vec<usize>, Vec<usize>) {
    match cpus {
        [servers @ .., load] if !servers.is_empty() => (vec![*load], servers.to_vec()),
        _ => (Vec::new(), Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_has_a_cpu_for_itself_where_there_are_two() {
        assert_eq!(places(&[0, 1]), (vec![1], vec![0]));
        assert_eq!(places(&[2, 5, 7]), (vec![7], vec![2, 5]));
        assert_eq!(places(&[3]), (vec![], vec![]));
    }

    #[test]
    fn each_rate_has_a_lower_one_but_the_lowest() {
        let mut rate = RATES[0];
        let mut all = vec![rate];
        while let Some(next) = lower(rate) {
            rate = next;
            all.push(rate);
        }
        assert_eq!(all, RATES);
    }
}
