//! `nodens-lab load`: questions to one server, and what became of them.

mod live;
mod output;
mod questions;
mod summary;

use crate::term::{self, Style};
use anyhow::{Context, Result};
use clap::ValueEnum;
use lab_load::schedule::Arrivals;
use lab_load::{Config, Pace, Spin, Stamps, Transport, Workload};
use lab_result::collect::Collector;
use lab_result::{About, Generator};
use questions::Questions;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Arguments of `load`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Address of the server.
    #[arg(short, long, default_value = "127.0.0.1")]
    server: IpAddr,
    /// Port of the server.
    #[arg(short, long, default_value_t = 53)]
    port: u16,
    /// Transport.
    #[arg(short, long, value_enum, default_value = "udp")]
    mode: Mode,
    /// Questions a second, sent on schedule whether or not answers come (open loop).
    #[arg(short = 'Q', long, default_value_t = 1_000.0)]
    rate: f64,
    /// How the questions of a second are spread.
    #[arg(long, value_enum, default_value = "poisson")]
    arrivals: Spread,
    /// Keep this many questions in flight per client instead of a rate (closed loop, for maxima).
    #[arg(short = 'q', long, value_name = "WINDOW", conflicts_with = "rate")]
    closed_loop: Option<usize>,
    /// Seconds to send for.
    #[arg(short = 'l', long, default_value_t = 10.0)]
    duration: f64,
    /// Stop after this many questions.
    #[arg(short = 'n', long)]
    queries: Option<u64>,
    /// Seconds until a question is given up.
    #[arg(short, long, default_value_t = 2.0)]
    timeout: f64,
    /// Clients, each with a socket or connection of its own.
    #[arg(short, long, default_value_t = 32)]
    clients: usize,
    /// Threads.
    #[arg(short = 'T', long, default_value_t = 1)]
    threads: usize,
    /// CPUs to pin the threads to, as 2,3.
    #[arg(long, value_delimiter = ',')]
    cpus: Vec<usize>,
    /// What an idle thread does: sleep (as a real client), spin (sharpest stamps, one CPU each).
    #[arg(long, value_enum, default_value = "auto")]
    idle: Idle,
    /// Take the kernel's receive stamps, so that waiting in the socket does not count (UDP).
    #[arg(long)]
    kernel_stamps: bool,
    #[command(flatten)]
    questions: Questions,
    /// Seed of everything random: the same seed is the same plan.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Do not ask the server for its version (version.bind. TXT CH) before the load.
    #[arg(long)]
    no_version: bool,
    #[command(flatten)]
    output: output::OutArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum Mode {
    Udp,
    Tcp,
}

#[derive(Clone, Copy, ValueEnum)]
enum Spread {
    Uniform,
    Poisson,
}

#[derive(Clone, Copy, ValueEnum)]
enum Idle {
    Auto,
    Sleep,
    Spin,
}

pub(crate) fn run(args: &Args, stop: &AtomicBool) -> Result<ExitCode> {
    let config = config(args)?;
    let questions = questions::Run {
        seed: args.seed,
        clients: args.clients,
        wanted: args.queries.map_or(args.rate * args.duration, |queries| queries as f64),
    };
    let workload = args.questions.workload(&questions)?;
    let place = args.output.place(config.server)?;
    let collector = Collector::start(config.server, !args.no_version);
    if !args.output.json {
        term::out(&heading(args, &config, &workload));
    }
    let warm_up = args.questions.warm_up(&config, &workload, stop)?;
    let mut live = live::Live::new(view(args, &config));
    let outcome = lab_load::run(&config, &workload, stop, |progress| live.show(progress))?;
    live.clear();
    let about = About {
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
    };
    let result = lab_result::convert(&config, &outcome, about);
    if args.output.json {
        term::out(lab_result::to_json(&result).trim_end());
    } else {
        term::out(&summary::text(&result, term::width()));
    }
    place.write(&result, args.output.json)?;
    let code = if result.verdict.valid { 0 } else { crate::EXIT_INVALID };
    Ok(ExitCode::from(code))
}

fn view(args: &Args, config: &Config) -> live::View {
    let rate = match config.pace {
        Pace::Open { rate, .. } => Some(rate),
        Pace::Closed { .. } => None,
    };
    let transport = format!("{:?}", config.transport).to_lowercase();
    live::View::new(format!("{} {transport}", config.server), args.duration, rate)
}

fn config(args: &Args) -> Result<Config> {
    let seconds = |value: f64, what: &str| {
        Duration::try_from_secs_f64(value).with_context(|| format!("{what} of {value} seconds"))
    };
    let arrivals = match args.arrivals {
        Spread::Uniform => Arrivals::Uniform,
        Spread::Poisson => Arrivals::Poisson,
    };
    let pace = match args.closed_loop {
        Some(window) => Pace::Closed { window },
        None => Pace::Open { rate: args.rate, arrivals },
    };
    Ok(Config {
        server: SocketAddr::new(args.server, args.port),
        transport: match args.mode {
            Mode::Udp => Transport::Udp,
            Mode::Tcp => Transport::Tcp,
        },
        pace,
        duration: seconds(args.duration, "a duration")?,
        queries: args.queries,
        timeout: seconds(args.timeout, "a timeout")?,
        clients: args.clients,
        threads: args.threads,
        cpus: args.cpus.clone(),
        spin: match args.idle {
            Idle::Auto => Spin::Auto,
            Idle::Sleep => Spin::Never,
            Idle::Spin => Spin::Always,
        },
        stamps: if args.kernel_stamps { Stamps::Kernel } else { Stamps::User },
        seed: args.seed,
    })
}

fn heading(args: &Args, config: &Config, workload: &Workload) -> String {
    let pace = match config.pace {
        Pace::Open { rate, arrivals } => {
            format!("{}/s {}", term::rate(rate), format!("{arrivals:?}").to_lowercase())
        }
        Pace::Closed { window } => format!("{window} in flight per client"),
    };
    let transport = format!("{:?}", config.transport).to_lowercase();
    let title = term::paint(Style::Bold, &format!("{} {transport}", config.server));
    let questions =
        workload.period().map_or("all new".to_owned(), |_| term::count(workload.len() as u64));
    let (seconds, clients) = (args.duration, config.clients);
    format!("{title}  {pace}, {seconds} s, {clients} clients, {questions} questions")
}
