//! How much memory zones take and may take. One test: what it looks at belongs to the process.

use nodens_testkit::alloc::{Counting, held};
use nodens_wire::{Builder, Class, Flags, Name, NameRef, Opcode, Rcode, Record, Section, Type};
use nodens_zone::catalog::{Catalog, CatalogService, Delay, KnownCatalogs, Listing, Producer};
use nodens_zone::data::{Data, Difference, Edit, Refused, Served, room};
use nodens_zone::dnssec::{Denial, SignZoneError, SignedZone, SigningKey, Validity, sign_zone};
use nodens_zone::image::{Image, ImageError, Writer, Written};
use nodens_zone::incoming::{Incoming, IncomingError};
use nodens_zone::journal::{Packed, Step};
use nodens_zone::update::{Permission, Policy, Size, update};
use nodens_zone::{RecordRef, Zone, ZoneTable};
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn record<'a>(owner: NameRef<'a>, rtype: Type, rdata: &'a [u8]) -> RecordRef<'a> {
    RecordRef { owner, rtype, class: Class::IN, ttl: 300, rdata }
}

/// A zone with a name for each of these numbers, two addresses each.
fn build(serial: u8, names: std::ops::Range<u32>, like: Option<Data>) -> Result<Data, Refused> {
    let origin = name("example.com.");
    let mut edit = Edit::new(origin.view(), Class::IN).like(like);
    let ns = name("ns.example.com.");
    let soa = [ns.as_wire(), ns.as_wire(), &[0, 0, 0, serial], &[0; 16]].concat();
    edit.add(record(origin.view(), Type::SOA, &soa))?;
    for number in names {
        let owner = name(&format!("h{:08x}.example.com.", number.wrapping_mul(0x9e37_79b1)));
        for part in 0..2 {
            edit.add(record(owner.view(), Type::A, &(2 * number + part).to_be_bytes()))?;
        }
    }
    Ok(edit.finish().unwrap())
}

/// The octets of a version, and of a step that brings so many names, with the serial number 9.
fn stored(served: &Data, names: u32) -> Vec<u8> {
    let (mut octets, mut writer) = (Vec::new(), Writer::default());
    let write = |part: &[u8]| {
        octets.extend_from_slice(part);
        Ok::<(), ()>(())
    };
    writer.version(served, write).unwrap();
    let (mut edit, ns) = (served.edit(), name("ns.example.com."));
    let soa = [ns.as_wire(), ns.as_wire(), &[0, 0, 0, 9], &[0; 16]].concat();
    edit.add(record(served.origin(), Type::SOA, &soa)).unwrap();
    for number in 0..names {
        let owner = name(&format!("more-{number}.example.com."));
        edit.add(record(owner.view(), Type::A, &number.to_be_bytes())).unwrap();
    }
    let next = edit.finish().unwrap();
    let Difference { from, to, removed, added } = Difference::between(served, &next);
    let [removed, added] = [removed, added].map(|records| {
        let mut packed = Packed::default();
        records.iter().for_each(|record| packed.push(record.into()));
        packed
    });
    octets.extend(writer.step(&Step { from, to, removed, added }));
    octets
}

/// What is served is read again, while there is no room for it twice.
fn read_from_a_file(served: &Data) {
    let (zone, most) = (name("example.com."), room::most());
    room::set_most(u64::MAX);
    let [few, many] = [100, 20_000].map(|names| stored(served, names));
    room::set_most(most);
    assert_eq!(Image::read(&zone, &few).unwrap_err(), ImageError::NoRoom);
    let image = Image::read_like(&zone, &few, Some(served)).unwrap();
    assert_eq!((image.data.soa().serial().0, image.len), (9, few.len()));
    // A step for which there is no room is no damage: it was confirmed.
    let refused = Image::read_like(&zone, &many, Some(served));
    assert_eq!(refused.unwrap_err(), ImageError::NoRoom);
    let written = Written::of(zone.view(), &many).unwrap();
    assert_eq!((written.serial.0, written.len), (9, many.len() as u64));
}

#[test]
fn zones_take_what_they_say_share_what_is_the_same_and_end_where_there_is_no_room() {
    const NAMES: u32 = 20_000;
    let before = held().chunks;
    let first = build(1, 0..NAMES, None).unwrap();
    let cost = held().chunks - before;
    let said = first.octets() as usize;
    assert!(said.abs_diff(cost) < cost / 6, "{said} octets said, {cost} taken");

    // Read again from a file: another serial, a name more, a name less.
    let again = build(2, 1..NAMES + 1, Some(first.clone())).unwrap();
    let both = held().chunks - before;
    eprintln!("one version {cost}, two {both}");
    assert!(both < cost * 16 / 10, "{both} for two versions, {cost} for one");
    assert_eq!(again.records(), first.records());
    let apart = build(2, 1..NAMES + 1, None).unwrap();
    let difference = nodens_zone::data::Difference::between(&apart, &again);
    assert_eq!((difference.removed.len(), difference.added.len()), (0, 0));
    assert!(again.octets().abs_diff(apart.octets()) < 100);
    drop(apart);

    let served = Served::new(first.clone());
    assert_eq!(room::held(), first.octets());
    // What two versions share counts once.
    room::set_most(first.octets() * 16 / 10);
    let same = build(2, 0..NAMES, Some(first.clone())).unwrap();
    served.store(same.clone());
    assert_eq!(room::held(), same.octets());
    assert_eq!(build(3, NAMES..2 * NAMES, Some(same.clone())).err(), Some(Refused::NoRoom));
    assert_eq!(served.load().as_ref().unwrap().soa().serial().0, 2);
    read_from_a_file(&same);
    // A claim ends with what was not made.
    assert!(build(3, NAMES..NAMES + NAMES / 3, None).is_ok());
    // Where there is no room at all, zones still change, and shrink.
    room::set_most(0);
    let mut edit = same.edit();
    let gone = name(&format!("h{:08x}.example.com.", 0));
    assert!(edit.remove_name(gone.view()));
    assert_eq!(edit.add(record(gone.view(), Type::A, &[1; 4])), Ok(true));
    let more = name("another-name.example.com.");
    assert_eq!(
        edit.add(record(more.view(), Type::A, &[1; 4])),
        Ok(true),
        "the first is not known to be more"
    );
    // An update for which there is no room is not its client's fault; one that makes room is done.
    let update = |classes: [Class; 2]| {
        let mut message = Vec::new();
        let flags = Flags(0).with_opcode(Opcode::UPDATE);
        let mut builder = Builder::new(&mut message, 7, flags);
        builder.question(name("example.com.").view(), Type::SOA, Class::IN);
        for (number, class) in (1_u32..).zip(classes) {
            let host = format!("h{:08x}.example.com.", number.wrapping_mul(0x9e37_79b1));
            let (owner, ttl, rdata) = match class {
                Class::IN => (name("another-name.example.com."), 5, vec![number as u8; 4]),
                _ => (name(&host), 0, vec![]),
            };
            let record = Record { owner, rtype: Type::A, class, ttl, rdata };
            builder.push(Section::Authority, &record).unwrap();
        }
        let permissions = vec![Permission { key: name("k."), owner: None, types: None }];
        let (records_max, octets_max, update_records_max) = (u64::MAX, u64::MAX, 10);
        let policy = Policy { permissions, records_max, octets_max, update_records_max };
        update(
            (&same, Size { records: 1 << 30, octets: 1 << 30 }),
            &policy,
            name("k.").view(),
            &message,
        )
    };
    let verdict = update([Class::IN, Class::IN]);
    let reason = verdict.reason.unwrap();
    assert!(reason.contains("no room: there is no more memory for zones"), "{reason}");
    assert_eq!((verdict.rcode, verdict.next.is_none()), (Rcode::SERVFAIL, true));
    let verdict = update([Class::ANY, Class::ANY]);
    assert_eq!((verdict.rcode, verdict.next.is_some()), (Rcode::NOERROR, true));
    // A transfer that has no room is tried again, but not as a whole zone, which takes more.
    let mut message = Vec::new();
    let mut builder = Builder::new(&mut message, 7, Flags(0).reply());
    for owner in ["example.com.", "a.example.com."] {
        let rtype = if owner.starts_with('a') { Type::A } else { Type::SOA };
        let rdata = if rtype == Type::A { vec![1; 4] } else { vec![0; 22] };
        let record = Record { owner: name(owner), rtype, class: Class::IN, ttl: 5, rdata };
        builder.push(Section::Answer, &record).unwrap();
    }
    let mut incoming = Incoming::axfr(name("example.com."), 7, None);
    let error = incoming.message(&message).unwrap_err();
    assert_eq!(error, IncomingError::NoRoom);
    assert!(!error.is_lasting() && !error.whole_may_help());

    served.store(edit.finish().unwrap());
    served.clear();
    assert_eq!(room::held(), 0);
    let _other = Served::new(first.clone());
    drop(_other);
    assert_eq!(room::held(), 0);
    beside(&first, &same);
    a_catalog_is_changed_as_a_whole();
}

/// What two zones share counts once, whichever of them goes or changes first.
fn beside(first: &Data, same: &Data) {
    let all = first.octets();
    let pair = || {
        let old = Served::new(first.clone());
        let (new, now) = (Served::default(), old.load_full().unwrap());
        new.store_beside(same.clone(), (&old, &now), all - 1000);
        assert_eq!(room::held(), same.octets() + 1000);
        (old, new)
    };
    let (old, new) = pair();
    drop(old);
    assert_eq!(room::held(), same.octets());
    drop(new);
    assert_eq!(room::held(), 0);
    let (old, new) = pair();
    drop(new);
    assert_eq!(room::held(), all);
    drop(old);
    assert_eq!(room::held(), 0);
    let (old, new) = pair();
    old.store(same.clone());
    assert_eq!(room::held(), 2 * same.octets(), "they may share nothing now");
    new.clear();
    old.clear();
    assert_eq!(room::held(), 0);
    let (old, new) = pair();
    new.store(first.clone());
    assert_eq!(room::held(), 2 * all);
    // One that was replaced meanwhile is not there to be shared.
    let gone = old.load_full().unwrap();
    old.store(same.clone());
    new.store_beside(first.clone(), (&old, &gone), all);
    assert_eq!(room::held(), all + same.octets());
    drop((old, new));
    assert_eq!(room::held(), 0);
    signing_claims_what_it_takes(Denial::Nsec);
    signing_claims_what_it_takes(Denial::Nsec3);
}

fn sign(denial: Denial, goes_on: &dyn Fn() -> bool) -> Result<SignedZone, SignZoneError> {
    let public = include_str!("../testdata/dnssec/Kexample.org.+015+21968.key");
    let private = include_str!("../testdata/dnssec/Kexample.org.+015+21968.private");
    let keys = [SigningKey::parse(public, private).unwrap()];
    let validity = Validity { inception: 1, expiration: 2 };
    sign_zone(build(1, 0..SIGNED_NAMES, None)?, (&keys, denial), (2, validity), goes_on)
}

const SIGNED_NAMES: u32 = 8_000;

fn signing_claims_what_it_takes(denial: Denial) {
    // Claims below this are not made.
    const STEP: u64 = 256 << 10;
    room::set_most(u64::MAX);
    let before = held().chunks;
    let unsigned = build(1, 0..SIGNED_NAMES, None).unwrap().octets();
    let most = std::cell::Cell::new(0);
    let peak = || {
        most.set(most.get().max(held().chunks - before));
        true
    };
    let signed = sign(denial, &peak).unwrap();
    let octets = signed.data.octets();
    eprintln!("{denial:?}: {unsigned} unsigned, {octets} signed, {} at most", most.get());
    // It is kept for as long as it is in use.
    room::set_most(octets + unsigned - STEP);
    assert_eq!(build(1, 0..SIGNED_NAMES, None).err(), Some(Refused::NoRoom));
    drop(signed);
    assert!(build(1, 0..SIGNED_NAMES, None).is_ok());
    let most = most.get() as u64;
    room::set_most(most * 3 / 2);
    assert!(sign(denial, &|| true).is_ok());
    room::set_most(most - 2 * STEP);
    let refused = SignZoneError::Refused(Refused::NoRoom);
    assert_eq!(sign(denial, &|| true).err(), Some(refused));
    // Before anything is signed.
    room::set_most(2 * unsigned - STEP);
    assert_eq!(sign(denial, &|| panic!("a name was gone through")).err(), Some(refused));
}

/// Lists every zone.
#[derive(Debug)]
struct All;

impl Listing for All {
    fn lists(&self, _: NameRef<'_>) -> bool {
        true
    }
}

fn a_catalog_is_changed_as_a_whole() {
    room::set_most(0);
    let (catalog, zones) =
        (KnownCatalogs::default().get(name("catalog.").view()), Arc::<ZoneTable>::default());
    let service =
        CatalogService { catalog: catalog.clone(), zones: zones.clone(), listing: Arc::new(All) };
    let mut producer = Producer::new(&[service], || {});
    let mut turn = |unix_s| {
        let mut said = Vec::new();
        let waits = producer.turn(unix_s, |_, listed| said.push(listed.map(|own| own.members)));
        (said, waits, catalog.soa().map(|soa| soa.serial().0))
    };
    let refused = || vec![Err(Delay::Refused(Refused::NoRoom))];
    let add = |zone: &str| {
        let served = Arc::new(Served::default());
        zones.update(|update| update.replace(name(zone).view(), served));
    };
    // Neither without a first version, nor with one. It is said once, and tried again.
    assert_eq!(turn(1), (refused(), true, None));
    assert_eq!(turn(2), (vec![], true, None));
    room::set_most(u64::MAX);
    assert_eq!(turn(3), (vec![Ok(0)], false, Some(3)));
    room::set_most(0);
    add("a.example.");
    add("b.example.");
    assert_eq!(turn(4), (refused(), true, Some(3)));
    assert_eq!(turn(5), (vec![], true, Some(3)));
    add("c.example.");
    room::set_most(u64::MAX);
    assert_eq!(turn(6), (vec![Ok(3)], false, Some(6)));
    let members = Catalog::read(&catalog.served().load_full().unwrap()).unwrap().len();
    assert_eq!((members, turn(7)), (3, (vec![], false, Some(6))));
}
