//! Queries on streams: a two-octet length and a message, one on each stream (RFC 9250 section 4.2).

use super::connection::{Connection, Kept, Partial, Phase, Turn, code};
use super::server::QuicServer;
use crate::context::Context;
use crate::limits::{QUIC_STREAM_WINDOW, UNSENT_MAX};
use crate::slots::Key;
use crate::tcp::{Frame, NEVER, first_frame, refusal};
use nodens_core::{Client, Now, Stream, Transport, Verdict, Worker};
use nodens_wire::edns::code::TCP_KEEPALIVE;
use nodens_wire::{Admission, MESSAGE_LEN_MAX, admit};
use quinn_proto::{Dir, ReadError, Side, StreamId, VarInt};

/// What a stream has come to.
enum Heard {
    /// A message is whole.
    Message,
    /// Not yet.
    Part,
    /// A message longer than any query.
    TooLong,
    /// The client ended it before a message was whole, or what came cannot be one, or is more than one.
    Malformed,
    /// The client cancelled it.
    Reset,
}

impl QuicServer {
    /// Takes the streams that are new, as far as the connection may open more.
    pub(super) fn take_queries(&mut self, key: Key, cx: &mut Context<'_>) {
        loop {
            let Some(connection) = self.connections.get_mut(key) else { return };
            if connection.phase != Phase::Open || connection.ending || connection.is_full() {
                return connection.note_taken(true);
            }
            let Some(site) = self.sites.get(connection.site) else { return };
            let next = connection.held_up.take();
            let Some(id) = next.or_else(|| connection.quinn.streams().accept(Dir::Bi)) else {
                return connection.note_taken(false);
            };
            let is_busy = site.counts.is_busy(site.bounds.settings.in_flight_max);
            // Whoever has no query that waits need not wait for those who have many.
            let others_first = is_busy || (!self.row.is_empty() && !connection.may_ask);
            if others_first && connection.in_flight > 0 {
                connection.held_up = Some(id);
                if !connection.in_row {
                    connection.in_row = true;
                    self.row.push_back(key);
                }
                return connection.note_taken(true);
            }
            connection.may_ask = false;
            connection.accepted = id.index() + 1;
            self.read_new(key, id, cx);
        }
    }

    /// Lets the next connection go on that waits for a place, if there is one.
    pub(super) fn call_next(&mut self) -> bool {
        let has_place = |key: &Key| {
            let Some(connection) = self.connections.get(*key) else { return true };
            let site = self.sites.get(connection.site);
            site.is_none_or(|site| !site.counts.is_busy(site.bounds.settings.in_flight_max))
        };
        let of_row = if self.sites.len() > 1 { self.row.len() } else { 1 };
        let Some(at) = self.row.iter().take(of_row).position(has_place) else { return false };
        let Some(key) = self.row.remove(at) else { return false };
        if let Some(connection) = self.connections.get_mut(key) {
            (connection.in_row, connection.may_ask) = (false, true);
        }
        self.mark(key);
        true
    }

    /// Reads from a stream on which something has arrived.
    pub(super) fn read(&mut self, key: Key, id: StreamId, cx: &mut Context<'_>) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        // A stream that is not taken yet is read then.
        if id.dir() != Dir::Bi || id.index() >= connection.accepted {
            return;
        }
        match connection.take_partial(id) {
            Some(Partial { kept: Kept::Octets(octets), deadline }) => {
                self.read_on(key, id, octets, Some(deadline), cx);
            }
            Some(Partial { kept: Kept::Request(request), deadline }) => {
                self.read_request(key, id, request, Some(deadline), cx);
            }
            Some(Partial { kept: Kept::Rest(rest), deadline }) => {
                self.drop_rest(key, id, rest, Some(deadline), cx);
            }
            // Behind the query nothing may come but the end (RFC 9250 section 4.3.3). HTTP/3 has its own rules.
            None => {
                if drain(connection, id) > 0 && connection.http3.is_none() {
                    self.violated(key, cx);
                }
            }
        }
    }

    fn read_new(&mut self, key: Key, id: StreamId, cx: &mut Context<'_>) {
        match self.connections.get(key).is_some_and(|own| own.http3.is_some()) {
            true => self.read_request(key, id, Box::default(), None, cx),
            false => self.read_on(key, id, Vec::new(), None, cx),
        }
    }

    /// Reads from a stream of which these octets are known.
    fn read_on(
        &mut self,
        key: Key,
        id: StreamId,
        kept: Vec<u8>,
        deadline: Option<u64>,
        cx: &mut Context<'_>,
    ) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        self.message.clear();
        self.message.extend_from_slice(&kept);
        match collect(connection, id, &mut self.message) {
            Heard::Message => self.ask(key, id, cx),
            Heard::Part => {
                let octets = self.message.clone();
                connection.keep_partial(id, Kept::Octets(octets), deadline, cx.now);
            }
            Heard::TooLong => {
                cx.counters.add(cx.counters.oversized, 1);
                let header = first_frame(&self.message).and_then(|frame| match frame {
                    Frame::TooLong(header) => refusal(header),
                    Frame::Message(..) => None,
                });
                if let Some(connection) = self.connections.get_mut(key) {
                    connection.stop(id, code::EXCESSIVE_LOAD);
                }
                match header {
                    Some(answer) => self.respond(key, id, &answer, cx),
                    None => self.abandon(key, id, code::EXCESSIVE_LOAD, cx),
                }
            }
            Heard::Reset => self.abandon(key, id, code::INTERNAL_ERROR, cx),
            Heard::Malformed => self.violated(key, cx),
        }
    }

    /// Answers the query that is in front of `self.message`.
    fn ask(&mut self, key: Key, id: StreamId, cx: &mut Context<'_>) {
        let stream = std::mem::take(&mut self.message);
        if let Some(Frame::Message(message, _)) = first_frame(&stream) {
            self.ask_message(key, id, message, cx);
        }
        self.message = stream;
    }

    fn ask_message(&mut self, key: Key, id: StreamId, message: &[u8], cx: &mut Context<'_>) {
        let stream = u32::try_from(id.index());
        let (Ok(stream), true) = (stream, is_valid(message)) else { return self.violated(key, cx) };
        let Some(connection) = self.connections.get_mut(key) else { return };
        let Some(site) = self.sites.get(connection.site) else { return };
        connection.has_asked = true;
        connection.refresh(cx.now);
        let client = Client {
            peer: connection.peer,
            local: connection.local,
            transport: Transport::Quic,
            listener: site.listener.listener,
            connection: key.bits(),
            stream,
            old_tls: false,
        };
        let mut answer = std::mem::take(&mut self.answer);
        match cx.worker.receive(cx.now, client, message, &mut answer) {
            Verdict::Answered => self.respond(key, id, &answer, cx),
            Verdict::Streaming => {
                let rest = cx.worker.take_stream();
                rest.into_iter()
                    .for_each(|rest| connection.begin_sending(id, (&answer, rest), cx.now));
            }
            Verdict::Pending => {
                connection.in_flight += 1;
                site.counts.begin(1);
            }
            Verdict::Silent => self.abandon(key, id, code::INTERNAL_ERROR, cx),
        }
        self.answer = answer;
    }

    /// Writes a response, and the end of its stream.
    fn respond(&mut self, key: Key, id: StreamId, answer: &[u8], cx: &mut Context<'_>) {
        let Some(connection) = self.connections.get(key) else { return };
        let site = connection.site;
        let Some(len) = u16::try_from(answer.len().min(MESSAGE_LEN_MAX)).ok() else { return };
        self.framed.clear();
        self.framed.extend(len.to_be_bytes());
        self.framed.extend_from_slice(answer.get(..usize::from(len)).unwrap_or_default());
        self.write_framed(key, id, cx);
        self.count(site, code::NO_ERROR, cx.worker);
    }

    /// Writes `self.framed`, and the end of its stream.
    pub(super) fn write_framed(&mut self, key: Key, id: StreamId, cx: &mut Context<'_>) {
        let at = self.instant(cx.now);
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.respond(id, &self.framed, cx.now);
        if connection.owed() > UNSENT_MAX {
            cx.counters.add(cx.counters.unread, 1);
            connection.close(code::EXCESSIVE_LOAD, "", at);
        }
    }

    /// Ends a stream without a response.
    pub(super) fn abandon(&mut self, key: Key, id: StreamId, code: VarInt, cx: &mut Context<'_>) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.abandon(id, code);
        let site = connection.site;
        self.count(site, code, cx.worker);
    }

    /// Closes a connection for what its client sent (RFC 9250 section 4.3.3).
    fn violated(&mut self, key: Key, cx: &mut Context<'_>) {
        let at = self.instant(cx.now);
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.close(code::PROTOCOL_ERROR, "", at);
        let site = connection.site;
        self.count(site, code::PROTOCOL_ERROR, cx.worker);
    }

    /// Counts responses of many messages that have ended.
    pub(super) fn count_turn(&self, site: Key, turn: Turn, cx: &Context<'_>) {
        (0..turn.whole).for_each(|_| self.count(site, code::NO_ERROR, cx.worker));
        (0..turn.broken).for_each(|_| self.count(site, code::INTERNAL_ERROR, cx.worker));
        cx.counters.add(cx.counters.broken, turn.broken as u64);
    }

    /// Takes a response of many messages that had to be waited for.
    pub(crate) fn begin_stream(
        &mut self,
        client: &Client,
        (first, rest): (&[u8], Box<Stream>),
        now: Now,
    ) {
        let (key, id) = place(client);
        self.settle_one(key);
        if let Some(connection) = self.connections.get_mut(key) {
            connection.begin_sending(id, (first, rest), now);
        }
        self.mark(key);
    }

    fn count(&self, site: Key, code: VarInt, worker: &Worker) {
        let responses = self.sites.get(site).and_then(|site| site.bounds.responses);
        let Some(responses) = responses else { return };
        let counter = match code {
            code::NO_ERROR => responses.no_error,
            code::PROTOCOL_ERROR => responses.protocol_error,
            _ => responses.internal_error,
        };
        worker.cells().add(counter, 1);
    }

    /// Sends an answer that had to be waited for, at the end of the round.
    pub(crate) fn send(&mut self, client: &Client, wire: &[u8], cx: &mut Context<'_>) {
        let (key, id) = place(client);
        self.settle_one(key);
        match client.transport {
            Transport::Https3 => self.answer_request(key, id, Some(wire), cx),
            _ => self.respond(key, id, wire, cx),
        }
        self.mark(key);
    }

    /// A query that waited gets no answer.
    pub(crate) fn forget(&mut self, client: &Client, cx: &mut Context<'_>) {
        let (key, id) = place(client);
        self.settle_one(key);
        match client.transport {
            Transport::Https3 => self.answer_request(key, id, None, cx),
            _ => self.abandon(key, id, code::INTERNAL_ERROR, cx),
        }
        self.mark(key);
    }

    fn settle_one(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.in_flight = connection.in_flight.saturating_sub(1);
        if let Some(site) = self.sites.get(connection.site) {
            site.counts.end(1);
        }
    }

    /// Gives up queries that have taken too long to arrive: their streams, not the connection.
    pub(super) fn end_partial(&mut self, key: Key, cx: &mut Context<'_>) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let late = |own: &super::connection::Partial| own.deadline <= cx.now.mono_ns;
        let mut ended: Vec<StreamId> =
            connection.partial.iter().filter(|(_, own)| late(own)).map(|(id, _)| *id).collect();
        ended.retain(|id| connection.give_up(*id));
        let next = connection.partial.values().map(|own| own.deadline).min();
        connection.partial_at = next.unwrap_or(NEVER);
        let code = match connection.http3 {
            Some(_) => code::REQUEST_CANCELLED,
            None => code::INTERNAL_ERROR,
        };
        for id in ended {
            self.abandon(key, id, code, cx);
        }
    }
}

/// Where a response goes.
fn place(client: &Client) -> (Key, StreamId) {
    let id = StreamId::new(Side::Client, Dir::Bi, u64::from(client.stream));
    (Key::from_bits(client.connection), id)
}

/// Whether a message is a query that may stand on a stream (RFC 9250 section 4.3.3). Anything else ends
/// the connection, as in CoreDNS.
fn is_valid(message: &[u8]) -> bool {
    let Admission::Accept(query) = admit(message) else { return false };
    let mut options = query.edns.iter().flat_map(|edns| edns.options(message));
    query.id == 0 && !options.any(|(option, _)| option == TCP_KEEPALIVE)
}

/// Reads a stream behind what is known of it, until a message is whole.
fn collect(connection: &mut Connection, id: StreamId, into: &mut Vec<u8>) -> Heard {
    let mut stream = connection.quinn.recv_stream(id);
    let Ok(mut chunks) = stream.read(true) else { return Heard::Malformed };
    let mut is_longer = false;
    let end = loop {
        match chunks.next(QUIC_STREAM_WINDOW as usize) {
            // What follows a whole message is read, so that the stream can end, and dropped.
            Ok(Some(chunk)) if first_frame(into).is_none() => into.extend_from_slice(&chunk.bytes),
            Ok(Some(_)) => is_longer = true,
            Ok(None) => break Heard::Malformed,
            Err(ReadError::Blocked) => break Heard::Part,
            Err(ReadError::Reset(_)) => break Heard::Reset,
        }
    };
    // Packets are looked for at the end of the round anyway.
    _ = chunks.finalize();
    connection.note_end(id, !matches!(end, Heard::Part));
    match (first_frame(into), end) {
        (_, Heard::Reset) => Heard::Reset,
        (Some(Frame::Message([], _)), _) => Heard::Malformed,
        (Some(Frame::Message(_, len)), _) if is_longer || len < into.len() => Heard::Malformed,
        (Some(Frame::Message(..)), _) => Heard::Message,
        (Some(Frame::TooLong(_)), _) => Heard::TooLong,
        (None, end) => end,
    }
}

/// Reads a stream of which nothing is wanted any more; gives how many octets there were.
fn drain(connection: &mut Connection, id: StreamId) -> usize {
    let mut stream = connection.quinn.recv_stream(id);
    let Ok(mut chunks) = stream.read(true) else { return 0 };
    let mut octets = 0;
    let end = loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => octets += chunk.bytes.len(),
            end => break end,
        }
    };
    _ = chunks.finalize();
    connection.note_end(id, end != Err(ReadError::Blocked));
    octets
}
