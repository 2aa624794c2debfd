//! `nodens-lab swap`: two images of one workload of a live cluster, exchanged in rounds and compared.
//!
//! What is changed is recorded in the cluster before it is changed, and put back whatever happens. The
//! statistics, the result file and the page are those of `ab`. See `docs/swapping.md`.

mod args;
mod ending;
mod guard;
mod load;
mod output;
mod queries;
mod restored;
mod rights;
mod rounds;
mod setup;

pub(crate) use args::Args;

use crate::ab::measure::unix;
use crate::ab::{self, Measured, output as tables};
use crate::term::{self, Live};
use anyhow::{Context, Result, bail};
use guard::Guard;
use lab_result::collect::Collector;
use lab_result::comparison::{Block, ComparisonFile, ComparisonPlan, Party, Swap, Verdict};
use lab_swap::{Claim, Patient, Turns};
use load::Loader;
use rounds::{Exchange, Kept, Phase, Rounds};
use serde_json::Value;
use setup::Setup;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// How often the Lease is renewed.
const RENEW: Duration = Duration::from_secs(10);
/// How long renewing may fail before the run ends: less than others wait.
const RENEW_MAX: Duration = Duration::from_secs(20);
/// How long an API server may be away before that ends the run.
const AWAY_MAX: Duration = Duration::from_secs(60);
/// The phase in which the baseline is measured with itself.
const NOISE: &str = "noise";

pub(crate) fn run(args: &Args, stop: &AtomicBool) -> Result<ExitCode> {
    if let Some(run) = &args.guard {
        return guard::run(args, run);
    }
    if args.restore {
        return restored::run(args);
    }
    match compare(args, stop) {
        // 1 would say that the candidate is worse.
        Err(error) if args.ci => Ok(ab::failed_in_ci(&error)),
        ended => ended,
    }
}

fn compare(args: &Args, stop: &AtomicBool) -> Result<ExitCode> {
    args.check()?;
    let setup = setup::find(args)?;
    let plan = setup::plan(args, &setup)?;
    term::out(&setup::announced(args, &setup, &plan));
    rights::check(args, &setup, &plan)?;
    if args.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    let folder = match &args.out {
        Some(folder) => {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot create {}", folder.display()))?;
            folder.clone()
        }
        None => crate::fresh::folder(Path::new(""), "nodens-lab-swap")
            .context("cannot create nodens-lab-swap in this directory")?,
    };
    let plan_hash = setup::write_plan(&folder, &plan)?;
    let mut measured = exchanged(args, &setup, &plan, &folder, stop)?;
    let failed = measured.failed.take();
    if measured.kept.blocks.is_empty()
        && let Some(error) = failed
    {
        return Err(error);
    }
    let file = conclude(args, &setup, plan, plan_hash, measured, stop);
    term::out(&output::text(&file));
    output::write(args, &folder, &file)?;
    if let Some(error) = failed {
        return Err(error);
    }
    Ok(match () {
        () if args.ci => ExitCode::from(tables::ci_code(&file)),
        () if file.interrupted => ExitCode::from(crate::EXIT_INTERRUPTED),
        () if !file.invalid_because.is_empty() => ExitCode::from(crate::EXIT_INVALID),
        () => ExitCode::SUCCESS,
    })
}

/// What came of the exchange.
struct Exchanged {
    kept: Kept,
    restored: Vec<String>,
    started: SystemTime,
    /// Why there are fewer rounds than planned, if that was an error.
    ended_early: Option<String>,
    /// That error, or why restoring failed. What was measured before it is written nevertheless.
    failed: Option<anyhow::Error>,
}

/// Records, changes, measures, and puts back.
fn exchanged(
    args: &Args,
    setup: &Setup,
    plan: &ComparisonPlan,
    folder: &Path,
    stop: &AtomicBool,
) -> Result<Exchanged> {
    let started = SystemTime::now();
    // It is there before there is anything to put back.
    let guard = Guard::start(args, &setup.workload, &setup.record.run)?;
    let mut claim = match Claim::make(&setup.cluster, &setup.holder, &setup.record) {
        Ok(claim) => claim,
        Err(error) => {
            guard.end()?;
            return Err(match error.is_conflict() {
                true => anyhow::Error::new(error).context("another run has the workload"),
                false => anyhow::Error::new(error).context("cannot write the record"),
            });
        }
    };
    // Owners that were not paused are no longer in the record.
    let paused = lab_swap::pause(&setup.cluster, &mut claim);
    let (held, over) = (Held::new(), AtomicBool::new(false));
    let mut kept = Kept::default();
    let (result, restored) = std::thread::scope(|scope| {
        let _over = Over(&over);
        scope.spawn(|| renew(setup, &claim, &held, &over));
        let result = paused.context("cannot pause what watches over the workload").and_then(|()| {
            measure(args, (setup, &claim, &guard), (plan, folder), (stop, &held), &mut kept)
        });
        term::note("restoring");
        // Others must not take the Lease for one that was left meanwhile. If it is lost, this finds all as
        // before, or does what nobody else has done yet.
        (result, restored::put_back(&setup.cluster, &claim, restored::TRY_MAX))
    });
    if let Err(error) = &restored {
        let most = guard::TRY_MAX.as_secs() / 60;
        let text = "the process that stays behind continues with it";
        term::note(&format!("restoring failed: {error}; {text}, for {most} min at most"));
    }
    let (restored, unrestored) = restored::ended(restored, guard.end());
    restored.iter().for_each(|line| term::note(&format!("  {line}")));
    let ended_early = result.as_ref().err().map(|error| format!("{error:#}"));
    if let (Some(_), Some(error)) = (&unrestored, &ended_early) {
        term::note(&format!("the run ended early: {error}"));
    }
    let failed = unrestored.or(result.err());
    Ok(Exchanged { kept, restored, started, ended_early, failed })
}

/// Says that the run is over, however that comes.
struct Over<'o>(&'o AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whether the Lease is still ours.
struct Held {
    is_taken: AtomicBool,
    renewed: Mutex<Instant>,
}

impl Held {
    fn new() -> Self {
        Self { is_taken: AtomicBool::new(false), renewed: Mutex::new(Instant::now()) }
    }

    /// Whether another program has it, or may soon: a request to renew it may take longer than others wait.
    fn is_lost(&self) -> bool {
        let renewed = *self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_taken.load(Ordering::Relaxed) || renewed.elapsed() > RENEW_MAX
    }
}

/// Renews the Lease until the run is over; says so if that is not possible.
fn renew(setup: &Setup, claim: &Claim, held: &Held, over: &AtomicBool) {
    let mut next = Instant::now() + RENEW;
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(100));
        if Instant::now() < next {
            continue;
        }
        // The Lease has the time at which the request was made.
        let begun = Instant::now();
        next = begun + RENEW / 4;
        match claim.renew(&setup.cluster) {
            Ok(()) => {
                next = begun + RENEW;
                *held.renewed.lock().unwrap_or_else(PoisonError::into_inner) = begun;
            }
            Err(error) if error.is_conflict() || error.is_absent() => {
                return held.is_taken.store(true, Ordering::Relaxed);
            }
            Err(_) => {}
        }
    }
}

/// Measures the baseline with itself, then both images.
fn measure(
    args: &Args,
    (setup, claim, guard): (&Setup, &Claim, &Guard),
    (plan, folder): (&ComparisonPlan, &Path),
    (stop, held): (&AtomicBool, &Held),
    kept: &mut Kept,
) -> Result<()> {
    let stopped = || {
        if held.is_lost() {
            bail!(
                "the Lease {} is lost, or could not be renewed: another program may restore the workload",
                claim.path
            );
        }
        guard.check()?;
        Ok(stop.load(Ordering::Relaxed))
    };
    let is_over = || stopped().unwrap_or(true);
    let patient = Patient::new(&setup.cluster, AWAY_MAX, &is_over);
    let mut loader = loader(args, (setup, &patient), claim, folder);
    loader.provide(&setup.sets)?;
    let turns = Turns::new(claim)?;
    let exchange = Exchange {
        cluster: &patient,
        workload: &setup.workload,
        container: &setup.container,
        turns: &turns,
        settle: Duration::from_nanos(args.settle),
        rollout_max: Duration::from_nanos(args.rollout_max),
    };
    let seed = plan.seed;
    let noise = lab_random::at(seed, 41);
    let phases = [
        Phase { name: NOISE, images: [0, 0], rounds: args.noise_rounds, seed: noise, salt: 0x5eed },
        Phase { name: "comparison", images: [0, 1], rounds: args.rounds, seed, salt: 0 },
    ];
    let live = Live::new();
    let (mut done, mut turn) = ((0, args.noise_rounds + args.rounds), 0);
    for phase in &phases {
        let mut rounds = Rounds {
            exchange: &exchange,
            loader: &mut loader,
            plan,
            images: &setup.images,
            phase,
            retries: args.retries,
            kept: &mut *kept,
            live: &live,
            done: &mut done,
            stop: &stopped,
            pods: Vec::new(),
            turn,
        };
        rounds::run(&mut rounds)?;
        turn = rounds.turn;
    }
    live.clear();
    Ok(())
}

fn loader<'a>(
    args: &'a Args,
    (setup, patient): (&'a Setup, &'a Patient<'a>),
    claim: &'a Claim,
    folder: &Path,
) -> Loader<'a> {
    let apart_from = setup.object.pointer("/spec/selector").cloned().unwrap_or(Value::Null);
    Loader {
        cluster: &setup.cluster,
        patient,
        claim,
        from: args.load_from,
        image: args.lab_image.as_deref().unwrap_or_default(),
        program: &args.lab_program,
        folder: PathBuf::from(folder),
        apart_from,
        server: setup.server,
        length: Duration::from_nanos(args.length),
        timeout: Duration::from_nanos(args.timeout),
        clients: args.clients,
        started: 0,
    }
}

/// From blocks to the file.
fn conclude(
    args: &Args,
    setup: &Setup,
    plan: ComparisonPlan,
    plan_hash: String,
    exchanged: Exchanged,
    stop: &AtomicBool,
) -> ComparisonFile {
    let Exchanged { kept, restored, started, ended_early, .. } = exchanged;
    let Kept { blocks, usage, rollouts, digests, notes } = kept;
    let (noise, comparison) = blocks.into_iter().partition(|block: &Block| block.phase == NOISE);
    let digests = digests.map(|all| all.into_iter().collect());
    let counters = format!("kubelets' readings of the container {}", setup.container);
    let party = |image: &String, name: &String| Party {
        name: name.clone(),
        server: format!("{} with {image}", setup.workload),
        version: None,
        counters: Some(counters.clone()),
    };
    let [a, b] = &setup.images;
    let [name_a, name_b] = &setup::names(&setup.images);
    let measured = Measured {
        noise,
        comparison,
        provenance: Collector::start(setup.server, false, None).finish(),
        parties: [party(a, name_a), party(b, name_b)],
        started,
    };
    let mut file = ab::conclude(plan, plan_hash, measured, stop);
    file.finished_unix_ns = unix(SystemTime::now());
    file.notes.extend(notes);
    if let Some(error) = ended_early {
        file.invalid_because.push(format!("the run ended early: {error}"));
        file.verdict = Verdict::Inconclusive;
    }
    // Loads are measured again one by one here, and not in pairs.
    file.notes.retain(|note| !note.contains(" measured again"));
    let again = file.blocks.iter().filter(|block| !block.used).count();
    if again > 0 {
        file.notes.push(format!("loads that were disturbed and measured again: {again}"));
    }
    // A line needs more than one rate.
    if args.rates.len() < 2 {
        file.costs.clear();
    }
    file.swap = Some(Swap {
        cluster: setup.cluster.url.clone(),
        workload: setup.workload.to_string(),
        container: setup.container.clone(),
        images: setup.images.clone(),
        digests,
        server: setup.server.to_string(),
        load_from: args.load_from.name().to_owned(),
        owners: setup.told.clone(),
        restored,
        rollouts,
        usage,
    });
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_lost_when_a_request_to_renew_it_takes_too_long() {
        let held = Held::new();
        assert!(!held.is_lost());
        *held.renewed.lock().unwrap() = Instant::now().checked_sub(2 * RENEW_MAX).unwrap();
        assert!(held.is_lost());
        let held = Held::new();
        held.is_taken.store(true, Ordering::Relaxed);
        assert!(held.is_lost());
    }
}
