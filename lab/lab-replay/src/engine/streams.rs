//! Connections: opened as recorded, closed as recorded or at the end.

use super::send::NoLane;
use super::{Engine, is_done};
use crate::feed::{Action, Step};
use crate::flight::{State, Tag};
use crate::lanes::{Key, Kind};
use lab_load::Loss;
use lab_load::pipe::{End, Handshake};
use lab_load::tally::{Closure, Failure};
use lab_workload::recorded::Carrier;

impl Engine<'_> {
    /// Asks on the step's connection, which is opened if it is not there any more, or yet.
    ///
    /// The query counts as sent from here on: waiting for the connection is the server's.
    pub(super) fn ask_on_connection(&mut self, mut step: Step) {
        let key = Key { client: step.client, server: Some(step.server) };
        let at = match self.lane(key, step.round) {
            Ok(at) => at,
            Err(why) => return self.not_sent(&step, why),
        };
        let Some((tag, mut flying)) = self.flying(&mut step, at) else {
            return self.not_sent(&step, NoLane::AllInUse);
        };
        let now = self.now();
        let Action::Ask { message, recorded } = &mut step.action else { return };
        let Some(connection) = self.lanes.get_mut(at).and_then(|lane| lane.connection()) else {
            return;
        };
        if !connection.push(message, now) {
            return self.not_sent(&step, NoLane::AllInUse);
        }
        connection.ids.push_back(tag.id);
        connection.is_ending = false;
        (flying.sent, flying.recorded) = (now, recorded.take());
        self.books.schedule(Carrier::Tcp, step.intended);
        self.sent(tag, flying);
        self.flush(at, now);
    }

    /// Writes what waits, and lets the poller say when there is room if not all of it went.
    fn flush(&mut self, at: usize, now: u64) {
        let Some(connection) = self.lanes.get_mut(at).and_then(|lane| lane.connection()) else {
            return;
        };
        if let Err(error) = connection.flush() {
            return self.end(at, now, &End::Io(error));
        }
        self.watch_for(at);
    }

    /// Lets the poller look for what the connection at `at` waits for.
    fn watch_for(&mut self, at: usize) {
        let Some(connection) = self.lanes.get_mut(at).and_then(|lane| lane.connection()) else {
            return;
        };
        if let Some(interest) = connection.change_of_interest() {
            _ = self.poller.modify(connection.fd(), at as u64, interest);
        }
    }

    /// The recorded connection has ended: so does this one, once nothing is in flight on it.
    pub(super) fn end_recorded(&mut self, step: &Step) {
        let key = Key { client: step.client, server: Some(step.server) };
        let Some(at) = self.lanes.known(&key) else { return };
        if let Some(connection) = self.lanes.get_mut(at).and_then(|lane| lane.connection()) {
            connection.is_ending = true;
        }
        let now = self.now();
        self.close_if_done(at, now);
    }

    /// Lets connections of earlier rounds end: those of the next are new ones.
    pub(super) fn end_rounds(&mut self) {
        let (now, round) = (self.now(), self.round);
        let old = self.lanes.iter().filter_map(|(at, lane)| match &lane.kind {
            Kind::Tcp(connection) if connection.round < round => Some(at),
            _ => None,
        });
        for at in old.collect::<Vec<_>>() {
            if let Some(connection) = self.lanes.get_mut(at).and_then(|lane| lane.connection()) {
                connection.is_ending = true;
            }
            self.close_if_done(at, now);
        }
    }

    /// Closes the connection at `at` if it is at its end and nothing is in flight on it.
    pub(super) fn close_if_done(&mut self, at: usize, now: u64) {
        let Some(lane) = self.lanes.get(at) else { return };
        if let Kind::Tcp(connection) = &lane.kind
            && is_done(connection, lane.waiting)
        {
            self.close_idle(at, now);
        }
    }

    /// Closes a socket on which nothing is in flight.
    pub(super) fn close_idle(&mut self, at: usize, now: u64) {
        let Some(mut lane) = self.lanes.remove(at) else { return };
        self.dropped += super::dropped(&lane.kind);
        if let Some(connection) = lane.connection() {
            if connection.is_open {
                connection.close();
                self.books.tcp.connections.close(now, Closure::ByClient, "");
            } else {
                self.books.tcp.connections.unfinished += 1;
            }
        }
    }

    /// Opens a connection as recorded.
    pub(super) fn open_recorded(&mut self, step: &Step) {
        let key = Key { client: step.client, server: Some(step.server) };
        let Ok(at) = self.lane(key, step.round) else { return };
        let has_end = !self.task.endless.contains(&(step.client, step.server));
        if let Some(connection) = self.lanes.get_mut(at).and_then(|lane| lane.connection()) {
            connection.is_recorded = has_end;
        }
    }

    /// Closes connections that no recorded one says when to close and that were not used for some time. A few sockets
    /// are looked at each time, from where the last look ended up to the first connection that was used since.
    pub(super) fn close_unused(&mut self, now: u64) {
        let before = now.saturating_sub(self.task.idle);
        let (mut unused, mut looked_at) = (Vec::new(), 0);
        for (place, at, lane) in self.lanes.behind(self.looked_at) {
            looked_at = place;
            let Kind::Tcp(connection) = &lane.kind else { continue };
            if connection.asked >= before {
                looked_at = 0;
                break;
            }
            if !connection.is_recorded && lane.waiting == 0 {
                unused.push(at);
            }
        }
        self.looked_at = looked_at;
        for at in unused {
            self.close_idle(at, now);
        }
    }

    /// Looks at a connection that the poller has named.
    pub(super) fn serve_connection(&mut self, at: usize, writable: bool) {
        let now = self.now();
        let Some(lane) = self.lanes.get_mut(at) else { return };
        let serial = lane.serial;
        let Kind::Tcp(connection) = &mut lane.kind else { return };
        if !connection.is_open {
            match connection.establish(now) {
                Ok(false) => return self.watch_for(at),
                Err(end) => return self.fail(at, now, end.failure(), &end.text()),
                Ok(true) => {
                    self.opened(at, now);
                    self.flush(at, now);
                }
            }
        } else if writable {
            self.flush(at, now);
        }
        self.read(at, serial);
    }

    /// Notes that the connection at `at` can carry queries.
    fn opened(&mut self, at: usize, now: u64) {
        let Some(connection) = self.lanes.get_mut(at).and_then(|lane| lane.connection()) else {
            return;
        };
        let (handshake, began) = (connection.handshake(), connection.began);
        let connected = connection.connected.unwrap_or(now);
        let (tally, took) = (&mut self.books.tcp, now.saturating_sub(began));
        tally.connect.record(took);
        tally.connections.tcp.record(connected.saturating_sub(began));
        if handshake != Handshake::None {
            tally.connections.tls.record(now.saturating_sub(connected));
        }
        if let Some(cohort) = tally.cohort(now) {
            cohort.connect.record(took);
        }
        tally.connections.open(now, handshake == Handshake::Resumed);
    }

    fn read(&mut self, at: usize, serial: u64) {
        let Some(lane) = self.lanes.same(at, serial) else { return };
        let Kind::Tcp(connection) = &mut lane.kind else { return };
        let mut messages = Vec::new();
        let end = connection.receive(|message| messages.push(message.to_vec()));
        let now = self.now();
        for message in messages {
            self.message(at, serial, Carrier::Tcp, &message, now);
        }
        self.forget_answered(at, serial);
        match end {
            Some(end) => self.end(at, now, &end),
            None => self.close_if_done(at, now),
        }
    }

    /// Lets go of the IDs at the front that have their outcome.
    fn forget_answered(&mut self, at: usize, serial: u64) {
        let Some(lane) = self.lanes.same(at, serial) else { return };
        let Kind::Tcp(connection) = &mut lane.kind else { return };
        while let Some(&id) = connection.ids.front() {
            let flying = self.flight.get_mut(Tag { serial, id });
            if flying.is_some_and(|flying| flying.state == State::Waiting) {
                return;
            }
            connection.ids.pop_front();
        }
    }

    /// A connection that was there has ended; what was in flight on it is lost.
    fn end(&mut self, at: usize, now: u64, end: &End) {
        let (closure, text) = match end {
            End::Closed => (Closure::ByServer, String::new()),
            end => (Closure::Broken, end.text()),
        };
        self.books.tcp.connections.close(now, closure, &text);
        self.drop_connection(at);
    }

    /// A connection was not set up.
    fn fail(&mut self, at: usize, now: u64, failure: Failure, text: &str) {
        self.books.tcp.connect_failures += 1;
        self.books.tcp.connections.fail(now, failure, text);
        self.drop_connection(at);
    }

    fn drop_connection(&mut self, at: usize) {
        let Some(mut lane) = self.lanes.remove(at) else { return };
        let ids = lane.connection().map(|connection| std::mem::take(&mut connection.ids));
        for id in ids.into_iter().flatten() {
            self.lose(Tag { serial: lane.serial, id }, Loss::ConnectionFailed);
        }
    }

    /// Gives up connections that are not there after the timeout.
    pub(super) fn give_up_dialling(&mut self, now: u64) {
        while let Some(&(began, at, serial)) = self.dialled.front() {
            let open = match self.lanes.same(at, serial).map(|lane| &lane.kind) {
                Some(Kind::Tcp(connection)) => connection.is_open,
                _ => true,
            };
            if !open && now.saturating_sub(began) <= self.task.timeout {
                return;
            }
            self.dialled.pop_front();
            if !open {
                self.fail(at, now, Failure::TimedOut, "timed out");
            }
        }
    }

    /// Closes all connections at the end of the run; of one that was stopped they are left as they are.
    pub(super) fn end_connections(&mut self, now: u64, stopped: bool) {
        let streams = self.lanes.iter().filter_map(|(at, lane)| match &lane.kind {
            Kind::Tcp(connection) => Some((at, connection.is_open)),
            Kind::Udp(_) => None,
        });
        for (at, is_open) in streams.collect::<Vec<_>>() {
            if is_open && stopped {
                self.books.tcp.connections.close(now, Closure::LeftOpen, "");
                drop(self.lanes.remove(at));
            } else {
                self.close_idle(at, now);
            }
        }
    }
}
