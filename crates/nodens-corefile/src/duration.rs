//! Durations as Go writes them: `30s`, `1m30s`, `500ms`, `1.5h`.

use std::time::Duration;

const NANOSECONDS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000), // U+00B5, micro sign
    ("μs", 1_000), // U+03BC, Greek small letter mu
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// A sequence of decimal numbers with units; `0` needs no unit. `None` if the text is not that,
/// is below zero, or is longer than Go's 2^63 - 1 nanoseconds.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (part, after) = part(rest)?;
        total = total.checked_add(part)?;
        rest = after;
    }
    let allowed = if negative { total == 0 } else { i64::try_from(total).is_ok() };
    allowed.then(|| Duration::from_nanos(total))
}

/// One number with its unit, in nanoseconds, and what follows.
fn part(text: &str) -> Option<(u64, &str)> {
    let (whole, rest) = split_where(text, |c| !c.is_ascii_digit());
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => split_where(rest, |c| !c.is_ascii_digit()),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let (unit, rest) = split_where(rest, |c| c == '.' || c.is_ascii_digit());
    let (_, unit) = NANOSECONDS.iter().find(|(name, _)| *name == unit)?;
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // Digits beyond the eighteenth are below a nanosecond for every unit.
    let fraction = &fraction[..fraction.len().min(18)];
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let fraction: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let below_unit = u64::try_from(fraction * u128::from(*unit) / scale).ok()?;
    Some((whole.checked_mul(*unit)?.checked_add(below_unit)?, rest))
}

fn split_where(text: &str, end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(end).unwrap_or(text.len()))
}

/// As Go prints it: `1h30m0s`, `1m30s`, `1.5s`, `500ms`, `0s`.
pub fn format_go_duration(duration: Duration) -> String {
    let nanos = duration.subsec_nanos();
    let seconds = duration.as_secs();
    if seconds == 0 {
        return match nanos {
            0 => "0s".to_owned(),
            1..1_000 => format!("{nanos}ns"),
            1_000..1_000_000 => {
                format!("{}µs", decimal(u64::from(nanos / 1_000), nanos % 1_000, 3))
            }
            _ => format!("{}ms", decimal(u64::from(nanos / 1_000_000), nanos % 1_000_000, 6)),
        };
    }
    let last = decimal(seconds % 60, nanos, 9);
    match (seconds / 3_600, seconds / 60 % 60) {
        (0, 0) => format!("{last}s"),
        (0, minutes) => format!("{minutes}m{last}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{last}s"),
    }
}

fn decimal(whole: u64, fraction: u32, digits: usize) -> String {
    if fraction == 0 {
        return whole.to_string();
    }
    let text = format!("{whole}.{fraction:0digits$}");
    text.trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_go_reads() {
        let table = [
            ("0", Some(0)),
            ("+0", Some(0)),
            ("-0", Some(0)),
            ("-0s", Some(0)),
            ("30s", Some(30_000_000_000)),
            ("+5s", Some(5_000_000_000)),
            ("1m30s", Some(90_000_000_000)),
            ("1s1m", Some(61_000_000_000)),
            ("500ms", Some(500_000_000)),
            ("1.5h", Some(5_400_000_000_000)),
            (".5s", Some(500_000_000)),
            ("5.s", Some(5_000_000_000)),
            ("10ns", Some(10)),
            ("11us", Some(11_000)),
            ("12µs", Some(12_000)),
            ("12μs", Some(12_000)),
            ("0.9ns", Some(0)),
            ("39h9m14.425s", Some(140_954_425_000_000)),
            ("0.3333333333333333333h", Some(1_200_000_000_000 - 1)),
            ("9223372036854775807ns", Some(i64::MAX as u64)),
            ("9223372036854775808ns", None),
            ("9223372036855775808us", None),
            ("-1s", None),
            ("", None),
            ("-", None),
            ("5", None),
            ("s", None),
            (".s", None),
            ("5 s", None),
            ("1d", None),
            ("1S", None),
            ("1.2.3s", None),
            ("abc", None),
            ("1s-2s", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse(text), expected.map(Duration::from_nanos), "{text}");
        }
    }

    #[test]
    fn prints_as_go_prints() {
        let table = [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (2_200_000, "2.2ms"),
            (500_000_000, "500ms"),
            (3_300_000_000, "3.3s"),
            (90_000_000_000, "1m30s"),
            (245_000_000_000, "4m5s"),
            (245_001_000_000, "4m5.001s"),
            (3_600_000_000_000, "1h0m0s"),
            (18_367_001_000_000, "5h6m7.001s"),
        ];
        for (nanos, expected) in table {
            assert_eq!(format_go_duration(Duration::from_nanos(nanos)), expected);
        }
    }
}
