//! Opening the sockets of listeners: all of them, or none.

use crate::limits::{BACKLOG, FREE_PORT_ATTEMPTS, RECEIVE_BUFFER, SOCKETS_PER_LISTENER_MAX};
use crate::sys;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};

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

/// Opens `count` sockets for UDP and for TCP on `address`, spread over the workers; worker `i`
/// runs on CPU `cpus[i]`, if workers are pinned.
pub(crate) fn open(
    address: SocketAddr,
    count: usize,
    workers: usize,
    cpus: Option<&[usize]>,
) -> Result<Opened, ListenError> {
    match open_at(address, count, workers, cpus) {
        // Without IPv6 all addresses are those of IPv4.
        Err(error) if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) && lacks_v6(&error) => {
            let address = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port());
            open_at(address, count, workers, cpus)
        }
        result => result,
    }
}

fn lacks_v6(error: &ListenError) -> bool {
    let lacking = [libc::EAFNOSUPPORT, libc::EADDRNOTAVAIL, libc::EPROTONOSUPPORT];
    error.source.raw_os_error().is_some_and(|code| lacking.contains(&code))
}

fn open_at(
    address: SocketAddr,
    count: usize,
    workers: usize,
    cpus: Option<&[usize]>,
) -> Result<Opened, ListenError> {
    let cpu = |worker: usize| cpus.and_then(|cpus| cpus.get(worker)).copied();
    let (first, bound) = open_first(address, cpu(0))?;
    let mut pairs = vec![first];
    for number in 1..count.clamp(1, SOCKETS_PER_LISTENER_MAX) {
        let worker = number % workers.max(1);
        let udp = open_udp(bound, cpu(worker))?;
        let tcp = open_tcp(bound, cpu(worker))?;
        pairs.push(Pair { worker, udp, tcp });
    }
    Ok(Opened { pairs, bound })
}

/// The first pair, which settles the port if it is to be any.
fn open_first(address: SocketAddr, cpu: Option<usize>) -> Result<(Pair, SocketAddr), ListenError> {
    let mut attempts = if address.port() == 0 { FREE_PORT_ATTEMPTS } else { 1 };
    loop {
        attempts -= 1;
        let udp = open_udp(address, cpu)?;
        let at = udp.local_addr();
        let bound = at.map_err(|source| failure("udp", address, "getsockname", source))?;
        match open_tcp(bound, cpu) {
            Ok(tcp) => return Ok((Pair { worker: 0, udp, tcp }, bound)),
            Err(_) if attempts > 0 => {}
            Err(error) => return Err(error),
        }
    }
}

fn open_udp(address: SocketAddr, cpu: Option<usize>) -> Result<UdpSocket, ListenError> {
    let fail = |call| move |source| failure("udp", address, call, source);
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))
        .map_err(fail("socket"))?;
    prepare(&socket, address, cpu).map_err(fail("setsockopt"))?;
    // The kernel gives as much of this as its settings allow, and less is no reason to stop.
    _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
    // Not every system has it, and answers are short anyway.
    _ = sys::ignore_path_mtu(&socket, address.is_ipv6());
    if address.ip().is_unspecified() {
        sys::report_packet_info(&socket, address.is_ipv6()).map_err(fail("setsockopt"))?;
    }
    socket.bind(&SockAddr::from(address)).map_err(fail("bind"))?;
    Ok(socket.into())
}

fn open_tcp(address: SocketAddr, cpu: Option<usize>) -> Result<TcpListener, ListenError> {
    let fail = |call| move |source| failure("tcp", address, call, source);
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))
        .map_err(fail("socket"))?;
    prepare(&socket, address, cpu).map_err(fail("setsockopt"))?;
    socket.set_reuse_address(true).map_err(fail("setsockopt"))?;
    // Accepted connections inherit it: an answer is written whole, so there is nothing to wait for.
    socket.set_tcp_nodelay(true).map_err(fail("setsockopt"))?;
    socket.bind(&SockAddr::from(address)).map_err(fail("bind"))?;
    socket.listen(BACKLOG).map_err(fail("listen"))?;
    Ok(socket.into())
}

fn prepare(socket: &Socket, address: SocketAddr, cpu: Option<usize>) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    socket.set_reuse_port(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    // Packets that arrive on a CPU then go to the socket of the worker on that CPU; before `bind`,
    // because that is when the socket joins its group. Kernels that do not know this spread by
    // hash instead.
    if let Some(cpu) = cpu {
        _ = socket.set_cpu_affinity(cpu);
    }
    Ok(())
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

    #[test]
    fn all_sockets_share_the_port_chosen_for_port_0() {
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let opened = open(address.parse().unwrap(), 5, 2, None).unwrap();
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
        let error = open(address, 1, 1, None).unwrap_err();
        let text = format!("listen tcp {address}: bind: address already in use");
        assert_eq!(error.to_string(), text);
    }
}
