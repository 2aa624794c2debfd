//! Numbers as people read them.

use lab_histogram::Quantile;

/// A duration with three digits that count: `41.3 µs`, `1.52 ms`.
pub fn nanos(nanos: f64) -> String {
    let (value, unit) = match nanos {
        ..999.5 => return format!("{nanos:.0} ns"),
        ..999.5e3 => (nanos / 1e3, "µs"),
        ..999.5e6 => (nanos / 1e6, "ms"),
        _ => (nanos / 1e9, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// As [`nanos`]; a rank among timeouts reads `≥ 2.00 s`.
pub fn quantile(quantile: Quantile) -> String {
    match quantile {
        Quantile::Empty => "n/a".to_owned(),
        Quantile::Value(value) => nanos(value as f64),
        Quantile::AtLeast(value) => format!("≥ {}", nanos(value as f64)),
    }
}

/// A whole number with separators: `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things by their name for one: `1 pair`, `1,200 pairs`.
pub fn of(number: usize, name: &str) -> String {
    let number = number as u64;
    format!("{} {name}{}", count(number), if number == 1 { "" } else { "s" })
}

/// A number per second that need not be exact: `823`, `43.2k`, `1.25M`.
pub fn rate(rate: f64) -> String {
    match rate {
        ..0.0005 => "0".to_owned(),
        ..999.5 => three_digits(rate),
        ..999.5e3 => format!("{}k", three_digits(rate / 1e3)),
        _ => format!("{}M", three_digits(rate / 1e6)),
    }
}

/// A rate that was asked for, as it was asked for: `2,000`, `0.5`.
pub fn asked_rate(rate: f64) -> String {
    if (1.0..1e15).contains(&rate) && rate.fract() == 0.0 {
        return count(rate as u64);
    }
    trimmed(rate, 3)
}

/// A part as percent; a tiny part is not rounded to nothing, nor a nearly whole one to all.
pub fn percent(part: f64) -> String {
    let percent = part * 100.0;
    match percent {
        _ if percent.is_nan() => "n/a".to_owned(),
        0.0 => "0 %".to_owned(),
        100.0 => "100 %".to_owned(),
        ..0.001 => "< 0.001 %".to_owned(),
        ..1.0 => format!("{} %", trimmed(percent, 3)),
        ..99.0 => format!("{percent:.1} %"),
        _ => format!("{} %", trimmed((percent * 1e3).floor() / 1e3, 3)),
    }
}

/// `part` of `whole` as [`percent`]; of nothing it is `n/a`.
pub fn share(part: u64, whole: u64) -> String {
    if whole == 0 { "n/a".to_owned() } else { percent(part as f64 / whole as f64) }
}

/// A size in octets: `12.3 MiB`.
pub fn octets(octets: u64) -> String {
    let value = octets as f64;
    match value {
        ..1024.0 => format!("{octets} B"),
        ..1_048_576.0 => format!("{} KiB", three_digits(value / 1024.0)),
        ..1_073_741_824.0 => format!("{} MiB", three_digits(value / 1_048_576.0)),
        _ => format!("{} GiB", three_digits(value / 1_073_741_824.0)),
    }
}

/// A number with at most `digits` decimals and none that say nothing.
pub fn trimmed(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Seconds since 1970 as a date and time of UTC, after Howard Hinnant's `civil_from_days`.
pub fn utc(unix_seconds: u64) -> String {
    let (days, second) = (unix_seconds / 86_400, unix_seconds % 86_400);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

fn three_digits(value: f64) -> String {
    let digits = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_keep_three_digits_across_the_units() {
        let cases = [(0.0, "0 ns"), (999.4, "999 ns"), (999.6, "1.00 µs"), (41_260.0, "41.3 µs")];
        for (value, text) in cases {
            assert_eq!(nanos(value), text);
        }
        assert_eq!(nanos(999_499.0), "999 µs");
        assert_eq!(nanos(2e9), "2.00 s");
        assert_eq!(quantile(Quantile::AtLeast(2_000_000_000)), "≥ 2.00 s");
    }

    #[test]
    fn parts_are_neither_rounded_to_nothing_nor_to_all() {
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(1e-9), "< 0.001 %");
        assert_eq!(percent(0.001), "0.1 %");
        assert_eq!(percent(0.5), "50.0 %");
        assert_eq!(percent(0.999_999_9), "99.999 %");
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(share(0, 0), "n/a");
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_399), "2000-02-28 23:59:59 UTC");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_795_246_384), "2026-11-21 07:33:04 UTC");
    }

    #[test]
    fn rates_and_sizes_are_short() {
        assert_eq!(rate(823.0), "823");
        assert_eq!(rate(43_210.0), "43.2k");
        assert_eq!(rate(1_250_000.0), "1.25M");
        assert_eq!([2_000.0, 0.5].map(asked_rate), ["2,000", "0.5"]);
        assert_eq!(octets(12_900_000), "12.3 MiB");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!([0, 1, 1_200].map(|n| of(n, "pair")), ["0 pairs", "1 pair", "1,200 pairs"]);
    }
}
