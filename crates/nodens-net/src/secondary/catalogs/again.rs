//! Members for which there was no memory are begun once there is some.

use super::super::exchange::nanoseconds;
use super::super::keeper::Keeper;
use crate::clock;
use crate::limits::{MEMBERS_AGAIN, MEMBERS_AGAIN_INTERVAL};
use nodens_zone::catalog::Names;
use nodens_zone::data::room;
use nodens_zone::limits::SECONDARY_OCTETS;
use nodens_zone::secondary::SecondaryZone;
use std::sync::Arc;

impl Keeper {
    /// Looks for memory from time to time while members wait for some.
    pub(in super::super) fn begin_members_again(&mut self) {
        let now = clock::mono_ns();
        if self.members_at.is_none_or(|at| at > now) {
            return;
        }
        if room::has(SECONDARY_OCTETS) {
            for (zone, names) in self.without_room() {
                let changed = zone.catalog().unwrap_or_default().look_up(names);
                self.follow(&zone, changed);
            }
        }
        self.members_at = None;
        self.plan_members();
    }

    /// Has [`Keeper::begin_members_again`] look later, if members wait.
    pub(super) fn plan_members(&mut self) {
        let waits = self.areas.iter().any(|area| area.catalogs.has_without_room());
        if waits && self.members_at.is_none() {
            let at = clock::mono_ns().saturating_add(nanoseconds(MEMBERS_AGAIN_INTERVAL));
            self.members_at = Some(at);
        }
    }

    /// A bounded number of the members that wait, by catalog.
    fn without_room(&self) -> Vec<(Arc<SecondaryZone>, Names)> {
        let catalogs = self.areas.iter().flat_map(|area| {
            area.service.configured.iter().filter_map(|own| {
                let refused = area.catalogs.refused.get(own.zone.origin())?;
                let names: Names = refused.without_room().take(MEMBERS_AGAIN).cloned().collect();
                (!names.is_empty()).then(|| (own.zone.clone(), names))
            })
        });
        catalogs.collect()
    }
}
