//! The loop that takes steps at their times, and receives.

mod receive;
mod send;
mod streams;

use crate::books::{Books, Second};
use crate::compare::Comparison;
use crate::connection::Connection;
use crate::feed::{Action, Step};
use crate::flight::{Flight, Flying};
use crate::lanes::{Kind, Lanes, Plan};
use crate::limits::{READY_MAX, RECEIVED_MAX, RESPONSE_LEN_MAX, STEPS_PER_TURN};
use crate::matching::question_hash;
use crate::select::Addresses;
use lab_load::Progress;
use lab_load::tally::Counts;
use lab_sys::batch::Batch;
use lab_sys::poll::{Poller, Ready};
use lab_workload::recorded::Carrier;
use nodens_wire::{Flags, Header};
use socket2::Socket;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

/// Nanoseconds that waking up may take; a thread looks out for its next step during these.
const WAKE_UP: u64 = 60_000;
/// Nanoseconds between looks for timeouts.
const EXPIRE_STEP: u64 = 1_000_000;
/// The longest sleep, so that a stop is noticed.
const SLEEP_MAX: u64 = SECOND / 20;
/// How long after its end what should have left may still do so.
const SEND_GRACE: u64 = SECOND;
/// Steps that are skipped in one turn when the run is over.
const SKIPS_PER_TURN: usize = 1 << 14;
/// From when the first steps are there to the start.
const LEAD: Duration = Duration::from_millis(50);
const SECOND: u64 = lab_load::SECOND;

/// What the engine is to do.
pub(crate) struct Task<'a> {
    pub(crate) plan: Plan,
    pub(crate) addresses: &'a Addresses,
    pub(crate) timeout: u64,
    /// Nanoseconds after which a connection is closed that no recorded one says when to close.
    pub(crate) idle: u64,
    /// Nanoseconds of the schedule.
    pub(crate) whole: u64,
    pub(crate) spins: bool,
    pub(crate) differences: usize,
    pub(crate) stop: &'a AtomicBool,
    /// Queries that are in flight, or whose IDs rest, at once in the busiest second.
    pub(crate) expected: usize,
    /// Clients whose UDP sockets are opened before the start.
    pub(crate) early: &'a [SocketAddr],
    /// Recorded connections without an end, by client and server.
    pub(crate) endless: &'a HashSet<(SocketAddr, SocketAddr)>,
    pub(crate) ticks: Sender<Tick>,
}

/// What it tells while it runs.
pub(crate) struct Tick {
    pub(crate) progress: Progress,
    /// Seconds that are over.
    pub(crate) over: Vec<Second>,
}

/// What it brings back.
pub(crate) struct Report {
    pub(crate) books: Books,
    pub(crate) comparison: Comparison,
    pub(crate) started: std::time::SystemTime,
    pub(crate) last_answer: u64,
    pub(crate) elapsed: u64,
    pub(crate) cpu: Duration,
    pub(crate) waited: Duration,
    pub(crate) dropped: u64,
    pub(crate) blocked: u64,
    pub(crate) sockets: u64,
    pub(crate) reused: u64,
    /// Connections that were closed for want of sockets.
    pub(crate) closed: u64,
    pub(crate) sockets_max: usize,
    /// Queries that were sent with another ID than recorded.
    pub(crate) other_ids: u64,
    /// Steps that were not read yet when their time came.
    pub(crate) starved: u64,
    /// Why sockets could not be opened, and how often.
    pub(crate) errors: BTreeMap<String, u64>,
}

pub(crate) struct Engine<'a> {
    task: Task<'a>,
    steps: Receiver<Vec<Step>>,
    head: VecDeque<Step>,
    /// Whether all steps were read.
    read: bool,
    hungry: bool,
    start: Instant,
    poller: Poller,
    ready: Vec<Ready>,
    into: Batch,
    lanes: Lanes,
    flight: Flight,
    books: Books,
    comparison: Comparison,
    /// Connections that are not there yet, in the order in which they were asked for.
    dialled: VecDeque<(u64, usize, u64)>,
    /// The socket at which the last look for unused connections ended, as a place in the order of all uses.
    looked_at: u64,
    round: u64,
    items: u64,
    in_flight: u64,
    last_answer: u64,
    next_expire: u64,
    dropped: u64,
    blocked: u64,
    other_ids: u64,
    starved: u64,
    errors: BTreeMap<String, u64>,
    second: u64,
    told: Counts,
}

impl<'a> Engine<'a> {
    pub(crate) fn new(task: Task<'a>, steps: Receiver<Vec<Step>>) -> io::Result<Self> {
        Ok(Self {
            steps,
            head: VecDeque::new(),
            read: false,
            hungry: false,
            start: Instant::now(),
            poller: Poller::new(READY_MAX)?,
            ready: Vec::with_capacity(READY_MAX),
            into: Batch::connected(RECEIVED_MAX, RESPONSE_LEN_MAX),
            lanes: Lanes::new(task.plan.clone()),
            flight: Flight::new(task.timeout, task.timeout.saturating_mul(3), task.expected),
            books: Books::new(task.timeout, task.whole.saturating_add(task.timeout) / SECOND + 2),
            comparison: Comparison::new(task.differences),
            dialled: VecDeque::new(),
            looked_at: 0,
            round: 0,
            items: 0,
            in_flight: 0,
            last_answer: 0,
            next_expire: 0,
            dropped: 0,
            blocked: 0,
            other_ids: 0,
            starved: 0,
            errors: BTreeMap::new(),
            second: 0,
            told: Counts::default(),
            task,
        })
    }

    /// Takes all steps and waits for what they bring.
    pub(crate) fn run(mut self) -> io::Result<Report> {
        lab_sys::cpu::tighten_timers();
        // The first steps are there before the clock starts.
        self.head.extend(self.steps.recv().unwrap_or_default());
        self.open_early();
        std::thread::sleep(LEAD);
        self.start = Instant::now();
        let started = std::time::SystemTime::now();
        let cpu = lab_sys::cpu::thread_time()?;
        let waited = lab_sys::cpu::thread_waited();
        self.turns()?;
        let elapsed = self.now();
        self.end_connections(elapsed, self.task.stop.load(Ordering::Relaxed));
        let open = self.lanes.iter().map(|(_, lane)| dropped(&lane.kind));
        let dropped = self.dropped + open.sum::<u64>();
        Ok(Report {
            comparison: self.comparison,
            books: self.books,
            started,
            last_answer: self.last_answer,
            elapsed,
            cpu: lab_sys::cpu::thread_time()?.saturating_sub(cpu),
            waited: lab_sys::cpu::thread_waited().saturating_sub(waited),
            dropped,
            blocked: self.blocked,
            sockets: self.lanes.opened,
            reused: self.lanes.reused,
            closed: self.lanes.closed,
            sockets_max: self.lanes.sockets_max(),
            other_ids: self.other_ids,
            starved: self.starved,
            errors: self.errors,
        })
    }

    fn turns(&mut self) -> io::Result<()> {
        let end = self.last_send();
        loop {
            let now = self.now();
            if self.task.stop.load(Ordering::Relaxed) {
                self.interrupt();
                return Ok(());
            }
            if now > end {
                self.skip_rest(now > end.saturating_add(self.task.timeout));
            } else {
                self.take_steps();
            }
            self.receive()?;
            self.housekeeping();
            if self.read && self.head.is_empty() && self.in_flight == 0 {
                return Ok(());
            }
        }
    }

    /// Nanoseconds since the start.
    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Whether there is a next step that was read.
    fn refill(&mut self) -> bool {
        while self.head.is_empty() && !self.read {
            match self.steps.try_recv() {
                Ok(batch) => {
                    let now = self.now();
                    let late = |step: &&Step| self.hungry && step.intended < now;
                    self.starved += batch.iter().filter(late).count() as u64;
                    self.hungry = false;
                    self.head.extend(batch);
                }
                Err(TryRecvError::Empty) => {
                    self.hungry = true;
                    return false;
                }
                Err(TryRecvError::Disconnected) => self.read = true,
            }
        }
        !self.head.is_empty()
    }

    /// Takes the steps whose time has come, unless the run is over.
    fn take_due(&mut self) {
        if self.now() <= self.last_send() {
            self.take_steps();
        }
    }

    /// When nothing is sent any more.
    fn last_send(&self) -> u64 {
        self.task.whole.saturating_add(SEND_GRACE)
    }

    /// Takes the steps whose time has come.
    fn take_steps(&mut self) {
        for _ in 0..STEPS_PER_TURN {
            let now = self.now();
            if !self.refill() || self.head.front().is_none_or(|step| step.intended > now) {
                return;
            }
            if let Some(step) = self.head.pop_front()
                && let Some(step) = self.take(step)
            {
                // The kernel has no room: it is tried again in the next turn.
                self.blocked += 1;
                self.head.push_front(step);
                return;
            }
        }
    }

    /// Counts what is left as overdue; not even that if there was no time for it (`give_up`).
    fn skip_rest(&mut self, give_up: bool) {
        for _ in 0..SKIPS_PER_TURN {
            if !self.refill() {
                break;
            }
            let Some(step) = self.head.pop_front() else { break };
            if let Action::Ask { .. } = step.action {
                self.books.schedule(step.carrier, step.intended);
                self.books.overdue(step.carrier, step.intended);
            }
        }
        if give_up && (!self.head.is_empty() || !self.read) {
            self.books.udp.uncounted = true;
            self.head.clear();
            self.read = true;
        }
    }

    fn interrupt(&mut self) {
        while let Some(flying) = self.flight.interrupt() {
            self.books.interrupt(&flying);
        }
        self.in_flight = 0;
    }

    /// Takes a step; it comes back if the kernel has no room for its datagram.
    fn take(&mut self, step: Step) -> Option<Step> {
        if step.round > self.round {
            self.round = step.round;
            self.end_rounds();
        }
        match (&step.action, step.carrier) {
            (Action::Ask { .. }, Carrier::Udp) => return self.ask(step),
            (Action::Ask { .. }, Carrier::Tcp) => self.ask_on_connection(step),
            (Action::Open, _) => self.open_recorded(&step),
            (Action::End, _) => self.end_recorded(&step),
        }
        None
    }

    fn housekeeping(&mut self) {
        let now = self.now();
        if now >= self.next_expire {
            self.expire(now);
            self.close_unused(now);
            self.next_expire = now + EXPIRE_STEP;
        }
        while now >= (self.second + 1) * SECOND {
            let counts = self.books.counts();
            let progress = Progress {
                second: self.second,
                counts: counts.since(&self.told),
                in_flight: counts.in_flight(),
                cohort: self.books.cohort(self.second),
                finals: Vec::new(),
            };
            let over = self.books.take_over(now);
            // The receiver only goes away when the run is over.
            _ = self.task.ticks.send(Tick { progress, over });
            self.told = counts;
            self.second += 1;
        }
    }

    /// How long to wait for sockets: up to shortly before the next step.
    fn pause(&self) -> Duration {
        if self.task.spins && !self.head.is_empty() {
            return Duration::ZERO;
        }
        let now = self.now();
        let next = match self.head.front() {
            Some(step) => step.intended.saturating_sub(WAKE_UP),
            // What is to come is not known yet.
            None if !self.read => now + EXPIRE_STEP,
            None => u64::MAX,
        };
        let expire = if self.in_flight > 0 { self.next_expire } else { u64::MAX };
        let until = next.min(expire).min(now + SLEEP_MAX);
        Duration::from_nanos(until.saturating_sub(now))
    }
}

/// Datagrams that the kernel has dropped because the socket was full.
fn dropped(kind: &Kind) -> u64 {
    match kind {
        Kind::Udp(socket) => drops_of(socket),
        Kind::Tcp(_) => 0,
    }
}

fn drops_of(socket: &Socket) -> u64 {
    u64::from(lab_sys::socket::dropped(socket.as_fd()).unwrap_or(0))
}

/// Whether `message` is a response to `flying`: a server may leave the question out of an error
/// (RFC 8906 section 3.1.4 saw many that do), and the zone out of the response to an update (RFC 2136 section 3.8). Some
/// queries have none.
fn is_answer(flying: &Flying, header: Header, message: &[u8]) -> bool {
    if !header.flags.has(Flags::QR) {
        return false;
    }
    match header.counts[0] {
        0 if header.flags.rcode().0 != 0 || flying.is_update => true,
        _ => question_hash(message) == flying.question,
    }
}

/// Whether a connection has nothing left to do.
fn is_done(connection: &Connection, waiting: usize) -> bool {
    connection.is_ending && waiting == 0 && !connection.is_busy()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flight::State;
    use nodens_wire::HEADER_LEN;

    fn flying(asked: &[u8], is_update: bool) -> Flying {
        Flying {
            state: State::Waiting,
            item: 0,
            number: 1,
            carrier: Carrier::Udp,
            intended: 0,
            sent: 0,
            qtype: 0,
            octets: 0,
            question: question_hash(asked),
            is_update,
            recorded: None,
            lane: 0,
        }
    }

    #[test]
    fn a_response_without_a_question_answers_a_query_without_one_and_errors() {
        let empty = [0; HEADER_LEN].to_vec();
        let mut asked = [&empty[..], &[1, b'a', 0, 0, 1, 0, 1]].concat();
        asked[5] = 1;
        let response = |rcode: u8| {
            let mut response = empty.clone();
            (response[2], response[3]) = (0x80, rcode);
            response
        };
        let answers = |asked: &[u8], is_update, message: &[u8]| {
            is_answer(&flying(asked, is_update), Header::read(message).unwrap(), message)
        };
        assert!(answers(&empty, false, &response(0)) && answers(&empty, false, &response(1)));
        assert!(answers(&asked, false, &response(1)) && answers(&asked, true, &response(0)));
        assert!(!answers(&asked, false, &response(0)) && !answers(&empty, false, &empty));
        let mut other = asked.clone();
        other[2] = 0x80;
        assert!(answers(&asked, false, &other) && !answers(&empty, false, &other));
    }
}
