//! Screening of a simulated server whose truth is known: 30 knobs of which three matter, or none.
//!
//! Every seed is fixed, so every run of this test sees the same servers.

use lab_experiment::disturbance::{Again, Signs, Together};
use lab_experiment::screening::{BASELINE, Screening};
use lab_experiment::{Arm, Factor, Measured, Place, Results, Subject, run};
use lab_random::Stream;
use lab_stats::screening::{Run, Settings, screen};
use lab_stats::{Interval, proportion};
use std::convert::Infallible;

const KNOBS: usize = 30;
/// Blocks of 64 runs and two baselines.
const BLOCKS: usize = 12;
const SERVERS: u64 = 100;
/// A false name may occur in five of a hundred servers, so the level is stricter than that.
const ALPHA: f64 = 0.01;
/// Which knobs change the latency, and by what part.
const TRUTH: [(usize, f64); 3] = [(4, 0.05), (17, 0.02), (26, -0.08)];

/// A server whose latency depends on its knobs, on a machine that drifts.
struct Server {
    effects: Vec<(usize, f64)>,
    knobs: [usize; KNOBS],
    noise: Stream,
    /// The logarithm of what the machine does meanwhile.
    drift: f64,
}

impl Server {
    fn new(effects: &[(usize, f64)], seed: u64) -> Self {
        let (noise, knobs) = (Stream::new(seed, 7), [0; KNOBS]);
        Self { effects: effects.to_vec(), knobs, noise, drift: 0.0 }
    }

    fn normal(&mut self) -> f64 {
        let (u, v) = (self.noise.unit(), self.noise.unit());
        (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// Microseconds.
    fn latency(&mut self) -> f64 {
        let set = self.effects.iter().filter(|(knob, _)| self.knobs[*knob] == 1);
        let effect: f64 = set.map(|(_, part)| part.ln_1p()).sum();
        // Each run differs by 4 %, the machine drifts, and one run of ten meets something that makes it
        // up to half slower.
        self.drift += 0.002 * self.normal();
        let own = 0.04 * self.normal();
        let met = if self.noise.unit() < 0.1 { 0.5 * self.noise.unit() } else { 0.0 };
        100.0 * (effect + self.drift + own + met).exp()
    }
}

impl Subject for Server {
    type Value = f64;
    type Error = Infallible;

    fn start(&mut self, _: &Arm, _: usize) -> Result<(), Infallible> {
        Ok(())
    }

    fn set(&mut self, place: &Place<'_>) -> Result<(), Infallible> {
        self.knobs.copy_from_slice(&place.arm.levels);
        Ok(())
    }

    fn measure(&mut self, _: &Place<'_>) -> Result<Option<Measured<f64>>, Infallible> {
        let faults = Signs::default().faults();
        Ok(Some(Measured { value: self.latency(), faults }))
    }

    fn restore(&mut self, _: &Place<'_>) -> Result<(), Infallible> {
        self.knobs.fill(0);
        Ok(())
    }

    /// Another block is another hour.
    fn end(&mut self) -> Result<(), Infallible> {
        self.drift = 0.1 * self.normal();
        Ok(())
    }
}

fn factors() -> Vec<Factor> {
    let levels = || vec!["off".to_owned(), "on".to_owned()];
    (0..KNOBS).map(|n| Factor { name: format!("knob {n}"), levels: levels() }).collect()
}

/// What an experiment with one such server names, and whether all true effects are within their intervals.
fn experiment(effects: &[(usize, f64)], seed: u64) -> (Vec<usize>, bool) {
    let screening = Screening::plackett_burman(KNOBS).unwrap().fold_over();
    let design = screening.design(factors(), BLOCKS, 2, seed).unwrap();
    let mut server = Server::new(effects, seed);
    let again = Again { retries: 1, together: Together::Single };
    let plan = design.plan().unwrap();
    let results = run(&design, &plan, again, &mut server, &|| false).unwrap();
    assert_eq!(server.knobs, [0; KNOBS], "a knob was not restored");
    assert_eq!(results.of(BASELINE).count(), 2 * BLOCKS);
    let settings = Settings { alpha: ALPHA, permutations: 999, seed };
    let found = screen(&runs(&design.arms, &results), &settings).unwrap();
    let truth = |knob| effects.iter().find(|(at, _)| *at == knob).map_or(0.0, |(_, e)| e.ln_1p());
    let mut all = found.effects.iter().enumerate();
    let covered = all.all(|(knob, e)| e.interval.is_some_and(|i| i.contains(truth(knob))));
    (found.named().collect(), covered)
}

/// All runs but the baselines, whose levels are in no balance with the others.
fn runs(arms: &[Arm], results: &Results<f64>) -> Vec<Run> {
    let of = |arm: &Arm| {
        let high: Vec<bool> = arm.levels.iter().map(|level| *level == 1).collect();
        let records = results.of(&arm.name);
        let run = |r: &lab_experiment::Record<f64>| Run {
            block: r.block,
            high: high.clone(),
            value: r.value.ln(),
        };
        records.map(run).collect::<Vec<_>>()
    };
    arms.iter().filter(|arm| arm.name != BASELINE).flat_map(of).collect()
}

fn percent(hits: u64) -> String {
    let Interval { low, high } = proportion::interval(hits, SERVERS, 0.05);
    format!("{hits} of {SERVERS} (95 % interval {:.1} % to {:.1} %)", low * 100.0, high * 100.0)
}

#[test]
fn exactly_the_three_knobs_that_matter_are_named() {
    let (mut exact, mut wrong, mut covered) = (0, 0, 0);
    let mut found = [0_u64; TRUTH.len()];
    for seed in 0..SERVERS {
        let (named, within) = experiment(&TRUTH, seed);
        let is_true = |knob: &usize| TRUTH.iter().any(|(at, _)| at == knob);
        let all_true = named.iter().all(is_true);
        wrong += u64::from(!all_true);
        exact += u64::from(all_true && named.len() == TRUTH.len());
        covered += u64::from(within);
        for (found, (knob, _)) in found.iter_mut().zip(TRUTH) {
            *found += u64::from(named.contains(&knob));
        }
    }
    eprintln!("three of {KNOBS} knobs matter: exactly these named in {}", percent(exact));
    for (found, (_, part)) in found.into_iter().zip(TRUTH) {
        eprintln!("  the knob of {:+.0} % named in {}", part * 100.0, percent(found));
    }
    eprintln!("  a false one named in {}", percent(wrong));
    eprintln!("  all {KNOBS} effects within their intervals in {}", percent(covered));
    assert!(exact >= 80, "{exact}");
    assert!(wrong <= 5, "{wrong}");
    assert!(proportion::interval(covered, SERVERS, 1e-4).high >= 1.0 - ALPHA, "{covered}");
}

#[test]
fn of_a_server_without_any_such_knob_nothing_is_named() {
    let named = (0..SERVERS).filter(|seed| !experiment(&[], 1_000 + seed).0.is_empty());
    let named = named.count() as u64;
    eprintln!("none of {KNOBS} knobs matters: one named in {}", percent(named));
    assert!(named <= 5, "{named}");
}

#[test]
fn the_same_seed_is_the_same_experiment() {
    assert_eq!(experiment(&TRUTH, 3), experiment(&TRUTH, 3));
}
