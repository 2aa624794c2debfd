//! `nodens-lab bench`: Nodens and its peers side by side, in one run, on one machine.
//!
//! Each server gets one CPU of its own, the load generator and the upstream get the others. The
//! repeats are interleaved (first repeat of all, second of all, …) and each starts with another
//! server, so that what drifts on the machine hits all of them. CPU cost comes from the scheduler's
//! account of the server's threads and not from sampling.

mod peers;
mod report;

use crate::authority::{Authority, Data};
use crate::child::{Account, Scratch, Server, free_address};
use crate::term::{self, Live, Style};
use anyhow::{Context, Result, bail};
use lab_load::schedule::Arrivals;
use lab_load::{Config, Outcome, Pace, Spin, Workload};
use nodens_wire::{Name, Type};
use peers::{Peer, Setup};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Different names of the cache-hit measurement.
const NAMES: usize = 10_000;
/// Questions in flight at the maximum, over all clients: more would overflow the receive buffer
/// that Linux gives a server by default.
const IN_FLIGHT: usize = 128;
const CLIENTS: usize = 32;
/// The part of a server's CPU that others may take.
const ROBBED: f64 = 0.05;
/// How busy the upstream may be before it is the limit.
const UPSTREAM_BUSY: f64 = 0.85;
/// How long filling a cache may take.
const WARM_MAX: Duration = Duration::from_secs(30);
/// Draws before the order of names repeats.
const ORDER_LEN: usize = 1 << 18;

/// Arguments of `bench`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The Nodens program (default: beside this one).
    #[arg(long, value_name = "PROGRAM")]
    nodens: Option<PathBuf>,
    /// The CoreDNS program (default: where `cargo xtask peers` puts it, or in PATH).
    #[arg(long, value_name = "PROGRAM")]
    coredns: Option<PathBuf>,
    /// Servers to measure.
    #[arg(long, value_delimiter = ',', default_value = "echo,nodens,coredns,unbound,dnsdist")]
    servers: Vec<String>,
    /// Repeats of everything.
    #[arg(short, long, default_value_t = 3)]
    repeats: usize,
    /// Seconds of each measurement.
    #[arg(short = 'l', long, default_value_t = 3.0)]
    seconds: f64,
    /// Questions a second of the latency measurement, the same for all.
    #[arg(short = 'Q', long, default_value_t = 10_000.0)]
    rate: f64,
    /// How often a measurement is taken again because others used the server's CPU.
    #[arg(long, default_value_t = 2)]
    retries: usize,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Directory for the table in Markdown and the numbers in JSON.
    #[arg(short, long, default_value = "target/bench")]
    out: PathBuf,
}

/// What is measured, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    /// The most questions a second, one name.
    OneName,
    /// The most questions a second, [`NAMES`] names.
    ManyNames,
    /// The most questions a second, no name twice.
    Misses,
    /// Latency at the given rate, [`NAMES`] names.
    Rate,
}

impl Cell {
    const ALL: [Self; 4] = [Self::OneName, Self::ManyNames, Self::Misses, Self::Rate];

    fn name(self) -> &'static str {
        match self {
            Self::OneName => "hits, 1 name",
            Self::ManyNames => "hits, 10,000 names",
            Self::Misses => "misses",
            Self::Rate => "latency",
        }
    }
}

/// One measurement.
struct Sample {
    server: &'static str,
    repeat: usize,
    cell: Cell,
    /// How often it was measured until others left the server its CPU; the best such is kept.
    tries: usize,
    outcome: Outcome,
    /// What the server's threads did meanwhile.
    account: Account,
    /// What the upstream's thread did meanwhile.
    upstream: Account,
    /// Questions that the upstream was asked meanwhile.
    asked: u64,
    /// Octets of memory that the server held afterwards.
    resident: Option<u64>,
}

impl Sample {
    fn rate(&self) -> f64 {
        self.outcome.answer_rate()
    }

    /// Microseconds of CPU per answer.
    fn cost(&self) -> f64 {
        self.account.ran.as_secs_f64() * 1e6 / (self.outcome.tally.counts.answered as f64).max(1.0)
    }

    /// The part of the time that other processes had the server's CPU while it wanted to run.
    fn robbed(&self) -> f64 {
        let elapsed = self.outcome.elapsed.as_secs_f64().max(1e-9);
        let waited = self.account.waited.as_secs_f64() / elapsed;
        // A server with several threads on one CPU also waits for its own.
        waited.min(1.0 - self.account.ran.as_secs_f64() / elapsed).max(0.0)
    }

    /// The part of the answers that took a question to the upstream.
    fn miss_rate(&self) -> f64 {
        self.asked as f64 / (self.outcome.tally.counts.answered as f64).max(1.0)
    }

    /// The part of the time that the upstream had work; near 1 it was the limit and not the server.
    fn upstream_busy(&self) -> f64 {
        let time = self.upstream.ran + self.upstream.waited;
        time.as_secs_f64() / self.outcome.elapsed.as_secs_f64().max(1e-9)
    }

    /// Whether others took too much of the CPU: a fault of the machine and not of the server.
    fn is_spoilt(&self) -> bool {
        self.robbed() > ROBBED
    }
}

/// Who runs where.
struct Cpus {
    server: Vec<usize>,
    upstream: Vec<usize>,
    load: Vec<usize>,
    /// What a reader must know if there are too few.
    shared: bool,
}

impl Cpus {
    fn choose() -> Result<Self> {
        let all = lab_sys::cpu::allowed().context("cannot read the allowed CPUs")?;
        Ok(match &all[..] {
            [server, upstream, load @ ..] if !load.is_empty() => Self {
                server: vec![*server],
                upstream: vec![*upstream],
                load: load.iter().take(2).copied().collect(),
                shared: false,
            },
            [server, rest @ ..] if !rest.is_empty() => {
                let rest = rest.to_vec();
                Self { server: vec![*server], upstream: rest.clone(), load: rest, shared: true }
            }
            _ => Self { server: all.clone(), upstream: all.clone(), load: all, shared: true },
        })
    }
}

struct Bench<'a> {
    args: &'a Args,
    stop: &'a AtomicBool,
    cpus: Cpus,
    scratch: Scratch,
    upstream: Authority,
    one: Workload,
    many: Workload,
    warm: Workload,
}

pub(crate) fn run(args: &Args, stop: &AtomicBool) -> Result<ExitCode> {
    if args.repeats == 0 || args.seconds.is_nan() || args.seconds < 0.1 || args.rate < 1.0 {
        bail!("expected at least one repeat, 0.1 seconds and one question a second");
    }
    let (found, missing) =
        peers::find(&args.servers, args.nodens.as_deref(), args.coredns.as_deref())?;
    for (name, why) in &missing {
        term::out(&term::paint(Style::Bad, &format!("{name} is missing: {why}")));
    }
    if found.is_empty() {
        bail!("none of the servers is here");
    }
    let cpus = Cpus::choose()?;
    let none = Duration::ZERO..Duration::ZERO;
    let upstream = Authority::start(Data::Everything, none, &cpus.upstream)?;
    let (one, many, warm) = workloads(args.seed)?;
    let scratch = Scratch::new()?;
    let bench = Bench { args, stop, cpus, scratch, upstream, one, many, warm };
    let samples = bench.measure(&found)?;
    report::write(&bench, &found, &missing, &samples)?;
    Ok(ExitCode::SUCCESS)
}

/// One name; many names at random; the same many names in turn.
fn workloads(seed: u64) -> Result<(Workload, Workload, Workload)> {
    let mut one = Workload::new(seed);
    one.push(Name::parse("n00000.bench.example")?.view(), Type::A, None);
    let mut warm = Workload::new(seed);
    for n in 0..NAMES {
        warm.push(Name::parse(&format!("n{n:05}.bench.example"))?.view(), Type::A, None);
    }
    let mut many = warm.clone();
    many.shuffle(ORDER_LEN);
    Ok((one, many, warm))
}

impl Bench<'_> {
    fn measure(&self, peers: &[Peer]) -> Result<Vec<Sample>> {
        let live = Live::new();
        let mut samples = Vec::new();
        let all = self.args.repeats * peers.len();
        for repeat in 0..self.args.repeats {
            for at in 0..peers.len() {
                let Some(peer) = peers.get((at + repeat) % peers.len()) else { continue };
                let done = (repeat * peers.len() + at) as f64;
                let place = format!("repeat {} of {}", repeat + 1, self.args.repeats);
                self.server(peer, repeat, &mut samples, |cell| {
                    let text = format!("{place}: {}, {}", peer.name, cell.name());
                    let part = Cell::ALL.iter().position(|c| *c == cell).unwrap_or(0) as f64;
                    live.show(done + part / Cell::ALL.len() as f64, all as f64, &text);
                })
                .with_context(|| format!("{place}: {}", peer.name))?;
            }
        }
        Ok(samples)
    }

    /// Starts one server, measures all cells, and ends it.
    fn server(
        &self,
        peer: &Peer,
        repeat: usize,
        samples: &mut Vec<Sample>,
        show: impl Fn(Cell),
    ) -> Result<()> {
        let address = free_address()?;
        let setup = Setup { address, metrics: free_address()?, upstream: self.upstream.address };
        let mut command = peer.command(&setup, &self.scratch)?;
        let log = self.scratch.path().join(format!("{}-{repeat}.log", peer.name));
        let mut server = Server::start(peer.name, &mut command, &self.cpus.server, &log)?;
        server.await_answer(address, &Name::parse("ready.bench.example")?, self.stop)?;
        self.load(Cell::ManyNames, address, &self.warm, Some(2 * NAMES as u64))?;
        for cell in Cell::ALL {
            if cell == Cell::Misses && !peer.caches {
                continue;
            }
            show(cell);
            samples.push(self.sample((peer.name, repeat, cell), &server, address)?);
        }
        Ok(())
    }

    /// Measures one cell, again if others used the server's CPU, and keeps the least disturbed.
    fn sample(
        &self,
        (name, repeat, cell): (&'static str, usize, Cell),
        server: &Server,
        address: SocketAddr,
    ) -> Result<Sample> {
        let mut best: Option<Sample> = None;
        for tries in 1..=self.args.retries + 1 {
            // Other names each time: those of an earlier try are in the cache now.
            let seed = self.args.seed + 1_000 * repeat as u64 + tries as u64;
            let suffix = Name::parse("miss.bench.example")?;
            let unique = Workload::unique(seed, suffix.view(), Type::A)?;
            let workload = match cell {
                Cell::OneName => &self.one,
                Cell::ManyNames | Cell::Rate => &self.many,
                Cell::Misses => &unique,
            };
            let (before, upstream) = (server.account()?, self.upstream.account());
            let asked = self.upstream.questions();
            let outcome = self.load(cell, address, workload, None)?;
            let account = server.account()?.since(before);
            let upstream = self.upstream.account().since(upstream);
            let asked = self.upstream.questions() - asked;
            let (server, resident) = (name, server.resident());
            let sample =
                Sample { server, repeat, cell, tries, outcome, account, upstream, asked, resident };
            let done = !sample.is_spoilt();
            best = match best {
                Some(best) if best.robbed() <= sample.robbed() => Some(Sample { tries, ..best }),
                _ => Some(sample),
            };
            if done {
                break;
            }
        }
        best.context("nothing was measured")
    }

    fn load(
        &self,
        cell: Cell,
        server: SocketAddr,
        workload: &Workload,
        queries: Option<u64>,
    ) -> Result<Outcome> {
        let closed = Pace::Closed { window: IN_FLIGHT / CLIENTS };
        let open = Pace::Open { rate: self.args.rate, arrivals: Arrivals::Poisson };
        let config = Config {
            pace: if cell == Cell::Rate { open } else { closed },
            // Warming ends with its questions and not with its time.
            duration: queries.map_or(Duration::from_secs_f64(self.args.seconds), |_| WARM_MAX),
            queries,
            timeout: Duration::from_millis(500),
            clients: CLIENTS,
            threads: if cell == Cell::Rate { 1 } else { self.cpus.load.len() },
            cpus: self.cpus.load.clone(),
            spin: if self.cpus.shared { Spin::Never } else { Spin::Always },
            seed: self.args.seed,
            ..Config::new(server, self.args.rate)
        };
        let outcome = lab_load::run(&config, workload, self.stop, |_| {})?;
        if self.stop.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        Ok(outcome)
    }
}
