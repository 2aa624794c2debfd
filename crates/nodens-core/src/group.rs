//! Clients that bounds are for: one address, or a network.

use std::net::{IpAddr, Ipv6Addr};

/// The octets that say that an IPv6 address is an IPv4 address.
const MAPPED_BITS: u8 = 96;

/// All addresses with the same first bits. An IPv4 address is reckoned as the IPv6 address that is
/// mapped to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    octets: [u8; 16],
    bits: u8,
}

impl Group {
    /// One address.
    pub fn client(ip: IpAddr) -> Self {
        Self { octets: mapped(ip).octets(), bits: 128 }
    }

    /// The /24 of an IPv4 address, or the /64 of an IPv6 address. One host may have all addresses of
    /// a /64, and an attacker easily has those of a /24.
    pub fn network(ip: IpAddr) -> Self {
        let ip = mapped(ip);
        let bits = if ip.to_ipv4_mapped().is_some() { MAPPED_BITS + 24 } else { 64 };
        Self { octets: first(ip, bits).octets(), bits }
    }

    /// Both.
    pub fn all_of(ip: IpAddr) -> [Self; 2] {
        [Self::client(ip), Self::network(ip)]
    }

    /// Whether it is one address.
    pub fn is_client(self) -> bool {
        self.bits == 128
    }

    /// The network that it is, or is in.
    pub fn to_network(self) -> Self {
        Self::network(Ipv6Addr::from(self.octets).into())
    }

    /// Whether it has this address.
    pub fn contains(self, ip: IpAddr) -> bool {
        first(mapped(ip), self.bits).octets() == self.octets
    }
}

fn mapped(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

/// The address with nothing behind its first bits.
fn first(ip: Ipv6Addr, bits: u8) -> Ipv6Addr {
    let rest = 128 - u32::from(bits.min(128));
    Ipv6Addr::from_bits(u128::MAX.checked_shl(rest).unwrap_or(0) & ip.to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_the_addresses_with_its_first_bits() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let same = [("192.0.2.1", "192.0.2.255"), ("2001:db8::1", "2001:db8::ffff:0:0:1")];
        let other = [("192.0.2.1", "192.0.3.1"), ("2001:db8::1", "2001:db8:0:1::1")];
        for (one, two) in same {
            assert_eq!(Group::network(ip(one)), Group::network(ip(two)));
            assert!(Group::network(ip(one)).contains(ip(two)));
            assert!(!Group::client(ip(one)).contains(ip(two)));
        }
        for (one, two) in other {
            assert_ne!(Group::network(ip(one)), Group::network(ip(two)));
            assert!(!Group::network(ip(one)).contains(ip(two)));
        }
        for text in ["192.0.2.1", "2001:db8::1"] {
            let [client, network] = Group::all_of(ip(text));
            assert!(client.contains(ip(text)));
            assert_eq!((client.to_network(), network.to_network()), (network, network));
        }
        assert_eq!(Group::client(ip("192.0.2.1")), Group::client(ip("::ffff:192.0.2.1")));
    }
}
