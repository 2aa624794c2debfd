//! Queries on their way out: a socket, an ID, and what is known of them while they are in flight.

use super::Engine;
use crate::feed::{Action, Step};
use crate::flight::{Flying, State, Tag};
use crate::lanes::{Found, Key, Kind};
use crate::matching::question_hash;
use lab_load::tally::Failure;
use lab_sys::poll::Interest;
use lab_workload::recorded::Carrier;
use nodens_wire::{HEADER_LEN, Header, Opcode, Reader};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

/// Tries to send a datagram over errors left by earlier ones.
const SEND_TRIES: u32 = 4;

/// Why there is no socket for a message.
#[derive(Clone, Copy)]
pub(super) enum NoLane {
    /// All that there may be are in use.
    AllInUse,
    /// The operating system refuses it.
    Error,
}

impl Engine<'_> {
    /// The socket of `key`, opened if there is none.
    pub(super) fn lane(&mut self, key: Key, round: u64) -> Result<usize, NoLane> {
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

    /// Opens UDP sockets before the start: thousands of them in the first second would make its queries late. What
    /// cannot be opened now is tried, and counted, when its first query is due.
    pub(super) fn open_early(&mut self) {
        let most = self.lanes.sockets_max();
        for client in self.task.early.iter().take(most) {
            let key = Key { client: *client, server: None };
            let local = self.task.addresses.of(client.ip());
            match self.lanes.open(key, local, (0, 0)) {
                Ok(at) => self.watch(at, 0),
                Err(_) => return,
            }
            if self.task.stop.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// Lets the poller look at a new socket.
    fn watch(&mut self, at: usize, now: u64) {
        let Some(lane) = self.lanes.get(at) else { return };
        let (fd, interest) = match &lane.kind {
            Kind::Udp(socket) => (socket.as_fd(), Interest::Read),
            Kind::Tcp(connection) => {
                self.dialled.push_back((now, at, lane.serial));
                (connection.fd(), Interest::ReadWrite)
            }
        };
        if let Err(error) = self.poller.add(fd, at as u64, interest) {
            *self.errors.entry(format!("cannot wait for responses: {error}")).or_default() += 1;
        }
    }

    /// Asks over UDP.
    pub(super) fn ask(&mut self, mut step: Step) -> Option<Step> {
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
            let lane = self.lanes.get(at)?;
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
                Err(error) if lab_load::has_no_room(&error) => return Some(step),
                Err(error) if lab_load::is_refusal(&error) && tried < SEND_TRIES => {
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
    pub(super) fn flying(&mut self, step: &mut Step, at: usize) -> Option<(Tag, Flying)> {
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
    pub(super) fn sent(&mut self, tag: Tag, flying: Flying) {
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
    pub(super) fn not_sent(&mut self, step: &Step, why: NoLane) {
        self.books.schedule(step.carrier, step.intended);
        match why {
            NoLane::AllInUse => self.books.skip(step.carrier, step.intended),
            NoLane::Error => self.books.send_error(step.carrier, step.intended),
        }
    }
}

/// The QTYPE of `message`; 0 if it has no query.
fn qtype(message: &[u8]) -> u16 {
    let mut reader = Reader::new(message, HEADER_LEN);
    let read = reader.skip_name().and_then(|()| reader.u16("QTYPE"));
    read.unwrap_or(0)
}
