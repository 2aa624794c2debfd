//! Members of a catalog for which there is no memory. In a binary of its own, because the memory of zones is that of the
//! whole process.

use nodens_core::log::{Record as LogRecord, Sink};
use nodens_net::Secondaries;
use nodens_testkit::eventually;
use nodens_wire::{Class, Name, Record, Type};
use nodens_zone::data::{Data, Edit, room};
use nodens_zone::limits::SECONDARY_OCTETS;
use nodens_zone::secondary::{Configured, Primary, SecondaryService, SecondaryZone};
use nodens_zone::{Soa, Zone};
use std::sync::{Arc, mpsc};

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// A catalog with so many members.
fn catalog(origin: &Name, members: usize) -> Data {
    let mut edit = Edit::new(origin.view(), Class::IN);
    let mut add = |owner: &str, rtype, rdata: &[u8]| {
        let owner = name(&format!("{owner}catalog.test."));
        let record = Record { owner, rtype, class: Class::IN, ttl: 0, rdata: rdata.to_vec() };
        edit.add((&record).into()).unwrap();
    };
    let soa = Soa::with(origin.view(), 0, (origin, origin), [1, 3600, 600, 604_800, 0]);
    add("", Type::SOA, &soa.record().rdata);
    add("", Type::NS, name("invalid.").as_wire());
    add("version.", Type::TXT, b"\x012");
    for n in 0..members {
        add(&format!("{n}.zones."), Type::PTR, name(&format!("z{n}.test.")).as_wire());
    }
    edit.finish().unwrap()
}

#[test]
fn members_for_which_there_is_no_memory_are_skipped_until_there_is_some_and_that_is_said_once() {
    let (origin, nowhere) = (name("catalog.test."), "127.0.0.1:1".parse::<Primary>().unwrap());
    let zone = Arc::new(SecondaryZone::new(origin.clone(), vec![nowhere]));
    zone.replace(catalog(&origin, 1000), &[]);
    zone.note_reached(1);
    let configured = Configured {
        zone: zone.clone(),
        catalog: Some(Vec::new()),
        key: None,
        store: None,
        groups: Vec::new(),
    };
    let service = SecondaryService { configured: vec![configured], ..SecondaryService::default() };
    service.zones.update(|update| update.replace(origin.view(), zone.clone() as Arc<dyn Zone>));
    let held = room::held();
    // A sixteenth is for something else.
    let most = |members| (held + members * SECONDARY_OCTETS + 50) * 16 / 15;
    room::set_most(most(100));
    let (sender, log) = mpsc::sync_channel(10_000);
    let start = || Secondaries::start(std::slice::from_ref(&service), Sink::new(sender.clone()));
    let first = start().unwrap();
    eventually("the members for which there is memory", || zone.members().len() == 100);
    eventually("the number of the others", || zone.refused().without_room == 900);
    let lines: Vec<_> = log.try_iter().collect();
    let said = lines.iter().filter(|line| {
        let wanted = "Skipped 900 member zones from catalog catalog.test.: there is no more memory";
        matches!(line, LogRecord::Line { text, .. } if text.contains(wanted))
    });
    assert_eq!(said.count(), 1);
    // Something else has freed memory for 200 more, and they begin by themselves.
    room::set_most(most(300));
    eventually("members for which there is memory now", || zone.members().len() == 300);
    drop(first);
    // Another configuration has more.
    room::set_most(u64::MAX);
    let second = start().unwrap();
    eventually("all members", || zone.members().len() == 1000);
    assert_eq!(zone.refused().without_room, 0);
    drop(second);
}
