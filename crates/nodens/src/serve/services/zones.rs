//! Zones of primaries: when they begin, and what the start waits for.

use super::super::error::StartError;
use super::{Services, serve_alone};
use crate::budget::Cache;
use crate::handover::{Waited, Waiting};
use nodens_core::log::Level;
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
        room::set_most(self.context.budget.zones(Cache::of(&self.config)) as u64);
        self.facts.zones.take_up(self.config.clone());
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
        let services = &self.config.services.secondaries;
        let has_store =
            services.iter().flat_map(|own| &own.configured).any(|own| own.store.is_some());
        if !has_store {
            return Ok(());
        }
        self.keep_secondaries();
        let restoring = self.context.shared.secondaries.restoring.clone();
        let began = Instant::now();
        while self.secondaries.is_some() && !restoring.is_done() {
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
        Ok(())
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
        match Updates::start(&self.config.services.dynamic, runtime, shared.sink.clone()) {
            Ok(updates) => self.updates = Some(updates),
            Err(error) => {
                let text = format!("cannot update zones: {error}");
                shared.sink.line(Level::Error, "dynupdate", text);
            }
        }
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
