//! The course of connections: asked for, set up or not, left by their clients, ended.

use super::carrier::{End, Sink, Status};
use super::{Connection, Engine, Handed, RECONNECT};
use crate::connections::Closure;
use crate::run::Pace;
use lab_sys::poll::Interest;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::io;

impl Engine<'_> {
    /// Asks for a connection; if that fails at once, so do the queries in hand.
    pub(super) fn dial(&mut self, client: usize) -> Option<usize> {
        let (now, seed) = (self.shard.now(), self.shard.config.seed);
        let it = self.clients.get_mut(client)?;
        it.lanes += 1;
        let lane = it.lanes;
        self.session.tally.connections.attempt(now);
        let mut carrier = match self.dialer.dial(
            &mut it.tickets,
            self.shard.source(client),
            self.clock.instant(now),
        ) {
            Ok(carrier) => carrier,
            Err(end) => {
                self.fail(client, now, &end);
                return None;
            }
        };
        let entry = self.connections.vacant_entry();
        let key = entry.key();
        if let Err(error) = self.poller.add(carrier.fd(), key as u64, Interest::ReadWrite) {
            carrier.close(self.clock.instant(now));
            self.fail(client, now, &End::Io(error));
            return None;
        }
        let number = self.shard.placement.client(self.shard.index, client);
        let limits = self.shard.config.streams.life.draw(seed, number, lane);
        self.serials += 1;
        entry.insert(Connection {
            carrier,
            status: Status {
                client,
                lane,
                began: now,
                connected: None,
                opened: None,
                active: now,
                returned: Vec::new(),
            },
            serial: self.serials,
            asked: VecDeque::new(),
            given_up: VecDeque::new(),
            limits,
            left: limits.questions,
            is_left: false,
            interest: Interest::ReadWrite,
            timer: u64::MAX,
        });
        it.current = Some(key);
        self.places.insert((client, lane), key);
        self.arm(key);
        Some(key)
    }

    /// Counts a connection that was not set up; what its client has in hand has failed with it.
    pub(super) fn fail(&mut self, client: usize, now: u64, end: &End) {
        self.session.tally.connect_failures += 1;
        let failure = end.failure();
        self.session.tally.connections.fail(now, failure, &end.text());
        if self.hopeless.is_none() && self.session.tally.connections.opened == 0 {
            self.hopeless = end.hopeless(self.shard.share.server);
        }
        let Some(it) = self.clients.get_mut(client) else { return };
        if let Pace::Closed { .. } = self.shard.config.pace {
            it.rests_until = now + RECONNECT;
        }
        for handed in it.hand.drain(..) {
            _ = self.session.fail(client, 0, handed.id);
        }
    }

    /// Lets a connection continue, and does what follows from that.
    pub(super) fn drive(&mut self, key: usize) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let mut sink = Sink {
            clock: self.clock,
            session: &mut self.session,
            status: &mut connection.status,
            last_answer: &mut self.last_answer,
            buffer: &mut self.buffer,
        };
        if let Err(end) = connection.carrier.drive(&mut sink) {
            return self.end(key, &end);
        }
        let wanted = connection.carrier.wants_write();
        let wanted = if wanted { Interest::ReadWrite } else { Interest::Read };
        if wanted != connection.interest {
            self.blocked +=
                u64::from(wanted == Interest::ReadWrite && connection.status.opened.is_some());
            connection.interest = wanted;
            if let Err(error) = self.poller.modify(connection.carrier.fd(), key as u64, wanted) {
                return self.end(key, &End::Io(error));
            }
        }
        let (client, lane) = (connection.status.client, connection.status.lane);
        let returned = std::mem::take(&mut connection.status.returned);
        self.take_back(client, lane, returned);
        if self.with_client(client, |it| !it.hand.is_empty()) == Some(true) {
            self.mark(client);
        }
        self.arm(key);
        self.close_if_done(key);
    }

    /// Puts queries that were not started back to their client, the oldest first.
    pub(super) fn take_back(&mut self, client: usize, lane: u32, questions: Vec<u16>) {
        for id in questions.into_iter().rev() {
            let mut message = Vec::new();
            if !self.session.recall(client, lane, id, &mut message) {
                continue;
            }
            self.session.tally.connections.asked_again += 1;
            let handed = Handed { id, message, has_waited: false };
            self.with_client(client, |it| it.hand.push_front(handed));
            self.mark(client);
        }
    }

    /// Its client asks elsewhere from now on.
    pub(super) fn leave(&mut self, key: usize) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if std::mem::replace(&mut connection.is_left, true) {
            return;
        }
        self.left.push((key, connection.serial));
        let client = connection.status.client;
        self.with_client(client, |it| it.current = it.current.filter(|current| *current != key));
    }

    /// Closes what clients have left and nothing waits for any more.
    pub(super) fn close_left(&mut self) {
        let mut left = std::mem::take(&mut self.left);
        left.retain(|(key, serial)| {
            let is_it = |c: &Connection| c.serial == *serial;
            if self.connections.get(*key).is_some_and(is_it) {
                self.close_if_done(*key);
            }
            self.connections.get(*key).is_some_and(is_it)
        });
        self.left.append(&mut left);
    }

    fn remove(&mut self, key: usize) -> Option<Connection> {
        let connection = self.connections.try_remove(key)?;
        self.places.remove(&(connection.status.client, connection.status.lane));
        Some(connection)
    }

    /// Whether any query asked on a connection has no outcome yet.
    pub(super) fn is_waiting(&mut self, key: usize) -> bool {
        let Some(connection) = self.connections.get_mut(key) else { return false };
        let (client, lane) = (connection.status.client, connection.status.lane);
        connection.asked.retain(|id| self.session.waits(client, lane, *id));
        !connection.asked.is_empty()
    }

    /// Closes a connection that its client has left and that has nothing to wait for.
    pub(super) fn close_if_done(&mut self, key: usize) {
        let is_left = |c: &Connection| c.is_left && c.status.opened.is_some();
        if !self.connections.get(key).is_some_and(is_left) || self.is_waiting(key) {
            return;
        }
        let now = self.shard.now();
        if let Some(mut connection) = self.remove(key) {
            self.dropped += connection.carrier.dropped();
            connection.carrier.close(self.clock.instant(now));
            self.session.tally.connections.close(now, Closure::ByClient, "");
        }
    }

    /// Takes note that a connection has ended.
    pub(super) fn end(&mut self, key: usize, end: &End) {
        self.leave(key);
        let Some(mut connection) = self.remove(key) else { return };
        self.dropped += connection.carrier.dropped();
        let now = self.shard.now();
        let (client, lane) = (connection.status.client, connection.status.lane);
        if connection.status.opened.is_some() {
            let closure =
                if matches!(end, End::Closed) { Closure::ByServer } else { Closure::Broken };
            let leftover = connection.carrier.leftover();
            let connections = &mut self.session.tally.connections;
            connections.close(now, closure, &end.text());
            connections.half_written += leftover.half_written;
            let mut back = std::mem::take(&mut connection.status.returned);
            back.extend(leftover.unwritten);
            self.take_back(client, lane, back);
            self.mark(client);
        } else {
            self.fail(client, now, end);
        }
        for id in connection.asked {
            _ = self.session.fail(client, lane, id);
        }
    }

    /// Sees to it that the connection is looked at when the next of its times comes.
    pub(super) fn arm(&mut self, key: usize) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let (status, limits) = (&connection.status, connection.limits);
        let mut next = match status.opened {
            None => status.began.saturating_add(self.set_up_timeout),
            Some(_) if connection.is_left => u64::MAX,
            Some(_) => {
                let time = status.began.saturating_add(limits.time);
                time.min(status.active.saturating_add(limits.idle))
            }
        };
        if let Some(deadline) = connection.carrier.deadline() {
            next = next.min(self.clock.nanos(deadline));
        }
        if next < connection.timer {
            connection.timer = next;
            self.timers.push(Reverse((next, key, connection.serial)));
        }
    }

    pub(super) fn on_timer(&mut self, key: usize, now: u64) {
        let waiting = self.is_waiting(key);
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.timer = u64::MAX;
        let (status, limits) = (&mut connection.status, connection.limits);
        if status.opened.is_none() && now >= status.began.saturating_add(self.set_up_timeout) {
            let error = io::Error::new(io::ErrorKind::TimedOut, "the handshake timed out");
            return self.end(key, &End::Io(error));
        }
        let is_over = now >= status.began.saturating_add(limits.time);
        let is_idle = now >= status.active.saturating_add(limits.idle);
        if is_idle && waiting {
            status.active = now;
        }
        if status.opened.is_some() && (is_over || is_idle && !waiting) {
            self.leave(key);
        }
        let deadline = self.connections.get(key).and_then(|c| c.carrier.deadline());
        if deadline.is_some_and(|deadline| self.clock.nanos(deadline) <= now) {
            self.drive(key);
        }
        self.arm(key);
        self.close_if_done(key);
    }
}
