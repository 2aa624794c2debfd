//! What a file says about a run of a load generator, whatever its format.

use lab_histogram::{Histogram, Quantile};
use std::collections::BTreeMap;

/// What a value counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Time,
    /// Per second.
    Rate,
    /// Parts of 1.
    Part,
    /// What a table says; empty for a plain number.
    Other(String),
}

impl Unit {
    /// Its name in a file of an analysis.
    pub fn name(&self) -> &str {
        match self {
            Self::Time => "ns",
            Self::Rate => "/s",
            Self::Part => "part",
            Self::Other(name) => name,
        }
    }
}

/// A value with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The metric, as `qps`.
    pub metric: String,
    /// What the value counts.
    pub unit: Unit,
    /// The value.
    pub value: f64,
    /// Whether it is only known to be at least that: a percentile among lost queries.
    pub is_bound: bool,
    /// One unit of its last digit; 0 if it was not cut.
    pub step: f64,
}

impl Figure {
    /// A duration.
    pub fn time(metric: &str, nanos: f64) -> Self {
        Self::new(metric, Unit::Time, nanos)
    }

    /// A rate per second.
    pub fn rate(metric: &str, rate: f64) -> Self {
        Self::new(metric, Unit::Rate, rate)
    }

    /// `part` of `whole`; `None` of nothing.
    pub fn part(metric: &str, part: u64, whole: u64) -> Option<Self> {
        (whole > 0).then(|| Self::new(metric, Unit::Part, part as f64 / whole as f64))
    }

    /// Any value.
    pub fn new(metric: &str, unit: Unit, value: f64) -> Self {
        Self { metric: metric.to_owned(), unit, value, is_bound: false, step: 0.0 }
    }
}

/// The percentiles that are made from histograms.
pub const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)];

/// Fewer queries than this beyond a percentile do not show it.
const BEYOND_MIN: f64 = 10.0;

/// What was measured in a trial or in a part of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Values as the file has them.
    pub figures: Vec<Figure>,
    /// Response times, lost queries censored.
    pub response: Option<Histogram>,
    /// Nanoseconds of a step, of response times in steps of one width; 0 of others.
    pub step_ns: u64,
}

impl Measured {
    /// The values with the percentiles of the histogram, in buckets of `bits` at most. A percentile below
    /// a single step, or with too few queries beyond it, is none.
    pub fn all(&self, bits: u32) -> Vec<Figure> {
        let mut all = self.figures.clone();
        let Some(response) = &self.response else { return all };
        let response = response.coarsened(bits);
        let count = (response.recorded() + response.censored()) as f64;
        for (metric, part) in PERCENTILES {
            let known = all.iter().any(|figure| figure.metric == metric);
            let quantile = response.quantile(part);
            let Some(nanos) = quantile.nanos() else { continue };
            let is_coarse = nanos < self.step_ns;
            if known || is_coarse || count * (1.0 - part) < BEYOND_MIN {
                continue;
            }
            let is_bound = matches!(quantile, Quantile::AtLeast(_));
            all.push(Figure { is_bound, ..Figure::time(metric, nanos as f64) });
        }
        all
    }

    /// Takes the times away if no query was answered, and says whether it has. Generators print 0 then, which would
    /// be the lowest latency of all.
    fn forget_times(&mut self) -> bool {
        if !self.is_unanswered() {
            return false;
        }
        let had = self.figures.len();
        self.figures.retain(|figure| figure.unit != Unit::Time || figure.is_bound);
        self.figures.len() < had
    }

    /// By the rate of answers where there is one: of an interval, what is lost may be of the one before it.
    fn is_unanswered(&self) -> bool {
        let value = |metric: &str| {
            let found = self.figures.iter().find(|figure| figure.metric == metric);
            found.map(|figure| figure.value)
        };
        match value("qps").or(value("throughput")) {
            Some(rate) => rate <= 0.0,
            None => {
                let is_zero = |time| value(time).is_some_and(|value| value <= 0.0);
                value("loss") == Some(1.0) || is_zero("mean") || is_zero("max")
            }
        }
    }

    /// The width of a bucket at `nanos` as a part of it.
    pub fn resolution(&self, nanos: f64) -> f64 {
        let Some(response) = &self.response else { return 0.0 };
        let logarithmic = 1.0 / f64::from(1_u32 << response.bits());
        if nanos > 0.0 { logarithmic.max(self.step_ns as f64 / nanos) } else { logarithmic }
    }
}

/// The queries that a closed loop keeps in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// How many at most.
    pub in_flight: f64,
    /// When a query is given up, in nanoseconds.
    pub timeout_ns: f64,
    /// How long queries were sent, in nanoseconds; 0 if that is not known.
    pub run_ns: f64,
    /// One unit of the last digit of the mean latency, in nanoseconds.
    pub precision_ns: f64,
}

/// A run of a load generator, or a row of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trial {
    /// The file.
    pub path: String,
    /// The line where it begins, from 1.
    pub line: usize,
    /// Wall-clock time of its start since 1970-01-01.
    pub started_unix_ns: Option<u64>,
    /// What the file says about it that is no value.
    pub labels: BTreeMap<String, String>,
    /// The whole.
    pub whole: Measured,
    /// Seconds, intervals or readings.
    pub parts: Vec<Measured>,
    /// The loop it was measured in, if it is known to be closed.
    pub window: Option<Window>,
    /// What weakens it, by its own file.
    pub warnings: Vec<String>,
}

impl Trial {
    /// A value of the whole.
    pub fn figure(&self, metric: &str) -> Option<f64> {
        let found = self.whole.figures.iter().find(|figure| figure.metric == metric);
        found.map(|figure| figure.value)
    }

    /// Leaves out times where no query was answered.
    pub(crate) fn forget_times(&mut self) {
        if self.whole.forget_times() {
            self.warnings.push("no query was answered: it has no latency".to_owned());
        }
        for part in &mut self.parts {
            part.forget_times();
        }
    }

    /// File and line.
    pub fn place(&self) -> String {
        format!("{}:{}", self.path, self.line)
    }
}

/// Adds `lost` values to `histogram` that are only known to be at least `floor`.
pub fn lose(histogram: &mut Histogram, lost: u64, floor: u64) {
    if lost == 0 {
        return;
    }
    let mut parts = histogram.to_parts();
    parts.floor = if parts.censored == 0 { floor } else { parts.floor.min(floor) };
    parts.censored = parts.censored.saturating_add(lost);
    // Parts of a histogram are always those of one.
    if let Ok(more) = Histogram::from_parts(&parts) {
        *histogram = more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::COUNT_MAX;

    fn measured(step_ns: u64, count: u64) -> Measured {
        let mut response = Histogram::new();
        response.record_n(500_000, count);
        lose(&mut response, count / 50, 5_000_000_000);
        Measured { response: Some(response), step_ns, ..Measured::default() }
    }

    fn names(measured: &Measured) -> Vec<String> {
        let sign =
            |figure: Figure| format!("{}{}", if figure.is_bound { "≥" } else { "" }, figure.metric);
        measured.all(8).into_iter().map(sign).collect()
    }

    #[test]
    fn a_percentile_needs_queries_beyond_it_and_lost_ones_are_bounds() {
        assert_eq!(names(&measured(0, 50)), ["p50"]);
        assert_eq!(names(&measured(0, 1_000)), ["p50", "p90", "p95", "≥p99"]);
        assert_eq!(names(&measured(0, 10_000)), ["p50", "p90", "p95", "≥p99", "≥p99.9"]);
    }

    #[test]
    fn a_percentile_within_the_first_step_is_none() {
        assert_eq!(names(&measured(1_000_000, 1_000)), ["≥p99"]);
        assert!((measured(1_000_000, 10).resolution(2e6) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn any_number_of_queries_can_be_lost() {
        let mut response = Histogram::new();
        lose(&mut response, COUNT_MAX, 7);
        lose(&mut response, 9, 3);
        assert_eq!(response.censored(), COUNT_MAX + 9);
        assert_eq!(response.quantile(0.5), Quantile::AtLeast(3));
    }
}
