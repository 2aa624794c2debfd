//! HdrHistogram's table of percentiles, in milliseconds: one run.

use super::{Fault, Found, number, whole};
use crate::limits::COUNT_MAX;
use crate::trial::{Figure, Measured, Trial, lose};
use lab_histogram::Histogram;

const MILLI: f64 = 1e6;

pub(super) fn read(text: &str) -> Result<Found, Fault> {
    let mut response = Histogram::new();
    let (mut seen, mut total, mut mean, mut max) = (0, None, None, None);
    for (line, at) in text.lines().zip(1..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with("Value") {
            continue;
        }
        if let Some(rest) = line.strip_prefix("#[") {
            for pair in rest.trim_end_matches(']').split(',') {
                let Some((name, value)) = pair.split_once('=') else { continue };
                match name.trim() {
                    "Mean" => mean = Some(number(value, at, "Mean")?),
                    "Max" => max = Some(number(value, at, "Max")?),
                    "Total count" => total = Some(whole(value, at, "Total count")?),
                    _ => {}
                }
            }
            continue;
        }
        let mut words = line.split_whitespace();
        let mut next = |name: &'static str| {
            words
                .next()
                .ok_or_else(|| Fault::new(at, format!("no `{name}`, expected four columns")))
        };
        let value = number(next("Value")?, at, "Value")?;
        next("Percentile")?;
        let count = whole(next("TotalCount")?, at, "TotalCount")?;
        let more = count.checked_sub(seen).ok_or_else(|| {
            Fault::new(at, format!("TotalCount is {count} after {seen}, expected rising numbers"))
        })?;
        if value < 0.0 {
            return Err(Fault::new(at, format!("the value {value} is below 0")));
        }
        response.record_n((value * MILLI) as u64, more);
        seen = count;
    }
    let mut found = Found::default();
    if seen == 0 {
        return Ok(found);
    }
    let lost = total.unwrap_or(seen).saturating_sub(seen).min(COUNT_MAX);
    let mut figures = Vec::new();
    figures.extend(mean.map(|mean| Figure::time("mean", mean * MILLI)));
    figures.extend(max.map(|max| Figure::time("max", max * MILLI)));
    figures.extend(Figure::part("loss", lost, seen + lost));
    let slowest = response.max().unwrap_or(0);
    lose(&mut response, lost, slowest);
    let whole = Measured { figures, response: Some(response), step_ns: 0 };
    found.trials.push(Trial { line: 1, whole, ..Trial::default() });
    found.assume("values are milliseconds");
    found.assume(
        "what the total count has beyond the table was lost, and slower than its last value",
    );
    Ok(found)
}
