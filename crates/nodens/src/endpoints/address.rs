//! Where endpoints listen.

use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};

/// `:8080` is every address of both families.
pub(super) fn resolve(address: &str) -> io::Result<SocketAddr> {
    let text = match address.strip_prefix(':') {
        Some(port) => format!("[::]:{port}"),
        None => address.to_owned(),
    };
    let mut found = text.to_socket_addrs()?;
    found.next().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such host"))
}

/// Listens there; `early` are addresses that no link may have yet.
pub(super) fn listen(address: SocketAddr, early: &[IpAddr]) -> io::Result<TcpListener> {
    let open = |address: SocketAddr| {
        let domain = Domain::for_address(address);
        let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
        if address.is_ipv6() && address.ip().is_unspecified() {
            socket.set_only_v6(false)?;
        }
        if early.contains(&address.ip()) {
            nodens_net::bind_early(&socket, address.ip())?;
        }
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(128)?;
        Ok(TcpListener::from(socket))
    };
    open(address).or_else(|error: io::Error| {
        // A host without IPv6 has no `[::]`.
        if address.is_ipv6() && address.ip().is_unspecified() && error.raw_os_error() == Some(97) {
            open(SocketAddr::from(([0, 0, 0, 0], address.port())))
        } else {
            Err(error)
        }
    })
}
