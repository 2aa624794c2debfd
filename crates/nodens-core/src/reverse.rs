//! Names of reverse zones as addresses (RFC 1035 section 3.5, RFC 3596 section 2.5).

use nodens_wire::NameRef;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The address that `name` stands for; `None` unless it names exactly one.
pub(crate) fn address(name: NameRef<'_>) -> Option<IpAddr> {
    match name.label_count() {
        6 => v4(name).map(IpAddr::V4),
        34 => v6(name).map(IpAddr::V6),
        _ => None,
    }
}

fn v4(name: NameRef<'_>) -> Option<Ipv4Addr> {
    let mut labels = name.labels();
    let mut octets = [0; 4];
    for octet in octets.iter_mut().rev() {
        let label = std::str::from_utf8(labels.next()?).ok()?;
        // `01` and `+1` are other names than `1`.
        let plain = label == "0" || label.starts_with(|first: char| ('1'..='9').contains(&first));
        *octet = label.parse().ok().filter(|_| plain)?;
    }
    is(labels, ["in-addr", "arpa"]).then(|| Ipv4Addr::from(octets))
}

fn v6(name: NameRef<'_>) -> Option<Ipv6Addr> {
    let mut labels = name.labels();
    let mut bits = 0;
    for position in 0..32 {
        let &[digit] = labels.next()? else { return None };
        let nibble = char::from(digit).to_digit(16)?;
        bits |= u128::from(nibble) << (4 * position);
    }
    is(labels, ["ip6", "arpa"]).then(|| Ipv6Addr::from(bits))
}

fn is<'n>(mut labels: impl Iterator<Item = &'n [u8]>, wanted: [&str; 2]) -> bool {
    let [first, second] = wanted;
    let mut next = |wanted: &str| {
        labels.next().is_some_and(|label| label.eq_ignore_ascii_case(wanted.as_bytes()))
    };
    next(first) && next(second)
}

/// Whether `folded`, a folded name in wire form, lies below one of the reverse trees.
pub(crate) fn is_below(folded: &[u8]) -> bool {
    let below = |tree: &[u8]| folded.len() > tree.len() && folded.ends_with(tree);
    below(b"\x07in-addr\x04arpa\0") || below(b"\x03ip6\x04arpa\0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_wire::Name;

    #[test]
    fn only_names_of_whole_addresses_are_addresses() {
        let read = |text: &str| address(Name::parse(text).unwrap().view()).map(|ip| ip.to_string());
        assert_eq!(read("1.0.0.10.in-addr.arpa.").as_deref(), Some("10.0.0.1"));
        assert_eq!(read("255.0.0.10.IN-ADDR.Arpa.").as_deref(), Some("10.0.0.255"));
        let v6 = "F.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa.";
        assert_eq!(read(v6).as_deref(), Some("2001:db8::f"));
        for other in [
            "0.0.10.in-addr.arpa.",
            "256.0.0.10.in-addr.arpa.",
            "01.0.0.10.in-addr.arpa.",
            "+1.0.0.10.in-addr.arpa.",
            "x.0.0.10.in-addr.arpa.",
            "1.0.0.10.in-addr.example.",
            "a.b.c.d.e.f.",
            &v6.replace("F.", "x."),
            &v6.replace("F.", "00."),
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
