//! UPDATE messages (RFC 2136).

use nodens_wire::{Admission, Class, Name, Rcode, Type, admit};
use nodens_zone::Soa;
use nodens_zone::data::{Data, Difference, Edit};
use nodens_zone::update::{Permission, Policy, size};

/// An update of a small zone is refused, changes nothing, or makes a version with a later serial number, which
/// the difference leads to and whose octets are right.
pub fn update(data: &[u8]) {
    let mut message = data.to_vec();
    if let Some(flags) = message.get_mut(2) {
        *flags = 5 << 3;
    }
    let Admission::Update(query) = admit(&message) else { return };
    assert!(query.question_end() <= message.len());
    let (zone, key) = (base(), Name::parse("k.").expect("a name"));
    let permissions = vec![Permission { key: key.clone(), owner: None, types: None }];
    let (records_max, octets_max, update_records_max) = (20, 1000, 100);
    let policy = Policy { permissions, records_max, octets_max, update_records_max };
    let before = (&zone, size(&zone));
    let verdict = nodens_zone::update::update(before, &policy, key.view(), &message);
    let Some(next) = verdict.next else { return };
    assert_eq!(verdict.rcode, Rcode::NOERROR);
    assert_eq!(next.size, size(&next.data));
    assert!(next.data.records() <= records_max && next.size.octets <= octets_max);
    assert!(next.data.soa().serial() > zone.soa().serial());
    let difference = Difference::between(&zone, &next.data);
    let applied = zone.apply(&difference).expect("a difference of this version");
    let left = Difference::between(&applied, &next.data);
    assert!(left.removed.is_empty() && left.added.is_empty(), "{left:?}");
}

/// Version 1, with an address for `b` and an alias.
fn base() -> Data {
    let zone = Name::parse("a.").expect("a name");
    let soa = Soa::with(zone.view(), 5, (&zone, &zone), [1, 2, 3, 4, 5]);
    let record = |owner: &str, rtype, rdata: &[u8]| {
        let (owner, rdata) = (Name::parse(owner).expect("a name"), rdata.to_vec());
        nodens_wire::Record { owner, rtype, class: Class::IN, ttl: 5, rdata }
    };
    let mut edit = Edit::new(zone.view(), Class::IN);
    let address = record("b.a.", Type::A, &[192, 0, 2, 1]);
    let alias = record("c.a.", Type::CNAME, zone.as_wire());
    let server = record("a.", Type::NS, zone.as_wire());
    for record in [soa.record(), &address, &alias, &server] {
        edit.add(record.into()).expect("a record of the zone");
    }
    edit.finish().expect("a zone")
}
