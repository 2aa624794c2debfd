//! DNS over QUIC (RFC 9250), one query on each stream. `quinn-proto` is a state machine without socket
//! and clock; the worker's loop gives it both.
//!
//! Each worker has a socket and the connections that came by it. The kernel chooses the socket by the
//! addresses of both sides, so all packets of a connection reach the same worker as long as the client
//! keeps its address: migration is switched off, and a packet from another address is dropped.

mod books;
mod clock;
mod closing;
pub(crate) mod code;
mod connection;
mod deadlines;
mod http3;
mod opening;
mod partial;
mod queries;
mod seats;
mod sending;
mod server;
mod site;
mod unread;

pub(crate) use books::{Books, register_gauges};
pub(crate) use clock::Clock;
pub(crate) use deadlines::{Deadlines, tidy};
pub(crate) use server::QuicServer;
