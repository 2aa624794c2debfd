//! HTTP/2 of a connection to an upstream: queries in, octets out, and the other way round.
//!
//! The upstream may send whatever it likes. What it makes this side keep is bounded by windows, by the fields of
//! each response, and by the octets it may send until a response is whole.

mod reply;
mod speech;
#[cfg(test)]
mod tests;

use super::octets::Octets;
use crate::limits::{
    HTTP_HEAD_LEN_MAX, HTTP2_DATA_BUDGET, HTTP2_RESETS_MAX, UPSTREAM_CONNECTION_WINDOW,
    UPSTREAM_SPREAD, UPSTREAM_STREAM_WINDOW, UPSTREAM_STREAMS, UPSTREAM_UNANSWERED_MAX,
};
use bytes::Bytes;
use h2::client::{Builder, Connection, SendRequest};
use reply::Reply;
pub(crate) use speech::Speech;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// The head of a frame: length, kind, flags, stream (RFC 9113 section 4.1).
const FRAME_HEAD: usize = 9;
/// The kind of the frame that a server begins with (section 3.4), and the flag that makes it an answer to one.
const SETTINGS: u8 = 4;
const ACK: u8 = 1;

/// The HTTP of one connection.
pub(crate) struct Client {
    speech: Speech,
    octets: Octets,
    state: State,
    greeting: Greeting,
    /// Queries that are not answered, by the numbers of their senders.
    asked: Vec<(u16, Reply)>,
    /// Queries that leave once the upstream has said how many it takes, and takes another.
    held: VecDeque<Held>,
    done: VecDeque<Done>,
    /// Octets that have come since a response was whole.
    unanswered: usize,
    /// Requests that may be under way, as the upstream says; none if it takes no more.
    room: Option<usize>,
}

enum State {
    Open(Box<(SendRequest<Bytes>, Connection<Octets, Bytes>)>),
    /// And why.
    Over(String),
}

/// What the upstream has begun with.
enum Greeting {
    /// Nothing that tells.
    Unknown(Vec<u8>),
    /// The frame that HTTP/2 begins with.
    Settings,
}

/// A query that has not left.
struct Held {
    id: u16,
    message: Vec<u8>,
    in_target: bool,
}

/// What has become of a query.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Done {
    /// Its number.
    pub(crate) id: u16,
    pub(crate) result: Result<Vec<u8>, Failure>,
}

/// Why a query has no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The upstream has not looked at it: it may be asked again on another connection.
    Unseen(String),
    /// The upstream's response is no DNS message.
    Refused(String),
}

fn poll<T>(act: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
    act(&mut Context::from_waker(Waker::noop()))
}

impl Client {
    /// A connection on which nothing has been said.
    pub(crate) fn new(speech: Speech) -> Self {
        let octets = Octets::default();
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .initial_window_size(UPSTREAM_STREAM_WINDOW)
            .initial_connection_window_size(UPSTREAM_CONNECTION_WINDOW)
            .max_header_list_size(HTTP_HEAD_LEN_MAX as u32)
            .initial_max_send_streams(UPSTREAM_STREAMS)
            .max_local_error_reset_streams(Some(HTTP2_RESETS_MAX))
            .data_frame_budget(HTTP2_DATA_BUDGET);
        // All it does is to write, for which there is always room.
        let begun = poll(|cx| pin!(builder.handshake(octets.clone())).poll(cx));
        let state = match begun {
            Poll::Ready(Ok(open)) => State::Open(Box::new(open)),
            Poll::Ready(Err(error)) => State::Over(error.to_string()),
            Poll::Pending => State::Over("no room for octets".to_owned()),
        };
        Self {
            speech,
            octets,
            state,
            greeting: Greeting::Unknown(Vec::new()),
            asked: Vec::new(),
            held: VecDeque::new(),
            done: VecDeque::new(),
            unanswered: 0,
            room: Some(UPSTREAM_STREAMS),
        }
    }

    /// Whether the upstream has begun to speak HTTP/2.
    pub(crate) fn is_greeted(&self) -> bool {
        matches!(self.greeting, Greeting::Settings)
    }

    /// Why nothing more comes of it, if so.
    pub(crate) fn end(&self) -> Option<&str> {
        match &self.state {
            State::Open(_) => None,
            State::Over(why) => Some(why),
        }
    }

    /// Whether it takes another query now.
    pub(crate) fn has_room(&self) -> bool {
        self.room.is_some_and(|most| self.asked.len() + self.held.len() < most)
    }

    /// Whether it takes no query any more, whatever is answered.
    pub(crate) fn is_leaving(&self) -> bool {
        self.room.is_none()
    }

    /// Requests that may be under way at a time, as long as it takes any.
    pub(crate) fn streams(&self) -> Option<usize> {
        self.room
    }

    /// Asks; `id` names the query, and `in_target` says whether it is asked with GET. False if it takes no more
    /// queries.
    pub(crate) fn ask(&mut self, id: u16, message: &[u8], in_target: bool) -> bool {
        let is_early = !self.is_greeted() && self.asked.len() >= UPSTREAM_SPREAD;
        if !is_early && self.held.is_empty() {
            return self.send(id, message, in_target);
        }
        let takes_more = matches!(self.state, State::Open(_)) && self.has_room();
        if takes_more {
            self.held.push_back(Held { id, message: message.to_vec(), in_target });
        }
        takes_more
    }

    fn send(&mut self, id: u16, message: &[u8], in_target: bool) -> bool {
        let State::Open(open) = &mut self.state else { return false };
        let (requests, _) = &mut **open;
        if !matches!(poll(|cx| requests.poll_ready(cx)), Poll::Ready(Ok(()))) {
            return false;
        }
        let Some((head, body)) = self.speech.request(message, in_target) else { return false };
        let is_all = body.is_empty();
        let Ok((response, mut sending)) = requests.send_request(head, is_all) else { return false };
        if !is_all && sending.send_data(body, true).is_err() {
            return false;
        }
        self.asked.push((id, Reply::new(response, self.speech.dialect(), message)));
        if !is_all {
            // Knot Resolver refuses a request that begins before the one in front of it has ended.
            self.drive();
        }
        true
    }

    /// Takes octets that have arrived.
    pub(crate) fn receive(&mut self, octets: &[u8]) {
        if matches!(self.state, State::Over(_)) {
            return;
        }
        self.greet(octets);
        self.unanswered = self.unanswered.saturating_add(octets.len());
        self.octets.push(octets);
        self.octets.allow(octets.len());
        self.work();
        if self.unanswered > UPSTREAM_UNANSWERED_MAX {
            self.close(format!("{} octets without a response", self.unanswered));
        }
    }

    /// Whoever begins otherwise speaks something else, and is told apart before anything is made of it.
    fn greet(&mut self, octets: &[u8]) {
        let Greeting::Unknown(begun) = &mut self.greeting else { return };
        begun.extend(octets.iter().take(FRAME_HEAD - begun.len().min(FRAME_HEAD)));
        let first = |place: usize| begun.get(place).copied();
        let is_other = first(3).is_some_and(|kind| kind != SETTINGS)
            || first(4).is_some_and(|flags| flags & ACK != 0)
            || first(0).is_some_and(|length| length != 0);
        if is_other {
            self.close("it does not speak HTTP/2".to_owned());
        } else if begun.len() == FRAME_HEAD {
            self.greeting = Greeting::Settings;
        }
    }

    /// The next query whose end is known.
    pub(crate) fn next(&mut self) -> Option<Done> {
        self.done.pop_front()
    }

    /// Nobody waits for this query any more: the upstream is told.
    pub(crate) fn cancel(&mut self, id: u16) {
        self.asked.retain(|(own, _)| *own != id);
        self.held.retain(|held| held.id != id);
        // Its reset leaves before the request that takes its place.
        self.drive();
        self.look();
    }

    /// The octets that are to be sent now.
    pub(crate) fn take_output(&mut self) -> Vec<u8> {
        self.work();
        self.octets.take_output()
    }

    fn close(&mut self, why: String) {
        self.room = None;
        self.asked.clear();
        self.held.clear();
        self.state = State::Over(why);
    }

    /// Lets `h2` read and write, and looks at what has come of the queries.
    fn work(&mut self) {
        self.drive();
        let mut asked = std::mem::take(&mut self.asked);
        let before = self.done.len();
        asked.retain_mut(|(id, reply)| match reply.advance() {
            None => true,
            Some(result) => {
                self.unanswered = 0;
                self.done.push_back(Done { id: *id, result });
                false
            }
        });
        self.asked = asked;
        if self.done.len() > before {
            // Windows that have opened again, and requests that waited for others to end.
            self.drive();
        }
        self.look();
        self.send_held();
    }

    /// Sends of what was held what the upstream takes now.
    fn send_held(&mut self) {
        while self.is_greeted() && self.room.is_some_and(|most| self.asked.len() < most) {
            let Some(Held { id, message, in_target }) = self.held.pop_front() else { return };
            if !self.send(id, &message, in_target) {
                self.held.push_front(Held { id, message, in_target });
                break;
            }
        }
        if self.is_leaving() {
            let unseen = || Failure::Unseen("it takes no more queries".to_owned());
            let left = self.held.drain(..).map(|held| Done { id: held.id, result: Err(unseen()) });
            self.done.extend(left);
        }
    }

    fn drive(&mut self) {
        let State::Open(open) = &mut self.state else { return };
        let (_, connection) = &mut **open;
        let why = match poll(|cx| pin!(connection).poll(cx)) {
            Poll::Pending => return,
            Poll::Ready(Ok(())) => "EOF".to_owned(),
            Poll::Ready(Err(error)) => error.to_string(),
        };
        self.room = None;
        self.state = State::Over(why);
    }

    /// Looks whether it takes more queries.
    fn look(&mut self) {
        let State::Open(open) = &mut self.state else { return };
        let (requests, _) = &mut **open;
        self.room = match poll(|cx| requests.poll_ready(cx)) {
            Poll::Ready(Ok(())) => Some(requests.current_max_send_streams().min(UPSTREAM_STREAMS)),
            Poll::Ready(Err(_)) => None,
            Poll::Pending => Some(0),
        };
    }
}
