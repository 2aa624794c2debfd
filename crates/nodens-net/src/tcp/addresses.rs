//! The two ends of a connection, in few octets.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// The addresses and ports of both ends. An IPv4 address is kept as the IPv6 address that is mapped
/// to it, which no end has in its canonical form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    ips: [[u8; 16]; 2],
    ports: [u16; 2],
    /// The interface of link-local addresses: both are on the same link.
    scope: u32,
}

impl Addresses {
    /// Those of a connection, in whatever form.
    pub(crate) fn new(peer: SocketAddr, local: SocketAddr) -> Self {
        let octets = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        };
        let scope = |address| match address {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(address) => address.scope_id(),
        };
        Self {
            ips: [octets(peer.ip()), octets(local.ip())],
            ports: [peer.port(), local.port()],
            scope: scope(peer).max(scope(local)),
        }
    }

    /// The client's end. IPv4 clients of an IPv6 socket are IPv4 clients.
    pub(crate) fn peer(&self) -> SocketAddr {
        let ([ip, _], [port, _]) = (self.ips, self.ports);
        self.address(ip, port)
    }

    /// Our end.
    pub(crate) fn local(&self) -> SocketAddr {
        let ([_, ip], [_, port]) = (self.ips, self.ports);
        self.address(ip, port)
    }

    fn address(&self, ip: [u8; 16], port: u16) -> SocketAddr {
        let ip = Ipv6Addr::from(ip);
        match ip.to_canonical() {
            IpAddr::V6(_) if ip.is_unicast_link_local() => {
                SocketAddrV6::new(ip, port, 0, self.scope).into()
            }
            ip => SocketAddr::new(ip, port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_what_they_were_in_their_canonical_form() {
        let same = [
            ("192.0.2.1:5300", "192.0.2.53:53"),
            ("[2001:db8::1]:1", "[2001:db8::53]:65535"),
            ("[fe80::1%3]:5300", "[fe80::53%3]:53"),
            ("0.0.0.0:0", "[::]:0"),
        ];
        for (peer, local) in same {
            let (peer, local) = (peer.parse().unwrap(), local.parse().unwrap());
            let kept = Addresses::new(peer, local);
            assert_eq!((kept.peer(), kept.local()), (peer, local));
        }
        let mapped: SocketAddr = "[::ffff:192.0.2.1]:5300".parse().unwrap();
        let kept = Addresses::new(mapped, mapped);
        assert_eq!(kept.peer(), "192.0.2.1:5300".parse().unwrap());
        // An interface is told of where it says anything.
        let kept =
            Addresses::new("[fe80::1%3]:1".parse().unwrap(), "[2001:db8::1]:53".parse().unwrap());
        assert_eq!(kept.local(), "[2001:db8::1]:53".parse().unwrap());
    }
}
