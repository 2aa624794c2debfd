//! Members of catalogs (RFC 9432): zones that come and go with the records of another.

use super::ORIGIN;
use super::keeper::{Area, Keeper};
use nodens_core::log::{Level, Sink};
use nodens_wire::Name;
use nodens_zone::Zone;
use nodens_zone::catalog::{Catalog, Member};
use nodens_zone::data::Data;
use nodens_zone::secondary::{Configured, Members, SecondaryZone};
use std::collections::HashMap;
use std::fmt::Write;
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

impl Keeper {
    /// A catalog has become this version: its members are served from now on, and others not any more.
    pub(super) fn apply_catalog(&mut self, index: usize, origin: &Name, data: &Data) {
        let sink = self.sink.clone();
        let Some(area) = self.areas.get_mut(index) else { return };
        let configured = area.service.configured.iter().find(|own| own.zone.origin() == origin);
        let Some(configured) = configured.filter(|own| own.catalog.is_some()).cloned() else {
            return;
        };
        let catalog = match Catalog::read(data) {
            Ok(catalog) => catalog,
            Err(error) => {
                let text = format!("Failed to take up catalog zone {origin}: {error}");
                return sink.line(Level::Error, ORIGIN, text);
            }
        };
        let changes = area.change_members(&configured, &catalog, &sink);
        let text = format!(
            "Parsed catalog zone {origin} with {} member zones: {} added, {} removed",
            catalog.members.len(),
            changes.added.len(),
            changes.removed.len()
        );
        sink.line(Level::Info, ORIGIN, text);
        area.catalogs.now.insert(origin.clone(), catalog);
        for table in [&area.service.zones, &area.service.handed_on] {
            table.update(|update| {
                for name in &changes.removed {
                    update.remove(name.view());
                }
                for zone in &changes.added {
                    update.replace(zone.origin().view(), zone.clone() as Arc<dyn Zone>);
                }
            });
        }
        for name in &changes.removed {
            area.forget(name);
        }
        for zone in changes.added {
            self.keep(index, zone, configured.store.as_deref());
        }
    }
}

impl Area {
    /// What `catalog` changes; the members that are served are noted.
    fn change_members(
        &mut self,
        configured: &Configured,
        catalog: &Catalog,
        sink: &Sink,
    ) -> Changes {
        let origin = configured.zone.origin();
        let (before, mut now) = (configured.zone.members(), Members::new());
        let (mut changes, mut refused, mut clashes) = (Changes::default(), 0_usize, String::new());
        for member in &catalog.members {
            if !configured.accepts(member.zone.view()) {
                refused += 1;
                continue;
            }
            let zone = match self.fate(origin, member, &before) {
                Fate::Clashes => {
                    _ = write!(clashes, " {}", member.zone);
                    continue;
                }
                Fate::Stays => before.get(&member.zone).map(|(_, zone)| zone.clone()),
                Fate::Begins(known) => {
                    let primaries = configured.zone.primaries();
                    let zone = match known {
                        Some(known) if known.primaries() == primaries => known,
                        Some(known) => Arc::new(known.moved(primaries.to_vec())),
                        None => {
                            let name = member.zone.clone();
                            Arc::new(SecondaryZone::new(name, primaries.to_vec()))
                        }
                    };
                    changes.added.push(zone.clone());
                    Some(zone)
                }
            };
            if let Some(zone) = &zone {
                zone.set_key(configured.key.clone());
            }
            let owner = (origin.clone(), member.id.clone());
            self.catalogs.owners.insert(member.zone.clone(), owner);
            now.extend(zone.map(|zone| (member.zone.clone(), (member.id.clone(), zone))));
        }
        for name in before.keys().filter(|name| !now.contains_key(*name)) {
            let owner = self.catalogs.owners.get(name);
            if owner.is_some_and(|(owner, _)| owner == origin) {
                self.catalogs.owners.remove(name);
                changes.removed.push(name.clone());
            }
        }
        configured.zone.set_members(now);
        if refused > 0 {
            let text = format!(
                "Skipped {refused} member zones from catalog {origin}: outside configured member zones"
            );
            sink.line(Level::Warning, ORIGIN, text);
        }
        if !clashes.is_empty() {
            let text =
                format!("Skipping member zones of catalog {origin}, which exist already:{clashes}");
            sink.line(Level::Warning, ORIGIN, text);
        }
        changes
    }

    /// See RFC 9432, sections 5.2 to 5.4.
    fn fate(&self, origin: &Name, member: &Member, before: &Members) -> Fate {
        let Some((owner, id)) = self.catalogs.owners.get(&member.zone) else {
            // An earlier configuration has it, or it is new.
            let known = before.get(&member.zone).filter(|(id, _)| *id == member.id);
            return match self.zones.contains_key(&member.zone) {
                true => Fate::Clashes,
                false => Fate::Begins(known.map(|(_, zone)| zone.clone())),
            };
        };
        if owner == origin {
            return if *id == member.id { Fate::Stays } else { Fate::Begins(None) };
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
