//! Zones of primaries: when they begin, and what the start waits for.

use super::super::error::StartError;
use super::{Services, memory, serve_alone};
use crate::budget::Cache;
use crate::clusters;
use crate::handover::{Waited, Waiting};
use nodens_core::log::Level;
use nodens_corefile::Corefile;
use nodens_net::{Notifications, Secondaries, Updates};
use nodens_zone::data::room;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the start waits for zones that are kept on disk.
const RESTORE_PATIENCE: Duration = Duration::from_secs(20);
/// How often it is seen whether they are read.
const RESTORE_ROUND: Duration = Duration::from_millis(5);

impl Services {
    /// Zones have the memory that this configuration leaves them, and are seen.
    pub(super) fn show_zones(&self) {
        self.fit_zones();
        self.facts.zones.take_up(self.config.clone());
    }

    /// Zones have the memory that this configuration leaves them; where they have more already, the cache has less.
    pub(super) fn fit_zones(&self) {
        let (cache, budget) = (Cache::of(&self.config), &self.context.budget);
        memory::fit_zones(&self.context, &[cache], self.zones_beside);
        if self.zones_beside.is_some() {
            return;
        }
        let shared = &self.context.shared;
        let held = room::held().saturating_add(room::prepared());
        let held = usize::try_from(held).unwrap_or(usize::MAX);
        let (zones, ceiling) = (budget.zones(cache), budget.cache_with(held));
        if held <= zones || cache == Cache::None {
            shared.cache.set_ceiling(budget.cache);
            return;
        }
        shared.cache.set_ceiling(ceiling);
        let text = format!(
            "memory: data of zones take {held} octets, and the cache that is wanted leaves {zones} for them: it has \
             {ceiling} instead"
        );
        shared.sink.line(Level::Warning, "", text);
    }

    /// A successor that has no room for zones must not take over from a predecessor that serves them.
    fn check_room(&self, waiting: &Waiting<'_>) -> Result<(), StartError> {
        let all = self.context.budget.zones(Cache::of(&self.config));
        let beside = self.zones_beside.filter(|_| waiting.inherited.is_some());
        match beside.filter(|beside| beside.octets < all) {
            Some(beside) if room::refused() > beside.refused => {
                Err(StartError::NoRoom(beside.octets))
            }
            _ => Ok(()),
        }
    }

    /// From now on the zones of this configuration alone are transferred from primaries. Zones that are kept on disk
    /// are read first.
    pub(super) fn keep_secondaries(&mut self) {
        if self.secondaries.as_ref().is_some_and(|(_, config)| Arc::ptr_eq(config, &self.config)) {
            return;
        }
        // One at a time: both would write the same files.
        self.secondaries = None;
        let sink = &self.context.shared.sink;
        match Secondaries::start(&self.config.services.secondaries, sink.clone()) {
            Ok(secondaries) => self.secondaries = Some((secondaries, self.config.clone())),
            Err(error) => {
                let text = format!("cannot transfer zones from primaries: {error}");
                sink.line(Level::Error, "secondary", text);
            }
        }
    }

    /// Begins with the zones that are kept on disk, so that no query comes before they are read; but very many
    /// do not keep the others waiting.
    pub(super) fn restore(&mut self, waiting: &mut Waiting<'_>) -> Result<(), StartError> {
        if !self.has_store() {
            return self.check_room(waiting);
        }
        self.keep_secondaries();
        let began = Instant::now();
        while self.secondaries.is_some() && !self.is_restored() {
            if began.elapsed() > RESTORE_PATIENCE {
                let text =
                    "stored zones are still being read: queries for the others fail meanwhile";
                self.context.shared.sink.line(Level::Warning, "secondary", text.to_owned());
                break;
            }
            match waiting.pause(RESTORE_ROUND) {
                Waited::On => {}
                Waited::Alone => serve_alone(&mut self.endpoints, &waiting.inherited),
                Waited::Ended => return Err(StartError::Ended),
            }
        }
        self.check_room(waiting)
    }

    /// Whether there are zones that are kept on disk.
    pub(in crate::serve) fn has_store(&self) -> bool {
        let services = &self.config.services.secondaries;
        services.iter().flat_map(|own| &own.configured).any(|own| own.store.is_some())
    }

    /// Whether those were read.
    pub(in crate::serve) fn is_restored(&self) -> bool {
        self.context.shared.secondaries.restoring.is_done()
    }

    /// A configuration that was prepared is not taken up: what was begun for it ends.
    pub(in crate::serve) fn let_go_of_prepared(&mut self, keeps_watches: bool) {
        self.fit_zones();
        if !keeps_watches {
            self.drop_unwanted_watches();
        }
    }

    /// Ends watches that only a configuration wanted that is not at work.
    pub(super) fn drop_unwanted_watches(&mut self) {
        self.watches.retain(&clusters::feeds(&self.config.services));
    }

    /// Files are read for another configuration, while the cache of this one has what it has.
    pub(super) fn fit_zones_to_both(&self, next: &Corefile) {
        let caches = [Cache::of(&self.config), Cache::written(next)];
        memory::fit_zones(&self.context, &caches, self.zones_beside);
    }

    /// The predecessor is gone, and what it had is free.
    pub(super) fn have_all_memory(&mut self) {
        self.zones_beside = None;
        self.fit_zones();
    }

    /// Ends NOTIFY in both directions, and transfers from primaries.
    pub(in crate::serve) fn stop_notifying(&mut self) {
        self.notifier = None;
        self.secondaries = None;
    }

    /// From now on zones of this configuration alone are updated.
    pub(super) fn take_updates(&mut self) {
        // One at a time: a database has one writer.
        self.updates = None;
        let Some(runtime) = &self.runtime else { return };
        let shared = &self.context.shared;
        let services = &self.config.services;
        let (zones, signers) = (&services.dynamic, &services.dynamic_signers);
        match Updates::start(zones, signers, runtime, shared.sink.clone()) {
            Ok(updates) => self.updates = Some(updates),
            Err(error) => {
                let text = format!("cannot update zones: {error}");
                shared.sink.line(Level::Error, "dynupdate", text);
            }
        }
    }

    /// Serves what the process that took queries until now has confirmed of updates; it confirms no more.
    pub(super) fn serve_confirmed(&self) {
        self.updates.iter().for_each(Updates::take_over);
    }

    /// From now on secondaries are notified of the zones of this configuration alone.
    pub(super) fn notify(&mut self) {
        self.notifier = None;
        let sink = &self.context.shared.sink;
        let services = &self.config.services;
        match Notifications::start(&services.notifies, &services.catalogs, sink.clone()) {
            Ok(notifications) => self.notifier = Some(notifications),
            Err(error) => {
                let text = format!("cannot notify secondaries of changes: {error}");
                sink.line(Level::Error, "transfer", text);
            }
        }
    }
}
