//! Address prefixes and the reverse zones that cover them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An address prefix, `10.0.0.0/8` or `2001:db8::/32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr {
    network: IpAddr,
    prefix: u8,
}

/// Not an address, `/`, and a length that fits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a prefix such as 10.0.0.0/8 or 2001:db8::/32")]
pub struct InvalidCidr;

impl Cidr {
    /// The prefix of this length around `address`; `None` if the length is over 32 or 128.
    pub fn new(address: IpAddr, prefix: u8) -> Option<Self> {
        let network = match address {
            IpAddr::V4(v4) if prefix <= 32 => {
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
            }
            IpAddr::V6(v6) if prefix <= 128 => {
                let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
            }
            _ => return None,
        };
        Some(Self { network, prefix })
    }

    /// The first address; all bits after the prefix are 0.
    pub fn network(&self) -> IpAddr {
        self.network
    }

    /// The length of the prefix, in bits.
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Whether the address starts with this prefix. An IPv4 address is never in an IPv6 prefix.
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.network.is_ipv4()
            && Self::new(address, self.prefix).is_some_and(|cidr| cidr.network == self.network)
    }

    /// The reverse zones that together cover exactly this prefix: one if its length is a multiple
    /// of 8 (IPv4) or 4 (IPv6), else up to 128 or 8. Absolute names, lowest address first.
    pub fn reverse_zones(&self) -> Vec<String> {
        let bits_per_label = if self.network.is_ipv4() { 8 } else { 4 };
        let prefix = u32::from(self.prefix).next_multiple_of(bits_per_label);
        let zones = 1_u128 << (prefix - u32::from(self.prefix));
        (0..zones).map(|index| self.reverse_zone(index, prefix)).collect()
    }

    /// The reverse zone of the `index`-th prefix of length `prefix` in this one.
    fn reverse_zone(&self, index: u128, prefix: u32) -> String {
        let mut zone = String::new();
        match self.network {
            IpAddr::V4(v4) => {
                let host = u128::from(v4.to_bits()) | (index << (32 - prefix));
                for label in (4 - prefix / 8)..4 {
                    zone.push_str(&format!("{}.", (host >> (8 * label)) & 0xff));
                }
                zone.push_str("in-addr.arpa.");
            }
            IpAddr::V6(v6) => {
                let step = 1_u128.checked_shl(128 - prefix).unwrap_or(0);
                let host = v6.to_bits() | index.wrapping_mul(step);
                for label in (32 - prefix / 4)..32 {
                    zone.push_str(&format!("{:x}.", (host >> (4 * label)) & 0xf));
                }
                zone.push_str("ip6.arpa.");
            }
        }
        zone
    }
}

impl FromStr for Cidr {
    type Err = InvalidCidr;

    fn from_str(text: &str) -> Result<Self, InvalidCidr> {
        let (address, prefix) = text.split_once('/').ok_or(InvalidCidr)?;
        let digits = !prefix.is_empty() && prefix.bytes().all(|c| c.is_ascii_digit());
        let prefix = prefix.parse().ok().filter(|_| digits).ok_or(InvalidCidr)?;
        let address = address.parse().map_err(|_| InvalidCidr)?;
        Self::new(address, prefix).ok_or(InvalidCidr)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

/// The reverse zones of a prefix in text form; `None` if the text is not one.
///
/// ```
/// use nodens_corefile::reverse_zones;
/// assert_eq!(reverse_zones("10.0.0.0/24"), Some(vec!["0.0.10.in-addr.arpa.".to_owned()]));
/// assert_eq!(reverse_zones("10.1.0.0/22").map(|zones| zones.len()), Some(4));
/// assert_eq!(reverse_zones("example.org"), None);
/// ```
pub fn reverse_zones(cidr: &str) -> Option<Vec<String>> {
    cidr.parse::<Cidr>().ok().map(|cidr| cidr.reverse_zones())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reverse_zones_cover_the_prefix() {
        let table: [(&str, &[&str]); 12] = [
            ("10.0.0.0/15", &["0.10.in-addr.arpa.", "1.10.in-addr.arpa."]),
            ("10.0.0.0/16", &["0.10.in-addr.arpa."]),
            ("192.168.1.1/23", &["0.168.192.in-addr.arpa.", "1.168.192.in-addr.arpa."]),
            ("192.0.2.7/32", &["7.2.0.192.in-addr.arpa."]),
            ("192.0.2.6/31", &["6.2.0.192.in-addr.arpa.", "7.2.0.192.in-addr.arpa."]),
            ("10.0.0.0/8", &["10.in-addr.arpa."]),
            ("254.0.0.0/7", &["254.in-addr.arpa.", "255.in-addr.arpa."]),
            ("0.0.0.0/0", &["in-addr.arpa."]),
            ("2001:db8::/31", &["8.b.d.0.1.0.0.2.ip6.arpa.", "9.b.d.0.1.0.0.2.ip6.arpa."]),
            ("2001:db8::/32", &["8.b.d.0.1.0.0.2.ip6.arpa."]),
            (
                "2001:db8::/30",
                &[
                    "8.b.d.0.1.0.0.2.ip6.arpa.",
                    "9.b.d.0.1.0.0.2.ip6.arpa.",
                    "a.b.d.0.1.0.0.2.ip6.arpa.",
                    "b.b.d.0.1.0.0.2.ip6.arpa.",
                ],
            ),
            ("::/0", &["ip6.arpa."]),
        ];
        for (cidr, zones) in table {
            assert_eq!(reverse_zones(cidr).unwrap(), zones, "{cidr}");
        }
        let counts =
            [("10.0.0.0/22", 4), ("10.0.0.0/27", 32), ("10.0.0.0/25", 128), ("0.0.0.0/1", 128)];
        for (cidr, count) in counts {
            assert_eq!(reverse_zones(cidr).unwrap().len(), count, "{cidr}");
        }
        let zones = reverse_zones("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/127").unwrap();
        assert_eq!(zones.len(), 2);
        assert!(zones[0].starts_with("e.f.f.") && zones[1].starts_with("f.f.f."));
    }

    #[test]
    fn rejects_what_is_no_prefix() {
        for text in [
            "",
            "/",
            "10.0.0.0",
            "10.0.0/24",
            "10.0.0.0/33",
            "10.0.0.0/-1",
            "10.0.0.0/+1",
            "10.0.0.0/",
            "010.0.0.0/8",
            "2001:db8::/129",
            "fe80::1%eth0/64",
            "10.0.0.0/8/8",
            "a/8",
            "10.0.0.0/999",
        ] {
            assert_eq!(text.parse::<Cidr>(), Err(InvalidCidr), "{text}");
        }
    }

    #[test]
    fn contains_its_addresses_only() {
        let cidr: Cidr = "10.1.0.0/16".parse().unwrap();
        assert!(cidr.contains("10.1.255.255".parse().unwrap()));
        assert!(!cidr.contains("10.2.0.0".parse().unwrap()));
        assert!(!cidr.contains("::a01:0".parse().unwrap()));
        let all: Cidr = "::/0".parse().unwrap();
        assert!(all.contains("ffff::".parse().unwrap()));
        assert!(!all.contains("10.0.0.1".parse().unwrap()));
        assert_eq!("10.1.2.3/16".parse::<Cidr>().unwrap(), cidr);
        assert_eq!(cidr.to_string(), "10.1.0.0/16");
    }
}
