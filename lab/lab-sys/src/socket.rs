//! What went wrong on a socket.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Asks the kernel to queue ICMP errors together with the datagram that caused them
/// (`IP_RECVERR`, `IPV6_RECVERR`).
pub fn queue_errors(socket: BorrowedFd<'_>, v6: bool) -> io::Result<()> {
    let (level, name) = if v6 {
        (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
    } else {
        (libc::IPPROTO_IP, libc::IP_RECVERR)
    };
    switch_on(socket, level, name)
}

/// Asks the kernel to say when each datagram reached the socket (`SO_TIMESTAMPNS`).
pub fn stamp_arrivals(socket: BorrowedFd<'_>) -> io::Result<()> {
    switch_on(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS)
}

/// Lets a socket that is bound to port 0 get its port when it connects
/// (`IP_BIND_ADDRESS_NO_PORT`): connections to other peers may then have the same port.
pub fn choose_port_late(socket: BorrowedFd<'_>) -> io::Result<()> {
    switch_on(socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT)
}

fn switch_on(socket: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the value points to one `c_int` that lives during the call, and its length says so.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(&on).cast(),
            mem::size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    crate::check(libc::c_long::from(result)).map(drop)
}

/// Takes one queued error: how many octets of the datagram that caused it were copied to `datagram`.
///
/// `WouldBlock` if no error is queued.
pub fn take_error(socket: BorrowedFd<'_>, datagram: &mut [u8]) -> io::Result<usize> {
    let mut vector =
        libc::iovec { iov_base: datagram.as_mut_ptr().cast(), iov_len: datagram.len() };
    let mut control = [0_u64; 64];
    // SAFETY: all zeroes is a valid `msghdr`.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = mem::size_of_val(&control) as _;
    // SAFETY: `header` points to one vector over `datagram` and to a control buffer with its true
    // length; all of them live, unshared, until the call returns.
    let result = unsafe {
        libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT)
    };
    crate::check(result as libc::c_long)
}

/// How many datagrams the kernel has dropped because the socket's receive buffer was full.
pub fn dropped(socket: BorrowedFd<'_>) -> io::Result<u32> {
    // Indices of `SO_MEMINFO` (linux/sock_diag.h): nine counters, the last of which is drops.
    const COUNTERS: usize = 9;
    const DROPS: usize = 8;
    let mut counters = [0_u32; COUNTERS];
    let mut len = mem::size_of_val(&counters) as libc::socklen_t;
    // SAFETY: the value points to `len` writable octets that live during the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            counters.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    crate::check(libc::c_long::from(result)).map(|_| counters[DROPS])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn a_refused_datagram_comes_back_from_the_error_queue() {
        let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(closed).unwrap();
        queue_errors(socket.as_fd(), false).unwrap();
        assert_eq!(
            take_error(socket.as_fd(), &mut [0; 8]).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        socket.send(b"hello").unwrap();
        let error = socket.recv(&mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        let mut datagram = [0; 8];
        assert_eq!(take_error(socket.as_fd(), &mut datagram).unwrap(), 5);
        assert_eq!(&datagram[..5], b"hello");
    }

    #[test]
    fn datagrams_dropped_for_want_of_buffer_are_counted() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(dropped(receiver.as_fd()).unwrap(), 0);
        for _ in 0..20_000 {
            sender.send_to(&[0; 1000], receiver.local_addr().unwrap()).unwrap();
        }
        assert!(dropped(receiver.as_fd()).unwrap() > 0);
    }
}
