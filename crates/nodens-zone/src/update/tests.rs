use super::types::{is_derived, is_known, is_meta, may_be_allowed};
use super::*;
use crate::data::Edit;
use crate::presentation;
use nodens_wire::{Builder, Class, Flags, Name, Opcode, Record, Section, Type};

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// A record whose owner lies in `z.`, in presentation format; without RDATA, one that has none.
fn record(text: &str) -> Record {
    let mut words = text.splitn(5, ' ');
    let [owner, ttl, class, rtype] = [(); 4].map(|()| words.next().unwrap());
    let owner = match owner.strip_suffix('.') {
        Some(_) => owner.to_owned(),
        None if owner == "@" => "z.".to_owned(),
        None => format!("{owner}.z."),
    };
    let class: Class = class.parse().unwrap();
    let rtype: Type = rtype.parse().unwrap();
    let rdata = words
        .next()
        .map(|rdata| presentation::record(&format!("{owner} 1 IN {rtype} {rdata}")).unwrap().rdata);
    let (owner, ttl) = (name(&owner), ttl.parse().unwrap());
    Record { owner, rtype, class, ttl, rdata: rdata.unwrap_or_default() }
}

const ZONE: [&str; 6] = [
    "@ 60 IN SOA ns.z. admin.z. 10 60 60 60 60",
    "@ 60 IN NS ns.z.",
    "ns 60 IN A 192.0.2.53",
    "www 60 IN A 192.0.2.1",
    "two 60 IN TXT one",
    "alias 60 IN CNAME www.z.",
];

fn zone(more: &[&str]) -> Data {
    let mut edit = Edit::new(name("z.").view(), Class::IN);
    for line in ZONE.iter().chain(more) {
        edit.add((&record(line)).into()).unwrap();
    }
    edit.finish().unwrap()
}

/// All records as text, the serial number in front.
fn text(data: &Data) -> Vec<String> {
    let (mut records, mut lines) = (data.cursor(), vec![data.soa().serial().0.to_string()]);
    loop {
        match records.advance() {
            crate::Advance::End => return lines,
            crate::Advance::Nothing => continue,
            crate::Advance::Record => {}
        }
        let found = records.record().unwrap();
        let record = Record {
            owner: found.owner.to_name(),
            rtype: found.rtype,
            class: found.class,
            ttl: found.ttl,
            rdata: found.rdata.to_vec(),
        };
        lines.push(format!("{} {} {} {:?}", record.owner, record.ttl, record.rtype, record.rdata));
    }
}

fn message(prerequisites: &[&str], updates: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut builder = Builder::new(&mut out, 7, Flags(0).with_opcode(Opcode::UPDATE));
    builder.question(name("z.").view(), Type::SOA, Class::IN);
    for (section, lines) in [(Section::Answer, prerequisites), (Section::Authority, updates)] {
        for line in lines {
            builder.push(section, &record(line)).unwrap();
        }
    }
    out
}

fn policy() -> Policy {
    Policy {
        permissions: vec![Permission { key: name("key."), owner: None, types: None }],
        records_max: 100,
        octets_max: 10_000,
        update_records_max: 50,
    }
}

fn ask(data: &Data, policy: &Policy, prerequisites: &[&str], updates: &[&str]) -> Verdict {
    let message = message(prerequisites, updates);
    let verdict = update((data, size(data)), policy, name("key.").view(), &message);
    if let Some(next) = &verdict.next {
        assert_eq!(next.size, size(&next.data), "{updates:?}");
    }
    verdict
}

/// What an update makes of the zone, if it changes anything.
fn after(more: &[&str], updates: &[&str]) -> Option<Vec<String>> {
    let verdict = ask(&zone(more), &policy(), &[], updates);
    assert_eq!((verdict.rcode, verdict.reason), (Rcode::NOERROR, None), "{updates:?}");
    verdict.next.map(|next| text(&next.data))
}

#[test]
fn each_kind_of_change_does_what_the_rfc_says() {
    let www = "www 60 IN A 192.0.2.1";
    for (updates, without, with) in [
        (vec!["new 60 IN TXT x"], vec![], vec!["new 60 IN TXT x"]),
        (vec!["www 60 IN A 192.0.2.2"], vec![], vec!["www 60 IN A 192.0.2.2"]),
        (vec!["WWW 0 NONE A 192.0.2.1"], vec![www], vec![]),
        (vec!["www 0 ANY A"], vec![www], vec![]),
        (vec!["www 0 ANY ANY"], vec![www], vec![]),
        // One TTL for all records of an RRset.
        (
            vec!["www 99 IN A 192.0.2.2"],
            vec![www],
            vec!["www 99 IN A 192.0.2.1", "www 99 IN A 192.0.2.2"],
        ),
        (vec!["www 99 IN A 192.0.2.1"], vec![www], vec!["www 99 IN A 192.0.2.1"]),
        // In their order.
        (vec!["www 0 ANY ANY", "www 5 IN CNAME ns.z."], vec![www], vec!["www 5 IN CNAME ns.z."]),
        (vec!["new 60 IN A 192.0.2.3", "new 0 ANY ANY"], vec![], vec![]),
        // Another alias takes the place of the one that is there.
        (
            vec!["alias 60 IN CNAME ns.z."],
            vec!["alias 60 IN CNAME www.z."],
            vec!["alias 60 IN CNAME ns.z."],
        ),
        // Nor does a name have two DNAME records.
        (
            vec!["tree 60 IN DNAME a.z.", "tree 60 IN DNAME b.z."],
            vec![],
            vec!["tree 60 IN DNAME b.z."],
        ),
        // Types that are not known here (RFC 3597), and one that is obsolete.
        (
            vec!["new 60 IN TYPE65280 \\# 2 0102", "new 60 IN TYPE11 \\# 5 c000020106"],
            vec![],
            vec!["new 60 IN TYPE65280 \\# 2 0102", "new 60 IN TYPE11 \\# 5 c000020106"],
        ),
        (
            vec![
                "new 60 IN TYPE65280 \\# 1 01",
                "www 60 IN TXT x",
                "new 0 NONE TYPE65280 \\# 1 01",
            ],
            vec![],
            vec!["www 60 IN TXT x"],
        ),
        // SOA and NS records of the origin stay, the last NS record always.
        (vec!["@ 60 IN TXT x", "@ 0 ANY ANY", "@ 0 ANY NS", "@ 0 ANY SOA"], vec![], vec![]),
        (
            vec!["@ 60 IN NS www.z.", "@ 0 NONE NS ns.z.", "@ 0 NONE NS www.z."],
            vec!["@ 60 IN NS ns.z."],
            vec!["@ 60 IN NS www.z."],
        ),
    ] {
        let mut edit = zone(&[]).edit();
        without.iter().for_each(|line| assert!(edit.remove((&record(line)).into())));
        with.iter().for_each(|line| _ = edit.add((&record(line)).into()).unwrap());
        let mut wanted = text(&edit.finish().unwrap());
        wanted[0] = "11".to_owned();
        assert_eq!(after(&[], &updates), Some(wanted), "{updates:?}");
    }
}

#[test]
fn what_breaks_a_rule_of_zones_changes_nothing() {
    for update in [
        "www 60 IN A 192.0.2.1",
        "www 5 IN CNAME ns.z.",
        "alias 60 IN A 192.0.2.9",
        "alias 60 IN CNAME WWW.z.",
        "alias 60 IN DNAME x.z.",
        "tree 60 IN DNAME WWW.z.",
        "tree 60 IN CNAME www.z.",
        "@ 0 NONE SOA ns.z. admin.z. 10 60 60 60 60",
        "@ 0 NONE NS ns.z.",
        "@ 0 ANY NS",
        "none 0 ANY ANY",
        "none 0 NONE A 192.0.2.1",
        "www 0 NONE A 192.0.2.9",
        // Not later, or neither later nor earlier.
        "@ 60 IN SOA ns.z. admin.z. 10 1 1 1 1",
        "@ 60 IN SOA ns.z. admin.z. 9 1 1 1 1",
        "@ 60 IN SOA ns.z. admin.z. 2147483658 1 1 1 1",
    ] {
        let before = ["tree 60 IN DNAME www.z."];
        assert_eq!(after(&before, &[update]), None, "{update}");
    }
}

#[test]
fn the_serial_number_goes_up_with_each_change_and_is_never_0() {
    assert_eq!(after(&[], &["x 1 IN TXT x"]).unwrap()[0], "11");
    let brought = "@ 60 IN SOA ns.z. admin.z. 4294967295 60 60 60 60";
    let half = "@ 60 IN SOA ns.z. admin.z. 2000000000 60 60 60 60";
    // The number that the update brings counts, and no other.
    assert_eq!(after(&[], &[half, "x 1 IN TXT x"]).unwrap()[0], "2000000000");
    let before = "@ 60 IN SOA ns.z. admin.z. 4294967290 60 60 60 60";
    assert_eq!(after(&[before], &["x 1 IN TXT x", brought]).unwrap()[0], "4294967295");
    assert_eq!(after(&[brought], &["x 1 IN TXT x"]).unwrap()[0], "1");
    // Two that would lead back together: the second one does not count.
    let far = "@ 60 IN SOA ns.z. admin.z. 3000000000 60 60 60 60";
    assert_eq!(after(&[], &[half, far]).unwrap()[0], "2000000000");
    // A number after the wrap is a later one.
    let wrapped = "@ 60 IN SOA ns.z. admin.z. 5 60 60 60 60";
    assert_eq!(after(&[brought], &[wrapped]).unwrap()[0], "5");
}

#[test]
fn prerequisites_have_to_hold() {
    let many: Vec<String> = (0..51).map(|n| format!("n{n} 0 NONE ANY")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for (prerequisites, rcode) in [
        (vec!["www 0 ANY ANY"], Rcode::NOERROR),
        (vec!["none 0 ANY ANY"], Rcode::NXDOMAIN),
        (vec!["none 0 NONE ANY"], Rcode::NOERROR),
        (vec!["www 0 NONE ANY"], Rcode::YXDOMAIN),
        (vec!["WWW 0 ANY A"], Rcode::NOERROR),
        (vec!["www 0 ANY AAAA"], Rcode::NXRRSET),
        (vec!["www 0 NONE AAAA"], Rcode::NOERROR),
        (vec!["www 0 NONE A"], Rcode::YXRRSET),
        (vec!["www 0 IN A 192.0.2.1"], Rcode::NOERROR),
        (vec!["www 0 IN A 192.0.2.1", "www 0 IN A 192.0.2.1"], Rcode::NOERROR),
        (vec!["www 0 IN A 192.0.2.1", "WWW 0 IN A 192.0.2.2"], Rcode::NXRRSET),
        (vec!["www 0 IN A 192.0.2.9"], Rcode::NXRRSET),
        (vec!["none 0 IN A 192.0.2.1"], Rcode::NXRRSET),
        (vec!["@ 0 IN NS NS.z."], Rcode::NOERROR),
        // The values come after everything else.
        (vec!["www 0 IN A 192.0.2.9", "www 0 NONE ANY"], Rcode::YXDOMAIN),
        (vec!["www 1 ANY ANY"], Rcode::FORMERR),
        (vec!["www.x. 0 ANY ANY"], Rcode::NOTZONE),
        (vec!["www 0 ANY DS"], Rcode::NOTIMP),
        (vec!["www 0 ANY A 192.0.2.1"], Rcode::FORMERR),
        (vec!["www 0 NONE A 192.0.2.1"], Rcode::FORMERR),
        (vec!["www 0 IN ANY"], Rcode::FORMERR),
        (vec!["www 0 ANY AXFR"], Rcode::FORMERR),
        (vec!["www 0 NONE OPT"], Rcode::FORMERR),
        (vec!["www 0 ANY TYPE200"], Rcode::FORMERR),
        (vec!["www 0 ANY TYPE65280"], Rcode::NXRRSET),
        (vec!["www 0 NONE TYPE65280"], Rcode::NOERROR),
        (vec!["www 0 CH A"], Rcode::FORMERR),
        (many, Rcode::REFUSED),
    ] {
        // What is wrong with the update section comes later.
        let updates = if rcode == Rcode::NOERROR { "new 1 IN TXT x" } else { "new.x. 1 IN TXT x" };
        let verdict = ask(&zone(&[]), &policy(), &prerequisites, &[updates]);
        assert_eq!(verdict.rcode, rcode, "{prerequisites:?}");
        assert_eq!(verdict.next.is_some(), rcode == Rcode::NOERROR);
    }
}

#[test]
fn what_an_update_section_cannot_have_is_refused_and_nothing_is_done() {
    for (update, rcode) in [
        ("www.x. 1 IN A 192.0.2.1", Rcode::NOTZONE),
        ("www 1 IN A", Rcode::FORMERR),
        ("www 1 IN AXFR", Rcode::FORMERR),
        ("www 1 IN ANY", Rcode::FORMERR),
        ("www 1 IN OPT", Rcode::FORMERR),
        ("www 1 IN TXT", Rcode::FORMERR),
        ("www 1 IN MX", Rcode::FORMERR),
        ("www 1 IN TYPE200 \\# 1 00", Rcode::FORMERR),
        ("www 1 IN TYPE65535 \\# 1 00", Rcode::FORMERR),
        ("www 1 IN SOA a. b. 11 1 1 1 1", Rcode::FORMERR),
        ("@ 1 IN SOA a. b. 0 1 1 1 1", Rcode::FORMERR),
        ("@ 1 IN SOA", Rcode::FORMERR),
        ("www 1 IN DS 1 8 2 00", Rcode::NOTIMP),
        ("www 1 ANY A", Rcode::FORMERR),
        ("www 0 ANY A 192.0.2.1", Rcode::FORMERR),
        ("www 0 ANY AXFR", Rcode::FORMERR),
        ("www 1 NONE A 192.0.2.1", Rcode::FORMERR),
        ("www 0 NONE ANY", Rcode::FORMERR),
        ("www 0 NONE DNSKEY", Rcode::NOTIMP),
        ("www 1 CH A 192.0.2.1", Rcode::FORMERR),
    ] {
        let verdict = ask(&zone(&[]), &policy(), &[], &["new 1 IN TXT x", update]);
        assert_eq!((verdict.rcode, verdict.next.is_none()), (rcode, true), "{update}");
    }
}

#[test]
fn names_that_must_not_be_compressed_are_whole() {
    let origin = name("z.");
    // An octet of 0 in front is a name that a pointer may lead to.
    let fine: [(Type, &[u8]); 5] = [
        (Type::SVCB, b"\0\x01\x01a\0"),
        (Type::HTTPS, b"\0\0\x01a\0"),
        (Type::IPSECKEY, b"\0\x03\0\x01a\0"),
        (Type::AMTRELAY, b"\0\x03\x01a\0"),
        (Type::HIP, b"\x01\x02\0\x01hk\x01a\0"),
    ];
    for (rtype, rdata) in fine {
        let record = |rdata: &[u8]| Record {
            owner: name("www.z."),
            rtype,
            class: Class::IN,
            ttl: 60,
            rdata: rdata.to_vec(),
        };
        let check =
            |rdata: &[u8]| changes::check((origin.view(), Kind::Unsigned), &[record(rdata)]);
        assert_eq!(check(rdata), Ok(()), "{rtype}");
        let (front, _) = rdata.split_at(rdata.len() - 3);
        for pointer in [&b"\xc0\0"[..], b"\x01a\xc0\0", b"\xc0\x01"] {
            assert_eq!(
                check(&[front, pointer].concat()),
                Err(Rcode::FORMERR),
                "{rtype} {pointer:?}"
            );
        }
    }
}

#[test]
fn what_is_not_allowed_is_refused() {
    let of = |key: &str, owner: Option<&str>, types: Option<&[Type]>| Permission {
        key: name(key),
        owner: owner.map(name),
        types: types.map(<[Type]>::to_vec),
    };
    let mut policy = policy();
    policy.permissions = vec![
        of("KEY.", Some("www.z."), Some(&[Type::A, Type::TXT])),
        of("key.", Some("gone.z."), Some(&[Type::ANY])),
        of("key.", None, Some(&[Type::PTR])),
        of("other.", None, None),
    ];
    for (update, allowed) in [
        ("www 1 IN A 192.0.2.9", true),
        ("www 0 ANY TXT", true),
        ("www 1 IN AAAA 2001:db8::", false),
        ("www 0 ANY ANY", false),
        ("two 1 IN A 192.0.2.9", false),
        ("gone 0 ANY ANY", true),
        ("gone 1 IN A 192.0.2.9", false),
        ("two 1 IN PTR x.", true),
        // It is looked at before anything else of the update section.
        ("www.x. 1 IN A 192.0.2.9", false),
    ] {
        let verdict = ask(&zone(&[]), &policy, &[], &[update]);
        let rcode = if allowed { Rcode::NOERROR } else { Rcode::REFUSED };
        assert_eq!(verdict.rcode, rcode, "{update}");
    }
    // Who has no permission at all does not see whether prerequisites hold.
    let message = message(&["none 0 ANY ANY"], &[]);
    let data = zone(&[]);
    let verdict = update((&data, size(&data)), &policy, name("stranger.").view(), &message);
    assert_eq!(verdict.rcode, Rcode::REFUSED);
    assert!(!policy.knows(name("stranger.").view()) && policy.knows(name("Other.").view()));
}

#[test]
fn a_zone_does_not_become_too_large() {
    let data = zone(&[]);
    let small = Policy { records_max: data.records() + 1, ..policy() };
    assert_eq!(ask(&data, &small, &[], &["a 1 IN TXT x"]).rcode, Rcode::NOERROR);
    let verdict = ask(&data, &small, &[], &["a 1 IN TXT x", "b 1 IN TXT x"]);
    assert_eq!(verdict.rcode, Rcode::REFUSED);
    assert_eq!(verdict.reason.as_deref(), Some("zone exceeds max_records (7)"));
    let small = Policy { octets_max: size(&data).octets + 10, ..policy() };
    let verdict = ask(&data, &small, &[], &["a 1 IN TXT x"]);
    assert_eq!(verdict.rcode, Rcode::REFUSED);
    assert!(verdict.reason.unwrap().starts_with("zone exceeds max_bytes"));
    // What goes makes room.
    let verdict = ask(&data, &small, &[], &["a 1 IN TXT x", "www 0 ANY ANY"]);
    assert_eq!(verdict.rcode, Rcode::NOERROR);
}

#[test]
fn messages_that_are_cut_or_changed_do_no_harm() {
    let data = zone(&[]);
    let whole = message(&["www 0 ANY ANY"], &["new 1 IN MX 5 a.z.", "b 1 IN TXT x"]);
    let ask = |message: &[u8]| {
        update((&data, size(&data)), &policy(), name("key.").view(), message).rcode
    };
    assert_eq!(ask(&whole), Rcode::NOERROR);
    for len in 0..whole.len() {
        assert_eq!(ask(&whole[..len]), Rcode::FORMERR, "{len}");
    }
    for at in 0..whole.len() {
        for octet in [0, 0x3f, 0xc0, 0xff] {
            let mut changed = whole.clone();
            changed[at] = octet;
            ask(&changed);
        }
    }
}

#[test]
fn types_are_those_of_data_and_the_others_that_coredns_knows() {
    // Of the types of github.com/miekg/dns 1.1.73, `TypeToRR`, those that are none of data.
    let known = [128, 249, 250, 255];
    for number in 0..=u16::MAX {
        let is_data = !matches!(number, 0 | 128..=255 | u16::MAX);
        assert_eq!(is_known(Type(number)), is_data || known.contains(&number), "{number}");
    }
    for kind in [Kind::Unsigned, Kind::Signed] {
        let allowed = |rtype| may_be_allowed(rtype, kind);
        assert!(allowed(Type::ANY) && allowed(Type::DHCID) && is_meta(Type::ANY));
        assert!(!allowed(Type::AXFR) && !allowed(Type::NSEC) && is_derived(Type::DS));
        assert_eq!(allowed(Type::DS), kind == Kind::Signed);
    }
}

#[test]
fn ds_records_stand_where_another_zone_begins_and_nowhere_else() {
    let (key, ds) = ("@ 60 IN DNSKEY 257 3 13 AAAA", "cut 60 IN DS 1 13 2 00");
    let (apex, cut) = ("@ 60 IN DS 1 13 2 00", "cut 60 IN NS ns.z.");
    for (more, updates, is_there) in [
        (vec![], vec![ds], false),
        (vec![], vec![ds, cut], true),
        (vec![cut], vec![ds], true),
        (vec![cut, ds], vec!["cut 0 ANY NS"], false),
        (vec![cut, ds], vec!["cut 0 NONE NS ns.z."], false),
        (vec![cut, ds], vec!["cut 0 ANY NS", "cut 60 IN NS ns.example."], true),
        (vec![cut, ds], vec!["cut 0 ANY ANY"], false),
        (vec![cut], vec![apex], false),
        (vec![cut, ds], vec!["www 60 IN A 192.0.2.9"], true),
    ] {
        let more = [&[key], more.as_slice()].concat();
        let found = after(&more, &updates).unwrap();
        let has = found.iter().any(|line| line.contains(" DS "));
        assert_eq!(has, is_there, "{more:?} {updates:?}: {found:#?}");
    }
}
