//! A result in the formats of other tools. All are made from the file alone.

mod csv;
mod dns_metrics;
pub mod dnsperf;
mod dnsperf_json;
mod hgrm;
mod moments;
mod shotgun;

use crate::ResultFile;
use std::fmt;
use std::str::FromStr;

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The text that dnsperf prints.
    Dnsperf,
    /// The JSON of a fork of dnsperf.
    DnsperfJson,
    /// What DNS Shotgun's plot and merge tools read.
    Shotgun,
    /// DNS-OARC's dns-metrics: a JSON object per line.
    DnsMetrics,
    /// A line per second.
    Csv,
    /// The result file itself.
    Json,
    /// HdrHistogram's table of percentiles, which its plotters read.
    Hgrm,
}

impl Format {
    /// All of them, with the names by which they are asked for.
    pub const ALL: [(&str, Self); 7] = [
        ("dnsperf", Self::Dnsperf),
        ("dnsperf-json", Self::DnsperfJson),
        ("shotgun", Self::Shotgun),
        ("dns-metrics", Self::DnsMetrics),
        ("csv", Self::Csv),
        ("json", Self::Json),
        ("hgrm", Self::Hgrm),
    ];
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = Self::ALL.iter().find(|(_, format)| format == self);
        f.write_str(found.map_or("", |(name, _)| name))
    }
}

/// A name of no format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not an output format, expected dnsperf, dnsperf-json, shotgun, dns-metrics, csv, json or hgrm"
)]
pub struct UnknownFormat(String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, format)| *format).ok_or_else(|| UnknownFormat(text.to_owned()))
    }
}

/// What can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Nanoseconds of a step of Shotgun's latency array. Its tools take it for a millisecond.
    pub shotgun_unit: u64,
    /// Whether dnsperf's text has its latency buckets.
    pub latency_histogram: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { shotgun_unit: 1_000_000, latency_histogram: false }
    }
}

/// `result` as a text in `format`, with a line end behind the last line.
pub fn export(result: &ResultFile, format: Format, options: Options) -> String {
    match format {
        Format::Dnsperf => dnsperf::whole(result, options.latency_histogram),
        Format::DnsperfJson => dnsperf_json::text(result),
        Format::Shotgun => shotgun::text(result, options.shotgun_unit),
        Format::DnsMetrics => dns_metrics::text(result),
        Format::Csv => csv::text(result),
        Format::Json => crate::to_json(result),
        Format::Hgrm => hgrm::text(&result.response),
    }
}

/// JSON without spaces and line ends.
fn compact(value: &impl serde::Serialize) -> String {
    // Values in memory whose keys are strings can always be written.
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests;
