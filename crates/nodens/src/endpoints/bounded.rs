//! A listener with few connections: when there is one too many, the oldest ends.
//!
//! Every pod can reach the ports of metrics and health. Without a bound it could take all
//! descriptors of the process, and with them the sockets that questions need.

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// Connections of one address at a time.
const CONNECTIONS_MAX: usize = 128;

/// See the module.
pub(super) struct Bounded {
    listener: TcpListener,
    /// One for each connection, oldest first; a connection whose end is dropped ends.
    open: VecDeque<oneshot::Sender<()>>,
}

/// A connection of a [`Bounded`] listener.
pub(super) struct Connection {
    stream: TcpStream,
    /// None once it has to end.
    ended: Option<oneshot::Receiver<()>>,
}

/// Who has connected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) SocketAddr);

impl Bounded {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self { listener, open: VecDeque::new() }
    }
}

impl Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let (stream, address) = Listener::accept(&mut self.listener).await;
        self.open.retain(|end| !end.is_closed());
        if self.open.len() >= CONNECTIONS_MAX {
            self.open.pop_front();
        }
        let (end, ended) = oneshot::channel();
        self.open.push_back(end);
        (Connection { stream, ended: Some(ended) }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Connected<IncomingStream<'_, Bounded>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Bounded>) -> Self {
        Self(*stream.remote_addr())
    }
}

impl Connection {
    /// The stream, if it has not ended; whoever asks is woken when it does.
    fn stream(&mut self, cx: &mut Context<'_>) -> io::Result<Pin<&mut TcpStream>> {
        if let Some(ended) = &mut self.ended
            && Pin::new(ended).poll(cx).is_ready()
        {
            self.ended = None;
        }
        match self.ended {
            Some(_) => Ok(Pin::new(&mut self.stream)),
            None => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream(cx)?.poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream(cx)?.poll_write(cx, octets)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream(cx)?.poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream(cx)?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
