//! Durations and parts as people write them: `200us`, `1.5s`, `0.1%`.
//!
//! What is deliberately absent: bare numbers for durations. Their unit would be a guess.

#![forbid(unsafe_code)]

/// A text that is no duration or part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// No duration.
    #[error("`{0}` is no duration, expected a number and ns, us, ms, s, min or h, as in 200us")]
    Duration(String),
    /// No part.
    #[error("`{0}` is no part, expected percent or a number from 0 to 1, as in 0.1% or 0.001")]
    Part(String),
}

/// Units of durations and their nanoseconds; of two that end alike the longer comes first.
const UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("μs", 1e3),
    ("ms", 1e6),
    ("min", 60e9),
    ("s", 1e9),
    ("h", 3600e9),
];

/// Nanoseconds above which a duration is refused: 10,000 hours.
const NANOS_MAX: f64 = 3.6e16;

/// The nanoseconds of `text`, rounded.
pub fn nanos(text: &str) -> Result<u64, UnitError> {
    let error = || UnitError::Duration(text.to_owned());
    let trimmed = text.trim();
    let unit = UNITS.iter().find_map(|(unit, nanos)| Some((trimmed.strip_suffix(unit)?, nanos)));
    let (digits, scale) = unit.ok_or_else(error)?;
    let number: f64 = digits.trim_end().parse().map_err(|_| error())?;
    let value = number * scale;
    // Not a number fails here, too.
    if !(0.0..=NANOS_MAX).contains(&value) {
        return Err(error());
    }
    Ok(value.round() as u64)
}

/// `text` as a number from 0 to 1.
pub fn part(text: &str) -> Result<f64, UnitError> {
    let error = || UnitError::Part(text.to_owned());
    let trimmed = text.trim();
    let (digits, scale) = trimmed.strip_suffix('%').map_or((trimmed, 1.0), |head| (head, 100.0));
    let number: f64 = digits.trim_end().parse().map_err(|_| error())?;
    let value = number / scale;
    if (0.0..=1.0).contains(&value) { Ok(value) } else { Err(error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        let good = [
            ("200us", 200_000),
            ("1.5ms", 1_500_000),
            ("2 s", 2_000_000_000),
            ("7ns", 7),
            ("3µs", 3_000),
            ("1min", 60_000_000_000),
            ("0s", 0),
        ];
        for (text, wanted) in good {
            assert_eq!(nanos(text), Ok(wanted), "{text}");
        }
        for text in ["", "5", "ms", "-1s", "nans", "infs", "1e30s", "5 parsecs"] {
            assert_eq!(nanos(text), Err(UnitError::Duration(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn parts_are_percent_or_fractions() {
        let good = [("0.1%", 0.001), ("100%", 1.0), ("0.25", 0.25), ("0", 0.0), (" 2 % ", 0.02)];
        for (text, wanted) in good {
            assert_eq!(part(text), Ok(wanted), "{text}");
        }
        for text in ["", "%", "101%", "1.1", "-1%", "NaN", "inf%"] {
            assert_eq!(part(text), Err(UnitError::Part(text.to_owned())), "{text}");
        }
    }
}
