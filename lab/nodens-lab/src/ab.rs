//! `nodens-lab ab`: which of two servers is faster, and how sure that is.
//!
//! A is measured against itself first: that shows the noise. Then blocks of A and B alternate in
//! pairs whose order a coin decides. What is compared, and what counts as a difference, is written
//! down before the first block. See `docs/comparing.md`.

mod args;
mod ask;
mod capacity;
mod duet;
pub(crate) mod failed;
pub(crate) mod findings;
mod kube;
pub(crate) mod measure;
pub(crate) mod output;
pub(crate) mod plan;
mod selftest;
mod side;

pub(crate) use args::Args;

use crate::child::Scratch;
use crate::export::Kept;
use crate::term::{self, Live, Style};
use anyhow::{Context, Result};
use ask::Generator;
use lab_experiment::placement::{Placement, Sharing, Wish};
use lab_result::Generator as Program;
use lab_result::collect::Collector;
use lab_result::comparison::{self, Block, ComparisonFile, ComparisonPlan, Load, Verdict};
use lab_result::export::Options;
use measure::{Bench, COMPARISON, Phase};
use plan::Set;
use sha2::{Digest, Sha256};
use side::{Spec, Starter};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

/// The part of the pairs that may stay disturbed before the whole says nothing.
const DISTURBED_MAX: f64 = 0.25;
/// Exit code with `--ci` when nothing could be compared at all.
const EXIT_ERROR: u8 = 4;

/// Ends the program for a command line that cannot be read. With `ab --ci` the usual code for that, 2,
/// means something else.
pub(crate) fn refuse(error: &clap::Error) -> ! {
    let mut words = std::env::args_os().skip(1);
    let has_ci = words.next().is_some_and(|word| word == "ab" || word == "swap");
    let in_ci = has_ci && words.any(|word| word == "--ci");
    if error.use_stderr() && in_ci {
        // Where the message cannot be written, the code still tells.
        _ = error.print();
        std::process::exit(EXIT_ERROR.into());
    }
    error.exit()
}

/// Tells an error; gives the exit code, which is none of those that a comparison has.
pub(crate) fn failed_in_ci(error: &anyhow::Error) -> ExitCode {
    eprintln!("nodens-lab: {}", crate::told(error));
    ExitCode::from(EXIT_ERROR)
}

pub(crate) fn run(args: &Args, stop: &AtomicBool) -> Result<ExitCode> {
    if let Some(comparisons) = args.self_test {
        args.check()?;
        return selftest::run(args, comparisons, stop);
    }
    let result = compare(args, stop);
    match result {
        Ok(file) if args.ci => Ok(ExitCode::from(output::ci_code(&file))),
        Ok(file) if file.interrupted => Ok(ExitCode::from(crate::EXIT_INTERRUPTED)),
        Ok(file) if !file.invalid_because.is_empty() => Ok(ExitCode::from(crate::EXIT_INVALID)),
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(error) if args.ci => Ok(failed_in_ci(&error)),
        Err(error) if error.is::<side::NothingListens>() => {
            eprintln!("nodens-lab: {}", crate::told(&error));
            Ok(ExitCode::from(crate::EXIT_NOTHING_LISTENS))
        }
        Err(error) => Err(error),
    }
}

fn compare(args: &Args, stop: &AtomicBool) -> Result<ComparisonFile> {
    args.check()?;
    let specs = side::both(args)?;
    let sets = plan::sets(args)?;
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let mut bench = bench(args, &sets, &specs, stop)?;
    let loads = loads(args, &mut bench, &specs)?;
    let plan = plan::plan(args, &sets, loads, &specs)?;
    // Nothing is announced or compared if a server is not there.
    for spec in specs.iter().filter(|spec| !spec.is_command()) {
        bench.starter.start(spec)?;
    }
    let folder = match &args.out {
        Some(folder) => folder.clone(),
        None => crate::fresh::folder(Path::new(""), "nodens-lab-ab")
            .context("cannot create nodens-lab-ab in this directory")?,
    };
    let plan_hash = announce(&folder, &plan, args.retries)?;
    bench.done.1 = (plan.pairs + plan.noise_pairs) * plan.loads.len();
    let measured = measure(&mut bench, &plan, &specs)?;
    let mut file = conclude(plan, plan_hash, measured, stop);
    file.notes.extend(specs.iter().filter_map(Spec::note));
    term::out(&output::text(&file));
    write(args, &folder, &file)?;
    Ok(file)
}

/// The bench with its CPUs: the last ones for the generator and the others for servers, if those are
/// started here and there are enough.
fn bench<'a>(
    args: &Args,
    sets: &'a [Set],
    specs: &[Spec; 2],
    stop: &'a AtomicBool,
) -> Result<Bench<'a>> {
    let allowed = lab_sys::cpu::allowed().context("cannot read the allowed CPUs")?;
    let (mut cpus, mut server_cpus) = (args.cpus.clone(), args.server_cpus.clone());
    let started_here = specs.iter().any(Spec::is_command);
    if started_here && !args.duet && cpus.is_empty() && server_cpus.is_empty() {
        let wish =
            Wish { subject: 1..=usize::MAX, helper: 0..=0, load: args.threads..=args.threads };
        let placed = Placement::choose(&allowed, &wish);
        if placed.sharing == Sharing::None {
            (server_cpus, cpus) = (placed.subject, placed.load);
        }
    }
    let probe = sets.first().context("there are no queries")?.workload.clone();
    let places = duet::places(args)?;
    if let Some(places) = &places {
        (server_cpus, cpus) = duet::all(places);
    }
    let scratch = Scratch::new()?;
    let generator = Generator {
        clients: args.clients,
        threads: args.threads,
        cpus,
        timeout: Duration::from_nanos(args.timeout),
        seed: args.seed,
    };
    Ok(Bench {
        generator,
        sets,
        starter: Starter { stop, scratch, cpus: server_cpus, probe, started: 0 },
        stop,
        retries: args.retries,
        places,
        live: Some(Live::new()),
        done: (0, 0),
    })
}

/// The loads of every set.
fn loads(args: &Args, bench: &mut Bench<'_>, specs: &[Spec; 2]) -> Result<Vec<Load>> {
    let mut loads = Vec::new();
    let searches = args.capacity.plan()?;
    for set in bench.sets {
        if let Some(searches) = &searches {
            loads.push(bench.search_load(searches, specs, set)?);
            continue;
        }
        for rate in &args.rates {
            loads.push(Load { name: format!("{rate}/s"), set: set.name.clone(), rate: *rate });
        }
        if !args.rates.is_empty() {
            continue;
        }
        let top = args.loads.iter().copied().fold(0.0, f64::max) / 100.0;
        let capacity = bench.capacity(specs, set, top)?;
        term::out(&format!("{}: both answer at {}/s", set.name, term::rate(capacity * top)));
        for percent in &args.loads {
            let rate = (capacity * percent / 100.0).max(1.0).round();
            loads.push(Load { name: format!("{percent} %"), set: set.name.clone(), rate });
        }
    }
    Ok(loads)
}

/// Writes the plan and says what will happen; returns its hash.
fn announce(folder: &Path, plan: &ComparisonPlan, retries: usize) -> Result<String> {
    let path = folder.join("plan.json");
    let mut text = serde_json::to_string_pretty(plan)?;
    text.push('\n');
    std::fs::write(&path, &text).with_context(|| format!("cannot write {}", path.display()))?;
    let hash = hex(&Sha256::digest(text.as_bytes()));
    let primary = &plan.primary;
    let short = hash.get(..16).unwrap_or(&hash);
    let minutes = |time: Duration| match time.as_secs_f64() / 60.0 {
        minutes @ ..10.0 => format!("{minutes:.1}"),
        minutes => format!("{minutes:.0}"),
    };
    let again = match retries {
        0 => String::new(),
        _ => format!(
            ", up to {} min if every pair is disturbed and measured again {}",
            minutes(plan::longest(plan, retries)),
            if retries == 1 { "once".to_owned() } else { format!("{retries} times") }
        ),
    };
    let most = if plan.sequential { "as soon as it can, at most " } else { "" };
    term::out(&format!(
        "plan {short} in {}: {} at {} of {} decides, {most}{} after {} of A with itself, about {} min{again}",
        path.display(),
        primary.metric,
        primary.load,
        primary.set,
        term::of(plan.pairs, "pair"),
        plan.noise_pairs,
        minutes(plan::estimate(plan)),
    ));
    let others = (plan.metrics.len() * plan.loads.len()).saturating_sub(1).max(1);
    let fewest = plan::fewest(plan.alpha / others as f64, plan.sequential);
    if plan.pairs < fewest {
        term::out(&format!(
            "of the {others} other metrics together, fewer than {fewest} pairs cannot show any difference (Holm)",
        ));
    }
    Ok(hash)
}

pub(crate) fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Everything that was measured.
pub(crate) struct Measured {
    pub(crate) noise: Vec<Block>,
    pub(crate) comparison: Vec<Block>,
    pub(crate) provenance: lab_result::Provenance,
    pub(crate) parties: [comparison::Party; 2],
    pub(crate) started: SystemTime,
}

fn measure(bench: &mut Bench<'_>, plan: &ComparisonPlan, specs: &[Spec; 2]) -> Result<Measured> {
    let [a, b] = specs;
    let mut versions = [None, None];
    let mut collector = None;
    for (version, spec) in versions.iter_mut().zip(specs) {
        let address = bench.starter.start(spec)?;
        let started = Collector::start(address.address, true, None);
        *version = started.clone().finish().server_version;
        collector = Some(started);
    }
    let started = SystemTime::now();
    let seed = lab_random::at(plan.seed, 41);
    let noise = Phase { name: "noise", specs: [a, a], pairs: plan.noise_pairs, seed, salt: 0x5eed };
    let noise = bench.phase(plan, &noise)?;
    let seed = plan.seed;
    let pairs = Phase { name: COMPARISON, specs: [a, b], pairs: plan.pairs, seed, salt: 0 };
    let comparison = bench.phase(plan, &pairs)?;
    if let Some(live) = &bench.live {
        live.clear();
    }
    let [of_a, of_b] = versions;
    let provenance = collector.map(Collector::finish).unwrap_or_default();
    Ok(Measured { noise, comparison, provenance, parties: [a.party(of_a), b.party(of_b)], started })
}

/// From blocks to the file.
pub(crate) fn conclude(
    plan: ComparisonPlan,
    plan_hash: String,
    measured: Measured,
    stop: &AtomicBool,
) -> ComparisonFile {
    let Measured { noise, comparison, provenance, parties: [a, b], started } = measured;
    let quiet = findings::findings(&plan, &noise, &[]);
    let found = findings::findings(&plan, &comparison, &quiet.all);
    // What a server costs beside another one is not what it costs.
    let costs = if plan.duet { Vec::new() } else { findings::costs(&plan, &comparison) };
    let (mut invalid_because, mut notes) = judge(&plan, &comparison);
    notes.extend(duet::notes(&plan));
    notes.extend(failed::notes(&plan, &comparison));
    let primary = found.all.first().filter(|finding| finding.primary);
    if primary.is_none() && invalid_because.is_empty() {
        invalid_because.push(unmeasured(&plan, &found.omitted));
    }
    notes.extend(found.notes);
    let twin = quiet.all.first().filter(|twin| twin.primary);
    if twin.is_some_and(|twin| matches!(twin.verdict, Verdict::Faster | Verdict::Slower)) {
        let text = "A differs from itself in the primary metric: this happens by chance in one of twenty cases, otherwise the machine is disturbed";
        notes.push(text.to_owned());
    }
    let decided_after = decided_after(&plan, &comparison);
    if let Some(pairs) = decided_after.filter(|pairs| *pairs < plan.pairs) {
        notes.push(format!("decided after {} of at most {}", term::of(pairs, "pair"), plan.pairs));
    }
    let verdict = primary.map_or(Verdict::Inconclusive, |finding| finding.verdict);
    ComparisonFile {
        kind: comparison::KIND.to_owned(),
        schema: comparison::SCHEMA,
        generator: Program {
            name: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        provenance,
        plan_hash,
        started_unix_ns: measure::unix(started),
        finished_unix_ns: measure::unix(SystemTime::now()),
        interrupted: stop.load(Ordering::Relaxed),
        verdict: if invalid_because.is_empty() { verdict } else { Verdict::Inconclusive },
        no_worse: primary.is_some_and(|finding| finding.p_worse <= plan.alpha),
        invalid_because,
        decided_after,
        notes,
        a,
        b,
        findings: found.all,
        noise: quiet.all,
        costs,
        omitted: found.omitted,
        blocks: noise.into_iter().chain(comparison).collect(),
        swap: None,
        plan,
    }
}

/// Why there is no verdict although the machine was quiet enough.
fn unmeasured(plan: &ComparisonPlan, omitted: &[comparison::Omitted]) -> String {
    let comparison::Cell { metric, load, set } = &plan.primary;
    let omitted = omitted.iter().find(|omitted| omitted.cell == plan.primary);
    let why = omitted.map_or("it is not in the plan", |omitted| &omitted.reason);
    format!("what decides, {metric} at {load} ({set}), was not measured: {why}")
}

/// Whether a sequential comparison may end: the primary metric has a verdict, and the machine was quiet
/// enough for it.
fn is_decided(plan: &ComparisonPlan, blocks: &[Block]) -> bool {
    findings::is_decided(plan, blocks) && judge(plan, blocks).0.is_empty()
}

/// The pairs that decided a sequential comparison.
fn decided_after(plan: &ComparisonPlan, blocks: &[Block]) -> Option<usize> {
    let decided = plan.sequential && is_decided(plan, blocks);
    decided.then(|| blocks.iter().map(|block| block.pair + 1).max()).flatten()
}

/// Whether the machine was quiet enough for what decides: reasons against, and notes. What left late says
/// nothing about latencies, and still what an answer cost, how much memory is held, and what was lost.
fn judge(plan: &ComparisonPlan, blocks: &[Block]) -> (Vec<String>, Vec<String>) {
    let loaded = || blocks.iter().filter(|block| block.load != "idle");
    let used = loaded().filter(|block| block.used).count();
    let again = loaded().filter(|block| !block.used).count();
    let kept: Vec<&Block> = loaded().filter(|b| b.used && !b.faults.is_empty()).collect();
    let (mut invalid, mut notes) = (Vec::new(), Vec::new());
    if again > 0 {
        let (pairs, be) = (again / 2, if again / 2 == 1 { "was" } else { "were" });
        let pairs = term::of(pairs, "pair");
        notes.push(format!("{pairs} {be} measured again: machine or generator faults"));
    }
    if let Some(first) = kept.first().and_then(|block| block.faults.first()) {
        let text = format!("{} of {used} blocks are disturbed, the first: {first}", kept.len());
        let spoilt = kept.iter().filter(|block| !block.only_late).count();
        if spoilt as f64 > DISTURBED_MAX * used as f64 {
            invalid.push(text);
        } else {
            notes.push(text);
        }
    }
    if used == 0 {
        invalid.push("nothing was measured".to_owned());
    }
    if invalid.is_empty() {
        invalid.extend(findings::decides_undisturbed(plan, blocks).err());
    }
    (invalid, notes)
}

/// Writes the files of the result, the page, and the exports that were asked for.
fn write(args: &Args, folder: &Path, file: &ComparisonFile) -> Result<()> {
    let result = folder.join("result.json");
    comparison::write(&result, file)?;
    for (name, text) in [("report.md", output::markdown(file)), ("junit.xml", output::junit(file))]
    {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let path = folder.join("report.md");
    let told = format!("table: {}  all blocks: {}", path.display(), result.display());
    term::out(&term::paint(Style::Dim, &told));
    for (format, path) in &args.export {
        let text = Kept::Comparison(file).export(*format, Options::default())?;
        lab_result::write_text(path, &text)?;
    }
    if !args.no_html {
        let page = args.html.clone().unwrap_or_else(|| folder.join("result.html"));
        Kept::Comparison(file).write_page(&page, &result)?;
    }
    Ok(())
}
