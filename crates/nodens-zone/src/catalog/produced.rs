//! Catalogs that list the zones of this server, for others that follow them.

use super::member_name;
use crate::data::{Data, Edit, Incomplete, Refused, Served};
use crate::journal::{Journal, Packed, Step, Steps};
use crate::limits::{CATALOG_AHEAD_S, JOURNAL_OCTETS};
use crate::serial::Serial;
use crate::table::{Changes, ZoneTable};
use crate::zone::{Soa, Version, Zone};
use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Class, Name, NameRef, Record, Type};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

#[cfg(test)]
mod tests;

/// Octets of a hash that the label of a member is made of.
const ID_OCTETS: usize = 16;
/// Octets of the names below a catalog beyond its own: a label for a member, and `zones`.
const BELOW_LEN: usize = 1 + 2 * ID_OCTETS + 6;
/// REFRESH, RETRY, EXPIRE and MINIMUM. EXPIRE is for ever: zones should not go because this server is down.
const TIMES: [u32; 4] = [3600, 600, 2_147_483_646, 0];

/// A catalog zone whose members are zones of this server (RFC 9432).
pub struct Produced {
    origin: Name,
    served: Served,
    /// Locked while a version is replaced, so that it is of the version that is served.
    state: Mutex<State>,
}

struct State {
    members: BTreeSet<Name>,
    journal: Journal,
    /// When the last version was made, in Unix seconds.
    changed_s: Option<u64>,
}

impl fmt::Debug for Produced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Produced({}, {:?})", self.origin, self.served)
    }
}

/// What a change of a catalog came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The version.
    pub serial: Serial,
    /// How many members it has.
    pub members: usize,
    /// How many of them are new.
    pub added: usize,
    /// How many have gone.
    pub removed: usize,
}

/// Why a catalog lists later what it has to list now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Delay {
    /// A record cannot be added, most likely because there is no room for it.
    #[error("{0}")]
    Refused(#[from] Refused),
    /// The records make no zone.
    #[error("{0}")]
    Incomplete(#[from] Incomplete),
    /// Zones may be missing that have only not been found yet ([`ZoneTable::is_complete`]): there is no first
    /// version, and none is taken out.
    #[error("not all of its zones are known")]
    Unknown,
}

impl Produced {
    /// A catalog of which there is no version yet.
    fn new(origin: Name) -> Self {
        let journal = Journal::new(JOURNAL_OCTETS);
        let state = State { members: BTreeSet::new(), journal, changed_s: None };
        Self { origin, served: Served::default(), state: Mutex::new(state) }
    }

    /// Its name, in lower case.
    pub fn origin(&self) -> &Name {
        &self.origin
    }

    /// What is served.
    pub fn served(&self) -> &Served {
        &self.served
    }

    /// Whether the names of members have room below it.
    pub fn has_room(origin: NameRef<'_>) -> bool {
        origin.as_wire().len() + BELOW_LEN <= NAME_LEN_MAX
    }

    /// Whether there may be another version: serials follow the time in seconds, so that those after a restart are
    /// later ones. Where the clock was set back, they go on from the last one, once a second as well.
    pub fn may_change(&self, unix_s: u64) -> bool {
        if lock(&self.state).changed_s == Some(unix_s) {
            return false;
        }
        let ahead_s = |soa: &Soa| soa.serial().0.wrapping_sub(unix_s as u32);
        self.served.soa().is_none_or(|soa| ahead_s(&soa) > CATALOG_AHEAD_S)
    }

    /// Adds zones as members, or takes them out; nothing if that makes no difference. The zone has to be
    /// announced afterwards.
    ///
    /// # Errors
    /// [`Delay`]; the catalog is then as it was.
    pub fn change(
        &self,
        zones: &BTreeMap<Name, bool>,
        unix_s: u64,
    ) -> Result<Option<Listed>, Delay> {
        let mut state = lock(&self.state);
        let before = self.served.load_full();
        let differs =
            |(zone, is_listed): &(&Name, &bool)| state.members.contains(*zone) != **is_listed;
        let zones: Vec<_> = zones.iter().filter(differs).collect();
        if before.is_some() && zones.is_empty() {
            return Ok(None);
        }
        let mut edit = match &before {
            Some(data) => data.edit(),
            None => self.first()?,
        };
        let (mut added, mut removed) = (Packed::default(), Packed::default());
        for (zone, is_listed) in &zones {
            let record = self.member(zone);
            if **is_listed {
                edit.add((&record).into())?;
                added.push((&record).into());
            } else {
                edit.remove((&record).into());
                removed.push((&record).into());
            }
        }
        let (added_count, removed_count) = (added.len() as usize, removed.len() as usize);
        let now = Serial(unix_s as u32);
        let last = before.as_ref().map(|data| data.soa().serial());
        let next = last.map(|last| Serial(last.0.wrapping_add(1)));
        let serial = next.filter(|next| *next > now).unwrap_or(now);
        let data = self.finish(edit, serial)?;
        // Nothing fails from here on.
        for (zone, is_listed) in zones {
            match is_listed {
                true => state.members.insert(zone.clone()),
                false => state.members.remove(zone),
            };
        }
        if let Some(before) = &before {
            let (from, to) = (before.soa().clone(), data.soa().clone());
            state.journal.push(Arc::new(Step { from, to, removed, added }));
            state.journal.trim(data.records());
        }
        self.served.store(data);
        state.changed_s = Some(unix_s);
        let members = state.members.len();
        Ok(Some(Listed { serial, members, added: added_count, removed: removed_count }))
    }

    /// Whether a zone is a member.
    fn has(&self, zone: &Name) -> bool {
        lock(&self.state).members.contains(zone)
    }

    /// The names of all members.
    fn members(&self) -> BTreeSet<Name> {
        lock(&self.state).members.clone()
    }

    /// What every version has (section 4.1 and 4.2.1).
    fn first(&self) -> Result<Edit, Delay> {
        let mut edit = Edit::new(self.origin.view(), Class::IN);
        let version = below("version", &self.origin);
        let records = [
            self.record(self.origin.clone(), Type::NS, invalid().as_wire().to_vec()),
            self.record(version, Type::TXT, b"\x012".to_vec()),
        ];
        records.iter().try_for_each(|record| edit.add(record.into()).map(|_| ()))?;
        Ok(edit)
    }

    fn finish(&self, mut edit: Edit, serial: Serial) -> Result<Data, Delay> {
        let [refresh, retry, expire, minimum] = TIMES;
        let numbers = [serial.0, refresh, retry, expire, minimum];
        let soa = Soa::with(self.origin.view(), 0, (&invalid(), &invalid()), numbers);
        edit.add(soa.record().into())?;
        Ok(edit.finish()?)
    }

    fn member(&self, zone: &Name) -> Record {
        let owner = member_name(&id_of(zone), self.origin.view());
        self.record(owner, Type::PTR, zone.as_wire().to_vec())
    }

    fn record(&self, owner: Name, rtype: Type, rdata: Vec<u8>) -> Record {
        Record { owner, rtype, class: Class::IN, ttl: 0, rdata }
    }
}

/// The label of a member: always the same for a zone, so that it is not taken for another after a restart.
fn id_of(zone: &Name) -> Vec<u8> {
    let hash = Sha256::digest(zone.to_folded().as_wire());
    let digits = hash.iter().take(ID_OCTETS).map(|octet| format!("{octet:02x}"));
    digits.collect::<String>().into_bytes()
}

fn invalid() -> Name {
    Name::from_wire(b"\x07invalid\0").unwrap_or_else(|_| Name::root())
}

fn below(label: &str, origin: &Name) -> Name {
    let mut wire = vec![label.len() as u8];
    wire.extend_from_slice(label.as_bytes());
    wire.extend_from_slice(origin.as_wire());
    Name::from_wire(&wire).unwrap_or_else(|_| origin.clone())
}

impl Zone for Produced {
    fn soa(&self) -> Option<Soa> {
        self.served.soa()
    }

    fn version(&self) -> Option<Version> {
        self.served.version()
    }

    fn since(&self, serial: Serial) -> Option<Version> {
        let (steps, data) = {
            let state = lock(&self.state);
            (state.journal.since(serial)?, self.served.load_full()?)
        };
        let records: u64 = steps.iter().map(|step| step.records()).sum();
        let fits = steps.last()?.to.serial() == data.soa().serial() && records < data.records();
        fits.then(|| Version { soa: data.soa().clone(), records: Box::new(Steps::new(steps)) })
    }
}

/// Catalogs by name, for as long as a configuration has them: a new one goes on with what they list.
#[derive(Debug, Default)]
pub struct KnownCatalogs(Mutex<HashMap<Name, Weak<Produced>>>);

impl KnownCatalogs {
    /// The catalog with this name.
    pub fn get(&self, origin: NameRef<'_>) -> Arc<Produced> {
        let mut known = lock(&self.0);
        known.retain(|_, catalog| catalog.strong_count() > 0);
        let origin = origin.to_name().to_folded();
        if let Some(catalog) = known.get(&origin).and_then(Weak::upgrade) {
            return catalog;
        }
        let catalog = Arc::new(Produced::new(origin.clone()));
        known.insert(origin, Arc::downgrade(&catalog));
        catalog
    }
}

/// Says which zones a catalog lists.
pub trait Listing: Send + Sync + fmt::Debug {
    /// Whether this one is among them.
    fn lists(&self, zone: NameRef<'_>) -> bool;
}

/// A catalog to be kept up to date, by whoever has a clock: with a [`Producer`].
#[derive(Clone, Debug)]
pub struct CatalogService {
    /// The catalog.
    pub catalog: Arc<Produced>,
    /// The zones that it may list. Those that are transferred from primaries it does not list: after a restart
    /// they may be there later than it.
    pub zones: Arc<ZoneTable>,
    /// Which of them it lists.
    pub listing: Arc<dyn Listing>,
}

/// Keeps catalogs up to date as zones come and go. Costs as much as changes.
#[derive(Debug)]
pub struct Producer {
    services: Vec<CatalogService>,
    changes: Arc<Changes>,
    /// Of each.
    waiting: Vec<Waiting>,
}

/// What is not in a version yet.
#[derive(Debug, Default)]
struct Waiting {
    /// Zones that came, and zones that went.
    zones: BTreeMap<Name, bool>,
    /// Why they are not in the last version, which was said.
    delay: Option<Delay>,
}

impl Waiting {
    /// Takes up all that may be taken up; the rest stays here.
    fn take_up(&mut self, service: &CatalogService, unix_s: u64) -> Result<Option<Listed>, Delay> {
        let CatalogService { catalog, zones, .. } = service;
        let mut due = std::mem::take(&mut self.zones);
        if !zones.is_complete() {
            self.zones =
                due.iter().filter(|own| !own.1).map(|own| (own.0.clone(), false)).collect();
            due.retain(|_, is_listed| *is_listed);
            if due.is_empty() || catalog.soa().is_none() {
                self.zones.extend(due);
                return Err(Delay::Unknown);
            }
        }
        let listed = catalog.change(&due, unix_s);
        if listed.is_err() {
            self.zones.extend(due);
        }
        listed
    }
}

impl Producer {
    /// For these; `wake` is called when [`Producer::turn`] has something to do.
    pub fn new(services: &[CatalogService], wake: impl Fn() + Send + Sync + 'static) -> Self {
        let changes = Arc::new(Changes::new(wake));
        // Members that are not there any more; those that are, the table tells of.
        let gone = services.iter().map(|service| {
            let zones = service.catalog.members().into_iter().map(|zone| (zone, false)).collect();
            Waiting { zones, delay: None }
        });
        let waiting = gone.collect();
        for (number, service) in (0..).zip(services) {
            service.zones.listen(&changes, number);
        }
        Self { services: services.to_vec(), changes, waiting }
    }

    /// Takes up what has changed, and calls `say` for each catalog that has another version now, or has none
    /// because of something that was not said yet. Gives whether some have to be tried again in a second.
    pub fn turn(&mut self, unix_s: u64, mut say: impl FnMut(&Name, Result<Listed, Delay>)) -> bool {
        for (number, zone) in self.changes.take() {
            let place = number as usize;
            let (Some(service), Some(waiting)) =
                (self.services.get(place), self.waiting.get_mut(place))
            else {
                continue;
            };
            let table = service.zones.load();
            let here = table.get(zone.view()).filter(|own| own.as_secondary().is_none());
            let is_listed = here.is_some() && service.listing.lists(zone.view());
            match is_listed == service.catalog.has(&zone) {
                true => _ = waiting.zones.remove(&zone),
                false => _ = waiting.zones.insert(zone, is_listed),
            }
        }
        let mut waits = false;
        for (service, waiting) in self.services.iter().zip(&mut self.waiting) {
            let CatalogService { catalog, zones, .. } = service;
            if waiting.zones.is_empty() && catalog.soa().is_some() {
                continue;
            }
            if !catalog.may_change(unix_s) {
                waits = true;
                continue;
            }
            let listed = waiting.take_up(service, unix_s);
            let before = std::mem::replace(&mut waiting.delay, listed.err());
            waits |= !waiting.zones.is_empty() || waiting.delay.is_some();
            match listed {
                Ok(None) => {}
                Ok(Some(listed)) => {
                    zones.announce(catalog.origin().view());
                    say(catalog.origin(), Ok(listed));
                }
                Err(delay) if before == Some(delay) => {}
                Err(delay) => say(catalog.origin(), Err(delay)),
            }
        }
        waits
    }

    /// Whether there are no catalogs.
    pub fn is_empty(&self) -> bool {
        self.services.is_empty()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
