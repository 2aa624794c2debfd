//! One client connection: its streams, what it owes, its deadlines.

mod owed;
mod sending;

use super::books::Seat;
pub(super) use super::code;
use super::http3::Http3;
pub(super) use super::partial::{Kept, Partial};
use super::unread::Unread;
use crate::http::http3::Side;
use crate::limits::{
    ANSWER_RESERVE, IN_FLIGHT_PER_CONNECTION, QUIC_COST, QUIC_DATAGRAM_MAX, QUIC_PACKET_LEN,
    QUIC_STREAM_COST, QUIC_UNREAD_MAX, UNSENT_PAUSE,
};
use crate::slots::Key;
use crate::tcp::{Holding, NEVER, Place, Times};
use bytes::Bytes;
use nodens_core::Now;
use owed::Unwritten;
use quinn_proto::{ConnectionEvent, ConnectionHandle, StreamId, VarInt};
use sending::Sending;
pub(super) use sending::Turn;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Instant;

/// Where a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Handshake,
    Open,
    /// Closed, by either side: it only says so again to packets that were on their way.
    Closed,
}

pub(super) struct Connection {
    pub(super) quinn: Box<quinn_proto::Connection>,
    pub(super) handle: ConnectionHandle,
    /// The socket it came by.
    pub(super) site: Key,
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    pub(super) phase: Phase,
    /// What has arrived for its handshake, which waits for its turn, with its length.
    pub(super) events: Vec<(ConnectionEvent, usize)>,
    pub(super) in_turn: bool,
    pub(super) dirty: bool,
    /// It may open no more streams, and ends once it is answered.
    pub(super) ending: bool,
    /// How many streams were taken.
    pub(super) accepted: u64,
    pub(super) partial: HashMap<StreamId, Partial>,
    /// Octets of memory of them.
    kept: usize,
    /// HTTP/3, if that is spoken.
    pub(super) http3: Option<Box<Http3>>,
    unread: Unread,
    /// The first deadline among them.
    pub(super) partial_at: u64,
    /// Responses that the client has not acknowledged, and their lengths.
    owed: HashMap<StreamId, usize>,
    owed_octets: usize,
    unwritten: VecDeque<Unwritten>,
    /// Responses of many messages that are not written whole.
    sending: VecDeque<Sending>,
    /// Queries that wait for their response.
    pub(super) in_flight: usize,
    /// The first stream that waits for a place among all queries that wait.
    pub(super) held_up: Option<StreamId>,
    /// It stands in the row of those that do.
    pub(super) in_row: bool,
    /// It is its turn.
    pub(super) may_ask: bool,
    /// A whole query has come.
    pub(super) has_asked: bool,
    /// When it was opened, its last query came or its last response went, whichever is latest.
    pub(super) active_at: u64,
    /// When the client took something of what it is owed, or was first owed anything.
    progress_at: u64,
    pub(super) times: Times,
    streams_max: u32,
    /// The earliest deadline that is queued for it.
    pub(super) queued: u64,
    pub(super) holding: Holding,
    /// Its place among the handshakes.
    pub(super) half_open: Option<Place>,
    /// Its place among those of its client and of all.
    pub(super) place: Option<Place>,
    /// Its place among the connections of its listener.
    pub(super) seat: Option<Seat>,
}

impl Connection {
    pub(super) fn new(
        (quinn, handle): (quinn_proto::Connection, ConnectionHandle),
        site: Key,
        (peer, local): (SocketAddr, SocketAddr),
        (times, streams_max): (Times, u32),
        (holding, half_open): (Holding, Place),
        http3: Option<Box<Http3>>,
        now: Now,
    ) -> Self {
        Self {
            quinn: Box::new(quinn),
            handle,
            site,
            peer,
            local,
            phase: Phase::Handshake,
            events: Vec::new(),
            in_turn: false,
            dirty: false,
            ending: false,
            accepted: 0,
            partial: HashMap::new(),
            kept: 0,
            http3,
            unread: Unread::default(),
            partial_at: NEVER,
            owed: HashMap::new(),
            owed_octets: 0,
            unwritten: VecDeque::new(),
            sending: VecDeque::new(),
            in_flight: 0,
            held_up: None,
            in_row: false,
            may_ask: false,
            has_asked: false,
            active_at: now.mono_ns,
            progress_at: now.mono_ns,
            times,
            streams_max,
            queued: NEVER,
            holding,
            half_open: Some(half_open),
            place: None,
            seat: None,
        }
    }

    /// Whether it has to be answered before it may ask more.
    pub(super) fn is_full(&self) -> bool {
        let owed = self.owed_octets + self.in_flight.saturating_mul(ANSWER_RESERVE);
        self.in_flight >= IN_FLIGHT_PER_CONNECTION || owed >= UNSENT_PAUSE
    }

    /// Whether no query waits and no response is still to be written.
    pub(super) fn is_answered(&self) -> bool {
        self.in_flight == 0 && self.unwritten.is_empty() && self.sending.is_empty()
    }

    /// Whether the client has acknowledged all responses too.
    pub(super) fn is_idle(&self) -> bool {
        self.is_answered()
            && self.owed.is_empty()
            && self.partial.is_empty()
            && self.held_up.is_none()
    }

    /// Whether it may be closed for another.
    pub(super) fn may_go(&self) -> bool {
        self.phase == Phase::Open && self.seat.is_some() && self.is_idle()
    }

    /// Whether the client has acknowledged all responses.
    pub(super) fn is_acknowledged(&self) -> bool {
        self.owed.is_empty()
    }

    /// What to close it with when nothing more of its client is heard: an error if a response is not sent
    /// whole, as far as is known, so that the client asks again (RFC 9250 section 4.3).
    pub(super) fn farewell(&self) -> VarInt {
        // Each response may have needed a packet of its own.
        let packets = self.owed.len() as u64 * u64::from(QUIC_PACKET_LEN);
        let sent = self.quinn.stats().path.cwnd;
        let is_sent = self.is_answered() && self.owed_octets as u64 + packets <= sent;
        if is_sent { code::NO_ERROR } else { code::INTERNAL_ERROR }
    }

    /// Octets of responses that the client has not acknowledged.
    pub(super) fn owed(&self) -> usize {
        self.owed_octets
    }

    /// What it holds, as its budget reckons.
    pub(super) fn held(&self) -> usize {
        let streams = self.streams_max as usize * QUIC_STREAM_COST;
        let http3 = self.http3.as_ref().map_or(0, |http3| http3.cost());
        let sent = self.owed_octets + self.sending_cost();
        QUIC_COST + streams + http3 + self.kept + self.unread.octets() + sent
    }

    /// Takes a datagram of so many octets. What it has of streams stays in it until that is read.
    pub(super) fn hear(&mut self, event: ConnectionEvent, len: usize) {
        let before = self.quinn.stats().frame_rx;
        self.quinn.handle_event(event);
        let now = self.quinn.stats().frame_rx;
        if now.stream != before.stream {
            self.unread.add(len);
        }
        if now.crypto != before.crypto {
            self.unread.add_tls(len);
        }
    }

    /// The handshake is over.
    pub(super) fn open(&mut self) {
        self.phase = Phase::Open;
        self.half_open = None;
        self.unread.end_handshake();
    }

    /// Notes whether more may come on a stream.
    pub(super) fn note_end(&mut self, stream: StreamId, has_ended: bool) {
        self.unread.note_end(stream, has_ended);
    }

    /// Streams were taken; others may wait for that, or not.
    pub(super) fn note_taken(&mut self, some_wait: bool) {
        self.unread.note_taken(self.accepted, if some_wait { self.streams_max } else { 0 });
    }

    /// Whether it holds more that cannot be read than its streams need, each with a packet, or than a
    /// handshake has.
    pub(super) fn is_clogged(&self) -> bool {
        let streams = QUIC_UNREAD_MAX.max(self.streams_max as usize * QUIC_DATAGRAM_MAX);
        self.unread.octets() > streams || self.unread.has_too_much_tls()
    }

    /// A query has come whole, or a response is taken.
    pub(super) fn refresh(&mut self, now: Now) {
        self.active_at = now.mono_ns;
    }

    /// A query has begun to arrive.
    pub(super) fn keep_partial(
        &mut self,
        stream: StreamId,
        kept: Kept,
        deadline: Option<u64>,
        now: Now,
    ) {
        let deadline = deadline.unwrap_or(now.mono_ns.saturating_add(self.times.read));
        self.kept += kept.cost();
        self.partial.insert(stream, Partial { kept, deadline });
        self.partial_at = self.partial_at.min(deadline);
    }

    /// Gives what was kept of a query.
    pub(super) fn take_partial(&mut self, stream: StreamId) -> Option<Partial> {
        let partial = self.partial.remove(&stream)?;
        self.kept = self.kept.saturating_sub(partial.kept.cost());
        Some(partial)
    }

    /// Ends a stream that is not whole in time; says whether a query was on it.
    pub(super) fn give_up(&mut self, stream: StreamId) -> bool {
        let partial = self.take_partial(stream);
        let has_response = partial.is_some_and(|own| matches!(own.kept, Kept::Rest(_)));
        if has_response {
            self.stop(stream, code::NO_ERROR);
        }
        !has_response
    }

    /// Octets of memory of queries that are not whole.
    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    /// Ends a stream without a response.
    pub(super) fn abandon(&mut self, stream: StreamId, code: VarInt) {
        let code = self.spoken(code);
        self.settle(stream);
        self.unwritten.retain(|own| own.stream != stream);
        self.sending.retain(|own| own.stream != stream);
        // An error means that it has ended.
        _ = self.quinn.send_stream(stream).reset(code);
        // One that was not taken yet is read first.
        if stream.index() < self.accepted {
            self.stop(stream, code);
        }
    }

    /// Takes no more of a stream, and drops what has come.
    pub(super) fn stop(&mut self, stream: StreamId, code: VarInt) {
        let code = self.spoken(code);
        // An error means that it has ended.
        _ = self.quinn.recv_stream(stream).stop(code);
        self.unread.note_end(stream, true);
    }

    /// Closes it; what is not sent yet will not be.
    pub(super) fn close(&mut self, code: VarInt, reason: &'static str, at: Instant) {
        if self.phase == Phase::Closed {
            return;
        }
        let code = self.spoken(code);
        self.quinn.close(at, code, Bytes::from_static(reason.as_bytes()));
        self.end();
    }

    /// The code of what is spoken here, for one of DNS over QUIC.
    fn spoken(&self, code: VarInt) -> VarInt {
        if self.http3.is_some() { super::http3::code_for(code) } else { code }
    }

    /// Nothing more comes of it.
    pub(super) fn end(&mut self) {
        self.phase = Phase::Closed;
        self.half_open = None;
        self.place = None;
        self.seat = None;
        self.partial = HashMap::new();
        self.kept = 0;
        if let Some(http3) = &mut self.http3 {
            http3.side = Side::default();
        }
        self.unread = Unread::default();
        self.held_up = None;
        self.partial_at = NEVER;
        self.owed = HashMap::new();
        self.unwritten = VecDeque::new();
        self.sending = VecDeque::new();
        self.owed_octets = 0;
        self.events = Vec::new();
    }

    /// When the client has to have done something.
    pub(super) fn deadline(&self) -> u64 {
        match self.phase {
            Phase::Closed => NEVER,
            // The first query has to come in the same time as over TCP, handshake included. Pieces of queries
            // do not put it off.
            Phase::Handshake => self.active_at.saturating_add(self.times.read),
            Phase::Open if !self.has_asked => {
                self.active_at.saturating_add(self.times.read).min(self.partial_at)
            }
            Phase::Open => {
                let idle = match self.is_idle() {
                    true => self.active_at.saturating_add(self.times.idle),
                    false => NEVER,
                };
                let taking = match self.owed.is_empty() && self.sending.is_empty() {
                    true => NEVER,
                    false => self.progress_at.saturating_add(self.times.write),
                };
                let sending = self.sending.iter().map(Sending::deadline).min().unwrap_or(NEVER);
                idle.min(taking).min(sending).min(self.partial_at)
            }
        }
    }
}
