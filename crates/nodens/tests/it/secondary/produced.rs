//! Catalogs of the zones of this server, which others follow: members come and go without a reload.

use super::PATIENCE;
use super::peers::{Kind, Peer, bind_options, pdnsutil, powerdns_with_database};
use crate::fixture::{Folder, Server, among_few};
use nodens_wire::Rcode;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;

/// A zone of `auto`.
fn write(folder: &Folder, name: &str) {
    let text =
        format!("@ 60 SOA ns root 1 60 60 3600 60\n@ 60 NS ns\nns 60 A 192.0.2.1\n; {name}\n");
    folder.write(&format!("db.{name}"), &text);
}

/// Waits until the server at this port has the zone, or has it no more.
pub(super) fn until(port: u16, zone: &str, is_there: bool, log: impl Fn() -> String) {
    let (since, address) = (Instant::now(), SocketAddr::from(([127, 0, 0, 1], port)));
    loop {
        let answer = crate::fixture::ask_udp(address, zone, nodens_wire::Type::SOA);
        let has = answer.is_some_and(|answer| {
            answer.flags.rcode() == Rcode::NOERROR && !answer.answer.is_empty()
        });
        if has == is_there {
            return;
        }
        assert!(since.elapsed() < PATIENCE, "{zone} {is_there}: {}", log());
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

/// A secondary of this kind follows the catalog.
fn follows(kind: Kind, name: &str, conf: &dyn Fn(&str, u16, u16) -> String) {
    let _turn = among_few();
    let (folder, here) = (Folder::new(&format!("{name}-zones")), nodens_testkit::free_port());
    write(&folder, "a.example");
    write(&folder, "b.example");
    let text = |path: &str, port| conf(path, port, here);
    let port = nodens_testkit::free_port();
    let corefile = format!(
        ".:{here} {{\n bind 127.0.0.1\n auto {{\n directory {}\n reload 1s\n }}\n transfer {{\n to * \
         127.0.0.1:{}\n catalog catalog.example\n }}\n}}\n",
        folder.0.display(),
        port
    );
    let server = Server::start(name, &corefile);
    let Some(peer) = Peer::start_with(kind, (name, port), "", &text) else { return };
    let log = || format!("{} {:#?}", peer.log(), server.seen(""));
    until(peer.port, "a.example.", true, log);
    until(peer.port, "b.example.", true, log);
    write(&folder, "c.example");
    until(peer.port, "c.example.", true, log);
    std::fs::remove_file(folder.0.join("db.b.example")).unwrap();
    until(peer.port, "b.example.", false, log);
    until(peer.port, "a.example.", true, log);
    // A reload changes nothing, and the next change is one of the same catalog.
    let lists = |server: &Server| server.count_seen("Catalog zone catalog.example. lists");
    let before = lists(&server);
    server.signal("-USR1");
    server.wait_long_for("Reloading complete", PATIENCE);
    write(&folder, "d.example");
    until(peer.port, "d.example.", true, log);
    until(peer.port, "a.example.", true, log);
    assert_eq!(lists(&server), before + 1, "{}", log());
    // CoreDNS and PowerDNS take zones as a whole.
    let differences = server.count_seen("Outgoing incremental transfer");
    let is_whole = matches!(kind, Kind::Coredns | Kind::Powerdns);
    assert_eq!(differences == 0, is_whole, "{}", log());
}

#[test]
fn knot_follows_a_catalog() {
    follows(Kind::Knot, "catalog-knot", &|path, port, here| {
        format!(
            "server:\n  rundir: \"{path}\"\n  listen: 127.0.0.1@{port}\nlog:\n  - target: stderr\n    any: \
             info\ndatabase:\n  storage: \"{path}/db\"\nremote:\n  - id: nodens\n    address: \
             127.0.0.1@{here}\nacl:\n  - id: all\n    address: 127.0.0.1\n    action: [transfer, notify]\n\
             template:\n  - id: default\n    storage: \"{path}\"\n    master: nodens\n    acl: all\n  - id: \
             members\n    storage: \"{path}\"\n    master: nodens\n    acl: all\nzone:\n  - domain: \
             catalog.example\n    catalog-role: interpret\n    catalog-template: members\n"
        )
    });
}

#[test]
fn bind_follows_a_catalog() {
    follows(Kind::Bind, "catalog-bind", &|path, port, here| {
        let catalogs = format!(
            "catalog-zones {{ zone \"catalog.example\" default-primaries {{ 127.0.0.1 port {here}; }} \
             in-memory yes min-update-interval 1; }}; allow-transfer {{ any; }};"
        );
        let options = bind_options(path, port).replace("allow-transfer { any; };", &catalogs);
        format!(
            "{options}zone \"catalog.example\" {{ type secondary; file \"catalog\"; primaries {{ 127.0.0.1 \
             port {here}; }}; notify no; }};\n"
        )
    });
}

#[test]
fn coredns_follows_a_catalog() {
    follows(Kind::Coredns, "catalog-coredns", &|_, port, here| {
        format!(
            ".:{port} {{\n bind 127.0.0.1\n secondary catalog.example {{\n transfer from 127.0.0.1:{here}\n \
             catalog example\n }}\n}}\n"
        )
    });
}

#[test]
fn powerdns_follows_a_catalog() {
    follows(Kind::Powerdns, "catalog-powerdns", &|path, port, here| {
        let text = powerdns_with_database(path, port, "secondary=yes\n");
        let primary = format!("127.0.0.1:{here}");
        pdnsutil(Path::new(path), &["create-secondary-zone", "catalog.example", &primary]);
        pdnsutil(Path::new(path), &["set-kind", "catalog.example", "consumer"]);
        text
    });
}
