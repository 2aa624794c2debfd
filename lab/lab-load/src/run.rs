//! A whole run: its configuration, checks before it starts, its threads, and the outcome.

use crate::clock::Clock;
pub use crate::error::RunError;
use crate::fates::Fates;
use crate::host::{self, Counters};
use crate::judge::{self, Verdict};
pub use crate::plan::plan_hash;
use crate::plan::{sending, sit_out};
pub use crate::ports::{TooFewPorts, local_ports};
use crate::preflight;
pub use crate::progress::{Observer, Progress};
use crate::progress::{Seconds, gather};
use crate::schedule::{Arrivals, Profile};
use crate::shard::{self, Shard, ShardReport, late_end, run_shard};
use crate::start::{Opening, StartLine, Starter, await_threads};
pub use crate::stream::TlsError;
use crate::tally::Tally;
pub use crate::transport::Transport;
use crate::transport::{Share, Streams};
use crate::{Worker, Workload, nanos, worker};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

/// What decides when the next query is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// A schedule that no answer and no loss of one can delay.
    Open {
        /// QPS, over all clients; their mean if [`Config::profile`] changes it.
        rate: f64,
        /// How they are spread.
        arrivals: Arrivals,
    },
    /// Each client keeps this many queries in flight: for maximum rates, not for latency.
    Closed {
        /// Queries in flight per client.
        window: usize,
    },
}

/// What a thread does while it has nothing to send or receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spin {
    /// Looks again at once if the next query is near, else sleeps.
    Auto,
    /// Always looks again at once: the sharpest stamps for one CPU per thread.
    Always,
    /// Always sleeps: latencies include waking up, as in a real client.
    Never,
}

/// Who says when a datagram arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stamps {
    /// This program, right after the system call that fetched it.
    #[default]
    User,
    /// The kernel, when it put the datagram into the socket (`SO_TIMESTAMPNS`); UDP only.
    Kernel,
}

/// A run as asked for.
#[derive(Clone, Debug)]
pub struct Config {
    /// The server.
    pub server: SocketAddr,
    /// How queries travel, if `mix` does not say otherwise.
    pub transport: Transport,
    /// The transports of a run that mixes several, each with a server of its own; empty for one.
    pub mix: Vec<Share>,
    /// What connections are like.
    pub streams: Streams,
    /// Open or closed loop.
    pub pace: Pace,
    /// How the rate of an open loop changes.
    pub profile: Profile,
    /// How long new queries are sent.
    pub duration: Duration,
    /// Stop after this many queries even before `duration` is over.
    pub queries: Option<u64>,
    /// When a query has timed out.
    pub timeout: Duration,
    /// Clients, each with a socket or connection of its own.
    pub clients: usize,
    /// Addresses that clients send from, in turn; empty leaves it to the system.
    pub sources: Vec<IpAddr>,
    /// The port that the first client sends from, the next client from the next port; `None` leaves
    /// it to the system.
    pub local_port: Option<u16>,
    /// Sending and receiving threads; more than clients are not used.
    pub threads: usize,
    /// CPUs to pin the threads to, in turn; empty leaves them where they are.
    pub cpus: Vec<usize>,
    /// What idle threads do.
    pub spin: Spin,
    /// Whether the program or the kernel stamps received datagrams.
    pub stamps: Stamps,
    /// Seed of everything random.
    pub seed: u64,
    /// Receives the fate of every query.
    pub fates: Option<Fates>,
    /// Which part of the clients is this process's, if several share the plan.
    pub worker: Option<Worker>,
}

impl Config {
    /// An open loop over UDP at `rate` QPS for ten seconds, and defaults for the rest.
    pub fn new(server: SocketAddr, rate: f64) -> Self {
        Self {
            server,
            transport: Transport::Udp,
            mix: Vec::new(),
            streams: Streams::default(),
            pace: Pace::Open { rate, arrivals: Arrivals::Poisson },
            profile: Profile::Constant,
            duration: Duration::from_secs(10),
            queries: None,
            timeout: Duration::from_secs(2),
            clients: 32,
            sources: Vec::new(),
            threads: 1,
            cpus: Vec::new(),
            spin: Spin::Auto,
            stamps: Stamps::User,
            seed: 1,
            local_port: None,
            fates: None,
            worker: None,
        }
    }

    /// Clients of this process: about as many as other workers have.
    pub fn own_clients(&self) -> usize {
        self.worker.map_or(self.clients, |worker| self.clients.div_ceil(worker.of()))
    }

    /// The transports and their shares: those of the mix, or the only one.
    pub fn shares(&self) -> Vec<Share> {
        let Self { transport, server, .. } = *self;
        let only = Share { transport, weight: 1, server };
        if self.mix.is_empty() { vec![only] } else { self.mix.clone() }
    }

    /// Follows `profile` for its length, at its mean rate.
    pub fn follow(&mut self, profile: Profile) {
        if let Pace::Open { rate, .. } = &mut self.pace {
            *rate = profile.mean(*rate);
        }
        self.duration = profile.length().unwrap_or(self.duration);
        self.profile = profile;
    }

    /// How long setting up a connection may take.
    pub fn set_up_timeout(&self) -> Duration {
        self.streams.set_up_timeout.unwrap_or(self.timeout)
    }

    /// The highest rate of an open loop; 0 for a closed one.
    pub fn peak_rate(&self) -> f64 {
        match self.pace {
            Pace::Open { rate, arrivals } => self.profile.peak(rate) * arrivals.peak(),
            Pace::Closed { .. } => 0.0,
        }
    }
}

/// How many clients it takes for `rate` QPS, each given up after `timeout`, to find
/// IDs: half of the 65,536 of a client may be in flight.
pub fn clients_needed(rate: f64, timeout: Duration) -> usize {
    shard::clients_needed(rate, timeout)
}

/// Refuses more clients than this machine has sockets for. A run does so itself; what is made for each
/// client before it, as its queries, may need more memory than there is.
pub fn check_clients(config: &Config) -> Result<(), RunError> {
    preflight::clients(config)
}

/// Refuses what [`run`] would refuse before it sends anything, but for what connections need.
pub fn check(config: &Config, workload: &Workload) -> Result<(), RunError> {
    preflight::all(config, workload)
}

/// The highest QPS, each given up after `timeout`, that one client finds IDs for.
pub fn client_rate_max(timeout: Duration) -> f64 {
    shard::client_rate_max(timeout)
}

/// What a thread says about itself.
#[derive(Clone, Debug)]
pub struct ThreadReport {
    /// CPU time used from the start of the schedule to the last outcome.
    pub cpu: Duration,
    /// Time meanwhile that it could have run and others had its CPU.
    pub waited: Duration,
    /// The time that took.
    pub wall: Duration,
    /// Whether it kept looking instead of sleeping.
    pub spun: bool,
    /// Datagrams that the kernel dropped because this thread did not fetch them in time.
    pub dropped: u64,
    /// How often the kernel had no room for a datagram or segment to be sent.
    pub blocked: u64,
    /// Octets of receive buffer that the kernel gave the smallest UDP socket; 0 without one.
    pub receive_buffer: usize,
    /// Received datagrams without a usable stamp of the kernel, though such stamps were asked for.
    pub unstamped: u64,
}

/// What came out of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// All measurements.
    pub tally: Tally,
    /// The measurements of each transport, of a run that mixes several; they add up to `tally`.
    pub by_transport: Vec<(Transport, Tally)>,
    /// Wall-clock time of the start, a label only.
    pub started: SystemTime,
    /// From the start to the end of sending or the last answer, whichever was later.
    pub active: Duration,
    /// From the start to the last outcome.
    pub elapsed: Duration,
    /// Whether the server is on this machine, as far as its routes know.
    pub server_is_local: bool,
    /// What counters of the machine went up by during the run.
    pub host: Counters,
    /// One report per thread.
    pub threads: Vec<ThreadReport>,
    /// How long after sending an answer still counted as late; its ID rested as long.
    pub late_end: Duration,
    /// Names the plan: queries, order, schedule, seed.
    pub plan_hash: u64,
    /// Whether the run was ended from outside.
    pub interrupted: bool,
    /// Whether the generator vouches for the numbers.
    pub verdict: Verdict,
}

impl Outcome {
    /// Answers a second.
    pub fn answer_rate(&self) -> f64 {
        let seconds = self.active.as_secs_f64();
        if seconds > 0.0 { self.tally.counts.answered as f64 / seconds } else { 0.0 }
    }

    /// Whether the server's host says that no server is there: by ICMP or refused connections, and
    /// nothing was received nor any connection set up.
    pub fn nothing_listens(&self) -> bool {
        let (counts, connections) = (&self.tally.counts, &self.tally.connections);
        counts.received == 0
            && connections.opened == 0
            && (counts.refused > 0 || connections.refused > 0)
    }

    /// The part of the sent queries that was lost; unknown if nothing was sent.
    pub fn loss(&self) -> Option<f64> {
        let counts = &self.tally.counts;
        (counts.sent > 0).then(|| counts.lost() as f64 / counts.sent as f64)
    }
}

/// Runs `config` until its duration and then at most its timeout are over, or until `stop` is set.
///
/// `progress` is called on the calling thread once for every full second.
pub fn run(
    config: &Config,
    workload: &Workload,
    stop: &AtomicBool,
    progress: impl FnMut(&Progress),
) -> Result<Outcome, RunError> {
    run_by(SystemTime::now, config, workload, stop, progress)
}

/// As [`run`], watched from before its start.
pub fn run_watched(
    config: &Config,
    workload: &Workload,
    stop: &AtomicBool,
    observer: &mut impl Observer,
) -> Result<Outcome, RunError> {
    run_whole(SystemTime::now, config, workload, stop, observer)
}

/// Runs every shard on a thread of its own, and `meanwhile` on this one; the schedule begins when that
/// drops what it is given.
fn run_shards<'a>(
    shards: Vec<Shard<'_>>,
    line: &'a StartLine,
    meanwhile: impl FnOnce(Starter<'a>),
) -> Result<Vec<ShardReport>, RunError> {
    std::thread::scope(|scope| {
        let starter = line.starter();
        let handles: Vec<_> =
            shards.into_iter().map(|shard| scope.spawn(move || run_shard(shard))).collect();
        meanwhile(starter);
        let lost = || RunError::Thread(io::Error::other("it panicked"));
        let reports = handles.into_iter().map(|handle| handle.join());
        reports.map(|report| report.unwrap_or_else(|_| Err(lost()))).collect()
    })
}

/// As [`run`], with another wall clock. Nothing but [`Outcome::started`] and, with
/// [`Stamps::Kernel`], the waiting time of datagrams is read from it.
pub fn run_by(
    wall: fn() -> SystemTime,
    config: &Config,
    workload: &Workload,
    stop: &AtomicBool,
    progress: impl FnMut(&Progress),
) -> Result<Outcome, RunError> {
    run_whole(wall, config, workload, stop, &mut Seconds(progress))
}

/// Waits for the end of the schedule, and says that it is over; when that was, if it was waited for.
fn end(
    config: &Config,
    clock: Option<Clock>,
    stop: &AtomicBool,
    observer: &mut impl Observer,
) -> Option<Duration> {
    let sat_out = clock.and_then(|clock| sit_out(config, &clock, stop));
    observer.over();
    sat_out
}

fn run_whole(
    wall: fn() -> SystemTime,
    config: &Config,
    workload: &Workload,
    stop: &AtomicBool,
    observer: &mut impl Observer,
) -> Result<Outcome, RunError> {
    preflight::all(config, workload)?;
    let shares = config.shares();
    let (placement, own) = worker::place(config, &shares);
    let (abort, late_end) = (AtomicBool::new(false), late_end(config, workload));
    let ((ticks, received), opening) = (mpsc::channel(), Opening::default());
    let (line, clock) = (StartLine::new(own.len(), wall), Clock::new(Duration::ZERO, wall));
    let shards = own.iter().enumerate().map(|(at, &index)| {
        let (share, clients) = placement.shards()[index];
        let (ticks, share) = (ticks.clone(), shares[share]);
        let (placement, abort, line, opening) = (&placement, &abort, &line, &opening);
        Shard {
            config,
            workload,
            share,
            placement,
            clients,
            index,
            threads: placement.shards().len(),
            items: worker::items(config, at, own.len()),
            clock: clock.into(),
            line,
            opening,
            late_end,
            stop,
            abort,
            ticks,
        }
    });
    let shards = shards.collect::<Vec<_>>();
    drop(ticks);
    // What the machine counts while connections are opened is no part of the run.
    let mut before = Ok(Counters::default());
    let reports = run_shards(shards, &line, |starter| {
        before = await_threads(starter, &opening, &abort, observer);
        gather(&received, own.len(), &mut |progress: &Progress| observer.second(progress));
    });
    let sat_out = end(config, line.clock().filter(|_| reports.is_ok()), stop, observer);
    let (reports, host) = (reports?, Counters::read().since(&before?));
    let interrupted = stop.load(Ordering::Relaxed);
    let longest = |of: fn(&ShardReport) -> _| reports.iter().map(of).max().unwrap_or_default();
    let elapsed = longest(|r| r.thread.wall).max(sat_out.unwrap_or_default());
    let transports = own.iter().map(|index| shares[placement.shards()[*index].0].transport);
    let ended = (nanos(elapsed), nanos(config.timeout), interrupted);
    let (tally, by_transport) = shard::merge(reports.iter().zip(transports), ended);
    let active = longest(|r| r.last_answer).max(sending(config, &tally, elapsed));
    let mut outcome = Outcome {
        tally,
        by_transport: if config.mix.is_empty() { Vec::new() } else { by_transport },
        started: line.clock().unwrap_or(clock).label(),
        active,
        elapsed,
        server_is_local: host::is_local(config.server),
        host,
        threads: reports.into_iter().map(|report| report.thread).collect(),
        late_end,
        plan_hash: plan_hash(config, workload),
        interrupted,
        verdict: Verdict::default(),
    };
    outcome.verdict = judge::judge(config, &outcome);
    outcome.verdict.notes.extend(opening.note(config.set_up_timeout()));
    Ok(outcome)
}
