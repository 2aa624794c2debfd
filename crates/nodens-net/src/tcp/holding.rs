//! What a connection holds of the process's memory, and the end of one that holds too much.

use super::connection::{Connection, NEVER};
use super::server::{TcpServer, mark};
use super::unsent::{Holding, Unsent};
use crate::context::Context;
use crate::limits::{DROPPED_MAX, HELD_FREE, RECEIVE_COST, SENT_UNSEEN};
use crate::pipe::Received;
use crate::poll::Poll;
use crate::slots::Key;
use nodens_core::Now;
use std::collections::HashSet;
use std::sync::Arc;

impl Connection {
    /// Enters what it holds now in the books of the process; says whether any connection of the
    /// process is to be closed for it.
    ///
    /// What the kernel holds counts too: its memory is charged to the process's control group. It
    /// is asked only for a connection that was sent much, or holds much.
    pub(super) fn account(&mut self, (budget, worker, key): (&Arc<Unsent>, usize, Key)) -> bool {
        // An empty buffer is about to be given up.
        let unsent = if self.pipe.output.is_empty() { 0 } else { self.pipe.output.capacity() };
        let tlvs = self.tlvs().map_or(0, |tlvs| tlvs.len());
        let http = self.http_cost(budget);
        let own = unsent + self.input.capacity() + self.pipe.cost() + http + tlvs;
        self.strained = unsent > 0 && budget.is_tight();
        let paused = !self.closing && self.is_full();
        let looks = self.is_entered()
            || !self.pipe.output.is_empty()
            || u64::from(self.unlooked) >= SENT_UNSEEN;
        if looks {
            self.unlooked = 0;
        }
        let kernel = if looks { self.pipe.unacknowledged().unwrap_or(0) } else { 0 };
        let waiting = if paused { RECEIVE_COST } else { 0 };
        let octets = own + usize::try_from(kernel).unwrap_or(usize::MAX / 4) + waiting;
        if !self.is_entered() && octets <= HELD_FREE {
            return false;
        }
        let client = self.addresses.peer().ip();
        let new = || Holding::new(budget.clone(), client, worker, key);
        let holding = self.rare_mut().holding.get_or_insert_with(new);
        let dooms = holding.set(octets);
        if !holding.is_entered() {
            self.rare_mut().holding = None;
            self.tidy_rare();
        }
        dooms
    }

    /// Ends the stream and waits until the client has taken what is in front of the end, and has ended
    /// too if it may be sending more; says `false` if there is nothing to wait for.
    ///
    /// A connection that just closed would have the kernel hold this for minutes, and no budget
    /// would know of it; one that is reset would cut an answer off. The kernel resets one that is
    /// closed while octets of the client are not read, or come later (RFC 9112 section 9.6).
    fn linger(&mut self, now: Now, sends_more: bool, books: (&Arc<Unsent>, usize, Key)) -> bool {
        if !self.lingering {
            _ = self.account(books);
            let awaits_end = sends_more && !self.ended;
            let waits = awaits_end || self.is_entered() || self.has_said_goodbye();
            if !waits || self.pipe.shutdown().is_err() {
                return false;
            }
            self.await_client(now);
            if let Some(taking) = self.taking_mut().filter(|_| awaits_end) {
                taking.dropped = Some(0);
            }
        } else if let Some(taking) = self.taking_mut().filter(|_| !sends_more) {
            taking.dropped = None;
        }
        (self.closing, self.lingering) = (true, true);
        self.is_owed_rest() || self.awaits_end()
    }

    /// Whether the client's end is awaited: what comes before it is dropped.
    pub(super) fn awaits_end(&self) -> bool {
        self.lingering && self.taking().is_some_and(|taking| taking.dropped.is_some())
    }

    /// So many octets more were dropped. After too many it does not wait for the end any more.
    fn count_dropped(&mut self, octets: usize) {
        let Some(taking) = self.taking_mut() else { return };
        let dropped = taking.dropped.map(|dropped| dropped.saturating_add(octets));
        taking.dropped = dropped.filter(|dropped| *dropped <= DROPPED_MAX);
    }

    /// Whether the kernel holds anything that the client has not acknowledged, beside the end of the
    /// stream, which counts as one octet.
    fn is_owed_rest(&self) -> bool {
        self.pipe.unacknowledged().is_some_and(|octets| octets > 1)
    }
}

impl TcpServer {
    /// Sends what there is of a connection before the end of the round, because it is much. Closes
    /// it and says `false` if it is of no more use.
    pub(super) fn send_early(&mut self, key: Key, cx: &mut Context<'_>) -> bool {
        let Some(connection) = self.connections.get_mut(key) else { return false };
        if connection.flush(cx.now).is_err() {
            self.close(key);
            return false;
        }
        if connection.account((&self.unsent, self.worker, key)) {
            // Not at the end of the round: hundreds of others may be read before that.
            self.presses = true;
            self.close_doomed(cx);
        }
        self.connections.get(key).is_some()
    }

    /// Closes the connections of this worker that hold too much of what all may hold.
    pub(super) fn close_doomed(&mut self, cx: &mut Context<'_>) {
        let mut seen = HashSet::new();
        loop {
            let doomed = self.unsent.doomed(self.worker);
            let new: Vec<Key> = doomed.iter().filter(|key| seen.insert(**key)).copied().collect();
            if new.is_empty() {
                for key in doomed {
                    cx.counters.add(cx.counters.greedy, 1);
                    self.reset(key);
                }
                return;
            }
            for key in new {
                let Some(connection) = self.connections.get_mut(key) else { continue };
                // What the client has taken meanwhile is not held any more. If that is not all,
                // another may be doomed in its place, and is looked at too.
                self.presses |= connection.account((&self.unsent, self.worker, key));
            }
        }
    }

    /// Reads what a client sends behind the end of its connection, which nobody takes. Says as
    /// [`TcpServer::read`] that nothing is left to be taken.
    pub(super) fn drop_input(&mut self, key: Key) -> bool {
        let Some(connection) = self.connections.get_mut(key) else { return false };
        match connection.pipe.read_raw(&mut self.scratch) {
            Ok(Received::Octets(len)) => {
                connection.count_dropped(len);
                mark(&mut self.dirty, connection, key);
            }
            Ok(Received::Nothing) => {}
            // Both sides have ended. The kernel sends what is left.
            Ok(Received::End) | Err(_) => self.close(key),
        }
        false
    }

    /// Closes a connection to which nothing is owed, once its client has taken all answers.
    pub(super) fn finish(&mut self, key: Key, now: Now, poll: &Poll) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        // Where all connections end, or those of a listener, all that had come was taken.
        let is_served = self.endpoints.iter().any(|own| own.id == connection.endpoint);
        let sends_more = is_served && !self.ending;
        if connection.linger(now, sends_more, (&self.unsent, self.worker, key)) {
            self.rearm(key, poll);
        } else {
            self.close(key);
        }
    }

    /// The time of a connection is over: one whose client still takes answers gets more, in which
    /// it takes them or is reset.
    pub(super) fn expire(&mut self, key: Key, now: Now) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let books = (&self.unsent, self.worker, key);
        let is_first = !connection.lingering;
        if is_first && connection.is_idle() && connection.say_goodbye(now) {
            // What the client does not take at once it is not told.
            _ = connection.flush(now);
        }
        if is_first && connection.is_idle() && connection.linger(now, false, books) {
            connection.queued = NEVER;
            mark(&mut self.dirty, connection, key);
        } else if connection.is_idle() && !connection.is_owed_rest() {
            self.close(key);
        } else {
            self.reset(key);
        }
    }

    /// Closes the longest idle connection for a new one, whatever its client has left unread.
    pub(super) fn evict(&mut self, key: Key, now: Now) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        // What was not acknowledged when it was last looked at may be by now.
        _ = connection.account((&self.unsent, self.worker, key));
        if connection.is_entered() {
            return self.reset(key);
        }
        if connection.say_goodbye(now) {
            // What the client does not take at once it is not told.
            _ = connection.flush(now);
        }
        self.close(key);
    }

    /// Closes a connection and takes from the kernel what its client has not acknowledged.
    pub(super) fn reset(&mut self, key: Key) {
        if let Some(connection) = self.connections.get(key) {
            connection.pipe.forsake();
        }
        self.close(key);
    }
}
