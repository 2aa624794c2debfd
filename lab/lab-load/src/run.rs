//! A whole run: what is asked for, checks before it starts, its threads, and what came out.

use crate::clock::Clock;
use crate::host::{self, Counters};
use crate::judge::{self, Verdict};
use crate::preflight::{self, Room};
pub use crate::progress::Progress;
use crate::progress::gather;
use crate::schedule::{Arrivals, Profile};
use crate::shard::{self, Shard, ShardReport, late_end, run_shard};
use crate::tally::Tally;
use crate::workload::PlanHash;
use crate::{Workload, nanos};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

/// Time between the start of the threads and the start of the schedule.
const LEAD: Duration = Duration::from_millis(20);

/// How questions travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// One connected UDP socket per client.
    Udp,
    /// One persistent TCP connection per client, pipelined (RFC 7766 section 6.2.1.1).
    Tcp,
}

/// What decides when the next question is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// A schedule that no answer and no loss of one can delay.
    Open {
        /// Questions a second, over all clients; their mean if [`Config::profile`] changes it.
        rate: f64,
        /// How they are spread.
        arrivals: Arrivals,
    },
    /// Each client keeps this many questions in flight: for maximum rates, not for latency.
    Closed {
        /// Questions in flight per client.
        window: usize,
    },
}

/// What a thread does while it has nothing to send or receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spin {
    /// Looks again at once if the next question is near, else sleeps.
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
    /// UDP or TCP.
    pub transport: Transport,
    /// Open or closed loop.
    pub pace: Pace,
    /// How the rate of an open loop changes.
    pub profile: Profile,
    /// How long new questions are sent.
    pub duration: Duration,
    /// Stop after this many questions even before `duration` is over.
    pub queries: Option<u64>,
    /// When a question is given up.
    pub timeout: Duration,
    /// Clients, each with a socket or connection of its own.
    pub clients: usize,
    /// Addresses that clients send from, in turn; empty leaves it to the system.
    pub sources: Vec<IpAddr>,
    /// Sending and receiving threads; more than clients are not used.
    pub threads: usize,
    /// CPUs to pin the threads to, in turn; empty leaves them where they are.
    pub cpus: Vec<usize>,
    /// What idle threads do.
    pub spin: Spin,
    /// Who stamps what is received.
    pub stamps: Stamps,
    /// Seed of everything random.
    pub seed: u64,
}

impl Config {
    /// An open loop over UDP at `rate` questions a second for ten seconds, and defaults for the rest.
    pub fn new(server: SocketAddr, rate: f64) -> Self {
        Self {
            server,
            transport: Transport::Udp,
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
        }
    }

    /// Follows `profile` for its length, at its mean rate.
    pub fn follow(&mut self, profile: Profile) {
        if let Pace::Open { rate, .. } = &mut self.pace {
            *rate = profile.mean(*rate);
        }
        self.duration = profile.length().unwrap_or(self.duration);
        self.profile = profile;
    }

    /// The highest rate of an open loop; 0 for a closed one.
    pub fn peak_rate(&self) -> f64 {
        match self.pace {
            Pace::Open { rate, arrivals } => self.profile.peak(rate) * arrivals.peak(),
            Pace::Closed { .. } => 0.0,
        }
    }
}

/// How many clients it takes for `rate` questions a second, each given up after `timeout`, to find
/// IDs: half of the 65,536 of a client may be in flight.
pub fn clients_needed(rate: f64, timeout: Duration) -> usize {
    shard::clients_needed(rate, timeout)
}

/// Why a run could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No question.
    #[error("the workload has no question")]
    NoQuestion,
    /// A rate, window or number of clients that is not positive.
    #[error("{0} must be positive")]
    NotPositive(&'static str),
    /// Arrivals or a profile that no schedule can be made of.
    #[error("no schedule can be made of {0}")]
    Schedule(String),
    /// A source address of the other family.
    #[error("{address} cannot be the source of questions to {server}")]
    Source {
        /// The source.
        address: IpAddr,
        /// The server.
        server: SocketAddr,
    },
    /// More questions in flight than IDs.
    #[error(
        "{rate:.0} questions a second with a timeout of {timeout:?} need at least {clients} clients: \
         half of the 65,536 IDs of each may be in flight"
    )]
    TooFewClients {
        /// Questions a second.
        rate: f64,
        /// When a question is given up.
        timeout: Duration,
        /// How many clients would do.
        clients: usize,
    },
    /// More clients than the machine has descriptors or ports for.
    #[error("{clients} clients, but there are {limit} {what} for them")]
    TooManyClients {
        /// Clients, each with a socket.
        clients: u64,
        /// How many there are of what is short.
        limit: u64,
        /// What is short, and where it is set.
        what: &'static str,
    },
    /// A socket could not be opened.
    #[error("cannot open socket {number} to {server}")]
    Socket {
        /// The server.
        server: SocketAddr,
        /// The client, counted from 1.
        number: usize,
        /// The cause.
        source: io::Error,
    },
    /// A thread could not be set up or ended without a report.
    #[error("cannot run a load thread: {0}")]
    Thread(io::Error),
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
    /// Names the plan: questions, order, schedule, seed.
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

    /// The part of the sent questions that was lost; 0 if nothing was sent.
    pub fn loss(&self) -> f64 {
        let counts = &self.tally.counts;
        if counts.sent == 0 { 0.0 } else { counts.lost() as f64 / counts.sent as f64 }
    }
}

fn plan_hash(config: &Config, workload: &Workload) -> u64 {
    let mut hash = PlanHash::default();
    workload.hash_into(&mut hash);
    let pace = format!("{:?} {:?} {:?}", config.pace, config.duration, config.queries);
    hash.write(pace.as_bytes());
    hash.write(config.profile.to_string().as_bytes());
    hash.write(&config.seed.to_be_bytes());
    hash.write(&(config.clients as u64).to_be_bytes());
    hash.finish()
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

/// As [`run`], with another wall clock. Nothing but [`Outcome::started`] and, with
/// [`Stamps::Kernel`], the waiting time of datagrams is read from it.
pub fn run_by(
    wall: fn() -> SystemTime,
    config: &Config,
    workload: &Workload,
    stop: &AtomicBool,
    mut progress: impl FnMut(&Progress),
) -> Result<Outcome, RunError> {
    preflight::check(config, workload, Room::here(config))?;
    let before = Counters::read();
    let threads = config.threads.min(config.clients);
    let (ticks, received) = mpsc::channel();
    let clock = Clock::new(LEAD, wall);
    let started = clock.wall() + LEAD;
    let shards = (0..threads).map(|index| {
        let ticks = ticks.clone();
        Shard { config, workload, index, threads, clock, stop, ticks }
    });
    let shards: Vec<_> = shards.collect();
    drop(ticks);
    let reports = std::thread::scope(|scope| {
        let handles: Vec<_> =
            shards.into_iter().map(|shard| scope.spawn(move || run_shard(shard))).collect();
        gather(&received, threads, &mut progress);
        let lost = || RunError::Thread(io::Error::other("it panicked"));
        handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(|_| Err(lost())))
            .collect::<Result<Vec<_>, _>>()
    })?;
    let mut tally = Tally::default();
    reports.iter().for_each(|report| tally.merge(&report.tally));
    let longest =
        |of: fn(&ShardReport) -> Duration| reports.iter().map(of).max().unwrap_or_default();
    let (active, elapsed) = (longest(|r| r.active), longest(|r| r.thread.wall));
    let interrupted = stop.load(Ordering::Relaxed);
    tally.close(nanos(elapsed), nanos(config.timeout), interrupted);
    let threads: Vec<_> = reports.iter().map(|report| report.thread.clone()).collect();
    let mut outcome = Outcome {
        tally,
        started,
        active,
        elapsed,
        server_is_local: host::is_local(config.server),
        host: Counters::read().since(&before),
        threads,
        late_end: late_end(config),
        plan_hash: plan_hash(config, workload),
        interrupted,
        verdict: Verdict::default(),
    };
    outcome.verdict = judge::judge(config, &outcome);
    Ok(outcome)
}
