//! System calls that no library offers in the form needed here: datagrams in batches, with the
//! address they were sent to. The only module with `unsafe`.

#![allow(unsafe_code)]

mod batch;
mod control;
mod outgoing;
mod replies;
mod tun;

pub(crate) use batch::Batch;
pub(crate) use outgoing::{Outgoing, Sender};
pub(crate) use replies::{REPLIES, Replies};
pub(crate) use tun::attach as attach_tun;

use libc::{c_int, socklen_t};
use std::io;
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

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

/// Closes the file that `fd` stands for, whoever may use it at this moment, and puts that of `other` in its
/// place. The descriptor stays its owner's. No further descriptor is needed.
pub(crate) fn replace(fd: impl AsFd, other: impl AsFd) -> io::Result<()> {
    let (other, fd) = (other.as_fd().as_raw_fd(), fd.as_fd().as_raw_fd());
    // SAFETY: both descriptors are open, and `fd` is one afterwards, for its owner to close.
    let result = unsafe { libc::dup3(other, fd, libc::O_CLOEXEC) };
    if result == fd { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// How many of the octets written into a TCP connection the other side has not acknowledged.
pub(crate) fn unacknowledged(stream: impl AsFd) -> Option<u64> {
    let mut octets: c_int = 0;
    let fd = stream.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open, and the kernel writes one live integer.
    let result = unsafe { libc::ioctl(fd, libc::TIOCOUTQ, &raw mut octets) };
    u64::try_from(octets).ok().filter(|_| result == 0)
}

/// Makes the kernel say to which address each datagram was sent (RFC 3542 section 6.2).
pub(crate) fn report_packet_info(socket: impl AsFd, v6: bool) -> io::Result<()> {
    if v6 {
        set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)
    } else {
        set_option(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)
    }
}

/// Makes the kernel say that there is something to read only once so many octets have arrived, or the
/// other side has ended.
pub(crate) fn set_low_water(stream: impl AsFd, octets: usize) -> io::Result<()> {
    let octets = c_int::try_from(octets).unwrap_or(c_int::MAX);
    set_option(stream, libc::SOL_SOCKET, libc::SO_RCVLOWAT, octets)
}

/// Makes the kernel say when each datagram arrived.
pub(crate) fn report_stamps(socket: impl AsFd) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
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

/// Sends datagrams whole or not at all, whatever is believed of the path's MTU.
pub(crate) fn never_fragment(socket: impl AsFd, v6: bool) -> io::Result<()> {
    if v6 {
        let probe = libc::IPV6_PMTUDISC_PROBE;
        set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, probe)?;
    }
    set_option(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)
}

/// The process at the other end of a local socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its process ID in our namespace; 0 if it is not there.
    pub pid: u32,
    /// Its user's ID in our namespace.
    pub uid: u32,
}

/// Who connected a local socket, or listens at it.
///
/// # Errors
///
/// It is no such socket.
pub fn peer(socket: impl AsFd) -> io::Result<Peer> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of_val(&credentials) as socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open, and the kernel writes at most `len` octets to a live struct
    // of that length, all of whose values are allowed.
    let result = unsafe {
        let place = (&raw mut credentials).cast();
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, place, &raw mut len)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Peer { pid: u32::try_from(credentials.pid).unwrap_or(0), uid: credentials.uid })
}

/// Takes what is open as standard input, and leaves `/dev/null` in its place: programs that this
/// process starts must not inherit a connection that was passed to it that way.
///
/// # Errors
///
/// No descriptor is free, or nothing is open there.
pub fn take_stdin() -> io::Result<OwnedFd> {
    let taken = io::stdin().as_fd().try_clone_to_owned()?;
    let nothing = std::fs::File::open("/dev/null")?;
    // SAFETY: both descriptors are open; the second is standard input, which nothing in this process
    // owns and which stays open.
    let result = unsafe { libc::dup2(nothing.as_raw_fd(), libc::STDIN_FILENO) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(taken) }
}

/// Lets a socket be bound to, and send from, an address that no interface has. Needs
/// `CAP_NET_ADMIN`.
pub(crate) fn set_transparent(socket: impl AsFd, v6: bool) -> io::Result<()> {
    if v6 {
        set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT, 1)
    } else {
        set_option(socket, libc::IPPROTO_IP, libc::IP_TRANSPARENT, 1)
    }
}

/// Lets a socket be bound to an address that no interface has.
pub(crate) fn set_free_bind(socket: impl AsFd, v6: bool) -> io::Result<()> {
    if v6 {
        set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_FREEBIND, 1)
    } else {
        set_option(socket, libc::IPPROTO_IP, libc::IP_FREEBIND, 1)
    }
}

/// How the kernel schedules the calling thread (`sched_getattr`).
pub(crate) fn scheduling() -> io::Result<libc::sched_attr> {
    let mut attributes = libc::sched_attr {
        size: 0,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    let len = size_of::<libc::sched_attr>() as libc::c_uint;
    // SAFETY: the kernel writes at most `len` octets to a live structure of that length, whose
    // fields may have any value.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, len, 0 as libc::c_uint)
    };
    if result == 0 { Ok(attributes) } else { Err(io::Error::last_os_error()) }
}

/// Lets the calling thread run for `slice_ns` at a time where it shares its CPU
/// (`sched_setattr`), and leaves the rest of how it is scheduled as it is.
pub(crate) fn set_slice(slice_ns: u64) -> io::Result<()> {
    let attributes = libc::sched_attr { sched_runtime: slice_ns, ..scheduling()? };
    // SAFETY: the kernel reads a live structure of the length that the structure states.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0 as libc::c_uint)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives the kernel back what the allocator keeps free in whole pages (`malloc_trim(3)`). Other C
/// libraries than glibc do so by themselves or not at all.
pub(crate) fn trim_heap() {
    // SAFETY: it takes the allocator's own locks and changes nothing that is in use.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Has the allocator map each block of at least so many octets by itself (`mallopt(3)`), whatever
/// was freed before. Other C libraries than glibc do so from a size of their own.
pub(crate) fn map_blocks_from(octets: usize) {
    let octets = c_int::try_from(octets).unwrap_or(c_int::MAX);
    // SAFETY: it takes the allocator's own locks and changes nothing that is in use.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, octets);
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = octets;
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
    use crate::limits::REQUEST_LEN_MAX;
    use std::net::{IpAddr, SocketAddr, UdpSocket};

    fn receive_all(batch: &mut Batch, socket: &UdpSocket, wanted: usize) -> usize {
        for _ in 0..1000 {
            match batch.receive(socket, true) {
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
            report_stamps(&server).unwrap();
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
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            let stamp = std::time::Duration::from_nanos(batch.stamp().unwrap());
            assert!(now.abs_diff(stamp) < std::time::Duration::from_secs(60), "{stamp:?}");
            assert!(batch.datagram(1).unwrap().cut);
            assert!(batch.datagram(2).is_none());
            assert_eq!(batch.answer(&server, &[b"1".to_vec(), b"22".to_vec()], &[0, 1]), 0);
            let mut got = [0; 16];
            for len in [1, 2] {
                let (n, from) = client.recv_from(&mut got).unwrap();
                assert_eq!((n, from), (len, SocketAddr::new(asked, port)));
            }
            let later = |wire: &[u8]| Outgoing {
                wire: wire.to_vec(),
                peer: Some(client.local_addr().unwrap()),
                source: Some(asked),
            };
            let answers = [later(b"333"), later(&[0; 70_000]), later(b"4444")];
            let mut lost = Vec::new();
            Sender::new().send_all(&server, &answers, v6, |place, _| lost.push(place));
            assert_eq!(lost, [1]);
            for len in [3, 4] {
                let got = client.recv_from(&mut got).unwrap();
                assert_eq!(got, (len, SocketAddr::new(asked, port)));
            }
            let empty = batch.receive(&server, true).unwrap_err();
            assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
        }
    }

    #[test]
    fn datagrams_from_a_peer_come_several_at_a_time_and_whole() {
        let [a, b] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        a.connect(b.local_addr().unwrap()).unwrap();
        b.connect(a.local_addr().unwrap()).unwrap();
        let mut lens: Vec<usize> = (0..REPLIES + 3).map(|n| n * 50).collect();
        lens[5] = 60_000;
        let message = |len: &usize| Outgoing { wire: vec![7; *len], peer: None, source: None };
        let messages: Vec<Outgoing> = lens.iter().map(message).collect();
        let mut sender = Sender::new();
        for messages in messages.chunks(3) {
            sender.send_all(&a, messages, false, |_, error| panic!("{error}"));
        }
        let mut replies = Replies::new();
        let mut got = Vec::new();
        while let Ok(count) = replies.receive(&b) {
            assert!(count <= REPLIES);
            got.extend((0..count).map(|index| replies.get(index).len()));
        }
        assert_eq!(got, lens);
    }

    #[test]
    fn the_path_mtu_can_be_ignored_by_sockets_of_both_families() {
        for (bind, v6) in [("127.0.0.1:0", false), ("[::1]:0", true), ("[::]:0", true)] {
            ignore_path_mtu(UdpSocket::bind(bind).unwrap(), v6).unwrap();
            never_fragment(UdpSocket::bind(bind).unwrap(), v6).unwrap();
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
        report_stamps(&server).unwrap();
        for _ in 0..3 {
            client.send_to(b"?", server.local_addr().unwrap()).unwrap();
        }
        let mut batch = Batch::new();
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert_eq!(batch.receive(&server, false).unwrap(), 3);
        assert!(batch.stamp().is_some());
        let answers = [b"a".to_vec(), vec![0; 70_000], b"c".to_vec()];
        assert_eq!(batch.answer(&server, &answers, &[0, 1, 2]), 1);
        let mut got = [0; 4];
        for expected in [b"a", b"c"] {
            assert_eq!(client.recv(&mut got).unwrap(), 1);
            assert_eq!(&got[..1], expected);
        }
    }
}
