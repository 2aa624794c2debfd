//! Names of objects and addresses.

use std::net::IpAddr;

use serde_json::Value;

/// The name of an object.
pub(super) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or("none")
}

/// The namespace of an object.
pub(super) fn namespace(object: &Value) -> &str {
    object["metadata"]["namespace"].as_str().unwrap_or("default")
}

/// `NAME.NAMESPACE`.
pub(super) fn base(object: &Value) -> String {
    format!("{}.{}", name(object), namespace(object))
}

/// The name under `in-addr.arpa` or `ip6.arpa` (RFC 1035, section 3.5; RFC 3596, section 2.5).
pub(super) fn reverse_name(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa.")
        }
        IpAddr::V6(address) => {
            let nibbles =
                address.octets().into_iter().rev().flat_map(|octet| [octet & 15, octet >> 4]);
            nibbles.map(|nibble| format!("{nibble:x}.")).collect::<String>() + "ip6.arpa."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reverse_names() {
        assert_eq!(reverse_name("10.96.0.1".parse().unwrap()), "1.0.96.10.in-addr.arpa.");
        let name = reverse_name("fd00::12".parse().unwrap());
        assert!(name.starts_with("2.1.0.0.") && name.ends_with(".0.0.d.f.ip6.arpa."), "{name}");
        assert_eq!(name.len(), 32 * 2 + "ip6.arpa.".len());
    }
}
