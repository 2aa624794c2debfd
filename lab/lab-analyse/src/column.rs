//! The values of one metric, group by group.

use crate::analyse::Settings;
use crate::group::Group;
use crate::rates::Rates;
use crate::trial::{Figure, Measured, Trial, Unit};
use lab_result::analysis::Sample;
use lab_stats::{order, paired};

/// The metrics that have a place of their own, in their order, each with the difference that does not
/// matter: a part of the value, of `loss` a difference of parts.
pub const MARGINS: [(&str, f64); 15] = [
    ("qps", 0.02),
    ("throughput", 0.02),
    ("mean", 0.02),
    ("p50", 0.02),
    ("p90", 0.02),
    ("p95", 0.05),
    ("p99", 0.05),
    ("p99.9", 0.10),
    ("max", 0.10),
    ("loss", 0.001),
    ("connections failed", 0.001),
    ("connect", 0.05),
    ("cpu", 0.02),
    ("memory", 0.05),
    ("loss at throughput", 0.001),
];
/// The margin of any other metric.
const OTHER_MARGIN: f64 = 0.02;
/// Metrics that describe and are not tested.
const UNTESTED: [&str; 5] = ["deviation", "connect deviation", "min", "malformed", "reconnections"];

/// The difference of `metric` that does not matter.
pub fn margin(metric: &str) -> f64 {
    let known = MARGINS.iter().find(|(name, _)| is_of(metric, name));
    known.map_or(OTHER_MARGIN, |(_, margin)| *margin)
}

/// Whether `metric` is `name`, or `name` of a cell of a comparison.
fn is_of(metric: &str, name: &str) -> bool {
    metric.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// The values of a group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values {
    /// The values.
    pub(crate) all: Vec<f64>,
    /// The block of each, if it has one.
    pub(crate) blocks: Vec<Option<String>>,
    /// How many are only bounds.
    pub(crate) bounds: usize,
    /// The lowest bound.
    pub(crate) least_bound: Option<f64>,
    /// Trials they are from.
    pub(crate) runs: usize,
    /// Of rates, those that were asked for.
    pub(crate) rates: Rates,
}

/// A metric of all groups.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) metric: String,
    pub(crate) unit: Unit,
    /// For each group in order; empty where it has none.
    pub(crate) groups: Vec<Values>,
    /// The widest bucket of its values as a part of them; 0 if they are no percentiles.
    resolution: f64,
    /// The widest step of the digits of its values: as a part of them, and in their unit.
    digits: [f64; 2],
}

impl Column {
    pub(crate) fn is_tested(&self) -> bool {
        !UNTESTED.iter().any(|name| is_of(&self.metric, name))
    }

    /// Which values are better.
    pub(crate) fn better(&self) -> &'static str {
        let named = |names: &[&str]| names.iter().any(|name| is_of(&self.metric, name));
        match self.unit {
            _ if named(&["qps", "throughput"]) => "higher",
            Unit::Time => "lower",
            _ if named(&["loss", "connections failed", "cpu", "memory", "loss at throughput"]) => {
                "lower"
            }
            _ => "",
        }
    }

    /// Whether differences are ratios: not of parts, and not where a value is no positive number.
    pub(crate) fn is_ratio(&self) -> bool {
        self.unit != Unit::Part
            && self.groups.iter().flat_map(|group| &group.all).all(|value| *value > 0.0)
    }

    /// How finely its values are known: as a part of them where differences are ratios.
    pub(crate) fn resolution(&self) -> f64 {
        self.resolution.max(self.of_digits())
    }

    /// Whether what is known of its values ends with their last digit, and not with a bucket.
    pub(crate) fn is_cut(&self) -> bool {
        self.of_digits() > self.resolution
    }

    fn of_digits(&self) -> f64 {
        let [part, step] = self.digits;
        if self.is_ratio() { part } else { step }
    }

    /// The groups that have values, with their index.
    pub(crate) fn present(&self) -> Vec<usize> {
        let with = self.groups.iter().enumerate().filter(|(_, values)| !values.all.is_empty());
        with.map(|(at, _)| at).collect()
    }
}

/// All metrics of `groups`, in the order of [`MARGINS`] and then of their first value.
pub(crate) fn columns(groups: &[Group], by_part: bool, settings: &Settings) -> Vec<Column> {
    let bits = bits(groups);
    let mut columns: Vec<Column> = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        for trial in &group.trials {
            let mut touched: Vec<String> = Vec::new();
            for measured in parts(trial, by_part) {
                for figure in measured.all(bits).into_iter().filter(|it| it.value.is_finite()) {
                    let column = column(&mut columns, &figure, groups.len());
                    if crate::trial::PERCENTILES.iter().any(|(name, _)| *name == figure.metric) {
                        column.resolution =
                            column.resolution.max(measured.resolution(figure.value));
                    }
                    if figure.step > 0.0 {
                        let [part, step] = &mut column.digits;
                        *part = part.max(figure.step / figure.value.abs());
                        *step = step.max(figure.step);
                    }
                    let Some(values) = column.groups.get_mut(at) else { continue };
                    let is_first = !touched.contains(&figure.metric);
                    if is_first {
                        values.runs += 1;
                        touched.push(figure.metric.clone());
                    }
                    if settings.once && !is_first && values.all.last() == Some(&figure.value) {
                        continue;
                    }
                    if figure.metric == "qps" {
                        values.rates.add(trial, figure.value);
                    }
                    values.all.push(figure.value);
                    values.blocks.push(trial.labels.get("block").cloned());
                    if figure.is_bound {
                        values.bounds += 1;
                        let least = values.least_bound.unwrap_or(f64::INFINITY);
                        values.least_bound = Some(least.min(figure.value));
                    }
                }
            }
        }
    }
    let place = |column: &Column| {
        MARGINS.iter().position(|(name, _)| is_of(&column.metric, name)).unwrap_or(MARGINS.len())
    };
    columns.sort_by_key(place);
    if !settings.metrics.is_empty() {
        columns.retain(|column| settings.metrics.contains(&column.metric));
    }
    columns
}

/// The coarsest buckets of all: the middles of unequal buckets differ although nothing else does.
fn bits(groups: &[Group]) -> u32 {
    let trials = groups.iter().flat_map(|group| &group.trials);
    let all = trials.flat_map(|trial| std::iter::once(&trial.whole).chain(&trial.parts));
    let bits = all.filter_map(|measured| Some(measured.response.as_ref()?.bits()));
    bits.min().unwrap_or(lab_histogram::BITS)
}

/// What counts as one value of a trial.
fn parts(trial: &Trial, by_part: bool) -> &[Measured] {
    if by_part && !trial.parts.is_empty() {
        &trial.parts
    } else {
        std::slice::from_ref(&trial.whole)
    }
}

fn column<'c>(columns: &'c mut Vec<Column>, figure: &Figure, groups: usize) -> &'c mut Column {
    let known = columns.iter().position(|column| column.metric == figure.metric);
    let at = known.unwrap_or_else(|| {
        columns.push(Column {
            metric: figure.metric.clone(),
            unit: figure.unit.clone(),
            groups: vec![Values::default(); groups],
            resolution: 0.0,
            digits: [0.0; 2],
        });
        columns.len() - 1
    });
    // The index is that of a column that is there.
    &mut columns[at]
}

/// The values of a group as a file has them.
pub(crate) fn sample(group: &str, values: &Values, alpha: f64) -> Sample {
    let all = &values.all;
    let quantile = |part| order::quantile(all, part).unwrap_or(0.0);
    let changes = 1 + all.windows(2).filter(|pair| pair.first() != pair.last()).count();
    Sample {
        group: group.to_owned(),
        values: all.clone(),
        bounds: values.bounds,
        mean: all.iter().sum::<f64>() / all.len().max(1) as f64,
        deviation: paired::standard_deviation(all),
        five: [0.0, 0.25, 0.5, 0.75, 1.0].map(quantile),
        median_interval: order::median_interval(all, alpha).map(|ends| [ends.low, ends.high]),
        changes: changes.min(all.len()),
        lag_one: paired::lag_one(all),
    }
}
