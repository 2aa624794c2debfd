//! How the rate changes over a run.

use super::ScheduleError;
use crate::SECOND;
use std::fmt;
use std::time::Duration;

/// A rate for a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Items a second; 0 for a pause.
    pub rate: f64,
    /// Nanoseconds.
    pub length: u64,
}

/// The rate as a function of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Profile {
    /// The same all the time.
    #[default]
    Constant,
    /// One rate after the other.
    Steps(Vec<Step>),
    /// From one rate to another in a straight line.
    Ramp {
        /// Items a second at the start.
        from: f64,
        /// Items a second at the end.
        to: f64,
        /// Nanoseconds from start to end.
        length: u64,
    },
}

impl Profile {
    /// Reads `1000:10s,5000:10s`.
    pub fn steps(text: &str) -> Result<Self, ScheduleError> {
        let expected = "RATE:TIME,RATE:TIME,… with some rate above 0, as 1000:10s,5k:10s";
        let error = || ScheduleError { text: text.to_owned(), expected };
        let step = |word: &str| {
            let (rate, length) = word.split_once(':')?;
            let (rate, length) = (lab_units::rate(rate).ok()?, lab_units::nanos(length).ok()?);
            Some(Step { rate, length })
        };
        let steps: Option<Vec<Step>> = text.split(',').map(step).collect();
        Some(Self::Steps(steps.ok_or_else(error)?)).filter(Self::is_sound).ok_or_else(error)
    }

    /// Reads `1000:50000`, to be gone through in `length` nanoseconds.
    pub fn ramp(text: &str, length: u64) -> Result<Self, ScheduleError> {
        let expected = "RATE:RATE with one above 0 and a duration above 0, as 1000:50k";
        let error = || ScheduleError { text: text.to_owned(), expected };
        let (from, to) = text.split_once(':').ok_or_else(error)?;
        let rate = |text: &str| lab_units::rate(text).map_err(|_| error());
        let ramp = Self::Ramp { from: rate(from)?, to: rate(to)?, length };
        Some(ramp).filter(Self::is_sound).ok_or_else(error)
    }

    /// Whether there is an item in it, and no rate is negative or infinite.
    pub(crate) fn is_sound(&self) -> bool {
        let rates = |rates: &[f64]| rates.iter().all(|rate| rate.is_finite() && *rate >= 0.0);
        match self {
            Self::Constant => true,
            Self::Steps(steps) => {
                steps.iter().all(|step| rates(&[step.rate]))
                    && steps.iter().any(|step| step.rate > 0.0 && step.length > 0)
            }
            Self::Ramp { from, to, length } => {
                rates(&[*from, *to]) && from + to > 0.0 && *length > 0
            }
        }
    }

    /// How long it lasts; `None` for ever.
    pub fn length(&self) -> Option<Duration> {
        let nanos = match self {
            Self::Constant => return None,
            Self::Steps(steps) => steps.iter().map(|step| step.length).fold(0, u64::saturating_add),
            Self::Ramp { length, .. } => *length,
        };
        Some(Duration::from_nanos(nanos))
    }

    /// The same rates within `length`, if it lasts longer: each for a smaller time, none left out.
    #[must_use]
    pub fn within(&self, length: Duration) -> Self {
        let Some(whole) = self.length().filter(|whole| *whole > length) else {
            return self.clone();
        };
        let part = length.as_secs_f64() / whole.as_secs_f64();
        let shorter = |nanos: u64| (nanos as f64 * part) as u64;
        match self {
            Self::Constant => Self::Constant,
            Self::Steps(steps) => {
                let steps = steps.iter();
                Self::Steps(steps.map(|s| Step { length: shorter(s.length), ..*s }).collect())
            }
            Self::Ramp { from, to, length } => {
                Self::Ramp { from: *from, to: *to, length: shorter(*length) }
            }
        }
    }

    /// Items a second on average, if the constant rate is `rate`.
    pub fn mean(&self, rate: f64) -> f64 {
        match self {
            Self::Constant => rate,
            Self::Steps(steps) => {
                let items: f64 = steps.iter().map(|step| step.rate * step.length as f64).sum();
                let length: f64 = steps.iter().map(|step| step.length as f64).sum();
                items / length.max(1.0)
            }
            Self::Ramp { from, to, .. } => (from + to) / 2.0,
        }
    }

    /// The highest rate, if the constant rate is `rate`.
    pub fn peak(&self, rate: f64) -> f64 {
        match self {
            Self::Constant => rate,
            Self::Steps(steps) => steps.iter().map(|step| step.rate).fold(0.0, f64::max),
            Self::Ramp { from, to, .. } => from.max(*to),
        }
    }
}

impl fmt::Display for Profile {
    /// Writes the words of the command line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant => f.write_str("constant"),
            Self::Steps(steps) => {
                let step = |step: &Step| format!("{}:{}", step.rate, duration(step.length));
                let steps: Vec<_> = steps.iter().map(step).collect();
                write!(f, "steps {}", steps.join(","))
            }
            Self::Ramp { from, to, length } => {
                write!(f, "ramp {from}:{to} in {}", duration(*length))
            }
        }
    }
}

/// `nanos` in the largest unit that leaves a whole number.
pub(super) fn duration(nanos: u64) -> String {
    let units = [("s", SECOND), ("ms", 1_000_000), ("us", 1_000)];
    let unit = units.iter().find(|(_, unit)| nanos.is_multiple_of(*unit));
    unit.map_or(format!("{nanos}ns"), |(name, unit)| format!("{}{name}", nanos / unit))
}

/// A stretch in which the rate changes in a straight line, in seconds and items.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    /// When it starts.
    at: f64,
    length: f64,
    /// The rate at its start.
    rate: f64,
    /// By how much the rate grows in a second.
    slope: f64,
    /// Items before it.
    before: f64,
    /// Items in it.
    items: f64,
}

/// A profile with its sums: turns operational time into seconds.
#[derive(Clone, Debug)]
pub(super) struct Course {
    stretches: Vec<Stretch>,
    /// The stretch of the last answer; times are asked for in order.
    current: usize,
}

impl Course {
    pub(super) fn new(profile: &Profile, rate: f64) -> Self {
        let seconds = |nanos: u64| nanos as f64 / SECOND as f64;
        // (length, rate at the start, rate at the end)
        let parts: Vec<(f64, f64, f64)> = match profile {
            Profile::Constant => vec![(f64::INFINITY, rate, rate)],
            Profile::Steps(steps) => {
                steps.iter().map(|step| (seconds(step.length), step.rate, step.rate)).collect()
            }
            Profile::Ramp { from, to, length } => vec![(seconds(*length), *from, *to)],
        };
        let (mut at, mut before) = (0.0, 0.0);
        let stretches = parts.into_iter().map(|(length, rate, end)| {
            // An infinite stretch is level; its slope is 0 and not infinity by infinity.
            let slope = if end == rate { 0.0 } else { (end - rate) / length };
            let items = (rate + end) / 2.0 * length;
            let stretch = Stretch { at, length, rate, slope, before, items };
            (at, before) = (at + length, before + items);
            stretch
        });
        Self { stretches: stretches.collect(), current: 0 }
    }

    /// The seconds at which `operational` items have come; `None` after the end.
    pub(super) fn time_of(&mut self, operational: f64) -> Option<f64> {
        loop {
            let stretch = self.stretches.get(self.current)?;
            let items = operational - stretch.before;
            // An item at the very end of a stretch is the first of the next.
            if items < stretch.items {
                return Some(stretch.at + stretch.offset(items));
            }
            self.current += 1;
        }
    }
}

impl Stretch {
    /// The seconds into the stretch at which `items` of its items have come.
    fn offset(&self, items: f64) -> f64 {
        if self.slope == 0.0 {
            return items / self.rate;
        }
        // The root of slope/2 · t² + rate · t = items, in the form that does not cancel.
        let root = (self.rate * self.rate + 2.0 * self.slope * items).max(0.0).sqrt();
        let offset = if self.rate + root > 0.0 { 2.0 * items / (self.rate + root) } else { 0.0 };
        offset.min(self.length)
    }
}
