//! The loop over connected UDP sockets.

pub(crate) mod errors;
mod fetch;
mod open;

use crate::clock;
use crate::progress::Ticker;
use crate::run::{Pace, RunError, Stamps};
use crate::session::Session;
use crate::shard::{Due, LoopReport, Shard, Source, await_start};
use errors::{has_no_room, is_refusal, take_refusals};
use lab_sys::batch::Batch;
use lab_sys::poll::Poller;
use open::{connect, receive_batch, watch};
use socket2::Socket;
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Datagrams per system call.
const BATCH: usize = 32;
/// Datagrams received by one system call: one more than leave together, so that a call that brings all
/// their answers also says that there are no more.
const RECEIVED_MAX: usize = BATCH + 1;
/// Items taken from the schedule before sockets are looked at again.
const DUE_PER_TURN: usize = 256;
/// Up to this many sockets a spinning thread asks each of them instead of epoll: one call of its is
/// not much more than one of theirs.
const SCAN_MAX: usize = 2;
/// Nanoseconds between looks for timeouts.
const EXPIRE_STEP: u64 = 1_000_000;
/// Items that may wait for room in the kernel; later ones are skipped.
const QUEUED_MAX: usize = 1 << 20;
/// Tries to send a datagram over errors left by earlier ones.
const SEND_TRIES: u32 = 4;

struct Udp<'a> {
    shard: &'a Shard<'a>,
    session: Session<'a>,
    sockets: Vec<Socket>,
    poller: Option<Poller>,
    spins: bool,
    /// Whether equal datagrams leave as segments of one: in a closed loop they are ready together.
    segments: bool,
    out: Batch,
    into: Batch,
    message: Vec<u8>,
    /// `(ID, item, intended)` of the datagrams in `out`.
    batch: Vec<(u16, u64, u64)>,
    /// Items whose time has come, by client.
    queues: Vec<VecDeque<(u64, u64)>>,
    /// Clients with something in their queue.
    dirty: Vec<usize>,
    /// Items in all queues.
    queued: usize,
    blocked: u64,
    unstamped: u64,
    last_answer: u64,
    /// When this thread began to send.
    began: u64,
    next_expire: u64,
    /// When the last turn was over, and the longest that datagrams may have been in a socket since
    /// all sockets were last read to their end.
    turned: u64,
    pause: u64,
    ticker: Ticker,
}

/// Runs the thread's part.
pub(crate) fn run(shard: &Shard<'_>) -> Result<LoopReport, RunError> {
    let mut udp = Udp::open(shard)?;
    let before = await_start(shard)?;
    udp.session.started_unix_s = shard.started_unix_s();
    udp.began = shard.now();
    match shard.config.pace {
        Pace::Open { rate, arrivals } => udp.open_loop(Source::new(shard, rate, arrivals)),
        Pace::Closed { window } => udp.closed_loop(window),
    }
    .map_err(RunError::Thread)?;
    let used = before.until_now()?;
    let dropped = udp.dropped();
    let buffers = udp.sockets.iter().map(|socket| socket.recv_buffer_size().unwrap_or(0));
    let receive_buffer = buffers.min().unwrap_or(0);
    let Udp { session, blocked, unstamped, last_answer, .. } = udp;
    let tally = session.tally;
    Ok(LoopReport { tally, used, dropped, blocked, receive_buffer, unstamped, last_answer })
}

impl<'a> Udp<'a> {
    fn open(shard: &'a Shard<'a>) -> Result<Self, RunError> {
        let clients = shard.clients();
        let server = shard.share.server;
        let sockets = (0..clients).map(|client| {
            let number = client * shard.threads + shard.index + 1;
            connect(shard, client).map_err(|source| RunError::Socket { server, number, source })
        });
        let sockets = sockets.collect::<Result<Vec<_>, _>>()?;
        let spins = shard.spins();
        let poller = if spins && clients <= SCAN_MAX { None } else { Some(watch(&sockets)?) };
        Ok(Self {
            shard,
            session: shard.session(),
            sockets,
            poller,
            spins,
            segments: matches!(shard.config.pace, Pace::Closed { .. }),
            out: Batch::connected(BATCH, shard.workload.message_len_max()),
            into: receive_batch(shard.config.stamps),
            message: Vec::with_capacity(shard.workload.message_len_max()),
            batch: Vec::with_capacity(BATCH),
            queues: vec![VecDeque::new(); clients],
            dirty: Vec::with_capacity(clients),
            queued: 0,
            blocked: 0,
            unstamped: 0,
            last_answer: 0,
            began: 0,
            next_expire: 0,
            turned: 0,
            pause: 0,
            ticker: Ticker::new(),
        })
    }

    fn open_loop(&mut self, mut source: Source<'_>) -> io::Result<()> {
        loop {
            let now = self.shard.now();
            if self.shard.stopped() {
                self.session.interrupt();
                self.drop_queues();
                return Ok(());
            }
            let over = now > self.shard.send_end(self.began);
            if over {
                self.end_queues();
                source.skip_rest(&mut self.session, self.began);
            } else {
                self.take_due(&mut source, now);
            }
            self.send_queues();
            self.receive(source.peek().map(|due| due.intended))?;
            self.housekeeping();
            if source.peek().is_none() && self.dirty.is_empty() && self.in_flight() == 0 {
                return Ok(());
            }
        }
    }

    fn closed_loop(&mut self, window: usize) -> io::Result<()> {
        let end = crate::nanos(self.shard.config.duration);
        let mut item = self.shard.items.0;
        loop {
            let now = self.shard.now();
            if self.shard.stopped() {
                self.session.interrupt();
                self.drop_queues();
                return Ok(());
            }
            if now > self.shard.send_end(self.began) {
                self.end_queues();
            }
            // What the kernel had no room for before goes first.
            self.send_queues();
            let over = now >= end || !self.shard.has(item);
            for client in 0..if over { 0 } else { self.sockets.len() } {
                let idle = self.queues.get(client).is_none_or(VecDeque::is_empty);
                let free = window.saturating_sub(self.session.waiting(client)).min(BATCH);
                let room = if idle { free } else { 0 };
                self.top_up(client, room, &mut item, now);
            }
            self.receive(None)?;
            self.housekeeping();
            if over && self.dirty.is_empty() && self.in_flight() == 0 {
                return Ok(());
            }
        }
    }

    /// Datagrams that the kernel dropped because a receive buffer was full.
    fn dropped(&self) -> u64 {
        let drops = self.sockets.iter().map(|socket| lab_sys::socket::dropped(socket.as_fd()));
        drops.map(|drops| u64::from(drops.unwrap_or(0))).sum()
    }

    fn in_flight(&self) -> u64 {
        self.session.tally.counts.in_flight()
    }

    /// Takes what is due by `now` from the schedule.
    fn take_due(&mut self, source: &mut Source<'_>, now: u64) {
        for _ in 0..DUE_PER_TURN {
            let Some(due) = source.peek().filter(|due| due.intended <= now) else { break };
            self.enqueue(due);
            source.advance();
        }
    }

    fn enqueue(&mut self, due: Due) {
        self.session.schedule(due.intended);
        if self.queued >= QUEUED_MAX {
            return self.session.overdue(due.intended);
        }
        self.queued += 1;
        let Some(queue) = self.queues.get_mut(due.client) else { return };
        if queue.is_empty() {
            self.dirty.push(due.client);
        }
        queue.push_back((due.item, due.intended));
    }

    /// Counts what was due and could not be sent before the run was over.
    fn end_queues(&mut self) {
        for client in self.dirty.drain(..) {
            for (_, intended) in self.queues.get_mut(client).into_iter().flat_map(|q| q.drain(..)) {
                self.session.overdue(intended);
            }
        }
        self.queued = 0;
    }

    /// Counts what was due and could not be sent before the run was stopped.
    fn drop_queues(&mut self) {
        for (_, intended) in self.queues.iter().flatten() {
            self.session.skip(*intended);
        }
    }

    fn send_queues(&mut self) {
        let mut at = 0;
        while let Some(&client) = self.dirty.get(at) {
            self.send_queue(client);
            if self.queues.get(client).is_none_or(VecDeque::is_empty) {
                self.dirty.swap_remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// Sends what is due for `client` until its queue is empty or the kernel has no room.
    fn send_queue(&mut self, client: usize) {
        loop {
            let now = self.shard.now();
            self.out.clear();
            self.batch.clear();
            while !self.out.is_full() {
                let next = self.queues.get_mut(client).and_then(VecDeque::pop_front);
                let Some((item, intended)) = next else { break };
                self.queued = self.queued.saturating_sub(1);
                if !self.push(client, now, item, intended) {
                    self.session.skip(intended);
                }
            }
            if self.out.is_empty() || !self.send_batch(client) {
                return;
            }
        }
    }

    /// Puts one query into the batch; false if no ID is free.
    fn push(&mut self, client: usize, now: u64, item: u64, intended: u64) -> bool {
        self.message.clear();
        let issued = self.session.issue(client, now, (item, intended), &mut self.message);
        let Some(id) = issued else { return false };
        self.out.push(&self.message);
        self.batch.push((id, item, intended));
        true
    }

    /// Sends up to `room` new queries, intended for when they are sent.
    fn top_up(&mut self, client: usize, room: usize, item: &mut u64, now: u64) {
        self.out.clear();
        self.batch.clear();
        while self.batch.len() < room && self.shard.has(*item) && self.push(client, now, *item, now)
        {
            self.session.schedule(now);
            *item += self.shard.items.1;
        }
        if !self.out.is_empty() {
            self.send_batch(client);
        }
    }

    /// Sends the batch; what the kernel has no room for goes back into the queue (false).
    fn send_batch(&mut self, client: usize) -> bool {
        let Some(socket) = self.sockets.get(client) else { return false };
        let (mut first, mut tries) = (0, 0);
        while first < self.out.len() {
            let now = self.shard.now();
            let sent = if self.segments {
                self.out.send_segments(socket.as_fd(), first)
            } else {
                self.out.send(socket.as_fd(), first)
            };
            match sent {
                Ok(count) => {
                    let took = self.shard.now().saturating_sub(now);
                    self.session.tally.send_call.record(took);
                    for (id, ..) in self.batch.iter().skip(first).take(count) {
                        self.session.sent(client, *id, now);
                    }
                    (first, tries) = (first + count, 0);
                }
                Err(error) if has_no_room(&error) => {
                    self.blocked += 1;
                    self.put_back(client, first);
                    return false;
                }
                Err(error) if self.segments && !is_refusal(&error) => self.segments = false,
                Err(error) if is_refusal(&error) && tries < SEND_TRIES => {
                    tries += 1;
                    take_refusals(socket.as_fd(), client, &mut self.session);
                }
                Err(_) => {
                    if let Some((id, _, intended)) = self.batch.get(first) {
                        self.session.withdraw(client, *id);
                        self.session.send_error(*intended);
                    }
                    (first, tries) = (first + 1, 0);
                }
            }
        }
        true
    }

    fn put_back(&mut self, client: usize, first: usize) {
        let Some(queue) = self.queues.get_mut(client) else { return };
        if queue.is_empty() && !self.dirty.contains(&client) {
            self.dirty.push(client);
        }
        for (id, item, intended) in self.batch.drain(first..).rev() {
            self.session.withdraw(client, id);
            queue.push_front((item, intended));
            self.queued += 1;
        }
    }

    /// Hands the datagrams that were just received to the session.
    fn take_batch(&mut self, client: usize, count: usize) {
        let now = self.shard.now();
        let wall = match self.shard.config.stamps {
            Stamps::User => None,
            Stamps::Kernel => Some(self.shard.clock.get().wall_since_epoch()),
        };
        let answered = self.session.tally.counts.answered;
        for at in 0..count {
            let arrived = wall.map_or(now, |wall| self.arrived(at, now, wall));
            self.session.receive(client, self.into.get(at), arrived);
        }
        if self.session.tally.counts.answered > answered {
            self.last_answer = now;
        }
    }

    /// When datagram `at`, fetched at `now`, arrived by the kernel's stamp.
    fn arrived(&mut self, at: usize, now: u64, wall: Duration) -> u64 {
        let pause = Duration::from_nanos(self.pause.max(now.saturating_sub(self.turned)));
        let stamp = self.into.stamp(at).and_then(|stamp| clock::waited(stamp, wall, pause));
        let Some(waited) = stamp else {
            self.unstamped += 1;
            return now;
        };
        self.session.tally.receive_wait.record(waited);
        now.saturating_sub(waited)
    }

    fn housekeeping(&mut self) {
        let now = self.shard.now();
        if now >= self.next_expire {
            self.fetch_overdue(now);
            _ = self.session.expire(now, |_, _, _| {});
            self.next_expire = now + EXPIRE_STEP;
        }
        // Of a pause in this turn, what came in it may be fetched in the next one.
        self.pause = self.pause.max(now.saturating_sub(self.turned));
        self.turned = now;
        self.ticker.turn(&self.shard.ticks, &self.session, now);
    }
}

#[cfg(test)]
mod tests;
