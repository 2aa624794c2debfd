//! How long answers are held back: a mixture of distributions.

use crate::SpecError;
use std::fmt;
use std::str::FromStr;

/// What one component may be, for error messages.
const EXPECTED: &str = "a duration, exp:MEAN, lognormal:MEDIAN:SIGMA or uniform:LOW-HIGH, each \
                        with its part in front (1%:50ms) but for one that gets the rest";

/// How far the parts of a mixture may be from 1.
const SUM_ERROR: f64 = 1e-9;

/// One distribution of nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// Always the same.
    Constant(u64),
    /// Exponential with this mean.
    Exponential(u64),
    /// Log-normal with this median and this standard deviation of the natural logarithm.
    LogNormal(u64, f64),
    /// Uniform between the two.
    Uniform(u64, u64),
}

impl Shape {
    /// The value at two numbers that are uniform in the half-open interval from 0 to 1.
    fn at(self, one: f64, two: f64) -> u64 {
        match self {
            Self::Constant(nanos) => nanos,
            Self::Exponential(mean) => (-(1.0 - one).ln() * mean as f64) as u64,
            Self::LogNormal(median, sigma) => {
                // Box and Muller (1958).
                let normal = (-2.0 * (1.0 - one).ln()).sqrt() * (std::f64::consts::TAU * two).cos();
                (median as f64 * (sigma * normal).exp()) as u64
            }
            Self::Uniform(low, high) => low + ((high - low) as f64 * one) as u64,
        }
    }
}

/// A mixture of distributions, in the order in which it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    /// Each with its part of all answers; the parts add up to 1.
    components: Vec<(f64, Shape)>,
}

impl Latency {
    /// Always `nanos`.
    pub fn constant(nanos: u64) -> Self {
        Self { components: vec![(1.0, Shape::Constant(nanos))] }
    }

    /// The components, each with its part.
    pub fn components(&self) -> &[(f64, Shape)] {
        &self.components
    }

    /// The nanoseconds at three numbers that are uniform in the half-open interval from 0 to 1.
    pub fn at(&self, which: f64, one: f64, two: f64) -> u64 {
        let mut sum = 0.0;
        let found = self.components.iter().find(|(part, _)| {
            sum += part;
            which < sum
        });
        // Rounding may leave the sum a little below 1: the rest is the last one's.
        found.or(self.components.last()).map_or(0, |(_, shape)| shape.at(one, two))
    }
}

impl FromStr for Latency {
    type Err = SpecError;

    /// Reads `99%:200us,1%:50ms`; one component may leave its part out and gets the rest.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut components = Vec::new();
        let (mut sum, mut rest) = (0.0, None);
        for (at, word) in text.split(',').enumerate() {
            let (part, shape) = match word.split_once("%:") {
                Some((part, shape)) => (Some(lab_units::part(&format!("{part}%"))?), shape),
                None => (None, word),
            };
            if part.is_none() && rest.replace(at).is_some() {
                return Err(error(word, text));
            }
            sum += part.unwrap_or(0.0);
            components.push((part.unwrap_or(0.0), shape_of(shape.trim(), text)?));
        }
        let (fits, expected) = match rest {
            Some(_) => (sum <= 1.0 + SUM_ERROR, "at most 100 %"),
            None => ((sum - 1.0).abs() <= SUM_ERROR, "100 %, or one component without a part"),
        };
        if !fits {
            return Err(SpecError::Sum { text: text.to_owned(), percent: sum * 100.0, expected });
        }
        if let Some((part, _)) = rest.and_then(|at| components.get_mut(at)) {
            *part = (1.0 - sum).max(0.0);
        }
        Ok(Self { components })
    }
}

fn error(word: &str, text: &str) -> SpecError {
    SpecError::Word { word: word.to_owned(), text: text.to_owned(), expected: EXPECTED }
}

fn shape_of(word: &str, text: &str) -> Result<Shape, SpecError> {
    let parts: Vec<&str> = word.split(':').collect();
    let nanos = |text: &str| lab_units::nanos(text).map_err(SpecError::from);
    match parts[..] {
        [value] | ["constant", value] => Ok(Shape::Constant(nanos(value)?)),
        ["exp" | "exponential", mean] => Ok(Shape::Exponential(nanos(mean)?)),
        ["lognormal", median, sigma] => {
            let sigma: f64 = sigma.parse().map_err(|_| error(word, text))?;
            if !(0.0..=10.0).contains(&sigma) {
                return Err(error(word, text));
            }
            Ok(Shape::LogNormal(nanos(median)?, sigma))
        }
        ["uniform", range] => {
            let (low, high) = range.split_once('-').ok_or_else(|| error(word, text))?;
            let (low, high) = (nanos(low)?, nanos(high)?);
            if low > high { Err(error(word, text)) } else { Ok(Shape::Uniform(low, high)) }
        }
        _ => Err(error(word, text)),
    }
}

impl fmt::Display for Latency {
    /// Writes what [`Latency::from_str`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (part, shape)) in self.components.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            // More digits would show the error of the division and not what was written.
            write!(f, "{}%:", (part * 100.0 * 1e9).round() / 1e9)?;
            match shape {
                Shape::Constant(nanos) => write!(f, "{nanos}ns")?,
                Shape::Exponential(mean) => write!(f, "exp:{mean}ns")?,
                Shape::LogNormal(median, sigma) => write!(f, "lognormal:{median}ns:{sigma}")?,
                Shape::Uniform(low, high) => write!(f, "uniform:{low}ns-{high}ns")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_random::Stream;

    fn latency(text: &str) -> Latency {
        text.parse().unwrap()
    }

    /// 200,000 values, sorted.
    fn values(text: &str) -> Vec<u64> {
        let (latency, mut stream) = (latency(text), Stream::new(1, 2));
        let mut values: Vec<_> =
            (0..200_000).map(|_| latency.at(stream.unit(), stream.unit(), stream.unit())).collect();
        values.sort_unstable();
        values
    }

    fn near(got: u64, wanted: f64, error: f64) {
        assert!((got as f64 / wanted - 1.0).abs() < error, "{got} is not near {wanted}");
    }

    #[test]
    fn a_mixture_has_its_parts() {
        let values = values("99%:200us,1%:50ms");
        let slow = values.iter().filter(|nanos| **nanos == 50_000_000).count();
        assert!((1_850..=2_150).contains(&slow), "{slow}");
        assert!(values.iter().all(|nanos| [200_000, 50_000_000].contains(nanos)));
    }

    #[test]
    fn quantiles_are_those_of_the_named_distributions() {
        let of = |values: &[u64], part: f64| values[(values.len() as f64 * part) as usize];
        let exp = values("exp:1ms");
        near(of(&exp, 0.5), 1e6 * 2.0_f64.ln(), 0.02);
        near(of(&exp, 0.99), 1e6 * 100.0_f64.ln(), 0.02);
        let lognormal = values("lognormal:1ms:0.5");
        near(of(&lognormal, 0.5), 1e6, 0.02);
        // The 97.72th percentile is two standard deviations above the median.
        near(of(&lognormal, 0.977_249_9), 1e6 * 1.0_f64.exp(), 0.03);
        let uniform = values("uniform:1ms-3ms");
        near(of(&uniform, 0.25), 1.5e6, 0.01);
        assert!(uniform[0] >= 1_000_000 && uniform[199_999] < 3_000_000);
    }

    #[test]
    fn one_component_gets_the_rest_and_what_is_written_is_read_again() {
        for text in ["200us", "1%:50ms,200us", "0.1%:exp:1s,lognormal:1ms:0.5,9%:uniform:1us-2us"] {
            let read = latency(text);
            let sum: f64 = read.components().iter().map(|(part, _)| part).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{text}");
            let written = latency(&read.to_string());
            for (one, two) in read.components().iter().zip(written.components()) {
                assert!((one.0 - two.0).abs() < 1e-9 && one.1 == two.1, "{text}");
            }
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let message = |text: &str| text.parse::<Latency>().unwrap_err().to_string();
        assert!(message("99%:200us,2%:50ms").contains("add up to 101.0000 %, expected 100 %"));
        assert!(message("200us,50ms").contains("`50ms` in `200us,50ms`: expected a duration"));
        assert!(message("gamma:3").contains("expected a duration, exp:MEAN"));
        assert!(message("5").contains("`5` is not a duration"));
        assert!(message("uniform:3ms-1ms").contains("expected"));
        assert!(message("lognormal:1ms:-1").contains("expected"));
        assert!(message("").contains("`` is not a duration"));
    }
}
