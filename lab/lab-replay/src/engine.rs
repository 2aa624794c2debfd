//! The loop that takes steps at their times, and receives.

mod receive;
mod streams;

use crate::books::Books;
use crate::compare::Comparison;
use crate::connection::Connection;
use crate::feed::{Action, Step};
use crate::flight::{Flight, Flying, State, Tag};
use crate::lanes::{Found, Key, Kind, Lanes, Plan};
use crate::limits::{READY_MAX, RECEIVED_MAX, RESPONSE_LEN_MAX, STEPS_PER_TURN};
use crate::matching::question_hash;
use crate::select::Addresses;
use lab_load::Progress;
use lab_load::tally::{Counts, Failure};
use lab_sys::batch::Batch;
use lab_sys::poll::{Interest, Poller, Ready};
use lab_workload::recorded::Carrier;
use nodens_wire::{Flags, HEADER_LEN, Header, Opcode, Reader};
use socket2::Socket;
use std::collections::{BTreeMap, VecDeque};
use std::io;
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
/// Tries to send a datagram over errors left by earlier ones.
const SEND_TRIES: u32 = 4;
/// From when the first steps are there to the start.
const LEAD: Duration = Duration::from_millis(50);
const SECOND: u64 = lab_load::SECOND;

/// What the engine is to do.
pub(crate) struct Task<'a> {
    pub(crate) plan: Plan,
    pub(crate) addresses: &'a Addresses,
    pub(crate) timeout: u64,
    /// Nanoseconds of the schedule.
    pub(crate) whole: u64,
    pub(crate) spins: bool,
    pub(crate) differences: usize,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) ticks: Sender<Progress>,
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
            lanes: Lanes::new(task.plan),
            flight: Flight::new(task.timeout, task.timeout.saturating_mul(3)),
            books: Books::new(task.timeout),
            comparison: Comparison::new(task.differences),
            dialled: VecDeque::new(),
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
            sockets_max: self.lanes.sockets_max(),
            other_ids: self.other_ids,
            starved: self.starved,
            errors: self.errors,
        })
    }

    fn turns(&mut self) -> io::Result<()> {
        let end = self.task.whole.saturating_add(SEND_GRACE);
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
            (Action::Open, _) => {
                let key = Key { client: step.client, server: Some(step.server) };
                _ = self.lane(key, step.round);
            }
            (Action::End, _) => self.end_recorded(&step),
        }
        None
    }

    /// The socket of `key`, opened if there is none.
    fn lane(&mut self, key: Key, round: u64) -> Result<usize, NoLane> {
        let local = self.task.addresses.of(key.client.ip());
        // If the machine is short of sockets, the second try knows how many there are.
        for _ in 0..2 {
            let now = self.now();
            match self.lanes.find(key, local) {
                Found::Lane(at) => return Ok(at),
                Found::None => return Err(NoLane::AllInUse),
                Found::New(close) => close.into_iter().for_each(|at| self.close_idle(at, now)),
            }
            let is_stream = key.server.is_some();
            if is_stream {
                self.books.tcp.connections.attempt(now);
            }
            match self.lanes.open(key, local, (now, round)) {
                Ok(at) => {
                    self.watch(at, now);
                    return Ok(at);
                }
                Err(error) => {
                    if is_stream {
                        self.books.tcp.connect_failures += 1;
                        let text = error.to_string();
                        self.books.tcp.connections.fail(now, Failure::NotTried, &text);
                    }
                    if !self.lanes.is_full(&error) {
                        let text = match local {
                            Some(local) => format!("from {local}: {error}"),
                            None => error.to_string(),
                        };
                        *self.errors.entry(text).or_default() += 1;
                        return Err(NoLane::Error);
                    }
                }
            }
        }
        Err(NoLane::AllInUse)
    }

    /// Lets the poller look at a new socket.
    fn watch(&mut self, at: usize, now: u64) {
        let Some(lane) = self.lanes.get(at) else { return };
        let (fd, interest) = match &lane.kind {
            Kind::Udp(socket) => (socket.as_fd(), Interest::Read),
            Kind::Tcp(connection) => {
                self.dialled.push_back((now, at, lane.serial));
                (connection.socket.as_fd(), Interest::ReadWrite)
            }
        };
        if let Err(error) = self.poller.add(fd, at as u64, interest) {
            *self.errors.entry(format!("cannot wait for responses: {error}")).or_default() += 1;
        }
    }

    /// Asks over UDP.
    fn ask(&mut self, mut step: Step) -> Option<Step> {
        let key = Key { client: step.client, server: None };
        let at = match self.lane(key, step.round) {
            Ok(at) => at,
            Err(why) => {
                self.not_sent(&step, why);
                return None;
            }
        };
        let Some((tag, mut flying)) = self.flying(&mut step, at) else {
            self.not_sent(&step, NoLane::AllInUse);
            return None;
        };
        let Action::Ask { message, recorded } = &mut step.action else { return None };
        for tried in 0.. {
            let Some(lane) = self.lanes.get(at) else { return None };
            let Kind::Udp(socket) = &lane.kind else { return None };
            let now = self.now();
            match socket.send(message) {
                Ok(_) => {
                    let took = self.now().saturating_sub(now);
                    self.books.udp.send_call.record(took);
                    self.books.schedule(Carrier::Udp, step.intended);
                    flying.recorded = recorded.take();
                    flying.sent = now;
                    self.sent(tag, flying);
                    return None;
                }
                Err(error) if receive::has_no_room(&error) => return Some(step),
                Err(error) if receive::is_refusal(&error) && tried < SEND_TRIES => {
                    self.take_refusals(at);
                }
                Err(error) => {
                    *self.errors.entry(error.to_string()).or_default() += 1;
                    self.not_sent(&step, NoLane::Error);
                    return None;
                }
            }
        }
        None
    }

    /// What is known of a query that is about to be sent on the socket at `at`, under an ID that is free: it is
    /// written into the message. `None` if there is no ID.
    fn flying(&mut self, step: &mut Step, at: usize) -> Option<(Tag, Flying)> {
        let Action::Ask { message, .. } = &mut step.action else { return None };
        let lane = self.lanes.get(at)?;
        let header = Header::read(message).ok()?;
        let id = self.flight.free_id(lane.serial, header.id, lane.ids)?;
        if id != header.id {
            self.other_ids += 1;
            nodens_wire::header::set_id(message, id);
        }
        let flying = Flying {
            state: State::Waiting,
            item: self.items,
            number: step.number,
            carrier: step.carrier,
            intended: step.intended,
            sent: 0,
            qtype: qtype(message),
            octets: message.len() as u64,
            question: question_hash(message),
            is_update: header.flags.opcode() == Opcode::UPDATE,
            recorded: None,
            lane: at,
        };
        self.items += 1;
        Some((Tag { serial: lane.serial, id }, flying))
    }

    /// Notes a query that was sent.
    fn sent(&mut self, tag: Tag, flying: Flying) {
        self.books.sent(&flying);
        let at = flying.lane;
        let is_new = self.flight.sent(tag, flying);
        self.in_flight += 1;
        if let Some(lane) = self.lanes.get_mut(at) {
            lane.waiting += 1;
            lane.ids += usize::from(is_new);
        }
    }

    /// Counts a query that cannot be sent.
    fn not_sent(&mut self, step: &Step, why: NoLane) {
        self.books.schedule(step.carrier, step.intended);
        match why {
            NoLane::AllInUse => self.books.skip(step.carrier, step.intended),
            NoLane::Error => self.books.send_error(step.carrier, step.intended),
        }
    }

    fn housekeeping(&mut self) {
        let now = self.now();
        if now >= self.next_expire {
            self.expire(now);
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
            // The receiver only goes away when the run is over.
            _ = self.task.ticks.send(progress);
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

/// Why there is no socket for a message.
#[derive(Clone, Copy)]
enum NoLane {
    /// All that there may be are in use.
    AllInUse,
    /// The operating system refuses it.
    Error,
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

/// The QTYPE of `message`; 0 if it has no query.
fn qtype(message: &[u8]) -> u16 {
    let mut reader = Reader::new(message, HEADER_LEN);
    let read = reader.skip_name().and_then(|()| reader.u16("QTYPE"));
    read.unwrap_or(0)
}

/// Whether `message` is a response to `flying`: a server may leave the question out of an error
/// (RFC 8906 section 3.1.4 saw many that do), and the zone out of the response to an update (RFC 2136 section 3.8).
fn is_answer(flying: &Flying, header: Header, message: &[u8]) -> bool {
    if !header.flags.has(Flags::QR) {
        return false;
    }
    match header.counts[0] {
        0 => header.flags.rcode().0 != 0 || flying.is_update,
        _ => question_hash(message) == flying.question,
    }
}

/// Whether a connection has nothing left to do.
fn is_done(connection: &Connection, waiting: usize) -> bool {
    connection.is_ending && waiting == 0 && !connection.wants_to_write()
}
