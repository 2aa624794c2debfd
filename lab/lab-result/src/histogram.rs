//! A histogram in the file: only the buckets in use, and nothing that the original did not know.

use lab_histogram::{Histogram, Parts};
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A histogram of durations in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Buckets {
    /// How many values there are; the counts of all buckets add up to it.
    pub recorded: u64,
    /// How many further values are only known to be at least `floor`: lost questions.
    pub censored: u64,
    /// The lowest such bound; 0 without one.
    pub floor: u64,
    /// Sum of the recorded values.
    pub sum: u128,
    /// The lowest recorded value; 0 without one.
    pub min: u64,
    /// The highest recorded value; 0 without one.
    pub max: u64,
    /// The buckets in use as `[lowest, highest, count]`, both bounds inclusive. Below 512 every value
    /// has a bucket; above, every power of two is divided into 256.
    pub buckets: Vec<(u64, u64, u64)>,
}

impl From<&Histogram> for Buckets {
    fn from(histogram: &Histogram) -> Self {
        let Parts { censored, floor, sum, min, max, buckets } = histogram.to_parts();
        Self { recorded: histogram.recorded(), censored, floor, sum, min, max, buckets }
    }
}

impl TryFrom<Buckets> for Histogram {
    type Error = String;

    fn try_from(from: Buckets) -> Result<Self, String> {
        let Buckets { recorded, censored, floor, sum, min, max, buckets } = from;
        let histogram = Self::from_parts(&Parts { censored, floor, sum, min, max, buckets })
            .map_err(|error| error.to_string())?;
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
