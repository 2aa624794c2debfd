//! What a zone costs: memory, lookups and edits. `NODENS_ZONE_NAMES` is how many names the zone has
//! (20,000); with more, and built for release, the figures say something about time:
//! `NODENS_ZONE_NAMES=1000000 cargo test --release -p nodens-zone --test cost -- --nocapture`.

use nodens_testkit::alloc::{Counting, allocations_of_thread, held};
use nodens_wire::{Class, Name, NameRef, Type};
use nodens_zone::RecordRef;
use nodens_zone::data::{Data, Difference, Edit, Found, Served, room};
use nodens_zone::journal::{Journal, Packed, Step};
use nodens_zone::refresh::{Refresh, Schedule};
use nodens_zone::secondary::{Members, Primary, SecondaryZone};
use nodens_zone::{Zone, ZoneTable};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn names() -> u32 {
    std::env::var("NODENS_ZONE_NAMES").ok().and_then(|names| names.parse().ok()).unwrap_or(20_000)
}

/// The name with a number, the same as in the zone that is generated for peers: letters that do not
/// follow each other in order.
fn host(number: u32) -> Name {
    name(&format!("h{:08x}.example.com.", number.wrapping_mul(0x9e37_79b1)))
}

fn record<'a>(owner: NameRef<'a>, rtype: Type, rdata: &'a [u8]) -> RecordRef<'a> {
    RecordRef { owner, rtype, class: Class::IN, ttl: 300, rdata }
}

fn build(names: u32) -> Data {
    let origin = name("example.com.");
    let mut edit = Edit::new(origin.view(), Class::IN);
    let ns = name("ns.example.com.");
    let soa = [ns.as_wire(), ns.as_wire(), &[0; 20]].concat();
    edit.add(record(origin.view(), Type::SOA, &soa)).unwrap();
    edit.add(record(origin.view(), Type::NS, ns.as_wire())).unwrap();
    for number in 0..names {
        edit.add(record(host(number).view(), Type::A, &number.to_be_bytes())).unwrap();
    }
    edit.finish().unwrap()
}

/// Changes ten records.
fn change(data: &Data, round: u32) -> Data {
    let mut edit = data.edit();
    for number in 0..10 {
        let owner = host((round * 10 + number).wrapping_mul(7919) % names());
        edit.add(record(owner.view(), Type::AAAA, &[round as u8; 16])).unwrap();
    }
    edit.finish().unwrap()
}

#[test]
fn a_zone_costs_little_and_an_edit_costs_what_it_changes() {
    let _alone = nodens_testkit::alone();
    let count = names();
    let before = held();
    let started = Instant::now();
    let data = build(count);
    let loaded = started.elapsed();
    let after = held();
    let [octets, chunks] = [after.octets - before.octets, after.chunks - before.chunks];
    eprintln!(
        "{count} names: {} octets each asked for, {} with what malloc adds; built in {loaded:?}",
        octets / count as usize,
        chunks / count as usize
    );
    assert!(chunks / (count as usize) < 140, "{}", chunks / count as usize);

    let mut now = data.clone();
    let (mut octets, mut time) = (0, 0.0);
    let rounds = 100;
    for round in 0..rounds {
        let before = held().octets;
        let started = Instant::now();
        let next = change(&now, round);
        time += started.elapsed().as_secs_f64();
        octets += held().octets - before;
        let difference = Difference::between(&now, &next);
        assert_eq!(difference.removed.len(), 0);
        now = next;
    }
    eprintln!(
        "an edit of 10 records: {:.1} us, {} octets while both versions are kept",
        time * 1e6 / f64::from(rounds),
        octets / rounds as usize
    );
    assert!(octets / (rounds as usize) < 40_000);
    let held_before = held().octets;
    drop(data);
    eprintln!("the first version alone had {} octets", held_before - held().octets);
}

#[test]
fn a_lookup_allocates_nothing() {
    let _alone = nodens_testkit::alone();
    let data = build(names());
    let absent: Vec<Name> = (0..1000).map(|i| name(&format!("n{i}.example.com."))).collect();
    let present: Vec<Name> = (0..1000).map(|i| host(i * 17 % names())).collect();
    for (what, names) in [("present", &present), ("absent", &absent)] {
        let started = Instant::now();
        let allocations = allocations_of_thread();
        for round in 0..20 {
            for name in names {
                let found = data.lookup(black_box(name.view()), Type::A);
                let is_there = matches!(found, Found::Answer { .. });
                assert_eq!(is_there, what == "present", "{round}");
                black_box(data.proof(name.view(), &found).iter().count());
            }
        }
        assert_eq!(allocations_of_thread(), allocations);
        eprintln!("lookup of names that are {what}: {:?}", started.elapsed() / 20_000);
    }
}

#[test]
fn small_zones_are_small() {
    let _alone = nodens_testkit::alone();
    let before = held();
    let zones: Vec<Served> = (0..1000_u32).map(|_| Served::new(build(8))).collect();
    let each = (held().chunks - before.chunks) / zones.len();
    eprintln!("a zone of 10 records: {each} octets with what malloc adds");
    assert!(each < 2_000, "{each}");
}

#[test]
fn what_a_zone_of_a_primary_costs_beside_its_records_is_counted() {
    let _alone = nodens_testkit::alone();
    let count = 20_000_u32;
    let (before, counted) = (held().chunks, room::held());
    let primaries: Arc<[Primary]> = vec!["192.0.2.1:53".parse::<Primary>().unwrap()].into();
    let (tables, mut schedule) =
        ([ZoneTable::default(), ZoneTable::default()], Schedule::default());
    let zones: Vec<_> = (0..count)
        .map(|n| {
            let zone =
                SecondaryZone::new(name(&format!("h{n:08x}.example.com.")), primaries.clone());
            Arc::new(zone)
        })
        .collect();
    let mut members = Members::default();
    for zone in &zones {
        schedule.insert(zone.origin().clone(), Refresh::new(1));
        let id: Arc<[u8]> = Arc::from(zone.origin().as_wire());
        members.insert(zone.origin().clone(), (id, zone.clone()));
    }
    for table in &tables {
        table.update(|update| {
            for zone in &zones {
                update.replace(zone.origin().view(), zone.clone() as Arc<dyn Zone>);
            }
        });
    }
    let each = (held().chunks - before) / count as usize;
    let said = ((room::held() - counted) / u64::from(count)) as usize;
    eprintln!("a zone without records: {each} octets with what malloc adds, {said} are counted");
    // Who keeps it up to date has some hundreds more: itself, its catalog, and its label and groups there.
    assert!(each <= said && said < 2 * each, "{each} {said}");
    drop((zones, members, tables, schedule));
    assert_eq!(room::held(), counted);
}

#[test]
fn differences_that_are_kept_count() {
    let _alone = nodens_testkit::alone();
    let (before, old) = (room::held(), build(8));
    let zone = SecondaryZone::new(name("example.com."), Vec::new());
    zone.replace(old.clone(), &[]);
    let without = room::held();
    let new = change(&old, 1);
    let (from, to, removed) = (old.soa().clone(), new.soa().clone(), Packed::default());
    let mut added = Packed::default();
    let difference = Difference::between(&old, &new);
    difference.added.iter().for_each(|record| added.push(record.into()));
    let step = Step { from, to, removed, added };
    let octets = step.octets() as u64;
    let mut journal = Journal::new(1 << 20);
    journal.push(Arc::new(step));
    assert_eq!(room::held() - without, octets);
    drop((journal, zone));
    assert_eq!(room::held(), before);
}
