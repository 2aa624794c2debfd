//! Reads `dns64`.

use super::{Dns64, Prefix};
use nodens_corefile::{Directive, Error, Token, take};
use std::net::IpAddr;

const PROPERTIES: &[&str] = &["prefix", "translate_all", "allow_ipv4"];

pub(super) fn read(directive: &Directive, dns64: &mut Dns64) -> Result<(), Error> {
    if let [prefix] = directive.expect_args_within(0..=1)? {
        dns64.prefix = read_prefix(prefix)?;
    }
    for line in directive.lines() {
        line.expect_no_body()?;
        match line.name.text.as_str() {
            "prefix" => {
                let [prefix] = line.expect_args()?;
                dns64.prefix = read_prefix(prefix)?;
            }
            "translate_all" => {
                line.expect_no_args()?;
                dns64.translate_all = true;
            }
            "allow_ipv4" => {
                line.expect_no_args()?;
                dns64.allow_ipv4 = true;
            }
            _ => return Err(line.unknown_property(PROPERTIES)),
        }
    }
    Ok(())
}

/// The lengths of RFC 6052 section 2.2.
fn read_prefix(word: &Token) -> Result<Prefix, Error> {
    let expected = "an IPv6 prefix of 32, 40, 48, 56, 64 or 96 bits such as 64:ff9b::/96";
    let cidr = take::parse_cidr(word).map_err(|_| Error::expected(word, expected))?;
    match (cidr.network(), cidr.prefix()) {
        (IpAddr::V6(network), bits @ (32 | 40 | 48 | 56 | 64 | 96)) => {
            Ok(Prefix { network: network.octets(), octets: usize::from(bits / 8) })
        }
        _ => Err(Error::expected(word, expected)),
    }
}
