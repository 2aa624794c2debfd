mod directives;
mod restart;

use super::*;
use crate::poll::Waker;
use crate::secondary::exchange::Order;
use crate::secondary::lanes::{Lanes, Task};
use nodens_core::log::Record as LogRecord;
use nodens_wire::{Class, Name, Record, Type};
use nodens_zone::Zone;
use nodens_zone::data::Edit;
use nodens_zone::limits::{REFRESHES_AT_ONCE, REFRESHES_UNHEARD};
use nodens_zone::secondary::{Group, Primary, SecondaryService};
use nodens_zone::{Serial, Soa};
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

thread_local! {
    /// Members whose fate was looked at.
    pub(super) static LOOKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn shared(text: &str) -> SharedName {
    name(text).into()
}

/// A zone with an NS record and these records besides, owners and PTR targets, or groups.
fn data(origin: &str, pointers: &[(&str, &str)]) -> Data {
    let origin = name(origin);
    let mut edit = Edit::new(origin.view(), Class::IN);
    let soa = Soa::with(origin.view(), 0, (&origin, &origin), [1, 3600, 600, 604_800, 0]);
    let record = |owner: Name, rtype: Type, rdata: &[u8]| Record {
        owner,
        rtype,
        class: Class::IN,
        ttl: 0,
        rdata: rdata.to_vec(),
    };
    let below = |owner: &str| name(&format!("{owner}.")).join(origin.view()).unwrap();
    let mut records = vec![
        soa.record().clone(),
        record(origin.clone(), Type::NS, name("invalid.").as_wire()),
        record(below("version"), Type::TXT, b"\x012"),
    ];
    let pointer = |(owner, to): &(&str, &str)| match owner.starts_with("group.") {
        true => record(below(owner), Type::TXT, &[&[to.len() as u8], to.as_bytes()].concat()),
        false => record(below(owner), Type::PTR, name(to).as_wire()),
    };
    records.extend(pointers.iter().map(pointer));
    records.iter().for_each(|record| _ = edit.add(record.into()).unwrap());
    edit.finish().unwrap()
}

struct Scene {
    keeper: Keeper,
    service: SecondaryService,
    log: Receiver<LogRecord>,
}

impl Scene {
    /// Two catalogs, of which the second accepts members in `example.`, and a zone.
    fn new() -> Self {
        let zone = |origin: &str, primary: &str| {
            Arc::new(SecondaryZone::new(name(origin), vec![primary.parse().unwrap()]))
        };
        let configured = |zone: &Arc<SecondaryZone>, catalog: Option<&[&str]>| {
            let catalog = catalog.map(|zones| zones.iter().map(|zone| name(zone)).collect());
            Configured { zone: zone.clone(), catalog, key: None, store: None, groups: Vec::new() }
        };
        let configured = vec![
            configured(&zone("one.", "127.0.0.1:1"), Some(&[])),
            configured(&zone("two.", "127.0.0.1:2"), Some(&["example."])),
            configured(&zone("zone.example.", "127.0.0.1:3"), None),
        ];
        Self::of(SecondaryService { configured, ..SecondaryService::default() })
    }

    fn of(service: SecondaryService) -> Self {
        Self::of_several(&[service])
    }

    /// With several directives, of which the first is the one that is looked at.
    fn of_several(services: &[SecondaryService]) -> Self {
        let (sender, log) = sync_channel(1000);
        let waker = Arc::new(Waker::new().unwrap());
        let service = services[0].clone();
        let keeper = Keeper::new(services, Sink::new(sender), waker, Arc::default()).unwrap();
        Self { keeper, service, log }
    }

    /// A turn that does not wait.
    fn step(&mut self) {
        self.keeper.waker.wake();
        self.keeper.turn();
    }

    /// A catalog becomes this.
    fn apply(&mut self, origin: &str, pointers: &[(&str, &str)]) {
        let data = data(origin, pointers);
        let mut configured = self.service.configured.iter();
        let zone = configured.find(|own| *own.zone.origin() == name(origin)).unwrap().zone.clone();
        self.keeper.apply_catalog(&zone, &data);
    }

    /// The member zones that are served.
    fn served(&self) -> String {
        let zones = self.service.zones.load();
        let candidates = ["a.example.", "b.example.", "c.", "zone.example."];
        let is_served = |zone: &&str| zones.get(name(zone).view()).is_some();
        candidates.into_iter().filter(is_served).collect::<Vec<_>>().join(" ")
    }

    fn zone(&self, origin: &str) -> Arc<SecondaryZone> {
        self.keeper.areas[0].zones[&shared(origin)].zone.clone()
    }

    /// The zone has come.
    fn fill(&self, origin: &str) {
        self.zone(origin).replace(data(origin, &[]), &[]);
    }

    fn has_data(&self, origin: &str) -> bool {
        self.zone(origin).soa().is_some()
    }

    fn said(&self, wanted: &str) -> bool {
        self.log.try_iter().any(|record| match record {
            LogRecord::Line { text, .. } => text.contains(wanted),
            _ => false,
        })
    }
}

#[test]
fn members_come_and_go_and_begin_anew_with_another_label() {
    let mut scene = Scene::new();
    scene.apply("one.", &[("1.zones", "a.example."), ("2.zones", "c.")]);
    assert_eq!(scene.served(), "a.example. c.");
    assert!(scene.said("Parsed catalog zone one. with 2 member zones: 2 added, 0 removed"));
    assert_eq!(scene.zone("c.").primaries(), ["127.0.0.1:1".parse().unwrap()]);
    scene.fill("a.example.");
    scene.apply("one.", &[("1.zones", "a.example."), ("3.zones", "b.example.")]);
    assert_eq!(scene.served(), "a.example. b.example.");
    assert!(
        scene.has_data("a.example.") && !scene.keeper.areas[0].zones.contains_key(&shared("c."))
    );
    scene.apply("one.", &[("9.zones", "a.example.")]);
    assert_eq!((scene.served().as_str(), scene.has_data("a.example.")), ("a.example.", false));
}

#[test]
fn members_of_a_group_come_from_its_primaries_and_keep_their_data_when_they_change_it() {
    let mut configured = Scene::new().service.configured[..1].to_vec();
    let primaries = vec!["127.0.0.1:9".parse().unwrap()];
    let folder = tempfile::tempdir().unwrap();
    let store = Some(folder.path().to_owned());
    configured[0].groups = vec![Group {
        name: b"far".as_slice().into(),
        primaries: primaries.into(),
        key: None,
        store,
    }];
    let mut scene = Scene::of(of(&configured));
    let port = |scene: &Scene, origin| scene.zone(origin).primaries()[0].address.port();
    let is_stored =
        |scene: &Scene, origin: &str| scene.keeper.areas[0].zones[&shared(origin)].store.is_some();
    let both = [("1.zones", "a.example."), ("2.zones", "c.")];
    scene.apply("one.", &[both[0], both[1], ("group.1.zones", "far"), ("group.2.zones", "other")]);
    assert_eq!((port(&scene, "a.example."), port(&scene, "c.")), (9, 1));
    assert!(is_stored(&scene, "a.example.") && !is_stored(&scene, "c."));
    scene.fill("a.example.");
    let before = scene.zone("a.example.");
    // The same again is no change.
    scene.apply("one.", &[both[0], both[1], ("group.1.zones", "far")]);
    assert!(Arc::ptr_eq(&before, &scene.zone("a.example.")));
    scene.apply("one.", &[both[0], both[1], ("group.2.zones", "far")]);
    assert_eq!((port(&scene, "a.example."), port(&scene, "c.")), (1, 9));
    assert!(scene.has_data("a.example.") && !is_stored(&scene, "a.example."));
    assert_eq!(scene.served(), "a.example. c.");
    // The next configuration has the group elsewhere.
    let catalog = configured[0].zone.clone();
    catalog.replace(data("one.", &[both[0], ("group.1.zones", "far")]), &[]);
    configured[0].groups[0].primaries = vec!["127.0.0.1:8".parse().unwrap()].into();
    let scene = Scene::of(of(&configured));
    assert_eq!((port(&scene, "a.example."), scene.has_data("a.example.")), (8, true));
}

/// Two catalogs whose members are kept in these folders, and those of the group `far` of the first in another.
fn stored_in(folders: [&Path; 3]) -> Vec<Configured> {
    let mut configured = Scene::new().service.configured[..2].to_vec();
    let [one, two, far] = folders.map(|folder| Some(folder.to_owned()));
    (configured[0].store, configured[1].store) = (one, two);
    let (name, primaries) = (b"far".as_slice().into(), vec!["127.0.0.1:9".parse().unwrap()].into());
    configured[0].groups = vec![Group { name, primaries, key: None, store: far }];
    configured
}

#[test]
fn a_member_that_comes_from_elsewhere_is_on_the_disk_all_the_time() {
    let listed = ("1.zones", "a.example.");
    for (is_coo, is_same) in [(false, true), (false, false), (true, true), (true, false)] {
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let old = folders[0].path();
        let new = if is_same { old } else { folders[1].path() };
        let mut scene = Scene::of(of(&stored_in([if is_coo { new } else { old }, old, new])));
        let before = if is_coo { "two." } else { "one." };
        scene.apply(before, &[listed]);
        scene.fill("a.example.");
        let wanted = Duration::from_secs(500_000);
        let reached = crate::clock::before(crate::clock::mono_ns(), wanted);
        scene.zone("a.example.").note_reached(reached);
        let kept = scene.keeper.areas[0].zones.get_mut(&shared("a.example.")).unwrap();
        kept.store.as_mut().unwrap().save(&data("a.example.", &[]), &[]).unwrap();
        let file = |folder: &Path| std::fs::metadata(folder.join("a.example.zone"));
        let inode = std::os::unix::fs::MetadataExt::ino(&file(old).unwrap());
        if is_coo {
            scene.apply("two.", &[listed, ("coo.1.zones", "one.")]);
            scene.apply("one.", &[listed]);
        } else {
            scene.apply("one.", &[listed, ("group.1.zones", "far")]);
        }
        let port = scene.zone("a.example.").primaries()[0].address.port();
        assert_eq!(port, if is_coo { 1 } else { 9 });
        assert_eq!((file(old).is_ok(), file(new).is_ok()), (is_same, true), "{is_coo}");
        if is_same {
            assert_eq!(std::os::unix::fs::MetadataExt::ino(&file(new).unwrap()), inode);
        } else {
            // It is as old as it was.
            let age = file(new).unwrap().modified().unwrap().elapsed().unwrap();
            assert!(age.abs_diff(wanted) < Duration::from_secs(20), "{age:?}");
        }
        // The next differences are appended to it.
        let kept = &scene.keeper.areas[0].zones[&shared("a.example.")];
        let again = SecondaryZone::new(name("a.example."), Vec::new());
        again.replace(data("a.example.", &[]), &[]);
        kept.store.as_ref().unwrap().leave_to(&again);
        assert!(again.take_stored().is_some());
    }
}

#[test]
fn a_member_that_cannot_be_stored_elsewhere_keeps_its_file() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [old, new] = folders.each_ref().map(|folder| folder.path());
    let mut scene = Scene::of(of(&stored_in([old, old, new])));
    scene.apply("one.", &[("1.zones", "a.example.")]);
    scene.fill("a.example.");
    scene.zone("a.example.").note_reached(crate::clock::mono_ns().cast_signed());
    let kept = scene.keeper.areas[0].zones.get_mut(&shared("a.example.")).unwrap();
    kept.store.as_mut().unwrap().save(&data("a.example.", &[]), &[]).unwrap();
    // What it would be written to is a folder.
    std::fs::create_dir(new.join("a.example.new")).unwrap();
    scene.apply("one.", &[("1.zones", "a.example."), ("group.1.zones", "far")]);
    assert_eq!(scene.zone("a.example.").primaries()[0].address.port(), 9);
    assert!(scene.said("Failed to store zone a.example.") && old.join("a.example.zone").exists());
    assert!(!new.join("a.example.zone").exists());
}

#[test]
fn a_catalog_that_is_none_changes_nothing() {
    let mut scene = Scene::new();
    scene.apply("one.", &[("1.zones", "a.example.")]);
    scene.apply("one.", &[("1.zones", "a.example."), ("1.zones", "b.example.")]);
    assert_eq!(scene.served(), "a.example.");
    assert!(scene.said("Failed to take up catalog zone one.: catalog member 1.zones.one. must"));
    // A zone that is not said to be one is none.
    scene.apply("zone.example.", &[("1.zones", "b.example.")]);
    assert_eq!(scene.served(), "a.example.");
}

#[test]
fn of_many_members_that_exist_already_the_log_names_a_few() {
    let mut scene = Scene::new();
    let members: Vec<_> =
        (10..25).map(|n| (format!("m{n}.zones"), format!("z{n}.example."))).collect();
    let members: Vec<_> = members.iter().map(|(id, to)| (id.as_str(), to.as_str())).collect();
    scene.apply("one.", &members);
    scene.apply("two.", &members[..members.len() - 1]);
    assert!(scene.said("exist already: z10.example. z11.example. "));
    // Those that are new.
    scene.apply("two.", &members);
    assert!(scene.said("exist already: z24.example."));
    assert_eq!(scene.service.configured[1].zone.refused().clashing, members.len());
    let mut scene = Scene::new();
    scene.apply("one.", &members);
    scene.apply("two.", &members);
    assert!(scene.said("z19.example. and 5 others"));
}

#[test]
fn members_elsewhere_and_those_that_exist_already_are_skipped() {
    let mut scene = Scene::new();
    scene.apply(
        "two.",
        &[("1.zones", "c."), ("2.zones", "b.example."), ("3.zones", "zone.example.")],
    );
    assert_eq!(scene.served(), "b.example.");
    assert!(scene.said("Skipped 1 member zones from catalog two.: outside configured"));
    scene.apply("one.", &[("1.zones", "b.example.")]);
    assert!(scene.said("exist already: b.example."));
    assert_eq!(scene.zone("b.example.").primaries(), ["127.0.0.1:2".parse().unwrap()]);
    // It is the first one's to remove.
    scene.apply("one.", &[]);
    assert_eq!(scene.served(), "b.example.");
    scene.apply("two.", &[]);
    assert_eq!(scene.served(), "");
}

#[test]
fn a_member_changes_hands_if_its_catalog_says_so_and_keeps_its_data_if_its_label_stays() {
    for (label, keeps) in [("1.zones", true), ("2.zones", false)] {
        let mut scene = Scene::new();
        scene.apply("two.", &[("1.zones", "a.example.")]);
        scene.fill("a.example.");
        scene.apply("two.", &[("1.zones", "a.example."), ("coo.1.zones", "one.")]);
        scene.apply("one.", &[(label, "a.example.")]);
        assert_eq!(scene.zone("a.example.").primaries(), ["127.0.0.1:1".parse().unwrap()]);
        assert_eq!(scene.has_data("a.example."), keeps);
        scene.apply("two.", &[]);
        assert_eq!(scene.served(), "a.example.");
        scene.apply("one.", &[]);
        assert_eq!(scene.served(), "");
    }
}

#[test]
fn members_outlive_a_reload() {
    let mut scene = Scene::new();
    let pointers = [("1.zones", "a.example.")];
    let catalog = scene.service.configured[0].zone.clone();
    catalog.replace(data("one.", &pointers), &[]);
    scene.apply("one.", &pointers);
    scene.fill("a.example.");
    let configured = scene.service.configured.clone();
    let scene = Scene::of(SecondaryService { configured, ..SecondaryService::default() });
    assert_eq!((scene.served().as_str(), scene.has_data("a.example.")), ("a.example.", true));
}

fn of(configured: &[Configured]) -> SecondaryService {
    SecondaryService { configured: configured.to_vec(), ..SecondaryService::default() }
}

#[test]
fn a_member_that_another_catalog_has_as_well_is_its_once_the_first_drops_it() {
    let mut scene = Scene::new();
    scene.apply("one.", &[("1.zones", "a.example.")]);
    scene.apply("two.", &[("1.zones", "a.example.")]);
    assert!(scene.said("exist already: a.example."));
    scene.apply("one.", &[]);
    assert_eq!(scene.served(), "a.example.");
    assert_eq!(scene.zone("a.example.").primaries(), ["127.0.0.1:2".parse().unwrap()]);
}

#[test]
fn a_member_with_another_label_does_not_begin_with_what_is_stored_of_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let mut configured = Scene::new().service.configured[..1].to_vec();
    configured[0].store = Some(folder.path().to_owned());
    let mut scene = Scene::of(of(&configured));
    scene.apply("one.", &[("1.zones", "a.example.")]);
    scene.fill("a.example.");
    let path = folder.path().join("a.example.zone");
    let kept = scene.keeper.areas[0].zones.get_mut(&shared("a.example.")).unwrap();
    kept.store.as_mut().unwrap().save(&data("a.example.", &[]), &[]).unwrap();
    assert!(path.exists());
    scene.apply("one.", &[("9.zones", "a.example.")]);
    assert!(!scene.has_data("a.example.") && !path.exists());
}

#[test]
fn what_is_on_its_way_for_a_member_that_goes_is_given_up() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let primary = listener.local_addr().unwrap();
    let mut configured = Scene::new().service.configured[..1].to_vec();
    configured[0].zone = Arc::new(SecondaryZone::new(name("one."), vec![primary.into()]));
    let mut scene = Scene::of(of(&configured));
    scene.apply("one.", &[("1.zones", "a.example.")]);
    scene.keeper.turn();
    let count = |scene: &Scene| scene.keeper.exchanges.iter().count();
    assert_eq!(count(&scene), 2);
    scene.apply("one.", &[("9.zones", "a.example.")]);
    assert_eq!(count(&scene), 1);
    scene.keeper.turn();
    scene.apply("one.", &[]);
    assert_eq!(count(&scene), 1);
}

#[test]
fn what_came_while_the_thread_was_busy_is_read_before_a_primary_is_given_up() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let primary = listener.local_addr().unwrap();
    let mut configured = Scene::new().service.configured[2..].to_vec();
    configured[0].zone = Arc::new(SecondaryZone::new(name("zone.example."), vec![primary.into()]));
    let mut scene = Scene::of(of(&configured));
    scene.keeper.turn();
    let (mut stream, _) = listener.accept().unwrap();
    std::io::Write::write_all(&mut stream, &[0]).unwrap();
    let longest = crate::limits::PRIMARY_SILENCE_MAX.as_nanos() as u64;
    let past = crate::clock::mono_ns() - longest - 1;
    scene.keeper.exchanges.iter_mut().for_each(|(_, exchange)| exchange.heard_ns = past);
    scene.keeper.turn();
    assert_eq!(scene.keeper.exchanges.iter().count(), 1);
    // Nothing more has come.
    scene.keeper.exchanges.iter_mut().for_each(|(_, exchange)| exchange.heard_ns = past);
    scene.keeper.turn();
    assert!(scene.said("timed out") && scene.keeper.exchanges.iter().count() == 0);
}

/// Zones of these names that all have these primaries.
fn scene_of(names: &[&str], primaries: &[std::net::SocketAddr]) -> Scene {
    let configured = names.iter().map(|origin| {
        let primaries: Vec<_> = primaries.iter().copied().map(Primary::from).collect();
        let zone = Arc::new(SecondaryZone::new(name(origin), primaries));
        Configured { zone, catalog: None, key: None, store: None, groups: Vec::new() }
    });
    Scene::of(of(&configured.collect::<Vec<_>>()))
}

#[test]
fn a_primary_that_says_nothing_is_passed_over_for_other_zones_whoever_sends_notify() {
    let listen = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (silent, good) = (listen(), listen());
    let addresses = [&silent, &good].map(|listener| listener.local_addr().unwrap());
    let mut scene = scene_of(&["a.example."], &addresses);
    scene.keeper.turn();
    let asked = |scene: &Scene| {
        let all = scene.keeper.exchanges.iter();
        all.map(|(_, exchange)| exchange.order.primary.address).collect::<Vec<_>>()
    };
    assert_eq!(asked(&scene), [addresses[0]]);
    // The connection is made, and nothing comes.
    let past = crate::clock::mono_ns() - crate::limits::PRIMARY_SILENCE_MAX.as_nanos() as u64 - 1;
    scene.keeper.exchanges.iter_mut().for_each(|(_, exchange)| exchange.heard_ns = past);
    scene.keeper.turn();
    assert!(scene.said("timed out"));
    scene.step();
    assert_eq!(asked(&scene), [addresses[1]]);
    let another = |scene: &mut Scene, origin: &str| {
        let primaries = scene.zone("a.example.").shared_primaries().clone();
        scene.keeper.keep(0, Arc::new(SecondaryZone::new(name(origin), primaries)), None);
        let before = asked(scene).len();
        while asked(scene).len() == before {
            scene.step();
        }
        asked(scene)[before]
    };
    assert_eq!(another(&mut scene, "b.example."), addresses[1]);
    // The first NOTIFY has one zone ask it, those that follow none.
    let hint = |scene: &mut Scene| {
        let zone = scene.zone("b.example.");
        scene.service.zones.update(|all| all.replace(zone.origin().view(), zone.clone()));
        scene.service.notices.note(name("b.example."), 0, None);
        scene.step();
    };
    hint(&mut scene);
    assert_eq!(another(&mut scene, "c.example."), addresses[0]);
    hint(&mut scene);
    assert_eq!(another(&mut scene, "d.example."), addresses[1]);
}

#[test]
fn one_primary_has_a_part_of_all_exchanges_and_its_zones_wait_for_each_other() {
    let listen = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (slow, other) = (listen(), listen());
    let [slow, other] = [&slow, &other].map(|listener| listener.local_addr().unwrap());
    let names: Vec<_> = (0..200).map(|n| format!("z{n}.")).collect();
    let mut scene = scene_of(&names.iter().map(String::as_str).collect::<Vec<_>>(), &[slow]);
    scene.step();
    let zone = SecondaryZone::new(name("zz.other."), vec![other.into()]);
    scene.keeper.keep(0, Arc::new(zone), None);
    let asked = |scene: &Scene| {
        let of = |address| {
            let all = scene.keeper.exchanges.iter();
            all.filter(|(_, exchange)| exchange.order.primary.address == address).count()
        };
        (of(slow), of(other))
    };
    scene.step();
    assert_eq!(asked(&scene), (REFRESHES_UNHEARD, 1));
    // The next ones follow those that fail.
    for _ in 0..=200 / REFRESHES_UNHEARD {
        let past = crate::clock::mono_ns() - 60_000_000_000;
        scene.keeper.exchanges.iter_mut().for_each(|(_, exchange)| exchange.heard_ns = past);
        scene.step();
        scene.step();
    }
    let failed = |origin: &String| scene.zone(origin).failure().is_some();
    assert_eq!(names.iter().filter(|origin| failed(origin)).count(), 200);
}

#[test]
fn primaries_that_say_nothing_leave_room_for_those_that_answer() {
    let mut lanes = Lanes::default();
    let way = |host: usize| (0, format!("192.0.2.{host}:53").parse().unwrap());
    let all =
        |lanes: &mut Lanes, way| std::iter::from_fn(|| lanes.begin(way, 0).then_some(())).count();
    for silent in 1..=12 {
        assert_eq!(all(&mut lanes, way(silent)), REFRESHES_UNHEARD);
    }
    let left = REFRESHES_AT_ONCE - 12 * REFRESHES_UNHEARD;
    lanes.heard(way(100));
    assert_eq!(all(&mut lanes, way(100)), left / 2);
    lanes.heard(way(101));
    assert_eq!(all(&mut lanes, way(101)), left / 4);
    // Those of another server block have their own.
    assert_eq!(all(&mut lanes, (1, way(1).1)), REFRESHES_UNHEARD);
    // It says nothing any more.
    lanes.count(std::iter::once((way(100), false)));
    lanes.release(way(100).1);
    assert_eq!(all(&mut lanes, way(100)), REFRESHES_UNHEARD - 1);
}

#[test]
fn zones_wait_while_there_is_no_port_for_a_connection() {
    use crate::limits::{PORTS_PAUSE, PORTS_PAUSES_MAX};
    let (mut lanes, way) = (Lanes::default(), (0, "192.0.2.1:53".parse().unwrap()));
    let mut schedule = nodens_zone::refresh::Schedule::default();
    schedule.insert(name("a."), nodens_zone::refresh::Refresh::new(1));
    let (zone, action, token) = schedule.poll(0).unwrap();
    let pause = PORTS_PAUSE.as_nanos() as u64;
    let task = || Task { area: 0, zone: zone.clone(), action, token };
    for turn in 0..u64::from(PORTS_PAUSES_MAX) {
        let now = turn * pause;
        assert!(lanes.begin(way, now) && lanes.pause(way, now) && !lanes.begin(way, now));
        lanes.wait(way, task());
        lanes.count(std::iter::empty());
        assert!(lanes.next(now, |_| true).is_none());
        assert_eq!(lanes.next_deadline(|_| true), Some(now + pause));
        assert!(lanes.next(now + pause, |_| false).is_none());
        assert!(lanes.next(now + pause, |_| true).is_some());
    }
    // It may be that there will never be one.
    let now = u64::from(PORTS_PAUSES_MAX) * pause;
    assert!(!lanes.pause(way, now));
    lanes.begun(way, true);
    assert!(lanes.pause(way, now));
}

#[test]
fn very_many_zones_are_asked_for_in_several_turns() {
    // There is no way to that address.
    let nowhere = "255.255.255.255:53".parse().unwrap();
    let count = crate::limits::BEGUN_IN_A_ROW + 100;
    let names: Vec<_> = (0..count).map(|n| format!("z{n}.")).collect();
    let mut scene = scene_of(&names.iter().map(String::as_str).collect::<Vec<_>>(), &[nowhere]);
    let failed = |scene: &Scene| {
        names.iter().filter(|origin| scene.zone(origin).failure().is_some()).count()
    };
    scene.step();
    assert_eq!(failed(&scene), crate::limits::BEGUN_IN_A_ROW);
    scene.step();
    assert_eq!(failed(&scene), count);
}

/// A query from the first connection that waits.
fn query(listener: &std::net::TcpListener) -> (std::net::TcpStream, nodens_wire::Message) {
    let (mut stream, _) = listener.accept().unwrap();
    let query = nodens_wire::framing::read_message(&mut stream).unwrap();
    (stream, nodens_wire::Message::parse(&query).unwrap())
}

#[test]
fn silence_instead_of_differences_is_followed_by_a_query_for_the_whole_zone() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut configured = Scene::new().service.configured[2..].to_vec();
    let origin = name("zone.example.");
    let zone =
        Arc::new(SecondaryZone::new(origin.clone(), vec![listener.local_addr().unwrap().into()]));
    zone.replace(data("zone.example.", &[]), &[]);
    zone.note_reached(crate::clock::mono_ns().cast_signed());
    configured[0].zone = zone;
    let mut scene = Scene::of(of(&configured));
    scene.keeper.turn();
    let (mut stream, asked) = query(&listener);
    let mut out = Vec::new();
    let flags = nodens_wire::Flags(0).reply().with(nodens_wire::Flags::AA, true);
    let mut builder = nodens_wire::Builder::new(&mut out, asked.id, flags);
    builder.question(origin.view(), Type::SOA, Class::IN);
    let soa = Soa::with(origin.view(), 0, (&origin, &origin), [2, 3600, 600, 604_800, 0]);
    builder.push(nodens_wire::Section::Answer, soa.record()).unwrap();
    let framed = nodens_wire::framing::framed(&out);
    std::io::Write::write_all(&mut stream, &framed).unwrap();
    let asks_for = |scene: &Scene, qtype| {
        let mut all = scene.keeper.exchanges.iter();
        all.any(|(_, exchange)| exchange.incoming().is_some_and(|i| i.qtype() == qtype))
    };
    while !asks_for(&scene, Type::IXFR) {
        scene.keeper.turn();
    }
    let longest = crate::limits::PRIMARY_SILENCE_MAX.as_nanos() as u64;
    let past = crate::clock::mono_ns() - longest - 1;
    scene.keeper.exchanges.iter_mut().for_each(|(_, exchange)| exchange.heard_ns = past);
    scene.keeper.turn();
    assert!(scene.said("timed out, asking for AXFR"));
    assert!(asks_for(&scene, Type::AXFR));
}

#[test]
fn a_catalog_that_was_not_taken_up_is_said_to_be_until_another_version_is() {
    let mut scene = Scene::new();
    let zone = scene.zone("one.");
    let mut edit = data("one.", &[]).edit();
    assert!(edit.remove_name(name("version.one.").view()));
    let broken = edit.finish().unwrap();
    scene.keeper.apply_catalog(&zone, &broken);
    let schedule = &mut scene.keeper.areas[0].schedule;
    let (_, _, token) = std::iter::from_fn(|| schedule.poll(u64::MAX / 2))
        .find(|(origin, _, _)| *origin == name("one."))
        .unwrap();
    let primary = zone.primaries()[0].clone();
    let order = Order { area: 0, zone: shared("one."), primary, token, key: None };
    for _ in 0..2 {
        assert!(zone.failure().unwrap().contains("not taken up as a catalog"));
        scene.keeper.recovered(&order, Serial(1));
    }
    scene.apply("one.", &[("1.zones", "c.")]);
    assert_eq!(zone.failure(), None);
    scene.keeper.recovered(&order, Serial(2));
    assert_eq!((zone.failure(), scene.served().as_str()), (None, "c."));
}

/// Zones of the next configuration, in which catalogs stand in this order, as the core makes it.
fn next(configured: Vec<Configured>) -> SecondaryService {
    let service = SecondaryService { configured, ..SecondaryService::default() };
    for own in &service.configured {
        for (_, zone) in own.zone.members().values() {
            for table in [&service.zones, &service.handed_on] {
                table.update(|update| _ = update.add(zone.origin().view(), zone.clone()));
            }
        }
    }
    service
}

#[test]
fn members_outlive_a_reload_with_a_catalog_that_is_broken_or_has_expired() {
    for is_expired in [true, false] {
        let mut scene = Scene::new();
        scene.apply("one.", &[("1.zones", "a.example."), ("2.zones", "c.")]);
        scene.fill("a.example.");
        let catalog = scene.service.configured[0].zone.clone();
        match is_expired {
            true => catalog.expire(),
            false => catalog.replace(data("one.", &[("1.zones", "a."), ("1.zones", "b.")]), &[]),
        }
        let configured = scene.service.configured.clone();
        drop(scene);
        let mut scene = Scene::of(next(configured));
        assert_eq!(scene.said("Failed to take up catalog zone one."), !is_expired);
        assert_eq!(scene.served(), "a.example. c.");
        // They are kept up to date.
        assert!(scene.has_data("a.example.") && !scene.has_data("c."));
        let next = scene.keeper.areas[0].schedule.times(&shared("c.")).0;
        assert!(next.is_some(), "no query for the serial is due");
        scene.apply("one.", &[("2.zones", "c.")]);
        assert_eq!(scene.served(), "c.");
    }
}

#[test]
fn a_member_does_not_change_hands_by_a_reload() {
    let mut scene = Scene::new();
    let both = [("1.zones", "a.example.")];
    scene.apply("two.", &both);
    scene.fill("a.example.");
    scene.apply("one.", &both);
    for (number, zone) in [(0, "one."), (1, "two.")] {
        scene.service.configured[number].zone.replace(data(zone, &both), &[]);
    }
    let configured = scene.service.configured.clone();
    drop(scene);
    let mut scene = Scene::of(next(configured));
    assert_eq!(scene.zone("a.example.").primaries(), ["127.0.0.1:2".parse().unwrap()]);
    assert!(scene.has_data("a.example."));
    scene.apply("two.", &[]);
    assert_eq!(scene.zone("a.example.").primaries(), ["127.0.0.1:1".parse().unwrap()]);
}

#[test]
fn a_member_that_two_catalogs_list_changes_hands_as_soon_as_its_own_says_so() {
    let mut scene = Scene::new();
    let listed = ("1.zones", "a.example.");
    scene.apply("two.", &[listed]);
    scene.fill("a.example.");
    scene.apply("one.", &[listed, ("coo.1.zones", "two.")]);
    scene.apply("two.", &[listed, ("coo.1.zones", "one.")]);
    assert_eq!(scene.zone("a.example.").primaries(), ["127.0.0.1:1".parse().unwrap()]);
    assert!(scene.has_data("a.example."));
    let zones = [0, 1].map(|number| scene.service.configured[number].zone.clone());
    assert_eq!(zones.each_ref().map(|zone| zone.members().len()), [1, 0]);
    assert_eq!(zones.each_ref().map(|zone| zone.refused().clashing), [0, 1]);
    scene.apply("two.", &[]);
    assert_eq!((scene.served().as_str(), zones[1].refused().clashing), ("a.example.", 0));
}

#[test]
fn what_another_directive_of_the_block_has_is_no_members() {
    let mut scene = Scene::new();
    let table = scene.service.handed_on.clone();
    table.update(|update| {
        update.replace(name("c.").view(), Arc::new(nodens_zone::data::Served::default()));
    });
    scene.apply("one.", &[("1.zones", "c."), ("2.zones", "a.example.")]);
    assert_eq!(scene.served(), "a.example.");
    assert!(scene.said("exist already: c."));
    assert!(table.load().get(name("c.").view()).is_some_and(|zone| zone.as_secondary().is_none()));
}

#[test]
fn a_member_that_went_while_a_configuration_was_made_is_not_answered_for() {
    let mut scene = Scene::new();
    scene.apply("one.", &[("1.zones", "a.example."), ("2.zones", "c.")]);
    let service = next(scene.service.configured.clone());
    scene.apply("one.", &[("2.zones", "c.")]);
    let scene = Scene::of(service);
    assert_eq!(scene.served(), "c.");
}

#[test]
fn a_change_costs_what_has_changed() {
    let mut scene = Scene::new();
    let members: Vec<_> =
        (0..1000).map(|n| (format!("m{n}.zones"), format!("z{n}.example."))).collect();
    let mut all: Vec<_> = members.iter().map(|(id, to)| (id.as_str(), to.as_str())).collect();
    scene.apply("one.", &all);
    // They all clash, which has to be looked at once.
    scene.apply("two.", &all);
    LOOKS.set(0);
    all.push(("new.zones", "a.example."));
    scene.apply("one.", &all);
    assert_eq!((LOOKS.take(), scene.served().as_str()), (1, "a.example."));
    all.swap_remove(3);
    scene.apply("one.", &all);
    // One looks at it because it is gone, the other because it is free.
    assert_eq!(LOOKS.take(), 2);
    scene.apply("two.", &all);
    assert_eq!(LOOKS.take(), 2);
    let kept = scene.keeper.areas[0].zones.len();
    assert_eq!((kept, scene.service.configured[1].zone.refused().clashing), (1003, 1000));
}
