//! The comparison compared with what is known: an echo with itself, or with a slower one.

use super::measure::{Bench, Generator, Phase};
use super::plan::{Set, order};
use super::side::{Spec, Starter};
use super::{Args, findings};
use crate::child::{Scratch, Server, free_address};
use crate::term::{self, Live, Style};
use anyhow::{Context, Result, bail};
use lab_load::Workload;
use lab_result::comparison::{Block, Cell, ComparisonPlan, Finding, Load, MetricPlan, Verdict};
use lab_stats::power::{Plan, sigma_upper};
use lab_stats::proportion;
use nodens_wire::{Name, Type};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long the echo holds an answer back, busily: so CPU time and latency are known.
const HELD: f64 = 60_000.0;
/// Confidence that the spread of the pilot is not too small.
const CONFIDENCE: f64 = 0.8;
/// Names of the self-test.
const SET: &str = "echo";

/// Runs `comparisons` comparisons and reports how often each metric was called different.
pub(super) fn run(args: &Args, comparisons: usize, stop: &AtomicBool) -> Result<ExitCode> {
    if comparisons == 0 {
        bail!("--self-test: expected at least 1");
    }
    let mut workload = Workload::new(args.seed);
    for n in 0..100 {
        workload.push(Name::parse(&format!("name{n}.self.test"))?.view(), Type::A, None);
    }
    let sets = [Set::new(SET, workload)];
    let scratch = Scratch::new()?;
    let specs = Echoes::start(args, &scratch, stop)?;
    let mut bench = bench(args, &sets, scratch, stop);
    let plan = plan(args);
    let mut tally = [Tally::new("p50"), Tally::new("cpu")];
    let pilot =
        if args.inject.is_some() { Some(pilot(args, &mut bench, &plan, &specs)?) } else { None };
    let plan = ComparisonPlan { pairs: pilot.unwrap_or(plan.pairs), ..plan };
    bench.done = (0, comparisons * plan.pairs);
    for comparison in 0..comparisons {
        let seed = lab_random::at(args.seed, 100 + comparison as u64);
        let blocks = blocks(&mut bench, &plan, seed, &specs)?;
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let plan = ComparisonPlan { seed, ..plan.clone() };
        tally.iter_mut().for_each(|tally| tally.add(&plan, &blocks));
    }
    drop(bench);
    let good = tally.iter().map(|tally| tally.report(args)).collect::<Vec<_>>();
    Ok(if good.into_iter().all(|good| good) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The echoes, each a process of its own; without an injection both sides are the same one.
struct Echoes {
    _servers: Vec<Server>,
    specs: [Spec; 2],
}

impl Echoes {
    fn start(args: &Args, scratch: &Scratch, stop: &AtomicBool) -> Result<Self> {
        let mut servers = Vec::new();
        let mut start = |held: f64, name: &str| -> Result<Spec> {
            let address = free_address()?;
            let program = std::env::current_exe().context("cannot find this program")?;
            let mut command = Command::new(program);
            command.args(["echo", "--listen", &address.to_string()]);
            command.args(["--latency", &format!("{held:.0}ns")]);
            let log = scratch.path().join(format!("{name}.log"));
            let mut server = Server::start(name, &mut command, &args.server_cpus, &log)?;
            server.await_answer(address, &Name::parse("ready.self.test")?, stop)?;
            let spec = Spec::process(name, address, server.pid());
            servers.push(server);
            Ok(spec)
        };
        let a = start(HELD, "echo")?;
        let b = match args.inject {
            Some(part) => start(HELD * (1.0 + part), "slower echo")?,
            None => a.clone(),
        };
        Ok(Self { _servers: servers, specs: [a, b] })
    }
}

fn bench<'a>(args: &Args, sets: &'a [Set], scratch: Scratch, stop: &'a AtomicBool) -> Bench<'a> {
    let probe = sets.first().map_or_else(|| Workload::new(1), |set| set.workload.clone());
    Bench {
        generator: Generator {
            clients: args.clients,
            threads: args.threads,
            cpus: args.cpus.clone(),
            timeout: Duration::from_nanos(args.timeout),
            seed: args.seed,
        },
        sets,
        starter: Starter { stop, scratch, cpus: Vec::new(), probe, started: 0 },
        stop,
        retries: args.retries,
        live: Some(Live::new()),
        done: (0, 0),
    }
}

fn plan(args: &Args) -> ComparisonPlan {
    let rate = args.rates.first().copied().unwrap_or(2_000.0);
    let load = Load { name: format!("{rate}/s"), set: SET.to_owned(), rate };
    ComparisonPlan {
        seed: args.seed,
        primary: Cell { set: SET.to_owned(), load: load.name.clone(), metric: "p50".to_owned() },
        metrics: vec![MetricPlan { metric: "p50".to_owned(), margin: 0.02 }],
        alpha: args.alpha,
        power: args.power,
        pairs: args.pairs,
        group_pairs: usize::MAX,
        block_ns: args.block(),
        warm_up_ns: args.warm_up(),
        timeout_ns: args.timeout,
        clients: args.clients,
        loads: vec![load],
        resamples: 10_000,
        ..ComparisonPlan::default()
    }
}

/// The plan in which `metric` decides, alone.
fn deciding(plan: &ComparisonPlan, metric: &str) -> ComparisonPlan {
    let primary = Cell { metric: metric.to_owned(), ..plan.primary.clone() };
    let metrics = vec![MetricPlan { metric: metric.to_owned(), margin: 0.02 }];
    ComparisonPlan { primary, metrics, ..plan.clone() }
}

fn blocks(
    bench: &mut Bench<'_>,
    plan: &ComparisonPlan,
    seed: u64,
    echoes: &Echoes,
) -> Result<Vec<Block>> {
    bench.generator.seed = seed;
    let [a, b] = &echoes.specs;
    let order = order(plan.pairs, seed);
    let phase = Phase { name: "comparison", specs: [a, b], pairs: plan.pairs, order, salt: 0 };
    bench.phase(plan, &phase)
}

/// How many pairs the injected difference needs, by the noise of A with itself: enough for the
/// metric that needs more.
fn pilot(
    args: &Args,
    bench: &mut Bench<'_>,
    plan: &ComparisonPlan,
    echoes: &Echoes,
) -> Result<usize> {
    let a = &echoes.specs[0];
    let pairs = args.noise_pairs.max(6);
    bench.done = (0, pairs);
    let order = order(pairs, args.seed);
    let phase = Phase { name: "noise", specs: [a, a], pairs, order, salt: 0x5eed };
    let blocks = bench.phase(plan, &phase)?;
    let wanted = Plan { alpha: plan.alpha, power: plan.power };
    // What is held back is not all of the time: the rest stays the same.
    let effect = args.inject.unwrap_or(0.0);
    let mut most = wanted.fewest();
    for metric in ["p50", "cpu"] {
        let finding = finding(&deciding(plan, metric), &blocks)?;
        let sigma = finding.sigma.unwrap_or(0.0);
        let effect = (effect * HELD / finding.a).ln_1p();
        let needed = wanted.pairs_for_difference(sigma_upper(sigma, pairs, CONFIDENCE), effect);
        term::out(&format!(
            "{metric}: {} of A with itself, sigma {:.2} % over {pairs} pairs; {:.2} % more needs \
             {needed} pairs",
            term::nanos(finding.a),
            sigma * 100.0,
            effect.exp_m1() * 100.0,
        ));
        most = most.max(needed);
    }
    Ok(most)
}

fn finding(plan: &ComparisonPlan, blocks: &[Block]) -> Result<Finding> {
    let mut found = findings::findings(plan, blocks, &[]);
    let why = found.omitted.pop().map_or(String::new(), |omitted| omitted.reason);
    found.all.pop().with_context(|| format!("{}: {why}", plan.primary.metric))
}

/// How often a metric was called different.
struct Tally {
    metric: &'static str,
    comparisons: u64,
    called: u64,
    /// Comparisons with p at or below the level, whatever the verdict.
    below: u64,
    equivalent: u64,
    omitted: u64,
}

impl Tally {
    fn new(metric: &'static str) -> Self {
        Self { metric, comparisons: 0, called: 0, below: 0, equivalent: 0, omitted: 0 }
    }

    fn add(&mut self, plan: &ComparisonPlan, blocks: &[Block]) {
        let plan = deciding(plan, self.metric);
        let Ok(finding) = finding(&plan, blocks) else {
            self.omitted += 1;
            return;
        };
        self.comparisons += 1;
        self.below += u64::from(finding.p <= plan.alpha);
        let different = matches!(finding.verdict, Verdict::Faster | Verdict::Slower);
        self.called += u64::from(different);
        self.equivalent += u64::from(finding.verdict == Verdict::Equivalent);
    }

    /// Prints the count and says whether it is as it should be.
    fn report(&self, args: &Args) -> bool {
        let Self { metric, comparisons, called, below, equivalent, omitted } = self;
        // A sure difference below the margin is no false call, and is shown by p all the same.
        let counted = if args.inject.is_some() { *called } else { *below };
        let interval = proportion::interval(counted, *comparisons, 0.05);
        let wanted = if args.inject.is_some() { args.power } else { args.alpha };
        let good = *comparisons > 0
            && if args.inject.is_some() { interval.high >= wanted } else { interval.low <= wanted };
        let style = if good { Style::Good } else { Style::Bad };
        term::out(&term::paint(
            style,
            &format!(
                "{metric}: a difference in {counted} of {comparisons} comparisons, {:.1} % (95 % \
                 interval {:.1} % to {:.1} %); verdicts: {called} different, {equivalent} \
                 equivalent, {} inconclusive; {omitted} not measured",
                counted as f64 * 100.0 / (*comparisons as f64).max(1.0),
                interval.low * 100.0,
                interval.high * 100.0,
                comparisons - called - equivalent,
            ),
        ));
        good
    }
}
