//! `dynupdate` with keys: whatever messages change, the tools of BIND, Knot and ldns and Unbound find nothing wrong.

use crate::dynupdate::{KEY, records, update};
use crate::fixture::{Folder, Server, alone, ask_udp, free_port, need};
use crate::judges::{Unbound, anchor, judge, judge_without_knot, need_judges};
use crate::signing::{ZONE, delv, key, run, validates};
use nodens_wire::Type;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// A Corefile for the zone in `folder`, with these lines of `dynupdate`.
fn corefile(folder: &Folder, port: &str, lines: &str) -> String {
    let (root, secret) = (folder.0.display(), KEY.rsplit(':').next().unwrap());
    format!(
        "example.org:{port} {{\n bind 127.0.0.1\n root {root}\n tsig {{\n secret update.key. {secret}\n \
         require_opcode UPDATE\n }}\n transfer {{\n to *\n }}\n dynupdate {{\n file db\n database kept\n \
         allow update.key. * *\n {lines}\n }}\n}}\n"
    )
}

/// Transfers the zone to a file that judges can read.
pub(crate) fn transferred(address: SocketAddr, folder: &Folder) -> (Vec<String>, PathBuf) {
    let found = records(address);
    // `dnssec-verify` wants the SOA record first.
    let is_soa = |line: &&String| line.split(' ').nth(3) == Some("SOA");
    let (soa, others): (Vec<&String>, Vec<&String>) = found.iter().partition(is_soa);
    let lines: Vec<_> = soa.into_iter().chain(others).map(String::as_str).collect();
    let path = folder.write("transferred", &(lines.join("\n") + "\n"));
    (found, path)
}

/// Transfers the zone, and has it judged.
fn verify(server: &Server, folder: &Folder, when: &str) -> Vec<String> {
    let (found, path) = transferred(server.address, folder);
    judge("example.org", &path, when);
    found
}

/// Lines of `nsupdate` for one update at random: names come and go, cuts and DNAME records among them.
pub(crate) fn random_update(random: &mut fastrand::Rng) -> String {
    let mut lines = String::new();
    for _ in 0..random.usize(1..4) {
        let labels: Vec<_> = (0..random.usize(1..4))
            .map(|_| ["a", "b", "c", "*", "d"][random.usize(0..5)])
            .collect();
        let owner = format!("{}.example.org.", labels.join("."));
        let number = random.u8(1..4);
        lines += &match random.u8(0..10) {
            0..4 => format!("update add {owner} 60 A 192.0.2.{number}\n"),
            4 => format!("update add {owner} {} TXT \"{number}\"\n", 60 * u32::from(number)),
            // BIND reads no zone in which wildcards have them, or one name both.
            5 | 6 if owner.starts_with(['a', 'b']) => {
                format!("update add {owner} 60 NS ns{number}.example.net.\n")
            }
            5 | 6 if owner.starts_with(['c', 'd']) => {
                format!("update add {owner} 60 DNAME n{number}.example.net.\n")
            }
            7 => format!("update delete {owner} A\n"),
            8 => format!("update delete {owner}\n"),
            _ => format!("update add {owner} 60 CNAME n{number}.example.net.\n"),
        };
    }
    lines + "send"
}

#[test]
fn a_zone_is_signed_as_a_whole_after_each_update_and_each_kill() {
    need("nsupdate", "dnsutils");
    need_judges();
    let _alone = alone();
    for denial in ["", "nsec3"] {
        let folder = Folder::new(&format!("signed-updates{denial}"));
        folder.write("db", ZONE);
        let (name, _) = key(&folder.0, "example.org", "ECDSAP256SHA256");
        let lines = format!("key file {name}\n {denial}");
        let mut random = fastrand::Rng::with_seed(7);
        let (mut old, mut server) = (0, None);
        for round in 0..10 {
            let running = server.take().unwrap_or_else(|| {
                let server =
                    Server::start("signed-updates-kill", &corefile(&folder, "PORT", &lines));
                if round == 0 {
                    server.wait_for("is signed with key tags");
                }
                server
            });
            let updates: Vec<_> = (0..20).map(|_| random_update(&mut random)).collect();
            // Some owners are no names of hosts.
            let updates = format!("check-names off\n{}", updates.join("\n"));
            let (is_done, said) = update("nsupdate", running.address, &updates);
            assert!(is_done, "{said}");
            let found = verify(&running, &folder, &format!("{denial} round {round}"));
            let is_other = usize::from(found.iter().any(|line| line.contains("NSEC3PARAM")));
            assert_eq!((is_other == 1, found.len() > 20), (denial == "nsec3", true));
            assert!(serial(&found) > old);
            old = serial(&found);
            if round % 3 != 2 {
                server = Some(running);
                continue;
            }
            // Killed at a moment at which updates are being done.
            let address = running.address;
            let busy = std::thread::spawn(move || update("nsupdate", address, &updates));
            std::thread::sleep(Duration::from_millis(random.u64(1..60)));
            running.end("-KILL");
            _ = busy.join();
            let running = Server::start("signed-updates-again", &corefile(&folder, "PORT", &lines));
            let found = verify(&running, &folder, &format!("{denial} killed {round}"));
            assert!(serial(&found) >= old);
            server = Some(running);
        }
    }
}

fn serial(records: &[String]) -> u32 {
    let soa = records.iter().find(|line| line.split(' ').nth(3) == Some("SOA")).unwrap();
    soa.split(' ').nth(6).unwrap().parse().unwrap()
}

#[test]
fn keys_and_what_denies_change_without_a_gap() {
    need("nsupdate", "dnsutils");
    need("delv", "dnsutils");
    need_judges();
    let folder = Folder::new("signed-updates-keys");
    folder.write("db", ZONE);
    let (first, anchor) = key(&folder.0, "example.org", "ED25519");
    let (second, other) = key(&folder.0, "example.org", "ED25519");
    let anchors = folder.write("anchors", &format!("trust-anchors {{ {anchor} {other} }};\n"));
    let server =
        Server::start("signed-keys", &corefile(&folder, "PORT", &format!("key file {first}")));
    let tag = |name: &str| name.rsplit('+').next().unwrap().trim_start_matches('0').to_owned();
    server.wait_for(&format!("is signed with key tags {}", tag(&first)));
    validates(&server, "example.org", &anchors);
    for lines in [
        "update add no.such.example.org. 60 NSEC a.example.org. A",
        "update add www.example.org. 60 RRSIG A 13 3 60 20360101000000 20260101000000 1 example.org. AAAA",
        "update add example.org. 60 DNSKEY 257 3 13 AAAA",
        "update add example.org. 0 NSEC3PARAM 1 0 0 -",
        "update add example.org. 60 CDS 0 0 0 00",
        "update delete example.org. CDNSKEY",
        "update delete www.example.org. RRSIG",
    ] {
        let (is_done, said) = update("nsupdate", server.address, lines);
        assert!(!is_done && said.contains("REFUSED"), "{lines}: {said}");
    }
    // What the parent says of a zone below is right, and signed.
    let lines = "update add cut.example.org. 60 DS 1 13 2 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    assert!(update("nsupdate", server.address, lines).0);
    let said = delv(&server, "example.org", &anchors, "cut DS");
    assert!(said.contains("; fully validated"), "{said}");
    // Nothing that is made goes with a name that is deleted.
    assert!(update("nsupdate", server.address, "update delete example.org.").0);
    let before = verify(&server, &folder, "deleted apex");
    for (line, wanted) in [
        (format!("key file {second}"), format!("is signed with key tags {}", tag(&second))),
        (format!("key file {second}\n nsec3"), format!("is signed with key tags {}", tag(&second))),
    ] {
        let port = server.address.port().to_string();
        std::fs::write(&server.conf, corefile(&folder, &port, &line)).unwrap();
        server.signal("-USR1");
        server.wait_for(&wanted);
        let found = verify(&server, &folder, &line);
        assert!(serial(&found) > serial(&before));
        assert!(update("nsupdate", server.address, "update add new.example.org. 60 A 192.0.2.7").0);
        verify(&server, &folder, &line);
        let said = delv(&server, "example.org", &anchors, "new A");
        assert!(said.contains("; fully validated"), "{said}");
    }
    // IXFR has signatures as well.
    let port = server.address.port().to_string();
    let old = serial(&records(server.address));
    assert!(update("nsupdate", server.address, "update add last.example.org. 60 A 192.0.2.7").0);
    let said = run(Command::new("dig").args([
        "@127.0.0.1",
        "-p",
        &port,
        "example.org",
        &format!("IXFR={old}"),
    ]));
    let of = |rtype: &str| {
        said.lines().filter(|line| line.split_whitespace().nth(3) == Some(rtype)).count()
    };
    // Of SOA, twice in each part; A, its NSEC3 record, and the one before, old and new.
    assert_eq!((of("SOA"), of("A"), of("NSEC3"), of("RRSIG")), (4, 1, 3, 6), "{said}");
    // Without keys the zone is one without signatures.
    std::fs::write(&server.conf, corefile(&folder, &port, "")).unwrap();
    server.signal("-USR1");
    server.wait_for("is not signed any more");
    let found = records(server.address);
    assert!(
        !found.iter().any(|line| line.contains("RRSIG") || line.contains("DNSKEY")),
        "{found:?}"
    );
    assert!(update("nsupdate", server.address, "update add end.example.org. 60 A 192.0.2.7").0);
}

/// The steps of `docs/authority.md`: a resolver knows the old key until both have signed, and the new one from then on.
#[test]
fn a_zone_validates_at_each_step_of_a_key_rollover() {
    need("nsupdate", "dnsutils");
    need("delv", "dnsutils");
    need_judges();
    let folder = Folder::new("signed-updates-rollover");
    folder.write("db", ZONE);
    let [first, second] = [(); 2].map(|()| key(&folder.0, "example.org", "ECDSAP256SHA256"));
    let trusts =
        |name: &str, anchor: &str| folder.write(name, &format!("trust-anchors {{ {anchor} }};\n"));
    let (old, new) = (trusts("old", &first.1), trusts("new", &second.1));
    let keys = |names: &str| format!("key file {names}");
    let server = Server::start("signed-rollover", &corefile(&folder, "PORT", &keys(&first.0)));
    server.wait_for("is signed with key tags");
    validates(&server, "example.org", &old);
    let cds = |server: &Server| {
        let found = records(server.address);
        found.iter().filter(|line| line.split(' ').nth(3) == Some("CDS")).count()
    };
    assert_eq!(cds(&server), 1);
    let turn = |names: &str| {
        let port = server.address.port().to_string();
        std::fs::write(&server.conf, corefile(&folder, &port, &keys(names))).unwrap();
        server.signal("-USR1");
        server.wait_for("is signed with key tags");
        let path = transferred(server.address, &folder).1;
        judge_without_knot("example.org", &path, names);
    };
    turn(&format!("{} {}", first.0, second.0));
    validates(&server, "example.org", &old);
    validates(&server, "example.org", &new);
    assert_eq!(cds(&server), 2);
    assert!(update("nsupdate", server.address, "update add new.example.org. 60 A 192.0.2.7").0);
    for anchors in [&old, &new] {
        let said = delv(&server, "example.org", anchors, "new A");
        assert!(said.contains("; fully validated"), "{said}");
    }
    turn(&second.0);
    validates(&server, "example.org", &new);
    assert_eq!(cds(&server), 1);
    let said = delv(&server, "example.org", &old, "new A");
    assert!(!said.contains("; fully validated"), "{said}");
}

/// What a resolver that validates is asked, its RCODE, whether the answer is secure, and a part of it.
const ANSWERS: [(&str, &str, bool, &str); 14] = [
    ("example.org SOA", "NOERROR", true, "hostmaster"),
    ("example.org DNSKEY", "NOERROR", true, "257 3"),
    ("www.example.org A", "NOERROR", true, "192.0.2.2"),
    ("alias.example.org A", "NOERROR", true, "192.0.2.1"),
    ("x.y.wild.example.org TXT", "NOERROR", true, "more"),
    ("x.y.wild.example.org A", "NOERROR", true, ""),
    ("www.example.org TXT", "NOERROR", true, ""),
    ("nothing.between.example.org A", "NOERROR", true, ""),
    ("no.nothing.between.example.org A", "NXDOMAIN", true, ""),
    ("no.example.org A", "NXDOMAIN", true, ""),
    ("no.www.example.org A", "NXDOMAIN", true, ""),
    ("cut.example.org DS", "NOERROR", true, ""),
    // A zone that is not signed.
    ("www.cut.example.org A", "NOERROR", false, "192.0.2.7"),
    ("no.cut.example.org A", "NXDOMAIN", false, ""),
];

/// Lines of a Corefile for zones below: one that is not signed, and one that is, with this key.
fn below(folder: &Folder, port: u16, key: &str) -> String {
    folder.write(
        "below",
        "@ 60 SOA ns root 1 60 60 60 60\n@ NS ns\nns A 192.0.2.5\nwww A 192.0.2.7\n",
    );
    let root = folder.0.display();
    format!(
        "cut.example.org:{port} {{\n bind 127.0.0.1\n root {root}\n file below\n}}\nsafe.example.org:{port} {{\n \
         bind 127.0.0.1\n root {root}\n dnssec {{\n key file {key}\n }}\n file below\n}}\n"
    )
}

/// Has a resolver that validates ask for names that come and go, and compares that with what the server says itself.
fn agrees(server: &Server, unbound: &Unbound, random: &mut fastrand::Rng) {
    for _ in 0..5 {
        let lines: Vec<_> = (0..random.usize(1..5)).map(|_| random_change(random)).collect();
        let (is_done, said) = update("nsupdate", server.address, &lines.join("\n"));
        assert!(is_done, "{lines:?}: {said}");
        // It keeps what it has heard until the second ends.
        std::thread::sleep(Duration::from_millis(1100));
        for _ in 0..8 {
            let owner = random_name(random).replace('*', "x");
            let (word, rtype) = if random.bool() { ("A", Type::A) } else { ("TXT", Type::TXT) };
            let own = ask_udp(server.address, &owner, rtype).unwrap();
            let (question, rcode) = (format!("{owner} {word}"), own.flags.rcode().to_string());
            let answer = unbound.says(&question, (&rcode, true));
            assert_eq!(answer.lines().count(), own.answer.len(), "{question}: {answer}");
        }
    }
}

/// A name or a wildcard. Unbound does not understand names below a wildcard.
fn random_name(random: &mut fastrand::Rng) -> String {
    let labels = |count: usize, from: &[&str], random: &mut fastrand::Rng| {
        let drawn = (0..count).map(|_| format!("{}.", from[random.usize(0..from.len())]));
        drawn.collect::<String>()
    };
    let first = labels(1, &["a", "b", "*", "C"], random);
    first + &labels(random.usize(0..3), &["a", "b", "C"], random) + "r.example.org."
}

/// A line of `nsupdate`.
fn random_change(random: &mut fastrand::Rng) -> String {
    let (owner, number) = (random_name(random), random.u8(1..4));
    match random.u8(0..6) {
        0 | 1 => format!("update add {owner} 60 A 192.0.2.{number}"),
        2 | 3 => format!("update add {owner} 60 TXT \"{number}\""),
        4 => format!("update delete {owner} A"),
        _ => format!("update delete {owner}"),
    }
}

#[test]
fn a_resolver_that_validates_believes_what_is_there_and_what_is_not() {
    need("nsupdate", "dnsutils");
    let _alone = alone();
    for denial in ["", "nsec3"] {
        let (folder, port) = (Folder::new(&format!("signed-unbound{denial}")), free_port());
        folder
            .write("db", &ZONE.replace("\nsafe DS", "\n; safe DS").replace("\ncut A", "\n; cut A"));
        let (name, _) = key(&folder.0, "example.org", "ECDSAP256SHA256");
        let (lower, _) = key(&folder.0, "safe.example.org", "ECDSAP256SHA256");
        let corefile = corefile(&folder, "PORT", &format!("key file {name}\n {denial}"))
            + &below(&folder, port, &lower);
        let server = Server::start(&format!("unbound-asks{denial}"), &corefile);
        server.wait_for("is signed with key tags");
        let zones = [
            ("example.org", server.address.port()),
            ("cut.example.org", port),
            ("safe.example.org", port),
        ];
        let unbound =
            Unbound::start(&format!("unbound{denial}"), &[anchor(&folder.0, &name)], &zones);
        for (question, rcode, is_secure, part) in ANSWERS {
            let answer = unbound.says(question, (rcode, is_secure));
            assert!(answer.contains(part), "{question}: {answer}");
        }
        // Its parent does not say so yet.
        unbound.says("www.safe.example.org A", ("NOERROR", false));
        let pause = || std::thread::sleep(Duration::from_millis(1100));
        let mut dsfromkey = Command::new("dnssec-dsfromkey");
        let ds = run(dsfromkey.arg("-2").arg(folder.0.join(&lower)));
        let ds = ds.trim().split_once(" DS ").unwrap().1;
        let lines = format!("update add safe.example.org. 60 DS {ds}");
        assert!(update("nsupdate", server.address, &lines).0);
        pause();
        unbound.says("www.safe.example.org A", ("NOERROR", true));
        unbound.says("no.safe.example.org A", ("NOERROR", true));
        let lines = "update delete safe.example.org. DS";
        assert!(update("nsupdate", server.address, lines).0);
        pause();
        unbound.says("www.safe.example.org A", ("NOERROR", false));
        agrees(&server, &unbound, &mut fastrand::Rng::with_seed(11));
    }
}
