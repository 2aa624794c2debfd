//! Servers as people name them: an address or a name, with a port or without.

use anyhow::{Context, Result, bail};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::{fmt, io};

/// A server as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    host: String,
    pub(crate) port: Option<u16>,
}

/// A text that names no server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoServer {
    text: String,
    why: &'static str,
}

impl fmt::Display for NoServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, why } = self;
        write!(
            f,
            "`{text}`: {why}; expected an address or a name, with a port or without, such as 10.0.0.10, \
             [2001:db8::1]:53, localhost:1053 or kube-dns.kube-system.svc"
        )
    }
}

impl std::error::Error for NoServer {}

impl FromStr for Server {
    type Err = NoServer;

    fn from_str(text: &str) -> Result<Self, NoServer> {
        let error = |why| NoServer { text: text.to_owned(), why };
        let port_of = |port: &str| match port.parse::<u16>() {
            Ok(port) if port > 0 => Ok(port),
            _ => Err(error("the port is not a number from 1 to 65535")),
        };
        if text.contains("//") {
            return Err(error("a URL is not accepted here (--doh-path takes the path)"));
        }
        if let Some(rest) = text.strip_prefix('[') {
            let (host, rest) = rest.split_once(']').ok_or_else(|| error("a `]` is missing"))?;
            if !is_v6(host) {
                return Err(error("only an IPv6 address can stand in brackets"));
            }
            let port = match rest.strip_prefix(':') {
                Some(port) => Some(port_of(port)?),
                None if rest.is_empty() => None,
                None => return Err(error("only `:PORT` may follow `]`")),
            };
            return Ok(Self { host: host.to_owned(), port });
        }
        if is_v6(text) {
            return Ok(Self { host: text.to_owned(), port: None });
        }
        let (host, port) = match text.split_once(':') {
            Some((_, rest)) if rest.contains(':') => {
                return Err(error("not an IPv6 address, and a name has one `:` at most"));
            }
            Some((host, port)) => (host, Some(port_of(port)?)),
            None => (text, None),
        };
        let in_name = |c: char| c.is_alphanumeric() || "-_.".contains(c);
        if host.is_empty() || host.starts_with(['-', '.']) || !host.chars().all(in_name) {
            return Err(error("neither an address nor a name"));
        }
        // The system would take `127.1` or `300.1.1.1` for something, but hardly as intended.
        let is_number = |label: &str| label.bytes().all(|octet| octet.is_ascii_digit());
        let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
        if is_number(last) && host.parse::<IpAddr>().is_err() {
            return Err(error("not an IPv4 address, and no name ends in a number"));
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

/// Reads a port.
pub(crate) fn port(text: &str) -> Result<u16, String> {
    let port = text.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| format!("`{text}` is not a port, expected a number from 1 to 65535"))
}

/// Reads an address to listen on.
pub(crate) fn listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        let expected = "expected an address of this machine with a port, such as 127.0.0.1:5300";
        format!("`{text}` is not an address to listen on, {expected} or [::1]:5300")
    })
}

/// Reads the number of a CPU.
pub(crate) fn cpu(text: &str) -> Result<usize, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not a CPU number, expected numbers of CPUs, such as 2,3"))
}

/// Whether it is an IPv6 address, possibly with a zone, as `fe80::1%eth0`.
fn is_v6(text: &str) -> bool {
    let address = text.split_once('%').filter(|(_, zone)| !zone.is_empty());
    let address = address.map_or(text, |(address, _)| address);
    matches!(address.parse(), Ok(IpAddr::V6(_)))
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The address that is used.
    pub(crate) address: SocketAddr,
    /// The note about a name: which address was chosen from which.
    pub(crate) told: Option<String>,
}

impl Server {
    /// The name, if it is one and no address: what a certificate is for.
    pub(crate) fn name(&self) -> Option<&str> {
        let is_address = self.host.parse::<IpAddr>().is_ok() || is_v6(&self.host);
        (!is_address).then_some(&self.host)
    }

    /// Its address, at `port` if it has no other, by the system's resolver (getaddrinfo).
    pub(crate) fn find(&self, port: u16) -> Result<Found> {
        let port = self.port.unwrap_or(port);
        self.choose((self.host.as_str(), port).to_socket_addrs().map(Iterator::collect))
    }

    /// The first of the addresses that the system has found, which sorts them (RFC 6724).
    fn choose(&self, found: io::Result<Vec<SocketAddr>>) -> Result<Found> {
        let host = &self.host;
        let mut all = found
            .with_context(|| format!("cannot resolve `{host}`: this system finds no address"))?;
        let mut seen = Vec::new();
        all.retain(|address| {
            !seen.contains(address) && {
                seen.push(*address);
                true
            }
        });
        let Some(first) = all.first().copied() else {
            bail!("cannot resolve `{host}`: it has no address");
        };
        let told = self.name().map(|name| match &all[1..] {
            [] => format!("{name} is {}", first.ip()),
            others => {
                let others: Vec<_> = others.iter().map(|other| other.ip().to_string()).collect();
                format!(
                    "{name} has {} addresses: {} is used, not {}",
                    others.len() + 1,
                    first.ip(),
                    others.join(", ")
                )
            }
        });
        Ok(Found { address: first, told })
    }

    /// As [`Server::find`], and says on standard error what a name stands for.
    pub(crate) fn find_and_tell(&self, port: u16) -> Result<SocketAddr> {
        let found = self.find(port)?;
        if let Some(told) = found.told {
            crate::term::note(&format!("  {told}"));
        }
        Ok(found.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(text: &str) -> Server {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn addresses_and_names_are_read_with_and_without_ports() {
        for (text, host, port) in [
            ("10.0.0.10", "10.0.0.10", None),
            ("10.0.0.10:1053", "10.0.0.10", Some(1_053)),
            ("2001:db8::1", "2001:db8::1", None),
            ("[2001:db8::1]", "2001:db8::1", None),
            ("[2001:db8::1]:853", "2001:db8::1", Some(853)),
            ("fe80::1%eth0", "fe80::1%eth0", None),
            ("[fe80::1%eth0]:53", "fe80::1%eth0", Some(53)),
            ("localhost", "localhost", None),
            ("kube-dns.kube-system.svc", "kube-dns.kube-system.svc", None),
            ("kube-dns.kube-system.svc.:5353", "kube-dns.kube-system.svc.", Some(5_353)),
        ] {
            assert_eq!(server(text), Server { host: host.to_owned(), port }, "{text}");
        }
    }

    #[test]
    fn what_is_no_server_is_named_with_what_was_expected() {
        for (text, why) in [
            ("", "neither an address nor a name"),
            ("[10.0.0.1]:53", "only an IPv6 address"),
            ("[::1", "a `]` is missing"),
            ("[::1]53", "may follow `]`"),
            ("localhost:dns", "the port is not a number"),
            ("localhost:0", "the port is not a number"),
            ("localhost:70000", "the port is not a number"),
            ("a:b:c", "not an IPv6 address"),
            ("https://dns.example/dns-query", "a URL"),
            ("10.0.0.300", "not an IPv4 address"),
            ("127.1", "not an IPv4 address"),
            ("two words", "neither an address nor a name"),
            ("-x", "neither an address nor a name"),
        ] {
            let error = text.parse::<Server>().unwrap_err().to_string();
            assert!(
                error.contains(why) && error.contains("expected an address"),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn of_several_addresses_the_first_is_used_and_all_are_told() {
        let addresses =
            |texts: &[&str]| Ok(texts.iter().map(|text| text.parse().unwrap()).collect());
        let found =
            server("localhost").choose(addresses(&["[::1]:53", "127.0.0.1:53", "[::1]:53"]));
        let found = found.unwrap();
        assert_eq!(found.address, "[::1]:53".parse().unwrap());
        let told = found.told.unwrap();
        assert_eq!(told, "localhost has 2 addresses: ::1 is used, not 127.0.0.1");
        let found = server("localhost").choose(addresses(&["127.0.0.1:53"])).unwrap();
        assert_eq!(found.told.unwrap(), "localhost is 127.0.0.1");
        // An address is not worth a word.
        assert_eq!(server("127.0.0.1").choose(addresses(&["127.0.0.1:53"])).unwrap().told, None);
        let none = server("nowhere.invalid").choose(Err(io::Error::other("no such name")));
        assert!(format!("{:#}", none.unwrap_err()).starts_with("cannot resolve `nowhere.invalid`"));
    }

    #[test]
    fn the_port_is_the_one_given_or_that_of_the_transport() {
        let port = |text: &str| server(text).find(853).unwrap().address;
        assert_eq!(port("127.0.0.1"), "127.0.0.1:853".parse().unwrap());
        assert_eq!(port("[::1]:53"), "[::1]:53".parse().unwrap());
    }
}
