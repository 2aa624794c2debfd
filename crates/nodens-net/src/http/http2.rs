//! HTTP/2 (RFC 9113) by `h2`, which is polled whenever octets have arrived or a response is ready.

mod held;
#[cfg(test)]
mod tests;

use super::octets::Octets;
use super::requests::{Begun, Response};
use super::{Counted, Query, Rules};
use crate::limits::{
    HTTP_FIELDS_MAX, HTTP_HEAD_LEN_MAX, HTTP2_DATA_BUDGET, HTTP2_KEPT_MAX, HTTP2_READ_LEN,
    HTTP2_REQUEST_COST, HTTP2_RESETS_MAX, HTTP2_STREAM_WINDOW,
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
    /// Octets of them.
    held_len: usize,
    /// Octets of requests that are not answered.
    kept: usize,
    /// No more requests are taken.
    is_leaving: bool,
    /// Requests that the client gave up, less those it did not.
    resets: usize,
    /// A response has gone to `h2` as a whole since somebody asked.
    has_responded: bool,
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
            held_len: 0,
            kept: 0,
            is_leaving: false,
            resets: 0,
            has_responded: false,
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

    /// Looks at what has arrived. No request stays with `h2`: it would keep all fields of each, which are a
    /// hundred times what the client sent for them, and nobody would know.
    ///
    /// Says whether there was anything, so that there may be more to write now.
    pub(super) fn work(&mut self, now: Now, counted: &mut Counted) -> bool {
        let has_news = self.octets.has_input();
        loop {
            self.octets.allow(HTTP2_READ_LEN);
            while let Some((request, respond)) = self.accept() {
                self.begin(request, respond, now, counted);
            }
            let is_stuck = self.octets.allowed() == HTTP2_READ_LEN;
            if self.is_over() || is_stuck || !self.octets.has_input() {
                break;
            }
        }
        if has_news && !self.is_over() {
            self.read_bodies(now, counted);
            self.send_held();
        }
        if self.resets > HTTP2_RESETS_MAX
            && let State::Open(connection) = &mut self.state
        {
            // `h2` counts only requests that nobody has looked at.
            connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
        }
        has_news
    }

    /// The next query that is whole.
    pub(super) fn next(&mut self, now: Now, counted: &mut Counted) -> Option<Query> {
        if self.whole.is_empty() && self.octets.has_input() {
            self.work(now, counted);
        }
        let query = self.whole.pop_front()?;
        self.kept = self.kept.saturating_sub(query.message.capacity());
        Some(query)
    }

    /// Lets `h2` read and write; gives the next request.
    fn accept(&mut self) -> Option<(Request<RecvStream>, SendResponse<Bytes>)> {
        if let State::Greeting(handshake) = &mut self.state {
            match poll(|cx| Pin::new(handshake).poll(cx)) {
                Poll::Pending => return None,
                Poll::Ready(Ok(connection)) => self.state = State::Open(connection),
                Poll::Ready(Err(_)) => self.state = State::Over,
            }
        }
        let State::Open(connection) = &mut self.state else { return None };
        match poll(|cx| connection.poll_accept(cx)) {
            Poll::Pending => None,
            Poll::Ready(Some(Ok(request))) => Some(request),
            Poll::Ready(Some(Err(_)) | None) => {
                // What it had to say of that is in the octets to be sent.
                self.state = State::Over;
                self.arriving.clear();
                self.whole.clear();
                self.asked.clear();
                self.held.clear();
                (self.held_len, self.kept) = (0, 0);
                None
            }
        }
    }

    /// Whether the client has to take responses before it may ask more. What it asks all the same it may
    /// ask again, here or elsewhere: nobody has looked at it.
    fn is_crowded(&self) -> bool {
        self.held_len + self.kept >= HTTP2_KEPT_MAX
    }

    fn begin(
        &mut self,
        request: Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
        now: Now,
        counted: &mut Counted,
    ) {
        if self.is_leaving || self.is_crowded() {
            respond.send_reset(Reason::REFUSED_STREAM);
            return;
        }
        let (head, body) = request.into_parts();
        if head.headers.len() > HTTP_FIELDS_MAX {
            return self.respond(respond, Response::too_many_fields(), now);
        }
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
        self.kept += message.capacity();
        self.whole.push_back(Query { stream, message });
    }

    fn read_bodies(&mut self, now: Now, counted: &mut Counted) {
        let most = self.rules.dialect.len_max();
        for mut arriving in std::mem::take(&mut self.arriving) {
            self.kept = self.kept.saturating_sub(arriving.content.capacity());
            let message = match arriving.read(most) {
                Part::More => {
                    self.kept += arriving.content.capacity();
                    self.arriving.push(arriving);
                    continue;
                }
                Part::Gone => {
                    self.resets += 1;
                    continue;
                }
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
        let Ok(stream) = respond.send_response(head, is_all) else {
            self.resets += 1;
            return;
        };
        self.resets = self.resets.saturating_sub(1);
        if is_all {
            self.has_responded = true;
            return;
        }
        let deadline = now.mono_ns.saturating_add(self.rules.write);
        let mut held = Held::new(stream, body, trailers, deadline);
        if held.send() == Sent::InPart {
            self.held_len += held.len();
            self.held.push(held);
        } else {
            self.has_responded = true;
        }
    }

    /// Gives away what the client has made room for.
    fn send_held(&mut self) {
        let before = self.held.len();
        self.held.retain_mut(|held| held.send() == Sent::InPart);
        self.has_responded |= self.held.len() < before;
        self.held_len = self.held.iter().map(Held::len).sum();
    }

    pub(super) fn take_output(&mut self, now: Now, counted: &mut Counted) -> Vec<u8> {
        if self.work(now, counted) {
            self.work(now, counted);
        }
        self.octets.take_output()
    }

    pub(super) fn has_responded(&mut self) -> bool {
        std::mem::take(&mut self.has_responded)
    }

    /// Takes no more requests. Those whose body is on its way are such: it would not be read.
    pub(super) fn leave(&mut self) {
        self.refuse_arriving();
        if let State::Open(connection) = &mut self.state {
            connection.graceful_shutdown();
        }
    }

    fn refuse_arriving(&mut self) {
        self.is_leaving = true;
        for mut arriving in self.arriving.drain(..) {
            self.kept = self.kept.saturating_sub(arriving.content.capacity());
            arriving.respond.send_reset(Reason::REFUSED_STREAM);
        }
    }

    /// Refuses the queries that nobody has asked for yet.
    pub(super) fn refuse(&mut self) {
        for query in std::mem::take(&mut self.whole) {
            self.kept = self.kept.saturating_sub(query.message.capacity());
            if let Some(place) = self.asked.iter().position(|(own, _)| *own == query.stream) {
                let (_, mut respond) = self.asked.swap_remove(place);
                respond.send_reset(Reason::REFUSED_STREAM);
            }
        }
    }

    /// Says which requests were looked at, and that nothing follows.
    pub(super) fn say_goodbye(&mut self, now: Now, counted: &mut Counted) {
        self.refuse_arriving();
        // What is not written yet would not be.
        self.work(now, counted);
        if let State::Open(connection) = &mut self.state {
            connection.abrupt_shutdown(Reason::NO_ERROR);
        }
    }

    pub(super) fn held(&self) -> usize {
        self.held_len
    }

    /// Octets of memory beside what every connection of HTTP/2 has.
    pub(super) fn cost(&self) -> usize {
        let requests = self.arriving.len() + self.asked.len() + self.held.len();
        requests * HTTP2_REQUEST_COST + self.kept + self.held_len + self.octets.cost()
    }

    /// The earliest; those behind it in either list are later.
    pub(super) fn deadline(&self) -> Option<u64> {
        let arriving = self.arriving.first().map(|own| own.deadline);
        arriving.into_iter().chain(self.held.first().map(Held::deadline)).min()
    }

    /// Resets what was not whole, or not taken, in time; says whether there was any. Where octets of the
    /// client wait because nobody reads them, requests have more time.
    pub(super) fn expire(&mut self, is_read: bool, now: Now) -> bool {
        if !is_read {
            let deadline = now.mono_ns.saturating_add(self.rules.read);
            self.arriving.iter_mut().for_each(|own| own.deadline = deadline);
        }
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
        self.kept = self.arriving.iter().map(|own| own.content.capacity()).sum::<usize>()
            + self.whole.iter().map(|query| query.message.capacity()).sum::<usize>();
        self.held_len = self.held.iter().map(Held::len).sum();
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
