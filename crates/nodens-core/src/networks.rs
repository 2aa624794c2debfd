//! A set of address prefixes, searched by halving.

use nodens_corefile::take::Cidr;
use std::net::IpAddr;

/// Prefixes as ranges of addresses that neither overlap nor touch, lowest first.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Networks {
    v4: Vec<(u128, u128)>,
    v6: Vec<(u128, u128)>,
}

impl Networks {
    pub(crate) fn new(prefixes: impl IntoIterator<Item = Cidr>) -> Self {
        let mut networks = Self::default();
        for prefix in prefixes {
            match prefix.network().to_canonical() {
                IpAddr::V4(v4) if prefix.network().is_ipv4() => {
                    networks.v4.push(range(v4.to_bits().into(), 32 - prefix.prefix()));
                }
                // ::ffff:192.0.2.0/120 is another way to write 192.0.2.0/24.
                IpAddr::V4(v4) if prefix.prefix() >= 96 => {
                    networks.v4.push(range(v4.to_bits().into(), 128 - prefix.prefix()));
                }
                IpAddr::V4(v4) => {
                    let v6 = v4.to_ipv6_mapped().to_bits();
                    networks.v6.push(range(v6, 128 - prefix.prefix()));
                }
                IpAddr::V6(v6) => networks.v6.push(range(v6.to_bits(), 128 - prefix.prefix())),
            }
        }
        merge(&mut networks.v4);
        merge(&mut networks.v6);
        networks
    }

    /// Whether a prefix holds `address`, in at most 128 comparisons. Allocates nothing.
    pub(crate) fn contain(&self, address: IpAddr) -> bool {
        let (ranges, bits) = match address {
            IpAddr::V4(v4) => (&self.v4, u128::from(v4.to_bits())),
            IpAddr::V6(v6) => (&self.v6, v6.to_bits()),
        };
        let behind = ranges.partition_point(|(first, _)| *first <= bits);
        let found = behind.checked_sub(1).and_then(|index| ranges.get(index));
        found.is_some_and(|(_, last)| bits <= *last)
    }
}

/// First and last address of a prefix that leaves `host_bits` open.
fn range(first: u128, host_bits: u8) -> (u128, u128) {
    let open = 1_u128.checked_shl(host_bits.into()).map_or(u128::MAX, |size| size - 1);
    (first, first | open)
}

fn merge(ranges: &mut Vec<(u128, u128)>) {
    ranges.sort_unstable();
    let mut merged: Vec<(u128, u128)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges.drain(..) {
        match merged.last_mut() {
            Some(previous) if first <= previous.1.saturating_add(1) => {
                previous.1 = previous.1.max(last);
            }
            _ => merged.push((first, last)),
        }
    }
    *ranges = merged;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn networks(text: &str) -> Networks {
        Networks::new(text.split_whitespace().map(|prefix| prefix.parse::<Cidr>().unwrap()))
    }

    #[test]
    fn prefixes_of_both_families_are_found() {
        let set = networks("10.0.0.0/8 192.0.2.1/32 2001:db8::/32 ::1/128 ::ffff:198.51.100.0/120");
        let has = |ip: &str| set.contain(ip.parse().unwrap());
        assert!(has("10.255.255.255") && has("192.0.2.1") && has("2001:db8:ffff::1") && has("::1"));
        assert!(has("198.51.100.7"));
        assert!(!has("11.0.0.0") && !has("9.255.255.255") && !has("192.0.2.0") && !has("::2"));
        assert!(networks("0.0.0.0/0 ::/0").contain("255.255.255.255".parse().unwrap()));
        assert!(networks("::/0").contain("ffff::1".parse().unwrap()));
        assert!(!networks("0.0.0.0/0").contain("::1".parse().unwrap()));
    }

    proptest! {
        #[test]
        fn the_set_agrees_with_each_prefix_tried_in_turn(
            prefixes in prop::collection::vec((any::<u32>(), 0_u8..=32), 0..20),
            asked in any::<u32>(),
        ) {
            let all: Vec<Cidr> = prefixes
                .iter()
                .filter_map(|(bits, length)| Cidr::new(std::net::Ipv4Addr::from_bits(*bits).into(), *length))
                .collect();
            let nearby = prefixes.first().map_or(asked, |(bits, _)| bits ^ (asked >> 20));
            for bits in [asked, nearby] {
                let address = IpAddr::from(std::net::Ipv4Addr::from_bits(bits));
                let expected = all.iter().any(|prefix| prefix.contains(address));
                prop_assert_eq!(Networks::new(all.clone()).contain(address), expected);
            }
        }
    }
}
