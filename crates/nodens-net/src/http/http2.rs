//! HTTP/2 (RFC 9113) by `h2`, which is polled whenever octets have arrived or a response is ready.

mod held;

use super::octets::Octets;
use super::requests::{Begun, Response};
use super::{Counted, Query, Rules};
use crate::limits::{
    HTTP_HEAD_LEN_MAX, HTTP2_COST, HTTP2_DATA_BUDGET, HTTP2_REQUEST_COST, HTTP2_RESETS_MAX,
    HTTP2_STREAM_WINDOW,
};
use bytes::Bytes;
use h2::server::{Builder, Connection, Handshake, SendResponse};
use h2::{Reason, RecvStream};
use held::{Held, Sent};
use http::Request;
use nodens_core::Now;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// What becomes of new requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asks {
    /// They are taken.
    Taken,
    /// They stay where they are.
    Wait,
    /// The client may ask elsewhere: nobody has looked at them.
    Refused,
}

/// The session of one connection.
pub(super) struct Session {
    rules: Rules,
    octets: Octets,
    state: State,
    /// Requests that are not whole.
    arriving: Vec<Arriving>,
    /// Queries that nobody has asked for yet.
    whole: VecDeque<Query>,
    /// Requests whose query is being answered, by number.
    asked: Vec<(u32, SendResponse<Bytes>)>,
    /// Responses that the client has no room for.
    held: Vec<Held>,
}

enum State {
    Greeting(Handshake<Octets, Bytes>),
    Open(Connection<Octets, Bytes>),
    Over,
}

/// A request whose body comes.
struct Arriving {
    body: RecvStream,
    respond: SendResponse<Bytes>,
    content: Vec<u8>,
    deadline: u64,
}

/// What has come of a body.
enum Part {
    More,
    Whole,
    TooLong,
    /// The client has given it up.
    Gone,
}

fn poll<T>(act: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
    act(&mut Context::from_waker(Waker::noop()))
}

impl Session {
    pub(super) fn new(rules: Rules) -> Self {
        let octets = Octets::default();
        let mut builder = Builder::new();
        builder
            .initial_window_size(HTTP2_STREAM_WINDOW)
            .max_header_list_size(HTTP_HEAD_LEN_MAX as u32)
            .max_concurrent_streams(rules.streams)
            .max_pending_accept_reset_streams(HTTP2_RESETS_MAX)
            .max_local_error_reset_streams(Some(HTTP2_RESETS_MAX))
            .data_frame_budget(HTTP2_DATA_BUDGET);
        Self {
            rules,
            state: State::Greeting(builder.handshake(octets.clone())),
            octets,
            arriving: Vec::new(),
            whole: VecDeque::new(),
            asked: Vec::new(),
            held: Vec::new(),
        }
    }

    pub(super) fn receive(&mut self, octets: &[u8]) {
        if !self.is_over() {
            self.octets.push(octets);
        }
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// The next query that is whole.
    pub(super) fn next(&mut self, asks: Asks, now: Now, counted: &mut Counted) -> Option<Query> {
        if self.whole.is_empty() {
            while let Some((request, mut respond)) = self.turn(asks) {
                if asks == Asks::Refused {
                    respond.send_reset(Reason::REFUSED_STREAM);
                } else {
                    self.begin(request, respond, now, counted);
                }
            }
            self.read_bodies(now, counted);
        }
        if asks == Asks::Wait { None } else { self.whole.pop_front() }
    }

    /// Lets `h2` read and write; gives the next request, if they are taken.
    fn turn(&mut self, asks: Asks) -> Option<(Request<RecvStream>, SendResponse<Bytes>)> {
        if let State::Greeting(handshake) = &mut self.state {
            match poll(|cx| Pin::new(handshake).poll(cx)) {
                Poll::Pending => return None,
                Poll::Ready(Ok(connection)) => self.state = State::Open(connection),
                Poll::Ready(Err(_)) => self.state = State::Over,
            }
        }
        let State::Open(connection) = &mut self.state else { return None };
        let polled = match asks {
            Asks::Taken | Asks::Refused => poll(|cx| connection.poll_accept(cx)),
            Asks::Wait => poll(|cx| connection.poll_closed(cx)).map(|_| None),
        };
        match polled {
            Poll::Pending => None,
            Poll::Ready(Some(Ok(request))) => Some(request),
            Poll::Ready(Some(Err(_)) | None) => {
                // What it had to say of that is in the octets to be sent.
                self.state = State::Over;
                self.arriving.clear();
                self.whole.clear();
                self.asked.clear();
                self.held.clear();
                None
            }
        }
    }

    fn begin(
        &mut self,
        request: Request<RecvStream>,
        respond: SendResponse<Bytes>,
        now: Now,
        counted: &mut Counted,
    ) {
        let (head, body) = request.into_parts();
        match self.rules.dialect.begin(&head, now, counted) {
            Begun::Query(message) => self.ask(respond, message),
            Begun::Refused(response) => self.respond(respond, response, now),
            Begun::Body => {
                let deadline = now.mono_ns.saturating_add(self.rules.read);
                self.arriving.push(Arriving { body, respond, content: Vec::new(), deadline });
            }
        }
    }

    fn ask(&mut self, respond: SendResponse<Bytes>, message: Vec<u8>) {
        let stream = respond.stream_id().as_u32();
        self.asked.push((stream, respond));
        self.whole.push_back(Query { stream, message });
    }

    fn read_bodies(&mut self, now: Now, counted: &mut Counted) {
        let most = self.rules.dialect.len_max();
        for mut arriving in std::mem::take(&mut self.arriving) {
            let message = match arriving.read(most) {
                Part::More => {
                    self.arriving.push(arriving);
                    continue;
                }
                Part::Gone => continue,
                Part::Whole => self.rules.dialect.query(arriving.content, now, counted),
                Part::TooLong => Err(self.rules.dialect.too_long(now, counted)),
            };
            match message {
                Ok(message) => self.ask(arriving.respond, message),
                Err(response) => self.respond(arriving.respond, response, now),
            }
        }
    }

    /// Responds to a request, unless its client has given it up.
    pub(super) fn answer(
        &mut self,
        stream: u32,
        message: Option<&[u8]>,
        now: Now,
        counted: &mut Counted,
    ) {
        let Some(place) = self.asked.iter().position(|(own, _)| *own == stream) else { return };
        let (_, respond) = self.asked.swap_remove(place);
        let response = self.rules.dialect.answer(message, now, counted);
        self.respond(respond, response, now);
    }

    fn respond(&mut self, mut respond: SendResponse<Bytes>, response: Box<Response>, now: Now) {
        let Response { head, body, trailers } = *response;
        let is_all = body.is_empty() && trailers.is_none();
        // An error means that the client has given it up.
        let Ok(stream) = respond.send_response(head, is_all) else { return };
        if !is_all {
            let deadline = now.mono_ns.saturating_add(self.rules.write);
            let mut held = Held::new(stream, body, trailers, deadline);
            if held.send() == Sent::InPart {
                self.held.push(held);
            }
        }
    }

    pub(super) fn take_output(&mut self) -> Vec<u8> {
        // First what the client has made room for is known, then what was given to it is written.
        _ = self.turn(Asks::Wait);
        self.held.retain_mut(|held| held.send() == Sent::InPart);
        _ = self.turn(Asks::Wait);
        self.octets.take_output()
    }

    pub(super) fn leave(&mut self) {
        if let State::Open(connection) = &mut self.state {
            connection.graceful_shutdown();
        }
    }

    pub(super) fn say_goodbye(&mut self) {
        if let State::Open(connection) = &mut self.state {
            connection.abrupt_shutdown(Reason::NO_ERROR);
        }
    }

    pub(super) fn held(&self) -> usize {
        self.held.iter().map(Held::len).sum()
    }

    pub(super) fn cost(&self) -> usize {
        let requests = self.arriving.len() + self.asked.len() + self.held.len();
        let arriving: usize = self.arriving.iter().map(|own| own.content.capacity()).sum();
        let whole: usize = self.whole.iter().map(|query| query.message.capacity()).sum();
        let own = HTTP2_COST + requests * HTTP2_REQUEST_COST;
        own + arriving + whole + self.held() + self.octets.cost()
    }

    pub(super) fn deadline(&self) -> Option<u64> {
        let arriving = self.arriving.iter().map(|own| own.deadline);
        arriving.chain(self.held.iter().map(Held::deadline)).min()
    }

    /// Resets what was not whole, or not taken, in time; says whether there was any.
    pub(super) fn expire(&mut self, now: Now) -> bool {
        let before = self.arriving.len() + self.held.len();
        self.arriving.retain_mut(|own| {
            let is_late = own.deadline <= now.mono_ns;
            if is_late {
                own.respond.send_reset(Reason::CANCEL);
            }
            !is_late
        });
        self.held.retain_mut(|own| {
            let is_late = own.deadline() <= now.mono_ns;
            if is_late {
                own.reset();
            }
            !is_late
        });
        self.arriving.len() + self.held.len() < before
    }
}

impl Arriving {
    /// Takes what has come of the body.
    fn read(&mut self, most: usize) -> Part {
        loop {
            match poll(|cx| self.body.poll_data(cx)) {
                Poll::Pending => return Part::More,
                Poll::Ready(None) => return Part::Whole,
                Poll::Ready(Some(Err(_))) => return Part::Gone,
                Poll::Ready(Some(Ok(data))) => {
                    if data.len() > most - self.content.len() {
                        return Part::TooLong;
                    }
                    self.content.extend_from_slice(&data);
                    // An error means that there is no such window any more.
                    _ = self.body.flow_control().release_capacity(data.len());
                }
            }
        }
    }
}
