//! System calls that no library offers in the form needed here: datagrams in batches, with the
//! address they were sent to. The only module with `unsafe`.

#![allow(unsafe_code)]

use crate::limits::{BATCH, REQUEST_LEN_MAX};
use libc::{c_int, c_void, iovec, mmsghdr, msghdr, sockaddr_in, sockaddr_in6, socklen_t};
use std::io;
use std::mem::{offset_of, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::{self, NonNull};

/// Room for one control message with either kind of packet information.
const CONTROL_LEN: usize = 64;

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL_LEN]);

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
            unsafe { Self::describe(storage.as_ptr(), index) };
        }
        Self { storage, filled: 0 }
    }

    /// Writes the description of receive buffer `index`.
    ///
    /// # Safety
    /// `storage` must be live, and `index` below [`BATCH`].
    unsafe fn describe(storage: *mut Storage, index: usize) {
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
            (*header).msg_controllen = CONTROL_LEN;
            (*header).msg_flags = 0;
        }
    }

    /// Takes the datagrams that are there, at most [`BATCH`]; never waits.
    pub(crate) fn receive(&mut self, socket: impl AsFd) -> io::Result<usize> {
        for index in 0..self.filled {
            // SAFETY: `self.storage` lives as long as `self`; `filled` is at most `BATCH`.
            unsafe { Self::describe(self.storage.as_ptr(), index) };
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
            (*header).msg_controllen = (*received).msg_controllen.min(CONTROL_LEN);
            (*header).msg_control = if (*header).msg_controllen == 0 {
                ptr::null_mut()
            } else {
                (*received).msg_control
            };
            (*header).msg_flags = 0;
            let len = (*header).msg_controllen;
            strip_interface(&mut (*storage).controls[index], len);
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `Box::leak` in `new` and is not used after this.
        drop(unsafe { Box::from_raw(self.storage.as_ptr()) });
    }
}

/// Header of a control message, as read from its octets.
fn control_header(control: &Control, len: usize) -> Option<(c_int, c_int, usize)> {
    let octets = control.0.get(..len)?;
    let field = |at: usize| -> Option<[u8; 4]> { octets.get(at..at + 4)?.try_into().ok() };
    let level = c_int::from_ne_bytes(field(offset_of!(libc::cmsghdr, cmsg_level))?);
    let kind = c_int::from_ne_bytes(field(offset_of!(libc::cmsghdr, cmsg_type))?);
    Some((level, kind, CONTROL_DATA))
}

/// Where the data of a control message starts: the header's length is a multiple of its
/// alignment on every Linux target.
const CONTROL_DATA: usize = size_of::<libc::cmsghdr>();
const _: () = assert!(CONTROL_DATA.is_multiple_of(align_of::<usize>()));
const _: () = assert!(CONTROL_DATA + size_of::<libc::in6_pktinfo>() <= CONTROL_LEN);

/// The address a datagram was sent to, from its control message.
fn read_packet_info(control: &Control, len: usize) -> Option<IpAddr> {
    let (level, kind, data) = control_header(control, len)?;
    match (level, kind) {
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            let at = data + offset_of!(libc::in_pktinfo, ipi_spec_dst);
            let octets: [u8; 4] = control.0.get(at..at + 4)?.try_into().ok()?;
            Some(IpAddr::from(octets))
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            let at = data + offset_of!(libc::in6_pktinfo, ipi6_addr);
            let octets: [u8; 16] = control.0.get(at..at + 16)?.try_into().ok()?;
            Some(IpAddr::from(octets).to_canonical())
        }
        _ => None,
    }
}

/// Turns received packet information into that of the answer: from the same address, but over
/// whichever interface the routes say, unless the address means something only on one interface.
fn strip_interface(control: &mut Control, len: usize) {
    let Some((level, kind, data)) = control_header(control, len) else { return };
    let local = read_packet_info(control, len);
    let at = match (level, kind) {
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => data + offset_of!(libc::in_pktinfo, ipi_ifindex),
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            if matches!(local, Some(IpAddr::V6(ip)) if ip.is_unicast_link_local()) {
                return;
            }
            data + offset_of!(libc::in6_pktinfo, ipi6_ifindex)
        }
        _ => return,
    };
    if let Some(interface) = control.0.get_mut(at..at + 4) {
        interface.fill(0);
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

/// Sends one datagram to `peer`, from `source` if that is given. `mapped`: the socket is an IPv6
/// one, which writes IPv4 addresses as `::ffff:a.b.c.d`.
pub(crate) fn send_to(
    socket: impl AsFd,
    octets: &[u8],
    peer: SocketAddr,
    source: Option<IpAddr>,
    mapped: bool,
) -> io::Result<()> {
    let peer: socket2::SockAddr = match peer {
        SocketAddr::V4(v4) if mapped => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
        other => other,
    }
    .into();
    let mut control = Control([0; CONTROL_LEN]);
    let scope = peer.as_socket_ipv6().map_or(0, |peer| peer.scope_id());
    let control_len = source.map_or(0, |ip| write_packet_info(&mut control, ip, scope, mapped));
    let mut part = iovec { iov_base: octets.as_ptr().cast_mut().cast(), iov_len: octets.len() };
    // SAFETY: all zeros is a valid `msghdr`.
    let mut header: msghdr = unsafe { std::mem::zeroed() };
    header.msg_name = peer.as_ptr().cast_mut().cast::<c_void>();
    header.msg_namelen = peer.len();
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    if control_len > 0 {
        header.msg_control = (&raw mut control).cast();
        header.msg_controllen = control_len;
    }
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open, and the header points to live buffers of the lengths it
    // states; the kernel only reads them.
    let sent = unsafe { libc::sendmsg(fd, &raw const header, libc::MSG_DONTWAIT) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Writes packet information for a datagram from `ip`; gives the length of the control buffer.
fn write_packet_info(control: &mut Control, ip: IpAddr, scope: u32, mapped: bool) -> usize {
    let (level, kind, len) = match ip {
        IpAddr::V4(_) if !mapped => {
            (libc::IPPROTO_IP, libc::IP_PKTINFO, size_of::<libc::in_pktinfo>())
        }
        _ => (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, size_of::<libc::in6_pktinfo>()),
    };
    let mut put = |at: usize, octets: &[u8]| {
        if let Some(place) = control.0.get_mut(at..at + octets.len()) {
            place.copy_from_slice(octets);
        }
    };
    put(offset_of!(libc::cmsghdr, cmsg_len), &(CONTROL_DATA + len).to_ne_bytes());
    put(offset_of!(libc::cmsghdr, cmsg_level), &level.to_ne_bytes());
    put(offset_of!(libc::cmsghdr, cmsg_type), &kind.to_ne_bytes());
    match ip {
        IpAddr::V4(ip) if !mapped => {
            put(CONTROL_DATA + offset_of!(libc::in_pktinfo, ipi_spec_dst), &ip.octets());
        }
        IpAddr::V4(ip) => {
            let at = CONTROL_DATA + offset_of!(libc::in6_pktinfo, ipi6_addr);
            put(at, &ip.to_ipv6_mapped().octets());
        }
        IpAddr::V6(ip) => {
            put(CONTROL_DATA + offset_of!(libc::in6_pktinfo, ipi6_addr), &ip.octets());
            let at = CONTROL_DATA + offset_of!(libc::in6_pktinfo, ipi6_ifindex);
            put(at, &scope.to_ne_bytes());
        }
    }
    (CONTROL_DATA + len).next_multiple_of(align_of::<usize>())
}

/// How many datagrams the kernel has dropped because the socket's receive buffer was full.
pub(crate) fn dropped(socket: impl AsFd) -> Option<u32> {
    // The fields of `SO_MEMINFO`, of which the ninth is `SK_MEMINFO_DROPS`.
    let mut fields = [0u32; 9];
    let mut len = size_of_val(&fields) as socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open, and the kernel writes at most `len` octets to a live array
    // of that length.
    let result = unsafe {
        let place = (&raw mut fields).cast();
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_MEMINFO, place, &raw mut len)
    };
    let whole = result == 0 && len as usize == size_of_val(&fields);
    fields.last().copied().filter(|_| whole)
}

/// Makes the kernel say to which address each datagram was sent (RFC 3542 section 6.2).
pub(crate) fn report_packet_info(socket: impl AsFd, v6: bool) -> io::Result<()> {
    if v6 {
        set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)
    } else {
        set_option(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)
    }
}

/// Makes the kernel disbelieve ICMP messages about the path's MTU: whoever forges them could have
/// answers cut into fragments, of which one is then replaced.
pub(crate) fn ignore_path_mtu(socket: impl AsFd, v6: bool) -> io::Result<()> {
    if v6 {
        let omit = libc::IPV6_PMTUDISC_OMIT;
        set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, omit)?;
    }
    // An IPv6 socket may serve IPv4 too.
    set_option(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_OMIT)
}

fn set_option(socket: impl AsFd, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open, and the value is a live integer of the length stated.
    let result = unsafe {
        let len = size_of::<c_int>() as socklen_t;
        libc::setsockopt(fd, level, name, (&raw const value).cast(), len)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    fn receive_all(batch: &mut Batch, socket: &UdpSocket, wanted: usize) -> usize {
        for _ in 0..1000 {
            match batch.receive(socket) {
                Ok(n) if n >= wanted => return n,
                _ => std::thread::sleep(std::time::Duration::from_millis(1)),
            }
        }
        panic!("no datagram");
    }

    #[test]
    fn a_batch_is_answered_from_the_addresses_asked() {
        for (bind, asked) in
            [("0.0.0.0:0", "127.0.0.77"), ("[::]:0", "::1"), ("[::]:0", "127.0.0.78")]
        {
            let server = UdpSocket::bind(bind).unwrap();
            let v6 = server.local_addr().unwrap().is_ipv6();
            report_packet_info(&server, v6).unwrap();
            let port = server.local_addr().unwrap().port();
            let asked: IpAddr = asked.parse().unwrap();
            let client = UdpSocket::bind(if asked.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" });
            let client = client.unwrap();
            client.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
            client.send_to(b"one", (asked, port)).unwrap();
            client.send_to(&[7; REQUEST_LEN_MAX + 1], (asked, port)).unwrap();
            let mut batch = Batch::new();
            std::thread::sleep(std::time::Duration::from_millis(5));
            assert_eq!(receive_all(&mut batch, &server, 2), 2);
            let first = batch.datagram(0).unwrap();
            assert_eq!(first.peer, Some(client.local_addr().unwrap()));
            assert_eq!((first.local, first.octets, first.cut), (Some(asked), &b"one"[..], false));
            assert!(batch.datagram(1).unwrap().cut);
            assert!(batch.datagram(2).is_none());
            assert_eq!(batch.answer(&server, &[b"1".to_vec(), b"22".to_vec()], &[0, 1]), 0);
            let mut got = [0; 16];
            for len in [1, 2] {
                let (n, from) = client.recv_from(&mut got).unwrap();
                assert_eq!((n, from), (len, SocketAddr::new(asked, port)));
            }
            send_to(&server, b"333", client.local_addr().unwrap(), Some(asked), v6).unwrap();
            assert_eq!(client.recv_from(&mut got).unwrap(), (3, SocketAddr::new(asked, port)));
            let empty = batch.receive(&server).unwrap_err();
            assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
        }
    }

    #[test]
    fn the_path_mtu_can_be_ignored_by_sockets_of_both_families() {
        for (bind, v6) in [("127.0.0.1:0", false), ("[::1]:0", true), ("[::]:0", true)] {
            ignore_path_mtu(UdpSocket::bind(bind).unwrap(), v6).unwrap();
        }
    }

    #[test]
    fn the_kernel_says_what_it_dropped() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(dropped(&server), Some(0));
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..2000 {
            client.send_to(&[0; 1000], server.local_addr().unwrap()).unwrap();
        }
        assert!(dropped(&server).unwrap() > 0);
    }

    #[test]
    fn an_answer_that_cannot_be_sent_does_not_hold_up_the_others() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        for _ in 0..3 {
            client.send_to(b"?", server.local_addr().unwrap()).unwrap();
        }
        let mut batch = Batch::new();
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert_eq!(receive_all(&mut batch, &server, 3), 3);
        let answers = [b"a".to_vec(), vec![0; 70_000], b"c".to_vec()];
        assert_eq!(batch.answer(&server, &answers, &[0, 1, 2]), 1);
        let mut got = [0; 4];
        for expected in [b"a", b"c"] {
            assert_eq!(client.recv(&mut got).unwrap(), 1);
            assert_eq!(&got[..1], expected);
        }
    }
}
