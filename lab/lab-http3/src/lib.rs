//! HTTP/3 (RFC 9114) on connections of `quinn-proto`, which has neither socket nor clock.
//!
//! `h3` wants a connection and streams that it can poll; [`Quic`] is that. What `h3` writes is given to the
//! connection at once, and what has not come is pending. No waker is ever called: the loop that owns the
//! connection polls again when there is an event for the stream, or octets on the control streams.
//!
//! What is deliberately absent: sockets, timers, requests.

#![forbid(unsafe_code)]

mod streams;

pub use streams::{RecvSide, SendSide, Stream};

use bytes::Bytes;
use h3::error::Code;
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming};
use quinn_proto::{Connection, Dir, StreamId, VarInt};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

/// H3_NO_ERROR (RFC 9114 section 8.1).
pub const NO_ERROR: VarInt = VarInt::from_u32(0x100);
/// H3_REQUEST_CANCELLED: what streams are ended with that are dropped before they are over.
const REQUEST_CANCELLED: VarInt = VarInt::from_u32(0x10c);

/// A connection that a loop drives while HTTP/3 uses its streams. It is never borrowed while `h3` is
/// polled or anything of `h3` is dropped.
pub type Shared = Rc<RefCell<Connection>>;

/// The stream that the next request is sent on. It is opened before the request is made, which shows
/// whether the server allows another, and stays here if the request is not sent.
#[derive(Clone, Default)]
pub struct Slot(Rc<Cell<Option<StreamId>>>);

impl Slot {
    /// The stream of the next request; `None` if the server allows no more at once.
    pub fn fill(&self, connection: &Shared) -> Option<StreamId> {
        if self.0.get().is_none() {
            self.0.set(connection.borrow_mut().streams().open(Dir::Bi));
        }
        self.0.get()
    }
}

/// A connection as `h3` wants it.
pub struct Quic {
    opener: Opener,
}

impl Quic {
    /// Requests go out on the streams of `slot`; a server has no use for it.
    pub fn new(connection: Shared, slot: Slot) -> Self {
        Self { opener: Opener { connection, slot } }
    }
}

/// Opens streams.
#[derive(Clone)]
pub struct Opener {
    connection: Shared,
    slot: Slot,
}

impl quic::Connection<Bytes> for Quic {
    type RecvStream = RecvSide;
    type OpenStreams = Opener;

    fn poll_accept_recv(
        &mut self,
        _: &mut Context<'_>,
    ) -> Poll<Result<RecvSide, ConnectionErrorIncoming>> {
        let connection = &self.opener.connection;
        let accepted = connection.borrow_mut().streams().accept(Dir::Uni);
        accepted.map_or(Poll::Pending, |id| Poll::Ready(RecvSide::new(connection, id)))
    }

    fn poll_accept_bidi(
        &mut self,
        _: &mut Context<'_>,
    ) -> Poll<Result<Stream, ConnectionErrorIncoming>> {
        let connection = &self.opener.connection;
        let accepted = connection.borrow_mut().streams().accept(Dir::Bi);
        accepted.map_or(Poll::Pending, |id| Poll::Ready(Stream::new(connection, id)))
    }

    fn opener(&self) -> Opener {
        self.opener.clone()
    }
}

impl quic::OpenStreams<Bytes> for Quic {
    type BidiStream = Stream;
    type SendStream = SendSide;

    fn poll_open_bidi(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Stream, StreamErrorIncoming>> {
        self.opener.poll_open_bidi(context)
    }

    fn poll_open_send(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<SendSide, StreamErrorIncoming>> {
        self.opener.poll_open_send(context)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.opener.close(code, reason);
    }
}

impl quic::OpenStreams<Bytes> for Opener {
    type BidiStream = Stream;
    type SendStream = SendSide;

    fn poll_open_bidi(&mut self, _: &mut Context<'_>) -> Poll<Result<Stream, StreamErrorIncoming>> {
        let Some(id) = self.slot.0.take() else { return Poll::Pending };
        Poll::Ready(Stream::new(&self.connection, id).map_err(of_connection))
    }

    fn poll_open_send(
        &mut self,
        _: &mut Context<'_>,
    ) -> Poll<Result<SendSide, StreamErrorIncoming>> {
        let opened = self.connection.borrow_mut().streams().open(Dir::Uni);
        let Some(id) = opened else { return Poll::Pending };
        Poll::Ready(SendSide::new(&self.connection, id).map_err(of_connection))
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        let code = VarInt::from_u64(code.value()).unwrap_or(VarInt::MAX);
        let reason = Bytes::copy_from_slice(reason);
        self.connection.borrow_mut().close(Instant::now(), code, reason);
    }
}

fn of_connection(connection_error: ConnectionErrorIncoming) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming { connection_error }
}
