//! Datagrams in batches.

use super::control::{
    CONTROL_LEN, Control, packet_info_at, read_packet_info, read_stamp, strip_interface,
};
use crate::limits::{BATCH, REQUEST_LEN_MAX};
use libc::{c_int, iovec, mmsghdr, sockaddr_in, sockaddr_in6, socklen_t};
use std::io;
use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::{self, NonNull};

/// Everything recvmmsg and sendmmsg read and write, at addresses that never change. All of it is
/// plain integers and pointers, for which all zeros is a valid value.
#[repr(C)]
struct Storage {
    received: [mmsghdr; BATCH],
    sent: [mmsghdr; BATCH],
    received_parts: [iovec; BATCH],
    sent_parts: [iovec; BATCH],
    /// `sockaddr_in6` is large enough for either family.
    peers: [sockaddr_in6; BATCH],
    controls: [Control; BATCH],
    data: [[u8; REQUEST_LEN_MAX]; BATCH],
}

/// A batch of datagrams received from clients, and the answers to it.
///
/// The kernel's descriptions of the buffers are written once; a batch of one datagram costs what
/// one datagram costs, and nothing is allocated.
pub(crate) struct Batch {
    storage: NonNull<Storage>,
    /// How many datagrams the last call gave; their descriptions have been written by the kernel.
    filled: usize,
    /// Whether there is room for control messages of every datagram, or of the first alone.
    all_controls: bool,
}

/// One datagram of a batch.
pub(crate) struct Datagram<'b> {
    /// Where it came from; `None` if the kernel names a family we know nothing of.
    pub(crate) peer: Option<SocketAddr>,
    /// The address it was sent to, if the socket was told to say so.
    pub(crate) local: Option<IpAddr>,
    /// The octets.
    pub(crate) octets: &'b [u8],
    /// Whether it was longer than there was room for.
    pub(crate) cut: bool,
}

impl Batch {
    pub(crate) fn new() -> Self {
        // SAFETY: all zeros is a valid value of every field of `Storage` (see there).
        let storage: Box<Storage> = unsafe { Box::new_zeroed().assume_init() };
        // The box is given up: from here on everything goes through the raw pointer, so that the
        // pointers stored inside stay valid.
        let storage = NonNull::from(Box::leak(storage));
        for index in 0..BATCH {
            // SAFETY: `storage` is a live allocation that only this function knows, and `index`
            // is within its arrays.
            unsafe { Self::describe(storage.as_ptr(), index, true) };
        }
        Self { storage, filled: 0, all_controls: true }
    }

    /// Writes the description of receive buffer `index`.
    ///
    /// # Safety
    /// `storage` must be live, and `index` below [`BATCH`].
    unsafe fn describe(storage: *mut Storage, index: usize, all_controls: bool) {
        // SAFETY: `storage` is live and `index` within its arrays, by the contract of this
        // function; only places are computed, no references are made.
        unsafe {
            let part = &raw mut (*storage).received_parts[index];
            (*part).iov_base = (&raw mut (*storage).data[index]).cast();
            (*part).iov_len = REQUEST_LEN_MAX;
            let header = &raw mut (*storage).received[index].msg_hdr;
            (*header).msg_name = (&raw mut (*storage).peers[index]).cast();
            (*header).msg_namelen = size_of::<sockaddr_in6>() as socklen_t;
            (*header).msg_iov = part;
            (*header).msg_iovlen = 1;
            (*header).msg_control = (&raw mut (*storage).controls[index]).cast();
            let has_control = all_controls || index == 0;
            (*header).msg_controllen = if has_control { CONTROL_LEN } else { 0 };
            (*header).msg_flags = 0;
        }
    }

    /// Takes the datagrams that are there, at most [`BATCH`]; never waits. With `locals` each has
    /// the address that it was sent to, if the socket was told to say so; only the first has its
    /// stamp without them, since the kernel takes time for each control message.
    pub(crate) fn receive(&mut self, socket: impl AsFd, locals: bool) -> io::Result<usize> {
        let changed = std::mem::replace(&mut self.all_controls, locals) != locals;
        for index in 0..if changed { BATCH } else { self.filled } {
            // SAFETY: `self.storage` lives as long as `self`; `index` is below `BATCH`.
            unsafe { Self::describe(self.storage.as_ptr(), index, locals) };
        }
        self.filled = 0;
        let fd = socket.as_fd().as_raw_fd();
        // SAFETY: the descriptor is open; the `BATCH` headers are valid and point to buffers of
        // the lengths they state, all inside the live storage, which nobody else refers to.
        let received = unsafe {
            let headers = (&raw mut (*self.storage.as_ptr()).received).cast::<mmsghdr>();
            libc::recvmmsg(fd, headers, BATCH as u32, libc::MSG_DONTWAIT, ptr::null_mut())
        };
        self.filled = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        self.filled = self.filled.min(BATCH);
        Ok(self.filled)
    }

    /// Datagram `index` of the last batch.
    pub(crate) fn datagram(&self, index: usize) -> Option<Datagram<'_>> {
        if index >= self.filled {
            return None;
        }
        // SAFETY: the storage is live and initialised, and shared borrows of parts of it end
        // before `self` is borrowed mutably again.
        let (header, peer, data, control) = unsafe {
            let storage = self.storage.as_ptr();
            let header: &mmsghdr = &(*storage).received[index];
            let peer: &sockaddr_in6 = &(*storage).peers[index];
            let data: &[u8; REQUEST_LEN_MAX] = &(*storage).data[index];
            let control: &Control = &(*storage).controls[index];
            (header, peer, data, control)
        };
        Some(Datagram {
            peer: read_address(peer),
            local: read_packet_info(control, header.msg_hdr.msg_controllen),
            octets: data.get(..header.msg_len as usize).unwrap_or(data),
            cut: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
        })
    }

    /// The octets of each datagram of the last batch.
    pub(crate) fn requests(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.filled).map(|index| {
            // SAFETY: as in `datagram`.
            let (header, data) = unsafe {
                let storage = self.storage.as_ptr();
                let header: &mmsghdr = &(*storage).received[index];
                let data: &[u8; REQUEST_LEN_MAX] = &(*storage).data[index];
                (header, data)
            };
            data.get(..header.msg_len as usize).unwrap_or(data)
        })
    }

    /// When the first datagram of the last batch arrived, in nanoseconds since 1970, if the socket
    /// was told to say so.
    pub(crate) fn stamp(&self) -> Option<u64> {
        if self.filled == 0 {
            return None;
        }
        // SAFETY: as in `datagram`.
        let (control, len) = unsafe {
            let storage = self.storage.as_ptr();
            let control: &Control = &(*storage).controls[0];
            (control, (*storage).received[0].msg_hdr.msg_controllen)
        };
        read_stamp(control, len)
    }

    /// Sends `answers[i]` back to where datagram `i` came from, from the address it was sent to,
    /// for each `i` in `answered`. Gives the number of answers the kernel did not take.
    pub(crate) fn answer(
        &mut self,
        socket: impl AsFd,
        answers: &[Vec<u8>],
        answered: &[usize],
    ) -> usize {
        let mut count = 0;
        for &index in answered {
            let Some(answer) = answers.get(index).filter(|_| index < self.filled) else { continue };
            if count >= BATCH {
                break;
            }
            // SAFETY: `index` and `count` are below `BATCH`, the storage is live; the answer is
            // only read by the kernel, before this function returns.
            unsafe { self.describe_answer(count, index, answer) };
            count += 1;
        }
        let (mut done, mut lost) = (0, 0);
        while done < count {
            let fd = socket.as_fd().as_raw_fd();
            // SAFETY: the headers from `done` to `count` were written above and point to live
            // buffers of the lengths they state.
            let sent = unsafe {
                let storage = self.storage.as_ptr();
                let headers = (&raw mut (*storage).sent).cast::<mmsghdr>().add(done);
                libc::sendmmsg(fd, headers, (count - done) as u32, libc::MSG_DONTWAIT)
            };
            match usize::try_from(sent) {
                Ok(sent) if sent > 0 => done += sent,
                _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                // The error is that of the first one; the others may still go out.
                _ => (done, lost) = (done + 1, lost + 1),
            }
        }
        lost
    }

    /// Describes answer number `count` of the batch, to datagram `index`.
    ///
    /// # Safety
    /// The storage must be live, both numbers below [`BATCH`], and `answer` must live until the
    /// description is used.
    unsafe fn describe_answer(&mut self, count: usize, index: usize, answer: &[u8]) {
        let storage = self.storage.as_ptr();
        // SAFETY: by the contract of this function; only places are computed and the control
        // buffer is borrowed for as long as `strip_interface` runs.
        unsafe {
            let received = &raw const (*storage).received[index].msg_hdr;
            let part = &raw mut (*storage).sent_parts[count];
            (*part).iov_base = answer.as_ptr().cast_mut().cast();
            (*part).iov_len = answer.len();
            let header = &raw mut (*storage).sent[count].msg_hdr;
            (*header).msg_name = (*received).msg_name;
            (*header).msg_namelen = (*received).msg_namelen;
            (*header).msg_iov = part;
            (*header).msg_iovlen = 1;
            let len = (*received).msg_controllen.min(CONTROL_LEN);
            let control = &mut (*storage).controls[index];
            strip_interface(control, len);
            // The stamp in front is nothing that can be sent.
            let at = packet_info_at(control, len);
            (*header).msg_controllen = len.saturating_sub(at);
            (*header).msg_control = if (*header).msg_controllen == 0 {
                ptr::null_mut()
            } else {
                (&raw mut (*storage).controls[index]).cast::<u8>().add(at).cast()
            };
            (*header).msg_flags = 0;
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `Box::leak` in `new` and is not used after this.
        drop(unsafe { Box::from_raw(self.storage.as_ptr()) });
    }
}

/// The address the kernel wrote.
fn read_address(raw: &sockaddr_in6) -> Option<SocketAddr> {
    match c_int::from(raw.sin6_family) {
        libc::AF_INET => {
            // SAFETY: the kernel wrote a `sockaddr_in`, which is smaller, has no stricter
            // alignment, and is valid for any octets.
            let raw = unsafe { &*ptr::from_ref(raw).cast::<sockaddr_in>() };
            let ip = Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(raw.sin_port))))
        }
        libc::AF_INET6 => {
            let ip = Ipv6Addr::from(raw.sin6_addr.s6_addr);
            let port = u16::from_be(raw.sin6_port);
            if let Some(ip) = ip.to_ipv4_mapped() {
                return Some(SocketAddr::V4(SocketAddrV4::new(ip, port)));
            }
            let (flow, scope) = (raw.sin6_flowinfo, raw.sin6_scope_id);
            Some(SocketAddr::V6(SocketAddrV6::new(ip, port, flow, scope)))
        }
        _ => None,
    }
}
