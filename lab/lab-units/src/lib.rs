//! Durations, rates and parts as people write them: `200us`, `1.5s`, `20k`, `0.1%`. What the lab prints
//! (`1.52 ms`, `43.2k/s`, `20,000`, `97.3 %`) is read, too.
//!
//! What is deliberately absent: bare numbers for durations, whose unit would be a guess. Where a tool
//! that people come from has seconds, as dnsperf's `-l` and `-t` do, [`seconds`] reads both.

#![forbid(unsafe_code)]

/// A text that is no duration or part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// No duration.
    #[error(
        "`{0}` is not a duration, expected a number and ns, us, ms, s, min or h, such as 200us"
    )]
    Duration(String),
    /// No duration, where a bare number is seconds.
    #[error(
        "`{0}` is not a duration, expected seconds, or a number and ns, us, ms, s, min or h, such as 10 or 500ms"
    )]
    Seconds(String),
    /// No rate.
    #[error("`{0}` is not a rate, expected a number per second, such as 500, 20k, 1.5M or 20000/s")]
    Rate(String),
    /// No part.
    #[error(
        "`{0}` is not a proportion, expected percent or a number from 0 to 1, such as 0.1% or 0.001"
    )]
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

/// The nanoseconds of `text`, a bare number being seconds.
pub fn seconds(text: &str) -> Result<u64, UnitError> {
    let bare = text.trim().parse::<f64>().is_ok();
    let found = if bare { nanos(&format!("{}s", text.trim())) } else { nanos(text) };
    found.map_err(|_| UnitError::Seconds(text.to_owned()))
}

/// As [`seconds`], in seconds.
pub fn whole_seconds(text: &str) -> Result<f64, UnitError> {
    seconds(text).map(|nanos| nanos as f64 / 1e9)
}

/// Multiples of a rate.
const MULTIPLES: [(&str, f64); 4] = [("k", 1e3), ("K", 1e3), ("M", 1e6), ("G", 1e9)];

/// `text` as a number a second, 0 or above.
pub fn rate(text: &str) -> Result<f64, UnitError> {
    let error = || UnitError::Rate(text.to_owned());
    let trimmed = text.trim();
    let trimmed = trimmed.strip_suffix("/s").map_or(trimmed, str::trim_end);
    let multiple = MULTIPLES.iter().find_map(|(name, by)| Some((trimmed.strip_suffix(name)?, by)));
    let (digits, scale) = multiple.unwrap_or((trimmed, &1.0));
    let digits = ungrouped(digits.trim_end()).ok_or_else(error)?;
    let value = digits.parse::<f64>().map_err(|_| error())? * scale;
    if value.is_finite() && value >= 0.0 { Ok(value) } else { Err(error()) }
}

/// `1,234,567` without its commas; `None` if they do not stand between thousands.
fn ungrouped(digits: &str) -> Option<String> {
    let mut groups = digits.split(',');
    let first = groups.next()?;
    let is_grouped = digits.contains(',');
    let all_digits = |group: &str| group.bytes().all(|octet| octet.is_ascii_digit());
    let sound = groups.clone().all(|group| group.len() == 3 && all_digits(group))
        && (!is_grouped || (1..=3).contains(&first.len()) && all_digits(first));
    sound.then(|| digits.replace(',', ""))
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
    fn a_bare_number_is_seconds_where_that_is_the_custom_and_units_are_read_there_too() {
        for (text, wanted) in [("10", 10_000_000_000), ("0.5", 500_000_000), ("500ms", 500_000_000)]
        {
            assert_eq!(seconds(text), Ok(wanted), "{text}");
        }
        for text in ["", "-1", "10x", "inf", "1 fortnight"] {
            assert_eq!(seconds(text), Err(UnitError::Seconds(text.to_owned())), "{text}");
        }
        assert!(seconds("soon").unwrap_err().to_string().contains("expected seconds, or a number"));
    }

    #[test]
    fn rates_have_multiples_and_thousands() {
        let good = [
            ("500", 500.0),
            ("20k", 20_000.0),
            ("43.2k/s", 43_200.0),
            ("1.25M", 1_250_000.0),
            ("20,000", 20_000.0),
            ("1,234,567/s", 1_234_567.0),
            ("0", 0.0),
            ("1e3", 1_000.0),
        ];
        for (text, wanted) in good {
            assert_eq!(rate(text), Ok(wanted), "{text}");
        }
        for text in ["", "k", "-1", "1,5", "1,23", "12345,678", "inf", "NaN", "5q", "/s", "1,000.5"]
        {
            assert_eq!(rate(text), Err(UnitError::Rate(text.to_owned())), "{text}");
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
