//! Sockets of clients, what watches them, and what their answers go into.

use super::RECEIVED_MAX;
use crate::run::{RunError, Stamps};
use crate::shard::Shard;
use lab_sys::batch::Batch;
use lab_sys::poll::{Interest, Poller};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::os::fd::AsFd;

/// The longest response that is not cut: what a server may send without being asked for less, and a
/// cache line, since of buffers 4,096 octets apart all beginnings have the same few places in a cache.
const RESPONSE_LEN_MAX: usize = 4_096 + 64;
/// Sockets of which it is known at once that they are ready.
pub(super) const READY_MAX: usize = 1_024;
/// Receive buffer asked for; the kernel may give less.
const RECEIVE_BUFFER: usize = 4 << 20;

pub(super) fn connect(shard: &Shard<'_>, client: usize) -> io::Result<Socket> {
    let server = shard.share.server;
    let socket = Socket::new(Domain::for_address(server), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    socket.set_nonblocking(true)?;
    lab_sys::socket::queue_errors(socket.as_fd(), server.is_ipv6())?;
    if shard.config.stamps == Stamps::Kernel {
        lab_sys::socket::stamp_arrivals(socket.as_fd())?;
    }
    if let Some(source) = shard.source(client) {
        socket.bind(&source.into())?;
    }
    socket.connect(&server.into())?;
    Ok(socket)
}

pub(super) fn receive_batch(stamps: Stamps) -> Batch {
    let batch = Batch::connected(RECEIVED_MAX, RESPONSE_LEN_MAX);
    match stamps {
        Stamps::User => batch,
        Stamps::Kernel => batch.with_stamps(),
    }
}

pub(super) fn watch(sockets: &[Socket]) -> Result<Poller, RunError> {
    let poller = Poller::new(READY_MAX).map_err(RunError::Thread)?;
    for (client, socket) in sockets.iter().enumerate() {
        poller.add(socket.as_fd(), client as u64, Interest::Read).map_err(RunError::Thread)?;
    }
    Ok(poller)
}
