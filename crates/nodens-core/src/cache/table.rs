//! The hash table that readers search without a lock.
//!
//! Linear hashing (Litwin 1980): the table grows by one bucket at a time, so that no insertion
//! ever waits for a rehash. A bucket is two cache lines: a tag and a pointer for each of ten
//! entries, and a pointer to one more such bucket for the few that overflow. Readers compare
//! tags and look at entries through `arc_swap`; writers hold the lock of the bucket's stripe.
//!
//! An empty slot keeps the tag of its last entry: the table remembers for a while what it held.

use super::entry::Entry;
use crate::limits::{OVERFLOWS_MAX, SEGMENTS_MAX};
use arc_swap::{ArcSwapAny, ArcSwapOption, Guard};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Entries of a bucket.
pub(crate) const BUCKET_SLOTS: usize = 10;
/// Entries per bucket at which the table grows.
const LOAD: usize = 7;
/// Buckets that are allocated at once.
const SEGMENT_BUCKETS: usize = 1024;
/// Locks; a power of two that divides the smallest table, so that a bucket and the one it is
/// split into share a lock.
const STRIPES: usize = 64;

const _: () = assert!(size_of::<Bucket>() == 128);
const _: () = assert!(SEGMENT_BUCKETS.is_power_of_two() && SEGMENT_BUCKETS >= STRIPES);

/// Octets of a segment.
pub(crate) const SEGMENT_SIZE: usize = SEGMENT_BUCKETS * size_of::<Bucket>();
/// Octets of a bucket for entries that overflow, with its reference counts.
pub(crate) const OVERFLOW_SIZE: usize = 2 * size_of::<Bucket>();

/// A place for an entry, read without a lock.
pub(crate) type Slot = ArcSwapAny<Option<Entry>>;

/// An entry held only as long as it is looked at; no reference count is written for it.
pub(crate) type Held = Guard<Option<Entry>>;

/// Ten entries whose hashes end alike.
#[repr(align(128))]
pub(crate) struct Bucket {
    tags: [AtomicU32; BUCKET_SLOTS],
    slots: [Slot; BUCKET_SLOTS],
    more: ArcSwapOption<Bucket>,
}

impl Default for Bucket {
    fn default() -> Self {
        Self {
            tags: Default::default(),
            slots: std::array::from_fn(|_| Slot::from(None)),
            more: ArcSwapOption::empty(),
        }
    }
}

impl Bucket {
    /// Tags and slots, those of the overflow left out.
    fn pairs(&self) -> impl Iterator<Item = (&AtomicU32, &Slot)> {
        self.tags.iter().zip(&self.slots)
    }

    /// Shows `visit` every slot with its tag, overflow included, until it says stop.
    pub(crate) fn each(&self, mut visit: impl FnMut(&AtomicU32, &Slot) -> Sweep) {
        for (tag, slot) in self.pairs() {
            if visit(tag, slot) == Sweep::Stop {
                return;
            }
        }
        if let Some(more) = &*self.more.load() {
            more.each(visit);
        }
    }

    /// Shows `look` the entries whose tag is `hash`, overflow included, until it says stop.
    fn tagged(&self, hash: u32, look: &mut impl FnMut(Held) -> Sweep) -> Sweep {
        for (tag, slot) in self.pairs() {
            if tag.load(Ordering::Acquire) == hash && look(slot.load()) == Sweep::Stop {
                return Sweep::Stop;
            }
        }
        match &*self.more.load() {
            Some(more) => more.tagged(hash, look),
            None => Sweep::On,
        }
    }

    /// Puts `entry` into an empty slot, in a new overflow if need be; gives it back if there are
    /// `depth` of them already. Adds the octets allocated to `allocated`.
    fn put(&self, hash: u32, entry: Entry, depth: usize, allocated: &mut usize) -> Option<Entry> {
        // Any empty slot will do, but not always the first: the others remember what was there.
        let first = hash.rotate_right(16) as usize % BUCKET_SLOTS;
        let places = self.pairs().skip(first).chain(self.pairs().take(first));
        let mut empty = places.filter(|(_, slot)| slot.load().is_none());
        if let Some((tag, slot)) = empty.next() {
            slot.store(Some(entry));
            tag.store(hash, Ordering::Release);
            return None;
        }
        if depth == 0 {
            return Some(entry);
        }
        if self.more.load().is_none() {
            *allocated += OVERFLOW_SIZE;
            self.more.store(Some(Arc::default()));
        }
        match &*self.more.load() {
            Some(more) => more.put(hash, entry, depth - 1, allocated),
            None => Some(entry),
        }
    }

    /// Whether an entry with this hash was here not long ago.
    pub(crate) fn remembers(&self, hash: u32) -> bool {
        self.pairs().any(|(tag, slot)| {
            tag.load(Ordering::Relaxed) == hash && slot.load().is_none() && hash != 0
        })
    }
}

/// Whether to go on with the next slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sweep {
    /// Go on.
    On,
    /// Enough.
    Stop,
}

/// The table.
pub(crate) struct Table {
    segments: Box<[OnceLock<Box<[Bucket]>>]>,
    /// How many buckets there are. Read by everyone, written only when the table grows.
    buckets: AtomicUsize,
    stripes: Box<[Stripe]>,
    growth: Mutex<()>,
}

/// A lock with a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Stripe(Mutex<()>);

/// The right to change the buckets of a stripe.
pub(crate) type Lock<'t> = MutexGuard<'t, ()>;

impl Default for Table {
    fn default() -> Self {
        let table = Self {
            segments: (0..SEGMENTS_MAX).map(|_| OnceLock::new()).collect(),
            buckets: AtomicUsize::new(SEGMENT_BUCKETS),
            stripes: (0..STRIPES).map(|_| Stripe::default()).collect(),
            growth: Mutex::default(),
        };
        table.bucket(0);
        table
    }
}

impl Table {
    /// How many buckets there are.
    pub(crate) fn len(&self) -> usize {
        self.buckets.load(Ordering::Acquire)
    }

    /// The bucket `index`; its segment is allocated if this is the first look at it.
    pub(crate) fn bucket(&self, index: usize) -> Option<&Bucket> {
        let segment = self.segments.get(index / SEGMENT_BUCKETS)?;
        let new = || (0..SEGMENT_BUCKETS).map(|_| Bucket::default()).collect();
        segment.get_or_init(new).get(index % SEGMENT_BUCKETS)
    }

    /// The bucket for `hash`. Stays the same as long as the caller holds the hash's stripe.
    pub(crate) fn home(&self, hash: u32) -> Option<&Bucket> {
        self.bucket(index(hash, self.len()))
    }

    /// Shows `look` the entries stored under `hash` until it says stop.
    ///
    /// A bucket may be split meanwhile, so a search that was not stopped is repeated if it was.
    pub(crate) fn search(&self, hash: u32, mut look: impl FnMut(Held) -> Sweep) {
        let mut len = self.len();
        loop {
            if let Some(bucket) = self.bucket(index(hash, len))
                && bucket.tagged(hash, &mut look) == Sweep::Stop
            {
                return;
            }
            let now = self.len();
            if now == len {
                return;
            }
            len = now;
        }
    }

    /// Locks the stripe of `hash`, or of the bucket with this index.
    pub(crate) fn lock(&self, hash: usize) -> Lock<'_> {
        static NEVER: Mutex<()> = Mutex::new(());
        let stripe = self.stripes.get(hash % STRIPES).map_or(&NEVER, |stripe| &stripe.0);
        stripe.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an entry into its bucket, whose stripe the caller holds. Gives the entry back if the
    /// bucket and its overflows are full, and how many octets were allocated.
    pub(crate) fn put(&self, hash: u32, entry: Entry) -> (Option<Entry>, usize) {
        let mut allocated = 0;
        let Some(bucket) = self.home(hash) else { return (Some(entry), 0) };
        (bucket.put(hash, entry, OVERFLOWS_MAX, &mut allocated), allocated)
    }

    /// Splits buckets until there is room for `entries`, a few at most; gives the octets that
    /// were allocated and freed for it. Does nothing while another thread does the same.
    pub(crate) fn grow(&self, entries: usize, budget: usize) -> Growth {
        let mut growth = Growth::default();
        // The lock shares its cache line with what readers read.
        if entries <= self.len() * LOAD {
            return growth;
        }
        let Ok(_only) = self.growth.try_lock() else { return growth };
        for _ in 0..2 {
            let len = self.len();
            let segments_full = len.is_multiple_of(SEGMENT_BUCKETS);
            let room = len / SEGMENT_BUCKETS < SEGMENTS_MAX
                && (!segments_full || (len + SEGMENT_BUCKETS) * size_of::<Bucket>() < budget / 2);
            if entries <= len * LOAD || !room {
                break;
            }
            growth.allocated += if segments_full { SEGMENT_SIZE } else { 0 };
            self.split(len, &mut growth);
        }
        growth
    }

    /// Adds bucket `new` and moves into it what now belongs there.
    fn split(&self, new: usize, growth: &mut Growth) {
        let old = new & (new.next_power_of_two() - 1) & !(highest_bit(new));
        let _lock = self.lock(old);
        let (Some(from), Some(to)) = (self.bucket(old), self.bucket(new)) else { return };
        let moves = |hash: u32| index(hash, new + 1) == new;
        from.each(|tag, slot| {
            let hash = tag.load(Ordering::Relaxed);
            if moves(hash)
                && let Some(entry) = &*slot.load()
            {
                // Both have the same room, so what was in the one fits into the other.
                to.put(hash, entry.clone(), OVERFLOWS_MAX, &mut growth.allocated);
            }
            Sweep::On
        });
        self.buckets.store(new + 1, Ordering::Release);
        from.each(|tag, slot| {
            if moves(tag.load(Ordering::Relaxed)) {
                slot.store(None);
            }
            Sweep::On
        });
        growth.freed += from.fold_overflow();
    }
}

impl Bucket {
    /// Takes the overflow back into the bucket if it fits; gives the octets freed.
    fn fold_overflow(&self) -> usize {
        let Some(more) = self.more.load_full() else { return 0 };
        let freed = more.fold_overflow();
        let used = |bucket: &Self| bucket.slots.iter().filter(|s| s.load().is_some()).count();
        if used(self) + used(&more) > BUCKET_SLOTS || more.more.load().is_some() {
            return freed;
        }
        for (tag, slot) in more.pairs() {
            if let Some(entry) = slot.load_full() {
                self.put(tag.load(Ordering::Relaxed), entry, 0, &mut 0);
            }
        }
        self.more.store(None);
        freed + OVERFLOW_SIZE
    }
}

/// What growing changed, in octets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Growth {
    /// Newly allocated.
    pub(crate) allocated: usize,
    /// Given back.
    pub(crate) freed: usize,
}

/// The bucket for `hash` in a table of `len` buckets.
fn index(hash: u32, len: usize) -> usize {
    let mask = len.next_power_of_two() - 1;
    let index = hash as usize & mask;
    if index < len { index } else { index & (mask >> 1) }
}

/// The highest bit that is set.
fn highest_bit(value: usize) -> usize {
    1 << value.checked_ilog2().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_moves_only_from_the_bucket_that_is_split() {
        for len in STRIPES..2000 {
            let old = len & !highest_bit(len);
            for hash in (0..40_000_u32).step_by(7) {
                let (before, after) = (index(hash, len), index(hash, len + 1));
                assert!(before == after || (before == old && after == len), "{hash} {len}");
                assert_eq!(after % STRIPES, hash as usize % STRIPES);
            }
        }
    }
}
