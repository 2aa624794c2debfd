//! What is measured of a server, and how its changes are told.

use lab_result::tuning::{MetricInfo, Values};
use lab_stats::Margin;

/// How two values of a metric are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// By their ratio.
    Ratio,
    /// By their difference: the metric is often 0.
    Difference,
}

/// When users feel a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Felt {
    /// With queries on a schedule: in a closed loop these are times of a full window.
    Open,
    /// In a closed loop.
    Closed,
    Always,
    /// It is a cost or a cause.
    Never,
}

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// Its name in values, options and tables.
    pub name: &'static str,
    /// `ns`, `part`, `per second` or `per 1000 queries`.
    pub unit: &'static str,
    /// How its values are compared.
    pub scale: Scale,
    /// Whether less of it is better.
    pub less_is_better: bool,
    /// The size of a change that does not matter, in the unit of changes.
    pub margin: f64,
    felt: Felt,
}

const fn metric(
    (name, unit): (&'static str, &'static str),
    scale: Scale,
    (less_is_better, felt): (bool, Felt),
    margin: f64,
) -> Metric {
    Metric { name, unit, scale, less_is_better, margin, felt }
}

/// Unit of counts that are no part of the queries.
const PER_1000: &str = "per 1000 queries";

/// Stands for a rate of 0, which has no logarithm: lower than that of one answer in any measuring time.
/// A measurement that were left out would make a setting that stops the server look like one that does not.
const LEAST_RATE: f64 = 0.000_1;

/// All of them.
pub const METRICS: [Metric; 9] = [
    metric(("p50", "ns"), Scale::Ratio, (true, Felt::Open), 0.02),
    metric(("p99", "ns"), Scale::Ratio, (true, Felt::Open), 0.05),
    metric(("qps", "per second"), Scale::Ratio, (false, Felt::Closed), 0.02),
    metric(("failures", "part"), Scale::Difference, (true, Felt::Always), 0.0005),
    metric(("failed_connects", "part"), Scale::Difference, (true, Felt::Always), 0.0005),
    metric(("cpu", "ns"), Scale::Ratio, (true, Felt::Never), 0.02),
    metric(("resets", PER_1000), Scale::Difference, (true, Felt::Never), 1.0),
    metric(("retransmits", PER_1000), Scale::Difference, (true, Felt::Never), 1.0),
    metric(("overflows", PER_1000), Scale::Difference, (true, Felt::Never), 1.0),
];

impl Metric {
    /// The metric of this name.
    pub fn find(name: &str) -> Option<Self> {
        METRICS.into_iter().find(|metric| metric.name == name)
    }

    /// Whether users feel it under such a load.
    pub fn is_felt(&self, closed_loop: bool) -> bool {
        match self.felt {
            Felt::Always => true,
            Felt::Never => false,
            Felt::Open => !closed_loop,
            Felt::Closed => closed_loop,
        }
    }

    /// Whether only a bound of it is known.
    pub fn is_bound(&self, values: &Values) -> bool {
        !values.contains_key(self.name) && values.contains_key(&at_least(self.name))
    }

    /// Whether it is a rate of which there was nothing at all.
    pub fn is_none(&self, values: &Values) -> bool {
        self.scale == Scale::Ratio && !self.less_is_better && values.get(self.name) == Some(&0.0)
    }

    /// Its value on the scale of statistics, or the bound of one; `None` if it was not measured, or has
    /// no logarithm. A rate of 0 counts as the lowest that there is.
    pub fn of(&self, values: &Values) -> Option<f64> {
        let value = *values.get(self.name).or_else(|| values.get(&at_least(self.name)))?;
        let scaled = match self.scale {
            Scale::Ratio if self.is_none(values) => LEAST_RATE.ln(),
            Scale::Ratio => value.ln(),
            Scale::Difference => value,
        };
        scaled.is_finite().then_some(scaled)
    }

    /// A difference on the scale of statistics as a change.
    pub fn change(&self, difference: f64) -> f64 {
        match self.scale {
            Scale::Ratio => difference.exp_m1(),
            Scale::Difference => difference,
        }
    }

    /// A change on the scale of statistics.
    pub fn difference(&self, change: f64) -> f64 {
        match self.scale {
            Scale::Ratio => change.ln_1p(),
            Scale::Difference => change,
        }
    }

    /// The value that has this place on the scale of statistics.
    pub fn value(&self, scaled: f64) -> f64 {
        match self.scale {
            Scale::Ratio => scaled.exp(),
            Scale::Difference => scaled,
        }
    }

    /// The changes that do not matter.
    pub fn margin(&self) -> Margin {
        match self.scale {
            Scale::Ratio => Margin::ratio(self.margin),
            Scale::Difference => Margin::absolute(self.margin),
        }
    }

    /// Whether a change in this direction is an improvement.
    pub fn is_better(&self, difference: f64) -> bool {
        (difference < 0.0) == self.less_is_better
    }

    /// It as the result file has it.
    pub fn info(&self, closed_loop: bool) -> MetricInfo {
        MetricInfo {
            name: self.name.to_owned(),
            unit: self.unit.to_owned(),
            scale: match self.scale {
                Scale::Ratio => "ratio",
                Scale::Difference => "difference",
            }
            .to_owned(),
            less_is_better: self.less_is_better,
            felt: self.is_felt(closed_loop),
        }
    }
}

/// The name under which values have a bound in the place of the metric `name`: it is that, or more.
pub fn at_least(name: &str) -> String {
    format!("{name}_at_least")
}

/// Those that some measurement has, the primary one first.
pub fn measured<'a>(
    primary: Metric,
    values: impl Iterator<Item = &'a Values> + Clone,
) -> Vec<Metric> {
    let others = METRICS.into_iter().filter(|metric| metric.name != primary.name);
    let known = |metric: &Metric, values: &Values| {
        values.contains_key(metric.name) || metric.is_bound(values)
    };
    let has = |metric: &Metric| values.clone().any(|values| known(metric, values));
    std::iter::once(primary).chain(others.filter(has)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_has_no_logarithm_is_none_and_no_failures_are_a_value() {
        let values = |name: &str, value| Values::from([(name.to_owned(), value)]);
        let of = |name: &str, value| Metric::find(name).unwrap().of(&values(name, value));
        assert_eq!(of("p99", 0.0), None);
        assert_eq!(of("p99", f64::NAN), None);
        assert_eq!(of("p99", 1.0), Some(0.0));
        assert_eq!(of("failures", 0.0), Some(0.0));
        assert!(of("qps", 0.0) < of("qps", 1.0 / 3_600.0));
        assert_eq!(Metric::find("p99").unwrap().of(&values("p50", 1.0)), None);
        assert_eq!(of("p99", 1.0), Metric::find("p99").unwrap().of(&values("p99_at_least", 1.0)));
        assert!(Metric::find("p99").unwrap().is_bound(&values("p99_at_least", 1.0)));
        assert!(Metric::find("p98").is_none());
    }

    #[test]
    fn what_is_better_depends_on_the_metric_and_what_is_felt_on_the_load() {
        let [p99, qps, cpu] = ["p99", "qps", "cpu"].map(|name| Metric::find(name).unwrap());
        assert!(p99.is_better(-0.1) && !p99.is_better(0.1) && qps.is_better(0.1));
        let felt = |closed| [p99, qps, cpu].map(|metric| metric.is_felt(closed));
        assert_eq!((felt(false), felt(true)), ([true, false, false], [false, true, false]));
        assert!((p99.change(0.5_f64.ln()) + 0.5).abs() < 1e-12);
    }
}
