//! Signed zones between this server and others: differences have the signatures, and what arrives is judged.

use super::peers::{Kind, Peer, Role, ZONE, bind_options, powerdns_that_signs};
use super::{Model, PATIENCE, records, until};
use crate::dynupdate::{KEY, update};
use crate::fixture::{Folder, Server, among_few, free_port, need};
use crate::judges::{judge, need_judges};
use crate::signed_updates::{random_update, transferred};
use crate::signing;
use std::time::{Duration, Instant};

/// Updates between two looks at the secondary.
const UPDATES: usize = 5;
/// Such looks.
const LOOKS: usize = 6;

/// A zone that is kept signed here, and a secondary of this kind that follows it.
fn follows(kind: Kind, name: &str, denial: &str) {
    need("nsupdate", "dnsutils");
    need_judges();
    let _turn = among_few();
    let (folder, here) = (Folder::new(&format!("{name}-zone")), free_port());
    // PowerDNS writes the names in NSEC records in small letters, which their signatures do not cover (RFC 6840
    // section 5.1).
    let zone = signing::ZONE;
    let zone = if kind == Kind::Powerdns { zone.to_ascii_lowercase() } else { zone.to_owned() };
    folder.write("db", &zone);
    let (key, _) = signing::key(&folder.0, ZONE, "ECDSAP256SHA256");
    let second = Peer::start(kind, name, Role::Secondary(here), "");
    let Some(second) = second else { return };
    let (root, secret) = (folder.0.display(), KEY.rsplit(':').next().unwrap());
    let corefile = format!(
        "{ZONE}:{here} {{\n bind 127.0.0.1\n root {root}\n tsig {{\n secret update.key. {secret}\n }}\n transfer \
         {{\n to * 127.0.0.1:{}\n }}\n dynupdate {{\n file db\n database kept\n allow update.key. * *\n key \
         file {key}\n {denial}\n }}\n}}\n",
        second.port
    );
    let mut server = Server::start(name, &corefile);
    server.address.set_port(here);
    server.wait_for("is signed with key tags");
    let log = || format!("{} {:#?}", second.log(), server.seen(""));
    let mut random = fastrand::Rng::with_seed(5);
    for look in 0..LOOKS {
        let updates: Vec<_> = (0..UPDATES).map(|_| random_update(&mut random)).collect();
        let updates = format!("check-names off\n{}", updates.join("\n"));
        // Knot refuses a zone that has names below a DNAME record. PowerDNS makes NSEC records for these, and for cuts
        // below cuts.
        let unwanted: &[&str] = match kind {
            Kind::Knot => &[" DNAME "],
            Kind::Powerdns => &[" DNAME ", " NS "],
            _ => &[],
        };
        let is_wanted = |line: &&str| !unwanted.iter().any(|word| line.contains(word));
        let updates = updates.lines().filter(is_wanted).collect::<Vec<_>>().join("\n");
        let (is_done, said) = update("nsupdate", server.address, &updates);
        assert!(is_done, "{said}");
        let wanted = records(here);
        let found = until(second.port, super::serial(&wanted).unwrap(), log);
        assert_eq!(found, wanted, "look {look}");
    }
    let mut address = server.address;
    address.set_port(second.port);
    let path = transferred(address, &folder).1;
    judge(ZONE, &path, &format!("{kind:?} has"));
    let outgoing = server.count_seen("Outgoing incremental");
    assert_eq!(outgoing > 0, !has_whole_zones_alone(kind), "{}", log());
}

/// Whether it neither asks for differences nor has them for others.
fn has_whole_zones_alone(kind: Kind) -> bool {
    matches!(kind, Kind::Coredns | Kind::Powerdns)
}

#[test]
fn knot_follows_a_zone_that_is_kept_signed() {
    follows(Kind::Knot, "dnssec-knot", "");
}

#[test]
fn bind_follows_a_zone_that_is_kept_signed() {
    follows(Kind::Bind, "dnssec-bind", "nsec3");
}

#[test]
fn nsd_follows_a_zone_that_is_kept_signed() {
    follows(Kind::Nsd, "dnssec-nsd", "nsec3");
}

#[test]
fn coredns_follows_a_zone_that_is_kept_signed() {
    follows(Kind::Coredns, "dnssec-coredns", "");
}

#[test]
fn powerdns_follows_a_zone_that_is_kept_signed() {
    follows(Kind::Powerdns, "dnssec-powerdns", "");
}

/// The records of a server that signs bit by bit, with serial numbers of its own, once it has done so.
fn settled(port: u16, before: u32, log: impl Fn() -> String) -> Vec<String> {
    let (since, mut last) = (Instant::now(), Vec::new());
    loop {
        let found = records(port);
        let is_signed = found.iter().any(|line| line.contains(" rrsig soa "));
        if is_signed && super::serial(&found).is_some_and(|serial| serial > before) && found == last
        {
            return found;
        }
        assert!(since.elapsed() < PATIENCE, "{}", log());
        last = found;
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// A primary of this kind signs its zone; this server gets the signatures with the differences, if there are any.
fn comes(kind: Kind, name: &str, conf: &dyn Fn(&str, u16, u16) -> String) {
    need_judges();
    let _turn = among_few();
    let (mut model, here) = (Model::new(), free_port());
    let text = |path: &str, port| conf(path, port, here);
    let Some(primary) = Peer::start_with(kind, (name, free_port()), &model.text(), &text) else {
        return;
    };
    let corefile = format!(
        "{ZONE}:{here} {{\n bind 127.0.0.1\n secondary {{\n transfer from 127.0.0.1:{}\n }}\n transfer {{\n to *\n \
         }}\n}}\n",
        primary.port
    );
    let mut server = Server::start(name, &corefile);
    server.address.set_port(here);
    let folder = Folder::new(&format!("{name}-judged"));
    let log = || format!("{} {:#?}", primary.log(), server.seen(""));
    let mut before = 0;
    for look in 0..LOOKS {
        let wanted = settled(primary.port, before, log);
        before = super::serial(&wanted).unwrap();
        assert_eq!(until(here, before, log), wanted, "look {look}");
        let path = transferred(server.address, &folder).1;
        judge(ZONE, &path, &format!("from {kind:?}, look {look}"));
        model.change(5);
        primary.change(&model.text());
    }
    assert_eq!(server.count_seen(", IXFR of ") > 0, !has_whole_zones_alone(kind), "{}", log());
}

#[test]
fn signed_zones_of_knot_come_as_differences() {
    comes(Kind::Knot, "dnssec-of-knot", &|path, port, here| {
        format!(
            "server:\n  rundir: \"{path}\"\n  listen: 127.0.0.1@{port}\nlog:\n  - target: stderr\n    any: \
             info\ndatabase:\n  storage: \"{path}/db\"\nremote:\n  - id: other\n    address: \
             127.0.0.1@{here}\nacl:\n  - id: all\n    address: 127.0.0.1\n    action: [transfer, notify]\n\
             policy:\n  - id: signed\n    single-type-signing: on\n    nsec3: on\n    nsec3-iterations: 0\n    \
             nsec3-salt-length: 0\nzone:\n  - domain: {ZONE}\n    storage: \"{path}\"\n    file: zone\n    acl: \
             all\n    notify: other\n    zonefile-sync: -1\n    zonefile-load: difference-no-serial\n    \
             journal-content: all\n    dnssec-signing: on\n    dnssec-policy: signed\n"
        )
    });
}

#[test]
fn signed_zones_of_bind_come_as_differences() {
    comes(Kind::Bind, "dnssec-of-bind", &|path, port, here| {
        format!(
            "{}zone \"{ZONE}\" {{ type primary; file \"zone\"; ixfr-from-differences yes; notify explicit; \
             also-notify {{ 127.0.0.1 port {here}; }}; dnssec-policy default; inline-signing yes; \
             key-directory \"{path}\"; }};\n",
            bind_options(path, port)
        )
    });
}

#[test]
fn signed_zones_of_powerdns_come_whole() {
    comes(Kind::Powerdns, "dnssec-of-powerdns", &powerdns_that_signs);
}
