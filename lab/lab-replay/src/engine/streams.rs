//! Connections: opened as recorded, closed as recorded or at the end.

use super::send::NoLane;
use super::{Engine, is_done};
use crate::connection::End;
use crate::feed::{Action, Step};
use crate::flight::{State, Tag};
use crate::lanes::{Key, Kind};
use lab_load::Loss;
use lab_load::tally::{Closure, Failure};
use lab_sys::poll::Interest;
use lab_workload::recorded::Carrier;
use std::io;
use std::os::fd::AsFd;

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
        if !connection.push(message) {
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
        let Some(lane) = self.lanes.get_mut(at) else { return };
        let Kind::Tcp(connection) = &mut lane.kind else { return };
        let wanted = connection.wants_to_write();
        if let Err(error) = connection.flush() {
            return self.end(at, now, &End::Broken(error));
        }
        if connection.wants_to_write() != wanted || wanted {
            let interest =
                if connection.wants_to_write() { Interest::ReadWrite } else { Interest::Read };
            _ = self.poller.modify(connection.socket.as_fd(), at as u64, interest);
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
        let Some(lane) = self.lanes.remove(at) else { return };
        self.dropped += super::dropped(&lane.kind);
        if let Kind::Tcp(connection) = &lane.kind {
            if connection.is_open {
                self.books.tcp.connections.close(now, Closure::ByClient, "");
            } else {
                self.books.tcp.connections.unfinished += 1;
            }
        }
    }

    /// Looks at a connection that the poller has named.
    pub(super) fn serve_connection(&mut self, at: usize, writable: bool) {
        let now = self.now();
        let Some(lane) = self.lanes.get_mut(at) else { return };
        let serial = lane.serial;
        let Kind::Tcp(connection) = &mut lane.kind else { return };
        if !connection.is_open {
            match connection.outcome() {
                None => return,
                Some(Err(error)) => return self.fail(at, now, &error),
                Some(Ok(())) => {
                    connection.is_open = true;
                    let took = now.saturating_sub(connection.began);
                    let tally = &mut self.books.tcp;
                    tally.connect.record(took);
                    tally.connections.tcp.record(took);
                    if let Some(cohort) = tally.cohort(now) {
                        cohort.connect.record(took);
                    }
                    tally.connections.open(now, false);
                    self.flush(at, now);
                }
            }
        } else if writable {
            self.flush(at, now);
        }
        self.read(at, serial);
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
            End::Broken(error) => (Closure::Broken, error.to_string()),
        };
        self.books.tcp.connections.close(now, closure, &text);
        self.drop_connection(at);
    }

    /// A connection was not set up.
    fn fail(&mut self, at: usize, now: u64, error: &io::Error) {
        let failure = match error.kind() {
            io::ErrorKind::ConnectionRefused => Failure::Refused,
            io::ErrorKind::TimedOut => Failure::TimedOut,
            io::ErrorKind::AddrNotAvailable => Failure::NotTried,
            _ => Failure::Reset,
        };
        self.books.tcp.connect_failures += 1;
        self.books.tcp.connections.fail(now, failure, &error.to_string());
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
                self.fail(at, now, &io::ErrorKind::TimedOut.into());
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
