//! What the lookup finds, by hand. `model.rs` compares it with the algorithm written step by step.

use super::*;
use crate::presentation;
use nodens_wire::{Name, Record};

mod edits;
mod model;
mod ordered;
mod proofs;

/// A zone `z.` of these lines; `@` in front of a line stands for its origin.
fn edit(lines: &[&str]) -> Edit {
    let mut edit = Edit::new(name("z.").view(), Class::IN);
    for line in ["@ SOA ns.z. host.z. 1 2 3 4 300", "@ NS ns.z."].iter().chain(lines) {
        let record = record(line);
        edit.add((&record).into()).unwrap_or_else(|why| panic!("{line}: {why}"));
    }
    edit
}

fn zone(lines: &[&str]) -> Data {
    edit(lines).finish().unwrap()
}

/// A record whose owner lies below `z.` if it does not end with a dot.
fn record(line: &str) -> Record {
    let (owner, rest) = line.split_once(' ').unwrap();
    let owner = match owner {
        "@" => "z.".to_owned(),
        owner if owner.ends_with('.') => owner.to_owned(),
        owner => format!("{owner}.z."),
    };
    presentation::record(&format!("{owner} {rest}")).unwrap()
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// What is found, in a few words.
fn ask(data: &Data, qname: &str, qtype: Type) -> String {
    let suffix =
        |wildcard: Option<NameRef<'_>>| wildcard.map_or(String::new(), |w| format!(" by {w}"));
    match data.lookup(name(qname).view(), qtype) {
        Found::Answer { rrset, wildcard } => {
            format!("{} {}x{}{}", rrset.owner(), rrset.rtype(), rrset.count(), suffix(wildcard))
        }
        Found::Several { rrsets, wildcard } => {
            let types: Vec<_> = rrsets.map(|set| set.rtype().to_string()).collect();
            format!("{}{}", types.join("+"), suffix(wildcard))
        }
        Found::Cname { target, wildcard, .. } => format!("CNAME {target}{}", suffix(wildcard)),
        Found::Dname { rrset, target } => format!("{} DNAME {target}", rrset.owner()),
        Found::Referral(cut) => {
            let (ns, ds) = (cut.ns().unwrap(), cut.ds());
            format!("referral {} NSx{} DS {}", cut.name(), ns.count(), ds.is_some())
        }
        Found::NoData { wildcard } => format!("NODATA{}", suffix(wildcard)),
        Found::NxDomain { closest_encloser, .. } => format!("NXDOMAIN below {closest_encloser}"),
        Found::Outside => "outside".to_owned(),
    }
}

#[test]
fn names_are_found_without_case_and_kept_with_it() {
    let data = zone(&["WwW 60 A 192.0.2.1", "www 30 A 192.0.2.2", "www TXT a", "a.b A 192.0.2.3"]);
    assert_eq!(ask(&data, "wWw.Z.", Type::A), "WwW.z. Ax2");
    let set = data.rrset(name("www.z.").view(), Type::A).unwrap();
    assert_eq!((set.ttl(), set.count(), set.class()), (30, 2, Class::IN));
    assert_eq!(ask(&data, "www.z.", Type::AAAA), "NODATA");
    assert_eq!(ask(&data, "www.z.", Type::ANY), "A+TXT");
    assert_eq!(ask(&data, "www.z.", Type::RRSIG), "NODATA");
    assert_eq!(ask(&data, "b.z.", Type::A), "NODATA");
    assert_eq!(ask(&data, "b.z.", Type::ANY), "NODATA");
    assert_eq!(ask(&data, "c.b.z.", Type::A), "NXDOMAIN below b.z.");
    assert_eq!(ask(&data, "ww.z.", Type::A), "NXDOMAIN below z.");
    assert_eq!(ask(&data, "x.y.www.z.", Type::A), "NXDOMAIN below WwW.z.");
    assert_eq!(ask(&data, "z.", Type::NS), "z. NSx1");
    assert_eq!(ask(&data, "z.", Type::DS), "NODATA");
    assert_eq!(ask(&data, "y.", Type::A), "outside");
    assert_eq!(ask(&data, ".", Type::A), "outside");
    assert_eq!((data.records(), data.names()), (6, 3));
}

#[test]
fn names_at_and_below_a_cut_belong_to_another_zone() {
    let data = zone(&[
        "sub NS ns.sub.z.",
        "sub NS ns.z.",
        "sub A 192.0.2.1",
        "sub DS 1 13 2 00",
        "ns.sub A 192.0.2.2",
        "*.sub A 192.0.2.3",
        "deep.sub NS x.",
        "un.signed NS x.",
    ]);
    let referral = "referral sub.z. NSx2 DS true";
    for (qname, qtype) in [
        ("sub.z.", Type::A),
        ("sub.z.", Type::NS),
        ("sub.z.", Type::ANY),
        ("ns.sub.z.", Type::A),
        ("x.sub.z.", Type::A),
        ("x.sub.z.", Type::DS),
        ("deep.sub.z.", Type::DS),
        ("a.deep.sub.z.", Type::A),
    ] {
        assert_eq!(ask(&data, qname, qtype), referral, "{qname} {qtype}");
    }
    assert_eq!(ask(&data, "sub.z.", Type::DS), "sub.z. DSx1");
    assert_eq!(ask(&data, "un.signed.z.", Type::DS), "NODATA");
    assert_eq!(ask(&data, "a.un.signed.z.", Type::DS), "referral un.signed.z. NSx1 DS false");
    let glue = data.rrset(name("ns.sub.z.").view(), Type::A).unwrap();
    assert_eq!(glue.first(), [192, 0, 2, 2]);
}

#[test]
fn wildcards_stand_for_names_right_below_their_encloser() {
    let data = zone(&[
        "* TXT a",
        "*.w CNAME www.x.",
        "sub.*.w A 192.0.2.1",
        "a.ent A 192.0.2.1",
        "b.*.e A 192.0.2.1",
        "host TXT a",
        "*.d DNAME x.",
        "*.n NS ns.z.",
    ]);
    assert_eq!(ask(&data, "q.z.", Type::TXT), "*.z. TXTx1 by *.z.");
    assert_eq!(ask(&data, "q.q.z.", Type::TXT), "*.z. TXTx1 by *.z.");
    assert_eq!(ask(&data, "q.z.", Type::A), "NODATA by *.z.");
    assert_eq!(ask(&data, "*.z.", Type::TXT), "*.z. TXTx1");
    assert_eq!(ask(&data, "q.*.z.", Type::TXT), "NXDOMAIN below *.z.");
    assert_eq!(ask(&data, "q.host.z.", Type::TXT), "NXDOMAIN below host.z.");
    assert_eq!(ask(&data, "ent.z.", Type::TXT), "NODATA");
    assert_eq!(ask(&data, "q.ent.z.", Type::TXT), "NXDOMAIN below ent.z.");
    assert_eq!(ask(&data, "q.w.z.", Type::A), "CNAME www.x. by *.w.z.");
    assert_eq!(ask(&data, "q.w.z.", Type::ANY), "CNAME by *.w.z.");
    assert_eq!(ask(&data, "sub.*.w.z.", Type::A), "sub.*.w.z. Ax1");
    assert_eq!(ask(&data, "q.e.z.", Type::A), "NODATA by *.e.z.");
    assert_eq!(ask(&data, "q.d.z.", Type::A), "NODATA by *.d.z.");
    assert_eq!(ask(&data, "q.d.z.", Type::DNAME), "*.d.z. DNAMEx1 by *.d.z.");
    assert_eq!(ask(&data, "q.*.d.z.", Type::A), "*.d.z. DNAME x.");
    assert_eq!(ask(&data, "q.n.z.", Type::NS), "*.n.z. NSx1 by *.n.z.");
    assert_eq!(ask(&data, "*.n.z.", Type::NS), "referral *.n.z. NSx1 DS false");
}

#[test]
fn aliases_and_names_below_dname() {
    let data = zone(&[
        "c CNAME d.z.",
        "c A 192.0.2.1",
        "c NSEC d.z. A",
        "d DNAME x.y.",
        "d A 192.0.2.1",
        "below.d A 192.0.2.1",
        "both NS ns.z.",
        "both DNAME x.",
    ]);
    assert_eq!(ask(&data, "c.z.", Type::A), "CNAME d.z.");
    assert_eq!(ask(&data, "c.z.", Type::TXT), "CNAME d.z.");
    assert_eq!(ask(&data, "c.z.", Type::CNAME), "c.z. CNAMEx1");
    assert_eq!(ask(&data, "c.z.", Type::NSEC), "c.z. NSECx1");
    assert_eq!(ask(&data, "d.z.", Type::A), "d.z. Ax1");
    assert_eq!(ask(&data, "below.d.z.", Type::A), "d.z. DNAME x.y.");
    assert_eq!(ask(&data, "q.q.d.z.", Type::A), "d.z. DNAME x.y.");
    assert_eq!(ask(&data, "q.both.z.", Type::A), "referral both.z. NSx1 DS false");
    let apex = zone(&["@ DNAME x.", "a A 192.0.2.1"]);
    assert_eq!(ask(&apex, "a.z.", Type::A), "z. DNAME x.");
    assert_eq!(ask(&apex, "z.", Type::NS), "z. NSx1");
}
