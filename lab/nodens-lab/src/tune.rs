//! `nodens-lab tune`: which of many settings matter to a server under a load, and whether users feel it.
//!
//! The server runs in one network namespace and the load in another, so nothing of the machine is
//! changed; with `--host` it is. Settings are saved, set, read back and restored by `lab-knobs`, whose
//! keeper outlives this process; experiments and verdicts are `lab-tune`'s. See `docs/tuning.md`.

mod args;
mod list;
mod network;
mod output;
mod plan;
mod rig;
mod selftest;

pub(crate) use args::Args;

use crate::export::Kept;
use crate::load::line::Load;
use crate::term::{self, Style};
use anyhow::{Context, Result, bail};
use lab_experiment::placement::{Placement, Sharing, Wish};
use lab_knobs::{Availability, Choice, Earlier, Keeper, Scope};
use lab_result::collect::Collector;
use lab_result::export::Options;
use lab_result::tuning::{self, TuningFile, TuningPlan};
use lab_tune::{Failed, Trial};
use rig::Rig;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The hidden subcommand that keeps the settings of a trial.
const KEEPER: &str = "keep-settings";
/// Exit code where settings of this machine would change and `--yes` is missing.
const EXIT_NOT_AGREED: u8 = 2;

/// What `keep-settings` does: it is started by a trial and restores what that has changed.
pub(crate) fn keep() -> Result<ExitCode> {
    lab_knobs::keeper::run()?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn run(args: &Args, stop: &AtomicBool) -> Result<ExitCode> {
    args.check()?;
    if let Some(servers) = args.self_test {
        return selftest::run(servers, args.seed, stop);
    }
    let keeper = Keeper::new([KEEPER]);
    if args.list {
        return list::run(args, &keeper);
    }
    let load = Load::read(&args.load, args.seed).context("--load")?;
    let choices = args.choices()?;
    rig::check_places(args, &choices)?;
    let (choices, present) = available(args, &keeper, choices)?;
    let plan = plan::plan(args, &load, (&choices, &present))?;
    if args.plan || (args.host && !args.yes) {
        term::all(&plan::told(&plan, &choices)?).context("cannot write to standard output")?;
        if args.plan {
            return Ok(ExitCode::SUCCESS);
        }
        term::note("nothing was changed: these settings of this machine change with --yes");
        return Ok(ExitCode::from(EXIT_NOT_AGREED));
    }
    let folder = folder(args)?;
    announce(&folder, &plan, args.json)?;
    let file = trial(args, &keeper, (&load, &choices), plan, stop)?;
    write(args, &folder, &file)?;
    Ok(ExitCode::from(match &file {
        file if file.interrupted => crate::EXIT_INTERRUPTED,
        file if !file.invalid_because.is_empty() => crate::EXIT_INVALID,
        _ => 0,
    }))
}

/// What the trial may change.
fn scope(args: &Args) -> Scope {
    if args.host { Scope::host(args.device.as_deref()) } else { Scope::namespace() }
}

/// Which settings can be changed here; what earlier runs have left is told.
fn survey(
    args: &Args,
    keeper: &Keeper,
    choices: &[Choice],
    earlier: Earlier,
) -> Result<Vec<Availability>> {
    let found = lab_knobs::survey(keeper, &scope(args), choices, earlier)?;
    for left in &found.leftovers {
        term::note(&format!("note: {left}"));
    }
    Ok(found.knobs)
}

/// The settings that can be changed here, and the values that they have. What a user has named and is not available is an error; what
/// `--all-knobs` took along is left out, and that is said.
fn available(
    args: &Args,
    keeper: &Keeper,
    choices: Vec<Choice>,
) -> Result<(Vec<Choice>, Vec<String>)> {
    // What is only planned writes nothing.
    let only_told = args.plan || (args.host && !args.yes);
    let earlier = if only_told { Earlier::Report } else { Earlier::Restore };
    let found = survey(args, keeper, &choices, earlier)?;
    let named = args.knobs.len() + args.knob.len();
    let (mut kept, mut values, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for (at, (choice, found)) in choices.into_iter().zip(found).enumerate() {
        match found.present {
            Ok(value) => {
                kept.push(choice);
                values.push(value.map_or("the server's".to_owned(), |value| value.to_string()));
            }
            Err(why) if at < named => missing.push(format!("{}: {why}", found.knob)),
            Err(why) => term::note(&format!("left out: {}: {why}", found.knob)),
        }
    }
    if !missing.is_empty() {
        bail!("settings that cannot be changed here: {}", missing.join("; "));
    }
    if kept.is_empty() {
        bail!("none of the settings can be changed here");
    }
    Ok((kept, values))
}

fn folder(args: &Args) -> Result<PathBuf> {
    match &args.out {
        Some(folder) => {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot create {}", folder.display()))?;
            Ok(folder.clone())
        }
        None => crate::fresh::folder(Path::new(""), "nodens-lab-tune")
            .context("cannot create nodens-lab-tune in this directory"),
    }
}

/// Writes the plan, before anything is measured, and says what will happen.
fn announce(folder: &Path, plan: &TuningPlan, quiet: bool) -> Result<()> {
    let path = folder.join("plan.json");
    let text = serde_json::to_string_pretty(plan)? + "\n";
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    if !quiet {
        term::out(&format!("plan in {}: {}", path.display(), plan::sentence(plan)));
    }
    Ok(())
}

/// The CPUs of server and load: the last ones for the load, if there are enough.
fn cpus(args: &Args) -> Result<(Vec<usize>, Vec<usize>)> {
    if !args.cpus.is_empty() || !args.server_cpus.is_empty() {
        return Ok((args.server_cpus.clone(), args.cpus.clone()));
    }
    let allowed = lab_sys::cpu::allowed().context("cannot read the allowed CPUs")?;
    let wish = Wish { subject: 1..=usize::MAX, helper: 0..=0, load: 1..=1 };
    let placed = Placement::choose(&allowed, &wish);
    Ok(match placed.sharing {
        Sharing::None => (placed.subject, placed.load),
        _ => (Vec::new(), Vec::new()),
    })
}

/// The trial itself, from the saving of settings to the file.
fn trial(
    args: &Args,
    keeper: &Keeper,
    (load, choices): (&Load, &[Choice]),
    plan: TuningPlan,
    stop: &AtomicBool,
) -> Result<TuningFile> {
    let started = SystemTime::now();
    let mut rig = Rig::begin(args, keeper, scope(args), (load, choices), cpus(args)?, stop)?;
    let collector = Collector::start(rig.address(), false, None);
    let stopped = || stop.load(Ordering::Relaxed);
    let trial = lab_tune::tune(&plan, &mut rig, &stopped);
    // Whatever happened, the settings are restored, and what could not be is said.
    let ended = rig.end();
    let trial = trial.map_err(|failed| match failed {
        Failed::Tuned(error) => error,
        other => anyhow::anyhow!("{other}"),
    })?;
    ended?;
    let provenance = collector.finish();
    Ok(file(plan, trial, provenance, started))
}

fn file(
    plan: TuningPlan,
    trial: Trial,
    provenance: lab_result::Provenance,
    started: SystemTime,
) -> TuningFile {
    let unix = |time: SystemTime| {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    };
    let values = trial.measurements.iter().map(|one| &one.values);
    let primary = lab_tune::Metric::find(&plan.primary);
    let metrics = primary.map(|primary| lab_tune::metric::measured(primary, values));
    let metrics = metrics.unwrap_or_default();
    TuningFile {
        kind: tuning::KIND.to_owned(),
        schema: tuning::SCHEMA,
        generator: lab_result::Generator {
            name: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        provenance,
        started_unix_ns: unix(started),
        finished_unix_ns: unix(SystemTime::now()),
        interrupted: trial.interrupted,
        invalid_because: trial.invalid_because,
        notes: trial.notes,
        metrics: metrics.iter().map(|metric| metric.info(plan.closed_loop)).collect(),
        knobs: trial.knobs,
        groups: trial.groups,
        measurements: trial.measurements,
        plan,
    }
}

/// Prints what was found, and writes the files.
fn write(args: &Args, folder: &Path, file: &TuningFile) -> Result<()> {
    let result = folder.join("result.json");
    tuning::write(&result, file)?;
    for (format, path) in &args.export {
        let text = Kept::Tuning(file).export(*format, Options::default())?;
        lab_result::write_text(path, &text)?;
    }
    if args.json {
        term::all(&tuning::to_json(file)).context("cannot write to standard output")?;
    } else {
        term::all(&output::text(file)).context("cannot write to standard output")?;
        let told = format!("all measurements: {}", result.display());
        term::out(&term::paint(Style::Dim, &told));
    }
    if args.no_html {
        return Ok(());
    }
    let page = args.html.clone().unwrap_or_else(|| folder.join("result.html"));
    if args.json {
        let document = lab_report::Document::Tuning(Box::new(file.clone()));
        let source = lab_report::Source { name: "result".to_owned(), document };
        lab_result::write_text(&page, &lab_report::page(&[source], None))?;
        return Ok(());
    }
    Kept::Tuning(file).write_page(&page, &result)
}
