//! DNS over HTTPS on HTTP/3 (RFC 8484, RFC 9114): one request on each stream.

use super::connection::{Connection, Kept, Phase, code};
use super::partial::Rest;
use super::server::QuicServer;
use crate::context::Context;
use crate::http::Counted;
use crate::http::http3::{self, Fault, Progress, Request, Side, Want};
use crate::limits::{HTTP3_COST, HTTP3_DROPPED_MAX, HTTP3_KEPT_MAX};
use crate::slots::Key;
use nodens_core::{Client, Now, Transport, Verdict};
use quinn_proto::{Dir, ReadError, StreamId, VarInt};

/// What HTTP/3 has of a connection.
#[derive(Default)]
pub(super) struct Http3 {
    /// The server's control stream.
    control: Option<StreamId>,
    /// Streams of the client that carry no requests.
    pub(super) side: Side,
}

impl Http3 {
    /// Octets of memory.
    pub(super) fn cost(&self) -> usize {
        HTTP3_COST + self.side.cost()
    }
}

/// The code of HTTP/3 for one of DNS over QUIC; its own codes stay.
pub(super) fn code_for(own: VarInt) -> VarInt {
    let http = match own {
        code::NO_ERROR => http3::code::NO_ERROR,
        code::INTERNAL_ERROR => http3::code::INTERNAL_ERROR,
        code::PROTOCOL_ERROR => http3::code::GENERAL_PROTOCOL_ERROR,
        code::REQUEST_CANCELLED => http3::code::REQUEST_CANCELLED,
        code::EXCESSIVE_LOAD => http3::code::EXCESSIVE_LOAD,
        _ => return own,
    };
    VarInt::from_u32(http)
}

/// What has come on a stream.
enum Heard {
    Progress(Progress),
    Fault(Fault),
    /// The client gave it up.
    Reset,
}

impl Heard {
    /// Whether more is to come.
    fn is_open(&self) -> bool {
        matches!(self, Self::Progress(Progress::More))
    }
}

impl Connection {
    /// Opens the control stream; says whether the client lets it.
    fn greet(&mut self) -> bool {
        let Some(http3) = &mut self.http3 else { return true };
        http3.control = self.quinn.streams().open(Dir::Uni);
        self.say(&http3::greeting())
    }

    /// Writes on the control stream, if there is room for it.
    fn say(&mut self, octets: &[u8]) -> bool {
        let control = self.http3.as_ref().and_then(|http3| http3.control);
        let Some(control) = control else { return false };
        self.quinn.send_stream(control).write(octets) == Ok(octets.len())
    }

    /// Tells the client, once, that no more requests are looked at: neither new ones nor those that are not
    /// whole.
    pub(super) fn say_goodbye(&mut self) {
        if self.http3.is_none() || self.phase != Phase::Open || self.ending {
            return;
        }
        // Without room for it the client hears when the connection closes.
        _ = self.say(&http3::goaway(self.accepted * 4));
        let begun: Vec<StreamId> = self.partial.keys().copied().collect();
        for id in begun {
            if self.give_up(id) {
                self.abandon(id, VarInt::from_u32(http3::code::REQUEST_REJECTED));
            }
        }
    }

    /// Drops what has come on a stream; says whether more is to come.
    fn drop_rest(&mut self, id: StreamId, rest: &mut Rest) -> bool {
        let mut stream = self.quinn.recv_stream(id);
        let Ok(mut chunks) = stream.read(false) else { return false };
        let is_open = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    rest.octets += chunk.bytes.len();
                    rest.pieces += 1;
                }
                end => break end == Err(ReadError::Blocked),
            }
        };
        _ = chunks.finalize();
        is_open
    }

    /// Reads a stream behind what is known of its request.
    fn hear_request(
        &mut self,
        id: StreamId,
        request: &mut Request,
        now: Now,
        counted: &mut Counted,
    ) -> Heard {
        let mut stream = self.quinn.recv_stream(id);
        // What QUIC kept until others come that stand in front of it would not be in our books.
        let Ok(mut chunks) = stream.read(false) else { return Heard::Reset };
        let mut heard = Heard::Progress(Progress::More);
        loop {
            let progress = match chunks.next(usize::MAX) {
                // Behind a response nothing is of interest but the end.
                Ok(Some(_)) if !heard.is_open() => continue,
                Ok(Some(chunk)) => request.take(chunk.offset, &chunk.bytes, now, counted),
                Ok(None) if heard.is_open() => request.end(now, counted),
                Ok(None) | Err(ReadError::Blocked) => break,
                Err(ReadError::Reset(_)) => {
                    heard = Heard::Reset;
                    break;
                }
            };
            heard = progress.map_or_else(Heard::Fault, Heard::Progress);
        }
        // Packets are looked for at the end of the round anyway.
        _ = chunks.finalize();
        heard
    }
}

impl QuicServer {
    /// Says what the server has to say first.
    pub(super) fn greet(&mut self, key: Key, cx: &Context<'_>) {
        let at = self.instant(cx.now);
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.phase == Phase::Open && !connection.greet() {
            // A client has to allow it (RFC 9114 section 6.2).
            connection.close(code::PROTOCOL_ERROR, "no control stream", at);
        }
    }

    /// Takes the streams in one direction that are new.
    pub(super) fn take_side_streams(&mut self, key: Key, cx: &Context<'_>) {
        loop {
            let Some(connection) = self.connections.get_mut(key) else { return };
            if connection.phase != Phase::Open || connection.http3.is_none() {
                return;
            }
            let Some(id) = connection.quinn.streams().accept(Dir::Uni) else { return };
            self.read_side_stream(key, id, cx);
        }
    }

    /// Reads from a stream in one direction, in whatever order it comes: what is left in QUIC's books would
    /// not be in ours.
    pub(super) fn read_side_stream(&mut self, key: Key, id: StreamId, cx: &Context<'_>) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let Some(http3) = &mut connection.http3 else { return };
        let mut stream = connection.quinn.recv_stream(id);
        let Ok(mut chunks) = stream.read(false) else { return };
        let heard = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => match http3.side.take(id.index(), chunk.offset, &chunk.bytes) {
                    Ok(Want::More) => {}
                    other => break other,
                },
                Ok(None) | Err(ReadError::Reset(_)) => {
                    break http3.side.end(id.index()).map(|()| Want::More);
                }
                Err(ReadError::Blocked) => break Ok(Want::More),
            }
        };
        _ = chunks.finalize();
        match heard {
            Ok(Want::More) => {}
            Ok(Want::Nothing) => {
                connection.stop(id, VarInt::from_u32(http3::code::STREAM_CREATION_ERROR));
            }
            Err(code) => self.fail(key, code, cx),
        }
    }

    /// Closes a connection for what its client did.
    fn fail(&mut self, key: Key, code: u32, cx: &Context<'_>) {
        let at = self.instant(cx.now);
        let Some(connection) = self.connections.get_mut(key) else { return };
        if code == http3::code::EXCESSIVE_LOAD {
            cx.counters.add(cx.counters.greedy, 1);
        }
        connection.close(VarInt::from_u32(code), "", at);
    }

    /// The client has given up a stream. DNS over QUIC knows no bound of that.
    pub(super) fn given_up(&mut self, key: Key, cx: &Context<'_>) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let Some(http3) = &mut connection.http3 else { return };
        if let Err(code) = http3.side.idled(1) {
            self.fail(key, code, cx);
        }
    }

    /// Reads a stream of which this is known.
    pub(super) fn read_request(
        &mut self,
        key: Key,
        id: StreamId,
        mut request: Box<Request>,
        deadline: Option<u64>,
        cx: &mut Context<'_>,
    ) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let mut counted = Counted::default();
        match connection.hear_request(id, &mut request, cx.now, &mut counted) {
            Heard::Progress(Progress::More)
                if connection.kept() + request.cost() > HTTP3_KEPT_MAX =>
            {
                // The client may ask it again: nobody has looked at it.
                connection.abandon(id, VarInt::from_u32(http3::code::REQUEST_REJECTED));
            }
            Heard::Progress(Progress::More) => {
                connection.keep_partial(id, Kept::Request(request), deadline, cx.now);
            }
            Heard::Progress(Progress::Query(message)) => self.ask_request(key, id, &message, cx),
            Heard::Progress(Progress::Refused(response)) => {
                self.respond_http(key, id, &response, counted, cx);
                self.drop_rest(key, id, Rest::default(), deadline, cx);
            }
            Heard::Reset => {
                connection.abandon(id, code::REQUEST_CANCELLED);
                self.given_up(key, cx);
            }
            Heard::Fault(Fault::Stream(code)) => {
                connection.abandon(id, VarInt::from_u32(code));
                self.given_up(key, cx);
            }
            Heard::Fault(Fault::Connection(code)) => self.fail(key, code, cx),
        }
    }

    /// Drops what comes behind a response, within bounds.
    pub(super) fn drop_rest(
        &mut self,
        key: Key,
        id: StreamId,
        mut rest: Rest,
        deadline: Option<u64>,
        cx: &Context<'_>,
    ) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if !connection.drop_rest(id, &mut rest) {
            return;
        }
        let kept = Kept::Rest(rest);
        let is_much = connection.kept() + kept.cost() > HTTP3_KEPT_MAX;
        if is_much || rest.octets > HTTP3_DROPPED_MAX {
            connection.stop(id, code::NO_ERROR);
        } else {
            connection.keep_partial(id, kept, deadline, cx.now);
        }
    }

    /// Answers the query of a request.
    fn ask_request(&mut self, key: Key, id: StreamId, message: &[u8], cx: &mut Context<'_>) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let Some(site) = self.sites.get(connection.site) else { return };
        let Ok(stream) = u32::try_from(id.index()) else {
            return self.fail(key, http3::code::INTERNAL_ERROR, cx);
        };
        let client = Client {
            peer: connection.peer,
            local: connection.local,
            transport: Transport::Https3,
            listener: site.listener.listener,
            connection: key.bits(),
            stream,
            old_tls: false,
        };
        connection.has_asked = true;
        connection.refresh(cx.now);
        let mut answer = std::mem::take(&mut self.answer);
        match cx.worker.receive(cx.now, client, message, &mut answer) {
            Verdict::Answered => self.answer_request(key, id, Some(&answer), cx),
            Verdict::Streaming => {
                // One message is all that a request gets.
                drop(cx.worker.take_stream());
                self.answer_request(key, id, None, cx);
            }
            Verdict::Pending => {
                connection.in_flight += 1;
                site.counts.begin(1);
            }
            Verdict::Silent => self.answer_request(key, id, None, cx),
        }
        self.answer = answer;
    }

    /// Responds with a message, or says that there is none.
    pub(super) fn answer_request(
        &mut self,
        key: Key,
        id: StreamId,
        message: Option<&[u8]>,
        cx: &mut Context<'_>,
    ) {
        let mut counted = Counted::default();
        let response = http3::answer(message, cx.now, &mut counted);
        self.respond_http(key, id, &response, counted, cx);
    }

    fn respond_http(
        &mut self,
        key: Key,
        id: StreamId,
        response: &http3::Response,
        counted: Counted,
        cx: &mut Context<'_>,
    ) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.has_asked = true;
        connection.refresh(cx.now);
        if let Some(http3) = &mut connection.http3 {
            http3.side.responded();
        }
        let responses = self
            .sites
            .get(connection.site)
            .and_then(|site| site.listener.http.as_ref().and_then(|http| http.responses));
        if let Some(responses) = responses {
            for (status, count) in counted.each() {
                cx.worker.cells().add(responses.of(status), count);
            }
        }
        self.framed.clear();
        http3::write(response, &mut self.framed);
        self.write_framed(key, id, cx);
    }
}
