//! When each item is sent: nanoseconds from the start of the run, known before it starts.
//!
//! Three steps, each a function of what is before it and of the seed alone: an arrival process with
//! a mean of one item per unit of *operational time*; a [`Profile`] that says how much of that time
//! passes in a second, and so how the rate changes; for on-off arrivals, a gate that squeezes each
//! period into its first part.

mod profile;

pub use profile::{Profile, Step};

use crate::{SECOND, rng};
use std::fmt;
use std::str::FromStr;

/// The purpose of the random numbers of a schedule.
const PURPOSE: u64 = 3;
/// Shapes of Gamma distributed gaps that make sense: below, nearly all items come at once.
const SHAPES: std::ops::RangeInclusive<f64> = 0.01..=1_000.0;

/// How arrivals are spread at a given mean rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// Evenly.
    Uniform,
    /// As independent clients do: exponential gaps.
    Poisson,
    /// Gamma distributed gaps: below 1 in bursts, at 1 Poisson, above 1 more evenly.
    Bursty {
        /// The shape; the gaps' standard deviation is their mean over its square root.
        shape: f64,
    },
    /// Poisson for a while, then nothing for a while, with the given rate as the mean of both.
    OnOff {
        /// Nanoseconds with items.
        on: u64,
        /// Nanoseconds without.
        off: u64,
    },
    /// As recorded: each item has its time in the workload.
    Recorded {
        /// How much higher than the mean the rate is in the busiest second, at least 1.
        peak: f64,
    },
}

impl Arrivals {
    /// How much higher than its mean the rate is at times.
    pub fn peak(self) -> f64 {
        match self {
            Self::OnOff { on, off } => (on + off) as f64 / (on as f64).max(1.0),
            Self::Recorded { peak } => peak,
            Self::Uniform | Self::Poisson | Self::Bursty { .. } => 1.0,
        }
    }

    /// Whether the parameters are such that the process has the given mean.
    pub(crate) fn is_sound(self) -> bool {
        match self {
            Self::Uniform | Self::Poisson => true,
            Self::Bursty { shape } => SHAPES.contains(&shape),
            Self::OnOff { on, .. } => on > 0,
            Self::Recorded { peak } => peak >= 1.0 && peak.is_finite(),
        }
    }
}

/// A text that is no arrival process or profile.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("`{text}`: expected {expected}")]
pub struct ScheduleError {
    /// What was written.
    pub text: String,
    /// What should have been.
    pub expected: &'static str,
}

impl FromStr for Arrivals {
    type Err = ScheduleError;

    /// Reads `uniform`, `poisson`, `bursty:SHAPE` or `on-off:ON/OFF`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ScheduleError {
            text: text.to_owned(),
            expected: "uniform, poisson, bursty:SHAPE (0.01 to 1000, below 1 for bursts) or \
                       on-off:ON/OFF (as 100ms/900ms)",
        };
        let (kind, parameters) = text.split_once(':').unwrap_or((text, ""));
        let arrivals = match (kind, parameters) {
            ("uniform", "") => Self::Uniform,
            ("poisson", "") => Self::Poisson,
            ("bursty", shape) => Self::Bursty { shape: shape.parse().map_err(|_| error())? },
            ("on-off", times) => {
                let (on, off) = times.split_once('/').ok_or_else(error)?;
                let nanos = |text| lab_units::nanos(text).map_err(|_| error());
                Self::OnOff { on: nanos(on)?, off: nanos(off)? }
            }
            _ => return Err(error()),
        };
        if arrivals.is_sound() { Ok(arrivals) } else { Err(error()) }
    }
}

impl fmt::Display for Arrivals {
    /// Writes what [`Arrivals::from_str`] reads, or `recorded`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Poisson => f.write_str("poisson"),
            Self::Bursty { shape } => write!(f, "bursty:{shape}"),
            Self::Recorded { .. } => f.write_str("recorded"),
            Self::OnOff { on, off } => {
                write!(f, "on-off:{}/{}", profile::duration(*on), profile::duration(*off))
            }
        }
    }
}

/// The intended times of items 0, 1, 2, …; it ends where the profile does.
#[derive(Clone, Debug)]
pub struct Schedule {
    arrivals: Arrivals,
    course: profile::Course,
    seed: u64,
    next: u64,
    /// Operational time so far, for processes with random gaps.
    elapsed: f64,
}

impl Schedule {
    /// A schedule with a mean of `rate` items a second; `rate` must be positive.
    pub fn new(arrivals: Arrivals, rate: f64, seed: u64) -> Self {
        Self::with_profile(arrivals, &Profile::Constant, rate, seed)
    }

    /// A schedule whose rate follows `profile`; `rate` is that of [`Profile::Constant`].
    pub fn with_profile(arrivals: Arrivals, profile: &Profile, rate: f64, seed: u64) -> Self {
        let course = profile::Course::new(profile, rate);
        Self { arrivals, course, seed: rng::at(seed, PURPOSE), next: 0, elapsed: 0.0 }
    }

    /// The operational time of item `n`: one unit per item on average.
    fn operational(&mut self, n: u64) -> f64 {
        let gap = match self.arrivals {
            // Computed from `n` and not summed up: no error grows with time.
            Arrivals::Uniform | Arrivals::Recorded { .. } => return n as f64,
            Arrivals::Poisson | Arrivals::OnOff { .. } => -(1.0 - rng::unit(self.seed, n)).ln(),
            Arrivals::Bursty { shape } => gamma(shape, &mut rng::Stream::new(self.seed, n)) / shape,
        };
        self.elapsed += gap;
        self.elapsed
    }
}

impl Iterator for Schedule {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let n = self.next;
        self.next += 1;
        let operational = self.operational(n);
        let nanos = self.course.time_of(operational)? * SECOND as f64;
        let Arrivals::OnOff { on, off } = self.arrivals else { return Some(nanos as u64) };
        let period = (on + off) as f64;
        let (round, within) = ((nanos / period).floor(), nanos % period);
        Some((round * period + within * (on as f64 / period)) as u64)
    }
}

/// A Gamma distributed number with a scale of 1: Marsaglia and Tsang (2000).
fn gamma(shape: f64, stream: &mut rng::Stream) -> f64 {
    if shape < 1.0 {
        let power = (1.0 - stream.unit()).powf(1.0 / shape);
        return gamma(shape + 1.0, stream) * power;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        // Box and Muller (1958).
        let radius = (-2.0 * (1.0 - stream.unit()).ln()).sqrt();
        let x = radius * (std::f64::consts::TAU * stream.unit()).cos();
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && (1.0 - stream.unit()).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

#[cfg(test)]
mod tests;
