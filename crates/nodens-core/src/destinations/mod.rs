//! FROM and TO of directives that ask others (`forward`, `grpc`): zones, addresses, resolv.conf-like files, names; and who has
//! to be there.

mod encryption;
mod from;

pub(crate) use encryption::Encryption;
pub(crate) use from::{read_except, zone_of_from};

use crate::config::BlockBuilder;
use crate::limits::{DESTINATIONS_PER_FORWARD_MAX, UPSTREAMS_PER_FORWARD_MAX};
use crate::log::Level;
use crate::transport::ListenerKind;
use nodens_corefile::{Error, Token};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

/// Addresses systemd-resolved listens on. Asking it is fine for most programs; a DNS server
/// that it asks in turn would ask itself.
const STUBS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(127, 0, 0, 53)), IpAddr::V4(Ipv4Addr::new(127, 0, 0, 54))];
const PORT: u16 = 53;

/// A server that a TO stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    pub address: SocketAddr,
    /// What is spoken there.
    pub kind: ListenerKind,
    /// The name that its certificate must have, if its TO says so.
    pub name: Option<String>,
}

/// What a directive takes as TO.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules<'r> {
    /// The directive, for log and errors.
    pub origin: &'static str,
    /// What is spoken where a TO has no scheme, at port 53.
    pub kind: ListenerKind,
    /// What is spoken by schemes.
    pub kinds: &'r [ListenerKind],
    /// Whom to ask for the addresses of names, where none stands for the system; no names are taken without.
    pub resolvers: Option<&'r [SocketAddr]>,
}

/// Turns TO words into servers, each once, in order.
pub(crate) fn all(
    to: &[Token],
    rules: Rules<'_>,
    block: &BlockBuilder<'_>,
) -> Result<Vec<Destination>, Error> {
    let mut all = Vec::new();
    for word in to {
        for destination in expand(word, rules, block)? {
            if !all.contains(&destination) {
                all.push(destination);
            }
        }
    }
    let Some(first) = to.first() else { return Ok(all) };
    if to.len() > DESTINATIONS_PER_FORWARD_MAX {
        let text = format!("more than {DESTINATIONS_PER_FORWARD_MAX} TOs configured: {}", to.len());
        return Err(Error::invalid(first, text));
    }
    if all.len() > UPSTREAMS_PER_FORWARD_MAX {
        let text = format!("more than {UPSTREAMS_PER_FORWARD_MAX} upstreams: {}", all.len());
        return Err(Error::invalid(first, text));
    }
    if all.is_empty() {
        return Err(Error::invalid(first, "no valid upstream addresses found"));
    }
    Ok(all)
}

fn expand(
    word: &Token,
    rules: Rules<'_>,
    block: &BlockBuilder<'_>,
) -> Result<Vec<Destination>, Error> {
    let (kind, port, text) = scheme(word, rules)?;
    if text.is_empty() {
        return Err(Error::invalid(word, format!("invalid address: {:?}", word.text)));
    }
    if kind == ListenerKind::Https && text.contains('/') {
        let text = format!(
            "paths are not allowed in HTTPS upstream addresses (the /dns-query path is used by default): {}",
            word.text
        );
        return Err(Error::invalid(word, text));
    }
    let has_name = kind != ListenerKind::Dns;
    if let Some(address) = address(text, port) {
        let name = zone(text).filter(|_| has_name);
        return Ok(vec![Destination { address, kind, name }]);
    }
    let (found, name) = match Path::new(text).exists() {
        // CoreDNS asks the servers of the file without encryption.
        true if kind != rules.kind => {
            let text = format!(
                "{:?}: the servers of a file are asked without encryption: leave out {}://, or name the servers here",
                word.text,
                kind.scheme()
            );
            return Err(Error::invalid(word, text));
        }
        true => (from_file(word, text, rules.origin, block)?, None),
        false => by_name(word, text, port, (rules.resolvers, block))?,
    };
    let name = name.filter(|_| has_name);
    let named = |address| Destination { address, kind, name: name.clone() };
    Ok(found.into_iter().map(named).collect())
}

/// What is spoken with a TO, at which port if it names none, and what stands behind its scheme.
fn scheme<'w>(word: &'w Token, rules: Rules<'_>) -> Result<(ListenerKind, u16, &'w str), Error> {
    let (scheme, text) = match word.text.split_once("://") {
        None => return Ok((rules.kind, PORT, &word.text)),
        Some(("dns", text)) => return Ok((rules.kind, PORT, text)),
        Some(parts) => parts,
    };
    let kind = rules.kinds.iter().find(|kind| kind.scheme().name() == scheme);
    let Some(kind) = kind else {
        let text = format!(
            "'{scheme}' is not supported as a destination protocol in {}: {}",
            rules.origin, word.text
        );
        return Err(Error::invalid(word, text));
    };
    Ok((*kind, kind.scheme().default_port(), text))
}

/// `192.0.2.1`, `192.0.2.1:53`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:53`; a zone
/// (`%eth0`) behind the address is left out, or behind the port of an IPv4 address, as in CoreDNS.
fn address(text: &str, port: u16) -> Option<SocketAddr> {
    let (host, port) = match (text.strip_prefix('['), text.rsplit_once(':')) {
        (Some(_), Some((host, port))) if host.ends_with(']') => (host, port.parse().ok()?),
        (None, Some((host, port))) if !host.contains(':') => {
            (host, port.split('%').next().unwrap_or_default().parse().ok()?)
        }
        _ => (text, port),
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let host = host.rsplit_once('%').map_or(host, |(host, _)| host);
    host.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, port))
}

/// What stands behind the last `%`, without the port: the name that a certificate must have.
fn zone(text: &str) -> Option<String> {
    let (host, zone) = text.rsplit_once('%')?;
    let zone = match (host.starts_with('['), host.contains(':')) {
        // Without brackets the address takes all colons, and there is no port.
        (false, true) => zone,
        (true, _) => zone.rsplit_once(']').map_or(zone, |(zone, _)| zone),
        _ => zone.rsplit_once(':').map_or(zone, |(zone, _)| zone),
    };
    Some(zone.to_ascii_lowercase()).filter(|zone| !zone.is_empty())
}

/// An argument of `resolver`: an address, with or without port.
pub(crate) fn resolver(word: &Token) -> Result<SocketAddr, Error> {
    address(&word.text, PORT).ok_or_else(|| {
        let text = format!("resolver must be an IP address or IP:port: {:?}", word.text);
        Error::invalid(word, text)
    })
}

fn from_file(
    word: &Token,
    path: &str,
    origin: &'static str,
    block: &BlockBuilder<'_>,
) -> Result<Vec<SocketAddr>, Error> {
    let read = |path: &Path| std::fs::read_to_string(path).map(|text| nameservers(&text));
    let servers = read(Path::new(path)).map_err(|error| {
        Error::invalid(word, format!("not an IP address or file {path:?}: {error}"))
    })?;
    if !only_stubs(&servers) {
        return Ok(servers);
    }
    let real_path = &block.options.resolved_conf;
    let real = read(real_path).unwrap_or_default();
    let real_path = real_path.display();
    let (servers, stubs) = behind_stubs(servers, real);
    let sink = &block.shared.sink;
    if stubs {
        let text = format!(
            "{path} names only the stub of systemd-resolved, and {real_path} has no other \
             nameserver: forwarding there loops if systemd-resolved asks this server"
        );
        sink.line(Level::Warning, origin, text);
    } else {
        let text = format!("{path} names only the stub of systemd-resolved: using {real_path}");
        sink.line(Level::Info, origin, text);
    }
    Ok(servers)
}

/// The servers of a resolv.conf-like file (resolv.conf(5)); words that are no address are left
/// out.
fn nameservers(text: &str) -> Vec<SocketAddr> {
    let mut servers = Vec::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        if words.next() == Some("nameserver") {
            let host = words.next().unwrap_or_default();
            let host = host.split_once('%').map_or(host, |(host, _)| host);
            servers.extend(host.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, PORT)));
        }
    }
    servers
}

fn only_stubs(servers: &[SocketAddr]) -> bool {
    !servers.is_empty() && servers.iter().all(|server| STUBS.contains(&server.ip()))
}

/// The servers behind the stubs, if the real file names any that is not a stub; and whether the
/// stubs had to be kept.
fn behind_stubs(stubs: Vec<SocketAddr>, real: Vec<SocketAddr>) -> (Vec<SocketAddr>, bool) {
    if real.is_empty() || only_stubs(&real) { (stubs, true) } else { (real, false) }
}

/// The addresses of a host that has a name, and the name that its certificate must have.
fn by_name(
    word: &Token,
    text: &str,
    port: u16,
    (resolvers, block): (Option<&[SocketAddr]>, &BlockBuilder<'_>),
) -> Result<(Vec<SocketAddr>, Option<String>), Error> {
    let Some(resolvers) = resolvers else {
        return Err(Error::invalid(word, format!("not an IP address or file {text:?}")));
    };
    let (text, port) = match text.rsplit_once(':').map(|(text, port)| (text, port.parse())) {
        Some((text, Ok(port))) => (text, port),
        _ => (text, port),
    };
    let host = text.rsplit_once('%').map_or(text, |(host, _)| host);
    let valid = !host.contains('/') && nodens_wire::Name::parse(host).is_ok();
    if !valid {
        let text = format!("not an IP address, file, or valid domain: {:?}", word.text);
        return Err(Error::invalid(word, text));
    }
    // In a search domain it would be another server, which somebody else may run.
    let complete = format!("{}.", host.trim_end_matches('.'));
    let found = (block.options.lookup_host)(&complete, resolvers)
        .map_err(|error| Error::invalid(word, format!("failed to resolve {host:?}: {error}")))?;
    Ok((found.into_iter().map(|ip| SocketAddr::new(ip, port)).collect(), zone(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_with_and_without_port() {
        for (text, expected) in [
            ("192.0.2.1", Some("192.0.2.1:53")),
            ("192.0.2.1:1053", Some("192.0.2.1:1053")),
            ("2001:db8::1", Some("[2001:db8::1]:53")),
            ("[2001:db8::1]", Some("[2001:db8::1]:53")),
            ("[2001:db8::1]:1053", Some("[2001:db8::1]:1053")),
            ("fe80::1%eth0", Some("[fe80::1]:53")),
            ("192.0.2.1%a%b", None),
            ("192.0.2.1:", None),
            ("192.0.2.1:70000", None),
            ("192.0.2.256", None),
            ("dns.example", None),
            ("", None),
        ] {
            assert_eq!(address(text, PORT), expected.map(server), "{text}");
        }
    }

    #[test]
    fn the_name_of_a_certificate_stands_behind_the_address() {
        for (text, at, name) in [
            ("192.0.2.1", "192.0.2.1:853", None),
            ("192.0.2.1%", "192.0.2.1:853", None),
            ("192.0.2.1%dns.example", "192.0.2.1:853", Some("dns.example")),
            ("192.0.2.1%dns.example:8853", "192.0.2.1:8853", Some("dns.example")),
            ("192.0.2.1:8853%dns.example", "192.0.2.1:8853", Some("dns.example")),
            ("2001:db8::1%dns.example", "[2001:db8::1]:853", Some("dns.example")),
            // No name: refused later.
            ("2001:db8::1%dns.example:8853", "[2001:db8::1]:853", Some("dns.example:8853")),
            ("[2001:db8::1%dns.example]", "[2001:db8::1]:853", Some("dns.example")),
            ("[2001:db8::1%dns.example]:8853", "[2001:db8::1]:8853", Some("dns.example")),
        ] {
            assert_eq!(address(text, 853), Some(server(at)), "{text}");
            assert_eq!(zone(text).as_deref(), name, "{text}");
        }
    }

    #[test]
    fn nameservers_of_a_file() {
        let text = "# nameserver 1.1.1.1\nsearch a b\nnameserver 192.0.2.1\n\
                    nameserver\tfe80::1%eth0 # x\nnameserver bogus\nnameserver\noptions ndots:5\n";
        assert_eq!(nameservers(text), [server("192.0.2.1:53"), server("[fe80::1]:53")]);
    }

    #[test]
    fn the_stub_is_followed_to_the_real_servers() {
        let stub = vec![server("127.0.0.53:53")];
        let real = vec![server("192.0.2.1:53")];
        assert!(only_stubs(&stub) && !only_stubs(&real) && !only_stubs(&[]));
        assert_eq!(behind_stubs(stub.clone(), real.clone()), (real, false));
        assert_eq!(behind_stubs(stub.clone(), Vec::new()), (stub.clone(), true));
        assert_eq!(behind_stubs(stub.clone(), stub.clone()), (stub, true));
    }
}
