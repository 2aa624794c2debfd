//! `nodens-lab load`: queries to one server, and their outcome.

mod baseline;
mod cost;
pub(crate) mod line;
pub(crate) mod live;
pub(crate) mod output;
pub(crate) mod prometheus;
mod questions;
mod require;
mod slo;
pub(crate) mod summary;
mod transport;
pub(crate) mod workers;

pub(crate) use output::check as check_place;
pub(crate) use require::escape;

use crate::export::Kept;
use crate::server::Server;
use crate::term::{self, Style};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use lab_load::run::{check_clients, clients_needed};
use lab_load::schedule::{Arrivals, Profile};
use lab_load::{Config, Observer, Pace, Progress, Spin, Stamps, Workload, sources};
use lab_result::collect::Collector;
use lab_result::{About, Generator, ResultFile};
use questions::Questions;
use std::borrow::Cow;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};
use workers::Role;
use workers::start::StartLine;

/// Clients by default.
const CLIENTS: usize = 32;

/// Arguments of `load`.
#[derive(clap::Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Args {
    /// The server: an address or a name, with a port or without, as 10.0.0.10, `[2001:db8::1]:53`,
    /// localhost:1053 or kube-dns.kube-system.svc. Of a name with several addresses the first is used,
    /// and that is said.
    #[arg(short, long, default_value = "127.0.0.1")]
    server: Server,
    /// QPS, sent on schedule whether or not answers come (open loop), as 500 or 20k.
    #[arg(short = 'Q', long, value_name = "RATE", default_value = "1000", value_parser = lab_units::rate)]
    rate: f64,
    /// How queries are spread: uniform, poisson, bursty:SHAPE (Gamma distributed gaps, the lower
    /// the shape the burstier), on-off:ON/OFF (as 100ms/900ms).
    #[arg(long, value_name = "PROCESS", default_value = "poisson", conflicts_with = "closed_loop")]
    arrivals: Arrivals,
    /// One rate after the other instead of one rate: 1000:10s,5k:10s.
    #[arg(long, value_name = "RATE:TIME,…", conflicts_with_all = ["rate", "duration", "closed_loop", "original_timing"])]
    steps: Option<String>,
    /// From one rate to another over the duration: 1000:50k.
    #[arg(long, value_name = "RATE:RATE", conflicts_with_all = ["rate", "steps", "closed_loop", "original_timing"])]
    ramp: Option<String>,
    /// Keep this many queries in flight per client instead of a rate (closed loop, for maxima).
    #[arg(short = 'q', long, value_name = "WINDOW", conflicts_with = "rate")]
    closed_loop: Option<usize>,
    /// How long to send, as 10s or 5min; a bare number is seconds.
    #[arg(short = 'l', long, value_name = "TIME", default_value = "10s", value_parser = lab_units::seconds, conflicts_with = "original_timing")]
    duration: u64,
    /// Stop after this many queries.
    #[arg(short = 'n', long)]
    queries: Option<u64>,
    /// When a query has timed out, as 2s or 500ms; a bare number is seconds.
    #[arg(short, long, value_name = "TIME", default_value = "2s", value_parser = lab_units::seconds)]
    timeout: u64,
    /// Clients, each with a socket or connection of its own [default: 32, or as many as it takes to
    /// have IDs for rate times timeout, in all and for each client of a capture].
    #[arg(short, long)]
    clients: Option<usize>,
    /// Addresses that clients send from, in turn: 127.0.0.2-127.0.0.9, 10.0.0.0/28, lists of them.
    #[arg(long, value_name = "ADDRESSES")]
    source: Option<String>,
    /// Threads.
    #[arg(short = 'T', long, default_value_t = 1)]
    threads: usize,
    /// CPUs to pin the threads to, as 2,3.
    #[arg(long, value_delimiter = ',', value_parser = crate::server::cpu)]
    cpus: Vec<usize>,
    /// What an idle thread does: sleep (as a real client), spin (sharpest stamps, one CPU each).
    #[arg(long, value_enum, default_value = "auto")]
    idle: Idle,
    /// Take the kernel's receive stamps, so that waiting in the socket does not count (UDP).
    #[arg(long)]
    kernel_stamps: bool,
    #[command(flatten)]
    questions: Questions,
    #[command(flatten)]
    slo: slo::SloArgs,
    #[command(flatten)]
    require: require::RequireArgs,
    /// Seed of everything random: the same seed is the same plan.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Do not ask the server for its version (version.bind. TXT CH) before the load.
    #[arg(long)]
    no_version: bool,
    #[command(flatten)]
    transport: transport::TransportArgs,
    #[command(flatten)]
    baseline: baseline::BaselineArgs,
    #[command(flatten)]
    cost: cost::CostArgs,
    #[command(flatten)]
    workers: workers::WorkerArgs,
    #[command(flatten)]
    output: output::OutArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum Idle {
    Auto,
    Sleep,
    Spin,
}

pub(crate) fn run(args: &Args, stop: &AtomicBool) -> Result<ExitCode> {
    if let Some(manifest) = args.workers.manifest()? {
        term::out(manifest.trim_end());
        return Ok(ExitCode::SUCCESS);
    }
    let role = args.workers.role()?;
    if matches!(role, Role::Parent(_)) && args.questions.reads_standard_input() {
        bail!("--workers: every process reads all queries, which standard input gives only once");
    }
    let mut config = config(args)?;
    config.worker = role.worker();
    check_clients(&config)?;
    let questions = questions::Run {
        seed: args.seed,
        clients: config.clients,
        wanted: args.queries.map_or(planned(&config), |queries| queries as f64),
    };
    let mut workload = Cow::Owned(args.questions.workload(&questions)?);
    if args.questions.follow_times(&workload, &mut config) {
        config.clients = clients(args, &config)?;
    }
    if args.slo.slo.is_none() {
        let needed = args.questions.split_clients(&mut workload, &config);
        config.clients = args.clients.unwrap_or(needed);
    }
    if let Role::Worker(part) = role {
        return workers::work(args, &part, (&config, &workload), stop);
    }
    let places = args.output.places(config.server, args.require.report())?;
    args.require.check()?;
    if args.slo.slo.is_none() {
        lab_load::run::check(&config, &workload)?;
    }
    if let Role::Parent(workers) = role {
        return workers::share(args, workers, (&config, &workload), &places, stop);
    }
    let cost = args.cost.open()?;
    let collector = Collector::start(config.server, !args.no_version, args.questions.key());
    if !args.output.json {
        term::out(&heading(args, &config, &workload));
    }
    let warm_up = args.questions.warm_up(&config, &workload, stop)?;
    if let Some(objective) = &args.slo.slo {
        let about = about(args, collector, &workload, warm_up);
        return slo::search(args, objective, (&config, &workload), about, &places, stop);
    }
    let metrics = args.output.metrics(config.server)?;
    let start = if let Role::Alone(start) = role { start } else { StartLine::Now };
    let quiet = args.output.quiet;
    let live = live::Live::new(view(&config));
    let mut watch = Watch { cost, metrics, live, start, stop, quiet };
    let (outcome, baseline) = args.baseline.run((&config, &workload), stop, &mut watch)?;
    watch.live.clear();
    let about = about(args, collector, &workload, warm_up);
    let mut result = lab_result::convert(&config, &outcome, about);
    result.baseline = baseline.as_ref().map(lab_result::Baseline::from);
    watch.cost.put(&mut result);
    result.requirements = args.require.judge(&result);
    tell(args, &result, &places)?;
    Ok(ExitCode::from(exit(&outcome, &result)))
}

/// Prints the result and puts it where it was to go.
fn tell(args: &Args, result: &ResultFile, places: &output::Places) -> Result<()> {
    if args.output.json {
        term::out(lab_result::to_json(result).trim_end());
    } else {
        term::out(&summary::text(result, term::width()));
    }
    // A report that cannot be written must not cost the result.
    let written = [places.write(Kept::Load(result)), args.require.write(result)];
    let failures: Vec<_> =
        written.into_iter().filter_map(Result::err).map(|error| format!("{error:#}")).collect();
    anyhow::ensure!(failures.is_empty(), "{}", failures.join("; "));
    Ok(())
}

/// What is done while a load runs.
struct Watch<'a> {
    cost: cost::Cost,
    metrics: Option<prometheus::Endpoint>,
    live: live::Live,
    start: StartLine,
    stop: &'a AtomicBool,
    quiet: bool,
}

impl Observer for Watch<'_> {
    fn opening(&mut self, opened: u64, all: u64) {
        if !self.quiet {
            self.live.opening(opened, all);
        }
    }

    fn start(&mut self) -> Result<Option<SystemTime>, String> {
        // What the server does while others are waited for is no cost of the load.
        let start = self.start.agree(self.stop, self.cost.ahead());
        self.cost.begin();
        start
    }

    fn second(&mut self, progress: &Progress) {
        self.cost.look();
        self.metrics.iter_mut().for_each(|metrics| metrics.add(progress));
        if !self.quiet {
            self.live.show(progress);
        }
    }

    fn over(&mut self) {
        self.cost.end();
    }
}

/// What became of the run, the gravest first.
fn exit(outcome: &lab_load::Outcome, result: &ResultFile) -> u8 {
    match outcome {
        outcome if outcome.interrupted => crate::EXIT_INTERRUPTED,
        outcome if outcome.nothing_listens() => crate::EXIT_NOTHING_LISTENS,
        outcome if !outcome.verdict.is_valid() => crate::EXIT_INVALID,
        _ if !require::is_met(result) => crate::EXIT_REQUIREMENT,
        _ => 0,
    }
}

/// What a result says besides its numbers.
fn about(args: &Args, collector: Collector, workload: &Workload, warm_up: Option<String>) -> About {
    About {
        generator: Generator {
            name: "nodens-lab".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        provenance: collector.finish(),
        workload: lab_result::Workload {
            source: [Some(args.questions.source()), warm_up]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join("; "),
            questions: workload.period().map(|_| workload.len() as u64),
            period: workload.period(),
        },
    }
}

fn view(config: &Config) -> live::View {
    let rate = match config.pace {
        Pace::Open { rate, .. } => Some(rate),
        Pace::Closed { .. } => None,
    };
    let name = format!("{} {}", config.server, transports(config));
    live::View::new(name, config.duration.as_secs_f64(), rate)
}

fn config(args: &Args) -> Result<Config> {
    let pace = match args.closed_loop {
        Some(window) => Pace::Closed { window },
        None => Pace::Open { rate: args.rate, arrivals: args.arrivals },
    };
    let duration = Duration::from_nanos(args.duration);
    let profile = match (&args.steps, &args.ramp) {
        (Some(steps), _) => Profile::steps(steps).context("--steps")?,
        (None, Some(ramp)) => Profile::ramp(ramp, args.duration).context("--ramp")?,
        (None, None) => Profile::Constant,
    };
    if args.kernel_stamps {
        args.transport.expect_udp("--kernel-stamps")?;
    }
    let (transport, server, mix, streams) = args.transport.read(&args.server)?;
    let mut config = Config {
        server,
        transport,
        mix,
        streams,
        pace,
        profile: Profile::Constant,
        duration,
        queries: args.queries,
        timeout: Duration::from_nanos(args.timeout),
        clients: 0,
        sources: args.source.as_deref().map_or(Ok(Vec::new()), sources::parse)?,
        threads: args.threads,
        cpus: args.cpus.clone(),
        spin: match args.idle {
            Idle::Auto => Spin::Auto,
            Idle::Sleep => Spin::Never,
            Idle::Spin => Spin::Always,
        },
        stamps: if args.kernel_stamps { Stamps::Kernel } else { Stamps::User },
        seed: args.seed,
        local_port: None,
        fates: None,
        worker: None,
    };
    config.follow(profile);
    config.clients = clients(args, &config)?;
    Ok(config)
}

/// As many clients as were asked for, or as IDs and the threads of all workers take.
fn clients(args: &Args, config: &Config) -> Result<usize> {
    let threads = args.workers.count()?.saturating_mul(args.threads);
    let needed = clients_needed(config.peak_rate(), config.timeout);
    Ok(args.clients.unwrap_or_else(|| CLIENTS.max(needed).max(threads)))
}

/// Queries of the whole run; a closed loop asks as many as are answered.
fn planned(config: &Config) -> f64 {
    match config.pace {
        Pace::Open { rate, .. } => rate * config.duration.as_secs_f64(),
        Pace::Closed { .. } => 0.0,
    }
}

/// The transport, or the mix of them, and what connections are like if that was asked for.
fn transports(config: &Config) -> String {
    let mix: Vec<_> = config.mix.iter().map(|s| format!("{}={}", s.transport, s.weight)).collect();
    let names = if mix.is_empty() { config.transport.to_string() } else { mix.join(",") };
    if config.streams.life.is_endless() {
        return names;
    }
    format!("{names} ({})", config.streams.life)
}

fn heading(args: &Args, config: &Config, workload: &Workload) -> String {
    let title = format!("{} {}", config.server, transports(config));
    let title = term::paint(Style::Bold, &title);
    let queries = workload.period().map_or("no query twice".to_owned(), |_| {
        format!("{} different queries", term::count(workload.len() as u64))
    });
    format!("{title}  {}, {queries}", plan(args, config))
}

/// At which rate, for how long and from how many clients; a search finds the rate and the clients.
fn plan(args: &Args, config: &Config) -> String {
    let (seconds, clients) = (config.duration.as_secs_f64(), config.clients);
    let pace = match (&args.slo.slo, &config.pace) {
        (Some(objective), _) => return args.slo.plan(objective, args.arrivals),
        (None, Pace::Open { rate, arrivals }) => {
            let profile = match &config.profile {
                Profile::Constant => String::new(),
                changing => format!(", {changing}"),
            };
            format!("{}/s {arrivals}{profile}", term::rate(*rate))
        }
        (None, Pace::Closed { window }) => format!("{window} in flight per client"),
    };
    format!("{pace}, {seconds} s, {clients} clients")
}
