//! `secondary`, with the servers of others as primaries, and as secondaries of what it hands on.

mod bad;
mod consumed;
mod disk;
mod dnssec;
mod encrypted;
mod fake;
mod kills;
mod peers;
mod produced;

use crate::fixture::{Folder, Server, alone, among_few};
use nodens_wire::Type;
pub(crate) use peers::built;
use peers::{KEY, Kind, Peer, Role, SECRET, ZONE};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

/// Servers notify and refresh within seconds.
const PATIENCE: Duration = Duration::from_secs(90);

/// A zone that changes at random, the same each time.
struct Model {
    serial: u32,
    /// Addresses by host.
    hosts: BTreeMap<u32, u32>,
    random: u64,
}

impl Model {
    fn new() -> Self {
        let hosts = (0..300).map(|host| (host, host)).collect();
        Self { serial: 1, hosts, random: 0x2545_f491_4f6c_dd1d }
    }

    fn draw(&mut self, below: u32) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 33) as u32 % below
    }

    /// So many hosts come, go, or get another address.
    fn change(&mut self, count: usize) {
        for _ in 0..count {
            let (host, address) = (self.draw(400), self.draw(1000));
            if self.draw(3) == 0 {
                self.hosts.remove(&host);
            } else {
                self.hosts.insert(host, address);
            }
        }
        self.serial += 1;
    }

    /// As a master file, with types of many kinds.
    fn text(&self) -> String {
        let mut text = format!(
            "$ORIGIN {ZONE}.\n$TTL 60\n@ SOA ns root {} 2 1 3600 30\n@ NS ns\n@ NS ns.example.net.\n\
             @ MX 10 mail\n@ TXT \"a b\" \"c\"\nns A 192.0.2.1\nns AAAA 2001:db8::1\nmail A 192.0.2.2\n\
             *.wild TXT \"{0}\"\nsub NS ns.sub\nns.sub A 192.0.2.3\nalias CNAME www.example.net.\n\
             _dns._udp SRV 1 2 53 ns\n@ CAA 0 issue \"ca.example.net\"\nodd TYPE65280 \\# 3 010203\n\
             UPPER A 192.0.2.4\ndn DNAME example.net.\nsvc HTTPS 1 . alpn=h2\n",
            self.serial
        );
        for (host, address) in &self.hosts {
            let [_, _, b, c] = address.to_be_bytes();
            text += &format!("h{host} A 10.0.{b}.{c}\n");
        }
        text
    }
}

/// All records of the zone at this port, each on a line, in an order of their own.
fn records(port: u16) -> Vec<String> {
    records_for(port, &[])
}

/// The same with further arguments of `dig`.
fn records_for(port: u16, more: &[&str]) -> Vec<String> {
    let port = port.to_string();
    let arguments =
        ["@127.0.0.1", "-p", &port, ZONE, "AXFR", "+onesoa", "+nocmd", "+nostats", "+nocomments"];
    let output = Command::new("dig").args(arguments).args(more).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with(';') && !line.is_empty());
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    // CoreDNS writes owners in lower case.
    let mut records: Vec<_> = lines.map(|line| words(line).to_ascii_lowercase()).collect();
    records.sort();
    records
}

fn serial(records: &[String]) -> Option<u32> {
    // The signature over it has the word, too.
    let soa = records.iter().find(|line| line.split(' ').nth(3) == Some("soa"))?;
    soa.split(' ').nth(6)?.parse().ok()
}

/// Waits until the server at this port has the version, and gives its records.
fn until(port: u16, wanted: u32, log: impl Fn() -> String) -> Vec<String> {
    let since = Instant::now();
    loop {
        let records = records(port);
        if serial(&records) == Some(wanted) {
            return records;
        }
        let last = serial(&records);
        assert!(since.elapsed() < PATIENCE, "{last:?} instead of {wanted}: {}", log());
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Changes of hosts in a test, 100 unless `NODENS_CHANGES` has another number.
fn changes() -> u32 {
    from_environment("NODENS_CHANGES", 100)
}

fn from_environment(name: &str, usual: u32) -> u32 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

/// Nodens between a primary and a secondary of this kind, through random changes.
fn hand_on(kind: Kind, name: &str) {
    // Three servers each: beside too many of these, other tests time out.
    let _turn = among_few();
    let (mut model, here) = (Model::new(), nodens_testkit::free_port());
    let Some(primary) = Peer::start(kind, &format!("{name}-1"), Role::Primary(here), &model.text())
    else {
        return;
    };
    let corefile = format!(
        "{ZONE}:{here} {{\n bind 127.0.0.1\n secondary {{\n transfer from 127.0.0.1:{}\n }}\n \
         transfer {{\n to * 127.0.0.1:SECOND\n }}\n}}\n",
        primary.port
    );
    // The port of the last one is known once it runs, so it is started first, in vain for a while.
    let second = Peer::start(kind, &format!("{name}-2"), Role::Secondary(here), "").unwrap();
    let corefile = corefile.replace("SECOND", &second.port.to_string());
    let mut server = Server::start(name, &corefile);
    server.address.set_port(here);
    server.wait_for("Transferred: example.org. from ");
    let log = || format!("{} {}", primary.log(), second.log());
    assert_eq!(records(primary.port), until(here, 1, log));
    for _ in 0..changes() / 5 {
        model.change(5);
        primary.change(&model.text());
        let wanted = until(primary.port, model.serial, log);
        if model.serial.is_multiple_of(5) {
            assert_eq!(until(here, model.serial, log), wanted);
        }
    }
    let wanted = until(primary.port, model.serial, log);
    assert_eq!(until(here, model.serial, log), wanted);
    assert_eq!(until(second.port, model.serial, log), wanted);
    let answer = server.ask("ns.example.org.", Type::A);
    assert_eq!(answer.answer[0].rdata, [192, 0, 2, 1]);
    let (ixfr, outgoing) =
        (server.count_seen(", IXFR of "), server.count_seen("Outgoing incremental"));
    assert!(server.count_seen("Notify from 127.0.0.1 for ") > 0, "{:#?}", server.seen(""));
    // CoreDNS and PowerDNS have whole zones alone; the others ask for differences too.
    if matches!(kind, Kind::Coredns | Kind::Powerdns) {
        assert_eq!((ixfr, outgoing), (0, 0));
    } else {
        let lines = server.seen("");
        assert!(ixfr >= 3 && outgoing >= 1, "{ixfr} {outgoing} {lines:#?}");
    }
}

/// A primary of this kind gives its zone to those alone who have the key.
fn signed(kind: Kind, name: &str) {
    let _turn = among_few();
    let Some(primary) = Peer::start(kind, name, Role::Signing, &Model::new().text()) else {
        return;
    };
    signed_by(&primary, name);
}

/// NSD signs the first and the last message, and each hundredth.
#[test]
fn messages_without_a_signature_come_with_the_next_that_has_one() {
    let _alone = alone();
    let mut zone = Model::new().text();
    (0..100_000).for_each(|n| zone += &format!("large-host-{n} A 10.1.2.3\n"));
    let Some(primary) = Peer::start(Kind::Nsd, "signed-large", Role::Signing, &zone) else {
        return;
    };
    let line = signed_by(&primary, "signed-large");
    let words: Vec<_> = line.split(' ').collect();
    let at = words.iter().position(|word| *word == "messages,").unwrap();
    assert!(words[at - 1].parse::<u32>().unwrap() > 100, "{line}");
}

/// Gives the line about the transfer.
fn signed_by(primary: &Peer, name: &str) -> String {
    let corefile = |secret: &str, here: u16| {
        format!(
            "{ZONE}:{here} {{\n bind 127.0.0.1\n tsig {{\n secret {KEY} {secret} hmac-sha512\n }}\n \
             secondary {{\n transfer from 127.0.0.1:{}\n key {KEY}\n }}\n transfer {{\n to *\n }}\n}}\n",
            primary.port
        )
    };
    let here = nodens_testkit::free_port();
    let server = Server::start(name, &corefile(SECRET, here));
    let line = server.wait_for("Transferred: example.org. from ");
    let key = format!("hmac-sha512:{KEY}:{SECRET}");
    // Ours is asked with a signature too, which `dig` verifies.
    let ours = records_for(here, &["-y", &key]);
    assert_eq!(serial(&ours), Some(1));
    // The signature of the last message is not of the zone.
    let of_zone = |mut records: Vec<String>| {
        records.retain(|line| !line.contains(" tsig "));
        records
    };
    assert_eq!(of_zone(ours), of_zone(records_for(primary.port, &["-y", &key])));
    assert_eq!(records(primary.port), [""; 0]);
    drop(server);
    let wrong = SECRET.replacen('N', "X", 1);
    let server = Server::start(name, &corefile(&wrong, nodens_testkit::free_port()));
    server.wait_for(match primary.kind {
        // It says so without a TSIG record.
        Kind::Powerdns => "Failed to transfer example.org. from 127.0.0.1:",
        _ => "the server refused the signature of the query with BADSIG",
    });
    line
}

#[test]
fn zones_of_knot_come_signed() {
    signed(Kind::Knot, "signed-knot");
}

#[test]
fn zones_of_nsd_come_signed() {
    signed(Kind::Nsd, "signed-nsd");
}

#[test]
fn zones_of_bind_come_signed() {
    signed(Kind::Bind, "signed-bind");
}

#[test]
fn zones_of_coredns_come_signed() {
    signed(Kind::Coredns, "signed-coredns");
}

#[test]
fn zones_of_powerdns_come_signed() {
    signed(Kind::Powerdns, "signed-powerdns");
}

/// Who has no key gets nothing.
#[test]
fn zones_go_to_powerdns_signed() {
    let _turn = among_few();
    let here = nodens_testkit::free_port();
    let second = Peer::start(Kind::Powerdns, "signed-on", Role::SignedSecondary(here), "").unwrap();
    let corefile = format!(
        "{ZONE}:{here} {{\n bind 127.0.0.1\n file zone\n root FOLDER\n tsig {{\n secret {KEY} {SECRET} \
         hmac-sha512\n require AXFR IXFR\n }}\n transfer {{\n to * 127.0.0.1:{}\n }}\n}}\n",
        second.port
    );
    let (mut model, folder) = (Model::new(), Folder::new("signed-on"));
    folder.write("zone", &model.text());
    let corefile = corefile.replace("FOLDER", &folder.0.display().to_string());
    let _server = Server::start("signed-on-server", &corefile);
    for _ in 0..2 {
        let records = until(second.port, model.serial, || second.log());
        let key = format!("hmac-sha512:{KEY}:{SECRET}");
        let mut ours = records_for(here, &["-y", &key]);
        ours.retain(|record| !record.contains(" tsig "));
        assert_eq!(ours, records);
        assert_eq!(self::records(here), [""; 0]);
        model.change(5);
        folder.write("zone", &model.text());
    }
}

#[test]
fn zones_of_knot_come_and_go_on_as_differences() {
    hand_on(Kind::Knot, "secondary-knot");
}

#[test]
fn zones_of_nsd_come_and_go_on_as_differences() {
    hand_on(Kind::Nsd, "secondary-nsd");
}

#[test]
fn zones_of_bind_come_and_go_on_as_differences() {
    hand_on(Kind::Bind, "secondary-bind");
}

#[test]
fn zones_of_coredns_come_and_go_on_whole() {
    hand_on(Kind::Coredns, "secondary-coredns");
}

#[test]
fn zones_of_powerdns_come_and_go_on_whole() {
    hand_on(Kind::Powerdns, "secondary-powerdns");
}
