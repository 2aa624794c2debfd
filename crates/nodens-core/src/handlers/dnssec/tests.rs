use crate::log::{Level, Record as Line};
use crate::testing::{Bench, Reaction, request};
use nodens_wire::{Builder, Class, Flags, Message, Name, Rcode, Record, Section, Type};
use nodens_zone::dnssec::{Canonical, SigningKey, Validity};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

const ED: &str = "Kexample.org.+015+21968";
const P256_KSK: &str = "Kexample.org.+013+31548";
const P256_ZSK: &str = "Kexample.org.+013+44575";
const RSA: &str = "Kexample.org.+008+47388";

const ZONE: &str = "$TTL 300
@ 60 SOA ns hostmaster 1 2 3 4 5
@ NS ns
ns A 192.0.2.53
www A 192.0.2.1
www A 192.0.2.2
www AAAA 2001:db8::1
alias CNAME www
lost CNAME nowhere
away CNAME www.example.net.
loop CNAME loop
cut NS ns.cut
ns.cut A 192.0.2.54
safe NS ns.cut
safe DS 1 13 2 aabb
*.wild TXT text
mail MX 10 www
";

fn keys() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../nodens-zone/testdata/dnssec")
}

fn key(name: &str) -> SigningKey {
    let read = |ending: &str| fs::read_to_string(keys().join(format!("{name}{ending}"))).unwrap();
    SigningKey::parse(&read(".key"), &read(".private")).unwrap()
}

fn corefile(folder: &Path, lines: &str) -> String {
    let (root, folder) = (keys(), folder.display());
    let root = root.display();
    format!("example.org {{\n root {root}\n dnssec {{\n{lines}\n}}\n file {folder}/db\n}}")
}

/// A server that signs with these keys, and a folder that has to live as long.
fn bench(names: &[&str]) -> Bench {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("db"), ZONE).unwrap();
    Bench::new(&corefile(folder.path(), &format!("key file {}", names.join(" "))))
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn number(octets: &[u8]) -> u32 {
    u32::from_be_bytes(octets.try_into().unwrap())
}

/// Checks every signature of a section, made with a key that signs the same each time, and gives the
/// RRsets as owner, type and number of signatures.
fn signed(section: &[Record], key: &SigningKey) -> Vec<(String, Type, usize)> {
    let mut found: Vec<(String, Type, usize)> = Vec::new();
    for record in section.iter().filter(|record| record.rtype != Type::RRSIG) {
        let row = (record.owner.to_string(), record.rtype);
        if found.iter().any(|(owner, rtype, _)| (owner, *rtype) == (&row.0, row.1)) {
            continue;
        }
        let covers = |rrsig: &&Record| {
            let covered = rrsig.rtype == Type::RRSIG && rrsig.rdata[..2] == row.1.0.to_be_bytes();
            covered && rrsig.owner == record.owner
        };
        let rrsigs: Vec<_> = section.iter().filter(covers).collect();
        let same = |other: &&Record| other.owner == record.owner && other.rtype == record.rtype;
        for rrsig in &rrsigs {
            let rdatas = section.iter().filter(same).map(|record| record.rdata.as_slice());
            let rrset =
                Canonical::new(record.owner.view(), (record.rtype, Class::IN), 3600, rdatas);
            let (expiration, inception) = (number(&rrsig.rdata[8..12]), number(&rrsig.rdata[12..16]));
            let validity = Validity { inception, expiration };
            assert_eq!(expiration - inception, (8 * 24 + 3) * 3600);
            let wanted = rrset.sign(key, name("example.org.").view(), validity).unwrap();
            assert_eq!((rrsig.ttl, &rrsig.rdata), (record.ttl, &wanted), "{} {}", row.0, row.1);
        }
        found.push((row.0, row.1, rrsigs.len()));
    }
    found
}

fn row(owner: &str, rtype: Type) -> (String, Type, usize) {
    (owner.to_owned(), rtype, 1)
}

/// The NSEC record of a section: its owner, next name and types.
fn nsec(section: &[Record]) -> (String, String, Vec<Type>) {
    let found: Vec<_> = section.iter().filter(|record| record.rtype == Type::NSEC).collect();
    let [nsec] = found.as_slice() else { panic!("{section:?}") };
    let end = nsec.rdata.iter().scan(0, |at, _| {
        let len = nsec.rdata[*at];
        *at += 1 + usize::from(len);
        Some((len, *at))
    });
    let end = end.take_while(|(len, _)| *len > 0).last().map_or(1, |(_, at)| at + 1);
    let mut types = Vec::new();
    let mut rest = &nsec.rdata[end..];
    while let [window, len, tail @ ..] = rest {
        let (bits, behind) = tail.split_at(usize::from(*len));
        for (at, octet) in bits.iter().enumerate() {
            let set = (0..8).filter(|bit| octet & 0x80 >> bit != 0);
            types.extend(set.map(|bit| Type(u16::from(*window) << 8 | (at as u16 * 8 + bit))));
        }
        rest = behind;
    }
    let next = Name::from_wire(&nsec.rdata[..end]).unwrap();
    (nsec.owner.to_string(), next.to_string(), types)
}

#[test]
fn rrsets_of_the_zone_are_signed_where_it_is_asked_for() {
    let mut bench = bench(&[ED]);
    let ed = key(ED);
    let answer = bench.ask("WWW.example.org. A +do");
    assert_eq!(signed(&answer.answer, &ed), [row("WWW.example.org.", Type::A)]);
    assert_eq!(signed(&answer.authority, &ed), [row("example.org.", Type::NS)]);
    assert!(answer.flags.has(Flags::AA));
    let answer = bench.ask("mail.example.org. MX +do");
    let additional: Vec<_> =
        answer.additional.iter().filter(|record| record.rtype != Type::OPT).cloned().collect();
    let rows = [row("www.example.org.", Type::A), row("www.example.org.", Type::AAAA)];
    assert_eq!(signed(&additional, &ed)[..2], rows);
    let answer = bench.ask("a.wild.example.org. TXT +do");
    assert_eq!(signed(&answer.answer, &ed), [row("a.wild.example.org.", Type::TXT)]);
    for question in ["www.example.org. A", "www.example.org. A +edns", "no.example.org. A"] {
        let answer = bench.ask(question);
        let all = [answer.answer, answer.authority, answer.additional].concat();
        assert!(all.iter().all(|record| record.rtype != Type::RRSIG), "{question}");
    }
    assert_eq!(bench.ask("no.example.org. A").flags.rcode(), Rcode::NXDOMAIN);
}

#[test]
fn what_does_not_exist_is_denied_by_name_and_type() {
    let mut bench = bench(&[ED]);
    for (question, owner, has, has_not) in [
        ("No.example.org. A", "No.example.org.", Type::TXT, Type::A),
        ("no.example.org. MX", "no.example.org.", Type::A, Type::MX),
        ("www.example.org. TXT", "www.example.org.", Type::A, Type::TXT),
        ("example.org. MX", "example.org.", Type::SOA, Type::MX),
        ("example.org. DS", "example.org.", Type::DNSKEY, Type::DS),
        ("www.example.org. DS", "www.example.org.", Type::NS, Type::DS),
        ("cut.example.org. DS", "cut.example.org.", Type::NS, Type::SOA),
        ("wild.example.org. A", "wild.example.org.", Type::NSEC, Type::A),
    ] {
        let answer = bench.ask(&format!("{question} +do"));
        assert_eq!((answer.flags.rcode(), answer.answer.len()), (Rcode::NOERROR, 0), "{question}");
        let rows = [row("example.org.", Type::SOA), row(owner, Type::NSEC)];
        assert_eq!(signed(&answer.authority, &key(ED)), rows, "{question}");
        let (found, next, types) = nsec(&answer.authority);
        assert_eq!(found, owner);
        assert_eq!(next, format!("\\000.{}", owner.to_lowercase()));
        assert!(types.contains(&has) && !types.contains(&has_not), "{question} {types:?}");
        assert!(answer.authority.iter().all(|record| record.ttl == 5 || record.ttl == 60));
    }
}

#[test]
fn an_nsec_record_that_is_asked_for_is_the_answer() {
    let answer = bench(&[ED]).ask("no.example.org. NSEC +do");
    assert_eq!(signed(&answer.answer, &key(ED)), [row("no.example.org.", Type::NSEC)]);
    assert!(answer.authority.is_empty() && nsec(&answer.answer).2.contains(&Type::NSEC));
}

#[test]
fn aliases_are_signed_and_what_is_missing_behind_them_is_denied() {
    let mut bench = bench(&[ED]);
    let ed = key(ED);
    let answer = bench.ask("alias.example.org. A +do");
    let rows = [row("alias.example.org.", Type::CNAME), row("www.example.org.", Type::A)];
    assert_eq!(signed(&answer.answer, &ed), rows);
    for (question, alias, denied) in [
        ("alias.example.org. MX +do", "alias.example.org.", "www.example.org."),
        ("lost.example.org. A +do", "lost.example.org.", "nowhere.example.org."),
    ] {
        let answer = bench.ask(question);
        assert_eq!(answer.flags.rcode(), Rcode::NOERROR);
        assert_eq!(signed(&answer.answer, &ed), [row(alias, Type::CNAME)]);
        let rows = [row("example.org.", Type::SOA), row(denied, Type::NSEC)];
        assert_eq!(signed(&answer.authority, &ed), rows);
    }
    let answer = bench.ask("lost.example.org. CNAME +do");
    assert_eq!(signed(&answer.answer, &ed), [row("lost.example.org.", Type::CNAME)]);
    assert!(answer.authority.iter().all(|record| record.rtype != Type::NSEC));
    // A circle ends.
    signed(&bench.ask("loop.example.org. A +do").answer, &ed);
}

#[test]
fn referrals_prove_whether_the_zone_below_is_signed() {
    let mut bench = bench(&[ED]);
    let ed = key(ED);
    let answer = bench.ask("www.cut.example.org. A +do");
    let (owner, next, types) = nsec(&answer.authority);
    assert_eq!((&*owner, &*next), ("cut.example.org.", "cut\\000.example.org."));
    assert!(types.contains(&Type::NS) && !types.contains(&Type::DS) && !types.contains(&Type::SOA));
    let rows = [("cut.example.org.".to_owned(), Type::NS, 0), row("cut.example.org.", Type::NSEC)];
    assert_eq!(signed(&answer.authority, &ed), rows);
    // Nothing of the other zone is signed.
    assert!(answer.additional.iter().all(|record| record.rtype != Type::RRSIG));
    let answer = bench.ask("www.safe.example.org. A +do");
    let rows = [("safe.example.org.".to_owned(), Type::NS, 0), row("safe.example.org.", Type::DS)];
    assert_eq!(signed(&answer.authority, &ed), rows);
}

#[test]
fn the_keys_are_at_the_apex() {
    let mut single = bench(&[ED]);
    let answer = single.ask("Example.org. DNSKEY +do");
    assert_eq!(signed(&answer.answer, &key(ED)), [row("Example.org.", Type::DNSKEY)]);
    assert!(answer.flags.has(Flags::AA));
    assert_eq!(single.ask("example.org. DNSKEY").answer.len(), 1);
    assert_eq!(single.ask("www.example.org. DNSKEY").answer.len(), 0);
    // With both kinds of keys each signs its own.
    let mut split = bench(&[P256_KSK, &format!("{P256_ZSK}.private"), &format!("{RSA}.key")]);
    let tags = |section: &[Record]| {
        let rrsigs = section.iter().filter(|record| record.rtype == Type::RRSIG);
        let mut tags: Vec<u16> =
            rrsigs.map(|rrsig| u16::from_be_bytes([rrsig.rdata[16], rrsig.rdata[17]])).collect();
        tags.sort_unstable();
        tags
    };
    let answer = split.ask("example.org. DNSKEY +do");
    assert_eq!((answer.answer.len(), tags(&answer.answer)), (4, vec![31548]));
    assert_eq!(tags(&split.ask("www.example.org. A +do").answer), [44575, 47388]);
    // Without, all of them sign everything.
    let mut joint = bench(&[P256_KSK]);
    assert_eq!(tags(&joint.ask("example.org. DNSKEY +do").answer), [31548]);
    assert_eq!(tags(&joint.ask("www.example.org. A +do").answer), [31548]);
}

fn counts(bench: &Bench) -> [u64; 3] {
    let text = bench.shared.registry.render();
    ["entries{server=\"dns://:53\",type=\"signature\"}", "hits_total{server=\"dns://:53\"}", "misses_total{server=\"dns://:53\"}"].map(|series| {
        let series = format!("coredns_dnssec_cache_{series} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&series));
        line.unwrap_or_else(|| panic!("{series} {text}")).parse().unwrap()
    })
}

#[test]
fn signatures_are_kept_until_two_days_before_they_expire() {
    let mut bench = bench(&[P256_ZSK]);
    let first = bench.ask("www.example.org. AAAA +do");
    assert_eq!(counts(&bench), [2, 0, 2]);
    // Those of ECDSA are others each time.
    assert_eq!(bench.ask("www.example.org. AAAA +do").answer, first.answer);
    assert_eq!(counts(&bench), [2, 2, 2]);
    bench.pass(Duration::from_secs(6 * 24 * 3600));
    assert_eq!(bench.ask("www.example.org. AAAA +do").answer, first.answer);
    bench.pass(Duration::from_secs(1));
    assert_ne!(bench.ask("www.example.org. AAAA +do").answer, first.answer);
    assert_eq!(counts(&bench), [2, 4, 4]);
}

#[test]
fn as_many_signatures_are_kept_as_there_is_room_for() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("db"), ZONE).unwrap();
    let lines = format!("key file {ED}\n cache_capacity 32");
    let mut bench = Bench::new(&corefile(folder.path(), &lines));
    for n in 0..200 {
        bench.ask(&format!("n{n}.example.org. A +do"));
    }
    let [entries, hits, misses] = counts(&bench);
    assert!((16..=32).contains(&entries), "{entries}");
    assert_eq!(hits + misses, 400);
}

#[test]
fn what_is_not_ours_or_too_much_stays_unsigned() {
    let root = keys();
    let root = root.display();
    let lines = format!("root {root}\n dnssec example.org {{\n key file {ED}\n}}");
    let mut bench = Bench::new(&format!(". {{\n {lines}\n forward . 192.0.2.9\n}}"));
    bench.upstream(|_, question| {
        let mut wire = Vec::new();
        let asked = &question.questions[0];
        let mut builder = Builder::new(&mut wire, 0, Flags(0x8180));
        builder.question(asked.qname.view(), asked.qtype, asked.qclass);
        for n in 0..20 {
            for zone in ["example.org.", "example.net."] {
                let owner = if n == 0 { asked.qname.clone() } else { name(&format!("n{n}.{zone}")) };
                let rdata = [192, 0, 2, n];
                let sort = (Type::A, Class::IN, 60);
                builder.record(Section::Answer, owner.view(), sort, &rdata).unwrap();
            }
        }
        for n in 0..200_u8 {
            let (owner, sort) = (name(&format!("m{n}.example.org.")), (Type::A, Class::IN, 60));
            builder.record(Section::Additional, owner.view(), sort, &[10, 0, 0, n]).unwrap();
        }
        Reaction::Reply(wire)
    });
    let mut count = |question: &str| {
        bench.client.transport = crate::job::Transport::Tcp;
        let answer = bench.ask(question);
        let is_rrsig = |record: &&Record| record.rtype == Type::RRSIG;
        (
            answer.answer.iter().filter(is_rrsig).count(),
            answer.additional.iter().filter(is_rrsig).count(),
        )
    };
    assert_eq!(count("example.org. A +do"), (20, 44));
    assert_eq!(count("example.net. A +do"), (0, 0));
}

#[test]
fn a_name_of_any_length_does_no_harm() {
    let mut bench = bench(&[ED]);
    let labels = ["x".repeat(63), "x".repeat(63), "x".repeat(50)].join(".");
    for first in 1..=62 {
        let answer = bench.ask(&format!("{}.{labels}.example.org. A +do", "a".repeat(first)));
        let (owner, next, _) = nsec(&answer.authority);
        assert!(name(&next) > name(&owner), "{next}");
        assert_eq!(answer.flags.rcode(), Rcode::NOERROR);
    }
    // No name below the zone comes next to this one.
    let answer = bench.ask(&format!("{}.{labels}.example.org. A +do", "\\255".repeat(62)));
    assert_eq!(answer.flags.rcode(), Rcode::NXDOMAIN);
    assert_eq!(answer.authority.len(), 1);
}

#[test]
fn transfers_are_not_signed() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("db"), ZONE).unwrap();
    let lines = format!("key file {ED}\n}}\n transfer {{\n to *");
    let mut bench = Bench::new(&corefile(folder.path(), &lines));
    bench.client.transport = crate::job::Transport::Tcp;
    let wire = bench.ask_bytes(&request("example.org. AXFR +do")).unwrap();
    let message = Message::parse(&wire).unwrap();
    assert!(message.answer.len() > 10, "{message:?}");
    assert!(message.answer.iter().all(|record| record.rtype != Type::RRSIG));
}

fn warnings(bench: &Bench) -> Vec<String> {
    let line = |line| match line {
        Line::Line { level: Level::Warning, text, .. } => Some(text),
        _ => None,
    };
    bench.log.try_iter().filter_map(line).collect()
}

#[test]
fn without_a_key_nothing_is_signed_and_the_log_says_so() {
    let mut bench = Bench::new("example.org {\n dnssec\n whoami\n}");
    assert!(warnings(&bench)[0].contains("nothing is signed"));
    let answer = bench.ask("example.org. A +do");
    assert!(answer.additional.iter().all(|record| record.rtype != Type::RRSIG));
    assert_eq!(bench.ask("example.org. DNSKEY").answer.len(), 0);
}

#[test]
fn what_may_cost_more_than_expected_is_said() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("db"), ZONE).unwrap();
    let lines = format!("key file {RSA}\n cache_capacity 1000000");
    let warnings = warnings(&Bench::new(&corefile(folder.path(), &lines)));
    assert!(warnings[0].contains("at most 131072 signatures are kept"), "{warnings:?}");
    assert!(warnings[1].contains("key 47388 is RSASHA256"), "{warnings:?}");
}

#[test]
fn what_is_wrong_is_refused() {
    let (folder, root) = (TempDir::new().unwrap(), keys());
    fs::write(folder.path().join("K.key"), "example.org. IN DNSKEY 257 3 13 AAAA").unwrap();
    fs::write(folder.path().join("K.private"), "Private-key-format: v1.3\nAlgorithm: 13").unwrap();
    let bad = folder.path().join("K");
    let bad = format!("dnssec {{\n key file {}\n}}", bad.display());
    for (text, wanted) in [
        ("dnssec {\n key\n}", "expected 2 or more"),
        ("dnssec {\n key file\n}", "expected 2 or more"),
        ("dnssec {\n key aws_secretsmanager name\n}", "expected `file`"),
        ("dnssec {\n key file nowhere\n}", "nowhere.key: No such file"),
        ("dnssec {\n key file Kexample.org.+001+00001.private\n}", "+001+00001.key: No such"),
        ("dnssec {\n key file Kexample.org.+008+19965\n}", "does not belong to the public key, or"),
        (&bad, "K: private key: expected `PrivateKey: ` and Base64"),
        ("dnssec example.net {\n key file Kexample.org.+015+21968\n}", "key example.org. (keyid: 21968) can not sign any of the zones"),
        ("dnssec {\n cache_capacity\n}", "cache_capacity"),
        ("dnssec {\n cache_capacity 1 2\n}", "cache_capacity"),
        ("dnssec {\n cache_capacity many\n}", "a number from"),
        ("dnssec {\n nsec3\n}", "unknown property 'nsec3'"),
        ("dnssec\n dnssec", "this plugin can only be used once per Server Block"),
        ("dnssec a..b", "not a valid domain name: a..b"),
    ] {
        let corefile = format!("example.org {{\n root {}\n {text}\n whoami\n}}", root.display());
        let error = Bench::try_new(&corefile).err().unwrap_or_else(|| panic!("{text}")).to_string();
        assert!(error.contains(wanted), "{text}: {error}");
    }
    // What CoreDNS takes.
    for text in ["dnssec sub.example.org {\n key file Kexample.org.+015+21968.key\n}", "dnssec {\n cache_capacity -1\n}"] {
        let corefile = format!("example.org {{\n root {}\n {text}\n whoami\n}}", root.display());
        assert!(Bench::try_new(&corefile).is_ok(), "{text}");
    }
}
