//! DNS Shotgun's JSON: latencies as counts of milliseconds, of which the last one has what was not answered.

use super::{Fault, Found, count, json};
use crate::limits::COUNT_MAX;
use crate::trial::{Figure, Measured, Trial, lose};
use lab_histogram::Histogram;
use serde::Deserialize;

const MILLI: u64 = 1_000_000;

#[derive(Deserialize)]
struct Root {
    timeout_ms: u64,
    #[serde(default)]
    discarded: u64,
    stats_sum: Stats,
    #[serde(default)]
    stats_periodic: Vec<Stats>,
    #[serde(default)]
    x_nodens: Nodens,
}

/// What `nodens-lab export --shotgun-unit` adds.
#[derive(Default, Deserialize)]
struct Nodens {
    latency_unit_ns: Option<u64>,
}

#[derive(Deserialize)]
struct Stats {
    since_ms: u64,
    until_ms: u64,
    requests: u64,
    answers: u64,
    #[serde(default)]
    ongoing: u64,
    #[serde(default)]
    conn_handshakes: u64,
    #[serde(default)]
    conn_handshakes_failed: u64,
    latency: Vec<u64>,
}

pub(super) fn read(text: &str) -> Result<Found, Fault> {
    let root: Root = json(text, 1)?;
    let unit = root.x_nodens.latency_unit_ns.unwrap_or(MILLI).max(1);
    let timeout = root.timeout_ms.saturating_mul(MILLI);
    let measured = |stats: &Stats| stats.measured(unit, timeout);
    let sum = &root.stats_sum;
    let mut trial = Trial {
        line: 1,
        started_unix_ns: Some(sum.since_ms.saturating_mul(MILLI)).filter(|nanos| *nanos > 0),
        whole: measured(sum)?,
        parts: root
            .stats_periodic
            .iter()
            .filter(|stats| stats.requests > 0)
            .map(measured)
            .collect::<Result<_, _>>()?,
        ..Trial::default()
    };
    if root.discarded > 0 {
        trial.warnings.push(format!(
            "{} queries were discarded: Shotgun could not send them",
            root.discarded
        ));
    }
    let mut found = Found { trials: vec![trial], ..Found::default() };
    found.assume(format!(
        "latency is counted in steps of {} µs: percentiles are the middles of steps, and those within the \
         first one are left out",
        unit / 1_000
    ));
    found.assume(
        "the last step has all queries without an answer, failed connections among them, and these are what \
         was lost: they rank as at least the timeout",
    );
    found.assume("an open loop: queries leave at the times of the capture, and belong to the interval they left in");
    Ok(found)
}

impl Stats {
    fn measured(&self, unit: u64, timeout: u64) -> Result<Measured, Fault> {
        for (name, number) in [("requests", self.requests), ("answers", self.answers)] {
            count(number, 1, name)?;
        }
        if self.latency.iter().fold(0_u64, |sum, n| sum.saturating_add(*n)) > COUNT_MAX {
            return Err(Fault::new(1, format!("`latency` counts more than {COUNT_MAX} queries")));
        }
        let mut response = Histogram::new();
        let (mut sum, mut lost) = (0.0, 0);
        let last = self.latency.len().saturating_sub(1);
        for (number, step) in self.latency.iter().zip(0_u64..) {
            if step as usize == last {
                lost = *number;
                continue;
            }
            let middle = step.saturating_mul(unit).saturating_add(unit / 2);
            response.record_n(middle, *number);
            sum += middle as f64 * *number as f64;
        }
        let mut figures = Vec::new();
        let seconds = self.until_ms.saturating_sub(self.since_ms) as f64 / 1e3;
        if seconds > 0.0 {
            figures.push(Figure::rate("qps", self.answers as f64 / seconds));
        }
        let answered = response.recorded();
        // Below a few steps, a mean of middles is made of the steps.
        if answered > 0 && sum / answered as f64 >= 2.0 * unit as f64 {
            figures.push(Figure::time("mean", sum / answered as f64));
        }
        figures.extend(Figure::part("loss", lost, self.requests.saturating_sub(self.ongoing)));
        let failed = self.conn_handshakes_failed.min(self.conn_handshakes);
        figures.extend(Figure::part("connections failed", failed, self.conn_handshakes));
        lose(&mut response, lost, timeout);
        Ok(Measured { figures, response: Some(response), step_ns: unit })
    }
}
