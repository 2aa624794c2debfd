//! What the kernel says went wrong with a datagram.

use crate::session::Session;
use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;

/// Octets of a query that came back: enough for its header.
pub const REFUSED_LEN: usize = 64;

/// Whether the kernel had no room for a datagram.
pub fn has_no_room(error: &io::Error) -> bool {
    // ENOBUFS has no kind of its own.
    const ENOBUFS: i32 = 105;
    error.kind() == ErrorKind::WouldBlock || error.raw_os_error() == Some(ENOBUFS)
}

/// Whether an earlier datagram came back as undeliverable.
pub fn is_refusal(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable
    )
}

/// Gives every query that came back in an ICMP message its outcome.
pub(super) fn take_refusals(socket: BorrowedFd<'_>, client: usize, session: &mut Session<'_>) {
    let mut datagram = [0; REFUSED_LEN];
    while let Ok(len) = lab_sys::socket::take_error(socket, &mut datagram) {
        session.refuse(client, datagram.get(..len).unwrap_or_default());
    }
}
