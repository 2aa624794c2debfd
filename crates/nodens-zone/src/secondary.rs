//! Zones that are transferred from primaries, as their users and their keeper share them.

use crate::data::{Data, Served};
use crate::image::Written;
use crate::journal::{Journal, Step, Steps};
use crate::limits::JOURNAL_OCTETS;
use crate::serial::Serial;
use crate::table::ZoneTable;
use crate::tsig::Key;
use crate::zone::{Soa, Version, Zone};
use nodens_wire::{Name, NameRef};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

#[cfg(test)]
mod tests;

/// A zone, its primaries, and what is here of it.
#[derive(Debug)]
pub struct SecondaryZone {
    origin: Name,
    primaries: Vec<SocketAddr>,
    /// What queries to the primaries are signed with.
    key: Mutex<Option<Key>>,
    served: Served,
    /// Locked while a version is replaced, so that it is of the version that is served.
    journal: Mutex<Journal>,
    /// When a primary was last reached, in monotonic nanoseconds; 0 for never.
    reached_ns: AtomicU64,
    /// The file that it is kept in and what that has, while nothing writes to it.
    stored: Mutex<Option<(PathBuf, Written)>>,
    /// Of a catalog: the zones that are served for it, with their labels in it.
    members: Mutex<Members>,
}

/// The zones that are served for a catalog, by name, and the labels that they have in it.
pub type Members = HashMap<Name, (Box<[u8]>, Arc<SecondaryZone>)>;

impl SecondaryZone {
    /// A zone of which nothing is here yet.
    pub fn new(origin: Name, primaries: Vec<SocketAddr>) -> Self {
        Self {
            origin,
            primaries,
            key: Mutex::default(),
            served: Served::default(),
            journal: Mutex::new(Journal::new(JOURNAL_OCTETS)),
            reached_ns: AtomicU64::new(0),
            stored: Mutex::default(),
            members: Mutex::default(),
        }
    }

    /// Its name.
    pub fn origin(&self) -> &Name {
        &self.origin
    }

    /// The servers that it is transferred from, in the order in which they are asked.
    pub fn primaries(&self) -> &[SocketAddr] {
        &self.primaries
    }

    /// What queries to the primaries are signed with, and responses have to be.
    pub fn key(&self) -> Option<Key> {
        lock(&self.key).clone()
    }

    /// From the next query on they are signed with this key, or not at all.
    pub fn set_key(&self, key: Option<Key>) {
        *lock(&self.key) = key;
    }

    /// The first primary with this address, whatever its port.
    pub fn primary_at(&self, address: IpAddr) -> Option<usize> {
        let address = address.to_canonical();
        self.primaries.iter().position(|primary| primary.ip().to_canonical() == address)
    }

    /// What is served.
    pub fn served(&self) -> &Served {
        &self.served
    }

    /// The version that is served.
    pub fn data(&self) -> Option<Data> {
        self.served.load().as_deref().cloned()
    }

    /// Serves another version, which these steps lead to from the one before it; none where that is not
    /// known.
    pub fn replace(&self, data: Data, steps: &[Arc<Step>]) {
        // Held, so that the version before is not freed while a worker may wait for the journal.
        let before = self.served.load_full();
        {
            let mut journal = lock(&self.journal);
            if steps.is_empty() {
                journal.forget();
            }
            steps.iter().for_each(|step| journal.push(step.clone()));
            // More than the zone has is never handed on.
            journal.trim(data.records());
            self.served.store(data);
        }
        drop(before);
        self.served.sweep();
    }

    /// Serves nothing any more.
    pub fn expire(&self) {
        let before = self.served.load_full();
        {
            let mut journal = lock(&self.journal);
            journal.forget();
            self.served.clear();
        }
        drop(before);
        self.served.sweep();
    }

    /// The file that it is kept in, and what that has: for who writes to it from now on.
    pub fn take_stored(&self) -> Option<(PathBuf, Written)> {
        lock(&self.stored).take()
    }

    /// Nothing writes to this file any more, which has that.
    pub fn set_stored(&self, path: PathBuf, written: Written) {
        *lock(&self.stored) = Some((path, written));
    }

    /// Of a catalog: the zones that are served for it. They outlive a reload.
    pub fn members(&self) -> Members {
        lock(&self.members).clone()
    }

    /// Of a catalog: these are served for it now.
    pub fn set_members(&self, members: Members) {
        *lock(&self.members) = members;
    }

    /// A zone of other primaries, with what is here of this one.
    pub fn moved(&self, primaries: Vec<SocketAddr>) -> Self {
        let moved = Self::new(self.origin.clone(), primaries);
        moved.set_key(self.key());
        if let Some(data) = self.data() {
            moved.replace(data, &[]);
            moved.reached_ns.store(self.reached_ns.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        moved
    }

    /// A primary was reached.
    pub fn note_reached(&self, now_ns: u64) {
        self.reached_ns.store(now_ns.max(1), Ordering::Relaxed);
    }

    /// When a primary was last reached, in monotonic nanoseconds.
    pub fn reached_ns(&self) -> Option<u64> {
        Some(self.reached_ns.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }
}

impl Zone for SecondaryZone {
    fn soa(&self) -> Option<Soa> {
        self.served.soa()
    }

    fn version(&self) -> Option<Version> {
        self.served.version()
    }

    fn since(&self, serial: Serial) -> Option<Version> {
        let (steps, data) = {
            let journal = lock(&self.journal);
            // Counted as a reader, so that it is not freed here.
            (journal.since(serial)?, self.served.load_full()?)
        };
        let records: u64 = steps.iter().map(|step| step.records()).sum();
        // No later step begins where this server's version ends, and less than the zone is wanted.
        let fits = steps.last()?.to.serial() == data.soa().serial() && records < data.records();
        fits.then(|| Version { soa: data.soa().clone(), records: Box::new(Steps::new(steps)) })
    }

    fn as_secondary(&self) -> Option<&SecondaryZone> {
        Some(self)
    }
}

/// Primaries that say that a zone has changed (RFC 1996), each once, until the keeper takes them.
#[derive(Default)]
pub struct Notices {
    waiting: Mutex<BTreeMap<(Name, usize), Option<Serial>>>,
    wake: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Notices({})", lock(&self.waiting).len())
    }
}

impl Notices {
    /// Has `wake` called when there is something to take.
    pub fn on_notice(&self, wake: impl Fn() + Send + Sync + 'static) {
        *lock(&self.wake) = Some(Box::new(wake));
    }

    /// The primary with this index says that `zone` has changed, and perhaps to what: of what it says
    /// before the keeper takes it, the latest version counts, and one that it does not name most. Gives
    /// whether nothing from this primary was waiting.
    pub fn note(&self, zone: Name, primary: usize, serial: Option<Serial>) -> bool {
        let (had_some, is_new) = {
            let mut waiting = lock(&self.waiting);
            let had_some = !waiting.is_empty();
            let is_new = match waiting.entry((zone, primary)) {
                Entry::Vacant(place) => {
                    place.insert(serial);
                    true
                }
                Entry::Occupied(mut place) => {
                    let is_later = |noted| serial.is_none_or(|serial| serial > noted);
                    if place.get().is_some_and(is_later) {
                        place.insert(serial);
                    }
                    false
                }
            };
            (had_some, is_new)
        };
        if let Some(wake) = lock(&self.wake).as_ref().filter(|_| !had_some) {
            wake();
        }
        is_new
    }

    /// Takes what was noted.
    pub fn take(&self) -> impl Iterator<Item = (Name, usize, Option<Serial>)> + use<> {
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        waiting.into_iter().map(|((zone, primary), serial)| (zone, primary, serial))
    }
}

/// The zones of one directive `secondary`, for whoever has sockets and keeps them up to date.
#[derive(Clone, Debug, Default)]
pub struct SecondaryService {
    /// The zones that questions are answered from.
    pub zones: Arc<ZoneTable>,
    /// The zones of the server block, which are handed on.
    pub handed_on: Arc<ZoneTable>,
    /// Those that the configuration names.
    pub configured: Vec<Configured>,
    /// What primaries say.
    pub notices: Arc<Notices>,
}

/// A zone that the configuration names.
#[derive(Clone, Debug)]
pub struct Configured {
    /// The zone.
    pub zone: Arc<SecondaryZone>,
    /// Whether its members are zones to be served as well (RFC 9432), and which of them: those in one of
    /// these zones, or all if there are none.
    pub catalog: Option<Vec<Name>>,
    /// See [`SecondaryZone::key`].
    pub key: Option<Key>,
    /// The folder that it and its members are kept in, if any.
    pub store: Option<PathBuf>,
}

impl Configured {
    /// Whether a member of this name is accepted.
    pub fn accepts(&self, member: NameRef<'_>) -> bool {
        let Some(accepted) = &self.catalog else { return false };
        accepted.is_empty() || accepted.iter().any(|zone| member.is_in_domain(zone.view()))
    }
}

type ByPrimaries = HashMap<(Name, Vec<SocketAddr>, Option<Name>), Weak<SecondaryZone>>;

/// Zones by name, primaries and name of the key, for as long as a configuration has them: a new one goes on with what is
/// here.
#[derive(Debug, Default)]
pub struct Known(Mutex<ByPrimaries>);

impl Known {
    /// The zone with this name and these primaries, whose queries are signed with a key of this name.
    /// Primaries may have another zone for each key (views), so that none goes on with that of another.
    pub fn zone(
        &self,
        origin: NameRef<'_>,
        primaries: &[SocketAddr],
        key: Option<NameRef<'_>>,
    ) -> Arc<SecondaryZone> {
        let mut known = lock(&self.0);
        let key_name = key.map(|key| key.to_name().to_folded());
        let key = (origin.to_name().to_folded(), primaries.to_vec(), key_name);
        if let Some(zone) = known.get(&key).and_then(Weak::upgrade) {
            return zone;
        }
        // Those that no configuration has any more go whenever the room would have to grow.
        if known.len() == known.capacity() {
            known.retain(|_, zone| zone.strong_count() > 0);
        }
        let zone = Arc::new(SecondaryZone::new(key.0.clone(), key.1.clone()));
        known.insert(key, Arc::downgrade(&zone));
        zone
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
