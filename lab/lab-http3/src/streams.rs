//! Streams as `h3` wants them. One that is dropped before its end is cancelled, so that the other side
//! frees it.

use crate::{REQUEST_CANCELLED, Shared};
use bytes::{Buf, Bytes};
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, WriteBuf};
use quinn_proto::{FinishError, ReadError, StreamId, VarInt, WriteError};
use std::task::{Context, Poll};

/// The most octets that are taken on one stream: the longest message of DNS with fields and frames
/// around it, and as much again to spare. `h3` keeps fields and frames until they are whole, however long
/// they are, on the streams of requests as on those of settings and of the compression of fields.
const STREAM_LEN_MAX: usize = 128 << 10;

/// The number of a stream as `h3` has it.
fn number(id: StreamId) -> Result<quic::StreamId, ConnectionErrorIncoming> {
    let number = quic::StreamId::try_from(u64::from(id));
    number.map_err(|error| ConnectionErrorIncoming::InternalError(error.to_string()))
}

fn ended(code: VarInt) -> StreamErrorIncoming {
    StreamErrorIncoming::StreamTerminated { error_code: code.into_inner() }
}

/// What is read.
pub struct RecvSide {
    connection: Shared,
    id: StreamId,
    number: quic::StreamId,
    /// Octets that may still come.
    room: usize,
    is_over: bool,
}

impl RecvSide {
    pub(crate) fn new(connection: &Shared, id: StreamId) -> Result<Self, ConnectionErrorIncoming> {
        let connection = connection.clone();
        Ok(Self { connection, id, number: number(id)?, room: STREAM_LEN_MAX, is_over: false })
    }

    fn stop(&mut self, code: VarInt) {
        if !std::mem::replace(&mut self.is_over, true) {
            // An error means that the stream is over anyway.
            _ = self.connection.borrow_mut().recv_stream(self.id).stop(code);
        }
    }
}

impl quic::RecvStream for RecvSide {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        _: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        if self.is_over {
            return Poll::Ready(Ok(None));
        }
        let mut connection = self.connection.borrow_mut();
        let mut stream = connection.recv_stream(self.id);
        let mut chunks = match stream.read(true) {
            Ok(chunks) => chunks,
            Err(error) => return Poll::Ready(Err(StreamErrorIncoming::Unknown(error.into()))),
        };
        let read = chunks.next(usize::MAX);
        // What there is to send is sent in this turn anyway.
        _ = chunks.finalize();
        match read {
            Err(ReadError::Blocked) => Poll::Pending,
            Ok(Some(chunk)) => {
                let Some(room) = self.room.checked_sub(chunk.bytes.len()) else {
                    let text = format!("more than {STREAM_LEN_MAX} octets on one stream");
                    return Poll::Ready(Err(StreamErrorIncoming::Unknown(text.into())));
                };
                self.room = room;
                Poll::Ready(Ok(Some(chunk.bytes)))
            }
            Ok(None) => {
                self.is_over = true;
                Poll::Ready(Ok(None))
            }
            Err(ReadError::Reset(code)) => {
                self.is_over = true;
                Poll::Ready(Err(ended(code)))
            }
        }
    }

    fn stop_sending(&mut self, code: u64) {
        self.stop(VarInt::from_u64(code).unwrap_or(VarInt::MAX));
    }

    fn recv_id(&self) -> quic::StreamId {
        self.number
    }
}

impl Drop for RecvSide {
    fn drop(&mut self) {
        self.stop(REQUEST_CANCELLED);
    }
}

/// What is written.
pub struct SendSide {
    connection: Shared,
    id: StreamId,
    number: quic::StreamId,
    /// What the other side lets us write later.
    writing: Option<WriteBuf<Bytes>>,
    is_over: bool,
}

impl SendSide {
    pub(crate) fn new(connection: &Shared, id: StreamId) -> Result<Self, ConnectionErrorIncoming> {
        let connection = connection.clone();
        Ok(Self { connection, id, number: number(id)?, writing: None, is_over: false })
    }

    fn cancel(&mut self, code: VarInt) {
        if !std::mem::replace(&mut self.is_over, true) {
            // An error means that the stream is over anyway.
            _ = self.connection.borrow_mut().send_stream(self.id).reset(code);
        }
    }
}

impl quic::SendStream<Bytes> for SendSide {
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        let mut connection = self.connection.borrow_mut();
        let mut stream = connection.send_stream(self.id);
        while let Some(octets) = self.writing.as_mut().filter(|octets| octets.has_remaining()) {
            match stream.write(octets.chunk()) {
                Ok(count) => octets.advance(count),
                Err(WriteError::Blocked) => return Poll::Pending,
                Err(WriteError::Stopped(code)) => return Poll::Ready(Err(ended(code))),
                Err(error @ WriteError::ClosedStream) => {
                    return Poll::Ready(Err(StreamErrorIncoming::Unknown(error.into())));
                }
            }
        }
        self.writing = None;
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        if self.writing.is_some() {
            let text = "written before there was room".to_owned();
            let connection_error = ConnectionErrorIncoming::InternalError(text);
            return Err(StreamErrorIncoming::ConnectionErrorIncoming { connection_error });
        }
        self.writing = Some(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.is_over = true;
        Poll::Ready(match self.connection.borrow_mut().send_stream(self.id).finish() {
            Ok(()) => Ok(()),
            Err(FinishError::Stopped(code)) => Err(ended(code)),
            Err(error @ FinishError::ClosedStream) => {
                Err(StreamErrorIncoming::Unknown(error.into()))
            }
        })
    }

    fn reset(&mut self, code: u64) {
        self.cancel(VarInt::from_u64(code).unwrap_or(VarInt::MAX));
    }

    fn send_id(&self) -> quic::StreamId {
        self.number
    }
}

impl Drop for SendSide {
    fn drop(&mut self) {
        self.cancel(REQUEST_CANCELLED);
    }
}

/// The stream of a request and its response.
pub struct Stream {
    send: SendSide,
    recv: RecvSide,
}

impl Stream {
    pub(crate) fn new(connection: &Shared, id: StreamId) -> Result<Self, ConnectionErrorIncoming> {
        let send = SendSide::new(connection, id)?;
        Ok(Self { send, recv: RecvSide::new(connection, id)? })
    }
}

impl quic::RecvStream for Stream {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.recv.poll_data(context)
    }

    fn stop_sending(&mut self, code: u64) {
        self.recv.stop_sending(code);
    }

    fn recv_id(&self) -> quic::StreamId {
        self.recv.recv_id()
    }
}

impl quic::SendStream<Bytes> for Stream {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_ready(context)
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.send.send_data(data)
    }

    fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_finish(context)
    }

    fn reset(&mut self, code: u64) {
        self.send.reset(code);
    }

    fn send_id(&self) -> quic::StreamId {
        self.send.send_id()
    }
}
