//! Members that come: each is kept up to date, with what is on disk of it.

use super::super::ahead::{Opened, read_ahead};
use super::super::keeper::Keeper;
use nodens_zone::Zone;
use nodens_zone::catalog::Member;
use nodens_zone::secondary::{Configured, SecondaryZone};
use std::path::Path;
use std::sync::Arc;

impl Keeper {
    /// Keeps these members of a catalog.
    pub(super) fn begin_all(
        &mut self,
        index: usize,
        catalog: &Configured,
        members: Vec<(Arc<SecondaryZone>, Arc<Member>)>,
    ) {
        let folder = |member: &Member| catalog.terms(&member.groups).store;
        if let Some(area) = self.areas.get_mut(index) {
            area.zones.reserve(members.len());
            area.schedule.reserve(members.len());
        }
        let wanted = self.wanted(members.iter().map(|(zone, member)| (zone, folder(member))));
        read_ahead(&wanted, |ahead| {
            for (zone, member) in members {
                self.begin(index, zone, folder(&member), ahead.next());
            }
        });
    }

    /// Keeps a member, in the place of one of its name that begins anew or comes from elsewhere.
    fn begin(
        &mut self,
        index: usize,
        zone: Arc<SecondaryZone>,
        folder: Option<&Path>,
        opened: Option<Opened>,
    ) {
        let kept = self.areas.get(index).and_then(|area| area.zones.get(zone.origin()));
        let before = kept.map(|kept| &kept.zone).filter(|before| !Arc::ptr_eq(before, &zone));
        let is_moved =
            before.is_some_and(|before| zone.soa().is_some() && zone.soa() == before.soa());
        if is_moved {
            let before = self.release(index, zone.origin());
            return self.keep_moved(index, &zone, before, folder);
        }
        // What begins anew must not find the file of the one before.
        if before.is_some() {
            self.forget(index, zone.origin());
        }
        if self.keeper_of(&zone).is_none() {
            self.keep_opened(index, zone, folder, opened);
        }
    }
}
