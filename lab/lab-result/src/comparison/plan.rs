//! What is fixed before the first block.

use super::CapacityPlan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was fixed before the first block.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparisonPlan {
    /// Seed of queries, order, resamples and sign patterns.
    pub seed: u64,
    /// The one metric that decides.
    pub primary: Cell,
    /// All metrics with their margins.
    pub metrics: Vec<MetricPlan>,
    /// Level of all tests; of the metrics that are not primary, together (Holm).
    pub alpha: f64,
    /// Wanted chance to find a difference.
    pub power: f64,
    /// Pairs of blocks for every set and load.
    pub pairs: usize,
    /// Pairs of A with itself.
    pub noise_pairs: usize,
    /// Pairs after which servers that were given as commands are started anew.
    pub group_pairs: usize,
    /// Length of a block; of a search the longest that it should take.
    pub block_ns: u64,
    /// Load before each block that is not measured.
    pub warm_up_ns: u64,
    /// When a query is given up.
    pub timeout_ns: u64,
    /// Clients, each with a socket of its own.
    pub clients: usize,
    /// Query sets.
    pub sets: Vec<SetPlan>,
    /// Loads.
    pub loads: Vec<Load>,
    /// Which side comes first, `a` or `b`, by pair: the coin.
    pub order: Vec<String>,
    /// Resamples of a bootstrap.
    pub resamples: usize,
    /// Relative width of a histogram bucket.
    pub resolution: f64,
    /// When a pair is measured again, and how often at most.
    pub rules: Vec<String>,
    /// The two servers, as they were given.
    pub servers: [String; 2],
    /// Whether it ends as soon as the primary metric is decided; `pairs` is then the most, and all tests
    /// and intervals hold at every number of pairs.
    #[serde(default)]
    pub sequential: bool,
    /// Whether both servers of a pair are loaded at the same time, side by side. Values of one side are
    /// then not those of a server alone.
    #[serde(default)]
    pub duet: bool,
    /// In a comparison by capacity, the searches, each of which is a block; absent in others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<CapacityPlan>,
}

/// One metric of one set at one load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// Query set.
    pub set: String,
    /// Name of the load.
    pub load: String,
    /// Metric: `p50`, `p90`, `p99`, `p99.9` (response time), `loss`, `cpu` (per answer), `memory`, `capacity`.
    pub metric: String,
}

/// A metric and the difference that does not matter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricPlan {
    /// The metric.
    pub metric: String,
    /// Part of A's value, for loss a difference of parts.
    pub margin: f64,
}

/// A query set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SetPlan {
    /// Its name.
    pub name: String,
    /// Where its queries come from.
    pub source: String,
    /// Different queries; absent if no query comes twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub questions: Option<u64>,
    /// Names the queries and their order.
    pub hash: String,
}

/// A load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Load {
    /// Its name: `50 %` of the smaller capacity, `2000/s`, or the objective of a search for the capacity.
    pub name: String,
    /// Query set.
    pub set: String,
    /// QPS; for a search the rate that it tries first.
    pub rate: f64,
}
