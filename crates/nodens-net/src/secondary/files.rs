//! The files of zones: what is read of them at first, and what becomes of them when a zone gives way to another.

use super::ORIGIN;
use super::ahead::{Opened, Wanted};
use super::areas::Kept;
use super::keeper::Keeper;
use super::lock::Lock;
use super::store::{Store, is_fresh};
use crate::clock;
use crate::fault::errno_text;
use nodens_core::log::Level;
use nodens_zone::Zone;
use nodens_zone::secondary::SecondaryZone;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

impl Keeper {
    pub(super) fn lock_of(&mut self, folder: &Path) -> Arc<Lock> {
        // As it is written: to compare paths part by part takes longer, once for each zone.
        if let Some(lock) = self.locks.get(folder.as_os_str()) {
            return lock.clone();
        }
        // In whatever ways it is written, it has one lock: a second one would find it to be another process's.
        let real = real_folder(folder);
        let known = self.locks.get(real.as_os_str()).cloned();
        let lock = known.unwrap_or_else(|| Arc::new(Lock::of(&real, self.sink.clone())));
        self.locks.insert(real.into_os_string(), lock.clone());
        self.locks.insert(folder.as_os_str().to_owned(), lock.clone());
        lock
    }

    /// Drops what is known of the content of each zone's file. A later configuration did not wait for this thread to end,
    /// which may have written after that: the configuration that takes over a zone reads the file again.
    pub(super) fn let_go_of_files(&mut self) {
        let zones = self.areas.iter_mut().flat_map(|area| area.zones.values_mut());
        zones.for_each(|kept| kept.store = None);
    }

    /// Whether another zone has the file that `zone` would have in this folder. The configuration has none
    /// of these, but members of two catalogs may be.
    pub(super) fn is_taken(&self, zone: &SecondaryZone, folder: &Path) -> bool {
        let is_there = |store: &Store| store.is_of(zone, folder);
        let is_taken =
            self.areas.iter().filter_map(|area| area.zones.get(zone.origin())).any(|kept| {
                let is_same = std::ptr::eq(&*kept.zone, zone);
                !is_same && kept.store.as_ref().is_some_and(is_there)
            });
        if is_taken {
            let text = format!("Failed to store zone {}: another one has its file", zone.origin());
            self.sink.line(Level::Warning, ORIGIN, text);
        }
        is_taken
    }

    /// What of the files of these zones can be read ahead: not of those that are kept already, or that serve something.
    pub(super) fn wanted<'a>(
        &mut self,
        zones: impl Iterator<Item = (&'a Arc<SecondaryZone>, Option<&'a Path>)>,
    ) -> Vec<Wanted> {
        let wanted = zones.map(|(zone, folder)| {
            let is_kept = self.areas.iter().any(|area| area.zones.contains_key(zone.origin()));
            let folder = folder.filter(|_| !is_kept && zone.soa().is_none())?;
            Some((zone.clone(), self.lock_of(folder)))
        });
        wanted.collect()
    }

    /// Serves what is in the file of a zone, unless something is served or that is too old.
    /// Gives how old it is.
    pub(super) fn restore(
        &self,
        zone: &Arc<SecondaryZone>,
        opened: Opened,
    ) -> (Store, Option<Duration>) {
        let Opened { store, found } = opened;
        let found = match found {
            Ok(found) => found.filter(|_| zone.soa().is_none()),
            Err(error) => {
                self.counts.unread.add(1);
                let reason = errno_text(&error);
                let text = format!("Failed to read stored zone {}: {reason}", zone.origin());
                self.sink.line(Level::Warning, ORIGIN, text);
                None
            }
        };
        let Some(found) = found else { return (store, None) };
        if !is_fresh(found.data(), found.age) {
            self.remember_members(zone, found.data());
            let (before, first) = self.lapsed.take().unwrap_or((0, zone.origin().clone()));
            self.lapsed.set(Some((before + 1, first)));
            return (store, None);
        }
        let age = found.age;
        let serial = found.data().soa().serial().0;
        if let Some(at) = found.damaged_at {
            let text = format!(
                "Failed to read all of stored zone {}: cut or damaged at octet {at}, behind serial {serial}",
                zone.origin()
            );
            self.sink.line(Level::Warning, ORIGIN, text);
        }
        let (zones, records) = self.restored.get();
        self.restored.set((zones + 1, records + found.data().records()));
        found.serve(zone);
        (store, Some(age))
    }

    /// Keeps a zone in the place of one of its name that serves the same, whose file was `before`. That is removed only once
    /// the zone is in a file of its own: until a primary answers there is nothing else to restart with.
    pub(super) fn keep_moved(
        &mut self,
        area: usize,
        zone: &Arc<SecondaryZone>,
        before: Option<Store>,
        folder: Option<&Path>,
    ) {
        before.iter().for_each(|store| store.leave_to(zone));
        if self.keeper_of(zone).is_none() {
            self.keep(area, zone.clone(), folder);
        }
        // What it has not gone on with is in a file that it does not have.
        zone.take_stored();
        if !self.store_served(zone, before.as_ref()) {
            return;
        }
        let has = |store: &Store| {
            let kept = self.areas.iter().filter_map(|area| area.zones.get(zone.origin()));
            kept.filter_map(|kept| kept.store.as_ref()).any(|own| own.is_same(store))
        };
        let left = before.filter(|store| !has(store));
        left.into_iter().for_each(|mut store| store.remove());
    }

    /// False if what is served could not be stored.
    fn store_served(&mut self, zone: &Arc<SecondaryZone>, before: Option<&Store>) -> bool {
        let area = self.keeper_of(zone).and_then(|area| self.areas.get_mut(area));
        let kept = area.and_then(|area| area.zones.get_mut(zone.origin())).map(Box::as_mut);
        let Some(Kept { store: Some(store), is_unstored, .. }) = kept else { return true };
        let Some((data, reached)) = zone.data().zip(zone.reached_ns()) else { return true };
        let age = clock::age(clock::mono_ns(), reached);
        let Err(error) = store.take_over(before, &data, age) else { return true };
        *is_unstored = true;
        self.counts.unwritten.add(1);
        let text = format!("Failed to store zone {}: {}", zone.origin(), errno_text(&error));
        self.sink.line(Level::Error, ORIGIN, text);
        false
    }
}

/// The folder without links and whatever else can be written in several ways. One that cannot be made stays as it is:
/// what is wrong with it is said of the zones that cannot be written.
fn real_folder(folder: &Path) -> PathBuf {
    let made = fs::create_dir_all(folder).and_then(|()| fs::canonicalize(folder));
    made.unwrap_or_else(|_| folder.components().collect())
}
