//! Capacity: the highest rate that meets an objective, as a metric of a comparison.

use super::Block;
use crate::search::Probe;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The searches of a comparison by capacity, as they were fixed before the first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapacityPlan {
    /// What a rate must achieve, in words of the command line.
    pub objective: String,
    /// Probes of a search at most.
    pub probes: usize,
    /// How long each probe sends.
    pub probe_ns: u64,
    /// The lowest rate that is tried.
    pub floor: f64,
    /// The highest rate that is tried.
    pub ceiling: f64,
    /// A search ends at this ratio minus 1 of the ends of its interval.
    pub precision: f64,
}

/// What one search has found: the value of a block.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Capacity {
    /// The rate above which the objective is missed; unless `limited_by` is `server`, the highest rate
    /// that met it. Absent if none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    /// Where the limit is with a probability of 95 %; only if it is a limit of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// What the search ran into, as in the file of a search: `server`, `between`, `generator`, `ceiling`
    /// or `probes`.
    pub limited_by: String,
    /// The lowest rate that the search was allowed to try.
    pub floor: f64,
    /// Every probe in the order of time.
    pub probes: Vec<Probe>,
}

/// What is known of a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Known {
    /// It is this.
    Is(f64),
    /// It is no less than this: the generator, or the search, could not go higher.
    AtLeast(f64),
    /// It is no more than this: the objective was missed at the lowest rate that was tried.
    AtMost(f64),
}

impl Capacity {
    /// What is known of the limit; `None` if the search could not tell.
    pub fn known(&self) -> Option<Known> {
        match (&*self.limited_by, self.limit, self.interval) {
            ("server", Some(limit), Some(_)) => Some(Known::Is(limit)),
            ("server", None, _) => Some(Known::AtMost(self.floor)),
            ("generator" | "ceiling", Some(limit), _) => Some(Known::AtLeast(limit)),
            _ => None,
        }
    }
}

impl Block {
    /// What is known of the limit that its search has found.
    pub fn known_capacity(&self) -> Option<Known> {
        self.capacity.as_ref().and_then(Capacity::known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(by: &str, limit: Option<f64>, interval: Option<[f64; 2]>) -> Option<Known> {
        let limited_by = by.to_owned();
        Capacity { limit, interval, limited_by, floor: 100.0, probes: Vec::new() }.known()
    }

    #[test]
    fn only_a_limit_of_the_server_is_a_number() {
        let around = Some([1_900.0, 2_100.0]);
        assert_eq!(known("server", Some(2_000.0), around), Some(Known::Is(2_000.0)));
        assert_eq!(known("generator", Some(2_000.0), None), Some(Known::AtLeast(2_000.0)));
        assert_eq!(known("ceiling", Some(2_000.0), None), Some(Known::AtLeast(2_000.0)));
        assert_eq!(known("server", None, None), Some(Known::AtMost(100.0)));
        for by in ["between", "probes", "generator", ""] {
            assert_eq!(known(by, None, None), None, "{by}");
        }
        for by in ["between", "probes"] {
            assert_eq!(known(by, Some(2_000.0), None), None, "{by}");
        }
    }
}
