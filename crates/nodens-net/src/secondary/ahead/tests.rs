use super::*;
use nodens_core::log::Sink;
use nodens_wire::{Class, Name};
use nodens_zone::Soa;
use nodens_zone::data::Edit;
use nodens_zone::image::file_name;
use std::io::ErrorKind;
use std::path::Path;

const ZONES: usize = 1000;

fn lock(folder: &Path) -> Arc<Lock> {
    Arc::new(Lock::of(folder, Sink::new(std::sync::mpsc::sync_channel(1000).0)))
}

fn zone(number: usize) -> Arc<SecondaryZone> {
    let origin: Name = format!("z{number}.example.").parse().unwrap();
    Arc::new(SecondaryZone::new(origin, Vec::new()))
}

/// A file for every zone but those whose numbers end with 7, whose serial is the number; that of one is damaged.
fn stored(folder: &Path, lock: &Arc<Lock>) -> Vec<Wanted> {
    let all = (0..ZONES).map(|number| {
        let zone = zone(number);
        let mut edit = Edit::new(zone.origin().view(), Class::IN);
        let times = [number as u32, 7200, 1800, 86_400, 5];
        let own = zone.origin().to_name();
        let soa = Soa::with(own.view(), 5, (&own, &own), times);
        edit.add(soa.record().into()).unwrap();
        let mut store = Store::new(folder, &zone);
        if number % 10 != 7 {
            store.save(&edit.finish().unwrap(), &[]).unwrap();
        }
        Some((zone, lock.clone()))
    });
    let all: Vec<Wanted> = all.collect();
    let (damaged, _) = all[500].as_ref().unwrap();
    std::fs::write(folder.join(file_name(damaged.origin().view())), "noise").unwrap();
    all
}

/// The serial of what is read ahead.
fn seen(opened: Opened) -> Result<Option<u32>, ErrorKind> {
    match opened.found {
        Ok(found) => Ok(found.map(|found| found.data().soa().serial().0)),
        Err(error) => Err(error.kind()),
    }
}

#[test]
fn what_is_read_ahead_comes_in_order_whatever_is_wrong_with_some_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let lock = lock(folder.path());
    let mut wanted = stored(folder.path(), &lock);
    for unwanted in wanted.iter_mut().step_by(3) {
        *unwanted = None;
    }
    for threads in [1, 2, 3] {
        read_with(threads, &wanted, |ahead| {
            for number in 0..ZONES {
                let expected = match number {
                    500 => Err(ErrorKind::InvalidData),
                    _ if number % 10 == 7 => Ok(None),
                    _ => Ok(Some(number as u32)),
                };
                let expected = (number % 3 != 0).then_some(expected);
                assert_eq!(ahead.next().map(seen), expected, "{number} of {threads}");
            }
            assert!(ahead.next().is_none());
        });
    }
}

#[test]
fn nothing_is_read_ahead_without_threads_and_threads_end_with_whoever_takes() {
    let folder = tempfile::tempdir().unwrap();
    let lock = lock(folder.path());
    let wanted = stored(folder.path(), &lock);
    read_with(0, &wanted, |ahead| assert!(ahead.next().is_none()));
    // More than are read before they are taken.
    const { assert!(ZONES > 2 * AHEAD_WAITING) };
    read_with(2, &wanted, |ahead| assert_eq!(ahead.next().map(seen), Some(Ok(Some(0)))));
    read_ahead(&wanted[..AHEAD_MIN - 1], |ahead| assert!(ahead.next().is_none()));
}
