//! The most frequent keys of a stream, in memory of a fixed size.
//!
//! Space-Saving (Metwally, Agrawal, El Abbadi 2005) by sets: a key has its place in one bucket of
//! [`WAYS`], found by its hash. A new key takes the place of the least frequent one of its bucket
//! and inherits its count, which is noted as the error. So counts are never too low, their sum is
//! what was counted, and a key with more than its bucket's share of the rest cannot be missed.

/// Keys of a bucket, whose tags and counts share a cache line.
const WAYS: usize = 8;

/// The table. Keys are octets and at most `KEY` long; a longer one is cut.
#[derive(Debug)]
pub struct Table<const KEY: usize> {
    buckets: Box<[Bucket]>,
    slots: Box<[Slot<KEY>]>,
}

#[derive(Clone, Debug, Default)]
#[repr(align(64))]
struct Bucket {
    /// Upper halves of hashes, never 0. Two keys of a bucket share one once in 2³² at most, and
    /// then a count.
    tags: [u32; WAYS],
    counts: [u32; WAYS],
}

#[derive(Clone, Debug)]
struct Slot<const KEY: usize> {
    len: u16,
    /// What the count was when the key came.
    inherited: u32,
    tally: Tally,
    key: [u8; KEY],
}

/// What is known of a key beside its count, since it has its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Questions.
    pub questions: u32,
    /// Those answered NXDOMAIN.
    pub denied: u32,
    /// Those answered with another RCODE than NOERROR and NXDOMAIN.
    pub failed: u32,
    /// Those that waited for an upstream.
    pub waited: u32,
    /// Those for A.
    pub a: u32,
    /// Those for AAAA.
    pub aaaa: u32,
    /// Microseconds waited in all.
    pub wait_us: u64,
    /// The longest wait, in microseconds.
    pub wait_max_us: u32,
}

/// A key of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row<'t> {
    /// The key.
    pub key: &'t [u8],
    /// Never too low, and too high by `inherited` at most.
    pub count: u32,
    /// See `count`.
    pub inherited: u32,
    /// What is known of it.
    pub tally: &'t Tally,
}

impl<const KEY: usize> Table<KEY> {
    /// A table for `keys` keys, rounded up to a power of two.
    pub fn new(keys: usize) -> Self {
        let buckets = keys.div_ceil(WAYS).next_power_of_two();
        let slot = Slot { len: 0, inherited: 0, tally: Tally::default(), key: [0; KEY] };
        Self {
            buckets: vec![Bucket::default(); buckets].into_boxed_slice(),
            slots: vec![slot; buckets * WAYS].into_boxed_slice(),
        }
    }

    /// Adds `weight` to the key made of `parts`, whose hash is `hash`; gives its tally.
    pub fn add(&mut self, hash: u64, weight: u32, parts: [&[u8]; 2]) -> Option<&mut Tally> {
        let index = hash as usize & (self.buckets.len() - 1);
        let bucket = self.buckets.get_mut(index)?;
        let tag = (hash >> 32) as u32 | 1;
        let known = bucket.tags.iter().position(|known| *known == tag);
        let way = known.unwrap_or_else(|| bucket.rarest());
        let count = bucket.counts.get_mut(way)?;
        let slot = self.slots.get_mut(index * WAYS + way)?;
        if known.is_none() {
            *bucket.tags.get_mut(way)? = tag;
            slot.begin(*count, parts);
        }
        *count = count.saturating_add(weight);
        Some(&mut slot.tally)
    }

    /// Every key there is, in no order.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let counts = self.buckets.iter().flat_map(|bucket| &bucket.counts);
        counts.zip(&self.slots).filter(|(count, _)| **count > 0).map(|(count, slot)| Row {
            key: slot.key.get(..usize::from(slot.len)).unwrap_or_default(),
            count: *count,
            inherited: slot.inherited,
            tally: &slot.tally,
        })
    }

    /// Forgets every key.
    pub fn clear(&mut self) {
        self.buckets.fill(Bucket::default());
    }
}

impl Bucket {
    fn rarest(&self) -> usize {
        let counts = self.counts.iter().enumerate();
        counts.min_by_key(|(_, count)| **count).map_or(0, |(way, _)| way)
    }
}

impl<const KEY: usize> Slot<KEY> {
    fn begin(&mut self, inherited: u32, parts: [&[u8]; 2]) {
        self.inherited = inherited;
        self.tally = Tally::default();
        let mut len = 0;
        for part in parts {
            let part = part.get(..part.len().min(KEY - len)).unwrap_or_default();
            if let Some(place) = self.key.get_mut(len..len + part.len()) {
                place.copy_from_slice(part);
                len += part.len();
            }
        }
        self.len = len as u16;
    }
}

impl Tally {
    /// Adds what `other` counted.
    pub fn add(&mut self, other: &Self) {
        self.questions = self.questions.saturating_add(other.questions);
        self.denied = self.denied.saturating_add(other.denied);
        self.failed = self.failed.saturating_add(other.failed);
        self.waited = self.waited.saturating_add(other.waited);
        self.a = self.a.saturating_add(other.a);
        self.aaaa = self.aaaa.saturating_add(other.aaaa);
        self.wait_us = self.wait_us.saturating_add(other.wait_us);
        self.wait_max_us = self.wait_max_us.max(other.wait_max_us);
    }
}
