//! DNS over QUIC (RFC 9250) and over HTTP/3 (RFC 8484).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::{Buf, Bytes};
use h3::client::SendRequest;
use h3_quinn::OpenStreams;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, ConnectionError, Endpoint, ReadError, ReadToEndError};

use super::framed::frame;
use super::http::{Ask, reply};
use super::{Connection, Reply, in_time};
use crate::conformance::transports::{Certificate, Transport};
use nodens_judge::answer::Outcome;

/// The octets that a stream may send at most: a message and its length.
const STREAM_MAX: usize = 2 + 65_535;

/// A socket of the client.
pub(super) fn endpoint(client: IpAddr) -> Result<Endpoint> {
    Endpoint::client(SocketAddr::new(client, 0)).with_context(|| format!("bind {client}"))
}

pub(super) fn config(config: rustls::ClientConfig) -> Result<ClientConfig> {
    Ok(ClientConfig::new(Arc::new(QuicClientConfig::try_from(config)?)))
}

/// Connects to one server.
pub(super) async fn connect(
    endpoint: &Endpoint,
    config: ClientConfig,
    target: SocketAddr,
    transport: Transport,
) -> Result<Connection> {
    in_time(async {
        let connection = endpoint.connect_with(config, target, Certificate::NAME)?.await?;
        if transport == Transport::Quic {
            return Ok(Connection::Quic(connection));
        }
        let kept = connection.clone();
        let (mut driver, requests) = h3::client::new(h3_quinn::Connection::new(connection)).await?;
        // It ends with the connection; what goes wrong shows where a request fails.
        tokio::spawn(
            async move { std::future::poll_fn(|context| driver.poll_close(context)).await },
        );
        Ok(Connection::Http3(Http3 { requests, connection: kept }))
    })
    .await
}

/// Asks the message with the ID zero that QUIC prescribes.
pub(super) async fn ask(connection: &quinn::Connection, bytes: &[u8]) -> Outcome {
    send(connection, &frame(&without_id(bytes))).await
}

/// The message with its ID zero.
pub(super) fn without_id(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.iter_mut().take(2).for_each(|octet| *octet = 0);
    bytes
}

/// Sends `octets` and the end of the stream; what the stream came to.
pub(super) async fn send(connection: &quinn::Connection, octets: &[u8]) -> Outcome {
    let (mut sending, mut receiving) = match connection.open_bi().await {
        Ok(streams) => streams,
        Err(error) => return ended(&error),
    };
    // What goes wrong shows when reading.
    drop(sending.write_all(octets).await);
    drop(sending.finish());
    match receiving.read_to_end(STREAM_MAX).await {
        Ok(octets) => match octets.split_first_chunk::<2>() {
            Some((length, message))
                if usize::from(u16::from_be_bytes(*length)) == message.len() =>
            {
                Outcome::read(message)
            }
            Some(_) => Outcome::Unreadable("not one message".to_owned()),
            None => Outcome::Refused("stream ended".to_owned()),
        },
        Err(ReadToEndError::Read(ReadError::ConnectionLost(error))) => ended(&error),
        Err(ReadToEndError::Read(ReadError::Reset(code))) => {
            Outcome::Refused(format!("stream reset with code {code}"))
        }
        Err(error) => Outcome::Unreadable(error.to_string()),
    }
}

/// How a connection ended.
fn ended(error: &ConnectionError) -> Outcome {
    match error {
        ConnectionError::ApplicationClosed(close) if close.error_code.into_inner() != 0 => {
            Outcome::Refused(format!("connection closed with code {}", close.error_code))
        }
        ConnectionError::ConnectionClosed(close) => {
            Outcome::Refused(format!("connection closed with {}", close.error_code))
        }
        _ => Outcome::Closed,
    }
}

/// A connection of HTTP/3.
pub(super) struct Http3 {
    requests: SendRequest<OpenStreams, Bytes>,
    connection: quinn::Connection,
}

impl Http3 {
    pub(super) async fn ask(&mut self, bytes: &[u8]) -> Reply {
        self.send(&Ask::post(bytes)).await
    }

    /// Sends the request and reads the response.
    pub(super) async fn send(&mut self, ask: &Ask) -> Reply {
        match self.exchange(ask).await {
            Ok(reply) => reply,
            Err(error) => Reply::bare(match self.connection.close_reason() {
                Some(reason) => ended(&reason),
                None => Outcome::Refused(format!("HTTP/3: {error}")),
            }),
        }
    }

    async fn exchange(&mut self, ask: &Ask) -> Result<Reply> {
        let mut stream = self.requests.send_request(ask.request()?).await?;
        if !ask.body.is_empty() {
            stream.send_data(ask.body.clone()).await?;
        }
        stream.finish().await?;
        let response = stream.recv_response().await?;
        let mut body = Vec::new();
        while let Some(mut data) = stream.recv_data().await? {
            while data.has_remaining() {
                let chunk = data.chunk();
                body.extend_from_slice(chunk);
                let length = chunk.len();
                data.advance(length);
            }
        }
        Ok(reply(&response, &body))
    }
}
