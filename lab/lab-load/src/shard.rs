//! One thread's part of a run: its items, its clients, its reports.

use crate::clock::Clock;
use crate::plan::{Plan, Planned};
use crate::progress::Progress;
use crate::run::{Config, Pace, RunError, Spin, ThreadReport};
use crate::schedule::Arrivals;
use crate::session::{Limits, Session};
use crate::start::{Opening, StartLine};
use crate::table::Rest;
use crate::tally::Tally;
use crate::transport::{Placement, Share, Transport};
use crate::{SECOND, Workload, nanos, stream, udp};
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// How IDs of answered queries rest in a closed loop, where the rate is not known beforehand.
const CLOSED_LOOP_REST: u64 = SECOND / 50;
/// IDs of a client of a closed loop to begin with: 50,000 answers a second can rest.
const CLOSED_LOOP_IDS: usize = 1 << 10;
/// Nanoseconds that waking up may take; a thread looks out for its next item during these.
const WAKE_UP: u64 = 60_000;
/// How long after the end of a run, in nanoseconds, what should have left before it may still do so. A
/// busy machine delays a thread by less; a rate that it cannot keep must not make the run longer.
const SEND_GRACE: u64 = SECOND;
/// Items skipped in one turn when a run is over, so that answers are still fetched meanwhile.
const SKIPS_PER_TURN: usize = 1 << 14;
/// IDs that the tables of a run have room for from the start, some 50 octets each. Tables grow when they
/// are short of IDs: what is never sent takes no memory.
const IDS_AT_FIRST: usize = 1 << 21;
/// The longest sleep, so that a stop is noticed.
const SLEEP_MAX: u64 = SECOND / 20;

/// What a thread needs to know.
pub(crate) struct Shard<'a> {
    pub(crate) config: &'a Config,
    pub(crate) workload: &'a Workload,
    /// The transport of its clients.
    pub(crate) share: Share,
    pub(crate) placement: &'a Placement,
    pub(crate) clients: usize,
    pub(crate) index: usize,
    pub(crate) threads: usize,
    /// The first query of a closed loop, and from each to the next.
    pub(crate) items: (u64, u64),
    /// Counts from when the thread was made, and from the start of the schedule once that is known.
    pub(crate) clock: Cell<Clock>,
    pub(crate) line: &'a StartLine,
    pub(crate) opening: &'a Opening,
    pub(crate) late_end: Duration,
    pub(crate) stop: &'a AtomicBool,
    /// Set by a thread that found out that the run is of no use.
    pub(crate) abort: &'a AtomicBool,
    pub(crate) ticks: mpsc::Sender<Progress>,
}

impl Shard<'_> {
    /// Nanoseconds since the start.
    pub(crate) fn now(&self) -> u64 {
        self.clock.get().now()
    }

    /// The second of the start since 1970, by the wall clock.
    pub(crate) fn started_unix_s(&self) -> u64 {
        self.clock.get().started_unix().as_secs()
    }

    /// How many clients this thread has.
    pub(crate) fn clients(&self) -> usize {
        self.clients
    }

    /// The source address of the thread's client `client`; port 0 is any.
    pub(crate) fn source(&self, client: usize) -> Option<SocketAddr> {
        let sources = &self.config.sources;
        let number = self.placement.client(self.index, client) as usize;
        let address = number.checked_rem(sources.len()).and_then(|at| sources.get(at)).copied();
        let first = self.config.local_port;
        let any: IpAddr = match self.share.server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let address = address.or(first.map(|_| any))?;
        // The preflight has seen that the last client's port is one.
        let port = first.map_or(0, |first| usize::from(first) + number);
        Some(SocketAddr::new(address, u16::try_from(port).unwrap_or(0)))
    }

    /// Whether the run asks as many queries as `item` needs.
    pub(crate) fn has(&self, item: u64) -> bool {
        self.config.queries.is_none_or(|queries| item < queries)
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.abort.load(Ordering::Relaxed)
    }

    /// From when on, in nanoseconds from the start, nothing is sent any more by a thread that began at
    /// `began`: opening many sockets may take longer than the lead, and is no part of the sending.
    pub(crate) fn send_end(&self, began: u64) -> u64 {
        nanos(self.config.duration).saturating_add(SEND_GRACE).saturating_add(began)
    }

    /// Time after which unsent queries are not even counted.
    fn count_end(&self, began: u64) -> u64 {
        self.send_end(began).saturating_add(nanos(self.config.timeout))
    }

    /// Makes all threads stop.
    pub(crate) fn abort(&self) {
        self.abort.store(true, Ordering::Relaxed);
    }

    pub(crate) fn spins(&self) -> bool {
        match (self.config.spin, self.config.pace) {
            (Spin::Always, _) => true,
            // In a closed loop there is nothing to be on time for.
            (Spin::Never, _) | (Spin::Auto, Pace::Closed { .. }) => false,
            (Spin::Auto, Pace::Open { .. }) => {
                self.config.peak_rate() / self.threads as f64 > 5_000.0
            }
        }
    }

    /// How long a thread that does not spin may sleep at `now`: until shortly before `next`, since
    /// waking up takes some time, or until `housekeeping`.
    pub(crate) fn sleep(&self, now: u64, next: Option<u64>, housekeeping: u64) -> Duration {
        let early = if self.config.spin == Spin::Auto { WAKE_UP } else { 0 };
        let next = next.map_or(u64::MAX, |next| next.saturating_sub(early));
        let until = next.min(housekeeping).min(now + SLEEP_MAX);
        Duration::from_nanos(until.saturating_sub(now))
    }

    pub(crate) fn session(&self) -> Session<'_> {
        let limits = limits(self.config, self.late_end, self.index as u64);
        let mut session = Session::new(self.workload, self.clients(), limits);
        session.started_unix_s = self.started_unix_s();
        session.fates.clone_from(&self.config.fates);
        session
    }
}

/// One item with its time and the thread's own client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    pub(crate) item: u64,
    pub(crate) intended: u64,
    pub(crate) client: usize,
}

/// The items of one thread in the order of their times. Every thread walks the whole schedule, so
/// that the plan does not depend on the number of threads.
pub(crate) struct Source<'a> {
    shard: &'a Shard<'a>,
    plan: Plan<'a>,
    head: Option<Due>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(shard: &'a Shard<'a>, rate: f64, arrivals: Arrivals) -> Self {
        let plan = Plan::at(shard.config, shard.workload, rate, arrivals);
        let mut source = Self { shard, plan, head: None };
        source.advance();
        source
    }

    pub(crate) fn peek(&self) -> Option<Due> {
        self.head
    }

    /// Counts items as overdue, many but not all at once: the run is over. Whether all that could be
    /// counted were.
    pub(crate) fn skip_rest(&mut self, session: &mut Session<'_>, began: u64) -> bool {
        for _ in 0..SKIPS_PER_TURN {
            let Some(due) = self.head else { return true };
            session.schedule(due.intended);
            session.overdue(due.intended);
            self.advance();
        }
        if self.shard.now() > self.shard.count_end(began) && self.head.is_some() {
            session.tally.uncounted = true;
            self.head = None;
        }
        self.head.is_none()
    }

    pub(crate) fn advance(&mut self) {
        self.head = loop {
            let Some(Planned { item, intended, client }) = self.plan.next() else { break None };
            if let Some((shard, client)) = self.shard.placement.of(client)
                && shard == self.shard.index
            {
                break Some(Due { item, intended, client });
            }
        };
    }
}

fn limits(config: &Config, late_end: Duration, shard: u64) -> Limits {
    let timeout = nanos(config.timeout).min(u64::MAX / 4);
    let given_up = nanos(late_end).min(3 * timeout);
    let (ids, answered) = match config.pace {
        Pace::Open { .. } => {
            let at_first = IDS_AT_FIRST / config.clients.max(1);
            (ids_needed(config, late_end).min(at_first), given_up)
        }
        // Few, so that they stay in the CPU's cache; a client that is fast gets more as it needs them.
        Pace::Closed { window } => ((2 * window).max(CLOSED_LOOP_IDS), CLOSED_LOOP_REST),
    };
    let seed = crate::rng::at(config.seed, 1_000 + shard);
    Limits { ids, ids_max: IDS as usize, timeout, rest: Rest { answered, given_up }, seed }
}

/// The part of its IDs that a socket may have in flight on average: the others rest.
const IN_FLIGHT_PART: f64 = 0.5;
/// The part of its IDs that may be in flight or rest on average: room for bursts.
const RESTING_PART: f64 = 0.85;
/// IDs of one socket.
const IDS: f64 = 65_536.0;

/// How many clients it takes for `rate` QPS to find IDs.
pub(crate) fn clients_needed(rate: f64, timeout: Duration) -> usize {
    (rate / client_rate_max(timeout)).ceil() as usize
}

/// The highest QPS that one client finds IDs for.
pub(crate) fn client_rate_max(timeout: Duration) -> f64 {
    IDS * IN_FLIGHT_PART / timeout.as_secs_f64()
}

/// How long after it was sent a query can still be answered late, and its ID rests: three
/// timeouts, or as long as the IDs of the busiest client last, but not less than the timeout.
pub(crate) fn late_end(config: &Config, workload: &Workload) -> Duration {
    let wanted = config.timeout.saturating_mul(3);
    let Pace::Open { .. } = config.pace else { return wanted };
    let busiest = workload.busiest_client(config.clients, config.peak_rate());
    let lasting = Duration::try_from_secs_f64(RESTING_PART * IDS / busiest);
    lasting.map_or(wanted, |lasting| lasting.clamp(config.timeout, wanted))
}

/// IDs of one client in an open loop: twice what rests on average, and some for bursts. A client that
/// asks more than others gets more as it needs them.
pub(crate) fn ids_needed(config: &Config, late_end: Duration) -> usize {
    let resting = config.peak_rate() * late_end.as_secs_f64() / config.clients.max(1) as f64;
    (resting * 2.0) as usize + 64
}

/// What a thread brings back.
pub(crate) struct ShardReport {
    pub(crate) tally: Tally,
    /// From the start to the last answer.
    pub(crate) last_answer: Duration,
    pub(crate) thread: ThreadReport,
}

/// What all threads have measured, and that of each transport, of a run that ended after so many
/// nanoseconds, with this timeout, interrupted or not.
pub(crate) fn merge<'r>(
    reports: impl Iterator<Item = (&'r ShardReport, Transport)>,
    (elapsed, timeout, interrupted): (u64, u64, bool),
) -> (Tally, Vec<(Transport, Tally)>) {
    let (mut tally, mut by_transport) = (Tally::default(), Vec::new());
    for (report, transport) in reports {
        tally.merge(&report.tally);
        add_part(&mut by_transport, transport, &report.tally);
    }
    tally.close(elapsed, timeout, interrupted);
    by_transport.iter_mut().for_each(|(_, part)| part.close(elapsed, timeout, interrupted));
    (tally, by_transport)
}

/// Adds what one thread has measured to what its transport has.
fn add_part(parts: &mut Vec<(Transport, Tally)>, transport: Transport, tally: &Tally) {
    match parts.iter_mut().find(|part| part.0 == transport) {
        Some((_, sum)) => sum.merge(tally),
        None => parts.push((transport, tally.clone())),
    }
}

/// What a transport's loop brings back.
pub(crate) struct LoopReport {
    pub(crate) tally: Tally,
    pub(crate) used: Used,
    pub(crate) dropped: u64,
    pub(crate) blocked: u64,
    pub(crate) receive_buffer: usize,
    pub(crate) unstamped: u64,
    /// When the last answer came, in nanoseconds from the start.
    pub(crate) last_answer: u64,
}

pub(crate) fn run_shard(shard: Shard<'_>) -> Result<ShardReport, RunError> {
    let _guard = shard.line.guard();
    let cpus = &shard.config.cpus;
    if let Some(cpu) = cpus.get(shard.index % cpus.len().max(1)) {
        lab_sys::cpu::pin(&[*cpu]).map_err(RunError::Thread)?;
    }
    lab_sys::cpu::tighten_timers();
    // Where it cannot be had, more may be late, which is measured.
    _ = lab_sys::cpu::take_short_turns();
    let report = match shard.share.transport {
        Transport::Udp => udp::run(&shard),
        _ => stream::run(&shard),
    }?;
    let LoopReport { tally, used, dropped, blocked, receive_buffer, unstamped, last_answer } =
        report;
    let wall = Duration::from_nanos(shard.now());
    let last_answer = Duration::from_nanos(last_answer);
    let thread = ThreadReport {
        cpu: used.ran,
        waited: used.waited,
        wall,
        spun: shard.spins(),
        dropped,
        blocked,
        receive_buffer,
        unstamped,
    };
    Ok(ShardReport { tally, last_answer, thread })
}

/// The scheduler's account of a thread.
#[derive(Clone, Copy)]
pub(crate) struct Used {
    ran: Duration,
    waited: Duration,
}

impl Used {
    fn now() -> Result<Self, RunError> {
        let ran = lab_sys::cpu::thread_time().map_err(RunError::Thread)?;
        Ok(Self { ran, waited: lab_sys::cpu::thread_waited() })
    }

    /// What was added since `self`.
    pub(crate) fn until_now(self) -> Result<Self, RunError> {
        let now = Self::now()?;
        let ran = now.ran.saturating_sub(self.ran);
        Ok(Self { ran, waited: now.waited.saturating_sub(self.waited) })
    }
}

/// Waits until all threads are ready and for the start, and returns what the thread has used up to then.
pub(crate) fn await_start(shard: &Shard<'_>) -> Result<Used, RunError> {
    shard.line.ready();
    begin(shard, shard.line.wait())
}

/// Begins with the schedule, which starts with `clock`.
pub(crate) fn begin(shard: &Shard<'_>, clock: Clock) -> Result<Used, RunError> {
    shard.clock.set(clock);
    std::thread::sleep(clock.until_start());
    Used::now()
}
