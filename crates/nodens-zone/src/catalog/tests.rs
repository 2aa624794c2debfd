use super::*;
use crate::data::Edit;
use crate::zone::Soa;
use nodens_wire::{Class, Record};

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
    catalog.map(|catalog| catalog.members).map_err(|error| error.to_string())
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
        zone: name(zone),
        groups: groups.iter().map(|group| (*group).into()).collect(),
        coo: coo.map(name),
    };
    let wanted = vec![
        member(b"a", "example.com.", &[b"operator", b"unsigned"], None),
        member(b"b", "example.net.", &[], Some("other.example.")),
    ];
    assert_eq!(members, Ok(wanted));
    let catalog = Catalog::read(&data(&[NS, VERSION_2, ("x.zones", Type::PTR, "a.")])).unwrap();
    assert_eq!(catalog.member(&name("a.")).map(|member| &*member.id), Some(&b"x"[..]));
    assert_eq!(catalog.member(&name("b.")), None);
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
