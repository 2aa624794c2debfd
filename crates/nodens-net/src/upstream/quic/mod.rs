//! Queries over QUIC (RFC 9250): each on a stream of its own, many streams on a connection. `quinn-proto` is a
//! state machine without socket and clock; the worker's loop gives it both.
//!
//! Each connection has a socket of its own, connected to the upstream, so that its port is as hard to
//! foresee as that of a query over UDP, and the kernel passes only what comes from the upstream's
//! address. Whatever passes has to be encrypted with the connection's keys, or is dropped.

mod connection;
mod connections;
mod dial;
mod fault;
mod outcome;
mod packets;
mod sweep;

pub(crate) use connections::Connections;
pub(crate) use dial::{Dialled, begin, socket_to};
pub(crate) use fault::text_of;
