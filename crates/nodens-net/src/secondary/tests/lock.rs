//! Two processes with one folder, as in a hand-over.

use super::*;
use crate::limits::STORE_LOCK_INTERVAL;
use crate::secondary::store::Store;
use nodens_zone::data::Edit;
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
    assert!(running.service.restoring.is_done() || running.secondaries.is_some());
    running.until(Some(7));
    until_stored(folder.path(), (7, 3));
    running.secondaries = None;
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let again = run_stored(&[gone], folder.path());
    let since = Instant::now();
    while !again.service.restoring.is_done() {
        assert!(since.elapsed() < PATIENCE);
        std::thread::yield_now();
    }
    assert_eq!(again.zone.soa().map(|soa| soa.serial().0), Some(7));
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
