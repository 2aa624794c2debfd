//! `dynupdate` with keys: whatever messages change, BIND's `dnssec-verify` and `delv` find nothing wrong.

use crate::dynupdate::{KEY, records, update};
use crate::fixture::{Folder, Server, alone, need};
use crate::signing::{ZONE, delv, key, run, validates};
use std::process::Command;

/// A Corefile for the zone in `folder`, with these lines of `dynupdate`.
fn corefile(folder: &Folder, port: &str, lines: &str) -> String {
    let (root, secret) = (folder.0.display(), KEY.rsplit(':').next().unwrap());
    format!(
        "example.org:{port} {{\n bind 127.0.0.1\n root {root}\n tsig {{\n secret update.key. {secret}\n \
         require_opcode UPDATE\n }}\n transfer {{\n to *\n }}\n dynupdate {{\n file db\n database kept\n \
         allow update.key. * *\n {lines}\n }}\n}}\n"
    )
}

/// Transfers the zone, and has it verified.
fn verify(server: &Server, folder: &Folder, when: &str) -> Vec<String> {
    let found = records(server.address);
    // `dnssec-verify` wants the SOA record first.
    let (soa, others): (Vec<&String>, Vec<&String>) =
        found.iter().partition(|line| line.contains(" SOA ") && !line.contains("RRSIG"));
    let is_first = soa.iter().filter(|line| line.split(' ').nth(3) == Some("SOA"));
    let lines: Vec<_> = is_first.chain(&others).map(|line| line.as_str()).collect();
    let path = folder.write("transferred", &(lines.join("\n") + "\n"));
    let mut command = Command::new("dnssec-verify");
    let said = run(command.args(["-z", "-o", "example.org"]).arg(&path));
    assert!(said.contains("Zone fully signed"), "{when}: {said}\n{}", lines.join("\n"));
    found
}

/// Lines of `nsupdate` for one update at random: names come and go, cuts and DNAME records among them.
fn random_update(random: &mut fastrand::Rng) -> String {
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
    need("dnssec-verify", "bind9-utils");
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
            std::thread::sleep(std::time::Duration::from_millis(random.u64(1..60)));
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
