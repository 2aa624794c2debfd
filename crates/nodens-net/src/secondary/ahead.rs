//! Files of many zones, which several threads read ahead of the one that serves what they have: after a restart a catalog
//! has a hundred thousand.

use super::lock::Lock;
use super::store::{Found, Store};
use crate::cpu;
use crate::limits::{AHEAD_MIN, AHEAD_READERS_MAX, AHEAD_WAITING};
use nodens_zone::secondary::SecondaryZone;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{Builder, Scope, scope};

/// The file of a zone, and what it has.
pub(super) struct Opened {
    pub(super) store: Store,
    /// Nothing is read that an earlier configuration has written of what is served.
    pub(super) found: io::Result<Option<Found>>,
}

impl Opened {
    pub(super) fn new(zone: &SecondaryZone, lock: Arc<Lock>) -> Self {
        let mut store = Store::new(lock.folder().clone(), zone).locked_by(lock);
        let found = if store.resume(zone) { Ok(None) } else { store.load(zone) };
        Self { store, found }
    }
}

/// A zone whose file may be read ahead, with the lock of its folder.
pub(super) type Wanted = Option<(Arc<SecondaryZone>, Arc<Lock>)>;

/// What is read ahead.
pub(super) struct Ahead<'a> {
    wanted: std::slice::Iter<'a, Wanted>,
    /// Each has every so manieth of the files.
    readers: Vec<Receiver<Opened>>,
    taken: usize,
}

impl Ahead<'_> {
    /// The next one's file, if it was wanted and could be read ahead.
    pub(super) fn next(&mut self) -> Option<Opened> {
        self.wanted.next()?.as_ref()?;
        let reader = self.readers.get(self.taken % self.readers.len().max(1))?;
        self.taken += 1;
        // A thread that could not be started has closed its end.
        reader.recv().ok()
    }
}

/// Runs `take` while the files are read ahead; few of them, and all where there is one CPU, are left to it.
pub(super) fn read_ahead(wanted: &[Wanted], take: impl FnOnce(&mut Ahead<'_>)) {
    let is_many = wanted.iter().flatten().count() >= AHEAD_MIN;
    let threads = if is_many { cpu::workers().min(AHEAD_READERS_MAX) } else { 1 };
    read_with(if threads > 1 { threads } else { 0 }, wanted, take);
}

fn read_with(threads: usize, wanted: &[Wanted], take: impl FnOnce(&mut Ahead<'_>)) {
    scope(|scope| {
        let readers = (0..threads).map(|own| start(scope, wanted, (own, threads))).collect();
        take(&mut Ahead { wanted: wanted.iter(), readers, taken: 0 });
    });
}

/// Starts the thread that reads the file `own` and every so manieth after it.
fn start<'s>(
    scope: &'s Scope<'s, '_>,
    wanted: &'s [Wanted],
    (own, threads): (usize, usize),
) -> Receiver<Opened> {
    let (sender, receiver) = sync_channel(AHEAD_WAITING);
    let read = move || {
        for (zone, lock) in wanted.iter().flatten().skip(own).step_by(threads) {
            // Whoever takes them has ended.
            if sender.send(Opened::new(zone, lock.clone())).is_err() {
                return;
            }
        }
    };
    // Without a thread, its files are read where they are wanted.
    _ = Builder::new().name("secondary-read".to_owned()).spawn_scoped(scope, read);
    receiver
}

#[cfg(test)]
mod tests;
