//! Responses on their way: `h2` gets as much of them as the client has room for, so that what it does not
//! take is counted here.

use super::poll;
use bytes::Bytes;
use h2::{Reason, SendStream};
use http::HeaderMap;

/// The rest of a response.
pub(super) struct Held {
    stream: SendStream<Bytes>,
    body: Bytes,
    trailers: Option<HeaderMap>,
    deadline: u64,
}

/// How much of it is given away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// All, or nobody wants the rest.
    Whole,
    /// Not all.
    InPart,
}

impl Held {
    pub(super) fn new(
        stream: SendStream<Bytes>,
        body: Bytes,
        trailers: Option<HeaderMap>,
        deadline: u64,
    ) -> Self {
        Self { stream, body, trailers, deadline }
    }

    pub(super) fn len(&self) -> usize {
        self.body.len()
    }

    pub(super) fn deadline(&self) -> u64 {
        self.deadline
    }

    pub(super) fn reset(&mut self) {
        self.stream.send_reset(Reason::CANCEL);
    }

    /// Gives away what there is room for.
    pub(super) fn send(&mut self) -> Sent {
        while !self.body.is_empty() {
            if poll(|cx| self.stream.poll_reset(cx)).is_ready() {
                return Sent::Whole;
            }
            self.stream.reserve_capacity(self.body.len());
            let room = self.stream.capacity().min(self.body.len());
            if room == 0 {
                return Sent::InPart;
            }
            let piece = self.body.split_to(room);
            let is_end = self.body.is_empty() && self.trailers.is_none();
            if self.stream.send_data(piece, is_end).is_err() {
                return Sent::Whole;
            }
        }
        if let Some(trailers) = self.trailers.take() {
            // An error means that the client has given it up.
            _ = self.stream.send_trailers(trailers);
        }
        Sent::Whole
    }
}
