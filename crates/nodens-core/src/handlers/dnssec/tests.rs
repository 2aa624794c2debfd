mod clock;
mod types;

use crate::job::Transport;
use crate::log::{Level, Record as Line};
use crate::testing::{Bench, Reaction, request};
use nodens_wire::edns::{CO, DO, extended_error};
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
deep CNAME www.cut
weeks 604800 TXT text
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
    // What is only of help must not make a response too long.
    let answer = bench.ask("mail.example.org. MX +do");
    assert_eq!(signed(&answer.answer, &ed), [row("mail.example.org.", Type::MX)]);
    let rtypes: Vec<Type> = answer.additional.iter().map(|record| record.rtype).collect();
    assert_eq!(rtypes, [Type::A, Type::A, Type::AAAA, Type::OPT]);
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
        ("www.example.org. TXT", "www.example.org.", Type::A, Type::TXT),
        ("www.example.org. CAA", "www.example.org.", Type::HTTPS, Type::CAA),
        ("www.example.org. TYPE65280", "www.example.org.", Type::PTR, Type::CNAME),
        ("www.example.org. RRSIG", "www.example.org.", Type::RRSIG, Type::SOA),
        ("example.org. MX", "example.org.", Type::SOA, Type::MX),
        ("example.org. DS", "example.org.", Type::DNSKEY, Type::DS),
        ("example.org. CDS", "example.org.", Type::CDNSKEY, Type::CDS),
        ("wild.example.org. A", "wild.example.org.", Type::NSEC, Type::A),
        // No zone begins there: NS would let everybody forge the name.
        ("www.example.org. DS", "www.example.org.", Type::MX, Type::NS),
        ("wild.example.org. DS", "wild.example.org.", Type::MX, Type::NS),
        ("a.wild.example.org. DS", "a.wild.example.org.", Type::MX, Type::NS),
    ] {
        let answer = bench.ask(&format!("{question} +do"));
        assert_eq!((answer.flags.rcode(), answer.answer.len()), (Rcode::NOERROR, 0), "{question}");
        let rows = [row("example.org.", Type::SOA), row(owner, Type::NSEC)];
        assert_eq!(signed(&answer.authority, &key(ED)), rows, "{question}");
        let (found, next, types) = nsec(&answer.authority);
        assert_eq!(found, owner);
        assert_eq!(next, format!("\\000.{}", owner.to_lowercase()));
        assert!(types.contains(&has) && !types.contains(&has_not), "{question} {types:?}");
        assert!(types.contains(&Type::NSEC) && types.contains(&Type::RRSIG), "{question}");
        let is_apex = owner == "example.org.";
        assert_eq!(types.contains(&Type::NS), is_apex, "{question} {types:?}");
        for alias in [Type::CNAME, Type::DNAME, Type::DS, Type::NXNAME] {
            assert!(!types.contains(&alias), "{question} {types:?}");
        }
        assert!(answer.authority.iter().all(|record| record.ttl == 5 || record.ttl == 60));
    }
}

#[test]
fn a_name_that_does_not_exist_has_nothing_and_one_with_another_zone_its_servers() {
    let mut bench = bench(&[ED]);
    let [ns, nxname] = [Type::NS, Type::NXNAME].map(|own| {
        let mut types = vec![own, Type::RRSIG, Type::NSEC];
        types.sort_unstable();
        types
    });
    for (question, next, types) in [
        ("No.example.org. A", "\\000.no.example.org.", &nxname),
        ("no.example.org. MX", "\\000.no.example.org.", &nxname),
        ("a.no.example.org. DS", "\\000.a.no.example.org.", &nxname),
        ("cut.example.org. DS", "cut\\000.example.org.", &ns),
        ("CUT.example.org. DS", "cut\\000.example.org.", &ns),
    ] {
        let answer = bench.ask(&format!("{question} +do"));
        assert_eq!((answer.flags.rcode(), answer.answer.len()), (Rcode::NOERROR, 0), "{question}");
        let owner = question.split(' ').next().unwrap();
        let rows = [row("example.org.", Type::SOA), row(owner, Type::NSEC)];
        assert_eq!(signed(&answer.authority, &key(ED)), rows, "{question}");
        assert_eq!(nsec(&answer.authority), (owner.to_owned(), next.to_owned(), types.clone()));
    }
}

/// The RCODE of the response to a query with these bits behind the EDNS version, and the bits of its OPT
/// record.
fn rcode(bench: &mut Bench, question: &str, flags: u16) -> (Rcode, u16) {
    let mut wire = request(&format!("{question} +edns"));
    let end = wire.len();
    wire[end - 4..end - 2].copy_from_slice(&flags.to_be_bytes());
    let answer = Message::parse(&bench.ask_bytes(&wire).unwrap()).unwrap();
    (answer.flags.rcode(), answer.edns().unwrap().0.flags)
}

#[test]
fn those_who_understand_it_get_the_rcode_of_names_that_do_not_exist() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("db"), ZONE).unwrap();
    for lines in [format!("key file {ED}"), format!("key file {ED}\n}}\n cache {{\n success 9")] {
        let mut bench = Bench::new(&corefile(folder.path(), &lines));
        for _ in 0..2 {
            for (question, flags, wanted) in [
                ("no.example.org. A", DO, (Rcode::NOERROR, DO)),
                ("no.example.org. A", DO | CO, (Rcode::NXDOMAIN, DO | CO)),
                ("no.example.org. A", DO | CO | 1, (Rcode::NXDOMAIN, DO | CO)),
                ("no.example.org. A", CO, (Rcode::NXDOMAIN, 0)),
                ("no.example.org. A", 0, (Rcode::NXDOMAIN, 0)),
                ("lost.example.org. A", DO, (Rcode::NOERROR, DO)),
                ("lost.example.org. A", DO | CO, (Rcode::NXDOMAIN, DO | CO)),
                ("www.example.org. TXT", DO | CO, (Rcode::NOERROR, DO | CO)),
                ("www.example.org. A", DO | CO, (Rcode::NOERROR, DO | CO)),
                ("cut.example.org. DS", DO | CO, (Rcode::NOERROR, DO | CO)),
            ] {
                assert_eq!(rcode(&mut bench, question, flags), wanted, "{question} {flags:#x}");
            }
        }
    }
    // Others do not know the bit.
    let mut bench = Bench::new("example.org {\n whoami\n}");
    assert_eq!(rcode(&mut bench, "example.org. A", DO | CO), (Rcode::NOERROR, DO));
}

#[test]
fn the_type_of_names_that_do_not_exist_can_not_be_asked_for() {
    let mut bench = bench(&[ED]);
    for question in ["no.example.org. NXNAME +do", "www.example.org. NXNAME +edns"] {
        let answer = bench.ask(question);
        assert_eq!((answer.flags.rcode(), answer.authority.len()), (Rcode::FORMERR, 0));
        let (_, mut options) = answer.edns().unwrap();
        let data = extended_error::INVALID_QUERY_TYPE.to_be_bytes();
        assert_eq!(options.next(), Some((nodens_wire::edns::code::EXTENDED_ERROR, &data[..])));
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
    // That there are no keys is known no longer than of a query for DS records.
    let ttls: Vec<u32> = answer.authority.iter().map(|record| record.ttl).collect();
    assert_eq!(ttls, [300, 5, 5]);
    // Nothing of the other zone is signed.
    assert!(answer.additional.iter().all(|record| record.rtype != Type::RRSIG));
    let answer = bench.ask("www.safe.example.org. A +do");
    let rows = [("safe.example.org.".to_owned(), Type::NS, 0), row("safe.example.org.", Type::DS)];
    assert_eq!(signed(&answer.authority, &ed), rows);
}

#[test]
fn an_alias_may_lead_below_a_cut() {
    let ed = key(ED);
    let answer = bench(&[ED]).ask("deep.example.org. A +do");
    assert_eq!(signed(&answer.answer, &ed), [row("deep.example.org.", Type::CNAME)]);
    let rows = [("cut.example.org.".to_owned(), Type::NS, 0), row("cut.example.org.", Type::NSEC)];
    assert_eq!(signed(&answer.authority, &ed), rows);
    assert!(answer.additional.iter().all(|record| record.rtype != Type::RRSIG));
}

/// The signers of the signatures of a section, by the type that they cover.
fn signers(section: &[Record]) -> Vec<(Type, String)> {
    let rrsigs = section.iter().filter(|record| record.rtype == Type::RRSIG);
    let signer = |rrsig: &Record| {
        let (high, low) = (rrsig.rdata[0], rrsig.rdata[1]);
        let len = rrsig.rdata.len() - 64;
        let name = Name::from_wire(&rrsig.rdata[18..len]).unwrap();
        (Type(u16::from_be_bytes([high, low])), name.to_string())
    };
    rrsigs.map(signer).collect()
}

#[test]
fn two_zones_of_one_directive_sign_each_its_own() {
    let folder = TempDir::new().unwrap();
    let (root, path) = (keys(), folder.path().display());
    let root = root.display();
    let child = "$TTL 300\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.2\n";
    fs::write(folder.path().join("child"), child).unwrap();
    let corefile = format!(
        "example.org {{\n root {root}\n dnssec example.org sub.example.org {{\n key file {ED}\n }}\n \
         file {path}/db example.org\n file {path}/child sub.example.org\n}}"
    );
    let parent = format!("{ZONE}sub NS ns.sub\nns.sub A 192.0.2.1\nfar CNAME www.sub\n");
    let [above, below] = ["example.org.".to_owned(), "sub.example.org.".to_owned()];
    for ds in ["", "sub DS 1 13 2 aabb\n"] {
        fs::write(folder.path().join("db"), format!("{parent}{ds}")).unwrap();
        let mut bench = Bench::new(&corefile);
        let answer = bench.ask("sub.example.org. DS +do");
        if ds.is_empty() {
            let wanted = [(Type::SOA, above.clone()), (Type::NSEC, above.clone())];
            assert_eq!(signers(&answer.authority), wanted);
            assert_eq!(nsec(&answer.authority).2, [Type::NS, Type::RRSIG, Type::NSEC]);
        } else {
            assert_eq!(signers(&answer.answer), [(Type::DS, above.clone())]);
        }
        let answer = bench.ask("sub.example.org. MX +do");
        let wanted = [(Type::SOA, below.clone()), (Type::NSEC, below.clone())];
        assert_eq!(signers(&answer.authority), wanted);
        assert!(nsec(&answer.authority).2.contains(&Type::SOA));
        let answer = bench.ask("www.sub.example.org. A +do");
        assert_eq!(signers(&answer.answer), [(Type::A, below.clone())]);
        // The other zone has been asked, and has signed.
        let answer = bench.ask("far.example.org. A +do");
        let wanted = [(Type::A, below.clone()), (Type::CNAME, above.clone())];
        assert_eq!(signers(&answer.answer), wanted);
    }
}

/// A server with a signed zone, and another block with the zone below it.
fn above_and_below(dnssec: &str) -> Bench {
    let folder = TempDir::new().unwrap();
    let (root, path) = (keys(), folder.path().display());
    let root = root.display();
    let parent = "sub NS ns.sub\nns.sub A 192.0.2.1\nfar CNAME www.sub\nnone CNAME no.sub\nfarther CNAME x.deep.sub\n";
    fs::write(folder.path().join("db"), format!("{ZONE}{parent}")).unwrap();
    let child = "$TTL 300\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.2\ndeep NS ns.deep\n";
    fs::write(folder.path().join("child"), child).unwrap();
    Bench::new(&format!(
        "example.org {{\n root {root}\n dnssec {{\n key file {ED}\n }}\n file {path}/db\n}}\n\
         sub.example.org {{\n root {root}\n {dnssec}\n file {path}/child\n}}"
    ))
}

#[test]
fn what_another_block_has_below_is_signed_by_that_block_alone() {
    let [above, below] = ["example.org.".to_owned(), "sub.example.org.".to_owned()];
    let mut bench = above_and_below("");
    let answer = bench.ask("far.example.org. A +do");
    assert_eq!(answer.answer.len(), 3, "{answer:?}");
    assert_eq!(signers(&answer.answer), [(Type::CNAME, above.clone())]);
    let answer = bench.ask("none.example.org. A +do");
    assert_eq!(signers(&answer.answer), [(Type::CNAME, above.clone())]);
    assert_eq!(signers(&answer.authority), []);
    assert_eq!(answer.flags.rcode(), Rcode::NXDOMAIN);
    // The parent's own word is signed.
    let answer = bench.ask("sub.example.org. DS +do");
    assert_eq!(signers(&answer.authority), [Type::SOA, Type::NSEC].map(|rtype| (rtype, above.clone())));
    let mut bench = above_and_below(&format!("dnssec {{\n key file {ED}\n }}"));
    let answer = bench.ask("far.example.org. A +do");
    assert_eq!(signers(&answer.answer), [(Type::A, below.clone()), (Type::CNAME, above.clone())]);
    let answer = bench.ask("none.example.org. A +do");
    assert_eq!(signers(&answer.answer), [(Type::CNAME, above)]);
    assert_eq!(signers(&answer.authority), [Type::SOA, Type::NSEC].map(|rtype| (rtype, below.clone())));
}

#[test]
fn an_alias_to_what_others_have_denies_nothing() {
    let mut bench = above_and_below("");
    let answer = bench.ask("farther.example.org. A +do");
    assert_eq!(signers(&answer.answer), [(Type::CNAME, "example.org.".to_owned())]);
    let denies = |record: &Record| matches!(record.rtype, Type::SOA | Type::NSEC);
    assert!(!answer.authority.iter().any(denies), "{answer:?}");
    // The lookup of the target has no SOA record to sign: that of the alias says nothing of it.
    let folder = TempDir::new().unwrap();
    let (root, path) = (keys(), folder.path().display());
    let root = root.display();
    fs::write(folder.path().join("db"), format!("{ZONE}over CNAME gone\n")).unwrap();
    let mut bench = Bench::new(&format!(
        "example.org {{\n root {root}\n dnssec {{\n key file {ED}\n }}\n file {path}/db {{\n fallthrough\n }}\n forward . 192.0.2.9\n}}"
    ));
    bench.upstream(|_, question| {
        let mut wire = Vec::new();
        let asked = &question.questions[0];
        let mut builder = Builder::new(&mut wire, 0, Flags(0x8180));
        builder.question(asked.qname.view(), asked.qtype, asked.qclass);
        Reaction::Reply(wire)
    });
    let answer = bench.ask("over.example.org. A +do");
    assert!(answer.authority.iter().all(|record| record.rtype != Type::NSEC), "{answer:?}");
}

#[test]
fn an_upstream_does_not_say_where_zones_begin() {
    let root = keys();
    let root = root.display();
    let lines = format!("root {root}\n dnssec {{\n key file {ED}\n}}");
    let mut bench = Bench::new(&format!("example.org {{\n {lines}\n forward . 192.0.2.9\n}}"));
    bench.upstream(|_, question| {
        let mut wire = Vec::new();
        let asked = &question.questions[0];
        let mut builder = Builder::new(&mut wire, 0, Flags(0x8180));
        builder.question(asked.qname.view(), asked.qtype, asked.qclass);
        let server = name("ns.evil.test.");
        let sort = (Type::NS, Class::IN, 60);
        builder.record(Section::Authority, asked.qname.view(), sort, server.as_wire()).unwrap();
        Reaction::Reply(wire)
    });
    let answer = bench.ask("host.example.org. AAAA +do");
    let rtypes: Vec<Type> = answer.authority.iter().map(|record| record.rtype).collect();
    assert_eq!(rtypes, [Type::NS]);
}

#[test]
fn no_ttl_is_longer_than_the_signed_one() {
    let mut bench = bench(&[ED]);
    let answer = bench.ask("weeks.example.org. TXT +do");
    assert_eq!(signed(&answer.answer, &key(ED)), [row("weeks.example.org.", Type::TXT)]);
    assert!(answer.answer.iter().all(|record| record.ttl == 3600), "{answer:?}");
    assert_eq!(bench.ask("weeks.example.org. TXT").answer[0].ttl, 604_800);
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
    let lines = format!("key file {ED}\n cache_capacity 256");
    let mut bench = Bench::new(&corefile(folder.path(), &lines));
    bench.ask("www.example.org. A +do");
    let before = counts(&bench);
    assert_eq!(before, [2, 0, 2]);
    // Whatever is asked for, what there is remains.
    for n in 0..400 {
        bench.ask(&format!("n{n}.example.org. A +do"));
        bench.ask(&format!("n{n}.wild.example.org. TXT +do"));
    }
    let [entries, hits, misses] = counts(&bench);
    assert!((40..=67).contains(&entries), "{entries}");
    assert_eq!((hits, misses), (2 * 400 - 1, 2 + 2 * 400 + 1));
    bench.ask("www.example.org. A +do");
    assert_eq!(counts(&bench), [entries, hits + 2, misses]);
}

#[test]
fn names_that_do_not_exist_are_one_name_to_rrl() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("db"), ZONE).unwrap();
    for behind in ["", "\n}\n cache {\n success 99"] {
        let lines = format!("key file {ED}\n}}\n rrl {{\n nodata-per-second 2{behind}");
        let mut bench = Bench::new(&corefile(folder.path(), &lines));
        let mut count = |names: &[&str], transport| {
            bench.client.transport = transport;
            let wires = names.iter().map(|name| request(&format!("{name}.example.org. TXT +do")));
            wires.filter(|wire| bench.ask_bytes(wire).is_some()).count()
        };
        let names = ["a", "b", "c", "d", "e"];
        // Those whom TCP vouches for are not counted, and leave them in the cache.
        assert_eq!(count(&names, Transport::Tcp), 5);
        assert_eq!(count(&names, Transport::Udp), 2, "{behind}");
        assert_eq!(count(&["www", "ns", "cut", "mail"], Transport::Udp), 4);
    }
}

fn refused(bench: &Bench) -> u64 {
    let text = bench.shared.registry.render();
    let series = "nodens_dnssec_refused_total{server=\"dns://:53\"} ";
    text.lines().find_map(|line| line.strip_prefix(series)).unwrap().parse().unwrap()
}

#[test]
fn beyond_what_a_worker_may_sign_queries_fail() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("db"), ZONE).unwrap();
    for lines in [format!("key file {ED}"), format!("key file {ED}\n}}\n cache {{\n success 99")] {
        let mut bench = Bench::new(&corefile(folder.path(), &lines));
        let names = (0..1400).map(|n| format!("a{n}.example.org. A +do"));
        let answers = names.filter(|name| bench.ask(name).flags.rcode() == Rcode::NOERROR).count();
        // Half of the room is left to what there is; the SOA record has room of its own.
        assert_eq!((answers, refused(&bench)), (1250, 150));
        let answer = bench.ask("late.example.org. A +do");
        assert_eq!((answer.flags.rcode(), answer.authority.len()), (Rcode::SERVFAIL, 0));
        let (_, mut options) = answer.edns().unwrap();
        assert!(options.any(|(code, _)| code == nodens_wire::edns::code::EXTENDED_ERROR));
        let answer = bench.ask("www.example.org. A +do");
        assert_eq!(signed(&answer.answer, &key(ED)), [row("www.example.org.", Type::A)]);
        // So it is for what names lack that there are.
        let answer = bench.ask("www.example.org. MX +do");
        let rows = [row("example.org.", Type::SOA), row("www.example.org.", Type::NSEC)];
        assert_eq!(signed(&answer.authority, &key(ED)), rows);
        let others = bench.ask("late.example.org. A");
        assert_eq!(others.flags.rcode(), Rcode::NXDOMAIN);
        // A failure is not kept.
        bench.pass(Duration::from_millis(200));
        let answer = bench.ask("late.example.org. A +do");
        let rows = [row("example.org.", Type::SOA), row("late.example.org.", Type::NSEC)];
        assert_eq!(signed(&answer.authority, &key(ED)), rows);
    }
}

#[test]
fn whatever_is_signed_the_apex_can_be() {
    let folder = TempDir::new().unwrap();
    let names: String = (0..3000).map(|n| format!("real{n} A 192.0.2.1\n")).collect();
    let zone = format!("{ZONE}{names}d DNAME wild\n");
    fs::write(folder.path().join("db"), zone).unwrap();
    let lines = format!("key file {ED}\n cache_capacity 16");
    let mut bench = Bench::new(&corefile(folder.path(), &lines));
    let count = |bench: &mut Bench, first: &str, rest: &str| {
        let names = (0..3000).map(|n| format!("{first}{n}{rest} +do"));
        names.filter(|name| bench.ask(name).flags.rcode() == Rcode::NOERROR).count()
    };
    // Those that a DNAME record leads to a wildcard are as many as clients think of, two signatures for each.
    assert_eq!(count(&mut bench, "x", ".d.example.org. TXT"), 624);
    // What names lack that there are has a quarter, what there is the rest.
    assert_eq!(count(&mut bench, "real", ".example.org. TXT"), 625);
    assert_eq!(count(&mut bench, "real", ".example.org. A"), 625);
    for (question, rtype) in [("DNSKEY", Type::DNSKEY), ("SOA", Type::SOA), ("NS", Type::NS)] {
        let answer = bench.ask(&format!("example.org. {question} +do"));
        assert_eq!(signed(&answer.answer, &key(ED)), [row("example.org.", rtype)], "{question}");
    }
    assert_eq!(bench.ask("late.example.org. A +do").flags.rcode(), Rcode::SERVFAIL);
}

#[test]
fn dname_records_of_wildcards_do_not_use_up_the_room_of_what_there_is() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("db"), format!("{ZONE}*.any DNAME www\n")).unwrap();
    let mut bench = Bench::new(&corefile(folder.path(), &format!("key file {ED}")));
    let names = (0..3000).map(|n| format!("x{n}.any.example.org. DNAME +do"));
    let signed = names.filter(|name| bench.ask(name).flags.rcode() == Rcode::NOERROR).count();
    assert!(signed <= 1250, "{signed}");
    assert_eq!(bench.ask("www.example.org. A +do").flags.rcode(), Rcode::NOERROR);
}

#[test]
fn the_servers_of_a_block_and_the_next_configuration_have_the_same_signatures() {
    let folder = TempDir::new().unwrap();
    let (root, path) = (keys(), folder.path().display());
    let root = root.display();
    fs::write(folder.path().join("db"), ZONE).unwrap();
    let text = |key: &str| {
        format!(
            "example.org:53 example.org:54 {{\n root {root}\n dnssec {{\n key file {key}\n }}\n file {path}/db\n}}"
        )
    };
    let mut bench = Bench::new(&text(ED));
    bench.ask("www.example.org. A +do");
    let entries = |bench: &Bench, port: u16| {
        let text = bench.shared.registry.render();
        let series =
            format!("coredns_dnssec_cache_entries{{server=\"dns://:{port}\",type=\"signature\"}} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&series));
        value.unwrap_or_else(|| panic!("{series} {text}")).to_owned()
    };
    assert_eq!((entries(&bench, 53), entries(&bench, 54)), ("2".to_owned(), "2".to_owned()));
    bench.reload(&text(ED)).unwrap();
    assert_eq!(entries(&bench, 54), "2");
    bench.reload(&text(P256_ZSK)).unwrap();
    assert_eq!(entries(&bench, 54), "0");
    // Keys may change behind the same Corefile.
    let known = crate::signatures::Known::default();
    let of = |name: &str, capacity| known.of(7, &[key(name)], (capacity, 1));
    let first = of(ED, 100);
    assert!(std::sync::Arc::ptr_eq(&first, &of(ED, 100)));
    assert!(!std::sync::Arc::ptr_eq(&first, &of(P256_ZSK, 100)));
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
            builder.record(Section::Authority, owner.view(), sort, &[10, 0, 0, n]).unwrap();
        }
        Reaction::Reply(wire)
    });
    let mut count = |question: &str| {
        bench.client.transport = crate::job::Transport::Tcp;
        let answer = bench.ask(question);
        let is_rrsig = |record: &&Record| record.rtype == Type::RRSIG;
        (
            answer.answer.iter().filter(is_rrsig).count(),
            answer.authority.iter().filter(is_rrsig).count(),
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
