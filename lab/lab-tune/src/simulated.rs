//! A server whose truth is known, on a machine that drifts and disturbs: trials of it go the same way
//! as those of a real one.

use crate::trial::{Failed, Trial, Tuned, tune};
use lab_experiment::Measured;
use lab_random::Stream;
use lab_result::tuning::{KnobPlan, TuningPlan, Values, Verdict};
use lab_stats::{Interval, proportion};
use std::convert::Infallible;

/// Knobs of the server.
pub const KNOBS: usize = 30;
/// A false name may occur in five of a hundred servers, so the level is stricter than that.
pub const ALPHA: f64 = 0.01;
/// The knobs that matter, and by what part each changes the p99.
pub const TRUTH: [(usize, f64); 3] = [(4, 0.05), (17, 0.02), (26, -0.08)];
/// Nanoseconds of the p99 with all knobs low.
const P99: f64 = 100_000.0;

/// What a knob does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Does {
    /// The knob.
    pub knob: usize,
    /// By what part it changes the p99.
    pub p99: f64,
    /// How much it adds to the part of queries that fail.
    pub failures: f64,
}

/// The server.
pub struct Server {
    does: Vec<Does>,
    high: Vec<usize>,
    noise: Stream,
    /// The logarithm of what the machine does meanwhile.
    drift: f64,
    /// The block, by its seed: another one is another hour.
    block: Option<u64>,
    /// Whether a knob is set at this moment.
    pub is_set: bool,
}

impl Server {
    /// A server; `seed` decides what happens to it.
    pub fn new(does: &[Does], seed: u64) -> Self {
        let (does, noise) = (does.to_vec(), Stream::new(seed, 7));
        Self { does, high: Vec::new(), noise, drift: 0.0, block: None, is_set: false }
    }

    /// One whose knobs do what [`TRUTH`] says.
    pub fn with_truth(seed: u64) -> Self {
        let does = TRUTH.map(|(knob, p99)| Does { knob, p99, failures: 0.0 });
        Self::new(&does, seed)
    }

    fn normal(&mut self) -> f64 {
        let (u, v) = (self.noise.unit(), self.noise.unit());
        (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// The logarithm of how much slower this run is: it differs by 4 %, the machine drifts, and one run
    /// of ten meets something that makes it up to half slower.
    fn disturbance(&mut self, block: u64) -> f64 {
        if self.block.replace(block) != Some(block) {
            self.drift = 0.1 * self.normal();
        }
        self.drift += 0.002 * self.normal();
        let own = 0.04 * self.normal();
        let met = if self.noise.unit() < 0.1 { 0.5 * self.noise.unit() } else { 0.0 };
        self.drift + own + met
    }
}

impl Tuned for Server {
    type Error = Infallible;

    fn set(&mut self, high: &[usize]) -> Result<(), Infallible> {
        self.high = high.to_vec();
        self.is_set = true;
        Ok(())
    }

    fn measure(&mut self, seed: u64) -> Result<Option<Measured<Values>>, Infallible> {
        let disturbance = self.disturbance(seed);
        let set = || self.does.iter().filter(|does| self.high.contains(&does.knob));
        let effect: f64 = set().map(|does| does.p99.ln_1p()).sum();
        let failures: f64 = set().map(|does| does.failures).sum();
        let failures = failures + 0.0001 * self.noise.unit();
        let values = [("p99", P99 * (effect + disturbance).exp()), ("failures", failures)];
        let values = values.map(|(name, value)| (name.to_owned(), value)).into();
        Ok(Some(Measured { value: values, faults: Vec::new() }))
    }

    fn restore(&mut self) -> Result<(), Infallible> {
        self.high.clear();
        self.is_set = false;
        Ok(())
    }
}

/// The plan for such servers.
pub fn plan(seed: u64) -> TuningPlan {
    let knob = |n: usize| KnobPlan {
        name: format!("knob {n}"),
        low: "off".to_owned(),
        high: "on".to_owned(),
        ..KnobPlan::default()
    };
    TuningPlan {
        server: "simulated".to_owned(),
        knobs: (0..KNOBS).map(knob).collect(),
        primary: "p99".to_owned(),
        seed,
        // Of 64 runs and two baselines.
        blocks: 12,
        runs: 64,
        resolution: 4,
        baselines: 2,
        alpha: ALPHA,
        permutations: 999,
        confirm_pairs: [20, 600],
        power: 0.9,
        ..TuningPlan::default()
    }
}

/// Trials of servers with a known truth, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Trials.
    pub servers: u64,
    /// Those in which the screening named exactly the knobs that matter.
    pub named_exactly: u64,
    /// Those in which it named one that does not.
    pub named_falsely: u64,
    /// Those in which fresh data confirmed exactly the knobs that matter.
    pub confirmed_exactly: u64,
    /// Those in which it confirmed one that does not.
    pub confirmed_falsely: u64,
    /// Those in which every knob that matters was confirmed in its true direction.
    pub right_way: u64,
}

impl Tally {
    /// Adds a trial of a server on which only `truth` matters.
    pub fn add(&mut self, trial: &Trial, truth: &[(usize, f64)]) {
        let matters = |knob: usize| truth.iter().any(|(at, _)| *at == knob);
        let all = trial.knobs.iter().enumerate();
        let named: Vec<usize> = { all.clone() }
            .filter(|(_, knob)| knob.effect.as_ref().is_some_and(|e| e.named.is_some()))
            .map(|(at, _)| at)
            .collect();
        let is_sure = |verdict| !matches!(verdict, Verdict::NotShown | Verdict::Unconfirmed);
        let confirmed: Vec<usize> =
            all.filter(|(_, knob)| is_sure(knob.verdict)).map(|(at, _)| at).collect();
        let exactly =
            |found: &[usize]| found.len() == truth.len() && found.iter().all(|at| matters(*at));
        let falsely = |found: &[usize]| found.iter().any(|at| !matters(*at));
        let is_right = |(at, p99): &(usize, f64)| {
            let expected = if *p99 < 0.0 { Verdict::Better } else { Verdict::Worse };
            trial.knobs.get(*at).is_some_and(|knob| knob.verdict == expected)
        };
        self.servers += 1;
        self.named_exactly += u64::from(exactly(&named));
        self.named_falsely += u64::from(falsely(&named));
        self.confirmed_exactly += u64::from(exactly(&confirmed));
        self.confirmed_falsely += u64::from(falsely(&confirmed));
        self.right_way += u64::from(truth.iter().all(is_right));
    }

    /// Its counts as sentences with their intervals.
    pub fn sentences(&self) -> Vec<String> {
        [
            ("the screening named exactly the knobs that matter", self.named_exactly),
            ("the screening named a false one", self.named_falsely),
            ("fresh data confirmed exactly those, in their true direction", self.right_way),
            ("fresh data confirmed a false one", self.confirmed_falsely),
        ]
        .map(|(what, count)| {
            let Interval { low, high } = proportion::interval(count, self.servers, 0.05);
            let (servers, low, high) = (self.servers, low * 100.0, high * 100.0);
            format!("{what} in {count} of {servers} (95 % interval {low:.1} % to {high:.1} %)")
        })
        .into()
    }

    /// Whether so much was named exactly, and so little falsely, that 80 of 100 and 5 of 100 are not
    /// refuted at a level of 5 %.
    pub fn is_good(&self, matters: bool) -> bool {
        let interval = |count| proportion::interval(count, self.servers, 0.1);
        let (exact, falsely) = (interval(self.named_exactly), interval(self.named_falsely));
        self.servers > 0 && falsely.low <= 0.05 && (!matters || exact.high >= 0.8)
    }
}

/// Tunes `servers` servers from `seed` on, each with [`TRUTH`] or with no knob that matters, until
/// `stop` says so.
pub fn trials(servers: u64, seed: u64, matters: bool, stop: &dyn Fn() -> bool) -> Tally {
    let mut tally = Tally::default();
    for seed in seed..seed.saturating_add(servers) {
        let truth: &[(usize, f64)] = if matters { &TRUTH } else { &[] };
        let mut server = if matters { Server::with_truth(seed) } else { Server::new(&[], seed) };
        let trial: Result<Trial, Failed<Infallible>> = tune(&plan(seed), &mut server, stop);
        match trial {
            Ok(trial) if !trial.interrupted => tally.add(&trial, truth),
            _ => break,
        }
    }
    tally
}
