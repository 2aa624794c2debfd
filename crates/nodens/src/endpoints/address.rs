//! Where endpoints listen.

use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};

/// `:8080` is every address of both families, and so is `0.0.0.0:8080`, as in Go. Of the addresses of a host name it is the first of
/// IPv4, if there is one, as where Go listens: scrapers and probes were told so.
pub(super) fn resolve(address: &str) -> io::Result<SocketAddr> {
    let text = match address.strip_prefix(':') {
        Some(port) => format!("[::]:{port}"),
        None => address.to_owned(),
    };
    let found = preferred(text.to_socket_addrs()?);
    let found = found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such host"))?;
    let wide = found.ip() == IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let everywhere = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), found.port());
    Ok(if wide { everywhere } else { found })
}

fn preferred(found: impl Iterator<Item = SocketAddr>) -> Option<SocketAddr> {
    let found: Vec<_> = found.collect();
    found.iter().find(|address| address.is_ipv4()).or(found.first()).copied()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_addresses_of_a_name_the_first_of_ipv4_is_taken() {
        let first = |all: &[&str]| preferred(all.iter().map(|address| address.parse().unwrap()));
        let v4 = Some(SocketAddr::from(([127, 0, 0, 1], 9153)));
        // As where `/etc/hosts` has `::1 localhost` in front.
        assert_eq!(first(&["[::1]:9153", "127.0.0.1:9153", "127.0.0.2:9153"]), v4);
        assert_eq!(first(&["[::1]:9153", "[::2]:9153"]), "[::1]:9153".parse().ok());
        assert_eq!(first(&[]), None);
        for wide in [":8080", "0.0.0.0:8080", "[::]:8080"] {
            assert_eq!(resolve(wide).unwrap(), "[::]:8080".parse().unwrap());
        }
        assert_eq!(resolve("[::1]:8080").unwrap(), "[::1]:8080".parse().unwrap());
    }
}
