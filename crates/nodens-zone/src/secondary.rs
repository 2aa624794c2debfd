//! Zones that are transferred from primaries, as their users and their keeper share them.

use crate::catalog::Catalog;
use crate::counts;
use crate::data::{Data, Served, room};
use crate::image::Written;
use crate::journal::{Journal, Step, Steps};
use crate::limits::{JOURNAL_OCTETS, SECONDARY_OCTETS};
use crate::serial::Serial;
use crate::table::ZoneTable;
use crate::tsig::Key;
use crate::zone::{Sight, Soa, Version, Zone};
use foldhash::fast::RandomState;
use nodens_wire::SharedName;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

mod configured;
mod known;
mod notices;
mod primary;
#[cfg(test)]
mod tests;

pub use configured::{Configured, Group, Terms};
pub use known::Known;
pub use notices::Notices;
pub use primary::{Identity, Primary};

/// When nothing was.
const NEVER: i64 = i64::MIN;

/// A zone, its primaries, and what is here of it.
#[derive(Debug)]
pub struct SecondaryZone {
    origin: SharedName,
    /// Those of all members of a catalog are the same.
    primaries: Arc<[Primary]>,
    /// What queries to the primaries are signed with.
    key: Mutex<Option<Key>>,
    served: Served,
    /// Locked while a version is replaced, so that it is of the version that is served.
    journal: Mutex<Journal>,
    /// When a primary was last reached, in monotonic nanoseconds, which are negative before the machine started;
    /// [`NEVER`] for never.
    reached_ns: AtomicI64,
    /// When a primary is asked next, and when the zone expires; 0 for never.
    refresh_ns: AtomicU64,
    expires_ns: AtomicU64,
    /// Why the last attempt failed, if it did.
    failure: Mutex<Option<Box<str>>>,
    /// The file that it is kept in and what that has, while nothing writes to it: nothing mostly.
    stored: Mutex<Option<Box<(PathBuf, Written)>>>,
    /// Nothing of most zones, of which there may be a hundred thousand.
    of_catalog: OnceLock<Box<OfCatalog>>,
}

/// What a catalog has beside its records.
#[derive(Debug, Default)]
struct OfCatalog {
    /// The last version that was one, which stays in force while there is none.
    in_force: Mutex<Option<Catalog>>,
    /// The zones that are served for it, with their labels in it.
    members: Mutex<Members>,
    /// How many of its members are not served.
    refused: Mutex<RefusedMembers>,
}

/// How many members of a catalog are not served, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusedMembers {
    /// They lie outside of the zones that are accepted.
    pub outside: usize,
    /// Another zone has the name.
    pub clashing: usize,
    /// There was no memory for them.
    pub without_room: usize,
}

/// The zones that are served for a catalog, by name, and the labels that they have in it. A clone costs as much as a
/// change of one.
pub type Members = imbl::GenericHashMap<
    SharedName,
    (Arc<[u8]>, Arc<SecondaryZone>),
    RandomState,
    imbl::shared_ptr::DefaultSharedPtr,
>;

impl SecondaryZone {
    /// A zone of which nothing is here yet.
    pub fn new(origin: impl Into<SharedName>, primaries: impl Into<Arc<[Primary]>>) -> Self {
        room::replaced(0, SECONDARY_OCTETS);
        Self {
            origin: origin.into(),
            primaries: primaries.into(),
            key: Mutex::default(),
            served: Served::default(),
            journal: Mutex::new(Journal::new(JOURNAL_OCTETS)),
            reached_ns: AtomicI64::new(NEVER),
            refresh_ns: AtomicU64::new(0),
            expires_ns: AtomicU64::new(0),
            failure: Mutex::default(),
            stored: Mutex::default(),
            of_catalog: OnceLock::new(),
        }
    }

    /// Its name.
    pub fn origin(&self) -> &SharedName {
        &self.origin
    }

    /// The servers that it is transferred from, in the order in which they are asked.
    pub fn primaries(&self) -> &[Primary] {
        &self.primaries
    }

    /// The same, for other zones that have them.
    pub fn shared_primaries(&self) -> &Arc<[Primary]> {
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
        self.primaries.iter().position(|primary| primary.address.ip().to_canonical() == address)
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
        lock(&self.stored).take().map(|stored| *stored)
    }

    /// Nothing writes to this file any more, which has that.
    pub fn set_stored(&self, path: PathBuf, written: Written) {
        *lock(&self.stored) = Some(Box::new((path, written)));
    }

    /// Of a catalog: the last version that could be read as one. It outlives a reload, versions that are broken and
    /// the end of the zone.
    pub fn catalog(&self) -> Option<Catalog> {
        self.of_catalog.get().and_then(|own| lock(&own.in_force).clone())
    }

    /// Of a catalog: this is in force from now on.
    pub fn set_catalog(&self, catalog: Catalog) {
        let before = lock(&self.of_catalog().in_force).replace(catalog);
        drop(before);
    }

    /// Of a catalog: the zones that are served for it. They outlive a reload.
    pub fn members(&self) -> Members {
        self.of_catalog.get().map_or_else(Members::default, |own| lock(&own.members).clone())
    }

    /// Of a catalog: whether this very zone is served for it.
    pub fn has_member(&self, zone: &SecondaryZone) -> bool {
        let Some(own) = self.of_catalog.get() else { return false };
        let members = lock(&own.members);
        members.get(&zone.origin).is_some_and(|(_, member)| std::ptr::eq(&**member, zone))
    }

    /// Of a catalog: these are served for it now.
    pub fn set_members(&self, members: Members) {
        *lock(&self.of_catalog().members) = members;
    }

    /// Of a catalog: how many of its members are not served.
    pub fn refused(&self) -> RefusedMembers {
        self.of_catalog.get().map_or_else(RefusedMembers::default, |own| *lock(&own.refused))
    }

    /// Of a catalog: so many of its members are not served.
    pub fn set_refused(&self, refused: RefusedMembers) {
        *lock(&self.of_catalog().refused) = refused;
    }

    fn of_catalog(&self) -> &OfCatalog {
        self.of_catalog.get_or_init(Box::default)
    }

    /// A zone of other primaries, with what is here of this one.
    pub fn moved(&self, primaries: impl Into<Arc<[Primary]>>) -> Self {
        let moved = Self::new(self.origin.clone(), primaries);
        moved.set_key(self.key());
        if let Some(data) = self.served.load_full() {
            let shared = data.octets();
            moved.served.store_beside(Data::clone(&data), (&self.served, &data), shared);
            moved.reached_ns.store(self.reached_ns.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        moved
    }

    /// A primary was reached then, in monotonic nanoseconds: perhaps before the machine started, where these are negative.
    pub fn note_reached(&self, at_ns: i64) {
        self.reached_ns.store(at_ns, Ordering::Relaxed);
    }

    /// A primary is asked again at one time, and the zone expires at the other.
    pub fn note_times(&self, refresh_ns: Option<u64>, expires_ns: Option<u64>) {
        self.refresh_ns.store(refresh_ns.unwrap_or(0), Ordering::Relaxed);
        self.expires_ns.store(expires_ns.unwrap_or(0), Ordering::Relaxed);
    }

    /// The last attempt failed for this reason, or it did not fail.
    pub fn note_failure(&self, reason: Option<&str>) {
        *lock(&self.failure) = reason.map(Box::from);
    }

    /// See [`SecondaryZone::note_reached`].
    pub fn reached_ns(&self) -> Option<i64> {
        Some(self.reached_ns.load(Ordering::Relaxed)).filter(|at| *at != NEVER)
    }
}

impl Drop for SecondaryZone {
    fn drop(&mut self) {
        room::replaced(SECONDARY_OCTETS, 0);
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

    fn sight(&self) -> Option<Sight> {
        let time = |at: &AtomicU64| Some(at.load(Ordering::Relaxed)).filter(|at| *at > 0);
        Some(Sight {
            source: "secondary",
            data: self.served.load_full(),
            modified_s: None,
            reached_ns: self.reached_ns(),
            refresh_ns: time(&self.refresh_ns),
            expires_ns: time(&self.expires_ns),
            journal: lock(&self.journal).octets(),
            members: self.of_catalog.get().map_or(0, |own| lock(&own.members).len()),
        })
    }

    fn comes_from(&self) -> String {
        let primaries: Vec<_> = self.primaries.iter().map(Primary::to_string).collect();
        primaries.join(" ")
    }

    fn failure(&self) -> Option<String> {
        lock(&self.failure).as_deref().map(str::to_owned)
    }

    fn as_secondary(&self) -> Option<&SecondaryZone> {
        Some(self)
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
    /// What is counted of transfers.
    pub counts: Arc<counts::Incoming>,
    /// Whether zones have been read from disk.
    pub restoring: Arc<Restoring>,
}

/// Whether the zones that are kept on disk have been read once since the process began.
#[derive(Debug, Default)]
pub struct Restoring(AtomicBool);

impl Restoring {
    /// Whether everything was read that there was.
    pub fn is_done(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Everything was read.
    pub fn finish(&self) {
        self.0.store(true, Ordering::Release);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
