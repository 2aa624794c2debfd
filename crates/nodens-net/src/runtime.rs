//! Starting, reconfiguring and stopping the workers, for the binary.

use crate::cpu;
use crate::descriptors;
use crate::event_loop::{Command, EventLoop, Setup};
use crate::limits::SOCKETS_PER_LISTENER_MAX;
use crate::listeners::{Assigned, ListenError, ListenerAddress, Listening, Opened, Opener};
use crate::poll::Waker;
use crate::quic::{self, Books};
use crate::random::Random;
use crate::retire::retire;
use crate::supervisor::Supervisor;
use crate::tcp::{Quota, Unsent, register_gauges};
use crate::vitals::{Lent, Vitals};
use nodens_core::cookie::Secret;
use nodens_core::{Config, ListenerKind, Shared};
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

mod ending;
mod options;

pub use ending::Left;
pub use options::Options;

/// How long [`Runtime::apply`] waits for a worker to take up a configuration.
const CONFIGURE_TIMEOUT: Duration = Duration::from_secs(10);

/// The exit status of a process that panicked, as of a Go program.
const PANIC_EXIT: i32 = 2;

/// Why the runtime could not start or take up a configuration.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener could not be opened.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A worker's thread or descriptors could not be had.
    #[error("start worker {worker}: {source}")]
    Worker {
        /// Which worker.
        worker: usize,
        /// Why.
        source: io::Error,
    },
    /// The thread that looks after the workers could not be had.
    #[error("start supervisor: {0}")]
    Supervisor(io::Error),
    /// A worker did not take up the first configuration.
    #[error("worker {0} does not answer")]
    Unresponsive(usize),
}

/// The running workers. Dropping it without [`Runtime::shutdown`] leaves them running.
pub struct Runtime {
    pub(crate) workers: Vec<WorkerThread>,
    wakers: Arc<Vec<Waker>>,
    pub(crate) listeners: Vec<Open>,
    /// What the workers were last told to take up.
    config: Option<Arc<Config>>,
    next_id: u32,
    pub(crate) opener: Opener,
    quota: Arc<Quota>,
    unsent: Arc<Unsent>,
    quic: Arc<Books>,
    /// UDP ports a worker may have open towards upstreams.
    ports_max: usize,
    /// Whether workers begin without taking questions.
    paused: bool,
    pub(crate) vitals: Arc<Vitals>,
    supervisor: Option<Supervisor>,
}

pub(crate) struct WorkerThread {
    pub(crate) commands: Sender<Command>,
    thread: JoinHandle<()>,
}

/// A listener that is open.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    pub(crate) id: u32,
    /// As in the configuration.
    pub(crate) address: SocketAddr,
    pub(crate) kind: ListenerKind,
    /// How many sockets of each transport the configuration wants; inherited ones may be fewer, or
    /// more.
    pub(crate) wanted: usize,
    /// Where it listens.
    pub(crate) bound: SocketAddr,
    /// How many it has.
    pub(crate) have: usize,
}

impl Open {
    /// What is spoken, and where it listens.
    pub(crate) fn to_bound(&self) -> ListenerAddress {
        ListenerAddress { kind: self.kind, address: self.bound }
    }
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Runtime({} workers, {:?})", self.workers.len(), self.listeners)
    }
}

impl Runtime {
    /// Opens the listeners of `config` and starts `shared.workers()` workers
    /// ([`cpu::workers`] is how many there should be).
    pub fn start(
        shared: Arc<Shared>,
        config: Arc<Config>,
        options: Options,
    ) -> Result<Self, StartError> {
        let count = shared.workers();
        let cpus = cpu::allowed();
        // Fewer workers than CPUs must be free to go where there is room.
        let cpus = (options.pin && cpus.len() == count).then_some(cpus);
        let wakers: io::Result<Vec<Waker>> = (0..count).map(|_| Waker::new()).collect();
        let wakers = wakers.map_err(|source| StartError::Worker { worker: 0, source })?;
        let wakers = Arc::new(wakers);
        let (connections, reserve) = descriptors::share(options.connections_max);
        let per_client = options.connections_per_client;
        let per_client =
            per_client.unwrap_or_else(|| descriptors::connections_per_client(connections));
        let per_network = options
            .connections_per_network
            .unwrap_or_else(|| descriptors::connections_per_network(connections));
        let quota = Arc::new(Quota::new(connections, (per_client, per_network), count));
        let ports_max = descriptors::ports_per_worker(reserve, count);
        let unsent = Arc::new(Unsent::new(options.held_max));
        register_gauges(&shared, &quota, &unsent);
        let quic = Arc::new(Books::new(connections, (per_client, per_network)));
        quic::register_gauges(&shared, &quic);
        let vitals = Arc::new(Vitals::new(count));
        vitals.register(&shared);
        let mut random = Random::new();
        shared.cookies.get_or_init(|| Secret::new(random.octets()));
        let Options { transparent, inherited, paused, .. } = options;
        let mut runtime = Self {
            workers: Vec::new(),
            wakers,
            listeners: Vec::new(),
            config: None,
            next_id: 0,
            opener: Opener { workers: count, cpus, transparent, inherited },
            quota,
            unsent,
            quic,
            ports_max,
            paused,
            vitals,
            supervisor: None,
        };
        match runtime.start_workers(&shared, config) {
            Ok(()) => Ok(runtime),
            Err(error) => {
                runtime.give_up();
                Err(error)
            }
        }
    }

    fn start_workers(
        &mut self,
        shared: &Arc<Shared>,
        config: Arc<Config>,
    ) -> Result<(), StartError> {
        for worker in 0..shared.workers() {
            let thread = self.spawn(worker, shared.clone(), config.clone());
            self.workers.push(thread.map_err(|source| StartError::Worker { worker, source })?);
        }
        let silent = self.apply(config)?;
        // Nobody else will ask for what the first configuration does not have.
        self.opener.inherited.clear();
        if let Some(worker) = silent.first() {
            return Err(StartError::Unresponsive(*worker));
        }
        let commands = self.workers.iter().map(|worker| worker.commands.clone()).collect();
        let (vitals, wakers) = (self.vitals.clone(), self.wakers.clone());
        let supervisor = Supervisor::start(shared.clone(), vitals, commands, wakers);
        self.supervisor = Some(supervisor.map_err(StartError::Supervisor)?);
        Ok(())
    }

    fn spawn(
        &self,
        worker: usize,
        shared: Arc<Shared>,
        config: Arc<Config>,
    ) -> io::Result<WorkerThread> {
        let (commands, receiver) = channel();
        let (wakers, ports) = (self.wakers.clone(), self.ports_max);
        let bounds = (self.quota.clone(), self.unsent.clone(), self.quic.clone());
        let paused = self.paused;
        let (cpu, vitals) = (self.opener.cpu(worker), self.vitals.clone());
        let (report, started) = sync_channel(1);
        let run = move || {
            if let Some(cpu) = cpu {
                cpu::pin(cpu);
            }
            cpu::take_short_turns();
            let seats = (wakers, vitals);
            match EventLoop::new(worker, (shared, config), ports, seats, receiver, bounds) {
                Ok(mut event_loop) => {
                    _ = report.send(Ok(()));
                    event_loop.paused = paused;
                    event_loop.run();
                }
                Err(error) => _ = report.send(Err(error)),
            }
        };
        // A panic that `debug` lets through has been reported. A process that has lost a worker
        // would leave a part of its questions unanswered, and nobody would start it anew.
        let run = move || {
            if catch_unwind(AssertUnwindSafe(run)).is_err() {
                std::process::exit(PANIC_EXIT);
            }
        };
        let name = format!("worker-{worker}");
        let thread = std::thread::Builder::new().name(name).spawn(run)?;
        started.recv().unwrap_or_else(|_| Err(io::Error::other("the thread ended")))?;
        Ok(WorkerThread { commands, thread })
    }

    /// Takes up another configuration: sockets of listeners that are in both stay as they are; if
    /// a new listener cannot be opened, everything stays as it is.
    ///
    /// Gives the workers that have not said in time that they took it up. They have been told, and
    /// do it before anything else they do: no worker stays with the old configuration.
    pub fn apply(&mut self, config: Arc<Config>) -> Result<Vec<usize>, ListenError> {
        let (open, setups) = self.plan(&config)?;
        self.listeners = open;
        Ok(self.tell_all(config, setups))
    }

    fn tell_all(&mut self, config: Arc<Config>, setups: Vec<Setup>) -> Vec<usize> {
        let lent = setups.iter().enumerate().flat_map(|(worker, setup)| {
            setup.sockets.iter().map(move |assigned| Lent::new(worker, assigned))
        });
        let lent: Vec<Lent> = lent.collect();
        let told = setups.into_iter().enumerate();
        let told: Vec<_> = told.map(|(worker, setup)| (worker, self.tell(worker, setup))).collect();
        // Only now: whoever is to stand in for a stuck worker has to know the listeners first.
        self.vitals.lend(lent);
        let until = Instant::now() + CONFIGURE_TIMEOUT;
        let silent = |(worker, done): (usize, Receiver<()>)| {
            let left = until.saturating_duration_since(Instant::now());
            let left = if self.vitals.is_stalled(worker) { Duration::ZERO } else { left };
            done.recv_timeout(left).is_err().then_some(worker)
        };
        let silent = told.into_iter().filter_map(silent).collect();
        if let Some(old) = self.config.replace(config) {
            retire(old);
        }
        silent
    }

    /// Opens what `config` needs and is not open yet; gives what each worker has to know.
    fn plan(&mut self, config: &Arc<Config>) -> Result<(Vec<Open>, Vec<Setup>), ListenError> {
        let mut setups = self.setups(config);
        let mut open = Vec::new();
        for listener in &config.listeners {
            let wanted = listener.sockets.unwrap_or(self.workers.len()).max(1);
            let (address, kind) = (listener.address, listener.kind);
            let same = |own: &&Open| (own.address, own.kind, own.wanted) == (address, kind, wanted);
            let known = self.listeners.iter().find(same).cloned();
            let (entry, sockets) = match known {
                Some(entry) => (entry, Vec::new()),
                None => {
                    let Opened { sockets, count, bound } =
                        self.opener.open(kind, address, wanted)?;
                    let id = self.next_id;
                    self.next_id += 1;
                    (Open { id, address, kind, wanted, bound, have: count }, sockets)
                }
            };
            give(&mut setups, &entry, sockets);
            open.push(entry);
        }
        Ok((open, setups))
    }

    /// What each worker has to know of `config`, without its listeners.
    fn setups(&self, config: &Arc<Config>) -> Vec<Setup> {
        let setup = |_: &WorkerThread| Setup {
            config: config.clone(),
            listeners: Vec::new(),
            sockets: Vec::new(),
        };
        self.workers.iter().map(setup).collect()
    }

    /// Opens the sockets that listeners lack whose others were inherited. One that cannot be
    /// opened has its share of the questions go to the others.
    pub(crate) fn complete(&mut self) {
        let Some(config) = self.config.clone() else { return };
        let mut setups = self.setups(&config);
        for entry in &mut self.listeners {
            let lacking = entry.have..entry.wanted.min(SOCKETS_PER_LISTENER_MAX);
            let more = self.opener.open_more(entry.kind, entry.bound, lacking);
            let more = more.unwrap_or_default();
            entry.have += more.len() / entry.kind.transports().len();
            give(&mut setups, entry, more);
        }
        self.tell_all(config, setups);
    }

    /// Hands a configuration to a worker; it says when it has taken it up.
    fn tell(&self, worker: usize, setup: Setup) -> Receiver<()> {
        let (done, wait) = sync_channel(1);
        if let Some(thread) = self.workers.get(worker) {
            // A worker that is gone drops its end, which is noticed at once.
            _ = thread.commands.send(Command::Configure(setup, done));
            self.wake(worker);
        }
        wait
    }

    pub(crate) fn wakers(&self) -> Arc<Vec<Waker>> {
        self.wakers.clone()
    }

    pub(crate) fn wake(&self, worker: usize) {
        if let Some(waker) = self.wakers.get(worker) {
            waker.wake();
        }
    }

    /// Whether the workers live.
    pub fn vitals(&self) -> &Arc<Vitals> {
        &self.vitals
    }

    /// Where it listens, in the order of the configuration's listeners, with the ports that were
    /// chosen where 0 was asked for.
    pub fn local_addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().map(|listener| listener.bound).collect()
    }

    /// The kinds and addresses of its listeners, as [`Runtime::local_addresses`] gives them.
    pub fn bound_listeners(&self) -> Vec<ListenerAddress> {
        self.listeners.iter().map(Open::to_bound).collect()
    }

    /// Takes no more questions, answers those under way for at most `grace`, and ends; a worker
    /// that does not end soon after is left behind.
    pub fn shutdown(self, grace: Duration) {
        _ = self.end(grace, Command::Stop);
    }
}

/// Adds a listener to what each worker has to know, with the sockets that are to be its own.
fn give(setups: &mut [Setup], open: &Open, opened: Vec<(usize, Listening)>) {
    setups.iter_mut().for_each(|setup| setup.listeners.push(open.id));
    for (worker, socket) in opened {
        if let Some(setup) = setups.get_mut(worker) {
            setup.sockets.push(Assigned { listener: open.id, bound: open.bound, socket });
        }
    }
}
