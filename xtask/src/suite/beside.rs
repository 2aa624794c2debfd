//! Runs test programs beside each other: most of their time is waiting.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::programs::Program;
use super::report::Report;

/// A program that has not ended by then is ended: the longest takes a third of it where nothing else runs.
const PROGRAM_MAX: Duration = Duration::from_secs(20 * 60);
/// How often a program is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How often it is said what is still running.
const SAY: Duration = Duration::from_secs(60);

/// Runs each program with `arguments`, one more at a time than there are CPUs. The reports are in the order of the
/// programs; what a program printed is shown only if something of it failed.
pub(super) fn run(programs: &[Program], arguments: &[String]) -> anyhow::Result<Vec<Report>> {
    let lanes = std::thread::available_parallelism().map_or(2, usize::from) + 1;
    let (next, reports) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let lane = || -> anyhow::Result<()> {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(program) = programs.get(index) else { return Ok(()) };
            let report = one(program, arguments)?;
            reports.lock().unwrap_or_else(PoisonError::into_inner).insert(index, report);
        }
    };
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes.min(programs.len())).map(|_| scope.spawn(lane)).collect();
        lanes.into_iter().try_for_each(|lane| lane.join().unwrap_or_else(|_| Err(died())))
    })?;
    Ok(reports.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect())
}

/// Whether a test passes when nothing else runs.
pub(super) fn passes_alone(program: &Program, test: &str) -> anyhow::Result<bool> {
    let report = one(program, &program.only(test))?;
    // A name that no test has would pass as well.
    Ok(report.passed() > 0 && report.failed().is_empty() && !report.has_crashed())
}

fn died() -> anyhow::Error {
    anyhow::anyhow!("a thread that runs test programs has panicked")
}

fn one(program: &Program, arguments: &[String]) -> anyhow::Result<Report> {
    let path = log(program)?;
    let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
    let mut command = program.command(arguments);
    // A file rather than a pipe, whose end servers would hold open that a crashed test has left running.
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let begun = Instant::now();
    let mut child = command.spawn().with_context(|| format!("start {command:?}"))?;
    let status = ended(&mut child, program, begun)?;
    let text = std::fs::read(&path).with_context(|| format!("read {}", path.display()))?;
    let report = Report::read(&String::from_utf8_lossy(&text), status.is_some_and(|s| s.success()));
    let seconds = begun.elapsed().as_secs_f64();
    let (passed, failed) = (report.passed(), report.failed().len());
    let mut lines = report.shown().to_owned();
    lines +=
        &format!("== {passed} passed, {failed} did not, in {seconds:.1} s: {}", program.target);
    match status {
        None => lines += &format!(" (killed after {PROGRAM_MAX:?})"),
        Some(status) if report.has_crashed() => lines += &format!(" ({status})"),
        Some(_) => {}
    }
    println!("{lines}");
    Ok(report)
}

/// Waits for the end of a program; `None` if it had to be killed.
fn ended(
    child: &mut Child,
    program: &Program,
    begun: Instant,
) -> anyhow::Result<Option<ExitStatus>> {
    let mut said = begun;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if begun.elapsed() >= PROGRAM_MAX {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        if said.elapsed() >= SAY {
            said = Instant::now();
            println!("   running for {} s: {}", begun.elapsed().as_secs(), program.target);
        }
        std::thread::sleep(LOOK);
    }
}

/// Where the output of a program goes: `target/tests/nodens.test.it.log`.
fn log(program: &Program) -> anyhow::Result<PathBuf> {
    let folder = crate::repo::target().join("tests");
    std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let words: Vec<_> = program.target.split([' ', '-']).filter(|word| !word.is_empty()).collect();
    let words = words.get(1..).unwrap_or_default();
    Ok(folder.join(words.join(".") + ".log"))
}
