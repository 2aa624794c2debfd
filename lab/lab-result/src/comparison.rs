//! The file of a comparison of two servers (`nodens-lab ab`): plan, every block, every finding.
//!
//! Side A is the one compared with, B the one in question. Of every metric but capacity less is better. A finding is about
//! one metric of one query set at one load; all else in it can be computed from its `differences`, one a pair.

mod capacity;
mod csv;
mod plan;
mod shift;
mod store;
mod swap;

pub use capacity::{Capacity, CapacityPlan, Known};
pub use csv::csv;
pub use plan::{Cell, ComparisonPlan, Load, MetricPlan, SetPlan};
pub use shift::Shift;
pub use store::{from_json, is_comparison, json_schema, read, to_json, write};
pub use swap::{Rollout, Swap, Usage};

use crate::histogram::Buckets;
use crate::{Generator, Provenance};
use lab_histogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What `kind` says in such a file.
pub const KIND: &str = "comparison";

/// Version of the file's layout. A reader takes this one and no other.
pub const SCHEMA: u32 = 1;

/// A comparison of two servers. All times are nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparisonFile {
    /// Always `comparison`.
    pub kind: String,
    /// Version of this layout.
    pub schema: u32,
    /// What wrote the file.
    pub generator: Generator,
    /// Where it was measured.
    pub provenance: Provenance,
    /// What was fixed before the first block.
    pub plan: ComparisonPlan,
    /// SHA-256 of the plan file, in hexadecimal digits.
    pub plan_hash: String,
    /// Wall-clock time of the first block since 1970-01-01 UTC, a label only.
    pub started_unix_ns: u64,
    /// Wall-clock time of the end.
    pub finished_unix_ns: u64,
    /// Whether the comparison was ended from outside; the findings are of the pairs so far.
    pub interrupted: bool,
    /// Why the numbers say nothing about the servers; empty if they do.
    pub invalid_because: Vec<String>,
    /// Pairs after which a sequential comparison was decided; absent if it was not, or is not sequential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_after: Option<usize>,
    /// What a reader should know.
    pub notes: Vec<String>,
    /// The server compared with.
    pub a: Party,
    /// The server in question.
    pub b: Party,
    /// The verdict on the primary metric.
    pub verdict: Verdict,
    /// Whether B is shown to be no worse than the margin of the primary metric allows.
    pub no_worse: bool,
    /// Metric by metric, the primary one first.
    pub findings: Vec<Finding>,
    /// The same metrics of A compared with itself, before.
    pub noise: Vec<Finding>,
    /// CPU by rate.
    pub costs: Vec<Cost>,
    /// Metrics that were planned and are not among the findings.
    pub omitted: Vec<Omitted>,
    /// Every block, in the order of time, those that were measured again included.
    pub blocks: Vec<Block>,
    /// The exchange in a cluster that it was measured by; absent for `nodens-lab ab`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap: Option<Swap>,
}

/// One of the two servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Party {
    /// Name in tables.
    pub name: String,
    /// What it is: the command, the address or the pods.
    pub server: String,
    /// Its answer to `version.bind. TXT CH`, if it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Where its CPU time and memory are read; absent if nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<String>,
}

/// What is shown about B beside A.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// B is better: lower, of capacity higher.
    Faster,
    /// B is worse.
    Slower,
    /// Any difference is within the margin.
    Equivalent,
    /// None of these.
    #[default]
    Inconclusive,
}

/// What was found about one metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Which metric, of which set, at which load.
    pub cell: Cell,
    /// QPS.
    pub rate: f64,
    /// Unit of the values of both sides: `ns`, `part`, `octets`, `qps`.
    pub unit: String,
    /// `ratio`: differences are logarithms of B over A, and estimate, interval and margin parts of A.
    /// `difference`: all of them are B − A.
    pub scale: String,
    /// Whether it decides.
    pub primary: bool,
    /// Pairs that had the metric.
    pub pairs: usize,
    /// Neighbouring blocks that were merged into one value, because one had too few queries.
    pub pooled: usize,
    /// Median of A's blocks.
    pub a: f64,
    /// Median of B's blocks.
    pub b: f64,
    /// Whether `a` is only a bound: the quantile lies among the lost queries, and A's value is at
    /// least the timeout, which stands in its place. Estimate and interval are then too high.
    #[serde(default)]
    pub a_is_bound: bool,
    /// The same of `b`. Estimate and interval are then too low; if both are bounds, they say nothing.
    #[serde(default)]
    pub b_is_bound: bool,
    /// Whether more is better: of `capacity`.
    #[serde(default)]
    pub more_is_better: bool,
    /// Whether A's value is at most `a`: of `capacity`, where the objective was missed at the lowest rate.
    #[serde(default)]
    pub a_at_most: bool,
    /// The same of `b`.
    #[serde(default)]
    pub b_at_most: bool,
    /// Hodges–Lehmann estimate of the difference.
    pub estimate: f64,
    /// The median of the pairs beside it.
    pub median: f64,
    /// Interval at 1 − alpha; absent with too few pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// How it was made: `bca`, `stationary bootstrap`, `inverted sign-flip test`, `confidence sequence`.
    pub method: String,
    /// Two-sided p-value of the sign-flip test; in a sequential comparison one that holds at every number
    /// of pairs.
    pub p: f64,
    /// Whether all patterns of signs were tried.
    pub p_exact: bool,
    /// Holm's adjusted p-value; the same as `p` for the primary metric.
    pub p_adjusted: f64,
    /// p-value of equivalence (TOST), adjusted as well.
    pub p_equivalent: f64,
    /// One-sided p-value of B being worse than the margin allows.
    pub p_worse: f64,
    /// The margin.
    pub margin: f64,
    /// Standard deviation of the differences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sigma: Option<f64>,
    /// The smallest difference that this many pairs find with the wanted power, by the noise of A
    /// with itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detectable: Option<f64>,
    /// Pairs in total that would probably decide; absent if decided or beyond planning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs_needed: Option<usize>,
    /// The verdict.
    pub verdict: Verdict,
    /// The differences, in the order of time.
    pub differences: Vec<f64>,
}

/// CPU of one side by rate: `idle + per_answer × rate`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// `a` or `b`.
    pub side: String,
    /// Query set.
    pub set: String,
    /// CPU without load, in nanoseconds per second.
    pub idle: f64,
    /// Its interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_interval: Option<[f64; 2]>,
    /// CPU per answer, in nanoseconds.
    pub per_answer: f64,
    /// Its interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_answer_interval: Option<[f64; 2]>,
    /// The part of the variance that the line explains.
    pub r_squared: f64,
    /// The points: answers a second, CPU in nanoseconds per second.
    pub points: Vec<[f64; 2]>,
    /// Growth of memory in octets per million answers, if memory is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_growth: Option<f64>,
    /// Its interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_growth_interval: Option<[f64; 2]>,
}

/// A planned metric without a finding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Omitted {
    /// Which.
    pub cell: Cell,
    /// Why.
    pub reason: String,
}

/// One block of load on one server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Block {
    /// `noise` (A with itself) or `comparison`.
    pub phase: String,
    /// Pair within the phase, from 0.
    pub pair: usize,
    /// Whether it was measured first in its pair; in a duet, whether it had the first of both places.
    pub first: bool,
    /// `a` or `b`; in the noise phase `b` is A's twin.
    pub side: String,
    /// Query set; empty in a block without load.
    pub set: String,
    /// Name of the load; `idle` without one.
    pub load: String,
    /// QPS that were asked for.
    pub rate: f64,
    /// How often the pair was measured before.
    pub attempt: usize,
    /// Faults of the machine or the generator; the pair was measured again or kept with a note.
    pub faults: Vec<String>,
    /// Whether its faults are only that queries left late: latencies are biased then, and not what
    /// an answer costs the server.
    #[serde(default)]
    pub only_late: bool,
    /// Whether the findings use it.
    pub used: bool,
    /// Wall-clock time of the start since 1970-01-01 UTC, a label only.
    pub started_unix_ns: u64,
    /// From the first reading of the counters to the second.
    pub elapsed_ns: u64,
    /// Queries sent.
    pub sent: u64,
    /// Answered in time.
    pub answered: u64,
    /// Lost.
    pub lost: u64,
    /// Answers by their RCODE, without NOERROR and NXDOMAIN: what the server or an upstream could not answer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failures: BTreeMap<String, u64>,
    /// Names the plan of the load; both blocks of a pair have the same. Empty for a search, of which each
    /// probe has one.
    pub plan: String,
    /// Response times.
    #[serde(with = "crate::histogram")]
    #[schemars(with = "Buckets")]
    pub response: Histogram,
    /// CPU time between the two readings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<u64>,
    /// Octets of memory at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Answers of this server process until then, warm-up included.
    pub answers_so_far: u64,
    /// Process the server ran in, counted by starts; the memory of different ones does not compare.
    pub incarnation: usize,
    /// What a search for the capacity has found; absent for a load of one rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReadError;
    use std::path::Path;

    fn small() -> ComparisonFile {
        let mut response = Histogram::new();
        response.record_n(41_000, 7);
        response.record_censored(2_000_000_000);
        ComparisonFile {
            kind: KIND.to_owned(),
            schema: SCHEMA,
            generator: Generator::default(),
            provenance: Provenance::default(),
            plan: ComparisonPlan::default(),
            plan_hash: "00".to_owned(),
            started_unix_ns: 1,
            finished_unix_ns: 2,
            interrupted: false,
            invalid_because: Vec::new(),
            decided_after: Some(9),
            notes: Vec::new(),
            a: Party::default(),
            b: Party::default(),
            verdict: Verdict::Equivalent,
            no_worse: true,
            findings: vec![Finding { interval: Some([-0.01, 0.02]), ..Finding::default() }],
            noise: Vec::new(),
            costs: vec![Cost::default()],
            omitted: vec![Omitted::default()],
            blocks: vec![Block {
                response,
                cpu_ns: Some(7),
                capacity: Some(Capacity::default()),
                ..Block::default()
            }],
            swap: Some(Swap { usage: vec![Usage::default()], ..Swap::default() }),
        }
    }

    #[test]
    fn a_table_tells_a_bound_from_a_value() {
        let table = csv(&small());
        let mut lines = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
        assert_eq!(names.len(), values.len(), "{table}");
        let of = |name| values[names.iter().position(|it| *it == name).unwrap()];
        assert_eq!((of("p50_is_bound"), of("p99_is_bound")), ("false", "true"));
        assert_eq!((of("p99_ns"), of("memory"), of("cpu_ns")), ("2000000000", "", "7"));
    }

    #[test]
    fn what_is_written_is_read_and_foreign_files_are_told() {
        let text = to_json(&small());
        assert!(is_comparison(text.as_bytes()) && !is_comparison(b"{\"schema\":1}"));
        let path = Path::new("c.json");
        assert_eq!(from_json(path, text.as_bytes()).unwrap(), small());
        let newer = text.replacen("\"schema\":1", "\"schema\":9", 1);
        let error = from_json(path, newer.as_bytes()).unwrap_err();
        assert!(matches!(error, ReadError::Version { found: 9, .. }), "{error}");
        let broken = text.replacen("\"no_worse\":true", "\"no_worse\":1", 1);
        let error = from_json(path, broken.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("no_worse"), "{error}");
    }
}
