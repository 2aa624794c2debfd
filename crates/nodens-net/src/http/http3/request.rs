//! One request, as it comes on its stream.

use super::super::Counted;
use super::super::requests::{Begun, Dialect, Response};
use super::fields::{self, Refusal};
use super::frames::{Frames, Part};
use super::order::Order;
use super::{Fault, code, kind};
use crate::limits::{HTTP_HEAD_LEN_MAX, HTTP3_REQUEST_LEN_MAX};
use nodens_core::Now;

/// A request that is not whole.
#[derive(Debug, Default)]
pub(crate) struct Request {
    order: Order,
    frames: Frames,
    state: State,
    /// Octets of its fields, then of its body.
    octets: Vec<u8>,
    /// How many octets have come in all.
    taken: usize,
    /// How long its body is to be.
    len: Option<u64>,
    /// The query in its target.
    query: Option<Vec<u8>>,
    /// Octets of its body.
    content: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Its fields are to come.
    #[default]
    Head,
    /// Its body is; that of a request whose query is in the target is of no use.
    Body,
    /// Fields stand behind the body.
    Trailers,
}

/// What a request has come to.
pub(crate) enum Progress {
    /// There is more to come.
    More,
    /// Its query is whole.
    Query(Vec<u8>),
    /// There is none.
    Refused(Box<Response>),
}

impl Request {
    /// Takes octets that stand at `place` in its stream. Once there is a response, nothing more of it is of
    /// interest.
    pub(crate) fn take(
        &mut self,
        place: u64,
        octets: &[u8],
        now: Now,
        counted: &mut Counted,
    ) -> Result<Progress, Fault> {
        if !self.order.is_next(place, octets).map_err(Fault::Stream)? {
            return Ok(Progress::More);
        }
        let mut progress = self.read(octets, now, counted)?;
        while matches!(progress, Progress::More)
            && let Some(octets) = self.order.next()
        {
            progress = self.read(&octets, now, counted)?;
        }
        Ok(progress)
    }

    /// Looks at the next octets.
    fn read(
        &mut self,
        mut octets: &[u8],
        now: Now,
        counted: &mut Counted,
    ) -> Result<Progress, Fault> {
        self.taken = self.taken.saturating_add(octets.len());
        while let Some(part) = self.frames.next(&mut octets) {
            let progress = match part {
                Part::Begin(kind, len) => self.begin(kind, len, now, counted)?,
                Part::Content(kind, content) => {
                    let is_kept = match self.state {
                        State::Head => kind == kind::HEADERS,
                        State::Body => kind == kind::DATA,
                        State::Trailers => false,
                    };
                    if is_kept && self.query.is_none() {
                        self.octets.extend_from_slice(content);
                    }
                    Progress::More
                }
                Part::End(kind::HEADERS) if self.state == State::Head => self.ask(now, counted)?,
                Part::End(_) => Progress::More,
            };
            if !matches!(progress, Progress::More) {
                return Ok(progress);
            }
        }
        match self.taken > HTTP3_REQUEST_LEN_MAX {
            true => Err(Fault::Stream(code::EXCESSIVE_LOAD)),
            false => Ok(Progress::More),
        }
    }

    /// Octets of memory.
    pub(crate) fn cost(&self) -> usize {
        let query = self.query.as_ref().map_or(0, Vec::capacity);
        size_of::<Self>() + self.order.cost() + self.octets.capacity() + query
    }

    /// A frame begins.
    fn begin(
        &mut self,
        kind: u64,
        len: u64,
        now: Now,
        counted: &mut Counted,
    ) -> Result<Progress, Fault> {
        let unexpected = Err(Fault::Connection(code::FRAME_UNEXPECTED));
        match (kind, self.state) {
            (kind::HEADERS, State::Head) if len > HTTP_HEAD_LEN_MAX as u64 => {
                return Ok(Progress::Refused(Response::too_many_fields()));
            }
            (kind::HEADERS, State::Head) => {}
            // Nothing in them is of interest.
            (kind::HEADERS, State::Body) => self.state = State::Trailers,
            (kind::DATA, State::Body) => {
                self.content = self.content.saturating_add(len);
                if self.query.is_none() && self.content > Dialect::Doh.len_max() as u64 {
                    let response = Dialect::Doh.too_long(now, counted);
                    return Ok(Progress::Refused(response));
                }
            }
            (kind::HEADERS | kind::DATA, _) => return unexpected,
            // Those of other streams, and what a client has nothing to say of.
            (
                kind::CANCEL_PUSH
                | kind::SETTINGS
                | kind::PUSH_PROMISE
                | kind::GOAWAY
                | kind::PUSHES,
                _,
            ) => return unexpected,
            (kind, _) if kind::is_of_two(kind) => return unexpected,
            _ => {}
        }
        Ok(Progress::More)
    }

    /// Its fields are whole.
    fn ask(&mut self, now: Now, counted: &mut Counted) -> Result<Progress, Fault> {
        let block = std::mem::take(&mut self.octets);
        let head = match fields::read(&block) {
            Ok(head) => head,
            Err(Refusal::Unreadable) => {
                return Err(Fault::Connection(code::DECOMPRESSION_FAILED));
            }
            Err(Refusal::TooMany) => return Ok(Progress::Refused(Response::too_many_fields())),
            Err(Refusal::Malformed) => return Err(Fault::Stream(code::MESSAGE_ERROR)),
        };
        let made = http::Request::builder().method(&*head.method).uri(&*head.path).body(());
        let (parts, ()) = made.map_err(|_| Fault::Stream(code::MESSAGE_ERROR))?.into_parts();
        self.len = head.len;
        self.state = State::Body;
        Ok(match Dialect::Doh.begin(&parts, now, counted) {
            Begun::Query(message) => {
                self.query = Some(message);
                Progress::More
            }
            Begun::Refused(response) => Progress::Refused(response),
            Begun::Body => Progress::More,
        })
    }

    /// Nothing more comes: it is whole, or never will be.
    pub(crate) fn end(&mut self, now: Now, counted: &mut Counted) -> Result<Progress, Fault> {
        if !self.frames.is_between() {
            return Err(Fault::Connection(code::FRAME_ERROR));
        }
        if self.state == State::Head {
            return Err(Fault::Stream(code::REQUEST_INCOMPLETE));
        }
        if self.len.is_some_and(|len| len != self.content) {
            return Err(Fault::Stream(code::MESSAGE_ERROR));
        }
        if let Some(query) = self.query.take() {
            return Ok(Progress::Query(query));
        }
        let content = std::mem::take(&mut self.octets);
        Ok(match Dialect::Doh.query(content, now, counted) {
            Ok(message) => Progress::Query(message),
            Err(response) => Progress::Refused(response),
        })
    }
}
