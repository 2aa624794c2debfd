//! Members of catalogs (RFC 9432): zones that come and go with the records of another.

use super::ORIGIN;
use super::areas::Area;
use super::keeper::Keeper;
use foldhash::fast::RandomState;
use nodens_core::log::{Level, Sink};
use nodens_wire::SharedName;
use nodens_zone::catalog::{Catalog, CatalogError, Changed, Member, Names};
use nodens_zone::data::{Data, room};
use nodens_zone::limits::SECONDARY_OCTETS;
use nodens_zone::secondary::{Configured, Members, SecondaryZone};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

mod again;
mod beginning;
mod changes;
mod others;
mod refused;
#[cfg(test)]
mod tests;

use changes::{Changes, Fate, Owner, beginning};
use refused::{New, Refused};

/// The catalogs of one directive.
#[derive(Default)]
pub(super) struct Catalogs {
    /// What each says now.
    now: HashMap<SharedName, Catalog>,
    /// Which catalog has each member that is served, and its label there.
    owners: HashMap<SharedName, Owner, RandomState>,
    /// The members of each that are not served.
    refused: HashMap<SharedName, Refused>,
}

impl Catalogs {
    /// Whether members wait for memory.
    fn has_without_room(&self) -> bool {
        self.refused.values().any(|refused| refused.counts().without_room > 0)
    }
}

impl Keeper {
    /// Serves the members of this version of a catalog from now on, and no others, in every directive that has
    /// the catalog.
    pub(super) fn apply_catalog(&mut self, zone: &Arc<SecondaryZone>, data: &Data) {
        let read = self.read_catalog(zone, data);
        self.follow_read(zone, read);
    }

    /// The same for catalogs with what is here of them. Without a version, or with one that cannot be read, the members
    /// stay those of the last good one.
    pub(super) fn apply_catalogs(&mut self, zones: &[Arc<SecondaryZone>]) {
        // Each may look at what the others list.
        let read = |zone: &Arc<SecondaryZone>| match zone.data() {
            Some(data) => self.read_catalog(zone, &data),
            None => Some(Ok(Changed::default())),
        };
        let all: Vec<_> = zones.iter().map(read).collect();
        zones.iter().zip(all).for_each(|(zone, read)| self.follow_read(zone, read));
    }

    /// Reads another version of a zone, if that is a catalog that is followed, and gives which members have
    /// changed. It is in force then; otherwise it is noted why it is not.
    pub(super) fn read_catalog(
        &mut self,
        zone: &Arc<SecondaryZone>,
        data: &Data,
    ) -> Option<Result<Changed, CatalogError>> {
        if !self.is_catalog(zone) {
            return None;
        }
        let mut catalog = zone.catalog().unwrap_or_default();
        let changed = catalog.update(data);
        if changed.is_ok() {
            zone.set_catalog(catalog);
        }
        let failure = changed.as_ref().err();
        let failure = failure.map(|error| format!("not taken up as a catalog: {error}"));
        let area = self.keeper_of(zone).and_then(|area| self.areas.get_mut(area));
        if let Some(kept) = area.and_then(|area| area.zones.get_mut(zone.origin()))
            && kept.not_followed != failure
        {
            zone.note_failure(failure.as_deref());
            // It stays so until there is another version, however often the primary is reached.
            kept.not_followed = failure;
        }
        Some(changed)
    }

    /// See [`Keeper::read_catalog`]: follows what it has given.
    pub(super) fn follow_read(
        &mut self,
        zone: &Arc<SecondaryZone>,
        read: Option<Result<Changed, CatalogError>>,
    ) {
        match read {
            Some(Ok(changed)) => self.follow(zone, changed),
            Some(Err(error)) => {
                self.counts.catalogs_broken.add(1);
                let text = format!("Failed to take up catalog zone {}: {error}", zone.origin());
                self.sink.line(Level::Error, ORIGIN, text);
                if self.areas.iter().any(|area| area.begins_with(zone)) {
                    self.follow(zone, Changed::default());
                }
            }
            None => {}
        }
    }

    /// Takes up what is said of these zones by the catalog that is in force. Costs as much as they are many,
    /// but once for each directive that has the catalog.
    fn follow(&mut self, zone: &Arc<SecondaryZone>, changed: Changed) {
        // Once for each, so that two catalogs that give a zone to each other come to an end.
        for (other, names) in self.take_up(zone, changed) {
            let changed = other.catalog().unwrap_or_default().look_up(names);
            self.take_up(&other, changed);
        }
        self.plan_members();
    }

    /// See [`Keeper::follow`]; gives other catalogs and zones that may be theirs now.
    fn take_up(
        &mut self,
        zone: &Arc<SecondaryZone>,
        mut changed: Changed,
    ) -> Vec<(Arc<SecondaryZone>, Names)> {
        let Some(catalog) = zone.catalog() else { return Vec::new() };
        let (sink, before, mut all) = (self.sink.clone(), zone.members(), Vec::new());
        if self.areas.iter().any(|area| area.begins_with(zone)) {
            let gone = before.keys().filter(|name| catalog.member(name).is_none());
            changed.extend(gone.map(|name| (name.clone(), None)));
            changed.extend(
                catalog.members().map(|member| (member.zone.clone(), Some(member.clone()))),
            );
        }
        let mut now = before.clone();
        changed.keys().for_each(|name| _ = now.remove(name));
        for (index, area) in self.areas.iter_mut().enumerate() {
            let Some(configured) = area.follows(zone).cloned() else { continue };
            area.catalogs.now.insert(zone.origin().clone(), catalog.clone());
            let changes = area.change_members(&configured, &changed, &before, &mut now, &sink);
            let text = format!(
                "Parsed catalog zone {} with {} member zones: {} added, {} removed",
                zone.origin(),
                catalog.len(),
                changes.added.len(),
                changes.removed.len()
            );
            area.serve(&changes);
            sink.line(Level::Info, ORIGIN, text);
            all.push((index, configured, changes));
        }
        zone.set_members(now);
        // Once all answer for what they have now: a zone that one does not have may be another's.
        let mut others = Vec::new();
        for (index, configured, changes) in all {
            for name in &changes.removed {
                self.forget(index, name);
            }
            let area = self.areas.get(index).into_iter();
            others.extend(area.flat_map(|area| area.concerned(zone, &changed, &changes)));
            changes.taken.iter().for_each(|(owner, names)| self.lose(index, owner, names));
            self.begin_all(index, &configured, changes.added);
        }
        others
    }

    /// Another catalog has taken these members over.
    fn lose(&mut self, index: usize, catalog: &SharedName, names: &Names) {
        let Some(area) = self.areas.get_mut(index) else { return };
        let mut configured = area.service.configured.iter();
        let Some(own) = configured.find(|own| own.zone.origin() == catalog) else { return };
        let (zone, mut members) = (own.zone.clone(), own.zone.members());
        let refused = area.catalogs.refused.entry(catalog.clone()).or_default();
        names.iter().for_each(|name| refused.add_clashing(name, None));
        zone.set_refused(refused.counts());
        // Another directive may have it of this one still.
        for name in names {
            let has = |area: &Area| {
                let owner = area.catalogs.owners.get(name).map(|(owner, _)| owner);
                owner == Some(catalog) && area.follows(&zone).is_some()
            };
            if !self.areas.iter().any(has) {
                members.remove(name);
            }
        }
        zone.set_members(members);
    }
}

impl Area {
    /// How the directive has this zone, if it is a catalog there.
    pub(super) fn follows(&self, zone: &Arc<SecondaryZone>) -> Option<&Configured> {
        let mut configured = self.service.configured.iter();
        configured.find(|own| own.catalog.is_some() && Arc::ptr_eq(&own.zone, zone))
    }

    /// Whether it is a catalog there that was not looked at yet.
    fn begins_with(&self, zone: &Arc<SecondaryZone>) -> bool {
        self.follows(zone).is_some() && !self.catalogs.now.contains_key(zone.origin())
    }

    /// Other catalogs that list zones which `zone` had or gives away.
    fn concerned(
        &self,
        zone: &Arc<SecondaryZone>,
        changed: &Changed,
        changes: &Changes,
    ) -> Vec<(Arc<SecondaryZone>, Names)> {
        let others = self.service.configured.iter().filter(|own| !Arc::ptr_eq(&own.zone, zone));
        let concerned = others.filter_map(|other| {
            let origin = other.zone.origin();
            let lists = self.catalogs.now.get(origin)?;
            let is_given = |member: &Arc<Member>| member.coo.as_ref() == Some(origin);
            let given = changed.iter().filter(|(_, member)| member.as_ref().is_some_and(is_given));
            let free = given.map(|(name, _)| name).chain(&changes.removed);
            let free = free.filter(|name| lists.member(name).is_some());
            let names: Names = free.cloned().collect();
            (!names.is_empty()).then(|| (other.zone.clone(), names))
        });
        concerned.collect()
    }

    /// Answers for zones, and for others not any more.
    fn serve(&self, changes: &Changes) {
        for table in [&self.service.zones, &self.service.handed_on] {
            let here = table.load();
            let is_member = |name: &SharedName| {
                here.get(name.view()).is_some_and(|zone| zone.as_secondary().is_some())
            };
            table.update(|update| {
                // Another directive may have come to have the name.
                for name in changes.removed.iter().filter(|name| is_member(name)) {
                    update.remove(name.view());
                }
                for (zone, _) in &changes.added {
                    update.replace(zone.origin(), zone.clone());
                }
            });
        }
    }

    /// Whether it answers for more zones than the configuration names: those that it has from the one before.
    pub(super) fn has_inherited(&self) -> bool {
        let configured = self.service.configured.iter();
        let configured: HashSet<_> = configured.map(|own| own.zone.origin().as_wire()).collect();
        // Both are in lower case.
        self.service.zones.load().iter().any(|(name, _)| !configured.contains(name.as_wire()))
    }

    /// Answers no more for zones that are neither named by the configuration nor members: a configuration that is
    /// made while a member goes has it from the one before.
    pub(super) fn drop_strays(&self) {
        let configured = self.service.configured.iter().map(|own| own.zone.origin());
        let configured: HashSet<_> = configured.collect();
        let is_stray = |name: &SharedName| {
            !self.catalogs.owners.contains_key(name) && !configured.contains(name)
        };
        let zones = self.service.zones.load();
        let names = zones.iter().map(|(name, _)| name);
        let removed: Names = names.filter(|name| is_stray(name)).cloned().collect();
        if !removed.is_empty() {
            self.serve(&Changes { removed, ..Changes::default() });
        }
    }

    /// What a catalog changes for these zones; the members that are served are put into `now`, where
    /// those of other directives are already.
    fn change_members(
        &mut self,
        configured: &Configured,
        changed: &Changed,
        before: &Members,
        now: &mut Members,
        sink: &Sink,
    ) -> Changes {
        let origin = configured.zone.origin();
        let (mut changes, mut new) = (Changes::default(), New::default());
        let mut refused = self.catalogs.refused.remove(origin).unwrap_or_default();
        let owners = &mut self.catalogs.owners;
        owners.reserve(changed.len().saturating_sub(owners.len()));
        for (name, member) in changed {
            let new = (!refused.forget(name)).then_some(&mut new);
            let member = member.as_ref();
            let zone = match self.fate(configured, member, before) {
                Fate::Ends => None,
                Fate::Outside => {
                    refused.add_outside(name, new);
                    None
                }
                Fate::Clashes => {
                    refused.add_clashing(name, new);
                    None
                }
                // Another that is here already takes no more.
                Fate::Begins(None) if !room::has(SECONDARY_OCTETS) && !now.contains_key(name) => {
                    refused.add_without_room(name, new);
                    None
                }
                Fate::Stays => before.get(name).map(|(_, zone)| zone.clone()),
                Fate::Begins(known) => member.map(|member| {
                    let terms = configured.terms(&member.groups);
                    let shared = now.get(name).map(|(_, zone)| zone.clone());
                    let zone = shared.unwrap_or_else(|| beginning(terms, member, known));
                    changes.added.push((zone.clone(), member.clone()));
                    zone
                }),
            };
            let owner = self.catalogs.owners.get(name).map(|(owner, _)| owner);
            let Some((zone, member)) = zone.zip(member) else {
                if owner == Some(origin) && before.contains_key(name) {
                    self.catalogs.owners.remove(name);
                    changes.removed.insert(name.clone());
                }
                continue;
            };
            if let Some(other) = owner.filter(|owner| *owner != origin) {
                let taken = changes.taken.entry(other.clone()).or_default();
                taken.insert(name.clone());
            }
            zone.set_key(configured.terms(&member.groups).key.cloned());
            self.catalogs.owners.insert(name.clone(), (origin.clone(), member.id.clone()));
            now.insert(name.clone(), (member.id.clone(), zone));
        }
        configured.zone.set_refused(refused.counts());
        self.catalogs.refused.insert(origin.clone(), refused);
        new.say(origin, sink);
        changes
    }

    /// See RFC 9432, sections 5.2 to 5.4.
    fn fate(
        &self,
        configured: &Configured,
        member: Option<&Arc<Member>>,
        before: &Members,
    ) -> Fate {
        #[cfg(test)]
        tests::LOOKS.set(tests::LOOKS.get() + 1);
        let Some(member) = member else { return Fate::Ends };
        if !configured.accepts(member.zone.view()) {
            return Fate::Outside;
        }
        let (origin, terms) = (configured.zone.origin(), configured.terms(&member.groups));
        let Some((owner, id)) = self.catalogs.owners.get(&member.zone) else {
            // An earlier configuration has it, or it is new.
            let known = before.get(&member.zone).filter(|(id, _)| *id == member.id);
            return match self.has_other(configured, member) {
                true => Fate::Clashes,
                false => Fate::Begins(known.map(|(_, zone)| zone.clone())),
            };
        };
        if owner == origin {
            let known = before.get(&member.zone).map(|(_, zone)| zone);
            let stays = known.is_some_and(|zone| zone.shared_primaries() == terms.primaries);
            return match (*id == member.id, stays) {
                (true, true) => Fate::Stays,
                // Another group.
                (true, false) => Fate::Begins(known.cloned()),
                (false, _) => Fate::Begins(None),
            };
        }
        let source = self.catalogs.now.get(owner).and_then(|other| other.member(&member.zone));
        match source {
            Some(source) if source.coo.as_ref() == Some(origin) => {
                let is_same = *id == source.id && source.id == member.id;
                let given = self.zones.get(&member.zone).filter(|_| is_same);
                let given = given.map(|kept| &kept.zone);
                // Another directive, which does not have the other catalog, may have it of this one already.
                let shared = before.get(&member.zone).filter(|(id, _)| *id == member.id);
                let shared = shared.map(|(_, zone)| zone);
                let filled = shared.filter(|zone| zone.served().load().is_some());
                Fate::Begins(filled.or(given).or(shared).cloned())
            }
            _ => Fate::Clashes,
        }
    }
}
