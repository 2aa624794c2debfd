//! The files of a rebuilt hierarchy.

use crate::text::{self, master};
use crate::zone::Zone;
use nodens_wire::{Name, Type};
use sha1::{Digest, Sha1};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::IpAddr;

/// Octets of a file's name.
const FILE_NAME_MAX: usize = 200;

/// How a Corefile tells the servers apart that one process stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Apart {
    /// One socket for all addresses; each zone has a view of the addresses that it is served at.
    #[default]
    View,
    /// A socket for each address. CoreDNS needs this: its `server_ip()` is that of the socket.
    Bind,
}

/// A file: its path within the folder, and what is in it.
pub type File = (String, String);

/// The file of a zone, within the folder.
pub fn file_name(zone: &Name) -> String {
    if zone.view().is_root() {
        return "zones/db.root".to_owned();
    }
    let text = zone.to_string();
    let mut name = String::new();
    for octet in text.trim_end_matches('.').bytes() {
        match octet {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => name.push(char::from(octet)),
            _ => _ = write!(name, "%{octet:02x}"),
        }
    }
    // The root has this name.
    if name == "root" {
        name = "%72oot".to_owned();
    }
    if name.len() > FILE_NAME_MAX {
        // Names that differ only behind that have files of their own, too.
        name =
            Sha1::digest(zone.as_wire()).iter().fold(String::from("long-"), |mut name, octet| {
                _ = write!(name, "{octet:02x}");
                name
            });
    }
    format!("zones/db.{name}")
}

/// All files: zones, Corefile, hints, addresses.
pub fn files(zones: &BTreeMap<Name, Zone>, apart: Apart, port: u16) -> Vec<File> {
    let mut files: Vec<File> =
        zones.values().map(|zone| (file_name(&zone.name), master(zone))).collect();
    files.push(("Corefile".to_owned(), corefile(zones, apart, port)));
    files.push(("root.hints".to_owned(), hints(zones)));
    files.push(("addresses".to_owned(), addresses(zones)));
    files
}

/// One server for all addresses. Each zone is in a block of its own, so that a query at one of its addresses meets the
/// deepest zone there; at the addresses of the zone above, the same query meets that one, and gets a referral.
fn corefile(zones: &BTreeMap<Name, Zone>, apart: Apart, port: u16) -> String {
    let mut text = String::from("# Start the server in this folder.\n");
    let mut ordered: Vec<_> = zones.values().filter(|zone| !zone.servers.is_empty()).collect();
    ordered.sort_by_cached_key(|zone| (zone.name.view().label_count(), zone.name.to_string()));
    for (number, zone) in ordered.into_iter().enumerate() {
        _ = writeln!(text, "\n{}:{port} {{", key(&zone.name));
        match apart {
            Apart::View => {
                let list: Vec<_> =
                    zone.servers.iter().map(|address| format!("'{address}'")).collect();
                let list = list.join(", ");
                _ = writeln!(
                    text,
                    "    view v{number} {{\n        expr server_ip() in [{list}]\n    }}"
                );
            }
            Apart::Bind => {
                let list: Vec<_> = zone.servers.iter().map(ToString::to_string).collect();
                _ = writeln!(text, "    bind {}", list.join(" "));
            }
        }
        let file = file_name(&zone.name);
        _ = writeln!(text, "    file {file} {{\n        reload 0\n    }}\n}}");
    }
    text
}

/// The name of a zone as a Corefile takes it: there, `#` begins a comment, `{$` a variable of the environment, and a space
/// ends a word.
fn key(zone: &Name) -> String {
    let text = zone.to_string();
    let text = if zone.view().is_root() { &text } else { text.strip_suffix('.').unwrap_or(&text) };
    text.replace("\\ ", "\\032").replace('#', "\\035").replace('$', "\\036")
}

/// What a resolver starts with: the servers of the root and their addresses.
fn hints(zones: &BTreeMap<Name, Zone>) -> String {
    let mut text = String::new();
    let Some(root) = zones.get(&Name::root()) else { return text };
    let Some(servers) = root.get(&root.name, Type::NS) else { return text };
    for rdata in &servers.rdata {
        let Some(host) = crate::parts::target(rdata) else { continue };
        _ = writeln!(text, ".\t{}\tNS\t{host}", servers.ttl);
        for rtype in [Type::A, Type::AAAA] {
            // The addresses may be in a zone below.
            let at = |zone: &Zone| zone.get(&host, rtype).cloned();
            let rrset = at(root).or_else(|| zones.values().find_map(at));
            for rdata in rrset.iter().flat_map(|rrset| &rrset.rdata) {
                _ = writeln!(
                    text,
                    "{host}\t{}\t{rtype}\t{}",
                    servers.ttl,
                    text::rdata(rtype, rdata)
                );
            }
        }
    }
    text
}

/// All addresses of all servers.
pub fn all_addresses(zones: &BTreeMap<Name, Zone>) -> BTreeSet<IpAddr> {
    zones.values().flat_map(|zone| zone.servers.iter().copied()).collect()
}

/// Commands for `ip -batch`.
fn addresses(zones: &BTreeMap<Name, Zone>) -> String {
    let mut text = String::new();
    for address in all_addresses(zones) {
        let (bits, more) = if address.is_ipv4() { (32, "") } else { (128, " nodad") };
        _ = writeln!(text, "address add {address}/{bits} dev lo{more}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_that_begin_alike_have_files_of_their_own() {
        let long = |end: &str| {
            let label = "a".repeat(63);
            Name::parse(&format!("{label}.{label}.{label}.{end}.example")).unwrap()
        };
        let [one, other] = ["x", "y"].map(|end| file_name(&long(end)));
        assert!(one.starts_with("zones/db.long-") && one != other, "{one}");
    }

    #[test]
    fn a_zone_of_any_name_is_one_word_of_a_corefile() {
        let key = |text: &str| super::key(&Name::parse(text).unwrap());
        assert_eq!((key("."), key("example.com.")), (".".to_owned(), "example.com".to_owned()));
        assert_eq!(key("#x.com"), "\\035x.com");
        assert_eq!(key("a\\032b.com"), "a\\032b.com");
        assert_eq!(key("{$home}.com"), "{\\036home}.com");
        assert_eq!(key("a\\\\\\032b"), "a\\\\\\032b");
    }
}
