//! A histogram in the file: only the buckets in use, and nothing that the original did not know.

use lab_histogram::{BITS, Histogram, Parts, Quantile};
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// A histogram of durations in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Buckets {
    /// How many buckets each power of two is divided into; absent if that is 256. A long run has fewer in
    /// its seconds, so that its file stays small.
    #[serde(default = "finest", skip_serializing_if = "is_finest")]
    #[schemars(range(min = 2, max = 256))]
    pub per_octave: u32,
    /// How many values there are; the counts of all buckets add up to it.
    pub recorded: u64,
    /// How many further values are only known to be at least `floor`: lost queries.
    pub censored: u64,
    /// The lowest such bound; 0 without one.
    pub floor: u64,
    /// Sum of the recorded values.
    pub sum: u128,
    /// The lowest recorded value; 0 without one.
    pub min: u64,
    /// The highest recorded value; 0 without one.
    pub max: u64,
    /// The buckets in use as `[lowest, highest, count]`, both bounds inclusive. Below twice `per_octave`
    /// every value has a bucket.
    pub buckets: Vec<(u64, u64, u64)>,
    /// `p50`, `p90`, `p99`, `p99.9` and `max`, lost queries among the slowest: for readers that do not
    /// want to add up buckets. Made from these when a file is written, and not read.
    #[serde(default, skip_deserializing)]
    pub percentiles: BTreeMap<&'static str, u64>,
    /// Those of the percentiles that lie among lost queries: at least that long.
    #[serde(default, skip_deserializing)]
    pub at_least: Vec<&'static str>,
}

fn finest() -> u32 {
    1 << BITS
}

fn is_finest(per_octave: &u32) -> bool {
    *per_octave == finest()
}

/// The percentiles that stand beside the buckets.
const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

impl From<&Histogram> for Buckets {
    fn from(histogram: &Histogram) -> Self {
        let Parts { censored, floor, sum, min, max, buckets, .. } = histogram.to_parts();
        let per_octave = 1 << histogram.bits();
        let (mut percentiles, mut at_least) = (BTreeMap::new(), Vec::new());
        for (name, part) in PERCENTILES {
            let quantile = histogram.quantile(part);
            percentiles.extend(quantile.nanos().map(|nanos| (name, nanos)));
            at_least.extend(matches!(quantile, Quantile::AtLeast(_)).then_some(name));
        }
        let recorded = histogram.recorded();
        Self {
            per_octave,
            recorded,
            censored,
            floor,
            sum,
            min,
            max,
            buckets,
            percentiles,
            at_least,
        }
    }
}

impl TryFrom<Buckets> for Histogram {
    type Error = String;

    fn try_from(from: Buckets) -> Result<Self, String> {
        let Buckets { per_octave, recorded, censored, floor, sum, min, max, buckets, .. } = from;
        // What is no power of two has no such difference.
        let bits = per_octave.is_power_of_two().then(|| per_octave.ilog2());
        let coarser = bits.and_then(|bits| BITS.checked_sub(bits)).unwrap_or(u32::MAX);
        let parts = Parts { coarser, censored, floor, sum, min, max, buckets };
        let histogram = Self::from_parts(&parts).map_err(|error| error.to_string())?;
        if histogram.recorded() != recorded {
            let sum = histogram.recorded();
            return Err(format!("recorded is {recorded} and the buckets add up to {sum}"));
        }
        Ok(histogram)
    }
}

/// For `#[serde(with)]`.
pub fn serialize<S: Serializer>(histogram: &Histogram, to: S) -> Result<S::Ok, S::Error> {
    Buckets::from(histogram).serialize(to)
}

/// For `#[serde(with)]`; refuses what cannot have been written from a histogram.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Histogram, D::Error> {
    Histogram::try_from(Buckets::deserialize(from)?).map_err(D::Error::custom)
}
