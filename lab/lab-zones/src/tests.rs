//! Recorded responses in, zones out.

use super::*;
use crate::output::Apart;
use lab_workload::recorded::{Carrier, Content, Record as Recorded};
use nodens_wire::message::Question;
use nodens_wire::{Class, Flags, Message, Rcode, Record};
use nodens_zone::master::{Master, NoIncludes};
use proptest::prelude::*;

mod signed_tests;

const ROOT: &str = "198.41.0.4";
const COM: &str = "192.0.2.10";
const EXAMPLE: &str = "192.0.2.20";
const OTHER: &str = "192.0.2.30";

/// Parts of a response: `AA` or nothing, answer, authority, additional.
struct Said<'a>(u16, [&'a [&'a str]; 3]);

const AA: u16 = Flags::AA;

fn record(text: &str) -> Record {
    nodens_zone::presentation::record(text).unwrap()
}

fn message(question: &str, said: &Said<'_>, rcode: Rcode) -> Vec<u8> {
    let (name, qtype) = question.split_once(' ').unwrap();
    let [answer, authority, additional] =
        said.1.map(|records| records.iter().map(|text| record(text)).collect());
    let message = Message {
        id: 1,
        flags: Flags(Flags::QR | said.0).with_rcode(rcode),
        questions: vec![Question {
            qname: Name::parse(name).unwrap(),
            qtype: qtype.parse().unwrap(),
            qclass: Class::IN,
        }],
        answer,
        authority,
        additional,
    };
    let mut octets = Vec::new();
    message.write(&mut octets).unwrap();
    octets
}

#[derive(Default)]
struct Walk {
    trace: Trace,
    time: u64,
}

impl Walk {
    fn octets(&mut self, server: &str, octets: Vec<u8>) {
        self.time += 1;
        let recorded = Recorded {
            number: self.time,
            time: self.time,
            client: "192.0.2.1:4000".parse().unwrap(),
            server: (server.parse::<IpAddr>().unwrap(), 53).into(),
            carrier: Carrier::Udp,
            content: Content::Response(octets),
        };
        self.trace.push(&recorded).unwrap();
    }

    fn says(&mut self, server: &str, question: &str, said: Said<'_>) -> &mut Self {
        self.octets(server, message(question, &said, Rcode::NOERROR));
        self
    }

    fn denies(&mut self, server: &str, question: &str, said: Said<'_>) -> &mut Self {
        self.octets(server, message(question, &said, Rcode::NXDOMAIN));
        self
    }

    /// Root, com and example.com, from the top.
    fn down(&mut self) -> &mut Self {
        let root = ["a.root. A 198.41.0.4"];
        self.says(ROOT, ". NS", Said(AA, [&[". NS a.root."], &[], &root]));
        let delegation = ["com. NS ns.com."];
        self.says(ROOT, "com. A", Said(0, [&[], &delegation, &["ns.com. A 192.0.2.10"]]));
        let delegation = ["example.com. NS ns.example.com."];
        let glue = ["ns.example.com. A 192.0.2.20"];
        self.says(COM, "www.example.com. A", Said(0, [&[], &delegation, &glue]));
        let soa = ["com. SOA ns.com. host.com. 7 1 1 1 60"];
        self.denies(COM, "nothing.com. A", Said(AA, [&[], &soa, &[]]));
        self.says(
            EXAMPLE,
            "www.example.com. A",
            Said(AA, [&["www.example.com. A 10.0.0.1"], &[], &[]]),
        )
    }

    fn rebuilt(&self) -> Rebuilt {
        rebuild(&self.trace, Rule::MostCommon)
    }
}

fn zone<'r>(rebuilt: &'r Rebuilt, name: &str) -> &'r Zone {
    &rebuilt.zones[&Name::parse(name).unwrap()]
}

/// The RDATA of a zone's records as text.
fn texts(rebuilt: &Rebuilt, of: &str, owner: &str, rtype: Type) -> Vec<String> {
    let rrset = zone(rebuilt, of).get(&Name::parse(owner).unwrap(), rtype);
    rrset
        .map(|rrset| rrset.rdata.iter().map(|rdata| text::rdata(rtype, rdata)).collect())
        .unwrap_or_default()
}

fn whats(notes: &[notes::Note]) -> Vec<String> {
    notes.iter().map(|note| format!("{}: {}", note.zone, note.what)).collect()
}

/// Every zone has SOA and NS records, is delegated by the one above, reads as a master file, and each server of a zone
/// has an address or was never known.
fn assert_whole(rebuilt: &Rebuilt) {
    for zone in rebuilt.zones.values() {
        let origin = zone.name.view();
        assert!(zone.get(&zone.name, Type::SOA).is_some(), "{}", zone.name);
        assert!(zone.get(&zone.name, Type::NS).is_some(), "{}", zone.name);
        let text = text::master(zone);
        let source = Box::new(std::io::Cursor::new(text.clone().into_bytes()));
        let mut master = Master::new(source, "db", origin, Box::new(NoIncludes));
        let mut count = 0;
        while let Some(record) =
            master.next_record().unwrap_or_else(|error| panic!("{error}\n{text}"))
        {
            let rrset = zone.get(&record.owner.to_name(), record.rtype);
            let known = rrset.is_some_and(|rrset| rrset.rdata.contains(record.rdata));
            assert!(known || record.rtype == Type::RRSIG, "{text}");
            count += 1;
        }
        assert_eq!(count, zone.count());
        if !zone.name.view().is_root() {
            let above: Vec<_> = rebuilt
                .zones
                .values()
                .filter(|other| other.name != zone.name && origin.is_in_domain(other.name.view()))
                .collect();
            let parent = above.iter().max_by_key(|other| other.name.view().label_count()).unwrap();
            assert!(parent.get(&zone.name, Type::NS).is_some(), "{}", zone.name);
        }
    }
}

#[test]
fn a_walk_from_the_root_gives_every_zone_with_its_servers_and_answers() {
    let mut walk = Walk::default();
    let rebuilt = walk.down().rebuilt();
    assert_whole(&rebuilt);
    let names: Vec<_> = rebuilt.zones.keys().map(ToString::to_string).collect();
    assert_eq!(names, [".", "com.", "example.com."]);
    let servers =
        |name| zone(&rebuilt, name).servers.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!([servers("."), servers("com"), servers("example.com")], [[ROOT], [COM], [EXAMPLE]]);
    assert_eq!(texts(&rebuilt, "example.com", "www.example.com", Type::A), ["10.0.0.1"]);
    assert_eq!(texts(&rebuilt, "com", "ns.example.com", Type::A), [EXAMPLE]);
    assert!(texts(&rebuilt, "com", "www.example.com", Type::A).is_empty());
    assert_eq!((rebuilt.check.same, rebuilt.check.questions), (5, 5), "{:?}", rebuilt.check);
    assert_eq!(
        whats(&rebuilt.notes.filled),
        [
            ".: the SOA record, with serial 1",
            "com.: A of the server ns.com.",
            "com.: NS records, those of its delegation",
            "example.com.: A of the server ns.example.com.",
            "example.com.: NS records, those of its delegation",
            "example.com.: the SOA record, with serial 1",
        ]
    );
}

#[test]
fn one_corefile_serves_all_zones_by_the_address_that_was_asked() {
    let mut walk = Walk::default();
    let rebuilt = walk.down().rebuilt();
    let files = |apart| output::files(&rebuilt.zones, apart, 53);
    let named = |apart, name: &str| files(apart).into_iter().find(|file| file.0 == name).unwrap().1;
    assert_eq!(
        named(Apart::View, "Corefile"),
        "# Start the server in this folder.\n\
         \n.:53 {\n    view v0 {\n        expr server_ip() in ['198.41.0.4']\n    }\n    file zones/db.root {\n        reload 0\n    }\n}\n\
         \ncom:53 {\n    view v1 {\n        expr server_ip() in ['192.0.2.10']\n    }\n    file zones/db.com {\n        reload 0\n    }\n}\n\
         \nexample.com:53 {\n    view v2 {\n        expr server_ip() in ['192.0.2.20']\n    }\n    file zones/db.example.com {\n        reload 0\n    }\n}\n"
    );
    assert!(
        named(Apart::Bind, "Corefile")
            .contains("\nexample.com:53 {\n    bind 192.0.2.20\n    file")
    );
    assert_eq!(
        named(Apart::View, "root.hints"),
        ".\t3600\tNS\ta.root.\na.root.\t3600\tA\t198.41.0.4\n"
    );
    assert_eq!(
        named(Apart::View, "addresses"),
        "address add 192.0.2.10/32 dev lo\naddress add 192.0.2.20/32 dev lo\naddress add 198.41.0.4/32 dev lo\n"
    );
}

#[test]
fn names_of_files_are_distinct_and_stay_in_the_folder() {
    let file = |name: &str| output::file_name(&Name::parse(name).unwrap());
    assert_eq!(file("."), "zones/db.root");
    assert_eq!(file("root"), "zones/db.%72oot");
    assert_eq!(file("0/25.2.0.192.in-addr.arpa"), "zones/db.0%2f25.2.0.192.in-addr.arpa");
    assert!(!file("a\\/\\.\\.\\/b.example").contains("/.."));
    let long = format!("{0}.{0}.{0}.example", "\\000".repeat(40));
    assert!(file(&long).len() < 240, "{}", file(&long));
}

#[test]
fn a_recording_without_root_and_delegations_gets_them() {
    let mut walk = Walk::default();
    walk.says(
        EXAMPLE,
        "www.example.com. A",
        Said(AA, [&["www.example.com. A 10.0.0.1"], &[], &[]]),
    );
    let soa = ["other.org. SOA ns.other.org. host.other.org. 7 1 1 1 60"];
    walk.denies(OTHER, "no.other.org. A", Said(AA, [&[], &soa, &[]]));
    let rebuilt = walk.rebuilt();
    assert_whole(&rebuilt);
    let names: Vec<_> = rebuilt.zones.keys().map(ToString::to_string).collect();
    assert_eq!(names, [".", "example.com.", "other.org."]);
    assert_eq!(texts(&rebuilt, ".", ".", Type::NS), ["a.root-servers.net."]);
    assert_eq!(texts(&rebuilt, ".", "a.root-servers.net", Type::A), [ROOT]);
    assert_eq!(texts(&rebuilt, ".", "example.com", Type::NS), ["ns-filled-in.example.com."]);
    assert_eq!(texts(&rebuilt, ".", "ns-filled-in.example.com", Type::A), [EXAMPLE]);
    assert_eq!(texts(&rebuilt, "example.com", "ns-filled-in.example.com", Type::A), [EXAMPLE]);
    let filled = whats(&rebuilt.notes.filled);
    let said = |what: &str| assert!(filled.iter().any(|line| line == what), "{what}: {filled:#?}");
    said(".: the delegation of example.com., as the zones between were not recorded");
    said(
        "example.com.: the zone itself: 192.0.2.20 answered for names in it, and no record names their zone",
    );
    said("other.org.: NS records, invented");
    assert_eq!((rebuilt.check.same, rebuilt.check.questions), (2, 2));
}

#[test]
fn of_several_versions_the_rule_takes_one_and_the_report_says_so() {
    let mut walk = Walk::default();
    walk.down();
    for address in ["10.0.0.2", "10.0.0.2", "10.0.0.3"] {
        let answer = format!("www.example.com. A {address}");
        walk.says(EXAMPLE, "www.example.com. A", Said(AA, [&[&answer], &[], &[]]));
    }
    for (rule, taken) in
        [(Rule::MostCommon, "10.0.0.2"), (Rule::First, "10.0.0.1"), (Rule::Last, "10.0.0.3")]
    {
        let rebuilt = rebuild(&walk.trace, rule);
        assert_eq!(texts(&rebuilt, "example.com", "www.example.com", Type::A), [taken], "{rule:?}");
        let [conflict] = &*rebuilt.notes.conflicts else { panic!("{:?}", rebuilt.notes) };
        assert_eq!((conflict.versions, conflict.responses), (3, 4));
    }
    // The records of an answer may come in any order, and letters in any case.
    let mut walk = Walk::default();
    walk.down();
    for answer in [
        ["a.example.com. MX 1 m.x.", "a.example.com. MX 2 n.x."],
        ["A.example.com. MX 2 N.x.", "a.example.COM. MX 1 m.X."],
    ] {
        walk.says(EXAMPLE, "a.example.com. MX", Said(AA, [&answer, &[], &[]]));
    }
    assert!(walk.rebuilt().notes.conflicts.is_empty());
}

#[test]
fn what_a_server_says_of_zones_that_it_does_not_serve_is_left_out() {
    let mut walk = Walk::default();
    walk.down();
    let delegation = ["other.com. NS ns.other.com."];
    walk.says(
        COM,
        "www.other.com. A",
        Said(0, [&[], &delegation, &["ns.other.com. A 192.0.2.30"]]),
    );
    walk.says(OTHER, "www.other.com. A", Said(AA, [&["www.other.com. A 10.9.9.9"], &[], &[]]));
    let answer = ["alias.example.com. CNAME www.other.com.", "www.other.com. A 10.6.6.6"];
    let beside = ["ns.other.com. A 10.6.6.6"];
    walk.says(EXAMPLE, "alias.example.com. A", Said(AA, [&answer, &[], &beside]));
    let rebuilt = walk.rebuilt();
    assert_eq!(texts(&rebuilt, "other.com", "www.other.com", Type::A), ["10.9.9.9"]);
    assert_eq!(rebuilt.foreign, 2);
    assert!(rebuilt.notes.conflicts.is_empty());
    assert!(zone(&rebuilt, "other.com").servers.contains(&OTHER.parse().unwrap()));
    assert!(!zone(&rebuilt, "other.com").servers.contains(&EXAMPLE.parse().unwrap()));
}

#[test]
fn referrals_of_servers_that_should_have_the_zone_are_left_out() {
    let mut walk = Walk::default();
    walk.down();
    walk.says(EXAMPLE, "www.example.com. A", Said(0, [&[], &["com. NS wrong.test."], &[]]));
    walk.says(EXAMPLE, "www.example.com. A", Said(0, [&[], &[". NS wrong.test."], &[]]));
    walk.says(EXAMPLE, "www.example.com. A", Said(0, [&[], &["example.net. NS wrong.test."], &[]]));
    walk.says(
        EXAMPLE,
        "www.example.com. AAAA",
        Said(0, [&["www.example.com. AAAA ::1"], &[], &[]]),
    );
    let rebuilt = walk.rebuilt();
    assert_eq!(rebuilt.left_out.get(&LeftOut::WrongReferral), Some(&3));
    assert_eq!(rebuilt.left_out.get(&LeftOut::NotAuthoritative), Some(&1));
    assert_eq!(texts(&rebuilt, ".", "com", Type::NS), ["ns.com."]);
    assert!(!zone(&rebuilt, ".").servers.contains(&EXAMPLE.parse().unwrap()));
    assert_eq!(rebuilt.zones.len(), 3);
}

#[test]
fn what_a_resolver_answers_to_its_clients_is_left_out_also_what_it_has_authority_for() {
    const RESOLVER: &str = "127.0.0.1";
    let mut walk = Walk::default();
    walk.down();
    let local = ["localhost. A 127.0.0.1"];
    walk.says(RESOLVER, "localhost. A", Said(AA | Flags::RA, [&local, &[], &[]]));
    let answer = ["www.example.com. A 10.0.0.1"];
    walk.says(RESOLVER, "www.example.com. A", Said(Flags::RA, [&answer, &[], &[]]));
    // A server that has zones and would also ask others.
    walk.says(
        EXAMPLE,
        "b.example.com. A",
        Said(AA | Flags::RA, [&["b.example.com. A 10.0.0.2"], &[], &[]]),
    );
    let rebuilt = walk.rebuilt();
    assert_eq!(rebuilt.left_out.get(&LeftOut::Resolver), Some(&2));
    assert_eq!(rebuilt.zones.len(), 3);
    assert_eq!(texts(&rebuilt, "example.com", "b.example.com", Type::A), ["10.0.0.2"]);
}

#[test]
fn an_alias_has_no_other_data_and_an_apex_is_no_alias() {
    let mut walk = Walk::default();
    walk.down();
    let alias = ["x.example.com. CNAME y.example.com."];
    walk.says(EXAMPLE, "x.example.com. A", Said(AA, [&alias, &[], &[]]));
    walk.says(EXAMPLE, "x.example.com. MX", Said(AA, [&alias, &[], &[]]));
    walk.says(EXAMPLE, "x.example.com. TXT", Said(AA, [&["x.example.com. TXT before"], &[], &[]]));
    walk.says(
        EXAMPLE,
        "example.com. A",
        Said(AA, [&["example.com. CNAME y.example.com."], &[], &[]]),
    );
    let rebuilt = walk.rebuilt();
    assert_whole(&rebuilt);
    assert_eq!(texts(&rebuilt, "example.com", "x.example.com", Type::CNAME), ["y.example.com."]);
    assert!(texts(&rebuilt, "example.com", "x.example.com", Type::TXT).is_empty());
    assert_eq!(
        whats(&rebuilt.notes.dropped),
        [
            "example.com.: CNAME of example.com., which has SOA and NS as well",
            "example.com.: TXT of x.example.com., which is an alias as well",
        ]
    );
    let differing: Vec<_> = rebuilt
        .check
        .differing
        .iter()
        .map(|d| format!("{} {}: {} / {}", d.name, d.rtype, d.recorded, d.rebuilt))
        .collect();
    assert_eq!(
        differing,
        [
            "example.com. A: CNAME y.example.com. / NODATA",
            "x.example.com. TXT: TXT \"before\" / CNAME y.example.com.",
        ]
    );
}

#[test]
fn aliases_that_a_dname_makes_are_no_records() {
    let mut walk = Walk::default();
    walk.down();
    let answer = [
        "old.example.com. DNAME new.example.com.",
        "a.old.example.com. CNAME a.new.example.com.",
        "a.new.example.com. A 10.0.0.9",
    ];
    walk.says(EXAMPLE, "a.old.example.com. A", Said(AA, [&answer, &[], &[]]));
    let rebuilt = walk.rebuilt();
    assert_eq!(
        texts(&rebuilt, "example.com", "old.example.com", Type::DNAME),
        ["new.example.com."]
    );
    assert!(texts(&rebuilt, "example.com", "a.old.example.com", Type::CNAME).is_empty());
    assert_eq!(texts(&rebuilt, "example.com", "a.new.example.com", Type::A), ["10.0.0.9"]);
    assert!(rebuilt.check.differing.is_empty(), "{:?}", rebuilt.check);
}

#[test]
fn names_that_were_denied_do_not_exist_and_contradictions_are_named() {
    let mut walk = Walk::default();
    walk.down();
    let soa = ["example.com. SOA ns.example.com. host.example.com. 7 1 1 1 60"];
    walk.denies(EXAMPLE, "no.example.com. A", Said(AA, [&[], &soa, &[]]));
    walk.denies(EXAMPLE, "above.example.com. A", Said(AA, [&[], &soa, &[]]));
    walk.says(
        EXAMPLE,
        "b.above.example.com. A",
        Said(AA, [&["b.above.example.com. A 10.0.0.1"], &[], &[]]),
    );
    walk.says(EXAMPLE, "www.example.com. MX", Said(AA, [&[], &soa, &[]]));
    let rebuilt = walk.rebuilt();
    assert_eq!(
        whats(&rebuilt.notes.contradictions),
        ["example.com.: above.example.com. was denied 1 times, and has names below it"]
    );
    let [differing] = &*rebuilt.check.differing else { panic!("{:?}", rebuilt.check) };
    assert_eq!([&*differing.recorded, &*differing.rebuilt], ["NXDOMAIN", "NODATA"]);
    assert_eq!(texts(&rebuilt, "example.com", "example.com", Type::SOA).len(), 1);
}

#[test]
fn a_name_of_which_only_nodata_was_recorded_exists() {
    let mut walk = Walk::default();
    walk.down();
    let soa = ["example.com. SOA ns.example.com. host.example.com. 7 1 1 1 60"];
    for question in
        ["v4only.example.com. AAAA", "between.example.com. NS", "a.between.example.com. A"]
    {
        walk.says(EXAMPLE, question, Said(AA, [&[], &soa, &[]]));
    }
    // Denied as well: it stays denied.
    walk.says(EXAMPLE, "gone.example.com. A", Said(AA, [&[], &soa, &[]]));
    walk.denies(EXAMPLE, "gone.example.com. AAAA", Said(AA, [&[], &soa, &[]]));
    walk.says(EXAMPLE, "*.example.com. A", Said(AA, [&[], &soa, &[]]));
    walk.denies(EXAMPLE, "no.example.com. A", Said(AA, [&[], &soa, &[]]));
    let rebuilt = walk.rebuilt();
    assert_whole(&rebuilt);
    let differing: Vec<_> = rebuilt.check.differing.iter().map(|one| &*one.name).collect();
    assert_eq!(differing, ["*.example.com.", "gone.example.com."]);
    let filled: Vec<_> = whats(&rebuilt.notes.filled)
        .into_iter()
        .filter(|what| what.contains("filled-in."))
        .collect();
    assert_eq!(
        filled,
        [
            "example.com.: filled-in.a.between.example.com., so that a.between.example.com. exists, which had no records",
            "example.com.: filled-in.v4only.example.com., so that v4only.example.com. exists, which had no records",
        ]
    );
    let below = texts(&rebuilt, "example.com", "filled-in.v4only.example.com", Type::TXT);
    assert_eq!(below, ["\"filled in\""]);
}

#[test]
fn a_signature_with_fewer_labels_shows_a_wildcard() {
    let mut walk = Walk::default();
    walk.down();
    let rrsig = |owner: &str, labels: u8, expires: &str| {
        format!("{owner} RRSIG A 13 {labels} 300 {expires} 20260101000000 7 example.com. AAAA")
    };
    for name in ["one.w.example.com.", "two.w.example.com."] {
        let answer = format!("{name} A 10.0.0.7");
        let signature = rrsig(name, 3, "20260201000000");
        walk.says(EXAMPLE, &format!("{name} A"), Said(AA, [&[&answer, &signature], &[], &[]]));
    }
    for expires in ["20260203000000", "20260202000000"] {
        let signature = rrsig("www.example.com.", 3, expires);
        walk.says(
            EXAMPLE,
            "www.example.com. A",
            Said(AA, [&["www.example.com. A 10.0.0.1", &signature], &[], &[]]),
        );
    }
    let rebuilt = walk.rebuilt();
    assert_whole(&rebuilt);
    assert_eq!(texts(&rebuilt, "example.com", "*.w.example.com", Type::A), ["10.0.0.7"]);
    assert!(texts(&rebuilt, "example.com", "one.w.example.com", Type::A).is_empty());
    assert_eq!(
        whats(&rebuilt.notes.wildcards),
        ["example.com.: *.w.example.com., from which one.w.example.com. two.w.example.com. came"]
    );
    assert!(rebuilt.check.differing.is_empty(), "{:?}", rebuilt.check);
    let www = zone(&rebuilt, "example.com")
        .get(&Name::parse("www.example.com").unwrap(), Type::A)
        .unwrap();
    let signatures: Vec<_> =
        www.signatures.iter().map(|rdata| text::rdata(Type::RRSIG, rdata)).collect();
    assert_eq!(signatures.len(), 1);
    // Seconds since 1970, as RFC 4034 section 3.2 allows: 2026-02-03.
    assert!(signatures[0].contains(" 1770076800 "), "{signatures:?}");
}

#[test]
fn a_zone_whose_servers_never_answered_is_delegated_and_not_served() {
    let mut walk = Walk::default();
    walk.down();
    let delegation = ["dead.com. NS ns.dead.com."];
    walk.says(COM, "www.dead.com. A", Said(0, [&[], &delegation, &["ns.dead.com. A 192.0.2.99"]]));
    let rebuilt = walk.rebuilt();
    assert_eq!(texts(&rebuilt, "com", "dead.com", Type::NS), ["ns.dead.com."]);
    assert_eq!(rebuilt.zones.len(), 3);
    assert!(!output::all_addresses(&rebuilt.zones).contains(&"192.0.2.99".parse().unwrap()));
    assert!(rebuilt.check.differing.is_empty(), "{:?}", rebuilt.check);
}

#[test]
fn only_what_the_named_resolver_was_answered_counts_and_failures_are_kept() {
    let octets = message(
        "www.example.com. A",
        &Said(AA, [&["www.example.com. A 10.0.0.1"], &[], &[]]),
        Rcode::NOERROR,
    );
    let mut walk = Walk { trace: Trace::new(&["192.0.2.77".parse().unwrap()]), time: 0 };
    walk.octets(EXAMPLE, octets);
    assert_eq!((walk.trace.responses(), walk.rebuilt().others), (0, 1));
    let mut walk = Walk::default();
    let refused = message("www.example.com. A", &Said(0, [&[], &[], &[]]), Rcode::REFUSED);
    walk.octets(EXAMPLE, refused);
    let cut = message("www.example.com. A", &Said(AA | Flags::TC, [&[], &[], &[]]), Rcode::NOERROR);
    walk.octets(EXAMPLE, cut);
    let rebuilt = walk.rebuilt();
    assert_eq!(rebuilt.left_out.get(&LeftOut::Failed(Rcode::REFUSED)), Some(&1));
    assert_eq!(rebuilt.left_out.get(&LeftOut::Truncated), Some(&1));
    assert_eq!((rebuilt.distinct, rebuilt.failures.len()), (0, 1));
}

/// Names below a few zones, so that zones, hosts and owners meet.
fn some_name() -> impl Strategy<Value = String> {
    let label = prop_oneof![Just("a"), Just("b"), Just("*"), Just("ns")];
    prop::collection::vec(label, 0..4).prop_map(|labels| {
        labels.iter().map(|label| format!("{label}.")).collect::<String>() + "com."
    })
}

fn some_record() -> impl Strategy<Value = String> {
    (some_name(), some_name(), 0_u8..8, 0_u8..3).prop_map(|(owner, other, kind, number)| match kind
    {
        0 | 1 => format!("{owner} A 192.0.2.{number}"),
        2 => format!("{owner} NS {other}"),
        3 => format!("{owner} CNAME {other}"),
        4 => format!("{owner} SOA {other} {other} {number} 1 1 1 1"),
        5 => format!("{owner} DNAME {other}"),
        6 => format!("{owner} DS 1 13 2 00"),
        _ => {
            format!("{owner} RRSIG A 13 {number} 300 20260201000000 20260101000000 7 {other} AAAA")
        }
    })
}

type SomeResponse = (String, u8, bool, bool, [Vec<String>; 3]);

fn some_response() -> impl Strategy<Value = SomeResponse> {
    let section = || prop::collection::vec(some_record(), 0..4);
    (some_name(), 0_u8..4, any::<bool>(), any::<bool>(), [section(), section(), section()])
}

proptest! {
    /// However servers contradict each other, what is written is a hierarchy of whole zones.
    #[test]
    fn whatever_servers_say_the_zones_are_whole(
        responses in prop::collection::vec(some_response(), 1..12), last: bool,
    ) {
        let mut walk = Walk::default();
        for (name, server, is_denial, is_authoritative, sections) in &responses {
            let sections: [Vec<&str>; 3] = [0, 1, 2].map(|at: usize| sections[at].iter().map(String::as_str).collect());
            let flags = if *is_authoritative { AA } else { 0 };
            let said = Said(flags, [&sections[0], &sections[1], &sections[2]]);
            let server = format!("192.0.2.{server}");
            let question = format!("{name} A");
            if *is_denial { walk.denies(&server, &question, said) } else { walk.says(&server, &question, said) };
        }
        let rebuilt = rebuild(&walk.trace, if last { Rule::Last } else { Rule::MostCommon });
        assert_whole(&rebuilt);
        let files = output::files(&rebuilt.zones, Apart::View, 53);
        let names: std::collections::BTreeSet<_> = files.iter().map(|file| &file.0).collect();
        prop_assert_eq!(names.len(), files.len());
    }

    #[test]
    fn any_octets_are_responses_or_left_out(octets: Vec<u8>, head in prop::collection::vec(any::<u8>(), 12..13)) {
        let mut walk = Walk::default();
        walk.octets(ROOT, octets.clone());
        walk.octets(ROOT, [&[0, 1, 0x84, 0, 0, 1, 0, 1, 0, 1, 0, 1][..], &octets].concat());
        walk.octets(ROOT, [head, octets].concat());
        assert_whole(&walk.rebuilt());
    }
}

#[test]
fn the_schema_in_the_documentation_is_that_of_the_report() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/zones.schema.json");
    let text = format!("{:#}\n", report::json_schema().as_value());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(kept == text, "{path} is not what the code makes; UPDATE_GOLDEN=1 rewrites it");
}
