//! A load by several processes: those of this machine (`--workers`), or each by itself (`--worker`), as
//! the Pods of an Indexed Job.

mod clock;
mod job;
mod local;
pub(super) mod start;
mod token;

use super::live::Live;
use super::output::Places;
use super::{Args, Watch};
use crate::term;
use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use lab_load::{Config, Worker, Workload};
use lab_result::ResultFile;
use lab_result::collect::Collector;
use start::{Asking, StartLine};
use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use token::Token;

/// How many processes a load can be shared among on one machine.
const LOCAL_MAX: u64 = 256;
/// Where a process finds which worker it is, and whom it asks for the start, if another one started it:
/// `K/N http://HOST:PORT/TOKEN`.
const STARTED_AS: &str = "NODENS_LAB_WORKER";
/// Where a Pod of an Indexed Job finds its number.
const POD_INDEX: &str = "JOB_COMPLETION_INDEX";

/// Arguments on several processes.
#[derive(clap::Args)]
#[command(next_help_heading = "Several processes")]
pub(super) struct WorkerArgs {
    /// Share the load among this many processes on this machine; the result is their sum.
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..=LOCAL_MAX),
        conflicts_with_all = ["worker", "slo", "baseline", "baseline_at", "server_counters", "prometheus"]
    )]
    workers: Option<u64>,
    /// Be one of several workers that share the load: 0/4 to 3/4. Without a slash (4), which one is the
    /// number of the Pod in its Indexed Job. The result is a line on standard output, for `merge`.
    #[arg(
        long,
        value_name = "K/N",
        conflicts_with_all = ["slo", "baseline", "baseline_at", "server_counters"]
    )]
    worker: Option<String>,
    /// Whom a worker asks for the common start, and by how much its clock is off. Worker 0 itself
    /// answers at this port, and only to those that know TOKEN: a secret that all workers are given, of
    /// 16 to 64 letters and digits.
    #[arg(
        long,
        value_name = "http://HOST:PORT/TOKEN",
        requires = "worker",
        conflicts_with = "start_at"
    )]
    start_from: Option<start::Desk>,
    /// The address of this machine at which worker 0 answers [default: all].
    #[arg(long, value_name = "ADDRESS", requires = "start_from")]
    start_listen: Option<IpAddr>,
    /// When to start by the clock of this machine, as 2026-11-24T08:00:00Z.
    #[arg(long, value_name = "TIME", conflicts_with_all = ["slo", "baseline", "baseline_at"])]
    start_at: Option<Timestamp>,
    /// Print the manifest of an Indexed Job of Kubernetes that does this load with --workers Pods of this
    /// image, and do nothing else.
    #[arg(long, value_name = "IMAGE", requires = "workers")]
    print_job: Option<String>,
}

/// What this process is.
pub(super) enum Role {
    /// It does the whole load.
    Alone(StartLine),
    /// It has so many others do it.
    Parent(usize),
    /// It does a part, and starts with the others.
    Worker(Part),
}

/// One worker's part.
pub(super) struct Part {
    pub(super) worker: Worker,
    line: LineArgs,
    /// Whether another process of this program reads the result.
    pub(super) is_child: bool,
}

/// How a start is agreed on.
enum LineArgs {
    From { desk: start::Desk, opens: Option<Opens> },
    At(Timestamp),
}

/// Where the worker that tells the start answers: at an address, or at all.
struct Opens(Option<IpAddr>);

impl Role {
    /// Which part of the clients is this process's; of a parent, as if it did the first one itself.
    pub(super) fn worker(&self) -> Option<Worker> {
        match self {
            Self::Alone(_) => None,
            Self::Parent(workers) => Worker::new(0, *workers).ok(),
            Self::Worker(part) => Some(part.worker),
        }
    }
}

impl WorkerArgs {
    /// How many processes share the plan.
    pub(super) fn count(&self) -> Result<usize> {
        Ok(match self.role()? {
            Role::Alone(_) => 1,
            Role::Parent(workers) => workers,
            Role::Worker(part) => part.worker.of(),
        })
    }

    /// What this process is.
    pub(super) fn role(&self) -> Result<Role> {
        if let Ok(text) = std::env::var(STARTED_AS) {
            return Ok(Role::Worker(started_as(&text)?));
        }
        if let Some(workers) = self.workers {
            return Ok(Role::Parent(workers as usize));
        }
        let Some(text) = &self.worker else {
            return Ok(Role::Alone(self.start_at.map_or(StartLine::Now, StartLine::at)));
        };
        let worker = worker(text, std::env::var(POD_INDEX).ok().as_deref())?;
        let line = match (&self.start_from, self.start_at) {
            (Some(desk), _) => {
                let opens = (worker.index() == 0).then_some(Opens(self.start_listen));
                LineArgs::From { desk: desk.clone(), opens }
            }
            (None, Some(at)) => LineArgs::At(at),
            (None, None) => bail!(
                "--worker {text}: expected --start-from http://HOST:PORT/TOKEN or --start-at TIME, so that all \
                 workers start together"
            ),
        };
        Ok(Role::Worker(Part { worker, line, is_child: false }))
    }

    /// The manifest of a Job, if one was asked for.
    pub(super) fn manifest(&self) -> Result<Option<String>> {
        let (Some(image), Some(workers)) = (&self.print_job, self.workers) else { return Ok(None) };
        let words = std::env::args_os().skip(1).map(|word| word.into_string());
        let words: Result<Vec<_>, _> = words.collect();
        let Ok(words) = words else { bail!("--print-job: an argument is not UTF-8") };
        Ok(Some(job::manifest(image, workers, &words, &Token::new()?)))
    }
}

/// The worker that `text` names; `pod` is the number of the Pod in its Job.
fn worker(text: &str, pod: Option<&str>) -> Result<Worker> {
    if text.contains('/') {
        return Ok(text.parse()?);
    }
    let pod = pod.with_context(|| {
        format!("--worker {text}: {POD_INDEX} is not set, expected K/N outside of an Indexed Job")
    })?;
    format!("{pod}/{text}").parse().with_context(|| format!("{POD_INDEX}={pod}, --worker {text}"))
}

fn started_as(text: &str) -> Result<Part> {
    let error = || format!("{STARTED_AS}={text}: expected `K/N http://HOST:PORT/TOKEN`");
    let (worker, desk) = text.split_once(' ').with_context(error)?;
    let line = LineArgs::From { desk: desk.parse().with_context(error)?, opens: None };
    Ok(Part { worker: worker.parse().with_context(error)?, line, is_child: true })
}

impl Part {
    /// The line at which it waits for the others; worker 0 opens the desk that tells all when to start.
    pub(super) fn line(&self, plan: u64) -> Result<StartLine> {
        match &self.line {
            LineArgs::At(at) => Ok(StartLine::at(*at)),
            LineArgs::From { desk, opens } => {
                if let Some(Opens(address)) = opens {
                    let listener = start::listen(*address, desk.port())?;
                    start::open(listener, desk.token().clone(), self.worker.of())?;
                }
                Ok(StartLine::From(Asking::new(desk, self.worker, plan)))
            }
        }
    }
}

/// Has `workers` processes do the load of this command line, and tells their sum.
pub(super) fn share(
    args: &Args,
    workers: usize,
    (config, workload): (&Config, &Workload),
    places: &Places,
    stop: &AtomicBool,
) -> Result<ExitCode> {
    if !args.output.json {
        let heading = super::heading(args, config, workload);
        term::out(&format!("{heading}, {workers} processes"));
    }
    let (results, missing) = local::run(workers, config, stop)?;
    for (worker, why) in &missing {
        term::note(&format!("nodens-lab: worker {worker} has no result: {why}"));
    }
    if results.is_empty() {
        bail!("no worker has a result");
    }
    let result = lab_result::merge(results, &missing)?;
    super::tell(args, &result, places)?;
    Ok(exit(&result))
}

/// One worker's part of the load; its result is a line on standard output.
pub(super) fn work(
    args: &Args,
    part: &Part,
    (config, workload): (&Config, &Workload),
    stop: &AtomicBool,
) -> Result<ExitCode> {
    lab_load::run::check(config, workload)?;
    // Of what is done once for all, the first worker does it: the start waits for it.
    let is_first = part.worker.index() == 0;
    let ask = is_first && !args.no_version;
    let collector = Collector::start(config.server, ask, args.questions.key());
    let warm_up = if is_first { args.questions.warm_up(config, workload, stop)? } else { None };
    let start = part.line(lab_load::run::plan_hash(config, workload))?;
    let metrics = if part.is_child { None } else { args.output.metrics(config.server)? };
    let live = Live::new(super::view(config));
    let quiet = args.output.quiet;
    let mut watch = Watch { cost: args.cost.open()?, metrics, live, start, stop, quiet };
    let outcome = lab_load::run_watched(config, workload, stop, &mut watch)?;
    watch.live.clear();
    let about = super::about(args, collector, workload, warm_up);
    let mut result = lab_result::convert(config, &outcome, about);
    result.run.clock = watch.start.clock();
    if let Some(why) = watch.start.moved() {
        (result.verdict.valid, result.verdict.only_late) = (false, false);
        result.verdict.invalid_because.push(why);
    }
    result.requirements = args.require.judge(&result);
    term::all(&format!("{}\n", lab_result::to_json_line(&result)))?;
    Ok(part_exit(outcome.interrupted))
}

/// What became of a part that has a result. Only the whole is judged, by `merge`: a Pod that failed
/// would have its Job end the others.
fn part_exit(interrupted: bool) -> ExitCode {
    if interrupted { ExitCode::from(crate::EXIT_INTERRUPTED) } else { ExitCode::SUCCESS }
}

/// What became of a merged run, the gravest first.
pub(crate) fn exit(result: &ResultFile) -> ExitCode {
    let nothing_listens = result.counts.received == 0
        && result.connections.is_none_or(|connections| connections.opened == 0)
        && (result.counts.refused > 0
            || result.connection_fates.as_ref().is_some_and(|fates| fates.refused > 0));
    ExitCode::from(match result {
        result if result.run.interrupted => crate::EXIT_INTERRUPTED,
        _ if nothing_listens => crate::EXIT_NOTHING_LISTENS,
        result if !result.verdict.valid => crate::EXIT_INVALID,
        result if !super::require::is_met(result) => crate::EXIT_REQUIREMENT,
        _ => 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_named_or_is_the_pod_of_its_job() {
        let name = |text, pod| worker(text, pod).map(|worker| worker.to_string());
        assert_eq!(name("1/4", None).unwrap(), "1/4");
        assert_eq!(name("1/4", Some("3")).unwrap(), "1/4");
        assert_eq!(name("4", Some("3")).unwrap(), "3/4");
        for (text, pod, wanted) in [
            ("4", None, "JOB_COMPLETION_INDEX is not set"),
            ("4", Some("4"), "JOB_COMPLETION_INDEX=4"),
            ("4/4", None, "expected a worker, counted from 0"),
            ("x", Some("0"), "--worker x"),
        ] {
            let error = format!("{:#}", name(text, pod).unwrap_err());
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn a_process_that_was_started_knows_its_part() {
        let part = started_as("2/3 http://127.0.0.1:5301/0123456789abcdef").unwrap();
        assert!(part.is_child && part.worker.to_string() == "2/3");
        for text in ["", "2/3", "3/3 http://127.0.0.1:1/0123456789abcdef", "2/3 http://127.0.0.1:1"]
        {
            assert!(started_as(text).is_err(), "{text}");
        }
    }
}
