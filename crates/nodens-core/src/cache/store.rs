//! All cached answers of the process: one table and one budget for all server blocks.

use super::entry::{self, Entry, Kind, View};
use super::evict::Goal;
use super::key::Key;
use super::table::{Held, SEGMENT_SIZE, Slot, Sweep, Table};
use crate::limits::{CACHE_MEMORY_DEFAULT, CACHE_MEMORY_MAX, CACHE_MEMORY_MIN};
use crate::metrics::Counter;
use crate::time::Now;
use foldhash::quality::RandomState;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Whose answers: a server block as it stands in the Corefile. Blocks never see each other's.
#[derive(Debug)]
pub(crate) struct Scope {
    /// Unique for the life of the process.
    id: u64,
    /// What the block says, as a number that other processes compute alike.
    pub(crate) fingerprint: u64,
    /// The block is gone from the configuration.
    retired: AtomicBool,
    /// For how many seconds after its expiry an answer may be served.
    pub(crate) stale_s: u32,
    /// Entries by class, see [`Kind::class`].
    counts: [AtomicUsize; 2],
    /// Counts what was evicted, by class.
    pub(crate) evictions: [Counter; 2],
}

impl Scope {
    /// Whether no configuration has the block any more.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Relaxed)
    }

    /// How many entries there are of `class`.
    pub(crate) fn count(&self, class: usize) -> usize {
        self.counts.get(class).map_or(0, |count| count.load(Relaxed))
    }
}

/// Keeps a scope's answers alive as long as a configuration has the block.
#[derive(Debug)]
pub(crate) struct Lease {
    scope: Arc<Scope>,
}

impl Lease {
    /// The scope.
    pub(crate) fn scope(&self) -> &Arc<Scope> {
        &self.scope
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.scope.retired.store(true, Relaxed);
    }
}

/// Answers kept for all server blocks.
///
/// Readers take no lock and write nothing that another reader or a writer reads. Writers lock the
/// bucket's stripe.
#[derive(Default)]
pub struct Store {
    pub(super) table: Table,
    hasher: RandomState,
    pub(super) ledger: Ledger,
    scopes: Mutex<Scopes>,
}

/// What writers count, away from what readers read.
#[repr(align(128))]
pub(super) struct Ledger {
    pub(super) budget: AtomicUsize,
    /// What the configuration wants for it.
    pub(super) wanted: AtomicUsize,
    /// What there is for it.
    pub(super) ceiling: AtomicUsize,
    pub(super) used: AtomicUsize,
    pub(super) stale: AtomicUsize,
    pub(super) probation: AtomicUsize,
    pub(super) entries: AtomicUsize,
    /// Where eviction goes on, in buckets.
    pub(super) hand: Mutex<usize>,
    /// Insertions so far, which say where tidying goes on.
    pub(super) broom: AtomicUsize,
}

impl Default for Ledger {
    fn default() -> Self {
        Self {
            budget: AtomicUsize::new(CACHE_MEMORY_DEFAULT),
            wanted: AtomicUsize::new(CACHE_MEMORY_DEFAULT),
            ceiling: AtomicUsize::new(CACHE_MEMORY_MAX),
            used: AtomicUsize::new(SEGMENT_SIZE),
            stale: AtomicUsize::new(0),
            probation: AtomicUsize::new(0),
            entries: AtomicUsize::new(0),
            hand: Mutex::new(0),
            broom: AtomicUsize::new(0),
        }
    }
}

#[derive(Default)]
struct Scopes {
    by_fingerprint: HashMap<u64, Weak<Lease>>,
    next_id: u64,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Store({} entries, {} octets)", self.entries(), self.used())
    }
}

/// An entry found; holding it writes no reference count.
pub(crate) struct Found {
    held: Held,
}

impl Found {
    /// Looks at it.
    pub(crate) fn view(&self) -> Option<View<'_>> {
        self.held.as_ref().map(entry::view)
    }

    /// Keeps it.
    pub(crate) fn keep(&self) -> Option<Entry> {
        self.held.clone()
    }
}

impl Store {
    /// The scope of the block with this fingerprint; blocks that did not change over a reload
    /// keep theirs. A new scope gets `stale_s`, for how many seconds after its expiry an answer
    /// may be served, and the counters `evictions`.
    pub(crate) fn lease(
        &self,
        fingerprint: u64,
        stale_s: u32,
        evictions: [Counter; 2],
    ) -> Arc<Lease> {
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        let known = scopes.by_fingerprint.get(&fingerprint).and_then(Weak::upgrade);
        if let Some(lease) = known {
            return lease;
        }
        scopes.by_fingerprint.retain(|_, lease| lease.strong_count() > 0);
        scopes.next_id += 1;
        let (id, counts) = (scopes.next_id, Default::default());
        let retired = AtomicBool::new(false);
        let scope = Scope { id, fingerprint, retired, stale_s, counts, evictions };
        let lease = Arc::new(Lease { scope: Arc::new(scope) });
        scopes.by_fingerprint.insert(fingerprint, Arc::downgrade(&lease));
        lease
    }

    /// The scope of a block that a configuration has.
    pub(crate) fn scope(&self, fingerprint: u64) -> Option<Arc<Scope>> {
        let scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        let lease = scopes.by_fingerprint.get(&fingerprint).and_then(Weak::upgrade)?;
        Some(lease.scope.clone())
    }

    /// Sets the budget in octets, as far as the ceiling allows; at once less if entries have to go
    /// for it.
    pub fn set_budget(&self, octets: usize) {
        self.ledger.wanted.store(octets, Relaxed);
        self.fit();
    }

    /// Sets what there is for the cache at most, whatever the configuration wants.
    pub fn set_ceiling(&self, octets: usize) {
        self.ledger.ceiling.store(octets, Relaxed);
        self.fit();
    }

    /// What the configuration wants for the cache, in octets.
    pub fn wanted(&self) -> usize {
        self.ledger.wanted.load(Relaxed)
    }

    fn fit(&self) {
        let octets = self.wanted().min(self.ledger.ceiling.load(Relaxed));
        let budget = octets.clamp(CACHE_MEMORY_MIN, CACHE_MEMORY_MAX);
        self.ledger.budget.store(budget, Relaxed);
        self.make_room(Goal::Octets, Now::default(), &mut |_, _| {});
    }

    /// Octets taken by entries and table.
    pub fn used(&self) -> usize {
        self.ledger.used.load(Relaxed)
    }

    /// The budget in octets.
    pub fn budget(&self) -> usize {
        self.ledger.budget.load(Relaxed)
    }

    /// How many entries there are, expired ones included.
    pub fn entries(&self) -> usize {
        self.ledger.entries.load(Relaxed)
    }

    /// How many entries were put here so far.
    #[cfg(test)]
    pub(crate) fn insertions(&self) -> usize {
        self.ledger.broom.load(Relaxed)
    }

    /// The hash of a key: its place in the table.
    pub(crate) fn hash(&self, scope: &Scope, key: &Key<'_>) -> u32 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key.octets());
        hasher.write_u64(key.packed());
        hasher.write_u64(scope.id);
        let hash = hasher.finish();
        (hash ^ (hash >> 32)) as u32
    }

    /// The entry for `key` that `rank` puts highest, or the first at `enough`; 0 means not at all.
    pub(crate) fn find(
        &self,
        scope: &Scope,
        key: &Key<'_>,
        hash: u32,
        enough: u8,
        rank: impl Fn(View<'_>) -> u8,
    ) -> Option<Found> {
        let (mut best, mut found) = (0, None);
        self.table.search(hash, |held| {
            let Some(view) = held.as_ref().map(entry::view) else { return Sweep::On };
            if !view.matches(scope, key) {
                return Sweep::On;
            }
            let own = rank(view);
            if own > best {
                (best, found) = (own, Some(Found { held }));
            }
            if best >= enough { Sweep::Stop } else { Sweep::On }
        });
        found
    }

    /// Stores `entry` and removes the others of its key that it `replaces`. No more than
    /// `capacity` entries of its class stay in its scope, as far as they are found quickly.
    pub(crate) fn insert(
        &self,
        entry: Entry,
        now: Now,
        replaces: impl Fn(Kind) -> bool,
        capacity: Option<usize>,
        evicted: &mut dyn FnMut(&Scope, usize),
    ) {
        let size = entry::size(&entry);
        if size > self.budget() / 8 {
            return;
        }
        let kind = entry::view(&entry).kind();
        let scope = entry::view(&entry).scope().clone();
        self.ledger.used.fetch_add(size, Relaxed);
        self.make_room(Goal::Octets, now, evicted);
        self.place(entry, now, replaces, evicted);
        if let Some(capacity) = capacity {
            self.make_room(Goal::Count(&scope, kind.class(), capacity), now, evicted);
        }
        self.tidy(now);
        let growth = self.table.grow(self.entries(), self.budget());
        self.ledger.used.fetch_add(growth.allocated, Relaxed);
        self.ledger.used.fetch_sub(growth.freed, Relaxed);
        // Its bucket, or the table, may have become larger.
        self.make_room(Goal::Octets, now, evicted);
    }

    /// Puts an entry whose size is booked as used into its bucket. It takes the very place of the
    /// entry it replaces, so that a reader finds the one or the other.
    fn place(
        &self,
        entry: Entry,
        now: Now,
        replaces: impl Fn(Kind) -> bool,
        evicted: &mut dyn FnMut(&Scope, usize),
    ) {
        let itself = entry.clone();
        let view = entry::view(&itself);
        let (key, scope, kind) = (view.key(), view.scope(), view.kind());
        let hash = self.hash(scope, &key);
        let _lock = self.table.lock(hash as usize);
        let Some(bucket) = self.table.home(hash) else {
            self.ledger.used.fetch_sub(entry::size(&entry), Relaxed);
            return;
        };
        let mut new = Some(entry);
        bucket.each(|tag, slot| {
            // Others stay unread: each would be a line of memory to wait for.
            if tag.load(Relaxed) != hash {
                return Sweep::On;
            }
            let held = slot.load();
            let Some(old) = held.as_ref().map(entry::view) else { return Sweep::On };
            let same = old.matches(scope, &key) && (old.kind() == kind || replaces(old.kind()));
            match new.take_if(|_| same) {
                Some(entry) => {
                    view.inherit(old);
                    self.admit(view, &entry);
                    if let Some(old) = slot.swap(Some(entry)) {
                        self.forget(&old);
                    }
                }
                None if same || old.is_dead(now) => self.remove(slot),
                None => {}
            }
            Sweep::On
        });
        let Some(entry) = new else { return };
        if bucket.remembers(hash) {
            view.end_probation();
        }
        self.admit(view, &entry);
        let (mut left, allocated) = self.table.put(hash, entry);
        self.ledger.used.fetch_add(allocated, Relaxed);
        if left.is_some() {
            self.evict_from(bucket, evicted);
            left = left.and_then(|entry| self.table.put(hash, entry).0);
        }
        if let Some(entry) = left {
            self.forget(&entry);
        }
    }

    /// Removes `entry`, if it is still there.
    pub(crate) fn discard(&self, entry: &Entry) {
        let view = entry::view(entry);
        let hash = self.hash(view.scope(), &view.key());
        let _lock = self.table.lock(hash as usize);
        let Some(bucket) = self.table.home(hash) else { return };
        bucket.each(|tag, slot| {
            let is_it = tag.load(Relaxed) == hash
                && slot.load().as_ref().is_some_and(|held| entry::view(held).is(view));
            if is_it {
                self.remove(slot);
                return Sweep::Stop;
            }
            Sweep::On
        });
    }

    /// Takes an entry whose size is booked as used into the other accounts.
    fn admit(&self, view: View<'_>, entry: &Entry) {
        if view.is_on_probation() {
            self.ledger.probation.fetch_add(entry::size(entry), Relaxed);
        }
        if let Some(count) = view.scope().counts.get(view.kind().class()) {
            count.fetch_add(1, Relaxed);
        }
        self.ledger.entries.fetch_add(1, Relaxed);
    }

    /// Empties a slot whose stripe the caller holds.
    pub(super) fn remove(&self, slot: &Slot) {
        if let Some(entry) = slot.swap(None) {
            self.forget(&entry);
        }
    }

    /// Takes an entry out of all accounts.
    fn forget(&self, entry: &Entry) {
        let (view, size) = (entry::view(entry), entry::size(entry));
        self.ledger.used.fetch_sub(size, Relaxed);
        self.ledger.entries.fetch_sub(1, Relaxed);
        if view.is_booked_stale() {
            self.ledger.stale.fetch_sub(size, Relaxed);
        }
        if view.is_on_probation() {
            self.ledger.probation.fetch_sub(size, Relaxed);
        }
        if let Some(count) = view.scope().counts.get(view.kind().class()) {
            count.fetch_sub(1, Relaxed);
        }
    }
}
