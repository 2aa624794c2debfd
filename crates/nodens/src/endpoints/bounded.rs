//! A listener with few connections, and few large answers that are not sent yet: when there is one
//! too many, the oldest ends.
//!
//! Every pod can reach the ports of metrics and health. Without a bound it could take all
//! descriptors of the process, and with them the sockets that queries need, or all its memory
//! with metrics that it asks for and does not read, or with requests that do not end.

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// Large answers of the process that are not sent whole. Whoever reads is done in milliseconds, so
/// more are only there if some do not read, and those are the oldest.
const UNSENT_MAX: usize = 8;
/// Octets of a connection since the last that it was sent: requests have less, and what is not whole is kept until then.
const REQUEST_LEN_MAX: usize = 16 << 10;
/// Octets that the kernel keeps for a connection, so that what is not read is counted here.
const SEND_BUFFER_LEN: usize = 64 << 10;

/// The large answers that are not sent whole, oldest first; a connection whose end is dropped ends.
#[derive(Debug, Default)]
pub(super) struct Unsent(Mutex<VecDeque<oneshot::Sender<()>>>);

/// What a connection sends: nothing large, or one of [`Unsent`].
type Sending = Arc<Mutex<Option<oneshot::Receiver<()>>>>;

/// See the module.
pub(crate) struct Bounded<L> {
    listener: L,
    /// Connections at a time.
    max: usize,
    /// One for each connection, oldest first; a connection whose end is dropped ends.
    open: VecDeque<oneshot::Sender<()>>,
}

/// A connection of a [`Bounded`] listener.
pub(crate) struct Connection<S> {
    stream: S,
    /// None once it has to end.
    ended: Option<oneshot::Receiver<()>>,
    sending: Sending,
    /// Octets that have come since the last that left.
    unanswered: usize,
}

/// Who has connected.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    sending: Sending,
}

impl Peer {
    /// A large answer to it begins, one of `unsent` until the connection has taken it.
    pub(super) fn sends(&self, unsent: &Unsent) {
        let mut all = lock(&unsent.0);
        all.retain(|end| !end.is_closed());
        if all.len() >= UNSENT_MAX {
            all.pop_front();
        }
        let (end, ended) = oneshot::channel();
        all.push_back(end);
        *lock(&self.sending) = Some(ended);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<L> Bounded<L> {
    /// At most `max` connections of `listener` at a time.
    pub(crate) fn new(listener: L, max: usize) -> Self {
        Self { listener, max, open: VecDeque::new() }
    }
}

impl<L: Listener<Io: AsFd>> Listener for Bounded<L> {
    type Io = Connection<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (stream, address) = Listener::accept(&mut self.listener).await;
        self.open.retain(|end| !end.is_closed());
        if self.open.len() >= self.max {
            self.open.pop_front();
        }
        let (end, ended) = oneshot::channel();
        self.open.push_back(end);
        // Without it a connection keeps more in the kernel, and is served as well.
        _ = socket2::SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER_LEN);
        let (ended, sending) = (Some(ended), Sending::default());
        (Connection { stream, ended, sending, unanswered: 0 }, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

impl Connected<IncomingStream<'_, Bounded<TcpListener>>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Bounded<TcpListener>>) -> Self {
        Self { address: *stream.remote_addr(), sending: stream.io().sending.clone() }
    }
}

impl<S: Unpin> Connection<S> {
    /// The stream, if it has not ended; whoever asks is woken when it does.
    fn stream(&mut self, cx: &mut Context<'_>) -> io::Result<Pin<&mut S>> {
        if let Some(ended) = &mut self.ended
            && Pin::new(ended).poll(cx).is_ready()
        {
            self.ended = None;
        }
        let mut sending = lock(&self.sending);
        if let Some(ended) = sending.as_mut()
            && Pin::new(ended).poll(cx).is_ready()
        {
            *sending = None;
            self.ended = None;
        }
        drop(sending);
        match self.ended {
            Some(_) => Ok(Pin::new(&mut self.stream)),
            None => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }
}

impl<S> Connection<S> {
    /// What was written belongs to a response, and so what was read to a whole request.
    fn answers(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if matches!(written, Poll::Ready(Ok(1..))) {
            self.unanswered = 0;
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = self.stream(cx)?.poll_read(cx, buffer);
        self.unanswered += buffer.filled().len() - before;
        if self.unanswered > REQUEST_LEN_MAX {
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.stream(cx)?.poll_write(cx, octets);
        self.answers(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.stream(cx)?.poll_write_vectored(cx, parts);
        self.answers(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The server flushes when it has handed over all that it had to say.
        let flushed = self.stream(cx)?.poll_flush(cx);
        if flushed.is_ready() {
            *lock(&self.sending) = None;
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
