//! `nodens-lab bench`: Nodens and its peers side by side, in one run, on one machine.
//!
//! Each server gets CPUs of its own, the load generator and the upstream get the others. The
//! repeats are interleaved (first repeat of all, second of all, …) and each starts with another
//! server, so that what drifts on the machine hits all of them. CPU cost comes from the scheduler's
//! account of the server's threads and not from sampling.

mod apiserver;
mod cells;
mod configs;
mod cpus;
mod disturb;
mod encrypted;
mod loads;
mod peers;
mod questions;
mod report;
mod sample;
mod services;
mod tables;
mod veth;
mod zones;

use crate::authority::{Authority, Data};
use crate::child::{Scratch, Server, free_address};
use crate::term::{self, Live, Style};
use anyhow::{Context, Result, bail};
use cells::{Arrangement, Cell};
use configs::Setup;
use cpus::Cpus;
use nodens_wire::Name;
use peers::{Peer, Programs};
use questions::Questions;
use sample::Sample;
use services::Services;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use veth::Pod;
use zones::Zones;

/// How often a server is started until it answers.
const STARTS: usize = 3;
/// Different names of the cache-hit measurements.
const NAMES: usize = 10_000;
/// Different names that fill a cache.
const NAMES_OF_MEMORY: usize = 100_000;
/// The name that the servers know by themselves, and its address.
const INTERNAL: &str = "svc.internal.example.";
const INTERNAL_ADDRESS: &str = "192.0.2.53";
/// Queries in flight at the maximum, over all clients: more would overflow the receive buffer
/// that Linux gives a server by default.
const IN_FLIGHT: usize = 128;
const CLIENTS: usize = 32;
/// Clients that open a connection for each query.
const NEW_AT_ONCE: usize = 128;
/// Fresh connections with pairs of queries.
const PAIR_CONNECTIONS: usize = 40;
/// Connections held to see what each costs.
const HELD: usize = 10_000;
/// Where those come from: more than one address may have, from one.
const SOURCES: &str = "127.0.0.1-127.0.0.8,127.0.1.1-127.0.1.8";
/// QPS at which the CPU use of a node is read.
const LOW_RATE: f64 = 2_000.0;
/// How busy the upstream may be before it is the limit.
const UPSTREAM_BUSY: f64 = 0.85;
/// How long filling a cache may take.
const WARM_MAX: Duration = Duration::from_secs(30);
/// QPS that one load thread sends on time beside what it receives.
const RATE_PER_THREAD: f64 = 200_000.0;

/// Arguments of `bench`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The Nodens program (default: beside this one).
    #[arg(long, value_name = "PROGRAM")]
    nodens: Option<PathBuf>,
    /// The CoreDNS program (default: where `cargo xtask peers` puts it, or in PATH).
    #[arg(long, value_name = "PROGRAM")]
    coredns: Option<PathBuf>,
    /// Servers to measure (default: all that are installed).
    #[arg(long, value_delimiter = ',')]
    servers: Vec<String>,
    /// What to measure (default: everything).
    #[arg(long, value_delimiter = ',', value_parser = Cell::parse)]
    cells: Vec<Cell>,
    /// Repeats of everything.
    #[arg(short, long, default_value_t = 5)]
    repeats: usize,
    /// How long each measurement takes.
    #[arg(short = 'l', long, value_name = "TIME", default_value = "2s", value_parser = lab_units::whole_seconds)]
    seconds: f64,
    /// QPS of the latency measurements, the same for all.
    #[arg(short = 'Q', long, value_name = "RATE", default_value = "20k", value_parser = lab_units::rate)]
    rate: f64,
    /// How often a measurement is repeated because other processes used the server's CPU.
    #[arg(long, default_value_t = 1)]
    retries: usize,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Directory for the table in Markdown and the numbers in JSON.
    #[arg(short, long, default_value = "target/bench")]
    out: PathBuf,
}

struct Bench<'a> {
    args: &'a Args,
    stop: &'a AtomicBool,
    cpus: Cpus,
    scratch: Scratch,
    upstream: Authority,
    services: Services,
    /// Why there is none, for the report.
    pod: Result<Pod, String>,
    questions: Questions,
    zones: Zones,
}

pub(crate) fn run(args: &Args, stop: &AtomicBool) -> Result<ExitCode> {
    if args.repeats == 0 || args.seconds.is_nan() || args.seconds < 0.1 || args.rate < 1.0 {
        bail!("expected at least one repeat, 0.1 seconds and 1 QPS");
    }
    let programs = Programs { nodens: args.nodens.as_deref(), coredns: args.coredns.as_deref() };
    let wanted = if args.servers.is_empty() { peers::names() } else { args.servers.clone() };
    let (found, mut missing) = peers::find(&wanted, &programs)?;
    if found.is_empty() {
        bail!("none of the servers is installed");
    }
    let cpus = Cpus::choose()?;
    let none = Duration::ZERO..Duration::ZERO;
    let upstream = Authority::start(Data::Everything, none, &cpus.upstream)?;
    let (questions, scratch) = (Questions::new(args.seed)?, Scratch::new()?);
    let pod = Pod::new().map_err(|error| format!("{error:#}"));
    if let Err(why) = &pod {
        missing.push(("latency across veth".to_owned(), why.clone()));
    }
    let zones = Zones::prepare(&scratch, args.seed, |arrangement| {
        let mut cells = Cell::ALL.into_iter().filter(|cell| cell.arrangement() == arrangement);
        found.iter().any(|peer| peer.fits(arrangement)) && cells.any(|cell| wants(args, cell))
    })?;
    if let Some(why) = &zones.unsigned {
        missing.push(("signatures of zones".to_owned(), why.clone()));
    }
    for (name, why) in &missing {
        term::out(&term::paint(Style::Bad, &format!("{name} is missing: {why}")));
    }
    let services = Services::start(args.seed)?;
    let bench = Bench { args, stop, cpus, scratch, upstream, services, pod, questions, zones };
    let samples = bench.measure(&found)?;
    report::write(&bench, &found, &missing, &samples)?;
    Ok(ExitCode::SUCCESS)
}

/// Whether a cell was asked for, or none in particular.
fn wants(args: &Args, cell: Cell) -> bool {
    args.cells.is_empty() || args.cells.contains(&cell)
}

/// A name that all servers know.
fn ready_name() -> Result<Name> {
    Ok(Name::parse("ready.bench.example")?)
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
                let show = |arrangement: Arrangement| {
                    let part = Arrangement::ALL.iter().position(|it| *it == arrangement);
                    let part = part.unwrap_or(0) as f64 / Arrangement::ALL.len() as f64;
                    let text = format!("{place}: {}, {arrangement:?}", peer.name);
                    live.show(done + part, all as f64, &text);
                };
                for arrangement in Arrangement::ALL {
                    if self.cells(peer, arrangement).is_empty() {
                        continue;
                    }
                    show(arrangement);
                    self.arrangement(peer, repeat, arrangement, &mut samples)
                        .with_context(|| format!("{place}: {}, {arrangement:?}", peer.name))?;
                }
            }
        }
        Ok(samples)
    }

    /// The wanted cells of an arrangement that make sense for a server.
    fn cells(&self, peer: &Peer, arrangement: Arrangement) -> Vec<Cell> {
        let possible = peer.fits(arrangement)
            && (arrangement != Arrangement::SameCpu || self.pod.is_ok())
            && (arrangement != Arrangement::TwoCpus || !self.cpus.shared)
            && (!arrangement.has_zone() || self.zones.of(arrangement).is_some());
        Cell::ALL
            .into_iter()
            .filter(|cell| possible && cell.arrangement() == arrangement)
            .filter(|cell| wants(self.args, *cell))
            .filter(|cell| peer.measures(*cell))
            .collect()
    }

    fn setup(&self, peer: &Peer, arrangement: Arrangement) -> Result<Setup> {
        let mut address = free_address()?;
        if let (Arrangement::SameCpu, Ok(pod)) = (arrangement, &self.pod) {
            address.set_ip(pod.server());
        }
        let folder = self.scratch.folder(&format!("{}-{arrangement:?}", peer.name))?;
        let lines = if arrangement == Arrangement::Busy { disturb::LINES } else { 0 };
        let hosts = folder.join("hosts");
        std::fs::write(&hosts, disturb::hosts(lines, 0))?;
        Ok(Setup {
            address,
            extra: [free_address()?, free_address()?, free_address()?],
            upstream: self.upstream.address,
            upstream_tls: None,
            threads: self.cpus.of(arrangement).len(),
            connections: if arrangement == Arrangement::Held { HELD + 2_000 } else { 2_000 },
            cached: !matches!(arrangement, Arrangement::Uncached | Arrangement::UncachedKubernetes),
            hosts: arrangement.knows_internal().then_some(hosts),
            watched: arrangement == Arrangement::Busy,
            zone: self.zones.of(arrangement).map(|zone| zone.file.clone()),
            encrypted: arrangement
                .encrypted()
                .map(|transport| self.encrypted(transport))
                .transpose()?,
            services: arrangement.watches_services().then_some(self.services.api.address),
            folder,
        })
    }

    /// Starts one server in one arrangement, with ports of its own, and waits until it answers.
    fn started(
        &self,
        peer: &Peer,
        arrangement: Arrangement,
    ) -> Result<(Setup, Option<Server>, Server)> {
        let mut setup = self.setup(peer, arrangement)?;
        let upstream = arrangement
            .forwards()
            .map(|transport| self.upstream_tls(&mut setup, transport))
            .transpose()?;
        let mut command = peer.command(&setup)?;
        let log = setup.folder.join("log");
        let mut server = Server::start(peer.name, &mut command, &self.cpus.of(arrangement), &log)?;
        server.await_answer(setup.address, &ready_name()?, self.stop)?;
        Ok((setup, upstream, server))
    }

    /// Starts one server in one arrangement, measures its cells, and ends it.
    fn arrangement(
        &self,
        peer: &Peer,
        repeat: usize,
        arrangement: Arrangement,
        samples: &mut Vec<Sample>,
    ) -> Result<()> {
        let mut started = self.started(peer, arrangement);
        // Another program may have taken a port in the meantime: a run of an hour shall not end for it.
        for _ in 1..STARTS {
            if started.is_ok() || self.stop.load(Ordering::Relaxed) {
                break;
            }
            started = self.started(peer, arrangement);
        }
        let (setup, upstream, mut server) = started?;
        if arrangement.watches_services() {
            server.await_answer(setup.address, &self.services.last, self.stop)?;
            self.warm_services(setup.address)?;
        } else if arrangement.has_zone() {
            self.warm_zone(arrangement, setup.address)?;
        } else if !matches!(
            arrangement,
            Arrangement::Memory
                | Arrangement::Uncached
                | Arrangement::Held
                | Arrangement::ForwardDot
                | Arrangement::ForwardDoh
                | Arrangement::ForwardDoq
        ) {
            self.closed(setup.address, &self.questions.warm, Some(2 * NAMES as u64))?;
            self.warm_encrypted(&setup)?;
        }
        let upstream = upstream.as_ref();
        let (name, own) = (peer.name, &setup);
        let under_test = UnderTest { name, repeat, server: &server, upstream, setup: own };
        for cell in self.cells(peer, arrangement) {
            let half = self.half(&under_test, samples);
            let sample = self.sample(&under_test, cell, half);
            samples.push(sample.with_context(|| cell.name())?);
        }
        drop(server);
        // Some caches are files as large as they may ever get.
        _ = std::fs::remove_dir_all(&setup.folder);
        Ok(())
    }

    /// Half of the highest QPS that this server answered, as far as is known by now.
    fn half(&self, under_test: &UnderTest<'_>, samples: &[Sample]) -> f64 {
        let mine = samples.iter().filter(|sample| sample.server == under_test.name);
        let mut rates = mine.filter(|sample| sample.cell == Cell::ManyNames).map(Sample::rate);
        rates.next_back().map_or(self.args.rate, |rate| rate / 2.0)
    }

    /// Measures one cell, again if others used the server's CPU, and keeps the least disturbed.
    fn sample(&self, under_test: &UnderTest<'_>, cell: Cell, half: f64) -> Result<Sample> {
        let mut best: Option<Sample> = None;
        // A cache that is full cannot be filled again, and the memory for connections stays.
        let again = !matches!(cell, Cell::Memory | Cell::TcpIdle);
        let retries = if again { self.args.retries } else { 0 };
        for tries in 1..=retries + 1 {
            let sample = self.try_once(under_test, cell, half, tries)?;
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

    fn try_once(
        &self,
        under_test: &UnderTest<'_>,
        cell: Cell,
        half: f64,
        tries: usize,
    ) -> Result<Sample> {
        let UnderTest { name, repeat, server, upstream, setup } = *under_test;
        let resident = server.resident();
        let busy = || upstream.map_or_else(|| Ok(self.upstream.account()), Server::account);
        let (before, upstream_before) = (server.account()?, busy()?);
        let asked = self.upstream.questions();
        let load = match cell {
            Cell::TcpPair => self.pairs(setup.address)?,
            Cell::TcpIdle => self.held(setup.address, server)?,
            Cell::SameCpu => self.through_pod(setup.address)?,
            Cell::Disturbed => self.disturbed(setup, half)?,
            Cell::Storm => self.under_handshakes(setup)?,
            _ => {
                let own = setup.encrypted.as_ref().filter(|_| cell != Cell::BesideTls);
                let own = own.map_or(setup.address, |own| own.address);
                self.load(cell, own, half, (repeat, tries))?.into()
            }
        };
        Ok(Sample {
            server: name,
            repeat,
            cell,
            tries,
            load,
            cpus: setup.threads,
            account: server.account()?.since(before),
            upstream: busy()?.since(upstream_before),
            asked: self.upstream.questions() - asked,
            resident: (resident, server.resident()),
        })
    }
}

/// A server that runs.
#[derive(Clone, Copy)]
struct UnderTest<'a> {
    name: &'static str,
    repeat: usize,
    server: &'a Server,
    /// The upstream, if it is a process.
    upstream: Option<&'a Server>,
    setup: &'a Setup,
}
