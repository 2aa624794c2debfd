//! The file of a trial of settings (`nodens-lab tune`): plan, every measurement, every finding.
//!
//! A *knob* is a setting with two levels, its default and another one. *Screening* measures many
//! combinations of levels and names the knobs that matter; *confirmation* measures those again, each
//! alone beside the baseline, on fresh data. Changes of a metric are parts (`ratio`: 0.05 is 5 % more)
//! or differences in the unit of the metric (`difference`).

use crate::store::{read_versioned, write_whole};
use crate::{Generator, Provenance, ReadError, WriteError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// What `kind` says in such a file.
pub const KIND: &str = "tuning";

/// Version of the file's layout. A reader takes this one and no other.
pub const SCHEMA: u32 = 1;

/// What was measured, by the name of the metric.
pub type Values = BTreeMap<String, f64>;

/// A trial of settings. All times are nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TuningFile {
    /// Always `tuning`.
    pub kind: String,
    /// Version of this layout.
    pub schema: u32,
    /// What wrote the file.
    pub generator: Generator,
    /// Where it was measured.
    pub provenance: Provenance,
    /// What was fixed before the first measurement.
    pub plan: TuningPlan,
    /// Wall-clock time of the first measurement since 1970-01-01 UTC, a label only.
    pub started_unix_ns: u64,
    /// Wall-clock time of the end.
    pub finished_unix_ns: u64,
    /// Whether it was ended from outside; the findings are of the measurements so far.
    pub interrupted: bool,
    /// Why the numbers say nothing about the knobs; empty if they do.
    pub invalid_because: Vec<String>,
    /// What a reader should know.
    pub notes: Vec<String>,
    /// The metrics of the measurements, the primary one first.
    pub metrics: Vec<MetricInfo>,
    /// What is known about each knob, in the order of the plan.
    pub knobs: Vec<KnobResult>,
    /// The tests of papers on the groups of the confirmation; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<Groups>,
    /// Every measurement, in the order of time, those that were measured again included.
    pub measurements: Vec<Measurement>,
}

/// What was fixed before the first measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TuningPlan {
    /// The command that starts the server.
    pub server: String,
    /// The load in words.
    pub load: String,
    /// `namespace` or `host`: where the settings are changed.
    pub scope: String,
    /// The knobs with their levels.
    pub knobs: Vec<KnobPlan>,
    /// The metric that decides.
    pub primary: String,
    /// Whether the load is a closed loop: its response times are then those of a full window, and no
    /// finding about users is made of them.
    pub closed_loop: bool,
    /// Seed of orders, queries and permutations.
    pub seed: u64,
    /// Blocks of the screening.
    pub blocks: usize,
    /// Combinations of levels in each block.
    pub runs: usize,
    /// 4 if no effect is mixed up with those of two knobs together, else 3.
    pub resolution: u8,
    /// Measurements of the baseline in each block.
    pub baselines: usize,
    /// The chance of naming any knob wrongly.
    pub alpha: f64,
    /// Permutations that are drawn.
    pub permutations: usize,
    /// Pairs of the confirmation at least and at most; 0 confirms nothing.
    pub confirm_pairs: [usize; 2],
    /// Wanted chance to confirm a real effect.
    pub power: f64,
    /// How often a disturbed measurement is repeated.
    pub retries: usize,
    /// Length of a measurement.
    pub measure_ns: u64,
    /// Load before it that is not measured.
    pub warm_up_ns: u64,
}

/// A setting and its levels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KnobPlan {
    /// Its name.
    pub name: String,
    /// The level of the baseline: what the setting was before.
    pub low: String,
    /// The other level.
    pub high: String,
    /// When a change takes effect.
    pub takes_effect: String,
    /// What has been said about it.
    pub claims: Vec<Claim>,
}

/// What somebody has said about a setting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Claim {
    /// Who.
    pub by: String,
    /// `better`, `worse` or `no change`: what the high level is expected to do.
    pub expects: String,
    /// What was said.
    pub says: String,
    /// Where.
    pub source: String,
}

/// A metric of the measurements.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MetricInfo {
    /// Its name in `values`.
    pub name: String,
    /// `ns`, `part`, `per second` or `per 1000 queries`.
    pub unit: String,
    /// `ratio` or `difference`.
    pub scale: String,
    /// Whether less of it is better.
    pub less_is_better: bool,
    /// Whether users feel it.
    pub felt: bool,
}

/// What is known about one knob.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KnobResult {
    /// Its name.
    pub knob: String,
    /// The verdict.
    pub verdict: Verdict,
    /// What the verdict rests on, in words.
    pub because: Vec<String>,
    /// Its effect in the screening; absent if that was ended before there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// What the tests of papers say of the screening; they do not decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classical: Option<Classical>,
    /// How the other metrics differ between its levels in the screening, without a test.
    pub others: Values,
    /// What fresh data says; absent if the screening did not name it, or nothing was measured again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmation: Option<Confirmation>,
}

/// What can be said about the high level of a knob.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It was not measured.
    #[default]
    Unknown,
    /// No effect was shown.
    NotShown,
    /// The screening named it, and fresh data does not show it, or there is none.
    Unconfirmed,
    /// Something that users feel is better, and nothing that they feel is worse.
    Better,
    /// Something that users feel is worse, and nothing that they feel is better.
    Worse,
    /// Something is better and something that users feel is worse.
    Mixed,
    /// It costs the server less CPU, and users feel nothing.
    Cheaper,
    /// It costs the server more CPU, and users feel nothing.
    Dearer,
    /// The metric that decides is another one, which is no cost, and users feel nothing.
    NotFelt,
}

impl Verdict {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Unknown => "not measured",
            Self::NotShown => "no effect shown",
            Self::Unconfirmed => "not confirmed",
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Mixed => "mixed",
            Self::Cheaper => "cheaper",
            Self::Dearer => "dearer",
            Self::NotFelt => "changed, not felt",
        }
    }
}

/// An effect on the primary metric, from the screening.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effect {
    /// The change from the low level to the high one (Hodges–Lehmann, within blocks).
    pub estimate: f64,
    /// Its interval, for all knobs together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// The difference of ranks in standard deviations of permutations.
    pub statistic: f64,
    /// The size of the statistic that its rank has on average if no knob matters (half-normal).
    pub expected: f64,
    /// The p-value, for all knobs together (step-down maxT).
    pub p: f64,
    /// The step in which it was named, from 1; absent if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named: Option<usize>,
}

/// The tests of papers, on all measurements with the knob low and all with it high. None of them knows
/// about blocks. The p-values are adjusted for all knobs (Holm).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Classical {
    /// Kruskal–Wallis, which with two groups is Dunn's test.
    pub dunn_p: Option<f64>,
    /// `tukey` or `games_howell`.
    pub means_test: String,
    /// Its p-value.
    pub means_p: Option<f64>,
    /// Whether equal variances, which Tukey and Dunnett need, are refuted (Brown–Forsythe); not adjusted.
    pub variances_p: Option<f64>,
    /// Whether normal values are refuted (D'Agostino–Pearson); not adjusted.
    pub normality_p: Option<f64>,
}

/// A knob alone beside the baseline, on fresh data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Confirmation {
    /// Pairs of neighbours in time, one of each.
    pub pairs: usize,
    /// Pairs that would be needed by the noise of the screening; absent if more than can be planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed: Option<usize>,
    /// The p-value of the primary metric, adjusted for all knobs that were named (Holm).
    pub p_adjusted: f64,
    /// Metric by metric, the primary one first.
    pub changes: Vec<Change>,
    /// The differences of the pairs, in the order of time: for `ratio` logarithms.
    pub differences: Vec<f64>,
    /// The p-value of Dunn's test beside the baseline (Holm).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dunn_p: Option<f64>,
    /// Of Tukey's or Games and Howell's test, all pairs of groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub means_p: Option<f64>,
    /// Of Dunnett's test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dunnett_p: Option<f64>,
}

/// One metric with a knob changed beside the baseline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// The metric.
    pub metric: String,
    /// Its median in the baseline.
    pub baseline: f64,
    /// Its median with the knob changed.
    pub changed: f64,
    /// The change (Hodges–Lehmann of the pairs).
    pub estimate: f64,
    /// Its interval, for this metric alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// The p-value of the sign-flip test, not adjusted.
    pub p: f64,
    /// Of a metric that users feel, unless it decides: the p-value adjusted for all of those and all settings (Holm).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_adjusted: Option<f64>,
    /// The p-value of the test that it is worse by its margin or more: a small one shows that it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_worse_p: Option<f64>,
    /// How often it is only known with the knob changed that the metric is at least its value, since that
    /// lies among lost queries: such a change is never `better`.
    #[serde(default)]
    pub bounds: usize,
    /// `better`, `worse`, `same` or `unclear`.
    pub said: String,
}

/// The tests of papers on all groups of the confirmation: the baseline and each knob alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Groups {
    /// Whether any group differs (Kruskal–Wallis).
    pub kruskal_wallis_p: Option<f64>,
    /// `tukey` or `games_howell`, by whether equal variances are refuted.
    pub means_test: String,
    /// Whether equal variances are refuted (Brown–Forsythe).
    pub variances_p: Option<f64>,
    /// Whether normal values are refuted (D'Agostino–Pearson).
    pub normality_p: Option<f64>,
}

/// One measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measurement {
    /// `screening` or `confirmation`.
    pub phase: String,
    /// The block, from 0.
    pub block: usize,
    /// Its place in the order of the block, from 0.
    pub turn: usize,
    /// `baseline`, `run N` or the name of a knob.
    pub arm: String,
    /// The knobs that were at their high level, by their place in the plan.
    pub high: Vec<usize>,
    /// How often it was measured before.
    pub attempt: usize,
    /// Whether it counts.
    pub used: bool,
    /// Why it is disturbed.
    pub faults: Vec<String>,
    /// What it brought.
    pub values: Values,
}

/// The measurements as a table for other programs: a line each.
pub fn csv(file: &TuningFile) -> String {
    let mut text = "phase,block,turn,arm,attempt,used,disturbed".to_owned();
    let all = file.measurements.iter().flat_map(|measurement| measurement.values.keys());
    let metrics: BTreeSet<&String> = all.collect();
    metrics.iter().for_each(|metric| _ = write!(text, ",{metric}"));
    let knobs = &file.plan.knobs;
    let quoted = |text: &str| text.replace('"', "\"\"");
    knobs.iter().for_each(|knob| _ = write!(text, ",\"{}\"", quoted(&knob.name)));
    text.push('\n');
    for one in &file.measurements {
        let Measurement { phase, block, turn, arm, attempt, used, .. } = one;
        let (arm, disturbed) = (quoted(arm), !one.faults.is_empty());
        _ = write!(text, "{phase},{block},{turn},\"{arm}\",{attempt},{used},{disturbed}");
        for metric in &metrics {
            let value = one.values.get(*metric).map_or(String::new(), f64::to_string);
            _ = write!(text, ",{value}");
        }
        for (at, knob) in knobs.iter().enumerate() {
            let level = if one.high.contains(&at) { &knob.high } else { &knob.low };
            _ = write!(text, ",\"{}\"", quoted(level));
        }
        text.push('\n');
    }
    text
}

/// The JSON schema of the file.
pub fn json_schema() -> String {
    crate::store::schema_text(&schemars::schema_for!(TuningFile))
}

/// The file's text.
pub fn to_json(file: &TuningFile) -> String {
    // Writing to memory does not fail, and the types have no map whose key is no string.
    serde_json::to_string_pretty(file).unwrap_or_default() + "\n"
}

/// Writes the file whole or not at all.
pub fn write(path: &Path, file: &TuningFile) -> Result<(), WriteError> {
    write_whole(path, to_json(file).as_bytes())
        .map_err(|source| WriteError { path: path.to_owned(), source })
}

/// Reads the file at `path`.
pub fn read(path: &Path) -> Result<TuningFile, ReadError> {
    let octets =
        fs::read(path).map_err(|source| ReadError::Io { path: path.to_owned(), source })?;
    from_json(path, &octets)
}

/// Reads the text of a file; `path` is for messages only.
pub fn from_json(path: &Path, octets: &[u8]) -> Result<TuningFile, ReadError> {
    read_versioned(path, octets, SCHEMA..=SCHEMA)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> TuningFile {
        let knob = |name: &str| KnobPlan {
            name: name.to_owned(),
            low: "1".to_owned(),
            high: "4096 \"8\"".to_owned(),
            ..KnobPlan::default()
        };
        let measured = |high: Vec<usize>, metric: &str| Measurement {
            phase: "screening".to_owned(),
            arm: "run 1".to_owned(),
            high,
            used: true,
            values: Values::from([(metric.to_owned(), 7.5)]),
            ..Measurement::default()
        };
        TuningFile {
            kind: KIND.to_owned(),
            schema: SCHEMA,
            plan: TuningPlan { knobs: vec![knob("a"), knob("b")], ..TuningPlan::default() },
            knobs: vec![KnobResult { effect: Some(Effect::default()), ..KnobResult::default() }],
            measurements: vec![measured(vec![], "p99"), measured(vec![1], "cpu")],
            ..TuningFile::default()
        }
    }

    #[test]
    fn what_is_written_is_read_and_another_layout_is_told() {
        let path = Path::new("t.json");
        let text = to_json(&small());
        assert_eq!(from_json(path, text.as_bytes()).unwrap(), small());
        let newer = text.replacen("\"schema\": 1", "\"schema\": 9", 1);
        let error = from_json(path, newer.as_bytes()).unwrap_err();
        assert!(matches!(error, ReadError::Version { found: 9, .. }), "{error}");
    }

    #[test]
    fn the_table_has_a_column_for_every_metric_and_the_level_of_every_knob() {
        let table = csv(&small());
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[0], "phase,block,turn,arm,attempt,used,disturbed,cpu,p99,\"a\",\"b\"");
        assert_eq!(lines[1], "screening,0,0,\"run 1\",0,true,false,,7.5,\"1\",\"1\"");
        assert_eq!(lines[2], "screening,0,0,\"run 1\",0,true,false,7.5,,\"1\",\"4096 \"\"8\"\"\"");
    }
}
