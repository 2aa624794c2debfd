//! An object a line: DNS-OARC's dns-metrics, which kxdpgun writes too, and the JSON of a fork of dnsperf,
//! whose fields have other names.

use super::{Fault, Format, Found, count, json};
use crate::limits::COUNT_MAX;
use crate::trial::{Figure, Measured, Trial, lose};
use lab_histogram::{BITS, Histogram};
use serde::Deserialize;
use serde_json::Value;

/// Bits of the buckets of dnsperf.
const DNSPERF_BITS: u32 = 5;

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    time_units_per_sec: Option<f64>,
    timeout: Option<f64>,
    generator: Option<String>,
    since: Option<f64>,
    until: Option<f64>,
    #[serde(alias = "requests")]
    queries: Option<u64>,
    answers: Option<u64>,
    /// Of dns-metrics the number of answers, of the fork the RCODEs.
    responses: Option<Value>,
    #[serde(default)]
    timeouts: u64,
    #[serde(default)]
    interrupted: u64,
    #[serde(alias = "answer_latency")]
    response_latency: Option<Latency>,
    #[serde(default)]
    x_nodens: Nodens,
}

/// What our own export adds.
#[derive(Default, Deserialize)]
struct Nodens {
    lost: Option<u64>,
    valid: Option<bool>,
}

#[derive(Default, Deserialize)]
struct Latency {
    avg: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    #[serde(default)]
    buckets: Vec<(f64, f64, u64)>,
}

/// What the header says about the lines behind it.
struct Head {
    line: usize,
    /// Nanoseconds of a unit of time.
    unit: f64,
    timeout: Option<u64>,
    bits: u32,
    is_invalid: bool,
}

pub(super) fn read(text: &str, format: Format) -> Result<Found, Fault> {
    let (mut found, mut head, mut last) = (Found::default(), None, 1);
    let mut parts = Vec::new();
    // A sum lasts until the last query was given up; queries were sent during these units of time.
    let mut sending = None;
    for (text, at) in text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()) {
        last = at;
        let line: Line = json(text, at)?;
        match (line.kind.as_str(), &head) {
            ("header", None) => head = Some(header(&line, at, format, &mut found)?),
            ("header", Some(open)) => return Err(unfinished(open, at)),
            ("stats_periodic", Some(open)) => {
                if line.queries.is_some_and(|queries| queries > 0) {
                    let (first, _) = sending.or(line.span()).unwrap_or_default();
                    sending = line.span().map(|(_, until)| (first, until));
                }
                parts.push(line.measured(open, line.span(), at)?);
            }
            ("stats_sum", Some(open)) => {
                let mut trial = Trial {
                    line: open.line,
                    started_unix_ns: line.since.map(|since| (since * open.unit) as u64),
                    whole: line.measured(open, sending.take().or(line.span()), at)?,
                    parts: std::mem::take(&mut parts),
                    ..Trial::default()
                };
                if open.is_invalid {
                    trial.warnings.push("INVALID by its own verdict".to_owned());
                }
                found.trials.push(trial);
                head = None;
            }
            ("stats_periodic" | "stats_sum", None) => {
                return Err(Fault::new(at, "statistics before an object of the type `header`"));
            }
            _ => {}
        }
    }
    if let Some(open) = &head {
        return Err(unfinished(open, last));
    }
    found.assume("loss is what the file calls timeouts, of all queries that were not interrupted");
    found.assume("a lost query ranks as at least the timeout of the header, and values lie in the middle of their bucket");
    found.assume("the rate is that of the intervals with queries, where there are any: the sum lasts until the last was given up");
    found.assume("whether the loop was open is not in the file");
    Ok(found)
}

fn unfinished(open: &Head, at: usize) -> Fault {
    let begun = open.line;
    Fault::new(
        at,
        format!(
            "the run of line {begun} has no object of the type `stats_sum`, expected before here"
        ),
    )
}

fn header(line: &Line, at: usize, format: Format, found: &mut Found) -> Result<Head, Fault> {
    let units = match line.time_units_per_sec {
        Some(units) if units > 0.0 => units,
        Some(units) => return Err(Fault::new(at, format!("`time_units_per_sec` is {units}"))),
        None if format == Format::DnsperfJson => 1e6,
        None => {
            found.assume("without time_units_per_sec times are nanoseconds, as the schema says");
            1e9
        }
    };
    let unit = 1e9 / units;
    let is_dnsperf = line.generator.as_deref().is_some_and(|name| name.starts_with("dnsperf"));
    Ok(Head {
        line: at,
        unit,
        timeout: line.timeout.map(|timeout| (timeout * unit) as u64),
        bits: if is_dnsperf || format == Format::DnsperfJson { DNSPERF_BITS } else { BITS },
        is_invalid: line.x_nodens.valid == Some(false),
    })
}

impl Line {
    /// From when to when it counts, in the units of the file.
    fn span(&self) -> Option<(f64, f64)> {
        self.since.zip(self.until)
    }

    fn measured(
        &self,
        head: &Head,
        span: Option<(f64, f64)>,
        at: usize,
    ) -> Result<Measured, Fault> {
        let need = |name: &str| Fault::new(at, format!("no `{name}`"));
        let sent = count(self.queries.ok_or_else(|| need("queries"))?, at, "queries")?;
        let answers = self.answers.or_else(|| self.responses.as_ref().and_then(Value::as_u64));
        let answers = count(answers.ok_or_else(|| need("responses"))?, at, "responses")?;
        let lost = count(self.x_nodens.lost.unwrap_or(self.timeouts), at, "timeouts")?;
        let mut figures = Vec::new();
        if let Some((since, until)) = span {
            let seconds = (until - since) * head.unit / 1e9;
            if seconds > 0.0 {
                figures.push(Figure::rate("qps", answers as f64 / seconds));
            }
        }
        let Some(latency) = &self.response_latency else {
            figures.extend(Figure::part("loss", lost, sent.saturating_sub(self.interrupted)));
            return Ok(Measured { figures, ..Measured::default() });
        };
        for (name, value) in [("mean", latency.avg), ("min", latency.min), ("max", latency.max)] {
            figures.extend(value.map(|value| Figure::time(name, value * head.unit)));
        }
        figures.extend(Figure::part("loss", lost, sent.saturating_sub(self.interrupted)));
        let counts = latency.buckets.iter().fold(0_u64, |sum, (_, _, n)| sum.saturating_add(*n));
        if counts > COUNT_MAX {
            return Err(Fault::new(at, format!("the buckets count more than {COUNT_MAX} answers")));
        }
        let mut response = Histogram::new();
        for (low, high, number) in &latency.buckets {
            // Both bounds are inclusive: a bucket ends one unit behind its highest value.
            let middle = (low + high + 1.0) / 2.0 * head.unit;
            response.record_n(middle as u64, *number);
        }
        if response.recorded() == 0 {
            return Ok(Measured { figures, ..Measured::default() });
        }
        let mut response = response.coarsened(head.bits);
        let slowest = response.max().unwrap_or(0);
        lose(&mut response, lost, head.timeout.unwrap_or(slowest));
        Ok(Measured { figures, response: Some(response), step_ns: 0 })
    }
}
