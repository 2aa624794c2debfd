//! A log-linear histogram of durations in nanoseconds.
//!
//! Values below 512 have a bucket each; above, every power of two is divided into 256 buckets, so
//! a bucket is never wider than 1/256 (0.39 %) of its lowest value. This is the layout of hg64
//! (used by dnsperf) with more bits: its buckets refine dnsperf's, so re-binning is exact.
//!
//! A histogram can be made [coarser](Histogram::coarser): with fewer bits, its buckets are unions of
//! these.
//!
//! Counts are integers, so merging is exact and in any order gives the same histogram. Values that
//! are only known to exceed a bound (a query that timed out) are kept as *right-censored*: they
//! have a rank, at the slow end, but no value.
//!
//! A histogram that nothing is recorded in any more can be [packed](Histogram::pack): it stays the same and takes
//! two or three octets for each bucket in use.
//!
//! What is deliberately absent: floating-point bucket bounds, decay, and any I/O or clock.

#![forbid(unsafe_code)]

mod packed;
mod parts;

pub use parts::{Parts, PartsError};

use std::fmt;

/// Bits of precision below the leading one.
pub const BITS: u32 = 8;
/// The fewest bits of a coarser histogram: buckets as wide as half of their lowest value.
pub const BITS_MIN: u32 = 1;
/// The most values that are taken from a file: a million a second for thirty years. Sums of many such
/// files stay what 64 bits can count.
pub const COUNT_MAX: u64 = 1 << 50;

/// What is known about the value at some rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantile {
    /// Nothing was recorded.
    Empty,
    /// A duration in nanoseconds, within 0.2 % of a recorded one.
    Value(u64),
    /// The rank lies among the censored values: at least this many nanoseconds.
    AtLeast(u64),
}

impl Quantile {
    /// The nanoseconds, for a censored value its bound; `None` if there is nothing.
    pub fn nanos(self) -> Option<u64> {
        match self {
            Self::Empty => None,
            Self::Value(nanos) | Self::AtLeast(nanos) => Some(nanos),
        }
    }
}

/// Counts of durations; see the crate's documentation for the layout.
#[derive(Clone, Default)]
pub struct Histogram {
    /// Grown up to the highest bucket in use; empty while they are packed.
    counts: Vec<u64>,
    /// The counts, packed; empty while they are not.
    packed: Vec<u8>,
    /// Bits of precision fewer than [`BITS`].
    coarser: u32,
    recorded: u64,
    sum: u128,
    min: u64,
    max: u64,
    censored: u64,
    /// The lowest bound of any censored value; meaningless without one.
    floor: u64,
}

impl fmt::Debug for Histogram {
    /// Thousands of buckets would hide what stands beside them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { recorded, sum, min, max, censored, floor, .. } = self;
        write!(f, "Histogram {{ recorded: {recorded}, sum: {sum}, min: {min}, max: {max}, ")?;
        write!(f, "censored: {censored}, floor: {floor}, .. }}")
    }
}

impl Histogram {
    /// An empty histogram.
    pub const fn new() -> Self {
        Self {
            counts: Vec::new(),
            packed: Vec::new(),
            coarser: 0,
            recorded: 0,
            sum: 0,
            min: 0,
            max: 0,
            censored: 0,
            floor: 0,
        }
    }

    /// Bits of precision: there are two to the power of it buckets for each power of two.
    pub fn bits(&self) -> u32 {
        BITS - self.coarser
    }

    /// The same values in the buckets of `bits` of precision; nothing changes if they are no coarser.
    #[must_use]
    pub fn coarsened(&self, bits: u32) -> Self {
        let bits = bits.clamp(BITS_MIN, self.bits());
        let mut coarse =
            Self { counts: Vec::new(), packed: Vec::new(), coarser: BITS - bits, ..*self };
        for (low, _, count) in self.buckets() {
            coarse.add(index(low, bits), count);
        }
        if self.is_packed() {
            coarse.pack();
        }
        coarse
    }

    /// Keeps the counts in as little memory as they need. Whatever is recorded later unpacks them.
    pub fn pack(&mut self) {
        if !self.counts.is_empty() {
            self.packed = packed::pack(self.used());
            self.counts = Vec::new();
        }
    }

    /// Octets of memory that the counts take.
    pub fn octets(&self) -> usize {
        self.counts.capacity() * size_of::<u64>() + self.packed.capacity()
    }

    /// Whether the counts are packed; those of an empty histogram always are.
    fn is_packed(&self) -> bool {
        self.counts.is_empty()
    }

    #[cold]
    fn unpack(&mut self) {
        for (index, count) in packed::unpack(&std::mem::take(&mut self.packed)) {
            self.add(index, count);
        }
    }

    /// The buckets in use: their places and counts, in rising order.
    fn used(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let used = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        used.map(|(index, count)| (index, *count)).chain(packed::unpack(&self.packed))
    }

    fn add(&mut self, index: usize, count: u64) {
        if !self.packed.is_empty() {
            self.unpack();
        }
        if index >= self.counts.len() {
            self.counts.resize(index + 1, 0);
        }
        if let Some(slot) = self.counts.get_mut(index) {
            *slot = slot.saturating_add(count);
        }
    }

    /// Records `nanos` once.
    #[inline]
    pub fn record(&mut self, nanos: u64) {
        self.record_n(nanos, 1);
    }

    /// Records `nanos` `count` times.
    #[inline]
    pub fn record_n(&mut self, nanos: u64, count: u64) {
        if count == 0 {
            return;
        }
        self.add(index(nanos, self.bits()), count);
        self.min = if self.recorded == 0 { nanos } else { self.min.min(nanos) };
        self.max = self.max.max(nanos);
        self.recorded += count;
        self.sum += u128::from(nanos) * u128::from(count);
    }

    /// Records a value that is only known to be at least `floor` nanoseconds.
    pub fn record_censored(&mut self, floor: u64) {
        self.floor = if self.censored == 0 { floor } else { self.floor.min(floor) };
        self.censored += 1;
    }

    /// Adds every value of `other`. Of two precisions, the lower one is that of both together.
    pub fn merge(&mut self, other: &Self) {
        if self.coarser != other.coarser {
            let bits = self.bits().min(other.bits());
            *self = self.coarsened(bits);
            if other.bits() > bits {
                return self.merge(&other.coarsened(bits));
            }
        }
        self.add_counts(other);
        if other.recorded > 0 {
            self.min = if self.recorded == 0 { other.min } else { self.min.min(other.min) };
            self.max = self.max.max(other.max);
        }
        if other.censored > 0 {
            self.floor = if self.censored == 0 { other.floor } else { self.floor.min(other.floor) };
        }
        // Of files that anyone has written: 16,384 with the most values each would be beyond it.
        self.recorded = self.recorded.saturating_add(other.recorded);
        self.censored = self.censored.saturating_add(other.censored);
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// Adds the counts of `other`, which has the same precision. Two that are packed stay so.
    fn add_counts(&mut self, other: &Self) {
        if self.recorded == 0 {
            self.counts.clone_from(&other.counts);
            self.packed.clone_from(&other.packed);
            return;
        }
        let is_packed = self.is_packed() && other.is_packed();
        if !self.packed.is_empty() {
            self.unpack();
        }
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (slot, count) in self.counts.iter_mut().zip(&other.counts) {
            *slot = slot.saturating_add(*count);
        }
        packed::unpack(&other.packed).for_each(|(index, count)| self.add(index, count));
        if is_packed {
            self.pack();
        }
    }

    /// Forgets all values and keeps the allocation.
    pub fn clear(&mut self) {
        let mut counts = std::mem::take(&mut self.counts);
        counts.clear();
        *self = Self { counts, coarser: self.coarser, ..Self::default() };
    }

    /// How many values are known exactly up to their bucket.
    pub fn recorded(&self) -> u64 {
        self.recorded
    }

    /// How many values are only known to exceed a bound.
    pub fn censored(&self) -> u64 {
        self.censored
    }

    /// The lowest recorded value.
    pub fn min(&self) -> Option<u64> {
        (self.recorded > 0).then_some(self.min)
    }

    /// The highest recorded value; censored values are not considered.
    pub fn max(&self) -> Option<u64> {
        (self.recorded > 0).then_some(self.max)
    }

    /// The exact mean of the recorded values in nanoseconds; censored values are not considered.
    pub fn mean(&self) -> Option<f64> {
        (self.recorded > 0).then(|| self.sum as f64 / self.recorded as f64)
    }

    /// The value below or at which `fraction` (0 to 1) of all values lie, censored ones included.
    ///
    /// Censored values rank above every recorded one. If a recorded value at the rank is not below
    /// their bound, the order between the two is unknown, and so only the bound is reported.
    pub fn quantile(&self, fraction: f64) -> Quantile {
        let total = self.recorded.saturating_add(self.censored);
        if total == 0 {
            return Quantile::Empty;
        }
        let rank = ((fraction.clamp(0.0, 1.0) * total as f64).ceil() as u64).clamp(1, total);
        let found = self.value_at(rank);
        match found {
            Some(value) if self.censored == 0 || value < self.floor => Quantile::Value(value),
            _ => Quantile::AtLeast(self.floor),
        }
    }

    /// The recorded value with this rank, counted from 1; `None` behind the last. The first and the last
    /// are known exactly.
    fn value_at(&self, rank: u64) -> Option<u64> {
        if rank == self.recorded {
            return self.max();
        }
        if rank == 1 {
            return self.min();
        }
        let mut seen = 0_u64;
        for (index, count) in self.used() {
            seen = seen.saturating_add(count);
            if seen >= rank {
                let (low, high) = bounds(index, self.bits());
                return Some((low + (high - low) / 2).clamp(self.min, self.max));
            }
        }
        None
    }

    /// How many recorded values lie in buckets entirely above `nanos`.
    pub fn count_above(&self, nanos: u64) -> u64 {
        let last = index(nanos, self.bits());
        let above = self.used().filter(|(index, _)| *index > last);
        above.fold(0, |sum, (_, count)| sum.saturating_add(count))
    }

    /// The buckets in use as `(lowest, highest, count)`, both bounds inclusive.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.used().map(|(index, count)| {
            let (low, high) = bounds(index, self.bits());
            (low, high, count)
        })
    }
}

/// Whether both know the same; packed or not makes no difference.
impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        let known =
            |of: &Self| (of.coarser, of.recorded, of.sum, of.min, of.max, of.censored, of.floor);
        known(self) == known(other) && self.used().eq(other.used())
    }
}

impl Eq for Histogram {}

/// The bucket of `value`: below twice the buckets of an octave, every value has its own.
fn index(value: u64, bits: u32) -> usize {
    let per_octave = 1 << bits;
    if value < 2 * per_octave {
        return value as usize;
    }
    let shift = value.ilog2() - bits;
    let first = u64::from(shift + 1) * per_octave;
    (first + ((value >> shift) - per_octave)) as usize
}

/// The lowest and highest value of a bucket.
fn bounds(index: usize, bits: u32) -> (u64, u64) {
    let (index, per_octave) = (index as u64, 1 << bits);
    if index < 2 * per_octave {
        return (index, index);
    }
    let shift = index / per_octave - 1;
    let low = (per_octave + index % per_octave) << shift;
    (low, low + ((1 << shift) - 1))
}

#[cfg(test)]
mod tests;
