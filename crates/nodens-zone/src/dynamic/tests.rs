use super::*;
use crate::data::Edit;
use crate::update::Permission;
use crate::zone::Advance;
use nodens_wire::{Builder, Class, Flags, Opcode, Record, Section, Type};
use std::sync::atomic::{AtomicUsize, Ordering};

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn host(number: u32) -> Record {
    let owner = name(&format!("host-{number}.z."));
    Record { owner, rtype: Type::A, class: Class::IN, ttl: 5, rdata: number.to_be_bytes().to_vec() }
}

fn zone(hosts: u32) -> DynamicZone {
    let zone = name("z.");
    let soa = Soa::with(zone.view(), 5, (&zone, &zone), [1, 7200, 1800, 86400, 5]);
    let mut edit = Edit::new(zone.view(), Class::IN);
    edit.add(soa.record().into()).unwrap();
    (0..hosts).for_each(|number| _ = edit.add((&host(number)).into()).unwrap());
    DynamicZone::new(zone, None, edit.finish().unwrap(), &[])
}

type Answers = Arc<Mutex<Vec<(u32, Rcode)>>>;

/// Adds this host, or asks for it to be there if it is not added.
fn update(number: u32, adds: bool, answers: &Answers) -> Update {
    let mut message = Vec::new();
    let mut builder = Builder::new(&mut message, 7, Flags(0).with_opcode(Opcode::UPDATE));
    builder.question(name("z.").view(), Type::SOA, Class::IN);
    match adds {
        true => builder.push(Section::Authority, &host(number)).unwrap(),
        false => {
            let bare = Record { class: Class::ANY, ttl: 0, rdata: Vec::new(), ..host(number) };
            builder.push(Section::Answer, &bare).unwrap();
        }
    }
    let permissions = vec![Permission { key: name("key."), owner: None, types: None }];
    let (records_max, octets_max, update_records_max) = (10_000, 1 << 20, 10);
    let policy = Policy { permissions, records_max, octets_max, update_records_max };
    let answers = answers.clone();
    let reply = move |rcode| {
        lock(&answers).push((number, rcode));
        number.is_multiple_of(2)
    };
    Update {
        message,
        key: name("key."),
        policy: Arc::new(policy),
        is_awaited: Box::new(|| true),
        reply: Box::new(reply),
        worker: number as usize,
    }
}

/// Does what waits.
fn perform(
    zone: &DynamicZone,
    now_s: u64,
    mut save: impl FnMut(&Data, &Arc<Step>) -> Result<(), String>,
) -> Done {
    let (mut left, mut done) = (zone.take(), Done::default());
    while !left.is_empty() {
        let more = zone.perform(&mut left, now_s, || true, &mut save);
        done.errors.extend(more.errors);
        done.wake.extend(more.wake);
    }
    done
}

#[test]
fn updates_that_wait_make_one_version_which_is_kept_before_it_is_served() {
    let (zone, answers) = (zone(20), Answers::default());
    for (number, adds) in [(100, false), (100, true), (100, false), (101, true)] {
        zone.push(update(number, adds, &answers)).unwrap();
    }
    let mut saved = Vec::new();
    let done = perform(&zone, 0, |data, step| {
        assert_eq!(zone.served().load().as_ref().unwrap().soa().serial(), Serial(1));
        assert!(lock(&answers).is_empty());
        saved.push((data.soa().serial(), step.removed.len(), step.added.len()));
        Ok(())
    });
    assert_eq!(saved, [(Serial(3), 0, 2)]);
    assert_eq!((done.errors.len(), done.wake), (0, vec![100, 100, 100]));
    let rcodes: Vec<_> = lock(&answers).iter().map(|(_, rcode)| *rcode).collect();
    assert_eq!(rcodes, [Rcode::NXRRSET, Rcode::NOERROR, Rcode::NOERROR, Rcode::NOERROR]);
    // Secondaries get what has changed.
    let mut records = zone.since(Serial(1)).unwrap().records;
    let mut count = 0;
    while records.advance() == Advance::Record {
        count += 1;
    }
    assert_eq!((count, zone.soa().unwrap().serial()), (4, Serial(3)));
    assert!(zone.since(Serial(2)).is_none() && zone.version().is_some());
    assert_eq!(zone.data().unwrap().1, update::size(&zone.data().unwrap().0));
}

#[test]
fn what_cannot_be_kept_is_not_done_and_neither_is_what_depends_on_it() {
    let (zone, answers) = (zone(1), Answers::default());
    for (number, adds) in [(0, false), (7, true), (7, false), (0, true)] {
        zone.push(update(number, adds, &answers)).unwrap();
    }
    let done = perform(&zone, 0, |_, _| Err("the disk is full".to_owned()));
    assert_eq!(done.errors, ["UPDATE for z. failed: the disk is full"]);
    let rcodes: Vec<_> = lock(&answers).iter().map(|(_, rcode)| *rcode).collect();
    assert_eq!(rcodes, [Rcode::NOERROR, Rcode::SERVFAIL, Rcode::SERVFAIL, Rcode::SERVFAIL]);
    assert_eq!(zone.soa().unwrap().serial(), Serial(1));
    // An update that changes nothing has nothing to be kept.
    zone.push(update(0, true, &answers)).unwrap();
    perform(&zone, 0, |_, _| panic!("nothing has changed"));
    assert_eq!(lock(&answers).last(), Some(&(0, Rcode::NOERROR)));
}

#[test]
fn updates_that_are_not_awaited_any_more_are_not_done() {
    let (zone, answers) = (zone(1), Answers::default());
    let mut late = update(7, true, &answers);
    late.is_awaited = Box::new(|| false);
    zone.push(late).unwrap();
    zone.push(update(8, true, &answers)).unwrap();
    perform(&zone, 0, |_, _| Ok(()));
    assert_eq!(*lock(&answers), [(8, Rcode::NOERROR)]);
    assert_eq!(zone.soa().unwrap().serial(), Serial(2));
    assert!(zone.served().load().as_ref().unwrap().rrset(host(7).owner.view(), Type::A).is_none());
}

#[test]
fn no_more_updates_make_one_version_than_there_is_time_for() {
    let (zone, answers) = (zone(1), Answers::default());
    (0..5).for_each(|number| zone.push(update(number + 100, true, &answers)).unwrap());
    let (mut left, mut saved, mut looks) = (zone.take(), Vec::new(), 0);
    while !left.is_empty() {
        let answered = lock(&answers).len() as u64;
        let mut takes_more = || {
            looks += 1;
            looks % 2 == 1
        };
        let done = zone.perform(&mut left, 0, &mut takes_more, |_, step| {
            saved.push((answered, step.added.len()));
            Ok(())
        });
        assert!(done.errors.is_empty());
    }
    // What one version has is answered before the next one is begun.
    assert_eq!(saved, [(0, 2), (2, 2), (4, 1)]);
    assert_eq!(lock(&answers).len(), 5);
}

#[test]
fn what_nobody_awaits_any_more_is_not_kept() {
    let (zone, answers) = (zone(1), Answers::default());
    // Its client is told that it failed while the update is made.
    let late = |number: u32| {
        let looks = AtomicUsize::new(0);
        let is_awaited = move || looks.fetch_add(1, Ordering::Relaxed) == 0;
        Update { is_awaited: Box::new(is_awaited), ..update(number, true, &answers) }
    };
    zone.push(late(7)).unwrap();
    zone.push(late(9)).unwrap();
    perform(&zone, 0, |_, _| panic!("saved although its client had timed out"));
    assert_eq!(zone.soa().unwrap().serial(), Serial(1));
    assert!(lock(&answers).iter().all(|(_, rcode)| *rcode == Rcode::SERVFAIL));
    // One that is awaited has all of them kept.
    zone.push(late(7)).unwrap();
    zone.push(update(8, true, &answers)).unwrap();
    perform(&zone, 0, |_, _| Ok(()));
    assert_eq!(zone.soa().unwrap().serial(), Serial(3));
}

#[test]
fn each_version_is_later_than_the_one_before_it() {
    let (zone, answers) = (zone(1), Answers::default());
    let to_serial = |number: u32, serial: u32| {
        let mut update = update(number, true, &answers);
        let (origin, mut message) = (name("z."), Vec::new());
        let mut builder = Builder::new(&mut message, 7, Flags(0).with_opcode(Opcode::UPDATE));
        builder.question(origin.view(), Type::SOA, Class::IN);
        let soa = Soa::with(origin.view(), 5, (&origin, &origin), [serial, 7200, 1800, 86400, 5]);
        builder.push(Section::Authority, soa.record()).unwrap();
        update.message = message;
        update
    };
    const STEP: u32 = (1 << 31) - 1;
    for update in [to_serial(0, 1 + STEP), update(1, true, &answers), to_serial(2, STEP + STEP)] {
        zone.push(update).unwrap();
    }
    let mut saved = Vec::new();
    let done = perform(&zone, 0, |_, step| {
        saved.push((step.from.serial().0, step.to.serial().0));
        Ok(())
    });
    assert_eq!(saved, [(1, 1 + STEP), (1 + STEP, STEP + STEP)]);
    assert_eq!((done.errors.len(), done.wake), (0, vec![0, 2]));
    let rcodes: Vec<_> = lock(&answers).iter().map(|(_, rcode)| *rcode).collect();
    assert_eq!(rcodes, [Rcode::NOERROR; 3]);
}

#[test]
fn no_more_updates_wait_than_may() {
    let (zone, answers) = (zone(1), Answers::default());
    let woken = Arc::new(AtomicUsize::new(0));
    let count = woken.clone();
    zone.on_update(move || _ = count.fetch_add(1, Ordering::Relaxed));
    for number in 0..UPDATES_WAITING_MAX as u32 {
        zone.push(update(number, true, &answers)).unwrap();
    }
    assert!(zone.push(update(1, true, &answers)).is_err());
    assert_eq!(woken.load(Ordering::Relaxed), UPDATES_WAITING_MAX);
    assert_eq!(zone.take().len(), UPDATES_AT_ONCE);
    zone.push(update(1, true, &answers)).unwrap();
    while zone.has_updates() {
        let done = Done::failed(zone.take());
        assert!(done.errors.is_empty());
    }
    assert!(lock(&answers).iter().all(|(_, rcode)| *rcode == Rcode::SERVFAIL));
    // Few long messages are as much as many short ones.
    let mut long = update(1, true, &answers);
    long.message.resize(UPDATES_WAITING_OCTETS, 0);
    zone.push(long).unwrap();
    assert!(zone.push(update(1, true, &answers)).is_err());
}

#[test]
fn a_zone_is_known_by_its_database_as_long_as_it_is_in_use() {
    let known = Known::default();
    let path = Path::new("/none/db");
    let (data, _) = zone(1).data().unwrap();
    let zone = Arc::new(DynamicZone::new(name("z."), Some(path.to_owned()), data, &[]));
    known.add(&zone);
    assert!(known.get(path).is_some_and(|found| Arc::ptr_eq(&found, &zone)));
    assert!(known.get(Path::new("/none/other")).is_none());
    assert!(Arc::ptr_eq(&known.all()[0], &zone));
    drop(zone);
    assert!(known.get(path).is_none() && known.all().is_empty());
}

fn signer() -> Arc<Signer> {
    let (public, private) = (
        include_str!("../../testdata/dnssec/Kexample.org.+015+21968.key"),
        include_str!("../../testdata/dnssec/Kexample.org.+015+21968.private"),
    );
    let key = crate::dnssec::SigningKey::parse(public, private).unwrap();
    Arc::new(Signer::new(vec![key], crate::dnssec::Denial::Nsec3))
}

fn is_signed(zone: &DynamicZone, number: u32) -> bool {
    let (data, _) = zone.data().unwrap();
    let set = data.rrset(host(number).owner.view(), Type::A);
    set.is_some_and(|set| set.sigs().is_some())
}

#[test]
fn what_changes_while_a_zone_is_signed_as_a_whole_is_signed_too() {
    const NOW_S: u64 = 1_800_000_000;
    let (zone, answers, signer) = (zone(5), Answers::default(), signer());
    zone.wait_for_signatures();
    assert!(zone.soa().is_none() && zone.is_unready() && !zone.lacks_signer());
    let (of, size) = zone.data().unwrap();
    let data = signer.whole(of.clone(), NOW_S, &|| true).unwrap().data;
    let whole = Whole { of, data, signer: Some(signer.clone()) };
    zone.push(update(100, true, &answers)).unwrap();
    perform(&zone, NOW_S, |_, _| Ok(()));
    assert!(!is_signed(&zone, 100));
    // What is not kept is not shown.
    let failed = zone.turn_to(&whole, NOW_S, |_, _| Err("the disk is full".to_owned()));
    assert!(failed.errors.len() == 1 && zone.is_unready() && zone.signer().is_none());
    let done = zone.turn_to(&whole, NOW_S, |data, step| {
        assert!(data.is_signed() && step.added.len() > 10);
        Ok(())
    });
    assert!(done.errors.is_empty() && !zone.is_unready());
    assert_eq!(zone.soa().unwrap().serial(), Serial(3));
    assert!(is_signed(&zone, 100) && is_signed(&zone, 4));
    let (data, now) = zone.data().unwrap();
    assert!(signer.has_signed(&data));
    assert_eq!(now, update::size(&data));
    assert_eq!(now.records, size.records + 1, "what is made does not count");
    // Signatures and links are in the same version as the change.
    zone.push(update(101, true, &answers)).unwrap();
    let mut steps = Vec::new();
    perform(&zone, NOW_S, |_, step| {
        steps.push((step.removed.len(), step.added.len()));
        Ok(())
    });
    // Its address, two links, and the signatures of these and of the SOA record.
    assert_eq!((steps.as_slice(), is_signed(&zone, 101)), (&[(3, 7)][..], true));
    // Before they expire, others take their places.
    let late = NOW_S + 31 * 24 * 3600;
    let (due, has_more) = crate::dnssec::Sweep::of(&zone.data().unwrap().0).step(late);
    assert!(!due.is_empty() && !has_more);
    assert!(zone.renew(&due, late, |_, _| Ok(())).errors.is_empty());
    assert_eq!(zone.soa().unwrap().serial(), Serial(5));
    assert!(crate::dnssec::Sweep::of(&zone.data().unwrap().0).step(late).0.is_empty());
    let known = zone.signer();
    zone.set_signer(None);
    assert!(known.is_some() && zone.lacks_signer());
}
