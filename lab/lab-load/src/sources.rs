//! Addresses that clients send from.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Most addresses of one list: as many as sockets that one machine can have.
const ADDRESSES_MAX: u128 = 65_536;

/// A text that is no list of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// No address, range or prefix.
    #[error(
        "`{0}` is not a source address, expected an address, a range (127.0.0.2-127.0.0.9) or a prefix (10.0.0.0/28), separated by commas"
    )]
    NoSource(String),
    /// Too many of them.
    #[error("`{0}` has more than {ADDRESSES_MAX} addresses")]
    TooMany(String),
}

/// The addresses of `127.0.0.2-127.0.0.9,10.0.0.0/28,::1`, in the order in which they are written.
///
/// Of an IPv4 prefix of up to 30 bits, the first and the last address are left out: they name the
/// network and all of its hosts.
pub fn parse(text: &str) -> Result<Vec<IpAddr>, SourceError> {
    let mut addresses = Vec::new();
    for word in text.split(',').map(str::trim) {
        let (first, last) = range(word).ok_or_else(|| SourceError::NoSource(word.to_owned()))?;
        let (low, high) = (number(first), number(last));
        if high - low >= ADDRESSES_MAX {
            return Err(SourceError::TooMany(word.to_owned()));
        }
        addresses.extend((low..=high).map(|number| address(number, first.is_ipv4())));
    }
    if addresses.len() as u128 > ADDRESSES_MAX {
        return Err(SourceError::TooMany(text.to_owned()));
    }
    Ok(addresses)
}

/// The first and the last address of one word.
fn range(word: &str) -> Option<(IpAddr, IpAddr)> {
    if let Some((address, bits)) = word.split_once('/') {
        return prefix(address.parse().ok()?, bits.parse().ok()?);
    }
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let (first, last): (IpAddr, IpAddr) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first.is_ipv4() == last.is_ipv4() && first <= last).then_some((first, last))
}

fn prefix(base: IpAddr, bits: u32) -> Option<(IpAddr, IpAddr)> {
    let width: u32 = if base.is_ipv4() { 32 } else { 128 };
    let host_bits = width.checked_sub(bits)?;
    let mask = 1_u128.checked_shl(host_bits).map_or(u128::MAX, |bit| bit - 1);
    let (low, high) = (number(base) & !mask, number(base) | mask);
    let skip = u128::from(base.is_ipv4() && host_bits >= 2);
    Some((address(low + skip, base.is_ipv4()), address(high - skip, base.is_ipv4())))
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

fn address(number: u128, v4: bool) -> IpAddr {
    // The numbers of an IPv4 range have 32 bits.
    if v4 { Ipv4Addr::from(number as u32).into() } else { Ipv6Addr::from(number).into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_ranges_and_prefixes_make_one_list() {
        let texts = |text: &str| -> Vec<String> {
            parse(text).unwrap().iter().map(IpAddr::to_string).collect()
        };
        assert_eq!(texts("127.0.0.1"), ["127.0.0.1"]);
        assert_eq!(texts("127.0.0.254-127.0.1.1").len(), 4);
        assert_eq!(texts("10.0.0.4/30, ::1"), ["10.0.0.5", "10.0.0.6", "::1"]);
        assert_eq!(texts("10.0.0.4/31"), ["10.0.0.4", "10.0.0.5"]);
        assert_eq!(texts("10.0.0.4/32"), ["10.0.0.4"]);
        assert_eq!(texts("fd00::/126").len(), 4);
        assert_eq!(texts("10.1.0.0/16").len(), 65_534);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for text in ["", "x", "10.0.0.0/33", "10.0.0.9-10.0.0.2", "10.0.0.1-::1", "10.0.0.1,"] {
            assert!(matches!(parse(text), Err(SourceError::NoSource(_))), "{text}");
        }
        for text in ["10.0.0.0/8", "::/0", "10.0.0.0/16,10.1.0.0/16"] {
            assert!(matches!(parse(text), Err(SourceError::TooMany(_))), "{text}");
        }
    }
}
