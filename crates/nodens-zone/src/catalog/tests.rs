use super::*;
use crate::data::{Difference, Edit};
use crate::zone::Soa;
use nodens_wire::{Class, Record};

thread_local! {
    /// Members that were read out of versions.
    pub(super) static READ: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

/// A catalog with these records besides: owner below the origin, type and RDATA.
fn data(records: &[(&str, Type, &str)]) -> Data {
    let origin = name("catalog.example.");
    let mut edit = Edit::new(origin.view(), Class::IN);
    let soa = Soa::with(origin.view(), 0, (&origin, &origin), [1, 3600, 600, 604_800, 0]);
    edit.add(soa.record().into()).unwrap();
    for (owner, rtype, text) in records {
        let owner = if owner.is_empty() {
            origin.clone()
        } else {
            name(&format!("{owner}.")).join(origin.view()).unwrap()
        };
        let rdata = match *rtype {
            Type::TXT => text.split('|').fold(Vec::new(), |mut rdata, part| {
                rdata.push(part.len() as u8);
                rdata.extend(part.bytes());
                rdata
            }),
            _ => name(text).as_wire().to_vec(),
        };
        let record = Record { owner, rtype: *rtype, class: Class::IN, ttl: 0, rdata };
        edit.add((&record).into()).unwrap();
    }
    edit.finish().unwrap()
}

const NS: (&str, Type, &str) = ("", Type::NS, "invalid.");
const VERSION_2: (&str, Type, &str) = ("version", Type::TXT, "2");

fn read(records: &[(&str, Type, &str)]) -> Result<Vec<Member>, String> {
    let catalog = Catalog::read(&data(&[&[NS, VERSION_2], records].concat()));
    let catalog = catalog.map_err(|error| error.to_string())?;
    let mut members: Vec<_> = catalog.members().map(|member| Member::clone(member)).collect();
    members.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(members)
}

#[test]
fn members_have_groups_and_owners_to_be() {
    let members = read(&[
        ("b.zones", Type::PTR, "Example.NET."),
        ("A.zones", Type::PTR, "example.com."),
        ("group.a.zones", Type::TXT, "uns|igned"),
        ("group.A.ZONES", Type::TXT, "operator"),
        ("coo.b.zones", Type::PTR, "Other.example."),
        ("ignored", Type::TXT, "value"),
        ("deep.in.a.zones", Type::PTR, "example.org."),
        ("group.c.zones", Type::TXT, "of no member"),
        ("d.zones", Type::TXT, "no pointer"),
    ]);
    let member = |id: &[u8], zone: &str, groups: &[&[u8]], coo: Option<&str>| Member {
        id: id.into(),
        zone: name(zone).into(),
        groups: groups.iter().map(|group| (*group).into()).collect(),
        coo: coo.map(|coo| name(coo).into()),
    };
    let wanted = vec![
        member(b"a", "example.com.", &[b"operator", b"unsigned"], None),
        member(b"b", "example.net.", &[], Some("other.example.")),
    ];
    assert_eq!(members, Ok(wanted));
    let catalog = Catalog::read(&data(&[NS, VERSION_2, ("x.zones", Type::PTR, "a.")])).unwrap();
    assert_eq!(catalog.member(&name("a.").into()).map(|member| &*member.id), Some(&b"x"[..]));
    assert_eq!(catalog.member(&name("b.").into()), None);
}

#[test]
fn what_is_no_catalog_is_refused() {
    let refused =
        |records: &[(&str, Type, &str)]| Catalog::read(&data(records)).unwrap_err().to_string();
    assert!(refused(&[VERSION_2]).ends_with("has no NS record"));
    assert!(refused(&[NS]).ends_with("exactly one version TXT record"));
    let two = [NS, VERSION_2, ("version", Type::TXT, "1")];
    assert!(refused(&two).ends_with("exactly one version TXT record"));
    assert!(refused(&[NS, ("version", Type::TXT, "1")]).ends_with("unsupported version \"1\""));
    for (records, wanted) in [
        (
            [("a.zones", Type::PTR, "a."), ("a.zones", Type::PTR, "b.")],
            "a.zones.catalog.example. must have",
        ),
        (
            [("a.zones", Type::PTR, "a."), ("b.zones", Type::PTR, "A.")],
            "member zone a. is listed twice",
        ),
    ] {
        assert!(read(&records).unwrap_err().contains(wanted), "{wanted}");
    }
    let owners = [
        ("a.zones", Type::PTR, "a."),
        ("coo.a.zones", Type::PTR, "b."),
        ("coo.a.zones", Type::PTR, "c."),
    ];
    assert!(read(&owners).unwrap_err().contains("more than one coo"));
}

/// The version with these changes of it: whether a record is there, below which label, of what type.
fn changed(data: &Data, records: &[(bool, &str, Type, &str)]) -> Data {
    let mut edit = data.edit();
    for (is_added, owner, rtype, target) in records {
        let owner = name(&format!("{owner}.")).join(data.origin()).unwrap();
        let rdata = name(target).as_wire().to_vec();
        let record = Record { owner, rtype: *rtype, class: Class::IN, ttl: 0, rdata };
        match is_added {
            true => assert!(edit.add((&record).into()).unwrap()),
            false => assert!(edit.remove((&record).into())),
        }
    }
    edit.finish().unwrap()
}

#[test]
fn another_version_is_taken_up_by_what_changed() {
    let mut records = vec![NS, VERSION_2];
    let many: Vec<_> = (0..500).map(|n| (format!("m{n}.zones"), format!("z{n}."))).collect();
    records.extend(many.iter().map(|(owner, zone)| (owner.as_str(), Type::PTR, zone.as_str())));
    let first = data(&records);
    let mut catalog = Catalog::read(&first).unwrap();
    assert_eq!(catalog.len(), 500);
    let ptr = |is_added, owner, target| (is_added, owner, Type::PTR, target);
    let mut now = first.clone();
    let mut step = |catalog: &mut Catalog, changes: &[(bool, &str, Type, &str)]| {
        let next = changed(&now, changes);
        READ.set(0);
        let updated = catalog.update(&next).map(|names| {
            let mut names: Vec<_> = names.keys().map(|name| name.to_string()).collect();
            names.sort();
            names.join(" ")
        });
        let count = READ.get();
        // From the last good version on.
        if updated.is_ok() {
            now = next;
            let whole = Catalog::read(&data_like(&now)).unwrap();
            assert_eq!(whole.by_zone, catalog.by_zone);
        }
        (updated.map_err(|error| error.to_string()), count)
    };
    let ok = |text: &str| Ok(text.to_owned());
    assert_eq!(step(&mut catalog, &[]), (ok(""), 0));
    let new = ptr(true, "new.zones", "new.");
    assert_eq!(step(&mut catalog, &[new]), (ok("new."), 1));
    let moved = [ptr(false, "m7.zones", "z7."), ptr(true, "other.zones", "z7.")];
    assert_eq!(step(&mut catalog, &moved), (ok("z7."), 2));
    let swapped = [
        ptr(false, "m1.zones", "z1."),
        ptr(false, "m2.zones", "z2."),
        ptr(true, "m1.zones", "z2."),
        ptr(true, "M2.zones", "Z1."),
    ];
    assert_eq!(step(&mut catalog, &swapped), (ok("z1. z2."), 2));
    assert_eq!(step(&mut catalog, &[ptr(true, "coo.m3.zones", "far.")]), (ok("z3."), 1));
    assert_eq!(step(&mut catalog, &[ptr(true, "other.m3.zones", "far.")]), (ok(""), 1));
    let twice = step(&mut catalog, &[ptr(true, "again.zones", "z400.")]).0.unwrap_err();
    assert!(twice.contains("member zone z400. is listed twice"), "{twice}");
    let two = step(&mut catalog, &[ptr(true, "m9.zones", "more.")]).0.unwrap_err();
    assert!(two.contains("exactly one PTR record"), "{two}");
    assert_eq!((catalog.len(), catalog.member(&name("more.").into())), (501, None));
    assert_eq!(step(&mut catalog, &[ptr(false, "m9.zones", "z9.")]), (ok("z9."), 1));
}

/// The same records, none of them shared.
fn data_like(data: &Data) -> Data {
    let mut edit = Edit::new(data.origin(), Class::IN);
    edit.add(data.soa().record().into()).unwrap();
    let empty = edit.clone().finish().unwrap();
    for record in &Difference::between(&empty, data).added {
        edit.add(record.into()).unwrap();
    }
    edit.finish().unwrap()
}
