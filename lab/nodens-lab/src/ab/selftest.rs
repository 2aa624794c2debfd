//! The comparison applied to known cases: an echo with itself, or with a slower one.

use super::ask::Generator;
use super::measure::{Bench, COMPARISON, Phase};
use super::plan::Set;
use super::side::{Spec, Starter};
use super::{Args, findings};
use crate::child::{Scratch, Server, free_address};
use crate::term::{self, Live, Style};
use anyhow::{Context, Result, bail};
use lab_load::Workload;
use lab_result::comparison::{Block, Cell, ComparisonPlan, Finding, Load, MetricPlan, Verdict};
use lab_stats::power::{Plan, Resampled, sigma_upper};
use lab_stats::proportion;
use nodens_wire::{Name, Type};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// CPU time that the echo spends on each query, so that there is something to compare.
const WORK: Duration = Duration::from_micros(40);
/// How long the echo holds answers back if the latency is to change: much longer than scheduling takes.
const HOLD: Duration = Duration::from_millis(50);
/// Confidence that the spread of the pilot is not too small.
const CONFIDENCE: f64 = 0.8;
/// Name of the query set.
const SET: &str = "echo";

/// What B does worse than A.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Change {
    metric: &'static str,
    part: f64,
}

impl std::str::FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (metric, part) = text.split_once('=').unwrap_or((text, ""));
        let known = ["p50", "cpu"].into_iter().find(|known| *known == metric);
        let metric = known.ok_or_else(|| format!("`{metric}`: expected p50 or cpu"))?;
        let part = lab_units::part(part).map_err(|error| error.to_string())?;
        Ok(Self { metric, part })
    }
}

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
    let mut bench = bench(args, &sets, stop)?;
    let (mut plan, held) = (plan(args), held(args.inject));
    let (_a, a) = echo(args, &bench, "echo", held)?;
    // One server cannot be in two places at the same time.
    let twin = args.duet.then(|| echo(args, &bench, "twin", held)).transpose()?;
    let twin = twin.as_ref().map_or(&a, |(_, spec)| spec);
    let slower = match args.inject {
        Some(change) => {
            let (pairs, more) = pilot(args, &mut bench, &plan, ([&a, twin], change))?;
            // Looks cost pairs: what a fixed number needs is not enough.
            plan.pairs = if plan.sequential { args.pairs() } else { pairs };
            let held = (held.0 + more.0, held.1 + more.1);
            Some(echo(args, &bench, "slower echo", held)?)
        }
        None => None,
    };
    let b = slower.as_ref().map_or(twin, |(_, spec)| spec);
    let metrics = args.inject.map_or(vec!["p50", "cpu"], |change| vec![change.metric]);
    let mut tallies: Vec<Tally> = metrics.into_iter().map(Tally::new).collect();
    let mut lengths = Vec::new();
    bench.done = (0, comparisons * plan.pairs);
    for comparison in 0..comparisons {
        let seed = lab_random::at(args.seed, 100 + comparison as u64);
        let blocks = blocks(&mut bench, &plan, seed, [&a, b])?;
        if stop.load(Ordering::Relaxed) {
            break;
        }
        lengths.extend(blocks.iter().map(|block| block.pair + 1).max());
        let plan = ComparisonPlan { seed, ..plan.clone() };
        tallies.iter_mut().for_each(|tally| tally.add(&plan, &blocks));
    }
    drop(bench);
    if plan.sequential {
        term::out(&looks(lengths, plan.pairs));
    }
    let good: Vec<bool> = tallies.iter().map(|tally| tally.report(args)).collect();
    Ok(if good.into_iter().all(|good| good) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How many pairs sequential comparisons took.
fn looks(mut lengths: Vec<usize>, most: usize) -> String {
    lengths.sort_unstable();
    let middle = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
    let (first, last) =
        (lengths.first().copied().unwrap_or(0), lengths.last().copied().unwrap_or(0));
    let all = lengths.iter().filter(|pairs| **pairs >= most).count();
    format!(
        "pairs until the verdict on p50 or the most: {middle} in the median, {first} to {last}; {all} of {} \
         comparisons took all {most}",
        lengths.len()
    )
}

/// Work and time to hold an answer back, of A.
fn held(change: Option<Change>) -> (Duration, Duration) {
    if change.is_some_and(|change| change.metric == "p50") {
        (Duration::ZERO, HOLD)
    } else {
        (WORK, Duration::ZERO)
    }
}

/// An echo in a process of its own.
fn echo(
    args: &Args,
    bench: &Bench<'_>,
    name: &str,
    (work, hold): (Duration, Duration),
) -> Result<(Server, Spec)> {
    let address = free_address()?;
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(program);
    command.args(["echo", "--listen", &address.to_string()]);
    command.args(["--work", &format!("{}ns", work.as_nanos())]);
    if !hold.is_zero() {
        command.args(["--latency", &format!("{}ns", hold.as_nanos())]);
    }
    let log = bench.starter.scratch.path().join(format!("{name}.log"));
    let mut server = Server::start(name, &mut command, &args.server_cpus, &log)?;
    server.await_answer(address, &Name::parse("ready.self.test")?, bench.stop)?;
    let spec = Spec::process(name, address, server.pid());
    Ok((server, spec))
}

fn bench<'a>(args: &Args, sets: &'a [Set], stop: &'a AtomicBool) -> Result<Bench<'a>> {
    let scratch = Scratch::new()?;
    let probe = sets.first().map_or_else(|| Workload::new(1), |set| set.workload.clone());
    Ok(Bench {
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
        places: super::duet::places(args)?,
        live: Some(Live::new()),
        done: (0, 0),
    })
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
        pairs: args.pairs(),
        sequential: args.sequential,
        duet: args.duet,
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
    specs: [&Spec; 2],
) -> Result<Vec<Block>> {
    bench.generator.seed = seed;
    let phase = Phase { name: COMPARISON, specs, pairs: plan.pairs, seed, salt: 0 };
    bench.phase(plan, &phase)
}

/// How many pairs the change needs by the noise of A with itself, and how much more work and time B
/// must take for the metric to change that much.
fn pilot(
    args: &Args,
    bench: &mut Bench<'_>,
    plan: &ComparisonPlan,
    (specs, change): ([&Spec; 2], Change),
) -> Result<(usize, (Duration, Duration))> {
    let wanted = Plan { alpha: plan.alpha, power: plan.power };
    let pairs = args.noise_pairs.max(wanted.fewest());
    bench.done = (0, pairs);
    let phase = Phase { name: "noise", specs, pairs, seed: args.seed, salt: 0x5eed };
    let blocks = bench.phase(plan, &phase)?;
    let Change { metric, part } = change;
    let finding = finding(&deciding(plan, metric), &blocks)?;
    // The pilot may have been quieter than what comes.
    let sigma = finding.sigma.unwrap_or(0.0);
    let widen = sigma_upper(1.0, pairs, CONFIDENCE);
    let noise: Vec<f64> = finding.differences.iter().map(|d| d * widen).collect();
    let needed = Resampled::new(wanted, &noise, args.seed).pairs(part.ln_1p(), None);
    let needed = needed.context("this machine is too disturbed to detect such a change")?;
    term::out(&format!(
        "{metric}: {} of A with itself, sigma {:.2} % over {pairs} pairs: {:.1} % more needs \
         {needed} pairs",
        term::nanos(finding.a),
        sigma * 100.0,
        part * 100.0,
    ));
    let more = Duration::from_nanos((finding.a * part) as u64);
    Ok((needed, if metric == "cpu" { (more, Duration::ZERO) } else { (Duration::ZERO, more) }))
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
