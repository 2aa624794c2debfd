//! Many datagrams per system call.

mod segments;

use segments::Segmented;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Octets of control data of one received datagram, in words: enough for a time stamp.
const CONTROL_WORDS: usize = 8;

/// The address of the sender of a datagram.
#[derive(Clone, Copy)]
pub struct Peer {
    address: libc::sockaddr_storage,
    len: libc::socklen_t,
}

/// Buffers for up to `capacity` datagrams, sent or received together.
///
/// With peer addresses it serves an unconnected socket: what was received can be changed in place
/// and sent back to where it came from.
pub struct Batch {
    buffers: Vec<u8>,
    buffer_len: usize,
    lens: Vec<usize>,
    /// Addresses of the peers; empty for a connected socket.
    peers: Vec<libc::sockaddr_storage>,
    peer_lens: Vec<libc::socklen_t>,
    vectors: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    /// Room for what the kernel says about each datagram; empty if not wanted.
    controls: Vec<[u64; CONTROL_WORDS]>,
    stamps: Vec<Option<Duration>>,
    /// What datagrams need that leave as segments.
    segmented: Segmented,
    used: usize,
    /// Headers from here on are as a receive needs them: they were not used since the last one.
    touched: usize,
}

impl Batch {
    /// A batch for a connected socket: `capacity` datagrams of up to `buffer_len` octets.
    pub fn connected(capacity: usize, buffer_len: usize) -> Self {
        Self::new(capacity, buffer_len, 0)
    }

    /// A batch for an unconnected socket, which keeps the address of each peer.
    pub fn with_peers(capacity: usize, buffer_len: usize) -> Self {
        Self::new(capacity, buffer_len, capacity)
    }

    fn new(capacity: usize, buffer_len: usize, peers: usize) -> Self {
        // SAFETY: these are plain structures of the C library, for which all zeroes is a valid
        // value: null pointers with zero lengths, and an address of the unspecified family.
        let (vector, header, peer) = unsafe { (mem::zeroed(), mem::zeroed(), mem::zeroed()) };
        Self {
            buffers: vec![0; capacity * buffer_len],
            buffer_len,
            lens: vec![0; capacity],
            peers: vec![peer; peers],
            peer_lens: vec![0; peers],
            vectors: vec![vector; capacity],
            headers: vec![header; capacity],
            controls: Vec::new(),
            stamps: Vec::new(),
            segmented: Segmented::default(),
            used: 0,
            touched: capacity,
        }
    }

    /// Keeps the kernel's arrival time of each datagram, from a socket that
    /// [`crate::socket::stamp_arrivals`] has asked for them.
    #[must_use]
    pub fn with_stamps(mut self) -> Self {
        self.controls = vec![[0; CONTROL_WORDS]; self.lens.len()];
        self.stamps = vec![None; self.lens.len()];
        self.touched = self.lens.len();
        self
    }

    /// When datagram `at` reached the socket, by the wall clock since the Unix epoch; `None` if the
    /// kernel did not say.
    pub fn stamp(&self, at: usize) -> Option<Duration> {
        self.stamps.get(at).copied().flatten().filter(|_| at < self.used)
    }

    /// Who sent datagram `at`; `None` for a connected socket.
    pub fn peer(&self, at: usize) -> Option<Peer> {
        let (address, len) = (*self.peers.get(at)?, *self.peer_lens.get(at)?);
        (at < self.used).then_some(Peer { address, len })
    }

    /// As [`Batch::push`], to `peer`; the batch must have been made with peers.
    pub fn push_to(&mut self, datagram: &[u8], peer: &Peer) -> bool {
        let at = self.used;
        if at >= self.peers.len() || !self.push(datagram) {
            return false;
        }
        if let (Some(address), Some(len)) = (self.peers.get_mut(at), self.peer_lens.get_mut(at)) {
            (*address, *len) = (peer.address, peer.len);
        }
        true
    }

    /// How many datagrams are in the batch.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether there is no datagram in the batch.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Whether no further datagram fits.
    pub fn is_full(&self) -> bool {
        self.used == self.lens.len()
    }

    /// Forgets all datagrams.
    pub fn clear(&mut self) {
        self.used = 0;
    }

    /// The octets of datagram `at`; empty if there is none.
    pub fn get(&self, at: usize) -> &[u8] {
        let len = self.lens.get(at).copied().filter(|_| at < self.used).unwrap_or(0);
        let start = at.saturating_mul(self.buffer_len);
        self.buffers.get(start..start.saturating_add(len)).unwrap_or_default()
    }

    /// The octets of datagram `at` for changing in place; empty if there is none.
    pub fn get_mut(&mut self, at: usize) -> &mut [u8] {
        let len = self.lens.get(at).copied().filter(|_| at < self.used).unwrap_or(0);
        let start = at.saturating_mul(self.buffer_len);
        self.buffers.get_mut(start..start.saturating_add(len)).unwrap_or_default()
    }

    /// Appends a datagram; false if the batch is full or `datagram` too long.
    pub fn push(&mut self, datagram: &[u8]) -> bool {
        let start = self.used * self.buffer_len;
        let fits = datagram.len() <= self.buffer_len;
        let (Some(len), Some(buffer), true) = (
            self.lens.get_mut(self.used),
            self.buffers.get_mut(start..start.saturating_add(datagram.len())),
            fits,
        ) else {
            return false;
        };
        buffer.copy_from_slice(datagram);
        *len = datagram.len();
        self.used += 1;
        true
    }

    /// Puts `datagram` in the place of datagram `at`; false if there is none or it does not fit.
    pub fn replace(&mut self, at: usize, datagram: &[u8]) -> bool {
        let start = at.saturating_mul(self.buffer_len);
        let fits = at < self.used && datagram.len() <= self.buffer_len;
        let buffer = self.buffers.get_mut(start..start.saturating_add(datagram.len()));
        let (Some(buffer), Some(len), true) = (buffer, self.lens.get_mut(at), fits) else {
            return false;
        };
        buffer.copy_from_slice(datagram);
        *len = datagram.len();
        true
    }

    /// Makes datagram `at` longer, as far as there is room, and gives it for changing in place: what stands behind its former end
    /// is what an earlier datagram had there.
    pub fn lengthen(&mut self, at: usize, octets: usize) -> &mut [u8] {
        let most = octets.min(self.buffer_len);
        self.len_of(at).into_iter().for_each(|len| *len = most.max(*len));
        self.get_mut(at)
    }

    /// Leaves datagram `at` its first octets.
    pub fn shorten(&mut self, at: usize, octets: usize) {
        self.len_of(at).into_iter().for_each(|len| *len = octets.min(*len));
    }

    fn len_of(&mut self, at: usize) -> Option<&mut usize> {
        self.lens.get_mut(at).filter(|_| at < self.used)
    }

    /// Drops datagram `at`; the last one takes its place.
    pub fn swap_remove(&mut self, at: usize) {
        let Some(last) = self.used.checked_sub(1).filter(|last| at <= *last) else { return };
        let (from, to) = (last * self.buffer_len, at * self.buffer_len);
        let len = self.lens.get(last).copied().unwrap_or(0);
        self.buffers.copy_within(from..from + len, to);
        self.lens.swap(at, last);
        if !self.peers.is_empty() {
            self.peers.swap(at, last);
            self.peer_lens.swap(at, last);
        }
        if !self.stamps.is_empty() {
            self.stamps.swap(at, last);
        }
        self.used = last;
    }

    /// Receives what is there, without waiting; the batch then holds exactly that.
    ///
    /// Errors are those of `recvmmsg`, `WouldBlock` if nothing is there. A datagram longer than a
    /// buffer is cut.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        self.used = 0;
        let capacity = self.lens.len();
        self.point_headers(0, self.touched, Direction::Receive);
        // SAFETY: `headers` holds `capacity` headers, each of which `point_headers` has pointed, now
        // or before an earlier call that left it alone, at its own buffer of `buffer_len` octets, at
        // its own vector and (if any) at its own address and control words. All of them are on the
        // heap, never reallocated, and owned by `self`, which is borrowed mutably during the call.
        let received = crate::check(libc::c_long::from(unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                capacity as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        }));
        // The kernel writes to the headers of what it hands over; with nothing there, to none. After
        // other errors all of them are pointed again.
        self.touched = match &received {
            Ok(received) => *received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(_) => capacity,
        };
        let received = received?;
        for ((len, header), at) in self.lens.iter_mut().zip(&self.headers).zip(0..received) {
            *len = (header.msg_len as usize).min(self.buffer_len);
            if let Some(peer_len) = self.peer_lens.get_mut(at) {
                *peer_len = header.msg_hdr.msg_namelen;
            }
            if let Some(stamp) = self.stamps.get_mut(at) {
                *stamp = arrival(&header.msg_hdr);
            }
        }
        self.used = received;
        Ok(received)
    }

    /// Sends the datagrams from `first` on, without waiting, and says how many were taken.
    ///
    /// An error concerns datagram `first`; one that concerns a later datagram shows in the next call.
    pub fn send(&mut self, socket: BorrowedFd<'_>, first: usize) -> io::Result<usize> {
        let Some(count) = self.used.checked_sub(first).filter(|count| *count > 0) else {
            return Ok(0);
        };
        self.point_headers(first, count, Direction::Send);
        self.touched = self.touched.max(first + count);
        // SAFETY: the headers were just pointed at buffers and addresses of `self`; `first + count` is `used`, which never exceeds the capacity.
        crate::check(libc::c_long::from(unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr().add(first),
                count as libc::c_uint,
                libc::MSG_DONTWAIT as _,
            )
        }))
    }

    /// As [`Batch::send`], where neighbours of equal length leave as segments of one datagram
    /// (`UDP_SEGMENT`): the kernel walks its send path once for them and the receiver still gets single
    /// datagrams.
    ///
    /// For a connected socket. Kernels and interfaces without it fail with `EIO`, `EINVAL` or
    /// `ENOPROTOOPT`.
    pub fn send_segments(&mut self, socket: BorrowedFd<'_>, first: usize) -> io::Result<usize> {
        let Some(count) = self.used.checked_sub(first).filter(|count| *count > 0) else {
            return Ok(0);
        };
        self.point_headers(first, count, Direction::Send);
        self.touched = self.touched.max(first + count);
        let lens = self.lens.get(first..self.used).unwrap_or_default();
        let vectors = self.vectors.get_mut(first..self.used).unwrap_or_default();
        self.segmented.send(socket, lens, vectors)
    }

    /// Fills in `count` headers from `first` on.
    fn point_headers(&mut self, first: usize, count: usize, direction: Direction) {
        let buffers = self.buffers.chunks_mut(self.buffer_len);
        let rows =
            buffers.zip(&mut self.vectors).zip(&mut self.headers).zip(&self.lens).enumerate();
        for (at, (((buffer, vector), header), len)) in rows.skip(first).take(count) {
            vector.iov_base = buffer.as_mut_ptr().cast();
            vector.iov_len = match direction {
                Direction::Receive => buffer.len(),
                Direction::Send => *len,
            };
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            if let (Some(peer), Some(peer_len)) = (self.peers.get_mut(at), self.peer_lens.get(at)) {
                header.msg_hdr.msg_name = std::ptr::from_mut(peer).cast();
                header.msg_hdr.msg_namelen = match direction {
                    Direction::Receive => mem::size_of::<libc::sockaddr_storage>() as _,
                    Direction::Send => *peer_len,
                };
            }
            if let (Some(control), Direction::Receive) = (self.controls.get_mut(at), direction) {
                header.msg_hdr.msg_control = control.as_mut_ptr().cast();
                header.msg_hdr.msg_controllen = mem::size_of_val(control) as _;
            } else if !self.controls.is_empty() {
                header.msg_hdr.msg_control = std::ptr::null_mut();
                header.msg_hdr.msg_controllen = 0;
            }
        }
    }
}

/// The arrival time among what the kernel says about a datagram, since the Unix epoch.
fn arrival(header: &libc::msghdr) -> Option<Duration> {
    // SAFETY: the kernel has filled in the control words and their length, and they live as long as
    // `header` is borrowed; each macro stays within that length.
    let mut message = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !message.is_null() {
        // SAFETY: the macros return null or a whole control header inside the control words.
        let (level, kind) = unsafe { ((*message).cmsg_level, (*message).cmsg_type) };
        if level == libc::SOL_SOCKET && kind == libc::SCM_TIMESTAMPNS {
            // SAFETY: the data of this kind is one `timespec`; it may not be aligned for one.
            let time =
                unsafe { libc::CMSG_DATA(message).cast::<libc::timespec>().read_unaligned() };
            let seconds = u64::try_from(time.tv_sec).ok()?;
            return Some(Duration::new(seconds, u32::try_from(time.tv_nsec).ok()?));
        }
        // SAFETY: as above; `message` is inside the control words of `header`.
        message = unsafe { libc::CMSG_NXTHDR(header, message) };
    }
    None
}

#[derive(Clone, Copy)]
enum Direction {
    Receive,
    Send,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::time::SystemTime;

    #[test]
    fn a_batch_goes_there_and_back() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(server.local_addr().unwrap()).unwrap();
        let mut out = Batch::connected(4, 16);
        for text in [&b"one"[..], b"two", b"three", b"four"] {
            assert!(out.push(text));
        }
        assert!(!out.push(b"five") && out.is_full());
        assert_eq!(out.send(client.as_fd(), 1).unwrap(), 3);
        let mut served = Batch::with_peers(8, 16);
        server.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        server.peek(&mut [0]).unwrap();
        assert_eq!(served.receive(server.as_fd()).unwrap(), 3);
        served.get_mut(1)[0] = b'T';
        assert_eq!(served.send(server.as_fd(), 0).unwrap(), 3);
        client.peek(&mut [0]).unwrap();
        let mut back = Batch::connected(8, 4);
        assert_eq!(back.receive(client.as_fd()).unwrap(), 3);
        let texts: Vec<_> = (0..4).map(|at| back.get(at)).collect();
        assert_eq!(texts, [&b"two"[..], b"Thre", b"four", b""]);
        assert_eq!(back.receive(client.as_fd()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_batch_that_was_received_into_sent_and_received_into_again_is_whole() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let clients = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        for client in &clients {
            client.connect(server.local_addr().unwrap()).unwrap();
            client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        }
        server.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        crate::socket::stamp_arrivals(server.as_fd()).unwrap();
        let mut batch = Batch::with_peers(4, 16).with_stamps();
        assert!(batch.receive(server.as_fd()).is_err(), "nothing is there yet");
        for round in 0..20_u8 {
            // Longer and shorter, more and fewer than in the round before, from either client.
            let count = 1 + usize::from(round * 7 % 4);
            let text = |at: usize| vec![round; 1 + (at * 5 + usize::from(round)) % 16];
            let client = |at: usize| &clients[(at + usize::from(round)) % 2];
            (0..count).for_each(|at| _ = client(at).send(&text(at)).unwrap());
            server.peek(&mut [0]).unwrap();
            assert_eq!(batch.receive(server.as_fd()).unwrap(), count);
            assert!((0..count).all(|at| batch.get(at) == text(at) && batch.stamp(at).is_some()));
            assert_eq!(batch.send(server.as_fd(), 0).unwrap(), count);
            for at in 0..count {
                let mut got = [0; 16];
                let len = client(at).recv(&mut got).unwrap();
                assert_eq!(got[..len], text(at));
            }
        }
    }

    #[test]
    fn a_dropped_datagram_is_replaced_by_the_last() {
        let mut batch = Batch::connected(3, 8);
        assert!(batch.push(b"one") && batch.push(b"three") && batch.push(b"five!"));
        batch.swap_remove(0);
        assert_eq!((batch.len(), batch.get(0), batch.get(1)), (2, &b"five!"[..], &b"three"[..]));
        batch.swap_remove(1);
        batch.swap_remove(9);
        assert!(!batch.replace(1, b"x") && !batch.replace(0, b"far too long"));
        assert_eq!((batch.len(), batch.get(0), batch.get(1)), (1, &b"five!"[..], &b""[..]));
    }

    #[test]
    fn arrivals_are_stamped_by_the_kernel_and_answers_find_their_way() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        crate::socket::stamp_arrivals(server.as_fd()).unwrap();
        server.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let clients = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let wall = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let before = wall();
        for (client, text) in clients.iter().zip([b"a", b"b"]) {
            client.connect(server.local_addr().unwrap()).unwrap();
            client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            client.send(text).unwrap();
        }
        server.peek(&mut [0]).unwrap();
        let mut batch = Batch::with_peers(4, 16).with_stamps();
        assert_eq!(batch.receive(server.as_fd()).unwrap(), 2);
        let stamps = [batch.stamp(0).unwrap(), batch.stamp(1).unwrap()];
        assert!(before <= stamps[0] && stamps[0] <= stamps[1] && stamps[1] <= wall());
        let peers = [batch.peer(0).unwrap(), batch.peer(1).unwrap()];
        assert!(batch.peer(2).is_none() && batch.stamp(2).is_none());
        batch.clear();
        assert!(batch.push_to(b"for b", &peers[1]) && batch.push_to(b"for a", &peers[0]));
        assert_eq!(batch.send(server.as_fd(), 0).unwrap(), 2);
        for (client, wanted) in clients.iter().zip([b"for a", b"for b"]) {
            let mut got = [0; 5];
            client.recv(&mut got).unwrap();
            assert_eq!(&got, wanted);
        }
        assert!(!Batch::connected(1, 8).push_to(b"x", &peers[0]));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut batch = Batch::connected(1, 2);
        assert!(!batch.push(b"abc") && batch.is_empty());
        assert!(batch.push(b"ab"));
        assert_eq!(batch.get(7), b"");
    }
}
