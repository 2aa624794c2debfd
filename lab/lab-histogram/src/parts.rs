//! A histogram as plain numbers, and back.

use crate::{BITS, BITS_MIN, COUNT_MAX, Histogram, bounds, index, packed};

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
    /// There are more values than [`COUNT_MAX`].
    Count,
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
            Self::Count => write!(f, "more than {COUNT_MAX} values"),
            Self::Extremes => f.write_str("min and max are not in the first and the last bucket"),
            Self::Sum => f.write_str("the sum is not that of values in these buckets"),
        }
    }
}

impl std::error::Error for PartsError {}

impl Histogram {
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

    /// The histogram with these parts, packed, and equal to the one that they were taken from. It takes
    /// memory for the buckets in use only.
    pub fn from_parts(parts: &Parts) -> Result<Self, PartsError> {
        if parts.coarser > BITS - BITS_MIN {
            return Err(PartsError::Bits);
        }
        let mut histogram = Self { coarser: parts.coarser, ..Self::new() };
        let bits = histogram.bits();
        let (mut least, mut most) = (0_u128, 0_u128);
        let mut used: Vec<(usize, u64)> = Vec::with_capacity(parts.buckets.len());
        for (at, &(low, high, count)) in parts.buckets.iter().enumerate() {
            let index = index(low, bits);
            let is_behind = used.last().is_none_or(|(last, _)| *last < index);
            if bounds(index, bits) != (low, high) || count == 0 || !is_behind {
                return Err(PartsError::Bucket(at));
            }
            used.push((index, count));
            let sum = histogram.recorded.checked_add(count);
            histogram.recorded = sum.ok_or(PartsError::Bucket(at))?;
            least += u128::from(low) * u128::from(count);
            most += u128::from(high) * u128::from(count);
        }
        if histogram.recorded.saturating_add(parts.censored) > COUNT_MAX {
            return Err(PartsError::Count);
        }
        histogram.packed = packed::pack(used.into_iter());
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
}
