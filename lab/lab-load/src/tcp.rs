//! The loop over persistent TCP connections.

use crate::progress::Ticker;
use crate::run::{Pace, RunError};
use crate::session::Session;
use crate::shard::{LoopReport, Shard, Source, await_start};
use lab_sys::poll::{Interest, Poller};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

/// Octets read at once.
const READ_LEN: usize = 64 << 10;
/// Questions written at once.
const BATCH: usize = 32;
/// Items taken from the schedule before connections are looked at again.
const DUE_PER_TURN: usize = 256;
/// Nanoseconds between looks for timeouts.
const EXPIRE_STEP: u64 = 1_000_000;
/// Nanoseconds before a lost connection is asked for again.
const RECONNECT: u64 = 100_000_000;
/// EINPROGRESS: the connection is on its way.
const EINPROGRESS: i32 = 115;

/// One client's connection.
struct Connection {
    link: Link,
    /// Octets not yet written.
    out: Vec<u8>,
    /// Octets read that are no whole message yet.
    into: Vec<u8>,
    /// Items whose time has come.
    queue: VecDeque<(u64, u64)>,
    /// What the poller waits for.
    interest: Interest,
}

enum Link {
    Closed { since: u64 },
    Opening { socket: Socket, since: u64 },
    Open(Socket),
}

struct Tcp<'a> {
    shard: &'a Shard<'a>,
    session: Session<'a>,
    connections: Vec<Connection>,
    poller: Poller,
    message: Vec<u8>,
    buffer: Vec<u8>,
    blocked: u64,
    last_answer: u64,
    next_expire: u64,
    ticker: Ticker,
}

/// Runs the thread's part.
pub(crate) fn run(shard: &Shard<'_>) -> Result<LoopReport, RunError> {
    let before = await_start(shard)?;
    let mut tcp = Tcp::new(shard).map_err(RunError::Thread)?;
    tcp.run().map_err(RunError::Thread)?;
    let used = before.until_now()?;
    let Tcp { session, blocked, last_answer, .. } = tcp;
    Ok(LoopReport {
        tally: session.tally,
        used,
        dropped: 0,
        blocked,
        receive_buffer: 0,
        unstamped: 0,
        last_answer,
    })
}

impl<'a> Tcp<'a> {
    fn new(shard: &'a Shard<'a>) -> io::Result<Self> {
        let connections = (0..shard.clients()).map(|_| Connection {
            link: Link::Closed { since: 0 },
            out: Vec::new(),
            into: Vec::new(),
            queue: VecDeque::new(),
            interest: Interest::ReadWrite,
        });
        Ok(Self {
            shard,
            session: shard.session(),
            connections: connections.collect(),
            poller: Poller::new(1_024)?,
            message: Vec::new(),
            buffer: vec![0; READ_LEN],
            blocked: 0,
            last_answer: 0,
            next_expire: 0,
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
        let mut item = self.shard.index as u64;
        for client in 0..self.connections.len() {
            self.dial(client, 0);
        }
        loop {
            let now = self.shard.now();
            if self.shard.stopped() {
                self.session.interrupt();
                self.drop_queues();
                return Ok(());
            }
            let more = match (&mut source, config.pace) {
                (Some(source), _) => self.enqueue_due(source, now),
                (None, Pace::Closed { window }) => {
                    let more = now < end && config.queries.is_none_or(|queries| item < queries);
                    self.enqueue_window(if more { window } else { 0 }, &mut item, now);
                    more
                }
                (None, Pace::Open { .. }) => false,
            };
            for client in 0..self.connections.len() {
                self.send(client, now);
            }
            let next = source.as_ref().and_then(Source::peek).map(|due| due.intended);
            self.receive(next)?;
            self.housekeeping(now >= end);
            if !more && self.queued() == 0 && self.session.all_waiting() == 0 {
                return Ok(());
            }
        }
    }

    fn queued(&self) -> u64 {
        self.connections.iter().map(|connection| connection.queue.len() as u64).sum()
    }

    /// Counts what was due and could not be sent before the run was stopped.
    fn drop_queues(&mut self) {
        for (_, intended) in self.connections.iter().flat_map(|connection| &connection.queue) {
            self.session.skip(*intended);
        }
    }

    fn enqueue_due(&mut self, source: &mut Source<'_>, now: u64) -> bool {
        for _ in 0..DUE_PER_TURN {
            let Some(due) = source.peek().filter(|due| due.intended <= now) else { break };
            self.session.schedule(due.intended);
            if let Some(connection) = self.connections.get_mut(due.client) {
                connection.queue.push_back((due.item, due.intended));
            }
            source.advance();
        }
        source.peek().is_some()
    }

    fn enqueue_window(&mut self, window: usize, item: &mut u64, now: u64) {
        for (client, connection) in self.connections.iter_mut().enumerate() {
            let Link::Open(_) = connection.link else { continue };
            let used = self.session.waiting(client) + connection.queue.len();
            for _ in 0..window.saturating_sub(used) {
                self.session.schedule(now);
                connection.queue.push_back((*item, now));
                *item += self.shard.threads as u64;
            }
        }
    }

    fn dial(&mut self, client: usize, now: u64) {
        let Some(connection) = self.connections.get_mut(client) else { return };
        match open(self.shard, client) {
            Ok(socket) => {
                connection.interest = Interest::ReadWrite;
                if self.poller.add(socket.as_fd(), client as u64, Interest::ReadWrite).is_ok() {
                    connection.link = Link::Opening { socket, since: now };
                    return;
                }
                self.hang_up(client, now);
            }
            Err(_) => self.hang_up(client, now),
        }
    }

    /// Ends a connection; what is in flight on it has failed.
    fn hang_up(&mut self, client: usize, now: u64) {
        let Some(connection) = self.connections.get_mut(client) else { return };
        if !matches!(connection.link, Link::Open(_)) {
            self.session.tally.connect_failures += 1;
        }
        connection.link = Link::Closed { since: now };
        connection.out.clear();
        connection.into.clear();
        self.session.disconnect(client);
    }

    /// Writes what is due for `client`, as far as the kernel takes it.
    fn send(&mut self, client: usize, now: u64) {
        let Some(connection) = self.connections.get_mut(client) else { return };
        match &connection.link {
            Link::Closed { since } if !connection.queue.is_empty() && now >= since + RECONNECT => {
                return self.dial(client, now);
            }
            Link::Open(_) => {}
            Link::Closed { .. } | Link::Opening { .. } => return,
        }
        if connection.queue.is_empty() && connection.out.is_empty() {
            return;
        }
        let stamp = self.shard.now();
        for _ in 0..BATCH {
            let Some((item, intended)) = connection.queue.pop_front() else { break };
            self.message.clear();
            match self.session.issue(client, stamp, (item, intended), &mut self.message) {
                Some(id) => {
                    let len = u16::try_from(self.message.len()).unwrap_or(u16::MAX);
                    connection.out.extend(len.to_be_bytes());
                    connection.out.extend_from_slice(&self.message);
                    self.session.sent(client, id, stamp);
                }
                None => self.session.skip(intended),
            }
        }
        if self.flush(client).is_err() {
            self.hang_up(client, now);
        }
    }

    fn flush(&mut self, client: usize) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(client) else { return Ok(()) };
        let Link::Open(socket) = &mut connection.link else { return Ok(()) };
        while !connection.out.is_empty() {
            match socket.write(&connection.out) {
                Ok(count) => _ = connection.out.drain(..count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.blocked += 1;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        let interest = if connection.out.is_empty() { Interest::Read } else { Interest::ReadWrite };
        if interest != connection.interest {
            self.poller.modify(socket.as_fd(), client as u64, interest)?;
            connection.interest = interest;
        }
        Ok(())
    }

    fn receive(&mut self, next: Option<u64>) -> io::Result<()> {
        let now = self.shard.now();
        let idle = !self.shard.spins() && self.queued() == 0;
        let sleep =
            if idle { self.shard.sleep(now, next, self.next_expire) } else { Duration::ZERO };
        let ready: Vec<_> = self.poller.wait(sleep)?.collect();
        for ready in ready {
            let client = ready.token as usize;
            let opening = self.connections.get(client).is_some_and(Connection::is_opening);
            let result = if opening { self.opened(client) } else { Ok(()) };
            let result =
                result.and_then(|()| if ready.writable { self.flush(client) } else { Ok(()) });
            let result =
                result.and_then(|()| if ready.readable { self.read(client) } else { Ok(()) });
            if result.is_err() {
                self.hang_up(client, self.shard.now());
            }
        }
        Ok(())
    }

    /// A connection that was on its way is there, or has failed.
    fn opened(&mut self, client: usize) -> io::Result<()> {
        let now = self.shard.now();
        let Some(connection) = self.connections.get_mut(client) else { return Ok(()) };
        let link = std::mem::replace(&mut connection.link, Link::Closed { since: now });
        let Link::Opening { socket, since } = link else {
            connection.link = link;
            return Ok(());
        };
        if let Some(error) = socket.take_error()? {
            return Err(error);
        }
        connection.link = Link::Open(socket);
        self.session.tally.connect.record(now.saturating_sub(since));
        Ok(())
    }

    fn read(&mut self, client: usize) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(client) else { return Ok(()) };
        let Link::Open(socket) = &mut connection.link else { return Ok(()) };
        let count = match socket.read(&mut self.buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        let now = self.shard.now();
        connection.into.extend(self.buffer.iter().take(count));
        let answered = self.session.tally.counts.answered;
        let mut at = 0;
        while let Some((message, rest)) = connection.into.get(at..).and_then(split_message) {
            self.session.receive(client, message, now);
            at = connection.into.len() - rest;
        }
        connection.into.drain(..at);
        if self.session.tally.counts.answered > answered {
            self.last_answer = now;
        }
        Ok(())
    }

    fn housekeeping(&mut self, over: bool) {
        let now = self.shard.now();
        if now >= self.next_expire {
            self.session.expire(now);
            self.next_expire = now + EXPIRE_STEP;
            self.drop_hopeless(now, over);
        }
        self.ticker.turn(&self.shard.ticks, &self.session, now);
    }

    /// Gives up connections that take longer than the timeout to open, and, when the sending time
    /// is `over`, the items of clients without a connection: nothing will carry them any more.
    fn drop_hopeless(&mut self, now: u64, over: bool) {
        let timeout = u64::try_from(self.shard.config.timeout.as_nanos()).unwrap_or(u64::MAX);
        for client in 0..self.connections.len() {
            let Some(connection) = self.connections.get_mut(client) else { return };
            if matches!(connection.link, Link::Opening { since, .. } if now > since.saturating_add(timeout))
            {
                self.hang_up(client, now);
            } else if over && matches!(connection.link, Link::Closed { .. }) {
                for (_, intended) in connection.queue.drain(..) {
                    self.session.send_error(intended);
                }
            }
        }
    }
}

impl Connection {
    fn is_opening(&self) -> bool {
        matches!(self.link, Link::Opening { .. })
    }
}

/// The first whole message of a stream (RFC 1035 section 4.2.2) and how many octets follow it.
fn split_message(stream: &[u8]) -> Option<(&[u8], usize)> {
    let (len, rest) = stream.split_first_chunk::<2>()?;
    let (message, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
    Some((message, rest.len()))
}

fn open(shard: &Shard<'_>, client: usize) -> io::Result<Socket> {
    let server = shard.config.server;
    let socket = Socket::new(Domain::for_address(server), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    if let Some(source) = shard.source(client) {
        // The port is chosen when connecting: one port then serves several connections.
        lab_sys::socket::choose_port_late(socket.as_fd())?;
        socket.bind(&source.into())?;
    }
    match socket.connect(&server.into()) {
        Err(error) if error.raw_os_error() != Some(EINPROGRESS) => Err(error),
        _ => Ok(socket),
    }
}
