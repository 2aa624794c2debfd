//! Opening the sockets of listeners: all of them, or none.

use crate::limits::{
    BACKLOG, FREE_PORT_ATTEMPTS, RECEIVE_BUFFER, SOCKETS_PER_LISTENER_MAX, STREAM_RECEIVE_BUFFER,
    STREAM_SEND_BUFFER,
};
use crate::sys;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};

/// Why a listener could not be opened; worded as Go's `net` does.
#[derive(Debug, thiserror::Error)]
#[error(
    "listen {network} {address}: {call}: {}{}", crate::fault::errno_text(.source), advice(.source)
)]
pub struct ListenError {
    /// `udp` or `tcp`.
    pub network: &'static str,
    /// The address; `:53` for all addresses.
    pub address: String,
    /// The system call that failed.
    pub call: &'static str,
    /// Why.
    pub source: io::Error,
}

/// What would help, where the reason alone does not say it.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => " (such a port needs root or CAP_NET_BIND_SERVICE)",
        io::ErrorKind::AddrNotAvailable => " (no interface has this address)",
        _ => "",
    }
}

/// A listener that another process opened and passes on.
#[derive(Debug)]
pub struct InheritedListener {
    /// As in the configuration, so with port 0 where that stands there.
    pub address: SocketAddr,
    /// Its sockets, for UDP and for TCP.
    pub pairs: Vec<(OwnedFd, OwnedFd)>,
}

impl InheritedListener {
    /// The same sockets once more.
    ///
    /// # Errors
    ///
    /// No descriptor is free.
    pub fn try_clone(&self) -> io::Result<Self> {
        let pair =
            |(udp, tcp): &(OwnedFd, OwnedFd)| io::Result::Ok((udp.try_clone()?, tcp.try_clone()?));
        let pairs: io::Result<_> = self.pairs.iter().map(pair).collect();
        Ok(Self { address: self.address, pairs: pairs? })
    }
}

/// The sockets of one listener for one worker.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) worker: usize,
    pub(crate) udp: UdpSocket,
    pub(crate) tcp: TcpListener,
}

/// A listener whose sockets are open.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) pairs: Vec<Pair>,
    /// Where it really listens, with the port chosen where 0 was asked for.
    pub(crate) bound: SocketAddr,
}

/// Opens listeners, as the owner of the runtime wants them.
#[derive(Debug)]
pub(crate) struct Opener {
    pub(crate) workers: usize,
    /// Worker `i` runs on CPU `cpus[i]`, if workers are pinned.
    pub(crate) cpus: Option<Vec<usize>>,
    /// Addresses that may be bound although no interface has them.
    pub(crate) transparent: Vec<IpAddr>,
    /// What another process has opened, as far as nobody has asked for it.
    pub(crate) inherited: Vec<InheritedListener>,
}

impl Opener {
    /// `count` sockets for UDP and for TCP on `address`, spread over the workers. Inherited ones
    /// are taken as many as they are: each may have questions waiting in it, and more of them
    /// would get questions that are lost if whoever bequeathed them goes on after all.
    pub(crate) fn open(
        &mut self,
        address: SocketAddr,
        count: usize,
    ) -> Result<Opened, ListenError> {
        let inherited = self.inherited.iter().position(|listener| listener.address == address);
        let inherited = inherited.map(|place| self.inherited.remove(place));
        if let Some(opened) = inherited.and_then(|listener| self.take(listener)) {
            return Ok(opened);
        }
        match self.open_at(address, count) {
            // Without IPv6 all addresses are those of IPv4.
            Err(error) if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) && lacks_v6(&error) => {
                self.open_at(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port()), count)
            }
            result => result,
        }
    }

    /// Makes sockets that another process opened those of our workers.
    fn take(&self, listener: InheritedListener) -> Option<Opened> {
        let pairs = listener.pairs.into_iter().filter_map(|(udp, tcp)| {
            let fits = is_of(&udp, Type::DGRAM) && is_of(&tcp, Type::STREAM);
            fits.then(|| (UdpSocket::from(udp), TcpListener::from(tcp)))
        });
        let pairs = pairs.enumerate().map(|(number, (udp, tcp))| {
            let worker = number % self.workers.max(1);
            if let Some(cpu) = self.cpu(worker) {
                _ = SockRef::from(&udp).set_cpu_affinity(cpu);
                _ = SockRef::from(&tcp).set_cpu_affinity(cpu);
            }
            // An older version did not ask for them.
            _ = sys::report_stamps(&udp);
            Pair { worker, udp, tcp }
        });
        let pairs: Vec<Pair> = pairs.collect();
        let bound = pairs.first()?.udp.local_addr().ok()?;
        Some(Opened { pairs, bound })
    }

    pub(crate) fn cpu(&self, worker: usize) -> Option<usize> {
        self.cpus.as_ref().and_then(|cpus| cpus.get(worker)).copied()
    }

    fn open_at(&self, address: SocketAddr, count: usize) -> Result<Opened, ListenError> {
        let (first, bound) = self.open_first(address)?;
        let mut pairs = vec![first];
        pairs.extend(self.open_more(bound, 1, count)?);
        Ok(Opened { pairs, bound })
    }

    /// The sockets numbered `have` to `count` of a listener on `bound`.
    pub(crate) fn open_more(
        &self,
        bound: SocketAddr,
        have: usize,
        count: usize,
    ) -> Result<Vec<Pair>, ListenError> {
        let pair = |number: usize| {
            let worker = number % self.workers.max(1);
            Ok(Pair {
                worker,
                udp: self.open_udp(bound, worker)?,
                tcp: self.open_tcp(bound, worker)?,
            })
        };
        (have..count.clamp(1, SOCKETS_PER_LISTENER_MAX)).map(pair).collect()
    }

    /// The first pair, which settles the port if it is to be any.
    fn open_first(&self, address: SocketAddr) -> Result<(Pair, SocketAddr), ListenError> {
        let mut attempts = if address.port() == 0 { FREE_PORT_ATTEMPTS } else { 1 };
        loop {
            attempts -= 1;
            let udp = self.open_udp(address, 0)?;
            let at = udp.local_addr();
            let bound = at.map_err(|source| failure("udp", address, "getsockname", source))?;
            match self.open_tcp(bound, 0) {
                Ok(tcp) => return Ok((Pair { worker: 0, udp, tcp }, bound)),
                Err(_) if attempts > 0 => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn open_udp(&self, address: SocketAddr, worker: usize) -> Result<UdpSocket, ListenError> {
        let fail = |call| move |source| failure("udp", address, call, source);
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))
            .map_err(fail("socket"))?;
        self.prepare(&socket, address, worker).map_err(fail("setsockopt"))?;
        // The kernel gives as much of this as its settings allow, and less is no reason to stop.
        _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
        // Not every system has it, and answers are short anyway.
        _ = sys::ignore_path_mtu(&socket, address.is_ipv6());
        // Without stamps, questions count from when they are read.
        _ = sys::report_stamps(&socket);
        if address.ip().is_unspecified() {
            sys::report_packet_info(&socket, address.is_ipv6()).map_err(fail("setsockopt"))?;
        }
        socket.bind(&SockAddr::from(address)).map_err(fail("bind"))?;
        Ok(socket.into())
    }

    fn open_tcp(&self, address: SocketAddr, worker: usize) -> Result<TcpListener, ListenError> {
        let fail = |call| move |source| failure("tcp", address, call, source);
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))
            .map_err(fail("socket"))?;
        self.prepare(&socket, address, worker).map_err(fail("setsockopt"))?;
        socket.set_reuse_address(true).map_err(fail("setsockopt"))?;
        // Accepted connections inherit it: an answer is written whole, so there is nothing to wait for.
        socket.set_tcp_nodelay(true).map_err(fail("setsockopt"))?;
        // This too. A client that reads nothing would else have the kernel keep megabytes.
        _ = socket.set_send_buffer_size(STREAM_SEND_BUFFER);
        _ = socket.set_recv_buffer_size(STREAM_RECEIVE_BUFFER);
        socket.bind(&SockAddr::from(address)).map_err(fail("bind"))?;
        socket.listen(BACKLOG).map_err(fail("listen"))?;
        Ok(socket.into())
    }

    fn prepare(&self, socket: &Socket, address: SocketAddr, worker: usize) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        socket.set_reuse_port(true)?;
        if address.is_ipv6() {
            socket.set_only_v6(!address.ip().is_unspecified())?;
        }
        if self.transparent.contains(&address.ip()) {
            bind_early(socket, address.ip())?;
        }
        // Packets that arrive on a CPU then go to the socket of the worker on that CPU; before
        // `bind`, because that is when the socket joins its group. Kernels that do not know this
        // spread by hash instead.
        if let Some(cpu) = self.cpu(worker) {
            _ = socket.set_cpu_affinity(cpu);
        }
        Ok(())
    }
}

/// Lets a socket be bound to `ip` although no interface has it yet, and as far as our rights go
/// (`CAP_NET_ADMIN`), send from it although no interface has it any more.
///
/// # Errors
///
/// The kernel knows neither way.
pub fn bind_early(socket: impl AsFd, ip: IpAddr) -> io::Result<()> {
    let transparent = sys::set_transparent(&socket, ip.is_ipv6());
    transparent.or_else(|_| sys::set_free_bind(&socket, ip.is_ipv6()))
}

fn is_of(descriptor: &OwnedFd, wanted: Type) -> bool {
    SockRef::from(descriptor).r#type().is_ok_and(|found| found == wanted)
}

fn lacks_v6(error: &ListenError) -> bool {
    let lacking = [libc::EAFNOSUPPORT, libc::EADDRNOTAVAIL, libc::EPROTONOSUPPORT];
    error.source.raw_os_error().is_some_and(|code| lacking.contains(&code))
}

fn failure(
    network: &'static str,
    address: SocketAddr,
    call: &'static str,
    source: io::Error,
) -> ListenError {
    let all = address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let address = if all { format!(":{}", address.port()) } else { address.to_string() };
    ListenError { network, address, call, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opener(workers: usize) -> Opener {
        Opener { workers, cpus: None, transparent: Vec::new(), inherited: Vec::new() }
    }

    #[test]
    fn all_sockets_share_the_port_chosen_for_port_0() {
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let opened = opener(2).open(address.parse().unwrap(), 5).unwrap();
            assert_eq!(opened.pairs.len(), 5);
            assert_ne!(opened.bound.port(), 0);
            for (number, pair) in opened.pairs.iter().enumerate() {
                assert_eq!(pair.worker, number % 2);
                assert_eq!(pair.udp.local_addr().unwrap(), opened.bound);
                assert_eq!(pair.tcp.local_addr().unwrap(), opened.bound);
            }
        }
    }

    #[test]
    fn an_address_in_use_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let error = opener(1).open(address, 1).unwrap_err();
        let text = format!("listen tcp {address}: bind: address already in use");
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn inherited_sockets_are_taken_all_of_them_and_once() {
        let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let old = opener(3).open(address, 3).unwrap();
        let pairs = old.pairs.into_iter().map(|pair| (pair.udp.into(), pair.tcp.into())).collect();
        let mut heir = opener(2);
        heir.inherited.push(InheritedListener { address, pairs });
        let new = heir.open(address, 2).unwrap();
        assert_eq!((new.bound, new.pairs.len()), (old.bound, 3));
        assert_eq!(new.pairs.iter().map(|pair| pair.worker).collect::<Vec<_>>(), [0, 1, 0]);
        assert_ne!(heir.open(address, 2).unwrap().bound, old.bound);
        let more = heir.open_more(new.bound, 3, 5).unwrap();
        assert!(more.iter().all(|pair| pair.udp.local_addr().unwrap() == new.bound));
        assert_eq!(more.iter().map(|pair| pair.worker).collect::<Vec<_>>(), [1, 0]);
    }

    #[test]
    fn what_is_inherited_but_no_socket_is_not_taken() {
        let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let file = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let mut heir = opener(1);
        heir.inherited.push(InheritedListener { address, pairs: vec![(file(), file())] });
        assert_ne!(heir.open(address, 1).unwrap().bound.port(), 0);
    }

    #[test]
    fn an_address_can_be_bound_before_an_interface_has_it() {
        // Of the networks for documentation (RFC 5737, RFC 3849).
        for ip in ["192.0.2.1", "2001:db8::1"] {
            let ip: IpAddr = ip.parse().unwrap();
            let error = opener(1).open(SocketAddr::new(ip, 0), 1).unwrap_err();
            assert!(error.to_string().ends_with("(no interface has this address)"), "{error}");
            let mut early = opener(1);
            early.transparent.push(ip);
            assert_eq!(early.open(SocketAddr::new(ip, 0), 1).unwrap().bound.ip(), ip);
        }
    }
}
