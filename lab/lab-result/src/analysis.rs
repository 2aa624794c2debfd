//! The file of an analysis of results (`nodens-lab analyse`): what was read, what was assumed, every
//! value, every test. It has no number that is not made from the files named in it.

use crate::histogram::Buckets;
use crate::store::write_whole;
use crate::{Generator, ReadError, WriteError};
use lab_histogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What `kind` says in such a file.
pub const KIND: &str = "analysis";

/// Version of the file's layout. A reader takes this one and no other.
pub const SCHEMA: u32 = 1;

/// An analysis. Times are nanoseconds, rates per second, parts of 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AnalysisFile {
    /// Always `analysis`.
    pub kind: String,
    /// Version of this layout.
    pub schema: u32,
    /// What wrote the file.
    pub generator: Generator,
    /// What was asked for.
    pub settings: AnalysisSettings,
    /// The files, in the order in which they were read.
    pub sources: Vec<AnalysedFile>,
    /// What had to be taken for true to read them, each once.
    pub assumptions: Vec<String>,
    /// What weakens the findings.
    pub warnings: Vec<String>,
    /// The groups, in the order of their first trial.
    pub groups: Vec<AnalysedGroup>,
    /// The metrics that at least one group has.
    pub metrics: Vec<AnalysedMetric>,
    /// Trials of which the number of queries in flight is known: whether it alone explains their latency.
    pub loops: Vec<LoopCheck>,
}

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AnalysisSettings {
    /// Level of tests and intervals.
    pub alpha: f64,
    /// What counts as one value: `run`, or `part`, a second, interval or reading of a run.
    pub unit: String,
    /// Whether values of different groups belong together by block.
    pub paired: bool,
    /// Whether equal readings in a row count once.
    pub once: bool,
    /// The group that the others are compared with; absent if all pairs are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// The metric that is not corrected for the number of metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary: Option<String>,
    /// Seed of what is drawn.
    pub seed: u64,
}

/// A file that was read and not changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AnalysedFile {
    /// Its path, as it was given or found.
    pub path: String,
    /// Its format.
    pub format: String,
    /// Its SHA-256 in hexadecimal digits.
    pub sha256: String,
    /// Trials in it.
    pub trials: usize,
}

/// Trials that belong together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AnalysedGroup {
    /// Its name.
    pub name: String,
    /// Its trials, in the order in which they were read.
    pub trials: Vec<AnalysedTrial>,
    /// Response times of all trials together; absent if no trial has a histogram.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Times>,
}

/// A histogram of response times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Times(
    /// The values; lost queries are censored.
    #[serde(with = "crate::histogram")]
    #[schemars(with = "Buckets")]
    pub Histogram,
);

/// One trial: a run of a load generator, or a row of a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AnalysedTrial {
    /// File and line of its beginning, as `a.txt:11`.
    pub place: String,
    /// Wall-clock time of its start since 1970-01-01, if the file has one: a label that orders trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_unix_ns: Option<u64>,
    /// The block it belongs to, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<String>,
    /// Seconds, intervals or readings in it.
    pub parts: usize,
}

/// A metric of all groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AnalysedMetric {
    /// Its name: `qps`, `mean`, `p50`, `loss` and others, or a column of a table.
    pub name: String,
    /// Unit of its values: `ns`, `/s`, `part`, or as the table says.
    pub unit: String,
    /// Which values are better: `lower`, `higher`, or empty if that is not known.
    pub better: String,
    /// `ratio`: differences are ratios less 1. `difference`: they are differences of values.
    pub scale: String,
    /// The difference that does not matter, on this scale.
    pub margin: f64,
    /// Each group that has it.
    pub samples: Vec<Sample>,
    /// Groups compared in pairs, with a verdict.
    pub contrasts: Vec<Contrast>,
    /// Tests that papers use, of more than two groups, for comparison with them.
    pub families: Vec<Family>,
    /// What is said about this metric alone.
    pub notes: Vec<String>,
}

/// The values of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// The group.
    pub group: String,
    /// The values, in the order in which they were read.
    pub values: Vec<f64>,
    /// Of these, how many are only known to be at least that: percentiles among lost queries.
    pub bounds: usize,
    /// Mean.
    pub mean: f64,
    /// Standard deviation; absent with one value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation: Option<f64>,
    /// Lowest value, quartiles and highest value.
    pub five: [f64; 5],
    /// Interval of the median at 1 − alpha by its order statistics; absent with too few values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_interval: Option<[f64; 2]>,
    /// Values that differ from the one before, the first included.
    pub changes: usize,
    /// Correlation of neighbours; absent where it is not defined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_one: Option<f64>,
}

/// What is shown about one group beside another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Shown {
    /// It is lower.
    Lower,
    /// It is higher.
    Higher,
    /// Any difference is within the margin.
    Equivalent,
    /// None of these.
    #[default]
    Inconclusive,
    /// The data cannot show any: one run each, or one of them is only a bound.
    Unjudged,
}

/// One group beside another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Contrast {
    /// The group in question.
    pub group: String,
    /// The group it is compared with.
    pub with: String,
    /// `sign-flip test of pairs`, `Mann–Whitney test`, or empty without a test.
    pub test: String,
    /// Values of both: pairs count twice.
    pub values: [usize; 2],
    /// The Hodges–Lehmann estimate of the difference, on the metric's scale.
    pub estimate: f64,
    /// Its interval at 1 − alpha; absent with too few values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// Its interval at 1 − 2 alpha: within the margin, both are equivalent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub narrow: Option<[f64; 2]>,
    /// Two-sided p-value; absent without a test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p: Option<f64>,
    /// Whether it is exact.
    pub p_exact: bool,
    /// Adjusted by Holm's method for all contrasts of all metrics; of the primary metric for its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_adjusted: Option<f64>,
    /// Cliff's delta: P(higher) − P(lower); absent of pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<f64>,
    /// The verdict.
    pub shown: Shown,
    /// Why it is not judged; empty otherwise.
    pub because: String,
}

/// A test of several groups as papers use it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Family {
    /// Its name.
    pub test: String,
    /// Statistic, of a test of all groups at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statistic: Option<f64>,
    /// p-value, of such a test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p: Option<f64>,
    /// Its pairs of groups; empty of such a test.
    pub pairs: Vec<FamilyPair>,
    /// What it assumes.
    pub assumes: Vec<Assumed>,
}

/// An assumption of a test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Assumed {
    /// What is assumed.
    pub what: String,
    /// Whether the values refute it; absent if that cannot be looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuted: Option<bool>,
    /// How that was looked at.
    pub by: String,
}

/// Two groups in a test of several.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FamilyPair {
    /// The group in question.
    pub group: String,
    /// The group it is compared with.
    pub with: String,
    /// Difference of means, in the unit of the values, or of mean ranks.
    pub difference: f64,
    /// p-value, adjusted for all pairs of the test.
    pub p: f64,
    /// Interval of the difference of means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
}

/// A trial with a known number of queries in flight. In such a loop rate and latency are one number
/// (Little, 1961): the latency is what is in flight divided by the rate, less what losses took of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoopCheck {
    /// The group.
    pub group: String,
    /// File and line.
    pub place: String,
    /// Queries in flight at most.
    pub window: f64,
    /// Answers a second.
    pub rate: f64,
    /// Part of the queries that was lost.
    pub loss: f64,
    /// The timeout, in nanoseconds.
    pub timeout_ns: f64,
    /// The latency that follows, in nanoseconds.
    pub predicted_ns: f64,
    /// The latency in the file.
    pub mean_ns: f64,
    /// How exactly the file has it: half a unit of its last digit, or a whole one where it was cut.
    pub precision_ns: f64,
    /// Whether the loop alone explains it, within that and 5 %.
    pub explained: bool,
}

/// Whether the text of a file says that it is an analysis.
pub fn is_analysis(octets: &[u8]) -> bool {
    crate::store::kind(octets).as_deref() == Some(KIND)
}

/// The JSON schema of the file.
pub fn json_schema() -> String {
    crate::store::schema_text(&schemars::schema_for!(AnalysisFile))
}

/// The file's text.
pub fn to_json(analysis: &AnalysisFile) -> String {
    let mut text = serde_json::to_string(analysis).unwrap_or_default();
    text.push('\n');
    text
}

/// Writes the file whole or not at all.
pub fn write(path: &Path, analysis: &AnalysisFile) -> Result<(), WriteError> {
    write_whole(path, to_json(analysis).as_bytes())
        .map_err(|source| WriteError { path: path.to_owned(), source })
}

/// Reads the text of a file; `path` is for messages only.
pub fn from_json(path: &Path, octets: &[u8]) -> Result<AnalysisFile, ReadError> {
    crate::store::read_versioned(path, octets, SCHEMA..=SCHEMA)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_foreign_files_are_told() {
        let mut times = Histogram::new();
        times.record_n(41_000, 7);
        times.record_censored(2_000_000_000);
        let file = AnalysisFile {
            kind: KIND.to_owned(),
            schema: SCHEMA,
            groups: vec![AnalysedGroup { response: Some(Times(times)), ..Default::default() }],
            metrics: vec![AnalysedMetric {
                samples: vec![Sample::default()],
                contrasts: vec![Contrast { p: Some(0.04), ..Default::default() }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let text = to_json(&file);
        assert!(is_analysis(text.as_bytes()) && !is_analysis(b"{\"schema\":1}"));
        let path = Path::new("a.json");
        assert_eq!(from_json(path, text.as_bytes()).unwrap(), file);
        let newer = text.replacen("\"schema\":1", "\"schema\":9", 1);
        let error = from_json(path, newer.as_bytes()).unwrap_err();
        assert!(matches!(error, ReadError::Version { found: 9, .. }), "{error}");
    }
}
