//! Opening the sockets of listeners: all of them, or none.

use crate::limits::{
    BACKLOG, FREE_PORT_ATTEMPTS, RECEIVE_BUFFER, SOCKETS_PER_LISTENER_MAX, STREAM_RECEIVE_BUFFER,
    STREAM_SEND_BUFFER,
};
use crate::sys;
use nodens_core::{ListenerKind, Network, Transport};
use socket2::{Domain, SockAddr, SockRef, Socket, Type};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

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

/// Where a listener is, and what is spoken there: kinds that use different transports may have the
/// same address and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerAddress {
    /// What is spoken there.
    pub kind: ListenerKind,
    /// Its address and port.
    pub address: SocketAddr,
}

/// A listener that another process opened and passes on.
#[derive(Debug)]
pub struct InheritedListener {
    /// As in the configuration, so with port 0 where that stands there.
    pub address: SocketAddr,
    /// What is spoken there.
    pub kind: ListenerKind,
    /// Its sockets, in any order of the transports.
    pub sockets: Vec<(Transport, OwnedFd)>,
}

impl InheritedListener {
    /// The same sockets once more.
    ///
    /// # Errors
    ///
    /// No descriptor is free.
    pub fn try_clone(&self) -> io::Result<Self> {
        let clone =
            |(transport, fd): &(Transport, OwnedFd)| io::Result::Ok((*transport, fd.try_clone()?));
        let sockets: io::Result<_> = self.sockets.iter().map(clone).collect();
        Ok(Self { address: self.address, kind: self.kind, sockets: sockets? })
    }

    /// Its sockets of one transport.
    pub fn of(&self, transport: Transport) -> impl Iterator<Item = &OwnedFd> {
        self.sockets.iter().filter(move |(own, _)| *own == transport).map(|(_, fd)| fd)
    }
}

/// A socket that listens.
#[derive(Clone, Debug)]
pub(crate) struct Listening {
    pub(crate) transport: Transport,
    pub(crate) socket: Arc<OwnedFd>,
}

impl Listening {
    fn new(transport: Transport, socket: impl Into<OwnedFd>) -> Self {
        Self { transport, socket: Arc::new(socket.into()) }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        let address = SockRef::from(&self.socket).local_addr()?.as_socket();
        address.ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }
}

/// A socket that a worker is to listen to.
pub(crate) struct Assigned {
    /// The listener's number for good.
    pub(crate) listener: u32,
    /// Its address, with the port it got.
    pub(crate) bound: SocketAddr,
    pub(crate) socket: Listening,
}

/// A listener whose sockets are open.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The sockets, and the workers they are for.
    pub(crate) sockets: Vec<(usize, Listening)>,
    /// How many there are of each transport.
    pub(crate) count: usize,
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
    /// `count` sockets for each transport of `kind` on `address`, spread over the workers. Inherited
    /// ones are taken as many as they are: each may have questions waiting in it, and more of them
    /// would get questions that are lost if whoever bequeathed them goes on after all.
    pub(crate) fn open(
        &mut self,
        kind: ListenerKind,
        address: SocketAddr,
        count: usize,
    ) -> Result<Opened, ListenError> {
        let same = |own: &InheritedListener| (own.kind, own.address) == (kind, address);
        let inherited = self.inherited.iter().position(same);
        let inherited = inherited.map(|place| self.inherited.remove(place));
        if let Some(opened) = inherited.and_then(|listener| self.take(listener)) {
            return Ok(opened);
        }
        match self.open_at(kind, address, count) {
            // Without IPv6 all addresses are those of IPv4.
            Err(error) if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) && lacks_v6(&error) => {
                let address = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port());
                self.open_at(kind, address, count)
            }
            result => result,
        }
    }

    /// Makes sockets that another process opened those of our workers.
    fn take(&self, listener: InheritedListener) -> Option<Opened> {
        let InheritedListener { kind, sockets: inherited, .. } = listener;
        let fits = |(transport, fd): &(Transport, OwnedFd)| is_of(fd, socket_type(*transport));
        let inherited: Vec<_> = inherited.into_iter().filter(fits).collect();
        let of = |wanted| inherited.iter().filter(|(own, _)| *own == wanted).count();
        let count = kind.transports().iter().map(|transport| of(*transport)).min()?;
        let mut numbers = HashMap::<Transport, usize>::new();
        let mut sockets = Vec::new();
        for (transport, socket) in inherited {
            let number = numbers.entry(transport).or_default();
            let worker = *number % self.workers.max(1);
            *number += 1;
            if let Some(cpu) = self.cpu(worker).filter(|_| follows_cpu(transport)) {
                _ = SockRef::from(&socket).set_cpu_affinity(cpu);
            }
            if transport.is_datagram() {
                // An older version did not ask for them.
                _ = sys::report_stamps(&socket);
            }
            sockets.push((worker, Listening::new(transport, socket)));
        }
        let bound = sockets.first().filter(|_| count > 0)?.1.local_addr().ok()?;
        Some(Opened { sockets, count, bound })
    }

    pub(crate) fn cpu(&self, worker: usize) -> Option<usize> {
        self.cpus.as_ref().and_then(|cpus| cpus.get(worker)).copied()
    }

    fn open_at(
        &self,
        kind: ListenerKind,
        address: SocketAddr,
        count: usize,
    ) -> Result<Opened, ListenError> {
        let (mut sockets, bound) = self.open_first(kind, address)?;
        let count = count.clamp(1, SOCKETS_PER_LISTENER_MAX);
        sockets.extend(self.open_more(kind, bound, 1..count)?);
        Ok(Opened { sockets, count, bound })
    }

    /// More sockets of a listener on `bound`, those with these numbers.
    pub(crate) fn open_more(
        &self,
        kind: ListenerKind,
        bound: SocketAddr,
        numbers: Range<usize>,
    ) -> Result<Vec<(usize, Listening)>, ListenError> {
        let workers = numbers.map(|number| number % self.workers.max(1));
        let transports = kind.transports().iter();
        let each = workers.flat_map(|worker| transports.clone().map(move |own| (worker, *own)));
        each.map(|(worker, own)| Ok((worker, self.open_socket(own, bound, worker)?))).collect()
    }

    /// The first socket of each transport, which settle the port if it is to be any.
    fn open_first(
        &self,
        kind: ListenerKind,
        address: SocketAddr,
    ) -> Result<(Vec<(usize, Listening)>, SocketAddr), ListenError> {
        let mut attempts = if address.port() == 0 { FREE_PORT_ATTEMPTS } else { 1 };
        'attempt: loop {
            attempts -= 1;
            let (mut sockets, mut bound) = (Vec::new(), address);
            for transport in kind.transports() {
                let socket = match self.open_socket(*transport, bound, 0) {
                    // The port was free for the one before it alone.
                    Err(_) if attempts > 0 && !sockets.is_empty() => continue 'attempt,
                    opened => opened?,
                };
                let fail = |source| failure(*transport, address, "getsockname", source);
                bound = socket.local_addr().map_err(fail)?;
                sockets.push((0, socket));
            }
            return Ok((sockets, bound));
        }
    }

    fn open_socket(
        &self,
        transport: Transport,
        address: SocketAddr,
        worker: usize,
    ) -> Result<Listening, ListenError> {
        let fail = |call| move |source| failure(transport, address, call, source);
        let socket = Socket::new(Domain::for_address(address), socket_type(transport), None)
            .map_err(fail("socket"))?;
        let cpu = self.cpu(worker).filter(|_| follows_cpu(transport));
        self.prepare(&socket, address, cpu).map_err(fail("setsockopt"))?;
        let prepared = match transport.network() {
            Network::Udp => prepare_datagrams(transport, &socket, address),
            Network::Tcp => prepare_streams(&socket),
        };
        prepared.map_err(fail("setsockopt"))?;
        socket.bind(&SockAddr::from(address)).map_err(fail("bind"))?;
        if transport.network() == Network::Tcp {
            socket.listen(BACKLOG).map_err(fail("listen"))?;
        }
        Ok(Listening::new(transport, socket))
    }

    fn prepare(&self, socket: &Socket, address: SocketAddr, cpu: Option<usize>) -> io::Result<()> {
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
        if let Some(cpu) = cpu {
            _ = socket.set_cpu_affinity(cpu);
        }
        Ok(())
    }
}

/// Whether a packet goes to the socket of the CPU on which it arrives. Packets of one connection go to
/// one socket instead, which the kernel finds by the addresses of both sides.
fn follows_cpu(transport: Transport) -> bool {
    !transport.is_quic()
}

fn prepare_datagrams(transport: Transport, socket: &Socket, address: SocketAddr) -> io::Result<()> {
    // The kernel gives as much of this as its settings allow, and less is no reason to stop.
    _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
    // Not every system has it, and answers are short anyway.
    _ = match transport {
        // Packets of QUIC are never cut (RFC 9000 section 14).
        quic if quic.is_quic() => sys::never_fragment(socket, address.is_ipv6()),
        _ => sys::ignore_path_mtu(socket, address.is_ipv6()),
    };
    // Without stamps, questions count from when they are read.
    _ = sys::report_stamps(socket);
    if address.ip().is_unspecified() {
        sys::report_packet_info(socket, address.is_ipv6())?;
    }
    Ok(())
}

fn prepare_streams(socket: &Socket) -> io::Result<()> {
    socket.set_reuse_address(true)?;
    // Accepted connections inherit it: an answer is written whole, so there is nothing to wait for.
    socket.set_tcp_nodelay(true)?;
    // This too. A client that reads nothing would else have the kernel keep megabytes.
    _ = socket.set_send_buffer_size(STREAM_SEND_BUFFER);
    _ = socket.set_recv_buffer_size(STREAM_RECEIVE_BUFFER);
    Ok(())
}

fn socket_type(transport: Transport) -> Type {
    match transport.network() {
        Network::Udp => Type::DGRAM,
        Network::Tcp => Type::STREAM,
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
    transport: Transport,
    address: SocketAddr,
    call: &'static str,
    source: io::Error,
) -> ListenError {
    let all = address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let address = if all { format!(":{}", address.port()) } else { address.to_string() };
    ListenError { network: transport.name(), address, call, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const DNS: ListenerKind = ListenerKind::Dns;

    /// The workers of the sockets of one transport.
    fn workers(sockets: &[(usize, Listening)], transport: Transport) -> Vec<usize> {
        let own = sockets.iter().filter(|(_, socket)| socket.transport == transport);
        own.map(|(worker, _)| *worker).collect()
    }

    fn opener(workers: usize) -> Opener {
        Opener { workers, cpus: None, transparent: Vec::new(), inherited: Vec::new() }
    }

    #[test]
    fn all_sockets_share_the_port_chosen_for_port_0() {
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let opened = opener(2).open(DNS, address.parse().unwrap(), 5).unwrap();
            assert_eq!((opened.sockets.len(), opened.count), (10, 5));
            assert_ne!(opened.bound.port(), 0);
            for transport in DNS.transports() {
                assert_eq!(workers(&opened.sockets, *transport), [0, 1, 0, 1, 0]);
            }
            for (_, socket) in &opened.sockets {
                assert_eq!(socket.local_addr().unwrap(), opened.bound);
                assert!(is_of(&socket.socket, socket_type(socket.transport)));
            }
        }
    }

    #[test]
    fn an_address_in_use_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let error = opener(1).open(DNS, address, 1).unwrap_err();
        let text = format!("listen tcp {address}: bind: address already in use");
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn inherited_sockets_are_taken_all_of_them_and_once() {
        let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let old = opener(3).open(DNS, address, 3).unwrap();
        let passed = old
            .sockets
            .iter()
            .map(|(_, socket)| (socket.transport, socket.socket.try_clone().unwrap()));
        let mut successor = opener(2);
        let inherited = InheritedListener { address, kind: DNS, sockets: passed.collect() };
        successor.inherited.push(inherited);
        let new = successor.open(DNS, address, 2).unwrap();
        assert_eq!((new.bound, new.sockets.len(), new.count), (old.bound, 6, 3));
        assert_ne!(successor.open(DNS, address, 2).unwrap().bound, old.bound);
        let more = successor.open_more(DNS, new.bound, 3..5).unwrap();
        assert!(more.iter().all(|(_, socket)| socket.local_addr().unwrap() == new.bound));
        for transport in DNS.transports() {
            assert_eq!(workers(&new.sockets, *transport), [0, 1, 0]);
            assert_eq!(workers(&more, *transport), [1, 0]);
        }
    }

    #[test]
    fn what_is_inherited_but_no_socket_is_not_taken() {
        let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let file = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let mut successor = opener(1);
        let sockets = DNS.transports().iter().map(|transport| (*transport, file())).collect();
        successor.inherited.push(InheritedListener { address, kind: DNS, sockets });
        assert_ne!(successor.open(DNS, address, 1).unwrap().bound.port(), 0);
    }

    #[test]
    fn an_address_can_be_bound_before_an_interface_has_it() {
        // Of the networks for documentation (RFC 5737, RFC 3849).
        for ip in ["192.0.2.1", "2001:db8::1"] {
            let ip: IpAddr = ip.parse().unwrap();
            let error = opener(1).open(DNS, SocketAddr::new(ip, 0), 1).unwrap_err();
            assert!(error.to_string().ends_with("(no interface has this address)"), "{error}");
            let mut early = opener(1);
            early.transparent.push(ip);
            assert_eq!(early.open(DNS, SocketAddr::new(ip, 0), 1).unwrap().bound.ip(), ip);
        }
    }
}
