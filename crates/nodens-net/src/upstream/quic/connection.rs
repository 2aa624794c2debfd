//! One connection: the queries on its streams, and what comes of them.

use super::dial::{self, Dialled};
use super::fault;
use crate::limits::{
    QUIC_UPSTREAM_IN_FLIGHT, QUIC_UPSTREAM_PARTIAL_MAX, QUIC_UPSTREAM_STREAM_WINDOW,
    QUIC_WAITING_EVENTS,
};
use crate::quic::code;
use crate::random::Random;
use crate::tcp::NEVER;
use crate::upstream::pool::Pooled;
use crate::upstream::record::Record;
use crate::upstream::waiting::Waiting;
use bytes::Bytes;
use foldhash::fast::RandomState;
use nodens_core::Now;
use nodens_core::upstream::Upstream;
use nodens_wire::MESSAGE_LEN_MAX;
use quinn_proto::{
    ConnectionError, ConnectionEvent, ConnectionHandle, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event, ReadError, StreamEvent, StreamId, VarInt, WriteError,
};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Instant;

/// Octets of the length in front of a message.
const LENGTH: usize = 2;

/// What a connection has to tell.
#[derive(Debug)]
pub(super) enum News {
    /// It is made.
    Made,
    /// It is over.
    Lost(ConnectionError),
    /// The query with this ID has its response: a message with its length in front.
    Response(u16, Vec<u8>),
    /// The query with this ID gets no response, for this reason.
    NoResponse(u16, String),
    /// What came on the stream of this query is no DNS over QUIC (RFC 9250 section 4.3.3).
    Violation(u16, String),
}

/// The stream of a query.
struct Open {
    id: u16,
    /// What has come of the response.
    octets: Vec<u8>,
    /// What of the query has found no room yet.
    unwritten: Vec<u8>,
}

/// A connection to an upstream.
pub(super) struct Connection {
    pub(super) record: Record,
    pub(super) socket: UdpSocket,
    address: SocketAddr,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    quinn: Box<quinn_proto::Connection>,
    /// What has arrived for the handshake, which waits for its turn.
    events: Vec<ConnectionEvent>,
    pub(super) in_turn: bool,
    pub(super) dirty: bool,
    /// Queries that no stream may be opened for yet, each with its length in front.
    unsent: VecDeque<(u16, Vec<u8>)>,
    streams: HashMap<StreamId, Open, RandomState>,
    by_id: HashMap<u16, StreamId, RandomState>,
    /// Streams whose query is not written as a whole.
    unwritten: usize,
    /// Octets of responses that are not whole.
    partial: usize,
    /// Frames heard before.
    frames: u64,
    /// The system refused to send, or said that nobody listens there.
    pub(super) refusal: Option<io::Error>,
    /// The earliest deadline that is queued for it.
    pub(super) queued: u64,
}

impl Pooled for Connection {
    fn record(&self) -> &Record {
        &self.record
    }

    fn is_full(&self) -> bool {
        self.record.waiting.len() >= QUIC_UPSTREAM_IN_FLIGHT
    }
}

impl Connection {
    /// One whose handshake has not begun.
    pub(super) fn new(
        upstream: &Arc<Upstream>,
        endpoints: &Arc<EndpointConfig>,
        random: &mut Random,
        now: Now,
        at: Instant,
    ) -> io::Result<Self> {
        let address = upstream.key.address;
        let no_peer = || io::Error::other("no TLS for QUIC");
        let peer = upstream.key.tls.as_deref().ok_or_else(no_peer)?;
        let expire = upstream.key.settings.expire;
        let Dialled { endpoint, handle, quinn } =
            dial::begin(endpoints, address, peer, (expire, QUIC_UPSTREAM_STREAM_WINDOW), at)?;
        Ok(Self {
            record: Record::new(upstream, random, now),
            socket: dial::socket_to(address, upstream.key.source)?,
            address,
            endpoint,
            handle,
            quinn: Box::new(quinn),
            events: Vec::new(),
            in_turn: false,
            dirty: false,
            unsent: VecDeque::new(),
            streams: HashMap::default(),
            by_id: HashMap::default(),
            unwritten: 0,
            partial: 0,
            frames: 0,
            refusal: None,
            queued: NEVER,
        })
    }

    pub(super) fn local(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()
    }

    /// Takes a query, with its length in front.
    pub(super) fn put(&mut self, id: u16, framed: &[u8], waiting: Waiting) {
        self.record.await_answer(id, waiting);
        if !self.record.connected || !self.unsent.is_empty() || !self.open(id, framed) {
            self.unsent.push_back((id, framed.to_vec()));
        }
    }

    /// Opens a stream for a query, if the upstream allows another.
    fn open(&mut self, id: u16, framed: &[u8]) -> bool {
        let Some(stream) = self.quinn.streams().open(Dir::Bi) else { return false };
        let mut open = Open { id, octets: Vec::new(), unwritten: Vec::new() };
        let written = self.write(stream, framed);
        if let Some(rest) = framed.get(written..).filter(|rest| !rest.is_empty()) {
            open.unwritten = rest.to_vec();
            self.unwritten += 1;
        }
        self.streams.insert(stream, open);
        self.by_id.insert(id, stream);
        true
    }

    /// Writes what there is room for, and the end behind the last octet; gives how much.
    fn write(&mut self, stream: StreamId, octets: &[u8]) -> usize {
        let mut writer = self.quinn.send_stream(stream);
        let written = match writer.write(octets) {
            Ok(written) => written,
            Err(WriteError::Blocked) => 0,
            // The upstream wants no more of it, and may respond all the same.
            Err(_) => octets.len(),
        };
        if written == octets.len() {
            // An error means that it has ended.
            _ = writer.finish();
        }
        written
    }

    /// Sends queries as far as there is room now.
    pub(super) fn write_rest(&mut self) {
        if !self.record.connected {
            return;
        }
        if self.unwritten > 0 {
            let waits = |(_, open): &(&StreamId, &Open)| !open.unwritten.is_empty();
            let waiting: Vec<StreamId> =
                self.streams.iter().filter(waits).map(|(id, _)| *id).collect();
            for stream in waiting {
                let open = self.streams.get_mut(&stream);
                let octets =
                    open.map(|open| std::mem::take(&mut open.unwritten)).unwrap_or_default();
                let written = self.write(stream, &octets);
                let rest = octets.get(written..).unwrap_or_default().to_vec();
                self.unwritten -= usize::from(rest.is_empty());
                if let Some(open) = self.streams.get_mut(&stream) {
                    open.unwritten = rest;
                }
            }
        }
        while let Some((id, framed)) = self.unsent.pop_front() {
            if !self.open(id, &framed) {
                return self.unsent.push_front((id, framed));
            }
        }
    }

    /// Nobody waits for this query any more: the upstream is told so.
    pub(super) fn cancel(&mut self, id: u16, now: Now) -> Option<Waiting> {
        let waiting = self.record.take(id, now)?;
        self.unsent.retain(|(own, _)| *own != id);
        if let Some(stream) = self.by_id.get(&id).copied() {
            self.end(stream);
            // Errors mean that it has ended.
            _ = self.quinn.send_stream(stream).reset(code::REQUEST_CANCELLED);
            _ = self.quinn.recv_stream(stream).stop(code::REQUEST_CANCELLED);
        }
        Some(waiting)
    }

    /// Takes a stream out of the tables.
    fn end(&mut self, stream: StreamId) -> Option<Open> {
        let open = self.streams.remove(&stream)?;
        self.by_id.remove(&open.id);
        self.partial -= open.octets.len();
        self.unwritten -= usize::from(!open.unwritten.is_empty());
        Some(open)
    }

    /// Takes a datagram. What it has of the handshake waits for its turn; says whether it does.
    pub(super) fn take(&mut self, datagram: &[u8], at: Instant, reply: &mut Vec<u8>) -> bool {
        let event = self.endpoint.handle(at, self.address, None, None, datagram.into(), reply);
        // To packets of no connection nothing is said: who listens here is none of anybody's business.
        reply.clear();
        let Some(DatagramEvent::ConnectionEvent(_, event)) = event else { return false };
        if self.record.connected {
            self.quinn.handle_event(event);
            return false;
        }
        if self.events.len() < QUIC_WAITING_EVENTS {
            // Else it is sent again.
            self.events.push(event);
        }
        true
    }

    /// How much waits for its turn.
    #[cfg(test)]
    pub(super) fn waiting_events(&self) -> usize {
        self.events.len()
    }

    /// Takes what has waited for its turn.
    pub(super) fn go_on(&mut self) {
        for event in std::mem::take(&mut self.events) {
            self.quinn.handle_event(event);
        }
    }

    /// Whether something has come since the last call that nobody else can have sent.
    pub(super) fn has_heard(&mut self) -> bool {
        let heard = self.quinn.stats().frame_rx;
        let frames = heard.acks + heard.stream + heard.crypto + heard.ping + heard.reset_stream;
        std::mem::replace(&mut self.frames, frames) != frames
    }

    pub(super) fn time_out(&mut self, at: Instant) {
        self.quinn.handle_timeout(at);
    }

    /// When [`Connection::time_out`] is due.
    pub(super) fn timeout(&mut self) -> Option<Instant> {
        self.quinn.poll_timeout()
    }

    /// The next packet to send, in `packet`; says whether there is one.
    pub(super) fn packet(&mut self, at: Instant, packet: &mut Vec<u8>) -> bool {
        let Some(transmit) = self.quinn.poll_transmit(at, 1, packet) else { return false };
        packet.truncate(transmit.size);
        true
    }

    /// Lets the IDs of packets follow what was received and sent.
    pub(super) fn renew_ids(&mut self) {
        while let Some(event) = self.quinn.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.quinn.handle_event(event);
            }
        }
    }

    /// Says that it ends.
    pub(super) fn close(&mut self, code: VarInt, reason: &str, at: Instant) {
        self.quinn.close(at, code, Bytes::copy_from_slice(reason.as_bytes()));
    }

    /// What is new, one at a time.
    pub(super) fn news(&mut self) -> Option<News> {
        while let Some(event) = self.quinn.poll() {
            let news = match event {
                Event::Connected => Some(News::Made),
                Event::ConnectionLost { reason } => Some(News::Lost(reason)),
                Event::Stream(StreamEvent::Readable { id }) => self.read(id),
                // Room on streams, and for new ones, is looked for in each round.
                _ => None,
            };
            if news.is_some() {
                return news;
            }
        }
        None
    }

    /// Reads what has come on a stream.
    fn read(&mut self, stream: StreamId) -> Option<News> {
        let open = self.streams.get_mut(&stream)?;
        let before = open.octets.len();
        let mut reader = self.quinn.recv_stream(stream);
        let mut chunks = reader.read(true).ok()?;
        let end = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => open.octets.extend_from_slice(&chunk.bytes),
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
            if open.octets.len() > LENGTH + MESSAGE_LEN_MAX {
                break Some(ReadError::Blocked);
            }
        };
        // Packets are looked for at the end of the round anyway.
        _ = chunks.finalize();
        self.partial += open.octets.len() - before;
        let (id, len) = (open.id, open.octets.len());
        let expected = expected(&open.octets);
        match end {
            _ if expected.is_some_and(|expected| expected == LENGTH) => {
                Some(violation(id, "zero-length DNS message"))
            }
            _ if expected.is_some_and(|expected| len > expected) => {
                Some(violation(id, "multiple responses on one query stream"))
            }
            None => self.whole(stream, expected),
            Some(ReadError::Reset(code)) => {
                self.end(stream);
                Some(News::NoResponse(
                    id,
                    fault::reset(u64::from(VarInt::from(stream)), code.into_inner()),
                ))
            }
            Some(ReadError::Blocked) if self.partial > QUIC_UPSTREAM_PARTIAL_MAX => {
                Some(violation(id, "too many octets of responses that are not whole"))
            }
            Some(ReadError::Blocked) => None,
        }
    }

    /// A stream has ended, of which so many octets were announced.
    fn whole(&mut self, stream: StreamId, expected: Option<usize>) -> Option<News> {
        let open = self.end(stream)?;
        let message = open.octets.get(LENGTH..).unwrap_or_default();
        Some(match (expected, message.first_chunk()) {
            (None, _) => violation(open.id, "incomplete message length"),
            (Some(expected), _) if open.octets.len() < expected => {
                let text = format!("message ended before {} bytes", expected - LENGTH);
                violation(open.id, &text)
            }
            (_, Some(id)) if *id != [0, 0] => {
                let text = format!("response message ID is {}, want 0", u16::from_be_bytes(*id));
                violation(open.id, &text)
            }
            _ => News::Response(open.id, open.octets),
        })
    }
}

/// How many octets a stream has in all, by the length that it begins with.
fn expected(octets: &[u8]) -> Option<usize> {
    octets.first_chunk().map(|length| LENGTH + usize::from(u16::from_be_bytes(*length)))
}

fn violation(id: u16, text: &str) -> News {
    News::Violation(id, format!("DNS-over-QUIC protocol error: {text}"))
}
