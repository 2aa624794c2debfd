//! What files say of a plan that several processes share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which part of a plan a process has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerPart {
    /// Which of the workers, counted from 0.
    pub index: usize,
    /// How many workers share the plan.
    pub of: usize,
}

/// How a clock stands to that of the machine that gave the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClockOffset {
    /// This machine's wall clock minus the other's.
    pub offset_ns: i64,
    /// By how much that may be wrong at most: half of the time that asking for it took.
    pub within_ns: u64,
}

/// What a worker of a merged result did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerReport {
    /// Which of the workers, counted from 0.
    pub index: usize,
    /// Start of its schedule by its own wall clock, since 1970-01-01 UTC.
    pub started_unix_ns: u64,
    /// How its clock stood to the one that gave the start; absent if they were not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockOffset>,
    /// Queries sent.
    pub sent: u64,
    /// Of these, answered within the timeout.
    pub answered: u64,
    /// Whether it vouches for its numbers.
    pub valid: bool,
}
