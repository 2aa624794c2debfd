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
//! What is deliberately absent: floating-point bucket bounds, decay, and any I/O or clock.

#![forbid(unsafe_code)]

/// Bits of precision below the leading one.
pub const BITS: u32 = 8;
/// The fewest bits of a coarser histogram: buckets as wide as half of their lowest value.
pub const BITS_MIN: u32 = 1;

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

/// Everything a [`Histogram`] knows, as plain numbers: what a file keeps of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// How many bits of precision fewer than [`BITS`] the buckets have.
    pub coarser: u32,
    /// How many values are only known to exceed a bound.
    pub censored: u64,
    /// The lowest of these bounds; 0 without one.
    pub floor: u64,
    /// The sum of the recorded values.
    pub sum: u128,
    /// The lowest recorded value; 0 without one.
    pub min: u64,
    /// The highest recorded value; 0 without one.
    pub max: u64,
    /// Lowest and highest value and count of each bucket in use, in rising order.
    pub buckets: Vec<(u64, u64, u64)>,
}

/// [`Parts`] that are of no histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartsError {
    /// There are no buckets that coarse.
    Bits,
    /// The bucket at this place has bounds of no bucket, no count, or is not behind the one before.
    Bucket(usize),
    /// The lowest or highest value is not in the first or last bucket.
    Extremes,
    /// The sum is not one of as many values in such buckets.
    Sum,
}

impl std::fmt::Display for PartsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bits => {
                let (most, least) = (1 << BITS, 1 << BITS_MIN);
                write!(f, "expected {least}, or a power of two up to {most}, as buckets per octave")
            }
            Self::Bucket(at) => {
                write!(
                    f,
                    "bucket {at} is not a valid [lowest, highest, count] triple of this histogram layout"
                )
            }
            Self::Extremes => f.write_str("min and max are not in the first and the last bucket"),
            Self::Sum => f.write_str("the sum is not that of values in these buckets"),
        }
    }
}

impl std::error::Error for PartsError {}

/// Counts of durations; see the crate's documentation for the layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Grown up to the highest bucket in use.
    counts: Vec<u64>,
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

impl Histogram {
    /// An empty histogram.
    pub const fn new() -> Self {
        Self {
            counts: Vec::new(),
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
        let mut coarse = Self { counts: Vec::new(), coarser: BITS - bits, ..self.clone() };
        for (low, _, count) in self.buckets() {
            coarse.add(index(low, bits), count);
        }
        coarse
    }

    fn add(&mut self, index: usize, count: u64) {
        if index >= self.counts.len() {
            self.counts.resize(index + 1, 0);
        }
        if let Some(slot) = self.counts.get_mut(index) {
            *slot += count;
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
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (slot, count) in self.counts.iter_mut().zip(&other.counts) {
            *slot += count;
        }
        if other.recorded > 0 {
            self.min = if self.recorded == 0 { other.min } else { self.min.min(other.min) };
            self.max = self.max.max(other.max);
        }
        if other.censored > 0 {
            self.floor = if self.censored == 0 { other.floor } else { self.floor.min(other.floor) };
        }
        self.recorded += other.recorded;
        self.censored += other.censored;
        self.sum += other.sum;
    }

    /// Everything the histogram knows.
    pub fn to_parts(&self) -> Parts {
        Parts {
            coarser: self.coarser,
            censored: self.censored,
            floor: if self.censored > 0 { self.floor } else { 0 },
            sum: self.sum,
            min: self.min,
            max: self.max,
            buckets: self.buckets().collect(),
        }
    }

    /// The histogram with these parts, equal to the one that they were taken from.
    pub fn from_parts(parts: &Parts) -> Result<Self, PartsError> {
        if parts.coarser > BITS - BITS_MIN {
            return Err(PartsError::Bits);
        }
        let mut histogram = Self { coarser: parts.coarser, ..Self::new() };
        let bits = histogram.bits();
        let (mut least, mut most) = (0_u128, 0_u128);
        for (at, &(low, high, count)) in parts.buckets.iter().enumerate() {
            let index = index(low, bits);
            if bounds(index, bits) != (low, high) || count == 0 || index < histogram.counts.len() {
                return Err(PartsError::Bucket(at));
            }
            histogram.counts.resize(index + 1, 0);
            if let Some(slot) = histogram.counts.get_mut(index) {
                *slot = count;
            }
            let sum = histogram.recorded.checked_add(count);
            histogram.recorded = sum.ok_or(PartsError::Bucket(at))?;
            least += u128::from(low) * u128::from(count);
            most += u128::from(high) * u128::from(count);
        }
        let ends = (parts.buckets.first(), parts.buckets.last());
        let fits = match ends {
            (Some(first), Some(last)) => {
                (first.0..=first.1).contains(&parts.min) && (last.0..=last.1).contains(&parts.max)
            }
            _ => parts.min == 0 && parts.max == 0,
        };
        if !fits || parts.min > parts.max {
            return Err(PartsError::Extremes);
        }
        if !(least..=most).contains(&parts.sum) {
            return Err(PartsError::Sum);
        }
        (histogram.sum, histogram.min, histogram.max) = (parts.sum, parts.min, parts.max);
        histogram.censored = parts.censored;
        histogram.floor = if parts.censored > 0 { parts.floor } else { 0 };
        Ok(histogram)
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
        let total = self.recorded + self.censored;
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
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                let (low, high) = bounds(index, self.bits());
                return Some((low + (high - low) / 2).clamp(self.min, self.max));
            }
        }
        None
    }

    /// How many recorded values lie in buckets entirely above `nanos`.
    pub fn count_above(&self, nanos: u64) -> u64 {
        self.counts.iter().skip(index(nanos, self.bits()) + 1).sum()
    }

    /// The buckets in use as `(lowest, highest, count)`, both bounds inclusive.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let used = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        used.map(|(index, &count)| {
            let (low, high) = bounds(index, self.bits());
            (low, high, count)
        })
    }
}

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
