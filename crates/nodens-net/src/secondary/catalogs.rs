//! Members of catalogs (RFC 9432): zones that come and go with the records of another.

use super::ORIGIN;
use super::areas::Area;
use super::keeper::Keeper;
use crate::limits::CLASHES_NAMED;
use nodens_core::log::{Level, Sink};
use nodens_wire::Name;
use nodens_zone::Zone;
use nodens_zone::catalog::{Catalog, Member};
use nodens_zone::data::Data;
use nodens_zone::secondary::{Configured, Members, RefusedMembers, SecondaryZone, Terms};
use std::collections::{HashMap, HashSet};
use std::fmt::{self, Write};
use std::path::Path;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// The catalogs of one directive.
#[derive(Default)]
pub(super) struct Catalogs {
    /// What each says now.
    now: HashMap<Name, Catalog>,
    /// Which catalog has each member that is served, and its label there.
    owners: HashMap<Name, (Name, Box<[u8]>)>,
}

/// Zones to be added and zones to be removed.
#[derive(Default)]
struct Changes {
    added: Vec<Arc<SecondaryZone>>,
    removed: Vec<Name>,
}

/// What becomes of a member.
enum Fate {
    /// It is served as it is.
    Stays,
    /// Another zone of its name is in its place.
    Clashes,
    /// It begins, with what is here of the zone.
    Begins(Option<Arc<SecondaryZone>>),
}

/// Members in whose places other zones are, the first of them by name.
#[derive(Default)]
struct Clashes {
    names: String,
    count: usize,
}

impl Clashes {
    fn add(&mut self, zone: &Name) {
        self.count += 1;
        if self.count <= CLASHES_NAMED {
            _ = write!(self.names, " {zone}");
        }
    }
}

impl fmt::Display for Clashes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count.saturating_sub(CLASHES_NAMED) {
            0 => f.write_str(&self.names),
            others => write!(f, "{} and {others} others", self.names),
        }
    }
}

impl Keeper {
    /// A catalog has become this version: its members are served from now on, and others not any more, by
    /// every directive that has it.
    pub(super) fn apply_catalog(&mut self, zone: &Arc<SecondaryZone>, data: &Data) {
        if !self.areas.iter().any(|area| area.follows(zone).is_some()) {
            return;
        }
        let read = Catalog::read(data);
        let failure = read.as_ref().err();
        let failure = failure.map(|error| format!("not taken up as a catalog: {error}"));
        let area = self.keeper_of(zone).and_then(|area| self.areas.get_mut(area));
        if let Some(kept) = area.and_then(|area| area.zones.get_mut(zone.origin()))
            && kept.not_followed != failure
        {
            zone.note_failure(failure.as_deref());
            // It stays so until there is another version, however often the primary is reached.
            kept.not_followed = failure;
        }
        match read {
            Ok(catalog) => self.follow(zone, &catalog),
            Err(error) => {
                self.counts.catalogs_broken.add(1);
                let text = format!("Failed to take up catalog zone {}: {error}", zone.origin());
                self.sink.line(Level::Error, ORIGIN, text);
            }
        }
    }

    fn follow(&mut self, zone: &Arc<SecondaryZone>, catalog: &Catalog) {
        let (before, mut now) = (zone.members(), Members::new());
        let (sink, mut all) = (self.sink.clone(), Vec::new());
        for (index, area) in self.areas.iter_mut().enumerate() {
            let Some(configured) = area.follows(zone).cloned() else { continue };
            let changes = area.change_members(&configured, catalog, &before, &mut now, &sink);
            let text = format!(
                "Parsed catalog zone {} with {} member zones: {} added, {} removed",
                zone.origin(),
                catalog.members.len(),
                changes.added.len(),
                changes.removed.len()
            );
            sink.line(Level::Info, ORIGIN, text);
            area.catalogs.now.insert(zone.origin().clone(), catalog.clone());
            area.serve(&changes);
            all.push((index, configured, changes));
        }
        zone.set_members(now);
        // Once all answer for what they have now: a zone that one does not have may be another's.
        let mut others = Vec::new();
        for (index, configured, changes) in all {
            for name in &changes.removed {
                self.forget(index, name);
            }
            for zone in changes.added {
                let groups = catalog.member(zone.origin()).map(|member| &*member.groups);
                let terms = configured.terms(groups.unwrap_or_default());
                self.begin(index, zone, terms.store);
            }
            let area = self.areas.get(index);
            others
                .extend(area.into_iter().flat_map(|area| area.listed_elsewhere(&changes.removed)));
        }
        for (zone, catalog) in others {
            self.follow(&zone, &catalog);
        }
    }

    /// Keeps a member, in the place of one of its name that begins anew or comes from elsewhere.
    fn begin(&mut self, index: usize, zone: Arc<SecondaryZone>, folder: Option<&Path>) {
        let kept = self.areas.get(index).and_then(|area| area.zones.get(zone.origin()));
        if kept.is_some_and(|kept| !Arc::ptr_eq(&kept.zone, &zone)) {
            self.forget(index, zone.origin());
        }
        if self.keeper_of(&zone).is_none() {
            self.keep(index, zone, folder);
        }
    }
}

impl Area {
    /// How the directive has this zone, if it is a catalog there.
    fn follows(&self, zone: &Arc<SecondaryZone>) -> Option<&Configured> {
        let mut configured = self.service.configured.iter();
        configured.find(|own| own.catalog.is_some() && Arc::ptr_eq(&own.zone, zone))
    }

    /// The catalogs that have one of these zones, which nobody has any more.
    fn listed_elsewhere(&self, names: &[Name]) -> Vec<(Arc<SecondaryZone>, Catalog)> {
        let has_one = |catalog: &Catalog| names.iter().any(|name| catalog.member(name).is_some());
        let configured = self.service.configured.iter();
        let listed = configured.filter_map(|own| {
            let catalog = self.catalogs.now.get(own.zone.origin())?;
            has_one(catalog).then(|| (own.zone.clone(), catalog.clone()))
        });
        listed.collect()
    }

    /// Answers for zones, and for others not any more.
    fn serve(&self, changes: &Changes) {
        for table in [&self.service.zones, &self.service.handed_on] {
            table.update(|update| {
                for name in &changes.removed {
                    update.remove(name.view());
                }
                for zone in &changes.added {
                    update.replace(zone.origin().view(), zone.clone() as Arc<dyn Zone>);
                }
            });
        }
    }

    /// What `catalog` changes; the members that are served are put into `now`, where those of other
    /// directives are already.
    fn change_members(
        &mut self,
        configured: &Configured,
        catalog: &Catalog,
        before: &Members,
        now: &mut Members,
        sink: &Sink,
    ) -> Changes {
        let origin = configured.zone.origin();
        let (mut changes, mut own) = (Changes::default(), HashSet::new());
        let (mut refused, mut clashes) = (RefusedMembers::default(), Clashes::default());
        for member in &catalog.members {
            if !configured.accepts(member.zone.view()) {
                refused.outside += 1;
                continue;
            }
            let shared = now.get(&member.zone).map(|(_, zone)| zone.clone());
            let terms = configured.terms(&member.groups);
            let zone = match self.fate(origin, member, before, terms) {
                Fate::Clashes => {
                    refused.clashing += 1;
                    clashes.add(&member.zone);
                    continue;
                }
                Fate::Stays => before.get(&member.zone).map(|(_, zone)| zone.clone()),
                Fate::Begins(known) => {
                    let zone = shared.unwrap_or_else(|| beginning(terms, member, known));
                    changes.added.push(zone.clone());
                    Some(zone)
                }
            };
            if let Some(zone) = &zone {
                zone.set_key(terms.key.cloned());
            }
            let owner = (origin.clone(), member.id.clone());
            self.catalogs.owners.insert(member.zone.clone(), owner);
            own.insert(&member.zone);
            now.extend(zone.map(|zone| (member.zone.clone(), (member.id.clone(), zone))));
        }
        for name in before.keys().filter(|name| !own.contains(name)) {
            let owner = self.catalogs.owners.get(name);
            if owner.is_some_and(|(owner, _)| owner == origin) {
                self.catalogs.owners.remove(name);
                changes.removed.push(name.clone());
            }
        }
        configured.zone.set_refused(refused);
        let outside = refused.outside;
        if outside > 0 {
            let text = format!(
                "Skipped {outside} member zones from catalog {origin}: outside configured member zones"
            );
            sink.line(Level::Warning, ORIGIN, text);
        }
        if clashes.count > 0 {
            let text =
                format!("Skipping member zones of catalog {origin}, which exist already:{clashes}");
            sink.line(Level::Warning, ORIGIN, text);
        }
        changes
    }

    /// See RFC 9432, sections 5.2 to 5.4.
    fn fate(&self, origin: &Name, member: &Member, before: &Members, terms: Terms<'_>) -> Fate {
        let Some((owner, id)) = self.catalogs.owners.get(&member.zone) else {
            // An earlier configuration has it, or it is new.
            let known = before.get(&member.zone).filter(|(id, _)| *id == member.id);
            // A zone of the configuration may be kept for another directive.
            let is_configured =
                self.service.configured.iter().any(|own| *own.zone.origin() == member.zone);
            return match is_configured || self.zones.contains_key(&member.zone) {
                true => Fate::Clashes,
                false => Fate::Begins(known.map(|(_, zone)| zone.clone())),
            };
        };
        if owner == origin {
            let known = before.get(&member.zone).map(|(_, zone)| zone);
            let stays = known.is_some_and(|zone| zone.primaries() == terms.primaries);
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
                let known = self.zones.get(&member.zone).filter(|_| is_same);
                Fate::Begins(known.map(|kept| kept.zone.clone()))
            }
            _ => Fate::Clashes,
        }
    }
}

/// The zone of a member that begins, with what is here of it.
fn beginning(
    Terms { primaries, .. }: Terms<'_>,
    member: &Member,
    known: Option<Arc<SecondaryZone>>,
) -> Arc<SecondaryZone> {
    match known {
        Some(known) if known.primaries() == primaries => known,
        Some(known) => Arc::new(known.moved(primaries.to_vec())),
        None => Arc::new(SecondaryZone::new(member.zone.clone(), primaries.to_vec())),
    }
}
