use crate::log::{Level, Record as Line};
use crate::testing::Bench;
use crate::zone_signer::{SignFailure, ZoneSigner};
use nodens_wire::{Rcode, Type};
use std::cell::Cell;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

const KSK: &str = "Kexample.org.+013+31548";
const ZSK: &str = "Kexample.org.+013+44575";
const DAY_S: u64 = 24 * 3600;

const ZONE: &str = "$TTL 300
@ 60 SOA ns hostmaster 1 3600 600 86400 30
@ NS ns
@ TYPE65280 \\# 3 0a0b0c
ns A 192.0.2.53
www A 192.0.2.1
www 60 RRSIG A 13 3 300 20360101000000 20260101000000 1 example.org. AAAA
cut NS ns.cut
cut DS 1 13 2 aabb
cut A 192.0.2.55
ns.cut A 192.0.2.54
www.a.empty TXT \"a \\\"text\\\"\" more
*.wild MX 10 www
old DNAME new.example.net.
below.old A 192.0.2.9
@ DNSKEY 257 3 13 AAAA
@ CDS 1 13 2 aabb
";

fn keys() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../nodens-zone/testdata/dnssec")
}

fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("db"), ZONE).unwrap();
    for ending in ["key", "private"] {
        let name = format!("{KSK}.{ending}");
        fs::copy(keys().join(&name), folder.path().join(&name)).unwrap();
    }
    folder
}

fn corefile(folder: &TempDir, lines: &str) -> String {
    let root = folder.path().display();
    format!("example.org {{\n root {root}\n {lines}\n file db.example.org.signed\n}}")
}

/// A signer of the zone in a folder.
fn signer(folder: &TempDir) -> Arc<ZoneSigner> {
    let lines = format!("sign db {{\n key file {KSK}\n directory .\n}}");
    let bench = Bench::new(&corefile(folder, &lines));
    bench.worker.config().services.signers[0].clone()
}

#[test]
fn a_zone_may_have_a_slash_in_its_name() {
    let folder = folder();
    let root = folder.path().display();
    // As `dnssec-keygen` names them.
    for ending in ["key", "private"] {
        let to = format!("K0%2F25.2.0.192.in-addr.arpa.+013+31548.{ending}");
        fs::copy(keys().join(format!("{KSK}.{ending}")), folder.path().join(to)).unwrap();
    }
    let zone = "0/25.2.0.192.in-addr.arpa";
    let lines = "sign db {\n key directory .\n directory .\n}";
    let bench = Bench::new(&format!("{zone} {{\n root {root}\n {lines}\n}}"));
    let signer = bench.worker.config().services.signers[0].clone();
    signer.sign(1_800_000_000, &|| true).unwrap();
    assert!(folder.path().join("db.0%2F25.2.0.192.in-addr.arpa.signed").exists());
    assert_eq!(signer.reason(1_800_000_000), None);
}

#[test]
fn a_zone_is_signed_and_served() {
    let folder = folder();
    let signer = signer(&folder);
    assert_eq!(signer.signed_file(), folder.path().join("./db.example.org.signed"));
    assert!(signer.reason(0).unwrap().contains("No such file"));
    let signed = signer.sign(1_800_000_000, &|| true).unwrap();
    assert_eq!((signed.serial.0, signed.source_serial.0), (1_800_000_000, 1));
    let files = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(files, 4, "nothing else is left");
    let mut bench = Bench::new(&corefile(&folder, ""));
    let types = |section: &[nodens_wire::Record]| {
        section.iter().map(|record| record.rtype).collect::<Vec<_>>()
    };
    let soa = bench.ask("example.org. SOA +do").answer;
    assert_eq!(types(&soa), [Type::SOA, Type::RRSIG]);
    let serial = soa[0].rdata.len() - 20;
    assert_eq!(soa[0].rdata[serial..serial + 4], 1_800_000_000_u32.to_be_bytes());
    for (question, count) in [
        ("example.org. DNSKEY +do", 2),
        ("example.org. CDS +do", 2),
        ("example.org. CDNSKEY +do", 2),
        ("example.org. TYPE65280 +do", 2),
        ("www.example.org. A +do", 2),
        ("www.a.empty.example.org. TXT +do", 2),
        ("x.wild.example.org. MX +do", 2),
    ] {
        assert_eq!(bench.ask(question).answer.len(), count, "{question}");
    }
    let text = bench.ask("www.a.empty.example.org. TXT +do").answer[0].rdata.clone();
    assert_eq!(text, b"\x08a \"text\"\x04more");
    // Denied with NSEC records of the zone.
    let answer = bench.ask("no.example.org. A +do");
    assert_eq!(answer.flags.rcode(), Rcode::NXDOMAIN);
    assert_eq!(types(&answer.authority).iter().filter(|rtype| **rtype == Type::NSEC).count(), 2);
    let nsec = |record: &&nodens_wire::Record| record.rtype == Type::NSEC;
    assert!(answer.authority.iter().filter(nsec).all(|record| record.ttl == 30));
    // A cut has what is the parent's, and signatures over that alone.
    let answer = bench.ask("www.cut.example.org. A +do");
    assert_eq!(types(&answer.authority), [Type::NS, Type::DS, Type::RRSIG]);
    let text = fs::read_to_string(signer.signed_file()).unwrap();
    let owners: Vec<_> = text.lines().filter(|line| line.contains("\tNSEC\t")).collect();
    let wanted = ["example.org.", "cut.", "www.a.empty.", "ns.", "old.", "*.wild.", "www."];
    assert_eq!(owners.len(), wanted.len(), "{owners:?}");
    for (line, owner) in owners.iter().zip(wanted) {
        assert!(line.starts_with(owner), "{line}");
    }
    assert!(owners[1].ends_with("www.a.empty.example.org. NS DS RRSIG NSEC"), "{}", owners[1]);
    assert!(owners[6].contains("\texample.org. A RRSIG NSEC"), "{}", owners[6]);
}

#[test]
fn a_zone_is_due_again_in_time() {
    let folder = folder();
    let signer = signer(&folder);
    let made = 1_800_000_000;
    signer.sign(made, &|| true).unwrap();
    let reason = |now: u64| signer.reason(now);
    assert_eq!(reason(made), None);
    // The jitter of the inception is up to 18 hours, to which 3 are added.
    assert_eq!(reason(made + 5 * DAY_S), None);
    assert!(reason(made + 6 * DAY_S).unwrap().contains("its signature began"));
    assert!(reason(made + 40 * DAY_S).unwrap().contains("its signature began"));
    assert!(reason(made - DAY_S).unwrap().contains("its signature begins in"));
    let text = fs::read_to_string(signer.signed_file()).unwrap();
    let other_key = text.replace(" 31548 ", " 31549 ");
    let is_kept = |line: &&str| !line.contains("RRSIG\tSOA");
    let kept: Vec<_> = text.lines().filter(is_kept).collect();
    let no_signature = kept.join("\n");
    for (text, wanted) in [
        (other_key.as_str(), "it is not signed with the keys 31548 alone"),
        (no_signature.as_str(), "no SOA RRSIG found"),
        ("", "no SOA RRSIG found"),
        ("example.org. 60 IN A word", "expected an IPv4 address"),
    ] {
        fs::write(signer.signed_file(), text).unwrap();
        let reason = reason(made).unwrap();
        assert!(reason.contains(wanted), "{reason}");
    }
}

/// Changes files of a zone, and says whether it is then due to the signer that has signed it and to one that a start
/// makes.
fn is_noticed(folder: &TempDir, before: &dyn Fn(), change: &dyn Fn()) -> [bool; 2] {
    let made = 1_800_000_000;
    let old = signer(folder);
    old.sign(made, &|| true).unwrap();
    assert_eq!([old.reason(made), signer(folder).reason(made)], [None, None]);
    before();
    change();
    [&old, &signer(folder)].map(|signer| {
        let reason = signer.reason(made);
        assert!(reason.iter().all(|text| text.contains("has changed")), "{reason:?}");
        reason.is_some()
    })
}

#[test]
fn another_file_is_noticed_even_if_it_is_older_included_or_changed_while_the_zone_is_signed() {
    let folder = folder();
    let (db, part) = (folder.path().join("db"), folder.path().join("part"));
    fs::write(&part, "more A 192.0.2.77\n").unwrap();
    fs::write(&db, format!("{ZONE}$INCLUDE part\n")).unwrap();
    let nothing = || {};
    let age = |path: &Path| {
        let file = fs::File::options().append(true).open(path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1)).unwrap();
    };
    let add = |path: &Path| {
        let mut file = fs::File::options().append(true).open(path).unwrap();
        file.write_all(b"other A 192.0.2.78\n").unwrap();
    };
    assert_eq!(is_noticed(&folder, &nothing, &nothing), [false; 2]);
    assert_eq!(is_noticed(&folder, &nothing, &|| add(&db)), [true; 2]);
    assert_eq!(is_noticed(&folder, &nothing, &|| add(&part)), [true; 2]);
    assert_eq!(is_noticed(&folder, &|| add(&db), &|| age(&db)), [true; 2]);
    let other = folder.path().join("other");
    fs::write(&other, format!("{ZONE}older A 192.0.2.79\n")).unwrap();
    age(&other);
    assert_eq!(is_noticed(&folder, &nothing, &|| fs::rename(&other, &db).unwrap()), [true; 2]);
    // Changed after it was read and before the signed file was written.
    let (signer, calls) = (signer(&folder), Cell::new(0));
    let in_between = || {
        calls.set(calls.get() + 1);
        if calls.get() == 30 {
            add(&db);
        }
        true
    };
    signer.sign(1_800_000_000, &in_between).unwrap();
    assert!(calls.get() > 30, "{calls:?}");
    assert!(signer.has_changed());
    assert!(signer.reason(1_800_000_000).unwrap().contains("/db has changed"));
    signer.sign(1_800_000_000, &|| true).unwrap();
    assert!(!signer.has_changed());
}

#[test]
fn a_signed_file_of_another_origin_is_due() {
    let folder = folder();
    let made = 1_800_000_000;
    let signer = signer(&folder);
    signer.sign(made, &|| true).unwrap();
    let other = |lines: &str| {
        let lines = format!("sign {lines}\n key file {KSK}\n directory .\n}}");
        let bench = Bench::new(&corefile(&folder, &lines));
        bench.worker.config().services.signers[0].reason(made).unwrap_or_default()
    };
    assert_eq!(other("db {"), "");
    assert!(other("db {\n nsec3").contains("in the place of NSEC3"));
    fs::copy(folder.path().join("db"), folder.path().join("db2")).unwrap();
    assert!(other("db2 {").contains("it was not made of"));
    // As another program has written it.
    let text = fs::read_to_string(signer.signed_file()).unwrap();
    let records: Vec<_> = text.lines().filter(|line| !line.starts_with(';')).collect();
    fs::write(signer.signed_file(), records.join("\n")).unwrap();
    assert!(other("db {").contains("does not say which files"));
    assert_eq!(signer.reason(made), None, "this one knows");
}

#[test]
fn serial_numbers_never_go_back() {
    let folder = folder();
    let db = folder.path().join("db");
    for (before, now, serial) in [
        (None, 1_800_000_000, 1_800_000_000),
        (Some(1_800_000_000), 1_800_000_000, 1_800_000_001),
        (Some(1_800_000_009), 1_800_000_000, 1_800_000_010),
        (Some(1_799_999_999), 1_800_000_000, 1_800_000_000),
        (Some(u32::MAX), u64::from(u32::MAX), 0),
        (Some(u32::MAX), (1 << 32) + 9, 9),
        (Some(9), u64::from(u32::MAX), 10),
        (Some(1 << 31), 0, (1 << 31) + 1),
    ] {
        let signer = signer(&folder);
        match before {
            None => _ = fs::remove_file(signer.signed_file()),
            Some(before) => {
                let text =
                    format!("; comment\nexample.org. 60 SOA ns hostmaster {before} 1 1 1 1\n");
                fs::write(signer.signed_file(), text).unwrap();
            }
        }
        let signed = signer.sign(now, &|| true).unwrap();
        assert_eq!(signed.serial.0, serial, "{before:?} {now}");
        let text = fs::read_to_string(signer.signed_file()).unwrap();
        assert!(text.contains(&format!(" {serial} 3600 600 86400 30")), "{before:?} {now}");
    }
    // Of another zone, or nothing that can be read.
    for text in ["example.net. 60 SOA ns hostmaster 1900000000 1 1 1 1\n", "text"] {
        let signer = signer(&folder);
        fs::write(signer.signed_file(), text).unwrap();
        assert_eq!(signer.sign(1_800_000_000, &|| true).unwrap().serial.0, 1_800_000_000);
    }
    for (source, is_behind) in [(1, false), (1_800_000_001, false), (2_026_010_100, true)] {
        fs::write(&db, ZONE.replace("hostmaster 1 ", &format!("hostmaster {source} "))).unwrap();
        let signed = signer(&folder).sign(1_800_000_000, &|| true).unwrap();
        assert_eq!((signed.source_serial.0, signed.is_behind()), (source, is_behind));
    }
}

#[test]
fn a_zone_with_nsec3_is_signed_and_served() {
    let folder = folder();
    let lines = format!("sign db {{\n key file {KSK}\n directory .\n nsec3 0 -\n}}");
    let bench = Bench::new(&corefile(&folder, &lines));
    let signer = bench.worker.config().services.signers[0].clone();
    signer.sign(1_800_000_000, &|| true).unwrap();
    assert_eq!(signer.reason(1_800_000_000), None);
    let mut bench = Bench::new(&corefile(&folder, ""));
    for (question, proofs) in [
        ("no.example.org. A +do", 3),
        ("a.b.no.example.org. A +do", 3),
        ("www.example.org. TXT +do", 1),
        // Names that exist because of others.
        ("a.empty.example.org. A +do", 1),
        ("wild.example.org. A +do", 1),
        ("x.wild.example.org. A +do", 2),
        ("x.wild.example.org. MX +do", 1),
        ("cut.example.org. DS +do", 0),
    ] {
        let answer = bench.ask(question);
        let count = |rtype| answer.authority.iter().filter(|record| record.rtype == rtype).count();
        assert_eq!((count(Type::NSEC3), count(Type::NSEC)), (proofs, 0), "{question} {answer:?}");
    }
    let text = fs::read_to_string(signer.signed_file()).unwrap();
    let lines = |rtype: &str| text.lines().filter(|line| line.contains(rtype)).collect::<Vec<_>>();
    // The names of the zone itself, and three above them.
    assert_eq!(lines("\tNSEC3\t").len(), 7 + 3, "{text}");
    assert!(lines("\tNSEC3\t").iter().all(|line| line.contains("\t1 0 0 - ")), "{text}");
    assert_eq!(lines("\tNSEC3PARAM\t").len(), 1);
    assert!(lines("\tNSEC\t").is_empty() && lines("below.old").len() == 1, "{text}");
    // Signed once more, as if it were not signed.
    let lines =
        |from: &str, to: &str| format!("sign {from} {{\n key file {KSK}\n directory {to}\n}}");
    let signed = |from: &str, to: &str| {
        fs::create_dir(folder.path().join(to)).unwrap();
        let bench = Bench::new(&corefile(&folder, &lines(from, to)));
        let signer = bench.worker.config().services.signers[0].clone();
        signer.sign(1_800_000_000, &|| true).unwrap();
        let text = fs::read_to_string(signer.signed_file()).unwrap();
        // What signing makes differs from time to time.
        let is_kept = |line: &&str| !line.contains("RRSIG\t") && !line.starts_with(';');
        text.lines().filter(is_kept).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(signed("db.example.org.signed", "again"), signed("db", "once"));
    let both = Bench::try_new(&corefile(&folder, &lines("db.example.org.signed", ".")));
    assert!(both.err().unwrap().to_string().contains("is both read and written"));
}

#[test]
fn what_cannot_be_signed_leaves_the_file_that_is_there() {
    let folder = folder();
    let signer = signer(&folder);
    signer.sign(1_800_000_000, &|| true).unwrap();
    let before = fs::read(signer.signed_file()).unwrap();
    assert!(signer.sign(1_800_000_001, &|| false).unwrap_err().is_stop());
    for text in ["", "@ 60 NS ns", "@ 60 SOA ns hostmaster 1 2 3 4 5\nwww A word"] {
        fs::write(folder.path().join("db"), text).unwrap();
        let error = signer.sign(1_800_000_001, &|| true).unwrap_err();
        assert!(!error.is_stop() && !error.to_string().is_empty());
    }
    fs::remove_file(folder.path().join("db")).unwrap();
    assert!(signer.sign(1_800_000_001, &|| true).unwrap_err().to_string().contains("No such file"));
    assert_eq!(fs::read(signer.signed_file()).unwrap(), before);
    let names = fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.file_name());
    assert!(names.filter(|name| name.to_string_lossy().starts_with("signed-")).count() == 0);
}

#[test]
fn what_the_zone_is_not_to_blame_for_may_pass() {
    use nodens_zone::data::Refused;
    use nodens_zone::dnssec::SignZoneError;
    let of = |error: SignZoneError| SignFailure::from(error).may_pass();
    assert!(of(Refused::NoRoom.into()) && of(SignZoneError::Sign));
    assert!(!of(Refused::TooLong.into()) && !of(SignZoneError::LongOrigin));
    let folder = folder();
    let signer = signer(&folder);
    fs::create_dir(signer.signed_file()).unwrap();
    assert!(signer.sign(1_800_000_000, &|| true).unwrap_err().may_pass());
    fs::write(folder.path().join("db"), "@ A 192.0.2.1").unwrap();
    assert!(!signer.sign(1_800_000_000, &|| true).unwrap_err().may_pass());
}

#[test]
fn each_zone_is_signed_once_for_all_addresses() {
    let folder = folder();
    let root = folder.path().display();
    // A key that is named twice is one key.
    let sign = |db: &str, to: &str| {
        format!("sign {db} {{\n key directory .\n key file {KSK}\n directory {to}\n nsec3\n}}")
    };
    let (first, second) = (sign("db", "signed"), sign("other", "elsewhere"));
    let text = format!(
        "example.org:53 Example.org:54 {{\n root {root}\n bind 127.0.0.1 127.0.0.2\n {first}\n {second}\n whoami\n}}\nexample.org:55 {{\n root {root}\n {first}\n whoami\n}}"
    );
    let bench = Bench::new(&text);
    let signers = &bench.worker.config().services.signers;
    let shown: Vec<_> = signers
        .iter()
        .map(|signer| (signer.origin().to_string(), signer.file().to_owned(), signer.key_tags()))
        .collect();
    let row =
        |file: &str| ("example.org.".to_owned(), folder.path().join(file), "31548".to_owned());
    assert_eq!(shown, [row("db"), row("other")]);
    assert_eq!(signers[0].signed_file(), folder.path().join("signed/db.example.org.signed"));
}

#[test]
fn one_file_is_not_written_by_two() {
    let folder = folder();
    let root = folder.path().display();
    for ending in ["key", "private"] {
        let name = format!("Kexample.org.+015+21968.{ending}");
        let text = fs::read_to_string(keys().join(&name)).unwrap();
        // With the SEP bit.
        let text = text.replace("DNSKEY 256 ", "DNSKEY 257 ");
        fs::write(folder.path().join(&name), text).unwrap();
    }
    let corefile = |rest: &str| {
        let first = format!("sign db {{\n key file {KSK}\n directory .\n}}");
        format!("example.org {{\n root {root}\n {first}\n sign {rest}\n}}\n whoami\n}}")
    };
    for rest in [
        "db {\n key file Kexample.org.+015+21968\n directory .".to_owned(),
        format!("db {{\n key file {KSK} Kexample.org.+015+21968\n directory ."),
        format!("db {{\n key directory .\n directory ./../{}", name_of(&folder)),
        format!("db {{\n key file {KSK}\n nsec3\n directory ."),
        format!("other {{\n key file {KSK}\n directory ."),
        format!("other EXAMPLE.org {{\n key file {KSK}\n directory ."),
    ] {
        let error = Bench::try_new(&corefile(&rest)).err().unwrap_or_else(|| panic!("{rest}"));
        let text = error.to_string();
        assert!(text.contains("db.example.org.signed\" is written by `sign` at"), "{rest}: {text}");
    }
    for rest in [
        format!("db {{\n key file {KSK}\n directory ."),
        "db www.example.org {\n key file Kexample.org.+015+21968\n directory .".to_owned(),
        "db {\n directory .".to_owned(),
    ] {
        assert!(Bench::try_new(&corefile(&rest)).is_ok(), "{rest}");
    }
}

fn name_of(folder: &TempDir) -> String {
    folder.path().file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn without_a_key_nothing_is_signed_and_the_log_says_so() {
    let bench = Bench::new("example.org {\n sign nowhere\n whoami\n}");
    assert!(bench.worker.config().services.signers.is_empty());
    let is_warning = |line: &Line| match line {
        Line::Line { level: Level::Warning, text, .. } => text.contains("is not signed"),
        _ => false,
    };
    assert_eq!(bench.log.try_iter().filter(is_warning).count(), 1);
}

#[test]
fn what_is_wrong_is_refused() {
    let root = keys();
    for (text, wanted) in [
        ("sign".to_owned(), "expected 1 or more"),
        ("sign \u{fffd}".to_owned(), "invalid characters"),
        ("sign db {\n key\n}".to_owned(), "expected 2 or more"),
        ("sign db {\n key file\n}".to_owned(), "expected 2 or more"),
        ("sign db {\n key secret name\n}".to_owned(), "expected `file` or `directory`"),
        ("sign db {\n key file nowhere\n}".to_owned(), "nowhere.key: No such file"),
        (format!("sign db {{\n key file {ZSK}\n}}"), "is not a CSK/KSK"),
        ("sign db {\n key directory nowhere\n}".to_owned(), "No such file"),
        ("sign db {\n key directory a b\n}".to_owned(), "expected one directory"),
        ("sign db example.net {\n key directory .\n}".to_owned(), "such as Kexample.net.+013"),
        ("sign db {\n directory\n}".to_owned(), "'directory'"),
        ("sign db {\n directory a b\n}".to_owned(), "'directory'"),
        ("sign db {\n nsec3 1\n}".to_owned(), "0 iterations"),
        ("sign db {\n nsec3 0 aabb\n}".to_owned(), "no salt"),
        ("sign db {\n nsec3 0 - -\n}".to_owned(), "'nsec3'"),
        ("sign db {\n nsec\n}".to_owned(), "unknown property 'nsec'"),
        ("sign db a..b".to_owned(), "not a valid domain name"),
    ] {
        let corefile = format!("example.org {{\n root {}\n {text}\n whoami\n}}", root.display());
        let error = Bench::try_new(&corefile).err().unwrap_or_else(|| panic!("{text}")).to_string();
        assert!(error.contains(wanted), "{text}: {error}");
    }
}
