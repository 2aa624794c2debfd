//! Messages with their length before them, over TCP and TLS; and what HTTP/2 begins with, a connection of TLS.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_rustls::TlsConnector;

use super::{Connection, in_time};
use crate::conformance::transports::{Certificate, Transport};
use nodens_judge::answer::Outcome;

trait Octets: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Octets for T {}

/// A stream of octets.
pub(super) struct Stream(Box<dyn Octets>);

/// Makes a connected socket a connection of the transport.
pub(super) async fn connect(
    socket: TcpStream,
    transport: Transport,
    config: Arc<ClientConfig>,
) -> Result<Connection> {
    socket.set_nonblocking(true)?;
    let socket = tokio::net::TcpStream::from_std(socket)?;
    if transport == Transport::Tcp {
        return Ok(Connection::Framed(Stream(Box::new(socket))));
    }
    let name = ServerName::try_from(Certificate::NAME)?;
    let stream = in_time(async {
        TlsConnector::from(config).connect(name, socket).await.context("handshake")
    });
    let stream = stream.await?;
    if transport.is_framed() {
        return Ok(Connection::Framed(Stream(Box::new(stream))));
    }
    let (requests, connection) =
        in_time(async { h2::client::handshake(stream).await.context("HTTP/2") }).await?;
    // It ends with the connection; what goes wrong shows where a request fails.
    tokio::spawn(async move { drop(connection.await) });
    Ok(Connection::Http(requests))
}

impl Stream {
    /// Sends the message in one write and reads the one of the same ID.
    pub(super) async fn ask(&mut self, bytes: &[u8]) -> Outcome {
        let framed = frame(bytes);
        // A connection that the server has closed shows when reading.
        drop(self.send(&[&framed], false).await);
        self.read(Some(bytes)).await
    }

    /// Sends each part in a write of its own, and the end of the stream behind them where `end` says so.
    pub(super) async fn send(&mut self, parts: &[&[u8]], end: bool) -> io::Result<()> {
        for part in parts {
            self.0.write_all(part).await?;
            self.0.flush().await?;
            tokio::task::yield_now().await;
        }
        if end { self.0.shutdown().await } else { Ok(()) }
    }

    /// Reads the next message, or the next with the ID of `query`.
    pub(super) async fn read(&mut self, query: Option<&[u8]>) -> Outcome {
        loop {
            let Ok(message) = self.message().await else { return Outcome::Closed };
            if query.is_none_or(|query| message.get(..2) == query.get(..2)) {
                return Outcome::read(&message);
            }
        }
    }

    async fn message(&mut self) -> io::Result<Vec<u8>> {
        let length = self.0.read_u16().await?;
        let mut message = vec![0; usize::from(length)];
        self.0.read_exact(&mut message).await?;
        Ok(message)
    }
}

/// The message with its length before it.
pub(super) fn frame(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    [&length.to_be_bytes()[..], bytes].concat()
}
