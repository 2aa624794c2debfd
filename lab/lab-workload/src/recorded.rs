//! What was recorded of DNS traffic, message by message, in the order of a recording.
//!
//! Whoever reads a recording (of packets: [`crate::capture::Recording`]) is an iterator of [`Record`]s
//! that keeps in memory only what it needs for the next one.

use std::net::SocketAddr;

/// How a message travelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// A datagram.
    Udp,
    /// A connection.
    Tcp,
}

/// What was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// The client asked for a connection. A recording without these still has connections: one opens with
    /// its first query.
    Opened,
    /// A message without the QR bit, from a client.
    Query(Vec<u8>),
    /// A message with the QR bit, from a server.
    Response(Vec<u8>),
    /// The client has ended its connection.
    Ended,
}

/// One thing that was recorded, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The packet or frame that it was in, counted from 1.
    pub number: u64,
    /// Nanoseconds since 1970, or since anything else.
    pub time: u64,
    /// The client's address and port.
    pub client: SocketAddr,
    /// The server's address and port.
    pub server: SocketAddr,
    /// How it travelled.
    pub carrier: Carrier,
    /// What it is.
    pub content: Content,
}

/// A part of a recording that is left out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(
    /// Where it is, what is wrong, and what was expected.
    pub String,
);
