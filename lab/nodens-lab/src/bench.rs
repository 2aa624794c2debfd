//! `nodens-lab bench`: Nodens and its peers side by side, in one run, on one machine.
//!
//! Each server gets CPUs of its own, the load generator and the upstream get the others. The
//! order, what counts as disturbed and what happens then are those of `lab_experiment`: in each repeat
//! all servers are measured in one arrangement after the other, so that what drifts on the machine
//! hits all of them. CPU cost comes from the scheduler's account of the server's threads and not from
//! sampling.

mod apiserver;
mod cells;
mod configs;
mod disturb;
mod encrypted;
mod experiment;
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
use crate::term::{self, Style};
use anyhow::{Result, bail};
use cells::{Arrangement, Cell};
use configs::Setup;
use experiment::{Running, Turn};
use lab_experiment::placement::{Placement, Sharing, Wish};
use nodens_wire::Name;
use peers::{Peer, Programs};
use questions::Questions;
use sample::Sample;
use services::Services;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
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
    /// How often a disturbed measurement is repeated.
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
    /// The server's, the upstream's, and the load's.
    cpus: Placement,
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
    let (mut found, mut missing) = peers::find(&wanted, &programs)?;
    let nodens = peers::find(&["nodens".to_owned()], &programs)?.0.pop();
    if nodens.is_none() && found.iter().any(Peer::wants_lengths) {
        found.retain(|peer| !peer.wants_lengths());
        missing.push((
            "echo-long".to_owned(),
            "its answers are as long as those of nodens".to_owned(),
        ));
    }
    if found.is_empty() {
        bail!("none of the servers is installed");
    }
    let cpus = crate::placed::choose(&Wish { subject: 1..=1, helper: 1..=1, load: 1..=2 })?;
    let none = Duration::ZERO..Duration::ZERO;
    let upstream = Authority::start(Data::Everything, none, &cpus.helper)?;
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
    let mut bench = Bench { args, stop, cpus, scratch, upstream, services, pod, questions, zones };
    if let Some(nodens) = nodens.filter(|_| found.iter().any(Peer::wants_lengths)) {
        bench.measure_lengths(&nodens)?;
    }
    let samples = experiment::measure(&bench, &found)?;
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
    /// Whether the load and the upstream, or all, have to share CPUs.
    fn shares(&self) -> bool {
        self.cpus.sharing != Sharing::None
    }

    /// The wanted cells of an arrangement that make sense for a server.
    fn cells(&self, peer: &Peer, arrangement: Arrangement) -> Vec<Cell> {
        let possible = peer.fits(arrangement)
            && (arrangement != Arrangement::SameCpu || self.pod.is_ok())
            && (arrangement != Arrangement::TwoCpus || !self.shares())
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
            threads: arrangement.cpus(&self.cpus).len(),
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
    fn started(&self, peer: &Peer, arrangement: Arrangement) -> Result<Running> {
        let mut setup = self.setup(peer, arrangement)?;
        let upstream = arrangement
            .forwards()
            .map(|transport| self.upstream_tls(&mut setup, transport))
            .transpose()?;
        let mut command = peer.command(&setup)?;
        let log = setup.folder.join("log");
        let cpus = arrangement.cpus(&self.cpus);
        let mut server = Server::start(peer.name, &mut command, &cpus, &log)?;
        server.await_answer(setup.address, &ready_name()?, self.stop)?;
        Ok(Running { name: peer.name, server, upstream, setup })
    }

    /// Asks Nodens what the zones will be asked, for the echo whose answers are as long.
    fn measure_lengths(&mut self, nodens: &Peer) -> Result<()> {
        let arrangements: Vec<_> =
            Arrangement::ALL.into_iter().filter(|of| self.zones.of(*of).is_some()).collect();
        for arrangement in arrangements {
            let running = self.started(nodens, arrangement)?;
            let outcome = self.warm_zone(arrangement, running.setup.address)?;
            let counts = &outcome.tally.counts;
            self.zones.set_octets(arrangement, counts.answer_octets / counts.answered.max(1));
        }
        Ok(())
    }

    /// Asks for what will be asked for, where that is to come from the server's memory.
    fn warm(&self, arrangement: Arrangement, running: &mut Running) -> Result<()> {
        let Running { server, setup, .. } = running;
        if arrangement.watches_services() {
            server.await_answer(setup.address, &self.services.last, self.stop)?;
            return self.warm_services(setup.address);
        }
        if arrangement.has_zone() {
            return self.warm_zone(arrangement, setup.address).map(drop);
        }
        if arrangement.wants_warmth() {
            self.closed(setup.address, &self.questions.warm, Some(2 * NAMES as u64))?;
            self.warm_encrypted(setup)?;
        }
        Ok(())
    }

    /// Measures one cell once.
    fn sample(&self, running: &Running, cell: Cell, turn: Turn) -> Result<Sample> {
        let Running { name, server, upstream, setup } = running;
        let resident = server.resident();
        let busy =
            || upstream.as_ref().map_or_else(|| Ok(self.upstream.account()), Server::account);
        let (before, upstream_before) = (server.account()?, busy()?);
        let asked = self.upstream.questions();
        let load = match cell {
            Cell::TcpPair => self.pairs(setup.address)?,
            Cell::TcpIdle => self.held(setup.address, server)?,
            Cell::SameCpu => self.through_pod(setup.address)?,
            Cell::Disturbed => self.disturbed(setup, turn)?,
            Cell::Storm => self.under_handshakes(setup)?,
            _ => {
                let own = setup.encrypted.as_ref().filter(|_| cell != Cell::BesideTls);
                let own = own.map_or(setup.address, |own| own.address);
                self.load(cell, own, turn)?.into()
            }
        };
        Ok(Sample {
            server: name,
            repeat: turn.repeat,
            cell,
            tries: turn.attempt + 1,
            faults: Vec::new(),
            load,
            cpus: setup.threads,
            account: server.account()?.since(before),
            upstream: busy()?.since(upstream_before),
            asked: self.upstream.questions() - asked,
            resident: (resident, server.resident()),
        })
    }
}
