//! The words of dnsperf's lines that are no numbers of their own.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// The options that matter.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Options {
    pub(super) in_flight: Option<f64>,
    pub(super) rate: Option<String>,
    pub(super) timeout: Option<f64>,
    pub(super) server: Option<String>,
    pub(super) mode: Option<String>,
}

/// The number behind a word in brackets: `(min 0.000402, max 0.019581)`.
pub(super) fn within(text: &str, word: &str) -> Option<f64> {
    let (_, rest) = text.split_once(word)?;
    rest.split([',', ')']).next()?.trim().parse().ok()
}

/// The options that matter of a command line, as getopt takes them.
pub(super) fn options(words: &str) -> Options {
    let mut options =
        Options { in_flight: None, rate: None, timeout: None, server: None, mode: None };
    let mut words = words.split_whitespace().skip(1);
    while let Some(word) = words.next() {
        let Some(name) = word.strip_prefix('-').and_then(|rest| rest.chars().next()) else {
            continue;
        };
        if !"qQtsm".contains(name) {
            continue;
        }
        let attached = word.get(2..).filter(|rest| !rest.is_empty()).map(str::to_owned);
        let value = attached.or_else(|| words.next().map(str::to_owned));
        let number = || value.as_ref().and_then(|value| value.parse().ok());
        match name {
            'q' => options.in_flight = number(),
            't' => options.timeout = number(),
            'Q' => options.rate = value,
            's' => options.server = value,
            _ => options.mode = value,
        }
    }
    options
}

/// Nanoseconds since 1970 of `Sat Nov 21 02:03:04 2026`.
pub(super) fn started(text: &str) -> Option<u64> {
    let time = DateTime::strptime("%a %b %d %H:%M:%S %Y", text.trim()).ok()?;
    let time = time.to_zoned(TimeZone::UTC).ok()?.timestamp();
    u64::try_from(time.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_taken_as_getopt_takes_them() {
        let found = options(" dnsperf -s 10.0.0.1 -q200 -Q 5000 -t 2.5 -m tcp -l 30 -S 1");
        assert_eq!((found.in_flight, found.timeout), (Some(200.0), Some(2.5)));
        assert_eq!((found.rate.as_deref(), found.mode.as_deref()), (Some("5000"), Some("tcp")));
        assert_eq!(found.server.as_deref(), Some("10.0.0.1"));
    }

    #[test]
    fn a_start_is_read_as_ctime_writes_it() {
        assert_eq!(started(" Sat Nov 21 02:03:04 2026"), Some(1_795_226_584_000_000_000));
        assert_eq!(
            started(" Mon Nov  2 19:00:56 2026")
                .map(|nanos| nanos % 86_400_000_000_000 / 1_000_000_000),
            Some(68_456)
        );
        assert_eq!(started("soon"), None);
    }
}
