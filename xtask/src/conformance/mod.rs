//! `cargo xtask conformance`: the same Corefile and the same questions to Nodens and to CoreDNS, answers compared.
//!
//! Corefiles are the examples of CoreDNS's READMEs and our own in `xtask/conformance/`. Each is adapted to run on
//! loopback beside the other server, with a local authority as every upstream. What differs must match a line of
//! `docs/differences.md`; anything else fails the run.

mod adapt;
mod again;
mod authority;
mod case;
mod client;
mod corefile;
mod generate;
mod http;
mod primary;
mod random;
mod report;
mod run;
mod server;
mod streams;
mod transports;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use self::case::Case;
use self::run::{Bench, CaseReport};
use self::server::PortPool;
use self::transports::{Certificate, Transport};
use crate::{peers, repo};
use nodens_judge::differences::{CONFORMANCE, Differences};

const USAGE: &str = "usage: cargo xtask conformance [--nodens PATH] [--only DIRECTIVE] [--corefile FILE] \
                     [--jobs N] [--show N] [--report FILE] [--seed TEXT] [--keep]";

#[derive(Default)]
struct Options {
    nodens: Option<PathBuf>,
    only: Option<String>,
    corefile: Option<PathBuf>,
    jobs: Option<usize>,
    show: Option<usize>,
    report: Option<PathBuf>,
    seed: String,
    keep: bool,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self> {
        let mut options = Options::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            if arg == "--keep" {
                options.keep = true;
                continue;
            }
            let value = args.next().with_context(|| format!("{arg} needs a value\n{USAGE}"))?;
            match arg.as_str() {
                "--nodens" => options.nodens = Some(std::path::absolute(value)?),
                "--only" => options.only = Some(value.clone()),
                "--corefile" => options.corefile = Some(PathBuf::from(value)),
                "--jobs" => options.jobs = Some(value.parse().context("--jobs")?),
                "--show" => options.show = Some(value.parse().context("--show")?),
                "--seed" => options.seed.clone_from(value),
                "--report" => options.report = Some(PathBuf::from(value)),
                _ => bail!("unknown option '{arg}'\n{USAGE}"),
            }
        }
        Ok(options)
    }

    /// True when every case runs, so that a listed difference can be said never to occur.
    fn is_whole(&self) -> bool {
        self.only.is_none() && self.corefile.is_none() && self.seed.is_empty()
    }
}

/// Runs the comparison; true when nothing unexplained was seen.
pub(crate) fn run(args: &[String]) -> Result<bool> {
    let options = Options::parse(args)?;
    let started = Instant::now();
    let coredns = peers::coredns()?;
    let target = repo::target();
    let nodens = match &options.nodens {
        Some(path) => path.clone(),
        None => repo::built_nodens()?,
    };
    let folder = std::env::temp_dir().join(format!("nodens-conformance-{}", std::process::id()));
    let certificate = Arc::new(Certificate::make(&folder)?);
    let encrypted = transports::known(&nodens, &certificate, &folder)?;
    let cases = cases(&options, &encrypted, &certificate)?;
    let document = std::fs::read_to_string(repo::root().join("docs/differences.md"))
        .context("docs/differences.md")?;
    let ports = PortPool::new();
    let bench = Bench {
        coredns,
        nodens,
        upstreams: authority::start(|| ports.take())?,
        ports,
        certificate,
        differences: Differences::parse(&document)
            .context("docs/differences.md")?
            .of_check(CONFORMANCE),
        seed: options.seed.clone(),
        folder,
    };
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let results = run_cases(&bench, &cases, options.jobs.unwrap_or(cores * 2).max(1));
    let results = repeat(&bench, &cases, results);
    eprintln!("conformance took {:.0?}", started.elapsed());
    let transports: Vec<Transport> = Transport::PLAIN.into_iter().chain(encrypted).collect();
    let passed = conclude(&options, &bench, results, &target, &transports)?;
    if !options.keep && passed {
        std::fs::remove_dir_all(&bench.folder)?;
    }
    Ok(passed)
}

/// The cases, and each that has none of its own once more with listeners of the encrypted transports.
fn cases(
    options: &Options,
    encrypted: &[Transport],
    certificate: &Certificate,
) -> Result<Vec<Case>> {
    let mut cases = match &options.corefile {
        Some(path) => vec![case::from_file(path)?],
        None => {
            let mut cases = case::own()?;
            cases.extend(case::readmes()?);
            cases
        }
    };
    if let Some(only) = &options.only {
        cases.retain(|case| case.directive == *only);
    }
    if cases.is_empty() {
        bail!("no Corefile to run");
    }
    let tls = certificate.directive();
    cases.extend(
        cases.iter().filter_map(|case| case.encrypted(encrypted, &tls)).collect::<Vec<_>>(),
    );
    // The slow ones first, so that none is left alone at the end.
    cases.sort_by_key(|case| std::cmp::Reverse((case.settings.pause, case.settings.silence)));
    Ok(cases)
}

/// Runs the cases, several at a time; the results are in the order of the cases.
fn run_cases(bench: &Bench, cases: &[Case], jobs: usize) -> Vec<(String, Result<CaseReport>)> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(cases.len()) {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = run::run(bench, case);
                    if let Ok(mut results) = results.lock() {
                        results.push((case.name.clone(), result));
                        progress(results.len(), cases.len(), &case.name);
                    }
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_default();
    results.sort_by(|a, b| a.0.cmp(&b.0));
    results
}

/// Runs cases that differ or could not be run again, one at a time.
fn repeat(
    bench: &Bench,
    cases: &[Case],
    results: Vec<(String, Result<CaseReport>)>,
) -> Vec<(String, Result<CaseReport>)> {
    let confirmed = results.into_iter().map(|(name, first)| {
        let case = cases.iter().find(|case| case.name == name);
        let run = || run::run(bench, case.context("no such case")?);
        (name, again::confirm(first, run))
    });
    confirmed.collect()
}

fn progress(done: usize, all: usize, name: &str) {
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        let _ = write!(stderr, "\r\x1b[K{done}/{all} {name}");
        if done == all {
            let _ = writeln!(stderr);
        }
    } else if done.is_multiple_of(20) || done == all {
        let _ = writeln!(stderr, "{done}/{all} Corefiles");
    }
}

/// Prints and writes what the run came to, the worst last; true when nothing is unexplained and every case could be
/// run.
fn conclude(
    options: &Options,
    bench: &Bench,
    results: Vec<(String, Result<CaseReport>)>,
    target: &Path,
    transports: &[Transport],
) -> Result<bool> {
    let (mut reports, mut broken) = (Vec::new(), Vec::new());
    for (name, result) in results {
        match result {
            Ok(report) => reports.push(report),
            Err(error) => broken.push(format!("{name}: could not be run: {error:#}")),
        }
    }
    println!("\n{}", report::table(&reports));
    let compared = report::transports(&reports);
    for transport in transports {
        let count = compared.get(transport.name()).copied().unwrap_or(0);
        println!("compared over {}: {count}", transport.name());
        if count == 0 && options.is_whole() {
            broken.push(format!("nothing was compared over {}", transport.name()));
        }
    }
    print!("{}", report::explained(&reports));
    if options.is_whole() {
        for id in report::stale(&reports, &bench.differences) {
            println!("docs/differences.md: `{id}` did not occur: is it still so?");
        }
    }
    let path = match &options.report {
        Some(path) => path.clone(),
        None => target.join("conformance.json"),
    };
    let json = serde_json::to_string_pretty(&report::json(&reports, &bench.differences))?;
    std::fs::write(&path, json).with_context(|| path.display().to_string())?;
    println!("report: {}", path.display());
    let differing = reports.iter().map(|report| report.unexplained.len()).sum::<usize>();
    let failed = broken.len() + differing;
    if options.keep || failed > 0 {
        println!("Corefiles and logs: {}", bench.folder.display());
    }
    print!("{}", report::once(&reports));
    print!("{}", report::unexplained(&reports, options.show));
    for line in broken {
        println!("{line}");
    }
    let passed = reports.iter().map(CaseReport::passed).sum::<usize>();
    println!("{passed} passed, {failed} failed");
    Ok(failed == 0)
}
