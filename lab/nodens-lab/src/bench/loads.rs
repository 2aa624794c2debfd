//! The load of each cell.

use super::cells::{Arrangement, Cell};
use super::configs::Setup;
use super::disturb::Disturbance;
use super::experiment::Turn;
use super::sample::Load;
use super::services::{Services, expect_rcodes};
use super::{
    Bench, CLIENTS, HELD, IN_FLIGHT, LOW_RATE, NAMES, NAMES_OF_MEMORY, NEW_AT_ONCE,
    PAIR_CONNECTIONS, RATE_PER_THREAD, SOURCES, WARM_MAX, questions, ready_name,
};
use crate::child::Server;
use crate::hold::Clients;
use anyhow::{Context, Result, bail};
use lab_load::life::Amount;
use lab_load::schedule::Arrivals;
use lab_load::transport::Trust;
use lab_load::{Config, Outcome, Pace, Spin, Stamps, Transport, Workload};
use nodens_wire::{Name, Type};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long handshakes go on before the queries begin.
const UNTIL_BUSY: Duration = Duration::from_millis(300);

impl Bench<'_> {
    pub(super) fn load(&self, cell: Cell, server: SocketAddr, turn: Turn) -> Result<Outcome> {
        let Turn { repeat, attempt, half } = turn;
        // Other names each time: those of an earlier attempt are in the cache now.
        let seed = self.args.seed + 1_000 * repeat as u64 + attempt as u64 + 1;
        let questions = &self.questions;
        match cell {
            Cell::OneName | Cell::UncachedExternal => self.closed(server, &questions.one, None),
            Cell::Internal | Cell::UncachedInternal => {
                self.closed(server, &questions.internal, None)
            }
            Cell::Misses | Cell::MissesDot | Cell::MissesDoh | Cell::MissesDoq => {
                let suffix = Name::parse("miss.bench.example")?;
                self.closed(server, &Workload::unique(seed, suffix.view(), Type::A)?, None)
            }
            Cell::Memory => self.closed(server, &questions.fill, Some(2 * NAMES_OF_MEMORY as u64)),
            Cell::Services | Cell::UncachedServices => {
                expect_rcodes(self.closed(server, &self.services.names.0, None)?, &[0])
            }
            Cell::SearchPath | Cell::UncachedSearchPath => {
                expect_rcodes(self.closed(server, &self.services.noise.0, None)?, &[3])
            }
            Cell::Authority | Cell::AuthorityRoot | Cell::AuthoritySigned => {
                let zone = self.zones.of(cell.arrangement()).context("there is no zone")?;
                expect_rcodes(self.closed(server, &zone.queries, None)?, zone.rcodes)
            }
            Cell::TcpNew => self.new_connections(self.config_of(Transport::Tcp, server)),
            Cell::DotFull => {
                let mut config = self.config_of(Transport::Dot, server);
                config.streams.tls.no_resumption = true;
                self.new_connections(config)
            }
            Cell::DotResumed => self.new_connections(self.config_of(Transport::Dot, server)),
            Cell::Low => self.open(server, LOW_RATE, Spin::Never),
            Cell::BesideTls => self.beside_tls(server),
            Cell::Fixed => self.open(server, self.args.rate, Spin::Always),
            Cell::Half | Cell::Quiet | Cell::Disturbed => self.open(server, half, Spin::Always),
            _ => self.maximum(server, &questions.many, cell),
        }
    }

    /// As many queries as are answered; `queries` of them, or for the time of a measurement.
    pub(super) fn closed(
        &self,
        server: SocketAddr,
        workload: &Workload,
        queries: Option<u64>,
    ) -> Result<Outcome> {
        // Warming ends with its queries and not with its time.
        let duration = queries.map_or(Duration::from_secs_f64(self.args.seconds), |_| WARM_MAX);
        let pace = Pace::Closed { window: IN_FLIGHT / CLIENTS };
        self.run(Config { pace, queries, duration, ..self.config(server) }, workload)
    }

    /// Asks for every Service, and for as many names that search lists make.
    pub(super) fn warm_services(&self, server: SocketAddr) -> Result<()> {
        let Services { names: (_, names), noise: (_, noise), .. } = &self.services;
        for (workload, rcode) in [(names, 0), (noise, 3)] {
            expect_rcodes(self.closed(server, workload, Some(workload.len() as u64))?, &[rcode])?;
        }
        Ok(())
    }

    /// Asks what a zone is asked, for a while.
    pub(super) fn warm_zone(
        &self,
        arrangement: Arrangement,
        server: SocketAddr,
    ) -> Result<Outcome> {
        let zone = self.zones.of(arrangement).context("there is no zone")?;
        let queries = Some(2 * NAMES as u64);
        expect_rcodes(self.closed(server, &zone.queries, queries)?, zone.rcodes)
    }

    fn maximum(&self, server: SocketAddr, workload: &Workload, cell: Cell) -> Result<Outcome> {
        let Some((clients, window)) = cell.connections() else {
            return self.closed(server, workload, None);
        };
        let transport = cell.arrangement().encrypted().unwrap_or(Transport::Tcp);
        let pace = Pace::Closed { window };
        self.run(Config { clients, pace, ..self.config_of(transport, server) }, workload)
    }

    /// Asks for every name over the listener with TLS: it may have a cache of its own.
    pub(super) fn warm_encrypted(&self, setup: &Setup) -> Result<()> {
        let Some(own) = &setup.encrypted else { return Ok(()) };
        let (clients, queries) = (16, Some(2 * NAMES as u64));
        let pace = Pace::Closed { window: IN_FLIGHT / clients };
        let config = self.config_of(own.transport, own.address);
        let config = Config { pace, clients, queries, duration: WARM_MAX, ..config };
        self.run(config, &self.questions.warm).map(drop)
    }

    /// A connection for each query.
    fn new_connections(&self, config: Config) -> Result<Outcome> {
        self.run(self.one_query_each(config)?, &self.questions.many)
    }

    fn one_query_each(&self, config: Config) -> Result<Config> {
        let pace = Pace::Closed { window: 1 };
        let mut config = Config { clients: NEW_AT_ONCE, pace, ..config };
        config.streams.life.questions = Some(Amount::Fixed(1.0));
        // So many that one address has not enough ports.
        config.sources = lab_load::sources::parse(SOURCES)?;
        Ok(config)
    }

    /// Two queries in one write, on several fresh connections.
    pub(super) fn pairs(&self, server: SocketAddr) -> Result<Load> {
        let name = ready_name()?;
        let clients = Clients { server, sources: &[], name: &name };
        let begin = Instant::now();
        let (response, failed) = clients.pairs(PAIR_CONNECTIONS, self.stop)?;
        let (answered, elapsed) = (response.recorded(), begin.elapsed().as_secs_f64());
        let (sent, lost) = (answered + failed as u64, failed as u64);
        let rate = answered as f64 / elapsed;
        Ok(Load { sent, answered, lost, rate, elapsed, response, ..Load::default() })
    }

    /// Opens connections, keeps them, and asks on each once more: what each takes of the server's
    /// memory, and how many are still answered.
    pub(super) fn held(&self, server: SocketAddr, of: &Server) -> Result<Load> {
        let (name, sources) = (ready_name()?, lab_load::sources::parse(SOURCES)?);
        let clients = Clients { server, sources: &sources, name: &name };
        let begin = Instant::now();
        let (mut held, octets_each) = clients.open(HELD, || of.anonymous(), self.stop)?;
        let answered = held.ask_all() as u64;
        let (response, elapsed) = (held.opening.clone(), begin.elapsed().as_secs_f64());
        let (sent, rate) = (HELD as u64, answered as f64 / elapsed);
        let lost = sent - answered;
        Ok(Load { sent, answered, lost, rate, elapsed, response, octets_each, ..Load::default() })
    }

    /// UDP from clients that sleep in between; the time of an answer is its arrival in the socket.
    fn beside_tls(&self, server: SocketAddr) -> Result<Outcome> {
        let pace = Pace::Open { rate: LOW_RATE, arrivals: Arrivals::Poisson };
        let config = Config { pace, threads: 1, spin: Spin::Never, ..self.config(server) };
        self.run(Config { stamps: Stamps::Kernel, ..config }, &self.questions.many)
    }

    /// The same while other clients make handshakes, as many as the server and they themselves can.
    pub(super) fn under_handshakes(&self, setup: &Setup) -> Result<Load> {
        let tls = setup.encrypted.as_ref().context("the server has no listener with TLS")?.address;
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let storm = scope.spawn(|| -> Result<Outcome> {
                let mut config = self.config_of(Transport::Dot, tls);
                config.streams.tls.no_resumption = true;
                config.duration = WARM_MAX;
                let config = self.one_query_each(config)?;
                Ok(lab_load::run(&config, &self.questions.many, &over, |_| {})?)
            });
            std::thread::sleep(UNTIL_BUSY);
            let outcome = self.beside_tls(setup.address);
            over.store(true, Ordering::Relaxed);
            let storm = storm.join().map_err(|_| anyhow::anyhow!("the handshakes panicked"))??;
            if storm.tally.counts.answered == 0 {
                bail!("no handshake succeeded");
            }
            Ok(outcome?.into())
        })
    }

    fn open(&self, server: SocketAddr, rate: f64, spin: Spin) -> Result<Outcome> {
        let arrivals = if spin == Spin::Never { Arrivals::Uniform } else { Arrivals::Poisson };
        let threads = if rate > RATE_PER_THREAD { self.cpus.load.len() } else { 1 };
        let spin = if self.shares() { Spin::Never } else { spin };
        let pace = Pace::Open { rate, arrivals };
        self.run(Config { pace, threads, spin, ..self.config(server) }, &self.questions.many)
    }

    fn config(&self, server: SocketAddr) -> Config {
        Config {
            duration: Duration::from_secs_f64(self.args.seconds),
            timeout: Duration::from_millis(500),
            clients: CLIENTS,
            threads: self.cpus.load.len(),
            cpus: self.cpus.load.clone(),
            spin: if self.shares() { Spin::Never } else { Spin::Always },
            seed: self.args.seed,
            ..Config::new(server, self.args.rate)
        }
    }

    /// The same over another transport; with TLS, any certificate is taken.
    fn config_of(&self, transport: Transport, server: SocketAddr) -> Config {
        let mut config = Config { transport, ..self.config(server) };
        config.streams.tls.trust = Trust::Anyone;
        config
    }

    fn run(&self, config: Config, workload: &Workload) -> Result<Outcome> {
        let outcome = lab_load::run(&config, workload, self.stop, |_| {})?;
        if self.stop.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        Ok(outcome)
    }

    /// The same queries as at the fixed rate from inside the pod, by a client that sleeps.
    pub(super) fn through_pod(&self, server: SocketAddr) -> Result<Load> {
        let Ok(pod) = &self.pod else { bail!("there is no pod") };
        let file = self.scratch.write("names.txt", &questions::file())?;
        let mut command = pod.command(&std::env::current_exe()?);
        let cpus: Vec<_> =
            Arrangement::SameCpu.cpus(&self.cpus).iter().map(usize::to_string).collect();
        command.args(["load", "-s", &server.ip().to_string(), "-p", &server.port().to_string()]);
        command.args(["-Q", &self.args.rate.to_string(), "-l", &self.args.seconds.to_string()]);
        command.args(["--timeout", "0.5", "--clients", &CLIENTS.to_string(), "--idle", "sleep"]);
        command.args(["--no-version", "--no-out", "--json", "--cpus", &cpus.join(",")]);
        let output =
            command.arg("-d").arg(file).output().context("cannot run the load in the pod")?;
        let result = lab_result::from_json(Path::new("the load in the pod"), &output.stdout)
            .with_context(|| {
                format!("the load in the pod: {}", String::from_utf8_lossy(&output.stderr).trim())
            })?;
        Ok(result.into())
    }

    pub(super) fn disturbed(&self, setup: &Setup, turn: Turn) -> Result<Load> {
        let (corefile, hosts) = (setup.folder.join("Corefile"), setup.folder.join("hosts"));
        let [metrics, ..] = setup.extra;
        let disturbance = Disturbance::start(corefile, hosts, metrics);
        let outcome = self.load(Cell::Disturbed, setup.address, turn);
        disturbance.finish()?;
        Ok(outcome?.into())
    }
}
