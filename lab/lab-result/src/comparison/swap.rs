//! What a comparison by exchange in a live cluster (`nodens-lab swap`) has besides its blocks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The workload and what was done to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Swap {
    /// URL of the API server.
    pub cluster: String,
    /// Workload as `NAMESPACE/KIND/NAME`.
    pub workload: String,
    /// Container whose image was exchanged and whose counters were read.
    pub container: String,
    /// Images of A and B.
    pub images: [String; 2],
    /// Digests of these images as the nodes' runtimes name them; empty where they do not.
    pub digests: [Vec<String>; 2],
    /// The server that was asked.
    pub server: String,
    /// Where the load came from: `job` or `here`.
    pub load_from: String,
    /// Who was paused meanwhile, and what there is to know of owners.
    pub owners: Vec<String>,
    /// What became of each change at the end.
    pub restored: Vec<String>,
    /// Every rollout, in the order of time.
    pub rollouts: Vec<Rollout>,
    /// What containers used in each block, in the order of `blocks`.
    pub usage: Vec<Usage>,
}

/// One rollout of an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rollout {
    /// `noise` or `comparison`.
    pub phase: String,
    /// Pair within the phase, from 0.
    pub pair: usize,
    /// `a` or `b`.
    pub side: String,
    /// Pods.
    pub pods: usize,
    /// Until all pods were new and ready, and the last one of before had ended.
    pub elapsed_ns: u64,
}

/// What the containers used in a block, all of them together, by the readings of their kubelets that
/// lie within the load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// `noise` or `comparison`.
    pub phase: String,
    /// Pair within the phase, from 0.
    pub pair: usize,
    /// `a` or `b`.
    pub side: String,
    /// Query set.
    pub set: String,
    /// Name of the load.
    pub load: String,
    /// How often it was measured before.
    pub attempt: usize,
    /// Thousandths of a CPU; absent if there were fewer than two readings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub millicores: Option<f64>,
    /// Milliseconds a second for which their CPU limit kept containers from running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_ms: Option<f64>,
    /// The part of the limit's periods in which a container was throttled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_periods: Option<f64>,
    /// Octets of anonymous memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss: Option<u64>,
    /// Octets of the working set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_set: Option<u64>,
    /// Containers that were started again during the block.
    pub restarts: u64,
    /// Readings of the container with the fewest.
    pub readings: usize,
    /// Seconds from its first to its last reading.
    pub seconds: f64,
}
