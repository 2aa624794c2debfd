//! Datagrams from an upstream, several at a time.

use libc::{iovec, mmsghdr};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

/// Datagrams taken by one system call.
pub(crate) const REPLIES: usize = 16;
/// The longest there can be.
const REPLY_LEN_MAX: usize = 1 << 16;

/// Room for datagrams of any length. Only what was ever written of it takes memory.
pub(crate) struct Replies {
    octets: Vec<u8>,
    lens: [usize; REPLIES],
}

impl Replies {
    pub(crate) fn new() -> Self {
        Self { octets: vec![0; REPLIES * REPLY_LEN_MAX], lens: [0; REPLIES] }
    }

    /// Takes the datagrams that are there, at most [`REPLIES`]; never waits.
    pub(crate) fn receive(&mut self, socket: impl AsFd) -> io::Result<usize> {
        // SAFETY: all zeros is a valid value of this structure of integers and pointers.
        let mut headers: [mmsghdr; REPLIES] = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let mut parts: [iovec; REPLIES] = unsafe { std::mem::zeroed() };
        let buffers = self.octets.chunks_exact_mut(REPLY_LEN_MAX);
        for ((header, part), buffer) in headers.iter_mut().zip(&mut parts).zip(buffers) {
            part.iov_base = buffer.as_mut_ptr().cast();
            part.iov_len = buffer.len();
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
        }
        let fd = socket.as_fd().as_raw_fd();
        // SAFETY: the descriptor is open; the headers were written above and point to live
        // buffers of the lengths they state, which nobody else refers to during the call.
        let received = unsafe {
            let headers = headers.as_mut_ptr();
            libc::recvmmsg(fd, headers, REPLIES as u32, libc::MSG_DONTWAIT, ptr::null_mut())
        };
        let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        for (len, header) in self.lens.iter_mut().zip(&headers) {
            *len = header.msg_len as usize;
        }
        Ok(received.min(REPLIES))
    }

    /// Datagram `index` of the last call.
    pub(crate) fn get(&self, index: usize) -> &[u8] {
        let len = self.lens.get(index).copied().unwrap_or(0);
        let start = index * REPLY_LEN_MAX;
        self.octets.get(start..start + len).unwrap_or_default()
    }
}
