//! Options of sockets that are one number.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Level and number of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name(libc::c_int, libc::c_int);

/// Segments leave at once, however small they are.
pub const NO_DELAY: Name = Name(libc::IPPROTO_TCP, libc::TCP_NODELAY);
/// A connection is accepted when it has brought an octet, or after so many seconds.
pub const DEFER_ACCEPT: Name = Name(libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT);
/// So many connections may bring octets in their SYN and not be accepted yet.
pub const FAST_OPEN: Name = Name(libc::IPPROTO_TCP, libc::TCP_FASTOPEN);
/// Silent connections are checked.
pub const KEEP_ALIVE: Name = Name(libc::SOL_SOCKET, libc::SO_KEEPALIVE);
/// Octets that may wait to be read; twice what was set.
pub const RECEIVE_BUFFER: Name = Name(libc::SOL_SOCKET, libc::SO_RCVBUF);
/// Octets that may wait to be sent; twice what was set.
pub const SEND_BUFFER: Name = Name(libc::SOL_SOCKET, libc::SO_SNDBUF);
/// Microseconds for which a reader asks the device before it sleeps.
pub const BUSY_POLL: Name = Name(libc::SOL_SOCKET, libc::SO_BUSY_POLL);

/// The present value.
pub fn get(socket: BorrowedFd<'_>, name: Name) -> io::Result<i32> {
    let mut value: libc::c_int = 0;
    let mut length = mem::size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value points to one writable `c_int` that lives during the call, and its length
    // says so.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            name.0,
            name.1,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    crate::check(libc::c_long::from(result)).map(|_| value)
}

/// Sets a value, as far as the kernel takes it.
pub fn set(socket: BorrowedFd<'_>, name: Name, value: i32) -> io::Result<()> {
    // SAFETY: the value points to one `c_int` that lives during the call, and its length says so.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            name.0,
            name.1,
            std::ptr::from_ref(&value).cast(),
            mem::size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    crate::check(libc::c_long::from(result)).map(drop)
}

/// The most connections that may wait at a listening socket to be accepted.
pub fn backlog(socket: BorrowedFd<'_>) -> io::Result<i32> {
    // SAFETY: all zeroes is a valid `tcp_info`.
    let mut info: libc::tcp_info = unsafe { mem::zeroed() };
    let mut length = mem::size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the value points to `length` writable octets that live during the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    crate::check(libc::c_long::from(result))?;
    // Of a listening socket, this field is the maximum and `tcpi_unacked` those that wait.
    i32::try_from(info.tcpi_sacked).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::fd::AsFd;

    #[test]
    fn what_was_set_is_read_back() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = socket.as_fd();
        for (name, value) in [(NO_DELAY, 1), (KEEP_ALIVE, 1), (FAST_OPEN, 17)] {
            assert_eq!(get(socket, name).unwrap(), 0);
            set(socket, name, value).unwrap();
            assert_eq!(get(socket, name).unwrap(), value);
        }
        set(socket, RECEIVE_BUFFER, 50_000).unwrap();
        assert_eq!(get(socket, RECEIVE_BUFFER).unwrap(), 100_000);
        assert!(get(std::fs::File::open("/dev/null").unwrap().as_fd(), NO_DELAY).is_err());
    }

    #[test]
    fn the_backlog_of_a_listening_socket_is_known() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(backlog(socket.as_fd()).unwrap() > 7);
        // SAFETY: takes no pointer.
        assert_eq!(unsafe { libc::listen(socket.as_raw_fd(), 7) }, 0);
        assert_eq!(backlog(socket.as_fd()).unwrap(), 7);
    }
}
