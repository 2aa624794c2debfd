//! `cargo xtask acceptance`: which Corefiles the pinned CoreDNS accepts, and whether Nodens accepts the same.
//!
//! The rows are made, not written: every option that CoreDNS's source names for a directive that Nodens has, with
//! every list of arguments of `rows::ARGUMENTS`. So an option of a new version is in the table the day the version is.
//! What differs must match a block of `docs/differences.md` with `check: acceptance`. The order of directives is
//! compared first.

mod coredns;
mod order;
mod rows;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::{peers, repo};
use nodens_judge::answer::Difference;
use nodens_judge::differences::{Differences, Place};
use rows::Row;

const USAGE: &str = "usage: cargo xtask acceptance [--nodens PATH] [--only DIRECTIVE] [--jobs N] [--list] [--write]";
/// The check's name in `docs/differences.md`.
const CHECK: &str = "acceptance";
/// What a program said about a row.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Accepted,
    /// With the reason.
    Rejected(String),
}

impl Verdict {
    fn word(&self) -> &'static str {
        match self {
            Verdict::Accepted => "accepted",
            Verdict::Rejected(_) => "rejected",
        }
    }

    fn reason(&self) -> &str {
        match self {
            Verdict::Accepted => "",
            Verdict::Rejected(reason) => reason.trim(),
        }
    }
}

#[derive(Default)]
struct Options {
    nodens: Option<PathBuf>,
    only: Option<String>,
    jobs: Option<usize>,
    list: bool,
    write: bool,
}

/// Compares; true when nothing unexplained was seen. `--write` takes the order of directives over from CoreDNS.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let mut options = Options::default();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().context(USAGE);
        match argument.as_str() {
            "--list" => options.list = true,
            "--write" => options.write = true,
            "--nodens" => options.nodens = Some(std::path::absolute(value()?)?),
            "--only" => options.only = Some(value()?.clone()),
            "--jobs" => options.jobs = Some(value()?.parse().context("--jobs")?),
            _ => bail!(USAGE),
        }
    }
    let source = peers::coredns_source()?;
    order::check(&source, options.write)?;
    let mut rows = rows::all(&source)?;
    if let Some(only) = &options.only {
        rows.retain(|row| row.directive == *only);
    }
    if options.list {
        rows.iter().for_each(|row| println!("{}: {}", row.directive, row.name()));
        return Ok(true);
    }
    compare(&options, &rows, &source)
}

fn compare(options: &Options, rows: &[Row], source: &Path) -> Result<bool> {
    let started = Instant::now();
    let nodens = options.nodens.clone().map_or_else(repo::built_nodens, Ok)?;
    let document = std::fs::read_to_string(repo::root().join("docs/differences.md"))?;
    let differences = Differences::parse(&document)?.of_check(CHECK);
    let folder = std::env::temp_dir().join(format!("nodens-acceptance-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    // For directives that read their zone at once.
    std::fs::write(folder.join("zone"), "@ 60 SOA a. b. 1 60 60 60 60\n")?;
    let theirs = coredns::ask(&folder, source, rows)?;
    let ours = ask(options, rows, &nodens, &folder)?;
    std::fs::remove_dir_all(&folder)?;
    let (mut explained, mut failed) = (BTreeMap::<&str, usize>::new(), 0);
    for ((row, theirs), ours) in rows.iter().zip(&theirs).zip(&ours) {
        if theirs.word() == ours.word() {
            continue;
        }
        let (coredns, nodens) = (theirs.word().to_owned(), ours.word().to_owned());
        let difference = [Difference { field: "start", coredns, nodens }];
        let case = format!("acceptance/{}", row.directive);
        let name = row.name();
        let place = Place { directive: &row.directive, case: &case, question: &name };
        if let Some(ids) = differences.explain(place, &difference) {
            ids.into_iter().for_each(|id| *explained.entry(id).or_default() += 1);
            continue;
        }
        failed += 1;
        println!("{}: {name}: CoreDNS {}, Nodens {}", row.directive, theirs.word(), ours.word());
        println!("    {}{}", theirs.reason(), ours.reason());
    }
    for (id, count) in &explained {
        println!("explained by {id}: {count}");
    }
    if options.only.is_none() {
        for id in differences.expected().iter().filter(|id| !explained.contains_key(*id)) {
            println!("docs/differences.md: `{id}` did not occur: is it still so?");
        }
    }
    let accepted = theirs.iter().filter(|verdict| **verdict == Verdict::Accepted).count();
    println!(
        "{} rows in {:.0?}, of which CoreDNS accepts {accepted}",
        rows.len(),
        started.elapsed()
    );
    println!("{} passed, {failed} failed", rows.len() - failed);
    Ok(failed == 0)
}

/// Asks Nodens about every row, several at a time; verdicts in the order of rows.
fn ask(options: &Options, rows: &[Row], nodens: &Path, folder: &Path) -> Result<Vec<Verdict>> {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let (next, verdicts) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.unwrap_or(cores).max(1) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(row) = rows.get(index) else { return };
                    let verdict = check(nodens, folder, index, row);
                    if let Ok(mut verdicts) = verdicts.lock() {
                        verdicts.push((index, verdict));
                    }
                }
            });
        }
    });
    let mut verdicts = verdicts.into_inner().unwrap_or_default();
    verdicts.sort_by_key(|(index, _)| *index);
    verdicts.into_iter().map(|(_, verdict)| verdict).collect()
}

/// What Nodens says without a socket.
fn check(nodens: &Path, folder: &Path, index: usize, row: &Row) -> Result<Verdict> {
    let corefile = format!("Corefile.{index}");
    std::fs::write(folder.join(&corefile), row.text())?;
    let mut check = Command::new(nodens);
    let checked = check.args(["-check", "-conf", &corefile]).current_dir(folder).output()?;
    Ok(if checked.status.success() {
        Verdict::Accepted
    } else {
        Verdict::Rejected(String::from_utf8_lossy(&checked.stderr).into_owned())
    })
}
