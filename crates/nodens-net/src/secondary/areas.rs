//! Which zones are kept up to date, and where what is here of them is stored.

use super::ORIGIN;
use super::ahead::{Opened, read_ahead};
use super::catalogs::Catalogs;
use super::exchange::nanoseconds;
use super::keeper::Keeper;
use super::said::Said;
use super::store::{Found, Store};
use crate::clock;
use crate::fault::errno_text;
use crate::limits::{STORE_LOCK_INTERVAL, SWEEP_INTERVAL};
use foldhash::fast::RandomState;
use nodens_core::log::Level;
use nodens_wire::SharedName;
use nodens_zone::Zone;
use nodens_zone::catalog::Catalog;
use nodens_zone::data::Data;
use nodens_zone::refresh::{Refresh, Schedule};
use nodens_zone::secondary::{SecondaryService, SecondaryZone};
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The zones of one directive.
pub(super) struct Area {
    pub(super) service: SecondaryService,
    pub(super) schedule: Schedule,
    /// Boxed: a table of a hundred thousand stays small, and each zone costs a miss of the CPU's cache less.
    pub(super) zones: HashMap<SharedName, Box<Kept>, RandomState>,
    pub(super) catalogs: Catalogs,
}

/// A zone that is kept up to date.
pub(super) struct Kept {
    pub(super) zone: Arc<SecondaryZone>,
    /// Failures of primaries that were said.
    pub(super) said: Said,
    pub(super) store: Option<Store>,
    /// Whether it could not be stored, which was said.
    pub(super) is_unstored: bool,
    /// Of a catalog: why the version that is served is not in force, if it is not. It is not stored then, so that a
    /// restart begins with the last one that was.
    pub(super) not_followed: Option<String>,
}

impl Area {
    /// Lets others see when something is to be done for a zone.
    pub(super) fn note_times(&self, zone: &SharedName) {
        let (refresh_ns, expires_ns) = self.schedule.times(zone);
        let kept = self.zones.get(zone);
        kept.into_iter().for_each(|kept| kept.zone.note_times(refresh_ns, expires_ns));
    }

    /// Whether it answers for this very zone.
    fn serves(&self, zone: &SecondaryZone) -> bool {
        let table = self.service.zones.load();
        let served = table.get(zone.origin().view()).and_then(|served| served.as_secondary());
        served.is_some_and(|served| std::ptr::eq(served, zone))
    }
}

impl Keeper {
    pub(super) fn add_area(&mut self, service: SecondaryService) {
        let waker = self.waker.clone();
        service.notices.on_notice(move || waker.wake());
        let (schedule, zones, catalogs) = Default::default();
        self.areas.push(Area { service, schedule, zones, catalogs });
    }

    /// Keeps the zones that the directive of an area names.
    pub(super) fn keep_configured(&mut self, area: usize) {
        let Some(own) = self.areas.get(area) else { return };
        let configured = own.service.configured.clone();
        let has_inherited = own.has_inherited();
        let zones = configured.iter().map(|own| (&own.zone, own.store.as_deref()));
        let wanted = self.wanted(zones);
        read_ahead(&wanted, |ahead| {
            for configured in &configured {
                let opened = ahead.next();
                configured.zone.set_key(configured.key.clone());
                // One that several blocks have is kept for all of them by the first.
                if self.keeper_of(&configured.zone).is_none() {
                    let folder = configured.store.as_deref();
                    self.keep_opened(area, configured.zone.clone(), folder, opened);
                }
            }
        });
        // Those that an earlier configuration has transferred.
        let catalogs = configured.iter().filter(|own| own.catalog.is_some());
        let catalogs: Vec<_> = catalogs.map(|own| own.zone.clone()).collect();
        self.apply_catalogs(&catalogs);
        let own = self.areas.get(area).filter(|_| has_inherited);
        own.into_iter().for_each(Area::drop_strays);
    }

    /// Tries to get folders that another process had, and writes what came meanwhile. Gives when to try again.
    pub(super) fn take_folders(&mut self) -> Option<u64> {
        let foreign = self.locks.values().filter(|lock| !lock.is_held()).count();
        // A zone that was to be written may have got the lock since the last look.
        if foreign < std::mem::replace(&mut self.foreign, foreign) {
            let kept = self.areas.iter_mut().enumerate().flat_map(|(index, area)| {
                area.zones.values_mut().map(move |kept| (index, &mut **kept))
            });
            let mut later = Vec::new();
            for (area, Kept { zone, store, not_followed, .. }) in kept {
                let keeps = not_followed.is_none();
                match store.as_mut().map(|store| store.catch_up(zone, keeps)) {
                    Some(Ok(Some(found))) => later.push((area, zone.clone(), found)),
                    Some(Err(error)) => {
                        self.counts.unwritten.add(1);
                        let reason = errno_text(&error);
                        let text = format!("Failed to store zone {}: {reason}", zone.origin());
                        self.sink.line(Level::Error, ORIGIN, text);
                    }
                    _ => {}
                }
            }
            later.into_iter().for_each(|(area, zone, found)| self.take_later(area, &zone, found));
        }
        (foreign > 0).then(|| clock::mono_ns().saturating_add(nanoseconds(STORE_LOCK_INTERVAL)))
    }

    /// Serves the version that another process has left, which is later than what is served here.
    fn take_later(&mut self, index: usize, zone: &Arc<SecondaryZone>, found: Found) {
        // A catalog that came with it may have changed which zones there are, and its disk may have taken long.
        if self.keeper_of(zone) != Some(index) || self.is_stopping() {
            return;
        }
        let (age, data) = (found.age, found.data().clone());
        found.serve(zone);
        let now = clock::mono_ns();
        zone.note_reached(clock::before(now, age));
        let mut refresh = Refresh::new(zone.primaries().len());
        refresh.restore(now, data.soa(), age);
        self.drop_exchanges(index, zone.origin());
        let Some(area) = self.areas.get_mut(index) else { return };
        area.schedule.insert(zone.origin().clone(), refresh);
        area.note_times(zone.origin());
        let (origin, serial) = (zone.origin(), data.soa().serial().0);
        let text =
            format!("Restored from disk: {origin}: serial {serial}, which the other process had");
        self.sink.line(Level::Info, ORIGIN, text);
        self.sweep_later(zone);
        self.announce(zone.origin());
        self.apply_catalog(zone, &data);
    }

    /// What is on its way for a zone is not for what has its name next.
    fn drop_exchanges(&mut self, area: usize, zone: &SharedName) {
        let is_its = |order: &super::exchange::Order| order.area == area && order.zone == *zone;
        for key in self.exchanges.keys(|exchange| is_its(&exchange.order)) {
            self.exchanges.remove(key);
        }
    }

    /// Another version of this zone is served, perhaps.
    pub(super) fn sweep_later(&mut self, zone: &Arc<SecondaryZone>) {
        if zone.served().sweep() > 0 && !self.unswept.iter().any(|other| Arc::ptr_eq(other, zone)) {
            self.unswept.push(zone.clone());
            let at = clock::mono_ns().saturating_add(nanoseconds(SWEEP_INTERVAL));
            self.sweep_at.get_or_insert(at);
        }
    }

    /// The area that keeps this very zone.
    pub(super) fn keeper_of(&self, zone: &Arc<SecondaryZone>) -> Option<usize> {
        self.areas.iter().position(|area| {
            area.zones.get(zone.origin()).is_some_and(|kept| Arc::ptr_eq(&kept.zone, zone))
        })
    }

    /// Keeps a zone up to date, in the place of one of its name.
    pub(super) fn keep(&mut self, area: usize, zone: Arc<SecondaryZone>, folder: Option<&Path>) {
        self.keep_opened(area, zone, folder, None);
    }

    /// See [`Keeper::keep`]; the file was opened already, perhaps.
    pub(super) fn keep_opened(
        &mut self,
        area: usize,
        zone: Arc<SecondaryZone>,
        folder: Option<&Path>,
        opened: Option<Opened>,
    ) {
        if self.is_stopping() {
            return;
        }
        let lock = folder.map(|folder| self.lock_of(folder));
        let lock = lock.filter(|lock| !self.is_taken(&zone, lock.folder()));
        let opened = lock.map(|lock| opened.unwrap_or_else(|| Opened::new(&zone, lock)));
        let (store, age) = match opened.map(|opened| self.restore(&zone, opened)) {
            Some((store, age)) => (Some(store), age),
            None => (None, None),
        };
        let Some(area) = self.areas.get_mut(area) else { return };
        let now = clock::mono_ns();
        let mut refresh = Refresh::new(zone.primaries().len());
        // A version that an earlier configuration has transferred, or an earlier process.
        age.into_iter().for_each(|age| zone.note_reached(clock::before(now, age)));
        let age = age.or_else(|| zone.reached_ns().map(|at| clock::age(now, at)));
        if let (Some(soa), Some(age)) = (zone.soa(), age) {
            refresh.restore(now, &soa, age);
        }
        let origin = zone.origin().clone();
        let (refresh_ns, expires_ns) = area.schedule.insert(origin.clone(), refresh);
        zone.note_times(refresh_ns, expires_ns);
        let (said, is_unstored, not_followed) = Default::default();
        let kept = Kept { zone: zone.clone(), said, store, is_unstored, not_followed };
        area.zones.insert(origin, Box::new(kept));
        // What an earlier configuration has replaced may still have readers.
        self.sweep_later(&zone);
    }

    /// Whether members of this zone are served for any directive.
    pub(super) fn is_catalog(&self, zone: &Arc<SecondaryZone>) -> bool {
        self.areas.iter().any(|area| area.follows(zone).is_some())
    }

    /// A catalog's members outlive it. Its file says which they are.
    pub(super) fn remember_members(&self, zone: &Arc<SecondaryZone>, data: &Data) {
        if !self.is_catalog(zone) || zone.catalog().is_some() {
            return;
        }
        let Ok(catalog) = Catalog::read(data) else { return };
        let text = format!(
            "Catalog zone {} is expired: the {} member zones that it had last stay",
            zone.origin(),
            catalog.len()
        );
        self.sink.line(Level::Warning, ORIGIN, text);
        zone.set_catalog(catalog);
    }

    /// Says what was on disk, in one line: a large catalog has a hundred thousand zones.
    pub(super) fn say_restored(&self) {
        let (zones, records) = self.restored.take();
        if zones > 0 {
            let text = format!("Restored from disk: {zones} zones, {records} records");
            self.sink.line(Level::Info, ORIGIN, text);
        }
        if let Some((zones, first)) = self.lapsed.take() {
            let text = format!(
                "Failed to restore {zones} zones from disk, such as {first}: expired, no primary had them in time"
            );
            self.sink.line(Level::Warning, ORIGIN, text);
        }
    }

    /// Keeps a zone no more, unless another directive has it.
    pub(super) fn forget(&mut self, index: usize, name: &SharedName) {
        self.release(index, name).into_iter().for_each(|mut store| store.remove());
    }

    /// See [`Keeper::forget`]; gives the file of a zone that no other directive has.
    pub(super) fn release(&mut self, index: usize, name: &SharedName) -> Option<Store> {
        let area = self.areas.get_mut(index)?;
        area.schedule.remove(name);
        area.service.notices.asked(name);
        let kept = area.zones.remove(name);
        self.drop_exchanges(index, name);
        let Kept { zone, store, .. } = *kept?;
        let heir = (0..self.areas.len()).find(|other| {
            *other != index && self.areas.get(*other).is_some_and(|area| area.serves(&zone))
        });
        let Some(heir) = heir else { return store };
        let folder = store.as_ref().map(|store| store.folder().clone());
        store.into_iter().for_each(|store| store.leave_to(&zone));
        self.keep(heir, zone, folder.as_deref());
        None
    }
}

impl Keeper {
    /// The zone that an exchange is for.
    pub(super) fn kept(&mut self, order: &super::exchange::Order) -> Option<&mut Kept> {
        let area = self.areas.get_mut(order.area)?;
        // Not one that took the name of what it was for.
        let is_current = area.schedule.is_current(&order.zone, order.token);
        area.zones.get_mut(&order.zone).filter(|_| is_current).map(Box::as_mut)
    }

    /// Tells whoever the zone is handed on to.
    pub(super) fn announce(&self, zone: &SharedName) {
        for area in &self.areas {
            area.service.handed_on.announce(zone.view());
        }
    }

    /// Notes whether what has come is on the disk.
    pub(super) fn note_stored(&mut self, order: &super::exchange::Order, stored: io::Result<()>) {
        self.counts.unwritten.add(u64::from(stored.is_err()));
        let Some(kept) = self.kept(order) else { return };
        // A disk that stays full is said to be once for each zone.
        let was_unstored = std::mem::replace(&mut kept.is_unstored, stored.is_err());
        let (level, text) = match stored {
            Err(error) => {
                let level = if was_unstored { Level::Debug } else { Level::Error };
                (level, format!("Failed to store zone {}: {}", order.zone, errno_text(&error)))
            }
            Ok(()) if was_unstored => {
                (Level::Info, format!("Store of zone {} recovered", order.zone))
            }
            Ok(()) => return,
        };
        self.sink.line(level, ORIGIN, text);
    }

    /// Serves a zone no more.
    pub(super) fn expire(&mut self, area: usize, zone: &Arc<SecondaryZone>) {
        zone.expire();
        self.counts.expired.add(1);
        self.sweep_later(zone);
        let text = format!("Zone {} is expired: no primary had it in time", zone.origin());
        self.sink.line(Level::Error, ORIGIN, text);
        // After a restart the file of a catalog says which its members are.
        let is_catalog = self.is_catalog(zone);
        let kept = self.areas.get_mut(area).and_then(|area| area.zones.get_mut(zone.origin()));
        let store = kept.and_then(|kept| kept.store.as_mut()).filter(|_| !is_catalog);
        store.into_iter().for_each(Store::remove);
        self.areas.get(area).into_iter().for_each(|area| area.note_times(zone.origin()));
        self.announce(zone.origin());
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        for Kept { zone, store, .. } in
            self.areas.iter_mut().flat_map(|area| area.zones.drain().map(|(_, kept)| *kept))
        {
            store.into_iter().for_each(|store| store.leave_to(&zone));
        }
    }
}
