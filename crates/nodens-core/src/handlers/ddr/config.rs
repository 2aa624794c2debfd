//! The Corefile syntax of `ddr`.

use super::Ddr;
use crate::limits::DDR_TTL_MAX;
use nodens_corefile::{Directive, Error, Token, take};
use nodens_wire::{Name, Type};
use nodens_zone::presentation;
use std::net::IpAddr;

/// As discovery is asked for once per network, five minutes are few enough to change and many to ask.
const TTL_DEFAULT: u32 = 300;
/// As CoreDNS's HTTPS servers have it.
const PATH_DEFAULT: &str = "/dns-query";
const PROPERTIES: [&str; 6] = ["tls", "https", "quic", "https3", "address", "ttl"];

/// One service as the Corefile has it.
struct Service {
    alpn: &'static str,
    port: u16,
    /// Of the resource, for HTTPS.
    path: Option<String>,
}

/// Reads `ddr NAME { tls|quic [PORT]; https|https3 [PORT [PATH]]; address ADDRESS…; ttl SECONDS }`.
pub(super) fn read(directive: &Directive) -> Result<Ddr, Error> {
    let [name] = directive.expect_args()?;
    let target = Name::parse(&name.text).ok().filter(|name| name.view().label_count() > 0);
    let target = target.ok_or_else(|| Error::expected(name, "the name in the certificate"))?;
    let (mut services, mut addresses, mut ttl) = (Vec::new(), Vec::new(), TTL_DEFAULT);
    for line in directive.lines() {
        line.expect_no_body()?;
        match line.name.text.as_str() {
            "tls" => services.push(service(line, "dot", 853)?),
            "quic" => services.push(service(line, "doq", 853)?),
            "https" => services.push(service(line, "h2", 443)?),
            "https3" => services.push(service(line, "h3", 443)?),
            "address" => {
                for word in line.expect_args_from(1)? {
                    addresses.push(take::parse_ip(word)?);
                }
            }
            "ttl" => {
                let [seconds] = line.expect_args()?;
                ttl = take::parse_integer(seconds, 1..=DDR_TTL_MAX)?;
            }
            _ => return Err(line.unknown_property(&PROPERTIES)),
        }
    }
    if services.is_empty() {
        return Err(directive.invalid("expected at least one of tls, https, quic and https3"));
    }
    let numbered = services.iter().zip(1..);
    let services = numbered.map(|(own, priority)| rdata(directive, &target, own, priority, &addresses));
    let names = ["resolver.arpa.".to_owned(), "_dns.resolver.arpa.".to_owned(), format!("_dns.{target}")];
    let [zone, of_address, of_name] = names.map(|text| Name::parse(&text));
    let wrong = |_| Error::invalid(name, "the name is too long for one with _dns in front");
    Ok(Ddr {
        zone: zone.map_err(wrong)?,
        of_address: of_address.map_err(wrong)?,
        of_name: of_name.map_err(wrong)?,
        services: services.collect::<Result<_, _>>()?,
        addresses: addresses.iter().map(address).collect(),
        soa: soa(directive, &target, ttl)?,
        target,
        ttl,
    })
}

/// `tls`, `tls PORT`, and for HTTPS `https PORT PATH`.
fn service(line: &Directive, alpn: &'static str, port: u16) -> Result<Service, Error> {
    let is_http = alpn.starts_with('h');
    let args = line.expect_args_within(0..=if is_http { 2 } else { 1 })?;
    let port = match args.first() {
        Some(word) => take::parse_integer(word, 1..=u16::MAX)?,
        None => port,
    };
    let path = match args.get(1) {
        Some(word) if !is_path(word) => {
            return Err(Error::expected(word, "a path such as /dns-query"));
        }
        Some(word) => word.text.clone(),
        None => PATH_DEFAULT.to_owned(),
    };
    Ok(Service { alpn, port, path: is_http.then_some(path) })
}

/// Whether it is an absolute path without a variable of its own, and without what would have to be
/// escaped in a template (RFC 6570).
fn is_path(word: &Token) -> bool {
    let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || b"/-._~".contains(&octet);
    word.text.starts_with('/') && word.text.bytes().all(is_plain)
}

/// The RDATA of the SVCB record (RFC 9461 section 4 to 6).
fn rdata(
    directive: &Directive,
    target: &Name,
    service: &Service,
    priority: u16,
    addresses: &[IpAddr],
) -> Result<Vec<u8>, Error> {
    let Service { alpn, port, path } = service;
    let mut text = format!(". SVCB {priority} {target} alpn={alpn} port={port}");
    if let Some(path) = path {
        text += &format!(" key7=\"{path}{{?dns}}\"");
    }
    let list = |of: fn(&&IpAddr) -> bool| {
        addresses.iter().filter(of).map(IpAddr::to_string).collect::<Vec<_>>().join(",")
    };
    for (key, list) in [("ipv4hint", list(|ip| ip.is_ipv4())), ("ipv6hint", list(|ip| ip.is_ipv6()))] {
        if !list.is_empty() {
            text += &format!(" {key}={list}");
        }
    }
    let record = presentation::record(&text);
    record.map(|record| record.rdata).map_err(|error| directive.invalid(error.to_string()))
}

fn address(ip: &IpAddr) -> (Type, Vec<u8>) {
    match ip {
        IpAddr::V4(ip) => (Type::A, ip.octets().to_vec()),
        IpAddr::V6(ip) => (Type::AAAA, ip.octets().to_vec()),
    }
}

/// RDATA of the SOA record of `resolver.arpa`. The zone is not transferred, so serial and timers have no effect;
/// MINIMUM is how long clients may cache that a name or type does not exist (RFC 2308).
fn soa(directive: &Directive, target: &Name, ttl: u32) -> Result<Vec<u8>, Error> {
    let text = format!(". SOA {target} hostmaster.invalid. 1 3600 1200 604800 {ttl}");
    let record = presentation::record(&text);
    record.map(|record| record.rdata).map_err(|error| directive.invalid(error.to_string()))
}
