//! HTTP/1.1 (RFC 9112): one request after the other, each answered before the next is looked at.

mod body;
mod head;

use super::doh::{self, Place};
use super::{Counted, Query};
use crate::limits::HTTP_HEAD_LEN_MAX;
use body::{Body, Part};
use head::{Head, Malformed};
use http::StatusCode;
use nodens_core::Now;
use nodens_core::config::HttpStatus;

#[cfg(test)]
mod tests;

/// The session of one connection.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// What is not looked at yet.
    input: Vec<u8>,
    output: Vec<u8>,
    state: State,
    /// The number of the request that is looked at.
    number: u32,
    /// How to respond to it.
    reply: Reply,
    /// Nothing is read behind what was responded to last.
    is_over: bool,
    /// A response has been made since somebody asked.
    has_responded: bool,
}

/// How a response looks, beside what it says.
#[derive(Clone, Copy, Debug, Default)]
struct Reply {
    /// The client speaks HTTP/1.0.
    is_old: bool,
    /// The client wants no body.
    is_bare: bool,
    /// The connection closes after it.
    closes: bool,
}

#[derive(Debug, Default)]
enum State {
    /// The next request begins, or has begun.
    #[default]
    Head,
    /// Its body comes.
    Body(Result<Place, HttpStatus>, Body),
    /// It is being answered.
    Asked,
}

impl Session {
    pub(super) fn receive(&mut self, octets: &[u8]) {
        if !self.is_over {
            self.input.extend_from_slice(octets);
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    pub(super) fn has_responded(&mut self) -> bool {
        std::mem::take(&mut self.has_responded)
    }

    pub(super) fn is_asked(&self) -> bool {
        matches!(self.state, State::Asked)
    }

    pub(super) fn has_begun(&self) -> bool {
        matches!(self.state, State::Body(..))
            || (matches!(self.state, State::Head) && !self.input.is_empty())
    }

    pub(super) fn cost(&self) -> usize {
        let body = match &self.state {
            State::Body(_, body) => body.cost(),
            State::Head | State::Asked => 0,
        };
        self.input.capacity() + self.output.capacity() + body
    }

    pub(super) fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    pub(super) fn leave(&mut self) {
        self.reply.closes = true;
    }

    /// The next query; requests without one are responded to.
    pub(super) fn next(&mut self, now: Now, counted: &mut Counted) -> Option<Query> {
        while !self.is_over {
            match &mut self.state {
                State::Asked => return None,
                State::Head => self.take_head(now)?,
                State::Body(_, body) => {
                    let (part, taken) = body.take(&self.input);
                    self.consume(taken);
                    match part {
                        Part::More => return None,
                        Part::TooLong => self.refuse_long(now, counted),
                        Part::Malformed => self.give_up(StatusCode::BAD_REQUEST, now),
                        Part::Whole(message) => {
                            if let Some(query) = self.take_request(message, now, counted) {
                                return Some(query);
                            }
                        }
                    }
                }
            }
        }
        None
    }

    /// Takes the head of a request; none if it has not arrived whole.
    fn take_head(&mut self, now: Now) -> Option<()> {
        match head::read(&self.input) {
            Ok(Some((head, len))) => {
                self.consume(len);
                self.begin(head);
            }
            Ok(None) if self.input.len() > HTTP_HEAD_LEN_MAX => {
                self.give_up(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, now);
            }
            Ok(None) => return None,
            Err(Malformed(status)) => self.give_up(status, now),
        }
        Some(())
    }

    fn begin(&mut self, head: Head) {
        self.number = self.number.wrapping_add(1);
        self.reply = Reply {
            is_old: head.is_old,
            is_bare: head.method == http::Method::HEAD,
            closes: head.closes,
        };
        let place = doh::place(&head.method, &head.target);
        let body = Body::new(head.length);
        if head.awaits_consent && body.is_awaited() {
            self.output.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        self.state = State::Body(place, body);
    }

    /// A request is whole: its query, if there is one.
    fn take_request(&mut self, body: Vec<u8>, now: Now, counted: &mut Counted) -> Option<Query> {
        let State::Body(place, _) = std::mem::replace(&mut self.state, State::Asked) else {
            return None;
        };
        let message = place.map(|place| match place {
            Place::Target(message) => message,
            Place::Body => body,
        });
        match message {
            Ok(message) if doh::is_query(&message) => {
                return Some(Query { stream: self.number, message });
            }
            Ok(_) => self.respond(HttpStatus::BadRequest, None, now, counted),
            Err(status) => self.respond(status, None, now, counted),
        }
        None
    }

    /// Responds to the request that is being answered, if it is that one.
    pub(super) fn answer(
        &mut self,
        number: u32,
        message: Option<&[u8]>,
        now: Now,
        counted: &mut Counted,
    ) {
        if self.is_asked() && number == self.number {
            let status = if message.is_some() { HttpStatus::Ok } else { HttpStatus::NoResponse };
            self.respond(status, message, now, counted);
        }
    }

    /// A body that is longer than any query is not heard out.
    fn refuse_long(&mut self, now: Now, counted: &mut Counted) {
        let State::Body(place, _) = &self.state else { return };
        let status = place.as_ref().err().copied().unwrap_or(HttpStatus::BadRequest);
        self.reply.closes = true;
        self.respond(status, None, now, counted);
    }

    fn respond(
        &mut self,
        status: HttpStatus,
        message: Option<&[u8]>,
        now: Now,
        counted: &mut Counted,
    ) {
        counted.add(status);
        let body = message.unwrap_or(doh::text(status).as_bytes());
        let code = StatusCode::from_u16(status.code()).unwrap_or_default();
        let fields = doh::fields(status, body, now);
        self.start(code);
        for (name, value) in &fields {
            self.field(name.as_str(), value.as_bytes());
        }
        self.finish(body);
    }

    /// Responds to what is no HTTP/1.1, and ends.
    fn give_up(&mut self, status: StatusCode, now: Now) {
        self.reply = Reply { closes: true, ..Reply::default() };
        let body = format!("{status}");
        self.start(status);
        self.field("content-type", b"text/plain; charset=utf-8");
        self.field("content-length", body.len().to_string().as_bytes());
        self.field("date", doh::date(now).as_bytes());
        self.finish(body.as_bytes());
    }

    fn start(&mut self, status: StatusCode) {
        let version = if self.reply.is_old { "HTTP/1.0" } else { "HTTP/1.1" };
        let reason = status.canonical_reason().unwrap_or_default();
        let line = format!("{version} {} {reason}\r\n", status.as_str());
        self.output.extend_from_slice(line.as_bytes());
    }

    fn field(&mut self, name: &str, value: &[u8]) {
        self.output.extend_from_slice(name.as_bytes());
        self.output.extend_from_slice(b": ");
        self.output.extend_from_slice(value);
        self.output.extend_from_slice(b"\r\n");
    }

    fn finish(&mut self, body: &[u8]) {
        if self.reply.closes {
            self.field("connection", b"close");
            self.is_over = true;
            self.input = Vec::new();
        } else if self.reply.is_old {
            self.field("connection", b"keep-alive");
        }
        self.output.extend_from_slice(b"\r\n");
        if !self.reply.is_bare {
            self.output.extend_from_slice(body);
        }
        self.state = State::Head;
        self.has_responded = true;
    }

    /// Drops what was looked at.
    fn consume(&mut self, len: usize) {
        if len >= self.input.len() {
            self.input = Vec::new();
        } else {
            self.input.drain(..len);
        }
    }
}
