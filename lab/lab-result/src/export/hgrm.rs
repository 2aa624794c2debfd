//! HdrHistogram's table of percentiles, values in milliseconds.

use super::moments::Moments;
use lab_histogram::Histogram;
use std::fmt::Write as _;

/// A line per bucket. Lost queries count in every percentile, so if there are any the table ends
/// below 1: it is not known how long they took.
pub(super) fn text(histogram: &Histogram) -> String {
    let mut out = "       Value     Percentile TotalCount 1/(1-Percentile)\n\n".to_owned();
    let total = histogram.recorded() + histogram.censored();
    let max = histogram.max().unwrap_or(0);
    let mut seen = 0;
    for (_, high, count) in histogram.buckets() {
        seen += count;
        let (value, part) = (high.min(max) as f64 / 1e6, seen as f64 / total as f64);
        let odds = if seen < total { format!("{:.2}", 1.0 / (1.0 - part)) } else { "inf".into() };
        _ = writeln!(out, "{value:12.3} {part:2.12} {seen:10} {odds:>14}");
    }
    let Moments { mean, deviation, .. } = Moments::of(histogram);
    let (mean, deviation, max) = (mean / 1e6, deviation / 1e6, max as f64 / 1e6);
    _ = writeln!(out, "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]");
    _ = writeln!(out, "#[Max     = {max:12.3}, Total count    = {total:12}]");
    _ = writeln!(out, "#[Buckets = {:12}, SubBuckets     = {:12}]", 56, 512);
    out
}
