//! `dynupdate`, changed by the clients of others, beside CoreDNS, and killed while it is.

use crate::fixture::{Folder, PATIENCE, Server, alone, free_port, need};
use crate::secondary::built;
use nodens_wire::{Rcode, Type};
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub(crate) const KEY: &str = "hmac-sha256:update.key:NoTCJU+DMqFWywaPyxSijrDEA/eC3nK0xi3AMEZuPVk=";
const ZONE: &str = "$ORIGIN example.org.\n@ 60 IN SOA ns hostmaster 10 60 60 60 60\n@ 60 IN NS ns\n\
                    ns 60 IN A 192.0.2.53\nwww 60 IN A 192.0.2.1\nalias 60 IN CNAME www\n";

/// A Corefile for the zone in `folder`, at this port.
fn corefile(folder: &Folder, port: &str, lines: &str) -> String {
    let (root, secret) = (folder.0.display(), KEY.rsplit(':').next().unwrap());
    format!(
        "example.org:{port} {{\n bind 127.0.0.1\n root {root}\n tsig {{\n secret update.key. {secret}\n }}\n \
         transfer {{\n to *\n }}\n dynupdate {{\n file zone\n allow update.key. * *\n {lines}\n }}\n}}\n"
    )
}

fn folder(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.write("zone", ZONE);
    folder
}

/// What a client says that was given these lines, and whether it was content.
pub(crate) fn update(client: &str, server: SocketAddr, lines: &str) -> (bool, String) {
    update_with(&["-t", "20"], client, server, lines)
}

/// The same, with these options.
fn update_with(options: &[&str], client: &str, server: SocketAddr, lines: &str) -> (bool, String) {
    let (ip, port) = (server.ip(), server.port());
    let mut child = Command::new(client)
        .args(["-y", KEY, "-r", "0"])
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let text = format!("server {ip} {port}\nzone example.org.\n{lines}\nsend\n");
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

/// All records of the zone, in an order of their own.
pub(crate) fn records(server: SocketAddr) -> Vec<String> {
    let port = server.port().to_string();
    let output = Command::new("dig")
        .args(["@127.0.0.1", "-p", &port, "example.org", "AXFR", "+onesoa", "+nocmd", "+nostats"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with(';') && !line.is_empty());
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut records: Vec<_> = lines.map(words).collect();
    records.sort();
    records
}

/// Updates, each with the RCODE that its client names, or nothing.
const UPDATES: [(&str, &str); 24] = [
    ("update add new.example.org. 60 A 192.0.2.10", ""),
    ("prereq nxdomain new.example.org.\nupdate add new.example.org. 60 A 192.0.2.11", "YXDOMAIN"),
    ("prereq yxdomain none.example.org.\nupdate add none.example.org. 60 A 192.0.2.11", "NXDOMAIN"),
    ("prereq yxrrset new.example.org. AAAA\nupdate add new.example.org. 60 TXT a", "NXRRSET"),
    ("prereq nxrrset new.example.org. A\nupdate add new.example.org. 60 TXT a", "YXRRSET"),
    ("prereq yxrrset new.example.org. A 192.0.2.10\nupdate add new.example.org. 60 TXT a b", ""),
    (
        "prereq yxrrset new.example.org. A 192.0.2.99\nupdate add new.example.org. 60 TXT c",
        "NXRRSET",
    ),
    ("update add x.example.net. 60 A 192.0.2.1", "NOTZONE"),
    (
        "update add new.example.org. 60 DS 1 8 2 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
        "NOTIMP",
    ),
    ("update add www.example.org. 60 CNAME new.example.org.", ""),
    ("update add alias.example.org. 60 A 192.0.2.1", ""),
    ("update add alias.example.org. 60 CNAME new.example.org.", ""),
    (
        "update delete www.example.org. A 192.0.2.1\nupdate add www.example.org. 60 CNAME new.example.org.",
        "",
    ),
    ("update add mail.example.org. 60 MX 5 new.example.org.", ""),
    ("update add _dns._udp.example.org. 60 SRV 1 2 53 new.example.org.", ""),
    ("update add *.wild.example.org. 60 TXT wild", ""),
    ("update add UPPER.example.org. 60 A 192.0.2.20", ""),
    ("update delete upper.example.org. A", ""),
    ("update delete example.org. NS", ""),
    ("update delete example.org. NS ns.example.org.", ""),
    ("update add example.org. 60 NS new.example.org.", ""),
    ("update delete example.org. NS ns.example.org.", ""),
    ("update add example.org. 60 SOA ns.example.org. other.example.org. 100 1 2 3 4", ""),
    ("update delete new.example.org.", ""),
];

/// `coredns`, which ends with the value.
struct Coredns(Child);

impl Drop for Coredns {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// `coredns` with the same zone.
fn peer(folder: &Folder) -> Option<(Coredns, SocketAddr)> {
    let port = free_port();
    let conf = folder.write("Peer", &corefile(folder, &port.to_string(), "database peer.db"));
    let mut command = Command::new(built("coredns")?);
    let child = Coredns(command.arg("-conf").arg(conf).stdout(Stdio::null()).spawn().unwrap());
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let since = Instant::now();
    while records(address).is_empty() {
        assert!(since.elapsed() < PATIENCE, "CoreDNS does not answer");
        std::thread::sleep(Duration::from_millis(50));
    }
    Some((child, address))
}

#[test]
fn clients_of_others_change_a_zone_as_they_do_with_coredns() {
    need("nsupdate", "bind9-dnsutils");
    need("knsupdate", "knot-dnsutils");
    need("dig", "bind9-dnsutils");
    let _alone = alone();
    for client in ["nsupdate", "knsupdate"] {
        let folder = folder(&format!("dynupdate-{client}"));
        let server = Server::start(client, &corefile(&folder, "PORT", "database own.db"));
        let peer = peer(&folder);
        for (lines, rcode) in UPDATES {
            let (is_content, said) = update(client, server.address, lines);
            assert_eq!(
                (is_content, said.contains(rcode)),
                (rcode.is_empty(), true),
                "{lines}: {said}"
            );
            if let Some((_, peer)) = &peer {
                let theirs = update(client, *peer, lines);
                assert_eq!(
                    (theirs.0, theirs.1.contains(rcode)),
                    (is_content, true),
                    "{lines}: {theirs:?}"
                );
                // CoreDNS writes owners in lower case.
                let [ours, theirs] = [server.address, *peer].map(|address| {
                    let mut records = records(address);
                    records.iter_mut().for_each(|line| line.make_ascii_lowercase());
                    records.sort();
                    records
                });
                assert_eq!(ours, theirs, "{client}: {lines}");
            }
        }
        // A message that needs TCP, and is longer than any query.
        let many: String = (0..700)
            .map(|host| format!("update add many-{host}.example.org. 60 TXT \"{host:050}\"\n"))
            .collect();
        let tcp = ["-t", "20", "-v"];
        let (is_content, said) = update_with(&tcp, client, server.address, &many);
        assert!(is_content, "{client}: {said}");
        assert_eq!(
            records(server.address).iter().filter(|line| line.starts_with("many-")).count(),
            700
        );
        if let Some((_, peer)) = &peer {
            assert!(update_with(&tcp, client, *peer, &many).0);
            let [ours, theirs] = [server.address, *peer].map(|address| records(address).len());
            assert_eq!(ours, theirs);
        }
        // A key with another secret, and none.
        let wrong = KEY.replace("NoTC", "AAAA");
        let port = server.address.port();
        for (arguments, error) in [(vec!["-y", &wrong], "NOTAUTH"), (vec![], "REFUSED")] {
            let mut child = Command::new("nsupdate")
                .args(arguments)
                .stdin(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let lines = format!(
                "server 127.0.0.1 {port}\nzone example.org.\nupdate add a.example.org. 60 TXT a\nsend\n"
            );
            child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains(error) || said.contains("BADSIG"), "{said}");
        }
        let before = records(server.address);
        assert!(server.end("-TERM").success());
        // A restart goes on with what is in the database, and not in the file.
        folder.write("zone", "");
        let server = Server::start(client, &corefile(&folder, "PORT", "database own.db"));
        assert_eq!(records(server.address), before);
        assert_eq!(server.ask("none.example.org.", Type::A).flags.rcode(), Rcode::NXDOMAIN);
    }
}

#[test]
fn what_was_confirmed_is_there_after_a_kill_at_any_moment() {
    need("nsupdate", "bind9-dnsutils");
    need("knsupdate", "knot-dnsutils");
    need("dig", "bind9-dnsutils");
    let _alone = alone();
    let folder = folder("dynupdate-kill");
    let (confirmed, number) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicU32::new(0)));
    let mut last = 0;
    for round in 0_u64..20 {
        let server = Server::start("dynupdate-killed", &corefile(&folder, "PORT", "database db"));
        let (address, stopping) = (server.address, Arc::new(AtomicBool::new(false)));
        let clients = ["nsupdate", "knsupdate", "nsupdate"].map(|client| {
            let (confirmed, number) = (confirmed.clone(), number.clone());
            let stopping = stopping.clone();
            std::thread::spawn(move || {
                while !stopping.load(Ordering::Relaxed) {
                    let host = number.fetch_add(1, Ordering::Relaxed);
                    let lines = format!("update add h{host}.example.org. 60 A 192.0.2.7");
                    if update_with(&["-t", "2"], client, address, &lines).0 {
                        confirmed.lock().unwrap().push(host);
                    }
                }
            })
        });
        // Not the same moment each time.
        std::thread::sleep(Duration::from_millis(200 + round * 7919 % 613));
        stopping.store(true, Ordering::Relaxed);
        server.signal("-KILL");
        drop(server);
        clients.into_iter().for_each(|client| client.join().unwrap());
        let server = Server::start("dynupdate-again", &corefile(&folder, "PORT", "database db"));
        let there = records(server.address);
        let confirmed = confirmed.lock().unwrap();
        for host in confirmed.iter() {
            let record = format!("h{host}.example.org. 60 IN A 192.0.2.7");
            assert!(there.binary_search(&record).is_ok(), "round {round}: {record} is lost");
        }
        let serial: u32 = {
            let soa = there.iter().find(|line| line.contains(" SOA ")).unwrap();
            soa.split(' ').nth(6).unwrap().parse().unwrap()
        };
        assert!(serial >= last && serial >= 10 + confirmed.len() as u32, "{serial}");
        last = serial;
    }
    let count = confirmed.lock().unwrap().len();
    assert!(count > 20, "{count} updates were confirmed");
}
