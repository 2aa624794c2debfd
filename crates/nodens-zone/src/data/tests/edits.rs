//! What edits accept and refuse, differences, and zones that are served.

use super::*;
use crate::limits::{NODE_LEN_MAX, RRSET_LEN_MAX};
use crate::zone::{Advance, RecordRef, Zone};

#[test]
fn records_that_cannot_be_in_a_zone_are_refused() {
    let mut edit = edit(&["a A 192.0.2.1"]);
    let (before, owner) = (edit.clone().finish().unwrap(), name("a.z."));
    for (owner, rtype, class, rdata, why) in [
        ("a.y.", Type::A, Class::IN, &[1, 2, 3, 4][..], Refused::OutOfZone),
        ("a.z.", Type::A, Class::CH, &[1, 2, 3, 4], Refused::Class),
        ("a.z.", Type::ANY, Class::IN, &[], Refused::NotData),
        ("a.z.", Type::OPT, Class::IN, &[], Refused::NotData),
        ("a.z.", Type::TSIG, Class::IN, &[], Refused::NotData),
        ("a.z.", Type::NONE, Class::IN, &[], Refused::NotData),
        ("a.z.", Type::NS, Class::IN, b"\x01a", Refused::Rdata),
        ("a.z.", Type::NS, Class::IN, b"", Refused::Rdata),
        ("a.z.", Type::CNAME, Class::IN, b"\xc0\x0c", Refused::Rdata),
        ("a.z.", Type::MX, Class::IN, b"\0", Refused::Rdata),
        ("a.z.", Type::NAPTR, Class::IN, b"\0\0\0\0\xffa", Refused::Rdata),
        ("z.", Type::SOA, Class::IN, b"\0\0\0\0\0\x01", Refused::Rdata),
        ("a.z.", Type::RRSIG, Class::IN, b"\0\x01", Refused::Rdata),
        ("a.z.", Type::SOA, Class::IN, &[0; 22], Refused::SoaBelowApex),
        ("y.", Type::SOA, Class::IN, &[0; 22], Refused::OutOfZone),
        ("a.z.", Type::TXT, Class::IN, &[0; RRSET_LEN_MAX - 1], Refused::TooLong),
    ] {
        let owner = name(owner);
        let record = RecordRef { owner: owner.view(), rtype, class, ttl: 1, rdata };
        assert_eq!(edit.add(record), Err(why), "{owner} {rtype}");
    }
    let after = edit.finish().unwrap();
    assert_eq!(Difference::between(&before, &after).records(), 2);
    assert_eq!(before.rrsets(owner.view()).count(), 1);
}

#[test]
fn an_rrset_has_as_many_records_as_fit_into_a_message() {
    let mut edit = edit(&[]);
    let owner = name("a.z.");
    let mut added = 0;
    let why = loop {
        let rdata = [&[200][..], &[0; 196], &u32::to_be_bytes(added)].concat();
        let (rtype, class) = (Type::TXT, Class::IN);
        match edit.add(RecordRef { owner: owner.view(), rtype, class, ttl: 1, rdata: &rdata }) {
            Ok(is_new) => assert!(is_new),
            Err(why) => break why,
        }
        added += 1;
    };
    assert_eq!((why, added as usize), (Refused::TooLong, RRSET_LEN_MAX / 203));
    assert_eq!(edit.finish().unwrap().records(), 2 + u64::from(added));
}

#[test]
fn strict_edits_refuse_what_rfc_2181_forbids() {
    for (first, second, why) in [
        ("a CNAME x.", "a A 192.0.2.1", Refused::CnameAndOther),
        ("a A 192.0.2.1", "a CNAME x.", Refused::CnameAndOther),
        ("a CNAME x.", "a CNAME y.", Refused::CnameAndOther),
        ("a DNAME x.", "a DNAME y.", Refused::CnameAndOther),
        ("a TXT x", "@ SOA ns.z. host.z. 2 2 3 4 300", Refused::SecondSoa),
    ] {
        let mut lenient = edit(&[first]);
        assert_eq!(lenient.add((&record(second)).into()), Ok(true), "{second}");
        let mut strict = edit(&[first]).strict();
        assert_eq!(strict.add((&record(second)).into()), Err(why), "{second}");
        assert_eq!(strict.add((&record(first)).into()), Ok(false), "{first}");
    }
    let mut beside = edit(&["a CNAME x.", "a NSEC z. CNAME"]).strict();
    assert_eq!(beside.add((&record("a KEY 0 3 5 AAAA")).into()), Ok(true));
    let mut edit = edit(&[]);
    assert!(edit.remove_rrset(name("z.").view(), Type::NS));
    assert!(edit.clone().finish().is_ok());
    assert_eq!(edit.clone().strict().finish().err(), Some(Incomplete::NoNs));
    assert!(edit.remove_name(name("z.").view()));
    assert_eq!(edit.finish().err(), Some(Incomplete::NoSoa));
}

#[test]
fn ttls_are_those_of_rrsets_and_names_in_rdata_have_no_case() {
    let mut edit = edit(&["a 60 NS X.y.", "a 30 NS w.y.", "a 2147483648 TXT a"]);
    let ttl = |edit: &Edit, rtype| edit.rrset(name("A.z.").view(), rtype).unwrap().ttl();
    assert_eq!((ttl(&edit, Type::NS), ttl(&edit, Type::TXT)), (30, 0));
    assert_eq!(edit.add((&record("a 20 NS x.Y.")).into()), Ok(false));
    assert_eq!(edit.add((&record("a 90 NS x.y.")).into()), Ok(false));
    assert_eq!(ttl(&edit, Type::NS), 20);
    assert!(edit.set_ttl(name("a.z.").view(), Type::NS, 90));
    assert_eq!(ttl(&edit, Type::NS), 90);
    assert!(!edit.set_ttl(name("a.z.").view(), Type::A, 90));
    assert!(edit.remove((&record("a NS x.y.")).into()));
    assert!(!edit.remove((&record("a NS x.y.")).into()));
    assert!(!edit.remove((&record("a TXT A")).into()));
    assert_eq!(edit.finish().unwrap().records(), 4);
}

#[test]
fn names_above_exist_as_long_as_names_below_do() {
    let mut edit = edit(&["a.b.c A 192.0.2.1", "d.c A 192.0.2.1", "a.*.e A 192.0.2.1"]);
    let data = edit.clone().finish().unwrap();
    for (qname, found) in [("b.c.z.", "NODATA"), ("q.e.z.", "NODATA by *.e.z."), ("e.z.", "NODATA")]
    {
        assert_eq!(ask(&data, qname, Type::A), found);
    }
    assert!(edit.remove_name(name("a.b.c.z.").view()));
    assert!(edit.remove((&record("a.*.e A 192.0.2.1")).into()));
    let left = edit.clone().finish().unwrap();
    for (qname, found) in [
        ("a.b.c.z.", "NXDOMAIN below c.z."),
        ("b.c.z.", "NXDOMAIN below c.z."),
        ("c.z.", "NODATA"),
        ("q.e.z.", "NXDOMAIN below z."),
        ("e.z.", "NXDOMAIN below z."),
    ] {
        assert_eq!(ask(&left, qname, Type::A), found);
    }
    assert!(edit.remove_rrset(name("d.c.z.").view(), Type::A));
    assert_eq!(ask(&edit.finish().unwrap(), "c.z.", Type::A), "NXDOMAIN below z.");
    assert_eq!(ask(&data, "d.c.z.", Type::A), "d.c.z. Ax1");
}

#[test]
fn a_second_soa_record_takes_the_place_of_the_first() {
    let mut edit = zone(&[]).edit();
    assert_eq!(edit.add((&record("@ SOA ns.z. host.z. 9 2 3 4 300")).into()), Ok(true));
    let data = edit.finish().unwrap();
    assert_eq!((data.soa().serial().0, data.records()), (9, 2));
    assert_eq!(data.soa().record().rtype, Type::SOA);
}

#[test]
fn signatures_stay_behind_what_they_cover() {
    let rrsig = |covered: &str| {
        format!("a RRSIG {covered} 13 1 300 20380101000000 20200101000000 1 z. AAAA")
    };
    let data = zone(&["a TXT x", &rrsig("A"), "a A 192.0.2.1", &rrsig("TXT"), &rrsig("NS")]);
    assert_eq!(ask(&data, "a.z.", Type::ANY), "A+RRSIG+RRSIG+TXT+RRSIG");
    assert_eq!(ask(&data, "a.z.", Type::RRSIG), "RRSIG+RRSIG+RRSIG");
    let sigs = data.rrset(name("a.z.").view(), Type::A).unwrap().sigs().unwrap();
    assert_eq!((sigs.covered(), sigs.iter().count()), (Some(Type::A), 1));
    let mut edit = data.edit();
    assert!(edit.remove_rrset(name("a.z.").view(), Type::A));
    assert!(edit.remove_rrset(name("a.z.").view(), Type::RRSIG));
    assert_eq!(edit.finish().unwrap().records(), 3);
}

#[test]
fn differences_carry_ttls_spelling_and_the_soa_record() {
    let old = zone(&["a 60 A 192.0.2.1", "a 60 A 192.0.2.2", "b TXT x", "c TXT x"]);
    let new = zone(&["A 90 A 192.0.2.1", "a 90 A 192.0.2.2", "b TXT x", "d.e TXT x"]);
    let difference = Difference::between(&old, &new);
    assert_eq!((difference.removed.len(), difference.added.len()), (3, 3));
    let again = old.apply(&difference).unwrap();
    assert_eq!(Difference::between(&again, &new).records(), 2);
    let owner = again.rrsets(name("a.z.").view()).next().unwrap().owner();
    assert_eq!(owner.to_string(), "A.z.");
    let missing = again.apply(&difference).unwrap_err();
    assert!(matches!(missing, Conflict::Missing { rtype: Type::TXT, .. }), "{missing}");
    let mut present = difference.clone();
    present.removed.clear();
    present.added.retain(|record| record.rtype == Type::TXT);
    assert!(matches!(again.apply(&present), Err(Conflict::Present { .. })));
    present.added = vec![record("q.y. TXT x")];
    assert!(matches!(again.apply(&present), Err(Conflict::Refused { .. })));
    let mut edit = new.edit();
    edit.add((&record("@ SOA ns.z. host.z. 2 2 3 4 300")).into()).unwrap();
    let next = edit.finish().unwrap();
    let step = Difference::between(&new, &next);
    assert_eq!((step.records(), step.to.serial().0), (2, 2));
    assert_eq!(again.apply(&step).unwrap().soa().serial().0, 2);
    assert!(matches!(next.apply(&step), Err(Conflict::Serial { from: 1, has: 2 })));
}

#[test]
fn a_version_that_has_readers_is_freed_by_who_replaced_it() {
    let served = Served::default();
    assert!(served.version().is_none() && served.soa().is_none());
    served.store(zone(&["a TXT x"]));
    let reader = served.load();
    let mut version = served.version().unwrap();
    served.store(zone(&["b TXT x"]));
    assert_eq!(ask(reader.as_ref().unwrap(), "a.z.", Type::TXT), "a.z. TXTx1");
    assert_eq!(served.sweep(), 1);
    drop(reader);
    assert_eq!(served.sweep(), 1);
    let mut records = 0;
    loop {
        match version.records.advance() {
            Advance::Record => records += 1,
            Advance::Nothing => {}
            Advance::End => break,
        }
    }
    assert_eq!(records, 2);
    drop(version);
    assert_eq!(served.sweep(), 0);
    served.clear();
    assert!(served.load().is_none() && served.version().is_none());
}

#[test]
fn readers_see_whole_versions_while_a_zone_changes() {
    let pair = |number: u32| {
        let line = |owner: &str| format!("{owner} TXT {number}");
        zone(&[&line("a"), &line("b.c.d")])
    };
    let served = Served::new(pair(0));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (1..200).for_each(|number| served.store(pair(number))));
        loop {
            let is_done = writer.is_finished();
            let data = served.load();
            let data = data.as_ref().unwrap();
            let text = |owner: &str| data.rrset(name(owner).view(), Type::TXT).unwrap().first();
            assert_eq!(text("a.z."), text("b.c.d.z."));
            if is_done {
                assert_eq!(text("a.z."), b"\x03199");
                break;
            }
        }
    });
    assert_eq!(served.sweep(), 0);
}

#[test]
fn the_deepest_trie_is_built_read_and_freed_on_a_small_stack() {
    // Two symbols for each octet, and another name that parts at each of them.
    let wire = [&[63][..], &[0xff; 63]].concat().repeat(3);
    let deep = [&wire[..], &[59], &[0xff; 59], b"\x01z\0"].concat();
    let starts = [0_usize, 64, 128, 192];
    let mut names = vec![Name::from_wire(&deep).unwrap()];
    for at in (0..deep.len() - 3).filter(|at| !starts.contains(at)) {
        for octet in [b'a', 0xfe] {
            let mut name = deep.clone();
            name[at] = octet;
            let start = starts.into_iter().rfind(|start| *start < at).unwrap();
            // Labels to the left would part earlier.
            names.push(Name::from_wire(&name[start..]).unwrap());
        }
    }
    let run = move || {
        let mut edit = edit(&[]);
        for owner in &names {
            let (rtype, class) = (Type::TXT, Class::IN);
            let record = RecordRef { owner: owner.view(), rtype, class, ttl: 1, rdata: b"\x01a" };
            assert_eq!(edit.add(record), Ok(true));
        }
        let data = edit.finish().unwrap();
        let other = data.edit().finish().unwrap();
        assert_eq!(Difference::between(&data, &other).records(), 2);
        for owner in &names {
            assert!(matches!(data.lookup(owner.view(), Type::TXT), Found::Answer { .. }));
            let mut edit = other.edit();
            assert!(edit.remove_name(owner.view()));
            drop(edit.finish().unwrap());
        }
        assert_eq!(data.records(), 2 + names.len() as u64);
    };
    std::thread::Builder::new().stack_size(512 << 10).spawn(run).unwrap().join().unwrap();
}

#[test]
fn a_name_has_room_for_many_types() {
    let mut edit = edit(&[]);
    let (owner, class) = (name("a.z."), Class::IN);
    let add = |edit: &mut Edit, rtype: u16| {
        let (owner, rtype) = (owner.view(), Type(rtype));
        edit.add(RecordRef { owner, rtype, class, ttl: 1, rdata: &[0; 1000] })
    };
    let added = (1000..2000).take_while(|rtype| add(&mut edit, *rtype).is_ok()).count();
    assert_eq!(added, (NODE_LEN_MAX - 6) / 1012);
    assert_eq!(add(&mut edit, 1999), Err(Refused::TooLong));
    assert_eq!(edit.finish().unwrap().rrsets(owner.view()).count(), added);
}
