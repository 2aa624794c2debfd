//! Datagrams that go out together.

use super::control::{CONTROL_LEN, Control, write_packet_info};
use crate::limits::BATCH;
use libc::{c_void, iovec, mmsghdr};
use socket2::SockAddr;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

/// A datagram to send.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// The octets.
    pub(crate) wire: Vec<u8>,
    /// Where it goes; `None` over a connected socket.
    pub(crate) peer: Option<SocketAddr>,
    /// The address it comes from; `None` leaves that to the kernel.
    pub(crate) source: Option<IpAddr>,
}

/// Descriptions of datagrams for sendmmsg, kept so that only what is used is written.
pub(crate) struct Sender {
    headers: Box<[mmsghdr; BATCH]>,
    parts: Box<[iovec; BATCH]>,
    controls: Box<[Control; BATCH]>,
    peers: Box<[Option<SockAddr>; BATCH]>,
}

impl Sender {
    pub(crate) fn new() -> Self {
        Self {
            // SAFETY: all zeros is a valid value of these structures of integers and pointers.
            headers: unsafe { Box::new_zeroed().assume_init() },
            // SAFETY: as above.
            parts: unsafe { Box::new_zeroed().assume_init() },
            controls: Box::new([const { Control([0; CONTROL_LEN]) }; BATCH]),
            peers: Box::new([const { None }; BATCH]),
        }
    }

    /// Sends `datagrams` with as few system calls as it takes; `failed` is told the place of each
    /// that the kernel did not take. `mapped`: the socket is an IPv6 one, which writes IPv4
    /// addresses as `::ffff:a.b.c.d`.
    pub(crate) fn send_all(
        &mut self,
        socket: impl AsFd,
        datagrams: &[Outgoing],
        mapped: bool,
        mut failed: impl FnMut(usize, io::Error),
    ) {
        let fd = socket.as_fd().as_raw_fd();
        for (number, batch) in datagrams.chunks(BATCH).enumerate() {
            self.describe(batch, mapped);
            self.send(fd, batch.len(), &mut |place, error| failed(number * BATCH + place, error));
        }
    }

    /// Writes the descriptions of at most [`BATCH`] datagrams. They are good as long as these are
    /// borrowed.
    fn describe(&mut self, datagrams: &[Outgoing], mapped: bool) {
        let places = self.headers.iter_mut().zip(self.parts.iter_mut());
        let places = places.zip(self.controls.iter_mut()).zip(self.peers.iter_mut());
        for ((((message, part), control), peer), datagram) in places.zip(datagrams) {
            part.iov_base = datagram.wire.as_ptr().cast_mut().cast();
            part.iov_len = datagram.wire.len();
            let header = &mut message.msg_hdr;
            header.msg_iov = &raw mut *part;
            header.msg_iovlen = 1;
            *peer = datagram.peer.map(|address| address_for(address, mapped));
            (header.msg_name, header.msg_namelen) = match peer {
                Some(address) => (address.as_ptr().cast_mut().cast::<c_void>(), address.len()),
                None => (ptr::null_mut(), 0),
            };
            let v6 = peer.as_ref().and_then(SockAddr::as_socket_ipv6);
            let scope = v6.map_or(0, |v6| v6.scope_id());
            let len = datagram.source.map(|ip| write_packet_info(control, ip, scope, mapped));
            header.msg_controllen = len.unwrap_or(0);
            header.msg_control = match len {
                Some(_) => (&raw mut *control).cast(),
                None => ptr::null_mut(),
            };
        }
    }

    /// Sends the first `count` datagrams described; the caller still borrows them.
    fn send(&mut self, fd: i32, count: usize, failed: &mut dyn FnMut(usize, io::Error)) {
        let count = count.min(BATCH);
        let mut done = 0;
        while done < count {
            // SAFETY: the descriptor is open; the headers from `done` to `count` were written by
            // `describe` and point to live buffers of the lengths they state, which the kernel
            // only reads.
            let sent = unsafe {
                let headers = self.headers.as_mut_ptr().add(done);
                libc::sendmmsg(fd, headers, (count - done) as u32, libc::MSG_DONTWAIT)
            };
            match usize::try_from(sent) {
                Ok(sent) if sent > 0 => done += sent,
                _ => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        // The error is that of the first one; the others may still go out.
                        failed(done, error);
                        done += 1;
                    }
                }
            }
        }
    }
}

fn address_for(peer: SocketAddr, mapped: bool) -> SockAddr {
    match peer {
        SocketAddr::V4(v4) if mapped => {
            SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()).into()
        }
        other => other.into(),
    }
}
