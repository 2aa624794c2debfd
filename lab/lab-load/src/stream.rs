//! The loop over connections: which client asks on which of its connections, and when clients open
//! and leave them.
//!
//! A query belongs to its client from its intended time on, and counts as *sent* from then: what
//! it waits for afterwards (a handshake, an answer that a pipelining limit waits for, room on the
//! way) is what the server makes it wait for, and stays in its response time. Service time counts
//! from when its first octet was given to the kernel.
//!
//! The contract between this loop and one connection is in `carrier`. TCP and DoT are `framed`;
//! `doh`, `doq` and `doh3` have one query per stream; `pipe`, `tls` and `quic` are the octets below
//! them. `dial` makes connections, `course` is how they begin and end.

mod carrier;
mod course;
mod dial;
mod doh;
mod doh3;
mod doq;
mod first;
mod framed;
mod given_up;
mod pipe;
mod quic;
mod tls;

pub use carrier::{End, Handshake};
pub use pipe::{Pipe, is_pending};
pub use tls::{Settings as TlsSettings, TlsError};

use crate::clock::Clock;
use crate::connections::Closure;
use crate::life::Limits;
use crate::progress::Ticker;
use crate::run::{Pace, RunError};
use crate::session::Session;
use crate::shard::{LoopReport, Shard, Source};
use carrier::{Carrier, Sink, Status, Taken};
use dial::{Dialer, Tickets};
use lab_sys::poll::{Interest, Poller, Ready};
use slab::Slab;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io;
use std::time::Duration;

/// Queries given to a connection before it is driven.
const BATCH: usize = 32;
/// Items taken from the schedule before connections are looked at again.
const DUE_PER_TURN: usize = 256;
/// Nanoseconds before a closed loop asks again for a connection that it did not get.
const RECONNECT: u64 = 100_000_000;

#[derive(Default)]
struct Client {
    /// Queries that no connection has taken yet.
    hand: VecDeque<Handed>,
    /// The connection that takes new queries.
    current: Option<usize>,
    /// Connections so far.
    lanes: u32,
    tickets: Tickets,
    /// When a closed loop continues.
    rests_until: u64,
    /// Whether it is among the clients with something to do.
    is_dirty: bool,
}

struct Handed {
    id: u16,
    message: Vec<u8>,
    /// Whether it has met a connection without room.
    has_waited: bool,
}

struct Connection {
    carrier: Box<dyn Carrier>,
    status: Status,
    /// Tells connections that had the same place one after the other apart.
    serial: u64,
    /// Queries asked, in order; those with an outcome are dropped lazily.
    asked: VecDeque<u16>,
    /// When queries were sent that have timed out, and their IDs: the carrier may still keep them.
    given_up: VecDeque<(u64, u16)>,
    limits: Limits,
    /// Queries that it may still take.
    left: u64,
    /// Whether its client asks elsewhere by now.
    is_left: bool,
    interest: Interest,
    /// The earliest time in the heap of timers.
    timer: u64,
}

struct Engine<'a> {
    shard: &'a Shard<'a>,
    clock: Clock,
    session: Session<'a>,
    dialer: Dialer,
    clients: Vec<Client>,
    connections: Slab<Connection>,
    /// Where the connections are, by client and lane.
    places: HashMap<(usize, u32), usize>,
    /// Connections whose clients have left them, and their serials.
    left: Vec<(usize, u64)>,
    dirty: Vec<usize>,
    timers: BinaryHeap<Reverse<(u64, usize, u64)>>,
    poller: Poller,
    ready: Vec<Ready>,
    buffer: Vec<u8>,
    serials: u64,
    blocked: u64,
    /// Datagrams that connections that are gone did not fetch in time.
    dropped: u64,
    last_answer: u64,
    began: u64,
    next_expire: u64,
    set_up_timeout: u64,
    /// Why no connection will ever be set up.
    hopeless: Option<RunError>,
    ticker: Ticker,
}

/// Runs the thread's part.
pub(crate) fn run(shard: &Shard<'_>) -> Result<LoopReport, RunError> {
    let mut engine = Engine::new(shard)?;
    let before = engine.start()?;
    engine.run().map_err(RunError::Thread)?;
    if let Some(why) = engine.hopeless {
        shard.abort();
        return Err(why);
    }
    let used = before.until_now()?;
    let Engine { session, blocked, dropped, last_answer, .. } = engine;
    Ok(LoopReport {
        tally: session.tally,
        used,
        dropped,
        blocked,
        receive_buffer: 0,
        unstamped: 0,
        last_answer,
    })
}

impl<'a> Engine<'a> {
    fn new(shard: &'a Shard<'a>) -> Result<Self, RunError> {
        let config = shard.config;
        let set_up_timeout = config.set_up_timeout();
        let mut clients = Vec::new();
        clients.resize_with(shard.clients(), Client::default);
        Ok(Self {
            shard,
            clock: shard.clock.get(),
            session: shard.session(),
            dialer: Dialer::new(&config.streams, shard.share)?,
            clients,
            connections: Slab::new(),
            places: HashMap::new(),
            left: Vec::new(),
            dirty: Vec::new(),
            timers: BinaryHeap::new(),
            poller: Poller::new(1_024).map_err(RunError::Thread)?,
            ready: Vec::new(),
            buffer: Sink::buffer(),
            serials: 0,
            blocked: 0,
            dropped: 0,
            last_answer: 0,
            began: 0,
            next_expire: 0,
            set_up_timeout: u64::try_from(set_up_timeout.as_nanos()).unwrap_or(u64::MAX),
            hopeless: None,
            ticker: Ticker::new(),
        })
    }

    fn run(&mut self) -> io::Result<()> {
        let config = self.shard.config;
        let end = u64::try_from(config.duration.as_nanos()).unwrap_or(u64::MAX);
        let mut source = match config.pace {
            Pace::Open { rate, arrivals } => Some(Source::new(self.shard, rate, arrivals)),
            Pace::Closed { .. } => None,
        };
        let mut item = self.shard.items.0;
        self.connect_at_start();
        loop {
            let now = self.shard.now();
            if self.shard.stopped() || self.hopeless.is_some() {
                self.session.interrupt();
                self.finish();
                return Ok(());
            }
            let more = match (&mut source, config.pace) {
                (Some(source), _) => self.take_due(source, now),
                (None, Pace::Closed { window }) => {
                    let more = now < end && self.shard.has(item);
                    self.take_window(if more { window } else { 0 }, &mut item, now);
                    more
                }
                (None, Pace::Open { .. }) => false,
            };
            while let Some(client) = self.dirty.pop() {
                // Whoever finds no room is not asked again at once: an event or the time tells.
                self.pump(client);
                self.with_client(client, |client| client.is_dirty = false);
            }
            let next = source.as_ref().and_then(Source::peek).map(|due| due.intended);
            self.receive(next)?;
            self.housekeeping();
            if !more && self.session.all_waiting() == 0 {
                self.finish();
                return Ok(());
            }
        }
    }

    fn with_client<T>(&mut self, client: usize, of: impl FnOnce(&mut Client) -> T) -> Option<T> {
        self.clients.get_mut(client).map(of)
    }

    fn mark(&mut self, client: usize) {
        let was_dirty = self.with_client(client, |it| std::mem::replace(&mut it.is_dirty, true));
        if was_dirty == Some(false) {
            self.dirty.push(client);
        }
    }

    fn take_due(&mut self, source: &mut Source<'_>, now: u64) -> bool {
        if now > self.shard.send_end(self.began) {
            return !source.skip_rest(&mut self.session, self.began);
        }
        for _ in 0..DUE_PER_TURN {
            let Some(due) = source.peek().filter(|due| due.intended <= now) else { break };
            self.session.schedule(due.intended);
            self.hand(due.client, (due.item, due.intended));
            source.advance();
        }
        source.peek().is_some()
    }

    fn take_window(&mut self, window: usize, item: &mut u64, now: u64) {
        for client in 0..self.clients.len() {
            if self.with_client(client, |it| it.rests_until > now) != Some(false) {
                continue;
            }
            for _ in 0..window.saturating_sub(self.session.waiting(client)) {
                if !self.shard.has(*item) {
                    return;
                }
                self.session.schedule(now);
                self.hand(client, (*item, now));
                *item += self.shard.items.1;
            }
        }
    }

    /// Hands a query to its client: from now on it waits for its answer.
    fn hand(&mut self, client: usize, item: (u64, u64)) {
        let (now, mut message) = (self.shard.now(), Vec::new());
        let Some(id) = self.session.issue(client, now, item, &mut message) else {
            return self.session.skip(item.1);
        };
        self.session.sent(client, id, now);
        let handed = Handed { id, message, has_waited: false };
        self.with_client(client, |it| it.hand.push_back(handed));
        self.mark(client);
    }

    /// Gives what `client` has in hand to its connections, as far as they take it.
    fn pump(&mut self, client: usize) {
        while self.front(client).is_some() {
            let current = self.with_client(client, |it| it.current).flatten();
            let Some(key) = current.or_else(|| self.dial(client)) else { return };
            let given = self.give(client, key);
            self.drive(key);
            // A connection that takes no more was left; without one, the next turn opens another.
            if given == 0 && self.with_client(client, |it| it.current == Some(key)) == Some(true) {
                // What made room just now is no event any more.
                if self.give(client, key) == 0 {
                    return;
                }
                self.drive(key);
            }
        }
    }

    /// The next query in hand that has no outcome yet.
    fn front(&mut self, client: usize) -> Option<u16> {
        let it = self.clients.get_mut(client)?;
        while let Some(handed) = it.hand.front() {
            if self.session.waits(client, 0, handed.id) {
                return Some(handed.id);
            }
            it.hand.pop_front();
        }
        None
    }

    /// Gives up to [`BATCH`] queries to a connection, and returns how many.
    fn give(&mut self, client: usize, key: usize) -> usize {
        let (mut given, now) = (0, self.shard.now());
        let limit = self.shard.config.streams.pipelining.map(usize::from);
        while given < BATCH && self.front(client).is_some() {
            let (Some(connection), Some(it)) =
                (self.connections.get_mut(key), self.clients.get_mut(client))
            else {
                return given;
            };
            let lane = connection.status.lane;
            let (asked, session) = (&mut connection.asked, &mut self.session);
            while asked.front().is_some_and(|id| !session.waits(client, lane, *id)) {
                asked.pop_front();
            }
            if let Some(limit) = limit.filter(|limit| asked.len() >= *limit) {
                asked.retain(|id| session.waits(client, lane, *id));
                if asked.len() >= limit {
                    return given;
                }
            }
            let Some(mut handed) = it.hand.pop_front() else { return given };
            match connection.ask(&handed, |sent| session.is_past(sent, now)) {
                Taken::Yes => {
                    session.assign(client, handed.id, lane);
                    connection.asked.push_back(handed.id);
                    connection.left -= 1;
                    given += 1;
                }
                Taken::Full => {
                    let waits = &mut session.tally.connections.stream_waits;
                    *waits += u64::from(!std::mem::replace(&mut handed.has_waited, true));
                    it.hand.push_front(handed);
                    return given;
                }
                Taken::Over => {
                    it.hand.push_front(handed);
                    self.leave(key);
                    return given;
                }
            }
            if connection.left == 0 {
                self.leave(key);
                return given;
            }
        }
        given
    }

    fn receive(&mut self, next: Option<u64>) -> io::Result<()> {
        let now = self.shard.now();
        let idle = !self.shard.spins() && self.dirty.is_empty();
        let timer = self.timers.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
        let sleep = if idle {
            self.shard.sleep(now, next, self.next_expire.min(timer))
        } else {
            Duration::ZERO
        };
        self.receive_within(sleep)
    }

    /// Drives the connections that something happens to, for which it waits no longer than `sleep`.
    fn receive_within(&mut self, sleep: Duration) -> io::Result<()> {
        self.ready.clear();
        self.ready.extend(self.poller.wait(sleep)?);
        for at in 0..self.ready.len() {
            if let Some(ready) = self.ready.get(at) {
                self.drive(ready.token as usize);
            }
        }
        Ok(())
    }

    /// Ends the run: closes what is still open.
    fn finish(&mut self) {
        let now = self.shard.now();
        let instant = self.clock.instant(now);
        for mut connection in self.connections.drain() {
            self.dropped += connection.carrier.dropped();
            let connections = &mut self.session.tally.connections;
            if connection.status.opened.is_some() {
                connection.carrier.close(instant);
                connections.close(now, Closure::LeftOpen, "");
            } else {
                connections.unfinished += 1;
            }
        }
    }
}
