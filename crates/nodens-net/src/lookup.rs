//! Looks up the host names a Corefile names, while its configuration is built.
//!
//! This blocks. It is for the start and for reloads, where nothing answers questions yet or the
//! old configuration still does.

use crate::ask::{Way, ask};
use nodens_wire::{Message, Name, Rcode, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// How long one server has for one answer, as in CoreDNS.
const PATIENCE: Duration = Duration::from_secs(2);
/// The names that this machine knows by itself.
const HOSTS: &str = "/etc/hosts";

/// The addresses of `host`: from the first of `servers` that has any, asked over UDP for A and
/// AAAA, or from the system if no servers are given. The system walks its search list for a name
/// without a dot at its end.
///
/// # Errors
/// Why the last server gave none, or what the system says.
pub fn lookup_host(host: &str, servers: &[SocketAddr]) -> Result<Vec<IpAddr>, String> {
    if servers.is_empty() {
        return of_system(host);
    }
    let qname = Name::parse(host).map_err(|error| error.to_string())?;
    let mut last = String::new();
    for server in servers {
        match ask_both(&qname, *server) {
            Ok(addresses) if !addresses.is_empty() => return Ok(addresses),
            Ok(_) => last = format!("{server} knows no addresses of it"),
            Err(error) => last = format!("{server}: {error}"),
        }
    }
    Err(last)
}

fn of_system(host: &str) -> Result<Vec<IpAddr>, String> {
    // The C library finds no name with a dot at its end among those of the machine.
    if let Some(name) = host.strip_suffix('.') {
        let known = in_hosts(&std::fs::read_to_string(HOSTS).unwrap_or_default(), name);
        if !known.is_empty() {
            return Ok(known);
        }
    }
    let found = (host, 0).to_socket_addrs().map_err(|error| error.to_string())?;
    let mut addresses = Vec::new();
    for address in found {
        if !addresses.contains(&address.ip()) {
            addresses.push(address.ip());
        }
    }
    Ok(addresses)
}

/// The addresses that `text` in the format of `/etc/hosts` gives `host`.
fn in_hosts(text: &str, host: &str) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    for line in text.lines() {
        let line = line.split_once('#').map_or(line, |(line, _)| line);
        let mut words = line.split_ascii_whitespace();
        let address = words.next().and_then(|word| word.parse().ok());
        let Some(address) = address.filter(|address| !addresses.contains(address)) else {
            continue;
        };
        if words.any(|name| name.trim_end_matches('.').eq_ignore_ascii_case(host)) {
            addresses.push(address);
        }
    }
    addresses
}

/// A and AAAA. The second may fail if the first gave something.
fn ask_both(qname: &Name, server: SocketAddr) -> io::Result<Vec<IpAddr>> {
    let of = |qtype| {
        let response = ask(server, &Way::Udp, qname.view(), qtype, PATIENCE)?;
        addresses(&Message::parse(&response).map_err(io::Error::other)?)
    };
    let mut addresses = of(Type::A)?;
    match of(Type::AAAA) {
        Ok(more) => addresses.extend(more),
        Err(error) if addresses.is_empty() => return Err(error),
        Err(_) => {}
    }
    Ok(addresses)
}

fn addresses(message: &Message) -> io::Result<Vec<IpAddr>> {
    let rcode = message.flags.rcode();
    if rcode != Rcode::NOERROR {
        return Err(io::Error::other(rcode.to_string()));
    }
    if message.questions.is_empty() {
        return Err(io::Error::other("its response has no question"));
    }
    let address = |rtype: Type, rdata: &[u8]| match rtype {
        Type::A => <[u8; 4]>::try_from(rdata).ok().map(IpAddr::from),
        Type::AAAA => <[u8; 16]>::try_from(rdata).ok().map(IpAddr::from),
        _ => None,
    };
    let records = message.answer.iter();
    Ok(records.filter_map(|record| address(record.rtype, &record.rdata)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_wire::{Class, Record};
    use std::net::{Ipv4Addr, UdpSocket};

    /// A server that knows one name; forged answers come first.
    fn server() -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 512];
            while let Ok((len, from)) = socket.recv_from(&mut buffer) {
                let mut reply = Message::parse(&buffer[..len]).unwrap();
                let known = reply.questions[0].qname == "dns.example".parse().unwrap();
                let rcode = if known { Rcode::NOERROR } else { Rcode::NXDOMAIN };
                reply.flags = reply.flags.reply().with_rcode(rcode);
                let (qname, rtype) = (&reply.questions[0].qname, reply.questions[0].qtype);
                let mut record = |rtype, rdata: &[u8]| {
                    let (owner, rdata) = (qname.clone(), rdata.to_vec());
                    reply.answer.push(Record { owner, rtype, class: Class::IN, ttl: 0, rdata });
                };
                match rtype {
                    Type::A if known => {
                        record(Type::CNAME, &[0]);
                        record(Type::A, &[192, 0, 2, 1]);
                    }
                    Type::AAAA if known => record(Type::AAAA, &[0x20; 16]),
                    _ => {}
                }
                let mut out = Vec::new();
                reply.write(&mut out).unwrap();
                let mut forged = out.clone();
                forged[1] ^= 1;
                for message in [&[0; 3][..], &forged, &out] {
                    socket.send_to(message, from).unwrap();
                }
            }
        });
        address
    }

    #[test]
    fn the_first_server_that_knows_a_name_is_believed() {
        let closed = nodens_testkit::free_address();
        let found = lookup_host("DNS.example", &[closed, server()]).unwrap();
        assert_eq!(found, [IpAddr::from([192, 0, 2, 1]), IpAddr::from([0x20; 16])]);
        let error = lookup_host("other.example", &[server()]).unwrap_err();
        assert!(error.ends_with("NXDOMAIN"), "{error}");
        assert!(lookup_host("a..b", &[closed]).is_err());
    }

    #[test]
    fn complete_names_are_found_among_those_of_the_machine() {
        let text = "127.0.0.1 localhost\n# 192.0.2.9 dns\n192.0.2.1\tdns DNS.example # other\n\
                    2001:db8::1 dns.example.\nx dns\n192.0.2.1 dns.example\n";
        assert_eq!(in_hosts(text, "dns.example"), in_hosts(text, "Dns.Example"));
        let expected: Vec<IpAddr> =
            vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
        assert_eq!(in_hosts(text, "dns.example"), expected);
        assert_eq!(in_hosts(text, "other"), Vec::<IpAddr>::new());
    }

    #[test]
    fn without_servers_the_system_is_asked() {
        assert_eq!(lookup_host("localhost.", &[]), lookup_host("localhost", &[]));
        assert!(lookup_host("localhost", &[]).unwrap().contains(&Ipv4Addr::LOCALHOST.into()));
    }
}
