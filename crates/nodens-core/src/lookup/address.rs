//! Addresses as labels: dots and colons become dashes.

use std::fmt::Write;
use std::net::{IpAddr, Ipv6Addr};

/// The longest label.
const LABEL_LEN_MAX: usize = 63;

/// A short text on the stack.
#[derive(Clone, Copy)]
pub(crate) struct Label {
    octets: [u8; LABEL_LEN_MAX],
    len: usize,
}

impl Label {
    const EMPTY: Self = Self { octets: [0; LABEL_LEN_MAX], len: 0 };

    /// The octets.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.octets.get(..self.len).unwrap_or_default()
    }
}

impl Write for Label {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.len + text.len();
        let room = self.octets.get_mut(self.len..end).ok_or(std::fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// The label of an endpoint that has no name.
pub(crate) fn of_endpoint(address: IpAddr) -> Label {
    let mut label = of_pod(address);
    if address.is_ipv6() && label.as_bytes().ends_with(b"-") {
        // A label must not end with a dash.
        _ = label.write_char('0');
    }
    label
}

/// The address in the normal form of Go and RFC 5952, with dashes.
fn of_pod(address: IpAddr) -> Label {
    let mut label = Label::EMPTY;
    // An address has at most 45 characters.
    _ = write!(label, "{address}");
    for octet in &mut label.octets {
        if matches!(octet, b'.' | b':') {
            *octet = b'-';
        }
    }
    label
}

/// The endpoint without a name that `label`, which is folded, stands for.
pub(crate) fn endpoint(label: &[u8]) -> Option<IpAddr> {
    let address = pod(label)?;
    (of_endpoint(address).as_bytes() == label).then_some(address)
}

/// The address that `label` stands for, in whatever form it is written.
pub(crate) fn pod(label: &[u8]) -> Option<IpAddr> {
    let dashes = label.iter().filter(|octet| **octet == b'-').count();
    let is_v4 = dashes == 3 && !label.windows(2).any(|two| two == b"--");
    let (mut text, between) = (Label::EMPTY, if is_v4 { b'.' } else { b':' });
    for octet in label {
        let octet = if *octet == b'-' { between } else { *octet };
        *text.octets.get_mut(text.len)? = octet;
        text.len += 1;
    }
    let text = std::str::from_utf8(text.as_bytes()).ok()?;
    match is_v4 {
        true => text.parse().map(IpAddr::V4).ok(),
        false => text.parse::<Ipv6Addr>().map(IpAddr::V6).ok(),
    }
}

/// As [`pod`], if the label is written as the address's normal form is.
pub(crate) fn pod_exactly(label: &[u8]) -> Option<IpAddr> {
    pod(label).filter(|address| of_pod(*address).as_bytes() == label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_go_both_ways() {
        for (address, label) in [
            ("10.0.0.1", "10-0-0-1"),
            ("5678:abcd::1", "5678-abcd--1"),
            ("5678:abcd::", "5678-abcd--0"),
            ("::1", "--1"),
            ("1:2:3:4:5:6:7:8", "1-2-3-4-5-6-7-8"),
        ] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(of_endpoint(address).as_bytes(), label.as_bytes());
            assert_eq!(endpoint(label.as_bytes()), Some(address), "{label}");
        }
        for other in ["10-0-0", "010-0-0-1", "5678-abcd-0-0-0-0-0-1", "5678-abcd--", "web", ""] {
            assert_eq!(endpoint(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn pods_are_named_in_any_form_unless_it_matters() {
        let long = b"fd00-0-0-0-0-0-0-1";
        assert_eq!(pod(long), Some("fd00::1".parse().unwrap()));
        assert_eq!(pod_exactly(long), None);
        assert_eq!(pod_exactly(b"fd00--1"), Some("fd00::1".parse().unwrap()));
        assert_eq!(pod_exactly(b"fd00--"), Some("fd00::".parse().unwrap()));
        assert_eq!(pod(b"10-0-0-1"), Some("10.0.0.1".parse().unwrap()));
        assert_eq!(pod(b"10-0-0-256"), None);
        assert_eq!(pod(&[b'1'; 64]), None);
    }
}
