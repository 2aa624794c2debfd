//! Two processes with one folder, as in a hand-over.

use super::*;
use crate::limits::STORE_LOCK_INTERVAL;
use crate::secondary::store::Store;
use nodens_zone::data::Edit;
use nodens_zone::journal::{Packed, Step};
use std::fs::File;

/// The version that the folder has, with how many records.
fn stored(folder: &std::path::Path) -> Option<(u32, u64)> {
    let zone = SecondaryZone::new(zone(), Vec::new());
    let found = Store::new(folder, &zone).load(&zone).unwrap()?;
    Some((found.data().soa().serial().0, found.data().records()))
}

fn until_stored(folder: &std::path::Path, wanted: (u32, u64)) {
    let since = Instant::now();
    while stored(folder) != Some(wanted) {
        assert!(since.elapsed() < PATIENCE, "{:?} instead of {wanted:?}", stored(folder));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_folder_is_written_by_one_process_and_read_by_its_successor() {
    let folder = tempfile::tempdir().unwrap();
    let (first, asked_of_first) = primary(|_, _| Reaction::Records(whole(1, &[1])));
    let predecessor = run_stored(&[first], folder.path());
    predecessor.until(Some(1));
    until_stored(folder.path(), (1, 2));
    let (second, asked) = primary(|_, _| Reaction::Records(whole(2, &[1, 2])));
    let successor = run_stored(&[second], folder.path());
    // It begins with what the predecessor has stored, and goes on from there.
    successor.until(Some(2));
    assert!(asked.recv().unwrap().1 != Type::AXFR, "nothing was restored");
    while asked_of_first.try_recv().is_ok() {}
    // Both look at their primaries meanwhile.
    for asked in [&asked, &asked_of_first] {
        asked.recv_timeout(PATIENCE).unwrap();
    }
    assert_eq!(stored(folder.path()), Some((1, 2)));
    drop(predecessor);
    until_stored(folder.path(), (2, 3));
    successor.until_said("the other process has left it");
    assert_eq!(successor.lines(), [""; 0]);
}

#[test]
fn what_is_stored_is_there_before_the_primary_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let (good, _asked) = primary(|_, _| Reaction::Records(whole(7, &[1, 2])));
    let mut running = run_stored(&[good], folder.path());
    running.until(Some(7));
    until_stored(folder.path(), (7, 3));
    running.secondaries = None;
    let gone = nodens_testkit::free_address();
    let again = run_stored(&[gone], folder.path());
    let since = Instant::now();
    while !again.service.restoring.is_done() {
        assert!(since.elapsed() < PATIENCE);
        std::thread::yield_now();
    }
    assert_eq!(again.zone.soa().map(|soa| soa.serial().0), Some(7));
}

/// A keeper whose zones are kept in a folder.
fn keeper_of(zones: &[Arc<SecondaryZone>], folder: &std::path::Path) -> Keeper {
    let configured = |zone: &Arc<SecondaryZone>| {
        let (zone, store) = (zone.clone(), Some(folder.to_owned()));
        Configured { zone, catalog: None, key: None, store, groups: Vec::new() }
    };
    keeper_with(zones.iter().map(configured).collect())
}

fn keeper_with(configured: Vec<Configured>) -> Keeper {
    keeper_of_blocks(vec![configured])
}

fn keeper_of_blocks(blocks: Vec<Vec<Configured>>) -> Keeper {
    let service = |configured| SecondaryService { configured, ..SecondaryService::default() };
    let services: Vec<SecondaryService> = blocks.into_iter().map(service).collect();
    let (sender, _log) = sync_channel(1000);
    let waker = Arc::new(Waker::new().unwrap());
    Keeper::new(&services, Sink::new(sender), waker, Arc::default()).unwrap()
}

fn version(serial: u32, hosts: &[u8]) -> nodens_zone::data::Data {
    data_of(&whole(serial, hosts))
}

fn data_of(records: &[Record]) -> nodens_zone::data::Data {
    let mut edit = Edit::new(zone().view(), Class::IN);
    records.iter().for_each(|record| _ = edit.add(record.into()).unwrap());
    edit.finish().unwrap()
}

#[test]
fn what_the_predecessor_has_stored_last_is_served_and_not_replaced_by_less() {
    for (read, last, wanted) in [(Some(9), 10, 10), (None, 10, 10), (Some(9), 8, 9)] {
        let folder = tempfile::tempdir().unwrap();
        let primaries = || vec!["127.0.0.1:1".parse().unwrap()];
        let predecessor = SecondaryZone::new(zone(), primaries());
        let mut store = Store::new(folder.path(), &predecessor);
        if let Some(serial) = read {
            store.save(&version(serial, &[1]), &[]).unwrap();
        }
        let lock = File::create(folder.path().join("lock")).unwrap();
        lock.try_lock().unwrap();
        let zone = Arc::new(SecondaryZone::new(zone(), primaries()));
        let mut keeper = keeper_of(std::slice::from_ref(&zone), folder.path());
        assert_eq!(zone.soa().map(|soa| soa.serial().0), read);
        assert!(keeper.take_folders().is_some());
        store.save(&version(last, &[1, 2]), &[]).unwrap();
        drop(lock);
        std::thread::sleep(STORE_LOCK_INTERVAL);
        assert_eq!(keeper.take_folders(), None);
        assert_eq!(zone.soa().map(|soa| soa.serial().0), Some(wanted), "{read:?} {last}");
        assert_eq!(stored(folder.path()).map(|(serial, _)| serial), Some(wanted));
        let (_, expires) = keeper.areas[0].schedule.times(zone.origin());
        assert!(expires.is_some());
    }
}

#[test]
fn a_version_that_is_no_catalog_does_not_replace_what_the_predecessor_has_stored() {
    for (last, wanted) in [(8, 9), (10, 10)] {
        let folder = tempfile::tempdir().unwrap();
        let lock = File::create(folder.path().join("lock")).unwrap();
        lock.try_lock().unwrap();
        let zone = Arc::new(SecondaryZone::new(zone(), vec!["127.0.0.1:1".parse().unwrap()]));
        let (catalog, store) = (Some(Vec::new()), Some(folder.path().to_owned()));
        let configured =
            Configured { zone: zone.clone(), catalog, key: None, store, groups: Vec::new() };
        let mut keeper = keeper_with(vec![configured]);
        let of = |serial, version: &[u8]| data_of(&super::catalog(serial, version));
        zone.replace(of(9, b"\x019"), &[]);
        keeper.apply_catalogs(std::slice::from_ref(&zone));
        let is_broken = || zone.failure().is_some_and(|why| why.contains("not taken up"));
        assert!(is_broken());
        assert!(keeper.take_folders().is_some());
        let mut store = Store::new(folder.path(), &zone);
        store.save(&of(last, b"\x012"), &[]).unwrap();
        drop(lock);
        std::thread::sleep(STORE_LOCK_INTERVAL);
        assert_eq!(keeper.take_folders(), None);
        assert_eq!(zone.soa().map(|soa| soa.serial().0), Some(wanted));
        assert_eq!(stored(folder.path()).map(|(serial, _)| serial), Some(last));
        assert_eq!((is_broken(), zone.members().len()), (last == 8, usize::from(last == 10)));
    }
}

#[test]
fn the_members_of_a_catalog_that_has_expired_are_known_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let stored = || {
        let zone = Arc::new(SecondaryZone::new(zone(), vec!["127.0.0.1:1".parse().unwrap()]));
        let (catalog, store) = (Some(Vec::new()), Some(folder.path().to_owned()));
        Configured { zone, catalog, key: None, store, groups: Vec::new() }
    };
    let own = stored();
    let data = data_of(&catalog(9, b"\x012"));
    Store::new(folder.path(), &own.zone).save(&data, &[]).unwrap();
    let mut keeper = keeper_with(vec![own.clone()]);
    let members = |zone: &SecondaryZone| (zone.soa().is_some(), zone.members().len());
    assert_eq!(members(&own.zone), (true, 1));
    keeper.expire(0, &own.zone);
    assert_eq!(members(&own.zone), (false, 1));
    drop(keeper);
    let path = folder.path().join(nodens_zone::image::file_name(own.zone.origin().view()));
    let file = File::options().append(true).open(&path).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let again = stored();
    // Another block has the zone before that for which it is a catalog.
    let other = Configured { catalog: None, ..again.clone() };
    let mut keeper = keeper_of_blocks(vec![vec![other], vec![again.clone()]]);
    assert_eq!(members(&again.zone), (false, 1));
    // What a primary has then counts.
    keeper.apply_catalog(&again.zone, &data_of(&whole(10, &[])));
    assert_eq!(members(&again.zone), (false, 1), "no catalog");
    let mut edit = data.edit();
    edit.remove_name(name("1.zones.example.org.").view());
    keeper.apply_catalog(&again.zone, &edit.finish().unwrap());
    assert_eq!(members(&again.zone), (false, 0));
    drop(keeper);
    // A zone that is no catalog is gone.
    let own = Configured { catalog: None, ..stored() };
    let mut keeper = keeper_with(vec![own.clone()]);
    assert!(path.exists());
    keeper.expire(0, &own.zone);
    assert!(!path.exists());
}

#[test]
fn a_folder_that_cannot_be_asked_for_is_still_another_process_s() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lock");
    let other = File::create(&path).unwrap();
    other.try_lock().unwrap();
    let (sender, _log) = sync_channel(9);
    let lock = crate::secondary::lock::Lock::of(folder.path(), Sink::new(sender));
    let again = || {
        std::thread::sleep(STORE_LOCK_INTERVAL);
        lock.is_held()
    };
    assert!(!again());
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(!again(), "an error is no lock");
    assert!(!again());
    std::fs::remove_dir(&path).unwrap();
    assert!(again());
}

fn is_locked(folder: &std::path::Path) -> bool {
    File::open(folder.join("lock")).is_ok_and(|lock| lock.try_lock().is_err())
}

#[test]
fn a_folder_that_is_made_anew_is_locked_and_written_anew() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("zones");
    let (primary, _asked) = primary(|_, _| Reaction::Records(whole(1, &[1])));
    let running = run_stored(&[primary], &folder);
    until_stored(&folder, (1, 2));
    assert!(is_locked(&folder));
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::create_dir(&folder).unwrap();
    until_stored(&folder, (1, 2));
    running.until_said("its lock was removed: it is locked again");
    assert!(is_locked(&folder));
}

#[test]
fn what_another_process_has_written_to_a_folder_that_was_made_anew_is_not_continued() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("zones");
    let (sender, _log) = sync_channel(9);
    let lock = Arc::new(crate::secondary::lock::Lock::of(&folder, Sink::new(sender)));
    let own = SecondaryZone::new(zone(), Vec::new());
    let mut store = Store::new(&*folder, &own).locked_by(lock.clone());
    let (before, after) = (version(5, &[1, 2, 3]), version(6, &[1, 2, 3, 4]));
    store.save(&before, &[]).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::create_dir(&folder).unwrap();
    let other = File::create(folder.join("lock")).unwrap();
    other.try_lock().unwrap();
    std::thread::sleep(STORE_LOCK_INTERVAL);
    store.touch(&before).unwrap();
    assert_eq!(stored(&folder), None);
    Store::new(&*folder, &own).save(&version(5, &[7, 8, 9, 10, 11]), &[]).unwrap();
    drop(other);
    std::thread::sleep(STORE_LOCK_INTERVAL);
    assert!(lock.is_held());
    let difference = nodens_zone::data::Difference::between(&before, &after);
    let [removed, added] = [difference.removed, difference.added].map(|records| {
        let mut packed = Packed::default();
        records.iter().for_each(|record| packed.push(record.into()));
        packed
    });
    let step = Step { from: difference.from, to: difference.to, removed, added };
    store.save(&after, &[Arc::new(step)]).unwrap();
    assert_eq!(stored(&folder), Some((6, 5)));
}

#[test]
fn a_lock_that_was_not_there_is_another_process_s_once_that_has_it() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("zones");
    std::fs::write(&path, "no folder").unwrap();
    let (sender, _log) = sync_channel(9);
    let lock = crate::secondary::lock::Lock::of(&path, Sink::new(sender));
    let again = || {
        std::thread::sleep(STORE_LOCK_INTERVAL);
        lock.is_held()
    };
    assert!(again(), "what is wrong with it is said of its zones");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    let other = File::create(path.join("lock")).unwrap();
    other.try_lock().unwrap();
    assert!(!again());
    drop(other);
    assert!(again());
    let late = File::open(path.join("lock")).unwrap();
    assert!(late.try_lock().is_err(), "it is ours");
}

#[test]
fn what_came_meanwhile_is_stored_also_if_another_zone_gets_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    let other = File::create(folder.path().join("lock")).unwrap();
    other.try_lock().unwrap();
    let zone = Arc::new(SecondaryZone::new(zone(), vec!["127.0.0.1:1".parse().unwrap()]));
    let (key, store) = (None, Some(folder.path().to_owned()));
    let configured =
        vec![Configured { zone: zone.clone(), catalog: None, key, store, groups: Vec::new() }];
    let service = SecondaryService { configured, ..SecondaryService::default() };
    let (sender, _log) = sync_channel(1000);
    let waker = Arc::new(Waker::new().unwrap());
    let mut keeper = Keeper::new(&[service], Sink::new(sender), waker, Arc::default()).unwrap();
    assert!(keeper.take_folders().is_some());
    let mut edit = Edit::new(zone.origin().view(), Class::IN);
    whole(7, &[1, 2]).iter().for_each(|record| _ = edit.add(record.into()).unwrap());
    zone.replace(edit.finish().unwrap(), &[]);
    drop(other);
    std::thread::sleep(STORE_LOCK_INTERVAL);
    // As a zone asks that is to be written.
    assert!(keeper.locks.values().all(|lock| lock.is_held()));
    assert_eq!((keeper.take_folders(), stored(folder.path())), (None, Some((7, 3))));
}

#[test]
fn a_keeper_that_is_to_end_has_not_read_what_is_stored() {
    let service = SecondaryService::default();
    let services = [service.clone()];
    for is_ending in [true, false] {
        let (sender, _log) = sync_channel(9);
        let (waker, ends) = (Arc::new(Waker::new().unwrap()), Arc::new(is_ending.into()));
        drop(Keeper::new(&services, Sink::new(sender), waker, ends).unwrap());
        assert_eq!(service.restoring.is_done(), !is_ending);
    }
}

#[test]
fn a_file_that_was_read_while_it_was_another_process_s_is_not_continued_after_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    let zone = Arc::new(SecondaryZone::new(zone(), vec!["127.0.0.1:1".parse().unwrap()]));
    let mut predecessor = Store::new(folder.path(), &zone);
    predecessor.save(&version(9, &[1]), &[]).unwrap();
    let lock = File::create(folder.path().join("lock")).unwrap();
    lock.try_lock().unwrap();
    drop(keeper_of(std::slice::from_ref(&zone), folder.path()));
    assert_eq!(zone.soa().map(|soa| soa.serial().0), Some(9));
    predecessor.save(&version(10, &[1, 2, 3, 4]), &[]).unwrap();
    drop(lock);
    let mut keeper = keeper_of(std::slice::from_ref(&zone), folder.path());
    let ends = |serial| Soa::new(soa(serial, 3600)).unwrap();
    let (removed, added) = (Packed::default(), Packed::default());
    let step = Step { from: ends(9), to: ends(11), removed, added };
    let kept = keeper.areas[0].zones.get_mut(zone.origin()).unwrap();
    kept.store.as_mut().unwrap().save(&version(11, &[1]), &[Arc::new(step)]).unwrap();
    assert_eq!(stored(folder.path()), Some((11, 2)));
}

#[test]
fn a_folder_that_is_written_in_several_ways_has_one_lock_and_one_file_for_a_zone() {
    let parent = tempfile::tempdir().unwrap();
    let (folder, link) = (parent.path().join("zones"), parent.path().join("link"));
    std::os::unix::fs::symlink("zones", &link).unwrap();
    let ways = [folder.clone(), folder.join("."), parent.path().join("./zones/"), link];
    let configured = |(number, folder): (usize, &std::path::PathBuf)| {
        let primaries = vec!["127.0.0.1:1".parse().unwrap()];
        let zone = Arc::new(SecondaryZone::new(name(&format!("{number}.test.")), primaries));
        let (catalog, key, store, groups) = (None, None, Some(folder.clone()), Vec::new());
        Configured { zone, catalog, key, store, groups }
    };
    let mut all: Vec<_> = ways.iter().enumerate().map(configured).collect();
    let mut keeper = keeper_with(all.clone());
    assert_eq!(keeper.take_folders(), None);
    assert!(keeper.locks.values().all(|lock| lock.is_held()));
    drop(keeper);
    // Another block has a zone of the same name.
    let [first, last] = [all.swap_remove(0), configured((0, &ways[3]))];
    let keeper = keeper_of_blocks(vec![vec![first], vec![last]]);
    let has_store = |area: usize| {
        keeper.areas[area].zones[&nodens_wire::SharedName::from(name("0.test."))].store.is_some()
    };
    assert_eq!([has_store(0), has_store(1)], [true, false]);
}

#[test]
fn a_zone_that_is_older_than_the_machine_runs_expires_in_time_after_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    let zone = Arc::new(SecondaryZone::new(zone(), vec!["127.0.0.1:1".parse().unwrap()]));
    let ends = soa(7, u32::MAX);
    Store::new(folder.path(), &zone).save(&data_of(&[ends]), &[]).unwrap();
    let path = folder.path().join(nodens_zone::image::file_name(zone.origin().view()));
    let days = Duration::from_secs(6 * 86_400);
    let age = Duration::from_nanos(crate::clock::mono_ns()) + days;
    let file = File::options().append(true).open(path).unwrap();
    file.set_modified(std::time::SystemTime::now() - age).unwrap();
    let left = || {
        let keeper = keeper_of(std::slice::from_ref(&zone), folder.path());
        let expires = keeper.areas[0].schedule.times(zone.origin()).1.unwrap();
        Duration::from_nanos(expires - crate::clock::mono_ns())
    };
    let wanted = Duration::from_secs(u32::MAX.into()) - age;
    for _ in 0..3 {
        let left = left();
        assert!(left.abs_diff(wanted) < PATIENCE, "{left:?} instead of {wanted:?}");
    }
    assert!(zone.reached_ns().is_some_and(|at| at < 0));
}
