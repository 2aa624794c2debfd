use super::*;
use crate::data::Edit;
use crate::journal::Packed;
use crate::zone::Advance;
use nodens_wire::{Class, Name, Record, Type};

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn soa(serial: u32) -> Soa {
    let zone = name("example.org.");
    Soa::with(zone.view(), 5, (&zone, &zone), [serial, 7200, 1800, 86400, 5])
}

fn host(number: u32) -> Record {
    let owner = name(&format!("host-{number}.example.org."));
    Record { owner, rtype: Type::A, class: Class::IN, ttl: 5, rdata: number.to_be_bytes().to_vec() }
}

fn data(serial: u32, hosts: u32) -> Data {
    let zone = name("example.org.");
    let mut edit = Edit::new(zone.view(), Class::IN);
    edit.add(soa(serial).record().into()).unwrap();
    let (owner, rdata) = (zone.clone(), zone.as_wire().to_vec());
    let ns = Record { owner, rtype: Type::NS, class: Class::IN, ttl: 5, rdata };
    edit.add((&ns).into()).unwrap();
    (0..hosts).for_each(|number| _ = edit.add((&host(number)).into()).unwrap());
    edit.finish().unwrap()
}

/// The step by which `added` hosts came.
fn step(from: u32, to: u32, added: u32) -> Arc<Step> {
    let mut packed = Packed::default();
    (0..added).for_each(|number| packed.push((&host(number)).into()));
    Arc::new(Step { from: soa(from), to: soa(to), removed: Packed::default(), added: packed })
}

fn zone() -> SecondaryZone {
    SecondaryZone::new(name("example.org."), vec!["192.0.2.1:53".parse().unwrap()])
}

/// How many records a response has between the first and the last one.
fn records(version: Option<Version>) -> Option<usize> {
    let mut records = version?.records;
    let mut count = 0;
    loop {
        match records.advance() {
            Advance::Record => count += 1,
            Advance::Nothing => {}
            Advance::End => return Some(count),
        }
    }
}

#[test]
fn differences_are_handed_on_where_they_are_known_and_less_than_the_zone() {
    let zone = zone();
    assert!(zone.soa().is_none() && zone.version().is_none());
    zone.replace(data(1, 20), &[]);
    zone.replace(data(2, 21), &[step(1, 2, 1)]);
    zone.replace(data(4, 23), &[step(2, 3, 1), step(3, 4, 1)]);
    assert_eq!(zone.soa().map(|soa| soa.serial()), Some(Serial(4)));
    let since = |serial| records(zone.since(Serial(serial)));
    assert_eq!([since(1), since(2), since(3)], [Some(9), Some(6), Some(3)]);
    assert_eq!([since(4), since(0)], [None, None]);
    assert_eq!(records(zone.version()), Some(24));
    // More than the whole zone has.
    zone.replace(data(5, 3), &[step(4, 5, 3)]);
    assert_eq!(records(zone.since(Serial(4))), None);
}

#[test]
fn a_whole_zone_and_the_end_of_one_make_the_differences_useless() {
    let zone = zone();
    zone.replace(data(1, 20), &[]);
    zone.replace(data(2, 21), &[step(1, 2, 1)]);
    zone.replace(data(3, 21), &[]);
    assert_eq!(records(zone.since(Serial(1))), None);
    zone.replace(data(4, 21), &[step(3, 4, 1)]);
    zone.expire();
    assert!(zone.soa().is_none() && zone.since(Serial(3)).is_none());
}

#[test]
fn a_zone_is_known_for_as_long_as_anybody_has_it() {
    let known = Known::default();
    let primaries = ["192.0.2.1:53", "192.0.2.2:53"].map(|text| text.parse().unwrap());
    let zone = known.zone(name("Example.ORG.").view(), &primaries, None);
    zone.replace(data(1, 1), &[]);
    let again = known.zone(name("example.org.").view(), &primaries, None);
    assert!(Arc::ptr_eq(&zone, &again));
    let other = known.zone(name("example.org.").view(), &primaries[..1], None);
    assert!(!Arc::ptr_eq(&zone, &other));
    drop((zone, again));
    let anew = known.zone(name("example.org.").view(), &primaries, None);
    assert!(anew.soa().is_none());
    for number in 0..1000 {
        known.zone(name(&format!("zone-{number}.")).view(), &primaries, None);
    }
    assert!(known.zones.lock().unwrap().len() < 100);
}

#[test]
fn a_primary_is_known_by_its_address() {
    let zone = zone();
    assert_eq!(zone.primary_at("192.0.2.1".parse().unwrap()), Some(0));
    assert_eq!(zone.primary_at("::ffff:192.0.2.1".parse().unwrap()), Some(0));
    assert_eq!(zone.primary_at("192.0.2.2".parse().unwrap()), None);
}

#[test]
fn what_primaries_say_is_taken_once_and_the_keeper_woken_once() {
    let (notices, woken) = (Notices::default(), Arc::new(AtomicU64::new(0)));
    notices.note(name("example.org."), 0, None);
    let count = woken.clone();
    notices.on_notice(move || _ = count.fetch_add(1, Ordering::Relaxed));
    assert_eq!(notices.take().count(), 1);
    for serial in 0..1000 {
        notices.note(name("example.org."), 1, Some(Serial(serial)));
    }
    assert_eq!(woken.load(Ordering::Relaxed), 1);
    let taken: Vec<_> = notices.take().collect();
    assert_eq!(taken, [(name("example.org.").into(), 1, Some(Serial(999)))]);
}

#[test]
fn a_zone_of_another_key_is_another_zone() {
    let (known, primaries) = (Known::default(), ["192.0.2.1:53".parse().unwrap()]);
    let zone = |key: Option<&str>| {
        let key = key.map(name);
        known.zone(name("example.org.").view(), &primaries, key.as_ref().map(Name::view))
    };
    let (unsigned, signed) = (zone(None), zone(Some("k.")));
    assert!(!Arc::ptr_eq(&unsigned, &signed) && !Arc::ptr_eq(&signed, &zone(Some("other."))));
    assert!(Arc::ptr_eq(&signed, &zone(Some("K."))) && Arc::ptr_eq(&unsigned, &zone(None)));
}

#[test]
fn what_a_primary_said_is_not_taken_back_by_an_older_serial() {
    let notices = Notices::default();
    let noted = |serials: &[Option<u32>]| {
        let note = |serial: &Option<u32>| notices.note(name("example.org."), 0, serial.map(Serial));
        let new: Vec<_> = serials.iter().map(note).collect();
        assert!(new[0] && !new[1..].contains(&true));
        let taken = notices.take().next();
        // Nothing is said anew before a primary was asked.
        assert!(!notices.note(name("example.org."), 1, None) && notices.take().count() == 1);
        notices.asked(&name("example.org.").into());
        taken.map(|(.., serial)| serial)
    };
    assert_eq!(noted(&[Some(8), Some(3)]), Some(Some(Serial(8))));
    assert_eq!(noted(&[Some(3), Some(8)]), Some(Some(Serial(8))));
    assert_eq!(noted(&[Some(8), None, Some(9)]), Some(None));
}

#[test]
fn differences_that_are_more_than_the_zone_are_not_kept() {
    let zone = zone();
    zone.replace(data(1, 10), &[]);
    for serial in 2..10 {
        zone.replace(data(serial, 10), &[step(serial - 1, serial, 1)]);
    }
    // Three records each, and the zone has twelve.
    let steps = lock(&zone.journal).since(Serial(6)).map(|steps| steps.len());
    assert_eq!((steps, lock(&zone.journal).since(Serial(5))), (Some(3), None));
    let octets = lock(&zone.journal).octets();
    assert_eq!(octets, 3 * step(1, 2, 1).octets());
}
