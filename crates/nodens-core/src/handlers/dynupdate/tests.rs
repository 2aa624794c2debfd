use super::*;
use crate::job::Transport;
use crate::log::Record as LogRecord;
use crate::testing::Bench;
use crate::worker::Verdict;
use nodens_wire::{Builder, Flags, Message, Name, Record, Section};
use nodens_zone::Zone;
use nodens_zone::image::Writer;
use nodens_zone::tsig::Key;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

const SECRET: &str = "NoTCJU+DMqFWywaPyxSijrDEA/eC3nK0xi3AMEZuPVk=";
const ZONE: &str = "\
@ 60 SOA ns hostmaster 10 60 60 60 60
@ 60 NS ns
ns 60 A 192.0.2.53
www 60 A 192.0.2.1
to 60 CNAME www.example.net.
";

fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("db"), ZONE).unwrap();
    folder
}

/// A server block with these lines in `dynupdate`.
fn corefile(folder: &Path, zones: &str, lines: &str) -> String {
    let tsig = format!("tsig {{\n secret key.example. {SECRET}\n secret other. {SECRET}\n}}");
    let root = folder.display();
    format!("{zones} {{\n root {root}\n {tsig}\n cache\n {lines}\n}}")
}

const ALLOW: &str = "allow key.example. * *";

fn bench(folder: &Path, lines: &str) -> Bench {
    let body = format!("dynupdate {{\n file db\n {lines}\n}}\n transfer {{\n to *\n}}");
    Bench::new(&corefile(folder, "example.org", &body))
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn record(text: &str) -> Record {
    nodens_zone::presentation::record(text).unwrap()
}

/// A message that adds these records.
fn adds(zone: &str, qtype: Type, records: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut builder = Builder::new(&mut out, 7, Flags(0).with_opcode(Opcode::UPDATE));
    builder.question(name(zone).view(), qtype, Class::IN);
    for text in records {
        builder.push(Section::Authority, &record(text)).unwrap();
    }
    out
}

/// What `key` gets for a message, whose response has to be signed.
fn signed(bench: &mut Bench, mut message: Vec<u8>, key: &str) -> Rcode {
    let key = Key::parse(key, SECRET, Some("hmac-sha256")).unwrap();
    let mut verifier = key.sign_query(&mut message, bench.now.unix_s).unwrap();
    let response = send(bench, &message);
    assert_eq!(verifier.accept(&response, bench.now.unix_s), Ok(()));
    let response = Message::parse(&response).unwrap();
    assert!(response.flags.has(Flags::AA | Flags::QR), "{response:?}");
    assert_eq!(response.flags.opcode(), Opcode::UPDATE);
    assert_eq!(response.questions.len(), 1);
    response.flags.rcode()
}

/// Does the updates that wait, as the program's thread does.
fn perform(bench: &mut Bench) {
    let config = bench.worker.config().clone();
    for zone in &config.services.dynamic {
        let mut left = zone.take();
        while !left.is_empty() {
            zone.perform(&mut left, bench.now.unix_s, || true, |_, _| Ok(()));
        }
    }
    bench.worker.collect_mail(bench.now);
}

fn send(bench: &mut Bench, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match bench.worker.receive(bench.now, bench.client, message, &mut out) {
        Verdict::Pending => {
            perform(bench);
            let sent = bench.act();
            assert_eq!(sent.len(), 1);
            sent.into_iter().next().unwrap().1
        }
        Verdict::Answered => out,
        other => panic!("{other:?}"),
    }
}

const NEW: &str = "new.example.org. 60 IN A 192.0.2.9";

fn serial(bench: &mut Bench) -> u32 {
    let soa = bench.ask("example.org. SOA").answer.remove(0);
    nodens_zone::Soa::new(soa).unwrap().serial().0
}

#[test]
fn nothing_in_front_says_that_an_update_is_done() {
    let folder = folder();
    let lines = format!("dynupdate {{\n file db\n {ALLOW}\n}}");
    let catalog = format!("{lines}\n transfer {{\n to *\n catalog catalog.example.org\n}}");
    let mut bench = Bench::new(&corefile(folder.path(), "example.org", &catalog));
    let catalogs = bench.worker.config().services.catalogs.clone();
    nodens_zone::catalog::Producer::new(&catalogs, || {}).turn(1000, |_, _| {});
    assert_eq!(bench.ask("catalog.example.org. SOA").answer.len(), 1);
    let text = "x.catalog.example.org. 60 IN A 192.0.2.9";
    let update = adds("catalog.example.org.", Type::SOA, &[text]);
    assert_eq!(signed(&mut bench, update, "key.example."), Rcode::NOTAUTH);
    let acl = format!("{lines}\n acl {{\n filter\n}}");
    let mut bench = Bench::new(&corefile(folder.path(), "example.org", &acl));
    assert_eq!(bench.ask("www.example.org. A").flags.rcode(), Rcode::NOERROR);
    let response = send(&mut bench, &adds("example.org.", Type::SOA, &[NEW]));
    assert_eq!(Message::parse(&response).unwrap().flags.rcode(), Rcode::REFUSED);
}

#[test]
fn an_update_is_answered_when_it_is_done_and_seen_at_once() {
    let folder = folder();
    let mut bench = bench(folder.path(), ALLOW);
    assert_eq!(bench.ask("new.example.org. A").flags.rcode(), Rcode::NXDOMAIN);
    assert_eq!(serial(&mut bench), 10);
    for transport in [Transport::Udp, Transport::Tcp, Transport::Tls] {
        bench.client.transport = transport;
        let text = format!("new.example.org. 60 IN TXT {transport:?}");
        let update = adds("EXAMPLE.org.", Type::SOA, &[NEW, &text]);
        assert_eq!(signed(&mut bench, update, "KEY.example."), Rcode::NOERROR);
    }
    // Nothing of it is kept by `cache`.
    let answer = bench.ask("new.example.org. A");
    assert_eq!((answer.answer.len(), answer.flags.has(Flags::AA)), (1, true));
    assert_eq!(serial(&mut bench), 13);
    assert_eq!(bench.ask("example.org. AXFR").answer.len(), 10);
    let text = bench.shared.registry.render();
    let mut series = text.lines().filter(|line| line.starts_with("nodens_dynupdate_updates_total{"));
    assert!(series.any(|line| line.contains("rcode=\"NOERROR\"") && line.ends_with(" 3")));
}

#[test]
fn who_may_not_change_the_zone_is_refused() {
    let folder = folder();
    let mut bench = bench(folder.path(), "allow key.example. www.example.org. A");
    let update = |owner: &str, rdata: &str| {
        let text = format!("{owner}.example.org. 60 IN {rdata}");
        adds("example.org.", Type::SOA, &[&text])
    };
    let unsigned = send(&mut bench, &update("www", "A 192.0.2.9"));
    assert_eq!(Message::parse(&unsigned).unwrap().flags.rcode(), Rcode::REFUSED);
    for (owner, rdata, key, rcode) in [
        ("www", "A 192.0.2.9", "key.example.", Rcode::NOERROR),
        ("www", "A 192.0.2.8", "other.", Rcode::REFUSED),
        ("www", "TXT x", "key.example.", Rcode::REFUSED),
        ("new", "A 192.0.2.9", "key.example.", Rcode::REFUSED),
    ] {
        let update = update(owner, rdata);
        assert_eq!(signed(&mut bench, update, key), rcode, "{owner} {rdata} {key}");
    }
    // With a key that nobody has given, or for another message.
    let key = Key::parse("stranger.", SECRET, Some("hmac-sha256")).unwrap();
    let mut message = update("www", "A 192.0.2.7");
    key.sign_query(&mut message, bench.now.unix_s).unwrap();
    let rcode = |response: &[u8]| Message::parse(response).unwrap().flags.rcode();
    assert_eq!(rcode(&send(&mut bench, &message)), Rcode::NOTAUTH);
    let key = Key::parse("key.example.", SECRET, Some("hmac-sha256")).unwrap();
    let mut message = update("www", "A 192.0.2.7");
    key.sign_query(&mut message, bench.now.unix_s).unwrap();
    message[40] ^= 1;
    assert_ne!(rcode(&send(&mut bench, &message)), Rcode::NOERROR);
    assert_eq!((serial(&mut bench), bench.ask("www.example.org. A").answer.len()), (11, 2));
}

#[test]
fn updates_for_what_is_no_zone_here_go_nowhere() {
    let folder = folder();
    let lines = format!("dynupdate {{\n file db\n {ALLOW}\n}}\n whoami");
    let own = corefile(folder.path(), "example.org", &lines);
    let mut bench = Bench::new(&format!("{own}\nexample.net {{\n whoami\n}}"));
    for (zone, qtype, rcode) in [
        ("www.example.org.", Type::SOA, Rcode::NOTAUTH),
        ("example.org.", Type::A, Rcode::FORMERR),
        ("example.org.", Type::SOA, Rcode::NOERROR),
    ] {
        let update = adds(zone, qtype, &[NEW]);
        assert_eq!(signed(&mut bench, update, "key.example."), rcode, "{zone} {qtype}");
    }
    // Blocks without the directive, and names that nobody serves.
    for (zone, rcode) in [("example.net.", Rcode::NOTIMP), ("example.com.", Rcode::REFUSED)] {
        let response = Message::parse(&send(&mut bench, &adds(zone, Type::SOA, &[]))).unwrap();
        let found = (response.flags.rcode(), response.flags.opcode(), response.questions.len());
        assert_eq!(found, (rcode, Opcode::UPDATE, 1));
    }
    // Servers without it say no more than that.
    let mut bench = Bench::new("example.org {\n whoami\n}");
    let response = send(&mut bench, &adds("example.org.", Type::SOA, &[NEW]));
    assert_eq!(response.len(), nodens_wire::HEADER_LEN);
    assert_eq!(Message::parse(&response).unwrap().flags.rcode(), Rcode::NOTIMP);
}

#[test]
fn an_update_with_too_many_records_or_behind_too_many_is_not_waited_for() {
    let folder = folder();
    let mut bench = bench(folder.path(), &format!("{ALLOW}\n max_update_records 2"));
    let update = adds("example.org.", Type::SOA, &[NEW; 3]);
    assert_eq!(signed(&mut bench, update, "key.example."), Rcode::REFUSED);
    let key = Key::parse("key.example.", SECRET, Some("hmac-sha256")).unwrap();
    let mut message = adds("example.org.", Type::SOA, &[NEW]);
    key.sign_query(&mut message, bench.now.unix_s).unwrap();
    let (mut out, mut waiting) = (Vec::new(), 0);
    while bench.worker.receive(bench.now, bench.client, &message, &mut out) == Verdict::Pending {
        waiting += 1;
    }
    assert_eq!(waiting, nodens_zone::limits::UPDATES_WAITING_MAX);
    assert_eq!(Message::parse(&out).unwrap().flags.rcode(), Rcode::SERVFAIL);
}

#[test]
fn a_client_hears_that_its_update_is_not_done_in_time() {
    let folder = folder();
    let mut bench = bench(folder.path(), ALLOW);
    let key = Key::parse("key.example.", SECRET, Some("hmac-sha256")).unwrap();
    let mut message = adds("example.org.", Type::SOA, &[NEW]);
    key.sign_query(&mut message, bench.now.unix_s).unwrap();
    let verdict = bench.worker.receive(bench.now, bench.client, &message, &mut Vec::new());
    assert_eq!(verdict, Verdict::Pending);
    let sent = bench.pass(Duration::from_secs(5));
    assert_eq!(Message::parse(&sent[0].1).unwrap().flags.rcode(), Rcode::SERVFAIL);
    // What has failed is not done later.
    perform(&mut bench);
    assert!(bench.act().is_empty());
    assert_eq!(serial(&mut bench), 10);
}

#[test]
fn an_update_whose_query_had_to_make_room_is_not_done_later() {
    let folder = folder();
    let mut bench = bench(folder.path(), ALLOW);
    let key = Key::parse("key.example.", SECRET, Some("hmac-sha256")).unwrap();
    bench.shared.set_pending_memory(0);
    let most = crate::limits::PENDING_PER_WORKER_MIN;
    for number in 0..=most {
        let host = format!("host-{number}.example.org. 60 IN A 192.0.2.9");
        let mut message = adds("example.org.", Type::SOA, &[&host]);
        key.sign_query(&mut message, bench.now.unix_s).unwrap();
        let verdict = bench.worker.receive(bench.now, bench.client, &message, &mut Vec::new());
        assert_eq!(verdict, Verdict::Pending);
    }
    let rcodes = |sent: Vec<(crate::Client, Vec<u8>)>| {
        let rcode = |response: &[u8]| Message::parse(response).unwrap().flags.rcode();
        sent.iter().map(|(_, response)| rcode(response)).collect::<Vec<_>>()
    };
    assert_eq!(rcodes(bench.act()), [Rcode::SERVFAIL]);
    while bench.worker.config().services.dynamic[0].has_updates() {
        perform(&mut bench);
    }
    assert_eq!(rcodes(bench.act()), vec![Rcode::NOERROR; most]);
    assert_eq!(serial(&mut bench), 10 + most as u32);
}

#[test]
fn cache_leaves_the_zone_as_it_is_and_keeps_others() {
    let folder = folder();
    fs::write(folder.path().join("db"), ZONE.replace("60", "7200")).unwrap();
    let body = format!("dynupdate example.org {{\n file db\n {ALLOW}\n}}\n whoami");
    let mut bench = Bench::new(&corefile(folder.path(), "example.org net", &body));
    for _ in 0..2 {
        // `cache` gives no denial a longer TTL than half an hour.
        assert_eq!(bench.ask("none.example.org. A").authority[0].ttl, 7200);
        assert_eq!(bench.ask("www.example.org. A").answer[0].ttl, 7200);
        assert_eq!(bench.ask("www.net. A").flags.rcode(), Rcode::NOERROR);
    }
    let text = bench.shared.registry.render();
    let count = |name: &str| {
        let mut series = text.lines().filter(|line| line.starts_with(name));
        series.next().and_then(|line| line.rsplit(' ').next()?.parse().ok())
    };
    assert_eq!(count("coredns_cache_requests_total"), Some(2));
}

#[test]
fn aliases_notify_and_names_outside_are_answered_as_by_file() {
    let folder = folder();
    let mut bench = bench(folder.path(), ALLOW);
    assert_eq!(bench.ask("to.example.org. A").answer.len(), 1);
    assert_eq!(bench.ask("to.example.org. A").flags.rcode(), Rcode::NOERROR);
    let mut notify = crate::testing::request("example.org. SOA");
    notify[2] |= Opcode::NOTIFY.0 << 3;
    assert_eq!(bench.ask_bytes(&notify), None);
}

/// What a database has whose zone has this serial number and no other name.
fn database(zone: &str, serial: u32) -> Vec<u8> {
    let origin = name(zone);
    let soa = nodens_zone::Soa::with(origin.view(), 60, (&origin, &origin), [serial, 1, 1, 1, 1]);
    let mut edit = nodens_zone::data::Edit::new(origin.view(), Class::IN);
    edit.add(soa.record().into()).unwrap();
    let (mut out, data) = (Vec::new(), edit.finish().unwrap());
    let write = |octets: &[u8]| {
        out.extend_from_slice(octets);
        Ok::<(), ()>(())
    };
    Writer::default().version(&data, write).unwrap();
    out
}

#[test]
fn a_database_counts_and_not_the_file_it_was_made_of() {
    let folder = folder();
    let path = folder.path().join("store");
    fs::write(&path, database("example.org.", 77)).unwrap();
    fs::remove_file(folder.path().join("db")).unwrap();
    let lines = format!("database store\n {ALLOW}");
    let mut bench = bench(folder.path(), &lines);
    assert_eq!(serial(&mut bench), 77);
    // A reload goes on with what is served, whatever is in the file.
    let before = bench.worker.config().services.dynamic[0].clone();
    fs::write(&path, b"damaged").unwrap();
    let body = format!("dynupdate {{\n file db\n {lines}\n}}");
    bench.reload(&corefile(folder.path(), "example.org", &body)).unwrap();
    assert!(Arc::ptr_eq(&before, &bench.worker.config().services.dynamic[0]));
    // What was written in part is left out, and it is said.
    drop((bench, before));
    let mut octets = database("example.org.", 78);
    octets.extend([0, 0, 0, 9, 3, 1]);
    fs::write(&path, octets).unwrap();
    let mut bench = self::bench(folder.path(), &lines);
    let lines: Vec<_> = bench.log.try_iter().collect();
    let is_cut = |record: &LogRecord| matches!(record, LogRecord::Line { text, .. } if text.contains("the last 6 octets of database"));
    assert!(lines.iter().any(is_cut), "{lines:?}");
    assert_eq!(serial(&mut bench), 78);
}

#[test]
fn a_database_that_cannot_be_used_is_refused_and_nothing_takes_its_place() {
    let folder = folder();
    let path = folder.path().join("store");
    let mut damaged = database("example.org.", 7);
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    let mut bbolt = vec![0; 100];
    bbolt[16..20].copy_from_slice(&0xed0c_daed_u32.to_le_bytes());
    for (octets, error) in [
        (Vec::new(), "not a stored zone"),
        (damaged, "damaged at octet"),
        (database("example.net.", 7), "not the zone that it should be"),
        (database("example.org.", 0), "the serial number is 0"),
        (bbolt, "it is one of CoreDNS"),
        (database("example.org.", 7), "zone exceeds max_bytes (10)"),
    ] {
        fs::write(&path, octets).unwrap();
        let body = format!("dynupdate {{\n file db\n database store\n max_bytes 10\n {ALLOW}\n}}");
        let text = corefile(folder.path(), "example.org", &body);
        let found = Bench::try_new(&text).unwrap_err().to_string();
        assert!(found.contains(error) && found.contains("database"), "{found}");
    }
    fs::remove_file(&path).unwrap();
    fs::hard_link(folder.path().join("db"), &path).unwrap();
    let body = format!("dynupdate {{\n file db\n database store\n {ALLOW}\n}}");
    let found = Bench::try_new(&corefile(folder.path(), "example.org", &body)).unwrap_err();
    assert!(found.to_string().contains("must be different files"), "{found}");
    // One database is one zone's.
    fs::remove_file(&path).unwrap();
    fs::write(&path, database("example.org.", 7)).unwrap();
    let own = corefile(folder.path(), "example.org", &body);
    let other = corefile(folder.path(), "example.net", &body);
    let found = Bench::try_new(&format!("{own}\n{other}")).unwrap_err().to_string();
    assert!(found.contains("database already serves zone example.org."), "{found}");
}

#[test]
fn a_database_has_one_writer_by_whatever_path_it_is_reached() {
    let folder = folder();
    let root = folder.path();
    fs::create_dir(root.join("own")).unwrap();
    std::os::unix::fs::symlink("own", root.join("link")).unwrap();
    let block = |zone: &str, path: &str| {
        let body = format!("dynupdate {{\n file db\n database {path}\n {ALLOW}\n}}");
        corefile(root, zone, &body)
    };
    // Whether it is there or has yet to be made.
    for is_there in [false, true] {
        let mut paths = vec!["link/store", "own/../own/./store", "./link/../own/store"];
        if is_there {
            fs::write(root.join("own/store"), database("example.org.", 7)).unwrap();
            std::os::unix::fs::symlink("own/store", root.join("to-store")).unwrap();
            fs::hard_link(root.join("own/store"), root.join("as-well")).unwrap();
            paths.extend(["to-store", "as-well"]);
        }
        for path in paths {
            let first = block("example.org", "own/store");
            let other = block("example.net", path);
            let found = Bench::try_new(&format!("{first}\n{other}")).unwrap_err().to_string();
            assert!(found.contains("database already serves zone example.org."), "{found}");
            let mut bench = Bench::new(&first);
            let before = bench.worker.config().services.dynamic[0].clone();
            bench.reload(&block("example.org", path)).unwrap();
            assert!(Arc::ptr_eq(&before, &bench.worker.config().services.dynamic[0]), "{path}");
        }
    }
    // Nor is it a file that is written beside another.
    for [one, other] in [["one", "one.new"], ["one.lock", "one"], ["one", "own/../one.cut"]] {
        let text = format!("{}\n{}", block("example.org", one), block("example.net", other));
        let found = Bench::try_new(&text).unwrap_err().to_string();
        let error = "one of the files beside the database of zone example.org. has this name";
        assert!(found.contains(error), "{found}");
    }
}

#[test]
fn the_addresses_of_a_block_share_the_zone() {
    let folder = folder();
    for database in ["", "database store"] {
        let body = format!("dynupdate {{\n file db\n {database}\n {ALLOW}\n}}");
        let text = corefile(folder.path(), "example.org example.org:5353", &body);
        let bench = Bench::new(&text);
        assert_eq!(bench.worker.config().services.dynamic.len(), 1, "{database}");
        assert_eq!(bench.worker.config().services.dynamic[0].soa().unwrap().serial().0, 10);
    }
    // A new configuration reads the zone anew where it is not kept.
    let mut bench = bench(folder.path(), ALLOW);
    let update = adds("example.org.", Type::SOA, &[NEW]);
    assert_eq!(signed(&mut bench, update, "key.example."), Rcode::NOERROR);
    assert_eq!(serial(&mut bench), 11);
    let body = format!("dynupdate {{\n file db\n {ALLOW}\n}}");
    bench.reload(&corefile(folder.path(), "example.org", &body)).unwrap();
    assert_eq!(serial(&mut bench), 10);
}

#[test]
fn zones_that_cannot_be_updated_are_refused() {
    let folder = folder();
    for (text, error) in [
        ("@ 60 NS ns\n", "has no SOA record for origin example.org."),
        ("@ 60 SOA a b 0 1 1 1 1\n", "the serial number is 0"),
        ("@ 60 SOA a b 1 1 1 1 1\n@ 60 SOA a b 2 1 1 1 1\n", "db:2: example.org. SOA: a second SOA record"),
        ("@ 60 SOA a b 1 1 1 1 1\na 60 CNAME b\na 60 A 192.0.2.1\n", "db:3: a.example.org. A: other data beside CNAME"),
        ("@ 60 SOA a b 1 1 1 1 1\na 60 A 192.0.2.1\na 60 CNAME b\n", "other data beside CNAME"),
        ("@ 60 SOA a b 1 1 1 1 1\nx.org. 60 A 192.0.2.1\n", "the owner is outside the zone"),
        ("@ 60 SOA a b 1 1 1 1 1\na 60 DS 1 8 2 00\n", "a type that updates would make wrong"),
        ("@ 60 SOA a b 1 1 1 1 1\na 60 A 1\n", "expected an IPv4 address"),
        ("@ 60 SOA a b 1 1 1 1 1\na 60 TXT a b\na 60 TXT b\na 60 TXT c\n", "more than max_records records"),
    ] {
        fs::write(folder.path().join("db"), text).unwrap();
        let body = format!("dynupdate {{\n file db\n max_records 3\n {ALLOW}\n}}");
        let found = Bench::try_new(&corefile(folder.path(), "example.org", &body)).unwrap_err();
        assert!(found.to_string().contains(error), "{text}: {found}");
    }
}

#[test]
fn what_is_no_use_of_the_directive_is_refused() {
    let folder = folder();
    for (arguments, lines, error) in [
        ("", "", "file is required"),
        ("", "file db", "at least one allow rule is required"),
        ("a b", "file db\n allow k. * A", "exactly one zone is allowed"),
        ("a a", "file db\n allow k. * A", "exactly one zone is allowed"),
        ("a..b", "file db\n allow k. * A", "zone is not a valid domain name: a..b"),
        ("", "file", "expected 1, found 0"),
        ("", "file a b", "expected 1, found 2"),
        ("", "file db\n file db", "file specified more than once"),
        ("", "database \"\"", "expected the path of a file"),
        ("", "database a\n database a", "database specified more than once"),
        ("", "max_records 0", "expected a number from 1"),
        ("", "max_bytes x", "expected a number from 1"),
        ("", "max_update_records -1", "expected a number from 1"),
        ("", "max_records 1 2", "expected 1, found 2"),
        ("", "allow k. *", "expected 3 or more, found 2"),
        ("", "allow * * A", "expected the name of a key of tsig, found `*`"),
        ("", "allow @ * A", "expected the name of a key of tsig, found `@`"),
        ("", "allow a..b * A", "expected the name of a key of tsig"),
        ("", "allow k. www A", "expected a name in zone example.org., @ or *, found `www`"),
        ("", "allow k. www.example.net. A", "expected a name in zone example.org."),
        ("", "allow k. * * A", "wildcard RR type must be the only type in an allow rule"),
        ("", "allow k. * A *", "wildcard RR type must be the only type in an allow rule"),
        ("", "allow k. * AXFR", "expected a type that updates may change"),
        ("", "allow k. * DS", "expected a type that updates may change"),
        ("", "allow k. * TYPE200", "expected a type that updates may change"),
        ("", "allow k. * bogus", "expected a type that updates may change"),
        ("", "bogus", "unknown property 'bogus'"),
        ("", "file gone\n allow k. * A", "opening zone file"),
    ] {
        let body = format!("dynupdate {arguments} {{\n {lines}\n}}");
        let found = Bench::try_new(&corefile(folder.path(), "example.org", &body)).err();
        let found = found.map(|error| error.to_string());
        assert!(found.as_ref().is_some_and(|found| found.contains(error)), "{lines}: {found:?}");
    }
    let twice = format!("dynupdate {{\n file db\n {ALLOW}\n}}\n dynupdate {{\n file db\n {ALLOW}\n}}");
    let found = Bench::try_new(&corefile(folder.path(), "example.org", &twice)).unwrap_err();
    assert!(found.to_string().contains("can only be used once"), "{found}");
    let body = format!("dynupdate {{\n file db\n {ALLOW}\n}}");
    let two = Bench::try_new(&corefile(folder.path(), "example.org example.net", &body));
    assert!(two.unwrap_err().to_string().contains("zone is required when"), "{body}");
    for lines in ["allow k example.ORG any", "allow k @ a type16 Dhcid", "max_bytes 007"] {
        let body = format!("dynupdate example.org {{\n file db\n {ALLOW}\n {lines}\n}}");
        let text = corefile(folder.path(), "example.org example.net", &body);
        // Eight octets are no zone.
        let fits = !lines.starts_with("max_bytes");
        assert_eq!(Bench::try_new(&text).is_ok(), fits, "{lines}");
    }
}

const KEY_FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../nodens-zone/testdata/dnssec/Kexample.org.+013+31548");

/// Signs the zones, as the program's thread does.
fn sign(bench: &Bench) {
    let services = &bench.worker.config().services;
    for (zone, signer) in &services.dynamic_signers {
        let (of, _) = zone.data().unwrap();
        let data = signer.whole(of.clone(), bench.now.unix_s, &|| true).unwrap().data;
        let whole = nodens_zone::dynamic::Whole { of, data, signer: Some(signer.clone()) };
        let done = zone.turn_to(&whole, bench.now.unix_s, |_, _| Ok(()));
        assert!(done.errors.is_empty(), "{:?}", done.errors);
    }
}

#[test]
fn a_zone_with_a_key_is_not_answered_for_before_it_is_signed() {
    let folder = folder();
    let mut bench = bench(folder.path(), &format!("{ALLOW}\n key file {KEY_FILES}\n nsec3 0 -"));
    assert_eq!(bench.ask("example.org. SOA").flags.rcode(), Rcode::SERVFAIL);
    let zone = bench.worker.config().services.dynamic[0].clone();
    assert!(zone.soa().is_none() && zone.version().is_none());
    sign(&bench);
    let types = |records: &[Record]| records.iter().map(|own| own.rtype).collect::<Vec<_>>();
    assert_eq!(types(&bench.ask("example.org. SOA +do").answer), [Type::SOA, Type::RRSIG]);
    let update = adds("example.org.", Type::SOA, &[NEW]);
    assert_eq!(signed(&mut bench, update, "key.example."), Rcode::NOERROR);
    assert_eq!(types(&bench.ask("new.example.org. A +do").answer), [Type::A, Type::RRSIG]);
    let denied = bench.ask("no.example.org. A +do");
    assert!(types(&denied.authority).contains(&Type::NSEC3), "{denied:?}");
    for (record, rcode) in [
        ("a.example.org. 60 IN DS 1 13 2 aabb", Rcode::NOERROR),
        ("a.example.org. 60 IN NSEC b.example.org. A", Rcode::REFUSED),
        ("example.org. 60 IN CDS 0 0 0 00", Rcode::REFUSED),
        ("a.example.org. 60 IN TYPE63 \\# 6 000000000000", Rcode::NOTIMP),
    ] {
        let update = adds("example.org.", Type::SOA, &[record]);
        assert_eq!(signed(&mut bench, update, "key.example."), rcode, "{record}");
    }
}

#[test]
fn keys_that_make_no_sense_are_refused() {
    let folder = folder();
    let zsk = KEY_FILES.replace("31548", "44575");
    for (lines, error) in [
        ("nsec3".to_owned(), "nsec3 requires a key"),
        (format!("key file {KEY_FILES}\n nsec3 1"), "expected 0 iterations"),
        (format!("key file {zsk}"), "is not a CSK/KSK"),
        ("key file gone".to_owned(), "gone.key"),
        ("allow key.example. @ DS".to_owned(), "a type that updates may change"),
        (format!("key file {KEY_FILES}\n allow key.example. @ CDS"), "a type that updates may change"),
    ] {
        let body = format!("dynupdate {{\n file db\n {ALLOW}\n {lines}\n}}");
        let found = Bench::try_new(&corefile(folder.path(), "example.org", &body)).unwrap_err();
        assert!(found.to_string().contains(error), "{lines}: {found}");
    }
    // The blocks of one database sign in one way.
    let block = |name: &str, port: u16, line: &str| {
        let body = format!("dynupdate example.org {{\n file db\n database one\n {ALLOW}\n {line}\n}}");
        corefile(folder.path(), &format!("{name}:{port}"), &body)
    };
    let key = format!("key file {KEY_FILES}");
    let both = |line: &str| format!("{}\n{}", block("example.org", 53, &key), block("example.org", 5353, line));
    let found = Bench::try_new(&both("")).unwrap_err().to_string();
    assert!(found.contains("signed in another way in another block"), "{found}");
    assert!(Bench::try_new(&both(&key)).is_ok());
}
