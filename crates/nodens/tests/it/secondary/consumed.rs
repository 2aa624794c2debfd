//! Catalogs of others, which this server follows: members come and go with the records of the catalog.

use super::PATIENCE;
use super::peers::{Kind, Peer, ZONE, bind_options, nsd_server, pdnsutil, powerdns_with_database};
use super::produced::until;
use crate::fixture::{Server, among_few, free_port};
use std::path::Path;
use std::process::Command;

/// Zones that primaries have.
const MEMBERS: [&str; 3] = ["a.member.example", "b.member.example", "c.member.example"];

/// The catalog with these members, as a master file of [`ZONE`].
fn catalog(serial: u32, members: &[&str]) -> String {
    let mut text = format!(
        "$ORIGIN {ZONE}.\n@ 60 SOA invalid. invalid. {serial} 2 1 3600 60\n@ 60 NS invalid.\nversion 60 TXT \"2\"\n"
    );
    for member in members {
        let label = member.split('.').next().unwrap();
        text += &format!("{label}.zones 60 PTR {member}.\n");
    }
    text
}

/// A member in a file.
fn write(folder: &str, member: &str) {
    let text = "@ 60 SOA ns root 1 60 60 3600 60\n@ 60 NS ns\nns 60 A 192.0.2.1\n";
    std::fs::write(Path::new(folder).join(member), text).unwrap();
}

/// A Corefile that follows the catalog of the server at this port.
fn corefile(here: u16, port: u16) -> String {
    format!(
        ".:{here} {{\n bind 127.0.0.1\n secondary {ZONE} {{\n transfer from 127.0.0.1:{port}\n catalog \
         member.example\n }}\n}}\n"
    )
}

/// Follows a catalog whose members are `changed` by their list.
fn follows(peer: &Peer, name: &str, here: u16, change: &dyn Fn(u32, &[&str])) {
    let server = Server::start(name, &corefile(here, peer.port));
    let log = || format!("{} {:#?}", peer.log(), server.seen(""));
    let all_are = |wanted: [bool; 3]| {
        for (member, is_there) in MEMBERS.iter().zip(wanted) {
            until(here, &format!("{member}."), is_there, log);
        }
    };
    all_are([true, true, false]);
    change(2, &MEMBERS);
    all_are([true, true, true]);
    change(3, &[MEMBERS[0], MEMBERS[2]]);
    all_are([true, false, true]);
    change(4, &MEMBERS[..1]);
    all_are([true, false, false]);
    server.wait_long_for("with 1 member zones: 0 added, 1 removed", PATIENCE);
}

/// Follows a catalog that a server of this kind has in a file, as any other zone.
fn in_file(kind: Kind, name: &str, conf: &dyn Fn(&str, u16, u16) -> String) {
    let _turn = among_few();
    let here = free_port();
    let text = |path: &str, port| {
        MEMBERS.iter().for_each(|member| write(path, member));
        conf(path, port, here)
    };
    let first = catalog(1, &MEMBERS[..2]);
    let Some(peer) = Peer::start_with(kind, (name, free_port()), &first, &text) else { return };
    follows(&peer, name, here, &|serial, members| peer.change(&catalog(serial, members)));
}

#[test]
fn a_catalog_in_a_file_of_bind_is_followed() {
    in_file(Kind::Bind, "catalog-of-bind", &|path, port, here| {
        let mut text = format!(
            "{}zone \"{ZONE}\" {{ type primary; file \"zone\"; ixfr-from-differences yes; notify explicit; \
             also-notify {{ 127.0.0.1 port {here}; }}; }};\n",
            bind_options(path, port)
        );
        for member in MEMBERS {
            text +=
                &format!("zone \"{member}\" {{ type primary; file \"{member}\"; notify no; }};\n");
        }
        text
    });
}

#[test]
fn a_catalog_in_a_file_of_nsd_is_followed() {
    in_file(Kind::Nsd, "catalog-of-nsd", &|path, port, here| {
        let mut text = nsd_server(path, port, "")
            + &format!(
                "  zonefile: zone\n  notify: 127.0.0.1@{here} NOKEY\n  provide-xfr: 127.0.0.1 NOKEY\n"
            );
        for member in MEMBERS {
            text += &format!(
                "zone:\n  name: {member}\n  zonefile: {member}\n  provide-xfr: 127.0.0.1 NOKEY\n"
            );
        }
        text
    });
}

#[test]
fn a_catalog_in_a_file_of_coredns_is_followed() {
    in_file(Kind::Coredns, "catalog-of-coredns", &|path, port, here| {
        let mut text = String::new();
        for zone in MEMBERS.iter().chain([&ZONE]) {
            let (file, to) = match *zone == ZONE {
                true => ("zone", format!("* 127.0.0.1:{here}")),
                false => (*zone, "*".to_owned()),
            };
            text += &format!(
                "{zone}:{port} {{\n bind 127.0.0.1\n file {path}/{file} {{\n reload 1s\n }}\n transfer {{\n to \
                 {to}\n }}\n}}\n"
            );
        }
        text
    });
}

/// Knot makes the catalog itself, out of its configuration.
fn knot(path: &str, (port, here): (u16, u16), members: &[&str]) -> String {
    let mut text = format!(
        "server:\n  rundir: \"{path}\"\n  listen: 127.0.0.1@{port}\nlog:\n  - target: stderr\n    any: \
         info\ndatabase:\n  storage: \"{path}/db\"\nremote:\n  - id: nodens\n    address: 127.0.0.1@{here}\nacl:\n  \
         - id: all\n    address: 127.0.0.1\n    action: [transfer]\ntemplate:\n  - id: default\n    storage: \
         \"{path}\"\n    acl: all\nzone:\n  - domain: {ZONE}\n    catalog-role: generate\n    notify: nodens\n"
    );
    for member in members {
        text += &format!(
            "  - domain: {member}\n    file: {member}\n    catalog-role: member\n    catalog-zone: {ZONE}\n"
        );
    }
    text
}

#[test]
fn a_catalog_that_knot_makes_is_followed() {
    let _turn = among_few();
    let (here, port) = (free_port(), free_port());
    let text = |path: &str, port| {
        MEMBERS.iter().for_each(|member| write(path, member));
        knot(path, (port, here), &MEMBERS[..2])
    };
    let name = "catalog-of-knot";
    let Some(peer) = Peer::start_with(Kind::Knot, (name, port), "", &text) else { return };
    follows(&peer, name, here, &|_, members| {
        let path = peer.path().display().to_string();
        let conf = peer.path().join("knot.conf");
        std::fs::write(&conf, knot(&path, (port, here), members)).unwrap();
        let mut knotc = Command::new("knotc");
        let output = knotc.arg("-c").arg(conf).arg("reload").output().unwrap();
        assert!(output.status.success(), "{output:?}");
    });
}

/// PowerDNS makes the catalog itself, out of what its database says of the members.
#[test]
fn a_catalog_that_powerdns_makes_is_followed() {
    let _turn = among_few();
    let (here, port) = (free_port(), free_port());
    let text = |path: &str, port| {
        let more = format!("primary=yes\nalso-notify=127.0.0.1:{here}\n");
        let (text, folder) = (powerdns_with_database(path, port, &more), Path::new(path));
        let pdnsutil = |arguments: &[&str]| pdnsutil(folder, arguments);
        pdnsutil(&["create-zone", ZONE]);
        pdnsutil(&["set-kind", ZONE, "producer"]);
        for member in MEMBERS {
            write(path, member);
            pdnsutil(&["load-zone", member, &folder.join(member).display().to_string()]);
            pdnsutil(&["set-kind", member, "primary"]);
        }
        MEMBERS[..2].iter().for_each(|member| pdnsutil(&["set-catalog", member, ZONE]));
        text
    };
    let name = "catalog-of-powerdns";
    let Some(peer) = Peer::start_with(Kind::Powerdns, (name, port), "", &text) else { return };
    follows(&peer, name, here, &|_, members| {
        for member in MEMBERS {
            let catalog = if members.contains(&member) { ZONE } else { "" };
            pdnsutil(peer.path(), &["set-catalog", member, catalog]);
        }
    });
}
