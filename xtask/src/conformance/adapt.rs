//! Changes a Corefile so that two servers can run it side by side on loopback: the same change for both, but for the
//! port numbers.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::authority::{self, Upstreams};
use super::corefile::{Corefile, Directive, Key, Word};

/// A port that a server listens on, by scheme and what the Corefile calls it: `53` for what `-dns.port` sets.
pub(crate) type Ports = BTreeMap<(String, u16), u16>;

/// The scheme of a key that has none.
const PLAIN: &str = "dns";

/// A Corefile made ready for one server.
#[derive(Debug)]
pub(crate) struct Adapted {
    pub(crate) text: String,
    /// The value for `-dns.port`.
    pub(crate) dns_port: u16,
    /// Every port that serves DNS, with what the Corefile called it.
    pub(crate) dns_ports: Ports,
    /// HTTP endpoints: directive and port.
    pub(crate) http_ports: Vec<(String, u16)>,
    /// Addresses that `bind` names; empty when it listens on all.
    pub(crate) binds: Vec<IpAddr>,
    /// The ports of the server blocks, as the Corefile calls them.
    served: Vec<u16>,
    /// The same with their schemes.
    listeners: Vec<(String, u16)>,
}

impl Adapted {
    /// The scheme and port of each listener.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = (&str, u16)> {
        let used = self.dns_ports.iter().filter(|(name, _)| self.listeners.contains(name));
        used.map(|((scheme, _), port)| (scheme.as_str(), *port))
    }

    /// The ports of the server blocks, as the Corefile calls them.
    pub(crate) fn served(&self) -> &[u16] {
        &self.served
    }

    /// The address to ask at, for a question from `client` to the port that the Corefile calls `port`, with `scheme`.
    pub(crate) fn target(&self, client: IpAddr, scheme: &str, port: u16) -> SocketAddr {
        let name = (scheme.to_owned(), port);
        let port = self.dns_ports.get(&name).copied().unwrap_or(self.dns_port);
        let loopback = if client.is_ipv4() { authority::loopback(1) } else { IPV6_LOOPBACK };
        let same_family = self.binds.iter().find(|bind| bind.is_ipv4() == client.is_ipv4());
        SocketAddr::new(*same_family.unwrap_or(&loopback), port)
    }
}

const IPV6_LOOPBACK: IpAddr = IpAddr::V6(std::net::Ipv6Addr::LOCALHOST);

/// The Corefile with a key for each scheme, at the same port, beside each that has none, and with `tls`, the directive,
/// in each of those blocks. `None` where a key has a scheme, a block has the directive, or there is nothing to change.
pub(crate) fn encrypt(text: &str, schemes: &[&str], tls: &str) -> Option<String> {
    let corefile = Corefile::parse(text);
    if corefile.directives().any(|directive| directive.name.text == "tls") {
        return None;
    }
    let mut edits = Vec::new();
    for block in corefile.blocks.iter().filter(|block| !block.is_snippet()) {
        for word in &block.keys {
            let mut keys = Vec::new();
            for key in word.text.split(',').filter_map(Key::parse) {
                if key.scheme != PLAIN || key.zone.contains([':', '$', '{']) {
                    return None;
                }
                let (zone, port) = (key.zone, key.port.unwrap_or(53));
                keys.push(format!("{PLAIN}://{zone}:{port}"));
                keys.extend(schemes.iter().map(|scheme| format!("{scheme}://{zone}:{port}")));
            }
            let comma = if word.text.ends_with(',') { "," } else { "" };
            edits.push((word.span.clone(), format!("{}{comma}", keys.join(" "))));
        }
        let end = block.keys.last()?.span.end;
        let brace = end + text.get(end..)?.find('{')? + 1;
        edits.push((brace..brace, format!("\n    {tls}")));
    }
    (!edits.is_empty()).then(|| apply(text, edits))
}

/// Adapts `text`; `free_port` gives a port that nobody uses.
pub(crate) fn adapt(
    text: &str,
    upstreams: &Upstreams,
    mut free_port: impl FnMut() -> u16,
) -> Adapted {
    let corefile = Corefile::parse(text);
    let plain = |port| (PLAIN.to_owned(), port);
    let mut dns_ports = Ports::new();
    dns_ports.insert(plain(53), free_port());
    let mut listeners: Vec<(String, u16)> =
        corefile.keys().map(|key| (key.scheme.to_owned(), key.port.unwrap_or(53))).collect();
    if listeners.is_empty() {
        // A Corefile of one block may leave the braces out.
        listeners.push(plain(53));
    }
    listeners.sort_unstable();
    listeners.dedup();
    for name in &listeners {
        dns_ports.entry(name.clone()).or_insert_with(&mut free_port);
    }
    let mut served: Vec<u16> = listeners.iter().map(|(_, port)| *port).collect();
    served.sort_unstable();
    served.dedup();
    let mut edits =
        Edits { edits: Vec::new(), dns_ports, http_ports: Vec::new(), binds: Vec::new() };
    for word in corefile.blocks.iter().flat_map(|block| &block.keys) {
        edits.key(word);
    }
    let mut forwards = 0;
    for directive in corefile.directives() {
        match directive.name.text.as_str() {
            "forward" => {
                edits.forward(directive, forwards, upstreams);
                forwards += 1;
            }
            "grpc" => edits.grpc(directive, upstreams),
            "secondary" => edits.secondary(directive, upstreams),
            "health" | "ready" | "prometheus" | "pprof" => edits.endpoint(directive, free_port()),
            "bind" => edits.bind(directive),
            "acl" => edits.acl(directive),
            _ => {}
        }
    }
    Adapted {
        text: apply(text, edits.edits),
        dns_port: edits.dns_ports[&plain(53)],
        dns_ports: edits.dns_ports,
        http_ports: edits.http_ports,
        binds: edits.binds,
        served,
        listeners,
    }
}

struct Edits {
    edits: Vec<(std::ops::Range<usize>, String)>,
    dns_ports: Ports,
    http_ports: Vec<(String, u16)>,
    binds: Vec<IpAddr>,
}

impl Edits {
    fn replace(&mut self, word: &Word, text: String) {
        self.edits.push((word.span.clone(), text));
    }

    fn key(&mut self, word: &Word) {
        let parts = word.text.split(',').map(|part| match Key::parse(part) {
            Some(Key { scheme, zone, port: Some(port) }) => {
                format!("{scheme}://{zone}:{}", self.dns_ports[&(scheme.to_owned(), port)])
            }
            _ => part.to_owned(),
        });
        let text = parts.collect::<Vec<_>>().join(",");
        if text != word.text {
            self.replace(word, text);
        }
    }

    /// Points a `forward` at the local authority. The n-th `forward` of a Corefile gets the n-th flavour, so that
    /// answers show which one was asked; with `policy sequential` each address of the list gets its own.
    fn forward(&mut self, directive: &Directive, nth: usize, upstreams: &Upstreams) {
        let sequential = directive.options.iter().any(|option| {
            option.iter().map(|word| word.text.as_str()).eq(["policy", "sequential"])
        });
        for (index, to) in directive.arguments.iter().skip(1).enumerate() {
            let (flavour, host) = if sequential { (nth + index, 0) } else { (nth, index) };
            let (scheme, address) = match to.text.split_once("://") {
                Some((scheme, address)) => (format!("{scheme}://"), address),
                None => (String::new(), to.text.as_str()),
            };
            let upstream = match upstream_kind(address) {
                _ if !matches!(scheme.as_str(), "" | "dns://") => upstreams.closed(),
                Kind::Own(port) if self.plain_port(port).is_some() => {
                    let port = self.plain_port(port).unwrap_or_default();
                    SocketAddr::new(authority::loopback(1), port)
                }
                Kind::Closed => upstreams.closed(),
                Kind::Mute => upstreams.mute(),
                Kind::Flavour(flavour, host) => upstreams.address(flavour, host),
                Kind::Own(_) | Kind::Any => upstreams.address(flavour, host),
                Kind::NotAnAddress => continue,
            };
            self.replace(to, format!("{scheme}{upstream}"));
        }
    }

    /// Points a `grpc` at the block of the same Corefile that has its port, else where nothing listens: the local
    /// authority does not speak it.
    fn grpc(&mut self, directive: &Directive, upstreams: &Upstreams) {
        for to in directive.arguments.iter().skip(1) {
            let own = match upstream_kind(&to.text) {
                Kind::NotAnAddress => continue,
                Kind::Own(port) => self.dns_ports.get(&("grpc".to_owned(), port)),
                _ => None,
            };
            let own = own.map(|port| SocketAddr::new(authority::loopback(1), *port));
            self.replace(to, own.unwrap_or_else(|| upstreams.closed()).to_string());
        }
    }

    /// Has zones transferred from the primary of the case, or from a closed port for `10.53.0.1` and where it has none.
    fn secondary(&mut self, directive: &Directive, upstreams: &Upstreams) {
        for option in &directive.options {
            let [first, second, addresses @ ..] = option.as_slice() else { continue };
            if (first.text.as_str(), second.text.as_str()) != ("transfer", "from") {
                continue;
            }
            for word in addresses {
                let primary = match upstream_kind(&word.text) {
                    Kind::NotAnAddress => continue,
                    Kind::Closed => None,
                    Kind::Mute => Some(upstreams.mute()),
                    _ => upstreams.primary(),
                };
                self.replace(word, primary.unwrap_or_else(|| upstreams.closed()).to_string());
            }
        }
    }

    fn plain_port(&self, name: u16) -> Option<u16> {
        self.dns_ports.get(&(PLAIN.to_owned(), name)).copied()
    }

    fn endpoint(&mut self, directive: &Directive, port: u16) {
        let name = directive.name.text.clone();
        match directive.arguments.first() {
            Some(address) => {
                let host = address.text.split_once(':').map_or("", |(host, _)| host);
                self.replace(address, format!("{host}:{port}"));
            }
            None => self.replace(&directive.name, format!("{name} 127.0.0.1:{port}")),
        }
        self.http_ports.push((name, port));
    }

    /// Loopback addresses and interface names stay; others become a loopback alias with the same last octet.
    fn bind(&mut self, directive: &Directive) {
        let excepted: Vec<&str> = directive
            .options
            .iter()
            .filter(|option| option.first().is_some_and(|word| word.text == "except"))
            .flat_map(|option| option.iter().skip(1).map(|word| word.text.as_str()))
            .collect();
        for word in &directive.arguments {
            let Ok(address) = word.text.parse::<IpAddr>() else {
                let loopbacks = [authority::loopback(1), IPV6_LOOPBACK];
                let kept = loopbacks.into_iter().filter(|a| !excepted.contains(&&*a.to_string()));
                self.binds.extend(kept);
                continue;
            };
            let alias = match address {
                IpAddr::V4(v4) if !v4.is_loopback() => authority::loopback(v4.octets()[3].max(2)),
                other => other,
            };
            self.binds.push(alias);
            if alias != address {
                self.replace(word, alias.to_string());
            }
        }
    }

    /// Maps networks of documentation and private use into 127.0.0.0/8, so that clients inside them can be had.
    fn acl(&mut self, directive: &Directive) {
        for word in directive.options.iter().flatten() {
            let (address, length) = word.text.split_once('/').unwrap_or((&word.text, ""));
            let Ok(IpAddr::V4(v4)) = address.parse::<IpAddr>() else { continue };
            let [a, b, c, d] = v4.octets();
            let mapped = match a {
                127 => continue,
                192 if b == 168 => Ipv4Addr::new(127, b, c, d),
                _ => Ipv4Addr::new(127, a, c, d),
            };
            let slash = if length.is_empty() { "" } else { "/" };
            self.replace(word, format!("{mapped}{slash}{length}"));
        }
    }
}

/// What an upstream's address in a Corefile stands for.
enum Kind {
    /// `127.0.0.1:PORT`: perhaps a server block of the same Corefile.
    Own(u16),
    /// `10.53.0.1`: nothing listens there.
    Closed,
    /// `10.53.0.2`: takes everything and never answers.
    Mute,
    /// `10.53.F.H` with F ≥ 1: flavour F - 1, host H.
    Flavour(usize, usize),
    Any,
    NotAnAddress,
}

fn upstream_kind(text: &str) -> Kind {
    if text.starts_with('/') {
        return Kind::Any;
    }
    let bare = text.split_once('%').map_or(text, |(address, _)| address);
    let address = bare.parse::<SocketAddr>().ok();
    let ip = address.map(|a| a.ip()).or_else(|| bare.parse().ok());
    match (ip, address) {
        (Some(IpAddr::V4(v4)), Some(address)) if v4.is_loopback() => Kind::Own(address.port()),
        (Some(IpAddr::V4(v4)), _) => match v4.octets() {
            [10, 53, 0, 1] => Kind::Closed,
            [10, 53, 0, 2] => Kind::Mute,
            [10, 53, flavour, host] if flavour > 0 => {
                Kind::Flavour(flavour as usize - 1, host as usize)
            }
            _ => Kind::Any,
        },
        (Some(_), _) => Kind::Any,
        (None, _) => Kind::NotAnAddress,
    }
}

fn apply(text: &str, mut edits: Vec<(std::ops::Range<usize>, String)>) -> String {
    edits.sort_by_key(|(span, _)| span.start);
    let mut adapted = text.to_owned();
    for (span, new) in edits.into_iter().rev() {
        adapted.replace_range(span, &new);
    }
    adapted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapted(text: &str) -> Adapted {
        let mut port = 20_000;
        let upstreams = Upstreams::fixed(9000);
        adapt(text, &upstreams, || {
            port += 1;
            port
        })
    }

    #[test]
    fn ports_of_keys_and_endpoints() {
        let out = adapted("a.org:53, b.org:1053 {\n health\n ready :8181\n}\n. {\n whoami\n}\n");
        assert_eq!(
            out.text,
            "dns://a.org:20001, dns://b.org:20002 {\n health 127.0.0.1:20003\n ready :20004\n}\n\
             . {\n whoami\n}\n"
        );
        assert_eq!(out.dns_port, 20_001);
        assert_eq!(out.http_ports[1], ("ready".to_owned(), 20_004));
    }

    #[test]
    fn a_grpc_asks_a_block_of_the_same_corefile() {
        let text = ". {\n grpc . 127.0.0.1:5301 192.0.2.1 unix:///s\n}\ngrpc://.:5301 {\n}\n";
        let out = adapted(text);
        let port = out.dns_ports[&("grpc".to_owned(), 5301)];
        let closed = Upstreams::fixed(9000).closed();
        let expected = format!(
            ". {{\n grpc . 127.0.0.1:{port} {closed} unix:///s\n}}\ngrpc://.:{port} {{\n}}\n"
        );
        assert_eq!(out.text, expected);
    }

    #[test]
    fn a_key_for_each_scheme() {
        let text = "(s) {\n any\n}\na.org, b.org:1053 {\n whoami\n}\n";
        let encrypted = encrypt(text, &["tls", "quic"], "tls c k").unwrap();
        let expected = "(s) {\n any\n}\ndns://a.org:53 tls://a.org:53 quic://a.org:53, \
                        dns://b.org:1053 tls://b.org:1053 quic://b.org:1053 {\n    tls c k\n whoami\n}\n";
        assert_eq!(encrypted, expected);
        let out = adapted(&encrypted);
        let client = authority::loopback(1);
        let mut targets = vec![
            out.target(client, "dns", 53),
            out.target(client, "tls", 53),
            out.target(client, "tls", 1053),
            out.target(client, "quic", 53),
        ];
        targets.sort();
        targets.dedup();
        assert_eq!((targets.len(), out.listeners().count()), (4, 6));
        for same in ["tls://. {\n whoami\n}\n", ". {\n tls a b\n}\n", "whoami\n"] {
            assert_eq!(encrypt(same, &["tls"], "tls c k"), None, "{same}");
        }
    }

    #[test]
    fn upstreams_become_the_authority() {
        let out = adapted(
            ". {\n forward a.org 8.8.8.8 9.9.9.9:53\n forward . /etc/resolv.conf 10.53.0.1\n}\n",
        );
        assert_eq!(
            out.text,
            ". {\n forward a.org 127.0.0.1:9000 127.0.0.2:9000\n forward . 127.0.0.1:9001 \
             127.0.0.1:9101\n}\n"
        );
        let own = adapted(". {\n forward . 127.0.0.1:5301\n}\n.:5301 {\n whoami\n}\n");
        assert!(own.text.contains("forward . 127.0.0.1:20002"), "{}", own.text);
    }

    #[test]
    fn a_secondary_transfers_from_the_primary_of_its_case() {
        let text = "a.org {\n secondary {\n  transfer from 192.0.2.1 10.53.0.1\n }\n}\n";
        let upstreams = Upstreams::fixed(9000);
        let adapted = adapt(text, &upstreams.with_primary(77), || 1).text;
        assert!(adapted.contains("transfer from 127.0.0.1:77 127.0.0.1:9101\n"), "{adapted}");
        let without = adapt(text, &upstreams, || 1).text;
        assert!(without.contains("transfer from 127.0.0.1:9101 127.0.0.1:9101\n"), "{without}");
    }

    #[test]
    fn networks_of_acl_move_to_loopback() {
        let out = adapted(". {\n acl {\n  block type A net 192.168.0.0/16 10.1.2.3\n }\n}\n");
        assert!(out.text.contains("net 127.168.0.0/16 127.10.2.3"), "{}", out.text);
    }

    #[test]
    fn binds_decide_where_to_ask() {
        let out = adapted(". {\n bind lo {\n  except 127.0.0.1\n }\n}\n");
        assert_eq!(out.binds, [IPV6_LOOPBACK]);
        let v4 = adapted(". {\n bind 10.0.0.7\n}\n");
        assert!(v4.text.contains("bind 127.0.0.7"));
        assert_eq!(v4.target(authority::loopback(1), "dns", 53).to_string(), "127.0.0.7:20001");
    }
}
