//! From values to places between 0 (left, bottom) and 1, and the marks of an axis.

use crate::text;

/// A mark on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    /// Its place, 0 to 1.
    pub(crate) at: f64,
    /// What is written there; nothing for a mere line.
    pub(crate) label: String,
    /// A second line under the label.
    pub(crate) hint: String,
    /// Whether the label can be left out where there is little room.
    pub(crate) minor: bool,
}

impl Tick {
    fn new(at: f64, label: String) -> Self {
        Self { at, label, hint: String::new(), minor: false }
    }
}

/// A logarithmic scale of durations in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Log {
    low: f64,
    high: f64,
}

impl Log {
    /// From `low` to `high`, rounded outwards to 1, 2 or 5 times a power of ten; at least a factor
    /// of ten apart.
    pub(crate) fn around(low: f64, high: f64) -> Self {
        let low = low.max(1.0);
        let high = high.max(low);
        let (mut low, mut high) = (round_down(low), round_up(high));
        if high / low < 10.0 {
            let middle = (low * high).sqrt();
            low = round_down(middle / 3.2);
            high = round_up(middle * 3.2);
        }
        Self { low, high }
    }

    /// As [`Log::around`], but ends exactly at `high`: what lies above has a place of its own.
    pub(crate) fn up_to(low: f64, high: f64) -> Self {
        let high = high.max(10.0);
        let low = round_down(low.clamp(1.0, high / 10.0));
        Self { low, high }
    }

    /// The place of `value`; below the scale it is 0, above it 1.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let place = (value.max(1e-9) / self.low).ln() / (self.high / self.low).ln();
        place.clamp(0.0, 1.0)
    }

    /// The value at a place.
    pub(crate) fn value(&self, at: f64) -> f64 {
        self.low * (self.high / self.low).powf(at)
    }

    /// Powers of ten with labels; lines for what lies between, with labels on a short scale.
    pub(crate) fn ticks(&self) -> Vec<Tick> {
        let decades = (self.high / self.low).log10();
        let mut ticks = Vec::new();
        let mut power = 10f64.powf(self.low.log10().floor());
        while power <= self.high * 1.000_1 {
            for step in 1..10 {
                let value = power * f64::from(step);
                if value < self.low * 0.999_9 || value > self.high * 1.000_1 {
                    continue;
                }
                let labelled = step == 1 || (decades < 2.5 && matches!(step, 2 | 5));
                let label = if labelled { short_nanos(value) } else { String::new() };
                ticks.push(Tick { minor: step != 1, ..Tick::new(self.at(value), label) });
            }
            power *= 10.0;
        }
        ticks
    }
}

/// A linear scale from 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Linear {
    high: f64,
    step: f64,
}

impl Linear {
    /// From 0 to at least `high`, in steps of 1, 2 or 5 times a power of ten.
    pub(crate) fn up_to(high: f64) -> Self {
        let high = if high > 0.0 { high } else { 1.0 };
        let step = round_up(high / 5.0);
        Self { high: (high / step).ceil() * step, step }
    }

    /// From 0 to exactly `high`, an axis of time.
    pub(crate) fn exactly(high: f64) -> Self {
        let high = if high > 0.0 { high } else { 1.0 };
        Self { high, step: round_up(high / 10.0).max(1.0) }
    }

    /// The place of `value`, at most 1.
    pub(crate) fn at(&self, value: f64) -> f64 {
        (value / self.high).clamp(0.0, 1.0)
    }

    /// A mark at every step, labelled by `label`; every second one may be left out.
    pub(crate) fn ticks(&self, label: impl Fn(f64) -> String) -> Vec<Tick> {
        let steps = (self.high / self.step + 1e-9).floor() as u32;
        let tick = |n: u32| {
            let value = f64::from(n) * self.step;
            Tick { minor: n % 2 == 1, ..Tick::new(self.at(value), label(value)) }
        };
        (0..=steps).map(tick).collect()
    }
}

/// The slowest part of all queries in percent, from 100 (left) to `least` (right).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Slowest {
    decades: f64,
}

impl Slowest {
    /// For `total` queries: down to the single slowest one, but between 1 % and 0.000 01 %.
    pub(crate) fn of(total: u64) -> Self {
        let decades = (total.max(1) as f64).log10().clamp(2.0, 7.0);
        Self { decades }
    }

    /// The place of a percentage.
    pub(crate) fn at(&self, percent: f64) -> f64 {
        ((100.0 / percent.max(1e-9)).log10() / self.decades).clamp(0.0, 1.0)
    }

    /// Percentages from 100 downwards, `per_decade` for each power of ten.
    pub(crate) fn steps(&self, per_decade: u32) -> Vec<f64> {
        let last = (self.decades * f64::from(per_decade)).floor() as u32;
        (0..=last).map(|n| 100.0 / 10f64.powf(f64::from(n) / f64::from(per_decade))).collect()
    }

    /// Percentages that a table shows, ten for each power of ten, as round as such can be (the
    /// series R10 of ISO 3).
    pub(crate) fn readings(&self) -> Vec<f64> {
        const R10: [f64; 10] = [100.0, 80.0, 63.0, 50.0, 40.0, 31.5, 25.0, 20.0, 16.0, 12.5];
        let decades = (0..=self.decades.floor() as i32).map(|decade| 10f64.powi(decade));
        let all = decades.flat_map(|power| R10.map(|percent| percent / power));
        all.filter(|percent| (100.0 / percent).log10() < self.decades + 1e-9).collect()
    }

    /// Powers of ten with the percentile they belong to, the median, and lines between.
    pub(crate) fn ticks(&self) -> Vec<Tick> {
        let mut ticks = Vec::new();
        for decade in 0..=self.decades.floor() as i32 {
            let percent = 100.0 / 10f64.powi(decade);
            let hint = match decade {
                0 => "all".to_owned(),
                _ => format!("p{}", text::trimmed(100.0 - percent, 6)),
            };
            let label = format!("{} %", text::trimmed(percent, 6));
            ticks.push(Tick { hint, ..Tick::new(self.at(percent), label) });
            for part in [5.0, 2.0] {
                let between = percent * part / 10.0;
                if self.at(between) < 1.0 {
                    let label = if decade == 0 && part > 4.0 { "50 %" } else { "" };
                    let hint = if label.is_empty() { "" } else { "p50" };
                    let mut tick = Tick::new(self.at(between), label.to_owned());
                    tick.hint = hint.to_owned();
                    tick.minor = true;
                    ticks.push(tick);
                }
            }
        }
        ticks
    }
}

/// A round duration without needless digits: `10 µs`, `2 s`.
pub(crate) fn short_nanos(nanos: f64) -> String {
    let (value, unit) = match nanos {
        ..999.5 => (nanos, "ns"),
        ..999.5e3 => (nanos / 1e3, "µs"),
        ..999.5e6 => (nanos / 1e6, "ms"),
        _ => (nanos / 1e9, "s"),
    };
    format!("{} {unit}", text::trimmed(value, 2))
}

fn round_down(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let factor = [5.0, 2.0, 1.0].into_iter().find(|factor| power * factor <= value * 1.000_001);
    power * factor.unwrap_or(1.0)
}

fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| power * factor >= value * 0.999_999);
    power * factor.unwrap_or(10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: &[Tick]) -> Vec<&str> {
        ticks.iter().map(|tick| tick.label.as_str()).filter(|label| !label.is_empty()).collect()
    }

    #[test]
    fn a_log_scale_holds_its_values_and_marks_powers_of_ten() {
        let scale = Log::around(37_000.0, 41e6);
        assert!(scale.at(37_000.0) > 0.0 && scale.at(41e6) < 1.0);
        assert_eq!(labels(&scale.ticks()), ["100 µs", "1 ms", "10 ms"]);
        assert!((scale.value(scale.at(123_456.0)) - 123_456.0).abs() < 1.0);
    }

    #[test]
    fn a_short_log_scale_marks_more() {
        let scale = Log::around(40_000.0, 41_000.0);
        assert!(labels(&scale.ticks()).len() >= 3, "{:?}", scale.ticks());
        assert!(scale.at(40_500.0) > 0.2 && scale.at(40_500.0) < 0.8);
    }

    #[test]
    fn scales_of_nothing_are_scales() {
        for scale in [Log::around(0.0, 0.0), Log::up_to(0.0, 0.0), Log::up_to(5e9, 2e9)] {
            assert!(scale.at(1.0).is_finite() && scale.ticks().len() < 200, "{scale:?}");
        }
        assert_eq!(labels(&Linear::up_to(0.0).ticks(|value| format!("{value:.1}"))).len(), 6);
    }

    #[test]
    fn a_linear_scale_has_round_steps() {
        let ticks = Linear::up_to(43_000.0).ticks(text::rate);
        assert_eq!(labels(&ticks), ["0", "10.0k", "20.0k", "30.0k", "40.0k", "50.0k"]);
    }

    #[test]
    fn the_slowest_percent_goes_from_all_to_the_single_slowest() {
        let scale = Slowest::of(100_000);
        assert_eq!((scale.at(100.0), scale.at(0.001)), (0.0, 1.0));
        let shown = scale.ticks();
        assert_eq!(labels(&shown), ["100 %", "50 %", "10 %", "1 %", "0.1 %", "0.01 %", "0.001 %"]);
        assert_eq!(shown.last().unwrap().hint, "p99.999");
        assert_eq!(scale.steps(10).len(), 51);
    }
}
