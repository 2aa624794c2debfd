//! A root, three top-level zones and 200 zones below them, each with something that a rebuilt zone may get wrong.

use crate::place::{Namespaces, Started};
use nodens_wire::{Name, Type};
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::path::Path;

const ROOT: [&str; 2] = ["198.41.0.4", "199.9.14.201"];
/// Top-level zones with the addresses of their servers.
const TOP: [(&str, [&str; 2]); 3] = [
    ("com", ["203.0.113.1", "203.0.113.2"]),
    ("net", ["203.0.113.3", "203.0.113.4"]),
    ("org", ["203.0.113.5", "203.0.113.6"]),
];
const LEAVES: usize = 200;
/// Zones of this kind are at the servers of `hoster.net`, whose names are not theirs.
const HOSTED: usize = 8;
const HOSTER: [&str; 2] = ["198.18.200.1", "198.18.200.2"];
/// Kinds of zones, by number modulo this.
const KINDS: usize = 10;

struct Zone {
    name: String,
    kind: usize,
    servers: Vec<String>,
    text: String,
}

pub(crate) struct Internet {
    leaves: Vec<Zone>,
    /// Zones below leaves, at servers of their own.
    subs: Vec<Zone>,
}

fn soa(zone: &str) -> String {
    let mail = if zone.is_empty() {
        "hostmaster.example.".to_owned()
    } else {
        format!("hostmaster.{zone}.")
    };
    format!(
        "$ORIGIN {zone}.\n$TTL 3600\n@ IN SOA ns1.example. {mail} 2026010101 7200 3600 1209600 600\n"
    )
}

fn name_of(number: usize) -> String {
    format!("leaf{number}.{}", TOP[number % TOP.len()].0)
}

fn leaf(number: usize) -> Zone {
    let (name, kind) = (name_of(number), number % KINDS);
    let server = |at: usize| format!("198.18.{}.{}", 1 + number / 100 + 2 * at, 1 + number % 100);
    let mut servers = vec![server(0), server(1)];
    let mut text = soa(&name);
    if kind == HOSTED {
        servers = HOSTER.map(str::to_owned).to_vec();
        text += "@ NS ns1.hoster.net.\n@ NS ns2.hoster.net.\n";
    } else {
        if kind == 9 {
            servers.push(format!("2001:db8::{number:x}"));
        }
        for (at, address) in servers.iter().enumerate() {
            let rtype = if address.contains(':') { "AAAA" } else { "A" };
            _ = writeln!(text, "@ NS ns{at}\nns{at} {rtype} {address}");
        }
    }
    _ = writeln!(
        text,
        "@ MX 10 mail\nmail A 192.0.2.{}\nwww 300 A 10.0.0.{}\nwww A 10.0.1.{0}",
        number % 250,
        number % 250
    );
    let next = name_of((number + 1) % LEAVES);
    let more = match kind {
        1 => "web A 10.1.1.1\nalias CNAME web\n".to_owned(),
        2 => format!("alias CNAME www.{next}.\nlong CNAME alias\n"),
        3 => format!("new A 10.1.1.2\na.new A 10.1.1.3\nold DNAME new\naway DNAME {next}.\n"),
        4 => format!("sub NS ns.sub\nns.sub A {}\n", sub_server(number)),
        5 => "* A 10.1.1.4\n* TXT \"any name\"\n".to_owned(),
        6 => {
            let texts = (0..12).map(|at| format!("big TXT \"{at} {}\"\n", "x".repeat(240)));
            texts.collect::<String>() + "odd TXT \"a \\\"quoted\\\" ; word\" \"\\200\\000\"\n"
        }
        7 => "a.b.c A 10.1.1.5\n_sip._tcp SRV 1 2 5060 mail\n@ CAA 0 issue \"ca.example\"\n"
            .to_owned(),
        9 => "v6 AAAA 2001:db8:1::1\nhttps HTTPS 1 . alpn=h2\n".to_owned(),
        _ => "@ TXT \"v=spf1 -all\"\n".to_owned(),
    };
    Zone { name, kind, servers, text: text + &more }
}

fn sub_server(number: usize) -> String {
    format!("198.18.100.{}", 1 + number % 250)
}

impl Internet {
    pub(crate) fn new() -> Self {
        let mut leaves: Vec<_> = (0..LEAVES).map(leaf).collect();
        let servers = HOSTER.map(str::to_owned).to_vec();
        let [one, two] = HOSTER;
        let text = soa("hoster.net")
            + &format!("@ NS ns1\n@ NS ns2\nns1 A {one}\nns2 A {two}\nwww A 10.2.2.2\n");
        leaves.push(Zone { name: "hoster.net".to_owned(), kind: 0, servers, text });
        let sub = |number: usize| {
            let name = format!("sub.{}", name_of(number));
            let server = sub_server(number);
            let text = soa(&name)
                + &format!(
                    "@ NS ns\nns A {server}\nwww A 10.3.3.3\nalias CNAME www.{}.\n",
                    name_of(0)
                );
            Zone { name, kind: 4, servers: vec![server], text }
        };
        let subs = (0..LEAVES).filter(|number| number % KINDS == 4).map(sub).collect();
        Self { leaves, subs }
    }

    pub(crate) fn zone_count(&self) -> usize {
        1 + TOP.len() + self.leaves.len() + self.subs.len()
    }

    /// What is asked for, in the order in which it is asked.
    pub(crate) fn questions(&self) -> Vec<(Name, Type)> {
        let mut all = Vec::new();
        for zone in self.leaves.iter().chain(&self.subs) {
            let mut add = |label: &str, rtype: Type| {
                let name = if label.is_empty() {
                    zone.name.clone()
                } else {
                    format!("{label}.{}", zone.name)
                };
                all.push((Name::parse(&name).unwrap(), rtype));
            };
            add("www", Type::A);
            add("www", Type::AAAA);
            add("", Type::MX);
            add("nothing", Type::A);
            add("", Type::NS);
            let more: &[(&str, Type)] = match zone.kind {
                1 => &[("alias", Type::A), ("alias", Type::AAAA)],
                2 => &[("alias", Type::A), ("long", Type::A)],
                3 => &[
                    ("a.old", Type::A),
                    ("b.old", Type::A),
                    ("old", Type::A),
                    ("www.away", Type::A),
                ],
                4 => &[("alias", Type::A), ("sub", Type::SOA)],
                5 => &[
                    ("one", Type::A),
                    ("two.three", Type::A),
                    ("one", Type::TXT),
                    ("four", Type::MX),
                ],
                6 => &[("big", Type::TXT), ("odd", Type::TXT)],
                7 => &[
                    ("c", Type::A),
                    ("a.b.c", Type::A),
                    ("x.c", Type::A),
                    ("_sip._tcp", Type::SRV),
                    ("", Type::CAA),
                ],
                9 => &[("v6", Type::AAAA), ("https", Type::HTTPS)],
                _ => &[("", Type::TXT), ("", Type::SOA)],
            };
            more.iter().for_each(|(label, rtype)| add(label, *rtype));
        }
        let tops = TOP.map(|(name, _)| (Name::parse(name).unwrap(), Type::NS));
        all.extend(tops);
        all.push((Name::parse("no-such-top-level").unwrap(), Type::A));
        all.push((Name::parse("not-registered.com").unwrap(), Type::A));
        all
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        let zones = self.leaves.iter().chain(&self.subs).flat_map(|zone| zone.servers.clone());
        let top = TOP.iter().flat_map(|(_, servers)| servers).chain(&ROOT).map(ToString::to_string);
        let mut all: Vec<_> = zones.chain(top).collect();
        all.sort();
        all.dedup();
        all
    }

    /// The servers of the root and the top-level zones.
    pub(crate) fn upper_servers(&self) -> Vec<Ipv4Addr> {
        let top = TOP.iter().flat_map(|(_, servers)| servers);
        top.chain(&ROOT).map(|address| address.parse().unwrap()).collect()
    }

    /// Commands that give the servers' namespace its addresses.
    pub(crate) fn batch(&self) -> String {
        let line = |address: &String| match address.parse::<Ipv4Addr>() {
            Ok(_) => format!("address add {address}/32 dev lo\n"),
            Err(_) => format!("address add {address}/128 dev lo nodad\n"),
        };
        self.addresses().iter().map(line).collect()
    }

    pub(crate) fn hints(&self) -> String {
        let [one, two] = ROOT;
        format!(
            ". 3600 NS a.root.example.\n. 3600 NS b.root.example.\na.root.example. 3600 A {one}\nb.root.example. 3600 A {two}\n"
        )
    }

    fn root(&self) -> Zone {
        let [one, two] = ROOT;
        let mut text = soa("") + "@ NS a.root.example.\n@ NS b.root.example.\n";
        _ = writeln!(text, "a.root.example. A {one}\nb.root.example. A {two}");
        for (top, servers) in TOP {
            for (at, server) in servers.iter().enumerate() {
                _ = writeln!(text, "{top}. NS ns{at}.nic.{top}.\nns{at}.nic.{top}. A {server}");
            }
        }
        Zone { name: ".".to_owned(), kind: 0, servers: ROOT.map(str::to_owned).to_vec(), text }
    }

    fn tops(&self) -> Vec<Zone> {
        let zone = |(top, servers): (&str, [&str; 2])| {
            let mut text = soa(top);
            for (at, server) in servers.iter().enumerate() {
                _ = writeln!(text, "@ NS ns{at}.nic\nns{at}.nic A {server}");
            }
            for leaf in self.leaves.iter().filter(|leaf| leaf.name.ends_with(&format!(".{top}"))) {
                if leaf.kind == HOSTED {
                    _ = writeln!(
                        text,
                        "{0}. NS ns1.hoster.net.\n{0}. NS ns2.hoster.net.",
                        leaf.name
                    );
                    continue;
                }
                let is_hoster = leaf.name == "hoster.net";
                for (at, server) in leaf.servers.iter().enumerate() {
                    let host = if is_hoster { at + 1 } else { at };
                    let rtype = if server.contains(':') { "AAAA" } else { "A" };
                    _ = writeln!(
                        text,
                        "{0}. NS ns{host}.{0}.\nns{host}.{0}. {rtype} {server}",
                        leaf.name
                    );
                }
            }
            Zone {
                name: top.to_owned(),
                kind: 0,
                servers: servers.map(str::to_owned).to_vec(),
                text,
            }
        };
        TOP.into_iter().map(zone).collect()
    }

    /// Knot for the root and the deepest zones, NSD for the top-level zones, BIND for the others.
    pub(crate) fn start(&self, place: &Namespaces, folder: &Path) -> Vec<Started> {
        let tops = self.tops();
        vec![
            knot(place, folder, "root", &[&self.root()]),
            knot(place, folder, "subs", &self.subs.iter().collect::<Vec<_>>()),
            nsd(place, folder, &tops),
            bind(place, folder, &self.leaves),
        ]
    }
}

/// Writes the zones' files, and returns the servers' addresses.
fn write_zones(folder: &Path, zones: &[&Zone]) -> Vec<String> {
    std::fs::create_dir_all(folder).unwrap();
    for zone in zones {
        std::fs::write(folder.join(format!("{}.zone", zone.name)), &zone.text).unwrap();
    }
    let mut addresses: Vec<_> = zones.iter().flat_map(|zone| zone.servers.clone()).collect();
    addresses.sort();
    addresses.dedup();
    addresses
}

fn knot(place: &Namespaces, folder: &Path, name: &str, zones: &[&Zone]) -> Started {
    let home = folder.join(name);
    let addresses = write_zones(&home, zones);
    let shown = home.display();
    let listen: Vec<_> = addresses.iter().map(|address| format!("{address}@53")).collect();
    let mut text = format!(
        "server:\n  rundir: \"{shown}\"\n  listen: [{}]\n  udp-workers: 1\n  tcp-workers: 1\n\
         log:\n  - target: stderr\n    any: warning\ndatabase:\n  storage: \"{shown}\"\nzone:\n",
        listen.join(", ")
    );
    for zone in zones {
        _ = writeln!(
            text,
            "  - domain: \"{0}\"\n    file: \"{shown}/{0}.zone\"\n    zonefile-sync: -1",
            zone.name
        );
    }
    let conf = home.join("knot.conf");
    std::fs::write(&conf, text).unwrap();
    let mut command = place.in_servers(Path::new("knotd"));
    command.arg("-c").arg(&conf);
    Started::new(&format!("knot-{name}"), command, folder)
}

fn nsd(place: &Namespaces, folder: &Path, zones: &[Zone]) -> Started {
    let home = folder.join("nsd");
    let addresses = write_zones(&home, &zones.iter().collect::<Vec<_>>());
    let shown = home.display();
    let mut text = format!(
        "server:\n username: \"\"\n zonesdir: \"{shown}\"\n pidfile: \"\"\n xfrdfile: \"{shown}/xfrd.state\"\n \
         zonelistfile: \"{shown}/zone.list\"\n xfrdir: \"{shown}\"\n server-count: 1\n"
    );
    addresses.iter().for_each(|address| _ = writeln!(text, " ip-address: {address}"));
    text += "remote-control:\n control-enable: no\n";
    for zone in zones {
        _ = writeln!(text, "zone:\n name: \"{0}\"\n zonefile: \"{0}.zone\"", zone.name);
    }
    let conf = home.join("nsd.conf");
    std::fs::write(&conf, text).unwrap();
    let mut command = place.in_servers(Path::new("nsd"));
    command.args(["-d", "-c"]).arg(&conf);
    Started::new("nsd", command, folder)
}

fn bind(place: &Namespaces, folder: &Path, zones: &[Zone]) -> Started {
    let home = folder.join("bind");
    let addresses = write_zones(&home, &zones.iter().collect::<Vec<_>>());
    let (v6, v4): (Vec<_>, Vec<_>) = addresses.iter().partition(|address| address.contains(':'));
    let list =
        |addresses: Vec<&String>| addresses.iter().map(|a| format!("{a}; ")).collect::<String>();
    let mut text = format!(
        "options {{ directory \"{}\"; listen-on {{ {} }}; listen-on-v6 {{ {} }}; recursion no; pid-file none; \
         session-keyfile none; dnssec-validation no; minimal-responses yes; notify no; }};\ncontrols {{}};\n",
        home.display(),
        list(v4),
        list(v6)
    );
    for zone in zones {
        _ = writeln!(text, "zone \"{0}\" {{ type primary; file \"{0}.zone\"; }};", zone.name);
    }
    let conf = home.join("named.conf");
    std::fs::write(&conf, text).unwrap();
    let mut command = place.in_servers(Path::new("named"));
    command.args(["-g", "-n", "1", "-c"]).arg(&conf);
    Started::new("named", command, folder)
}
