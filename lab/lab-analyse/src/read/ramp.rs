//! The file that resperf writes for plots (`-P`): a row for each interval of its ramp.

use super::{Fault, Found, number};
use crate::trial::{Figure, Measured, Trial, Unit};

/// The columns, in their order; older versions end with the latency.
const COLUMNS: [&str; 8] = [
    "time",
    "target_qps",
    "actual_qps",
    "responses_per_sec",
    "failures_per_sec",
    "avg_latency",
    "connections",
    "conn_avg_latency",
];

pub(super) fn read(text: &str) -> Result<Found, Fault> {
    let mut rows: Vec<[f64; 6]> = Vec::new();
    let mut first = 1;
    for (line, at) in text.lines().zip(1..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if rows.is_empty() {
            first = at;
        }
        let mut words = line.split_whitespace();
        let mut row = [0.0; 6];
        for (cell, name) in row.iter_mut().zip(COLUMNS) {
            let word = words.next().ok_or_else(|| {
                Fault::new(at, format!("no `{name}`, expected {} columns", COLUMNS.len()))
            })?;
            *cell = number(word, at, name)?;
        }
        rows.push(row);
    }
    let mut found = Found::default();
    let Some(best) = rows.iter().max_by(|a, b| a[3].total_cmp(&b[3])) else { return Ok(found) };
    let [_, _, sent, answered, failed, latency] = *best;
    let mut figures = vec![
        Figure::rate("throughput", answered),
        Figure::time("mean at throughput", latency * 1e9),
    ];
    if sent > 0.0 {
        let loss = (1.0 - answered / sent).clamp(0.0, 1.0);
        figures.push(Figure::new("loss at throughput", Unit::Part, loss));
        figures.push(Figure::new("failures at throughput", Unit::Part, failed / sent));
    }
    let whole = Measured { figures, ..Measured::default() };
    found.trials.push(Trial { line: first, whole, ..Trial::default() });
    found.assume(
        "throughput is the highest rate of answers in one interval of the ramp; the intervals are no \
         repetitions of each other and are not compared",
    );
    found.assume("answers, failures and latency stand in the interval in which the query was sent");
    Ok(found)
}
