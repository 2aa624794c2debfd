//! The objects that flamethrower writes with `-o`, one a line: a header, one a second, and the last one
//! after the queries that were in flight. A file to which several runs were appended has a header for each.

use super::{Fault, Found, count, json};
use crate::trial::{Figure, Measured, Trial, Unit};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::Deserialize;

const MILLI: f64 = 1e6;

/// Any of its objects.
#[derive(Deserialize)]
struct Line {
    cmdline: Option<String>,
    start_timestamp: Option<String>,
    trafgen_id: Option<serde_json::Value>,
    total_s_count: Option<u64>,
    total_r_count: Option<u64>,
    total_timeouts: Option<u64>,
    total_net_errors: Option<u64>,
    total_bad_count: Option<u64>,
    total_qps_r_avg: Option<f64>,
    total_response_min_ms: Option<f64>,
    total_response_max_ms: Option<f64>,
    period_response_avg_ms: Option<f64>,
    period_response_max_ms: Option<f64>,
    period_timeouts: Option<u64>,
}

#[derive(Default)]
struct Run {
    line: usize,
    started: Option<u64>,
    command: Option<String>,
    last: Option<(usize, Line)>,
    /// Sum of answers times mean latency, and of answers, of the seconds.
    weighed: (f64, f64),
    parts: Vec<Measured>,
}

pub(super) fn read(text: &str) -> Result<Found, Fault> {
    let (mut found, mut run) = (Found::default(), Run::default());
    for (text, at) in text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()) {
        let line: Line = json(text, at)?;
        if line.start_timestamp.is_some() || line.cmdline.is_some() {
            run.finish(&mut found)?;
            let started = line.start_timestamp.as_deref().and_then(started);
            run = Run { line: at, started, command: line.cmdline, ..Run::default() };
        } else if line.trafgen_id.is_none() {
            run.second(line, at)?;
        }
    }
    run.finish(&mut found)?;
    found.assume(
        "loss is total_timeouts, and network errors beside them, of total_s_count; a timeout counts in the \
         second in which it was noticed",
    );
    found.assume(
        "qps is total_qps_r_avg, the mean of the seconds with an answer; it counts what could not be parsed, too",
    );
    found.assume(
        "mean is that of the seconds' period_response_avg_ms by their answers: total_response_avg_ms gives \
         each second the same weight, and each is itself a mean of means of the generators",
    );
    found
        .assume("over UDP queries leave by a timer whatever is answered: an open loop, in batches");
    Ok(found)
}

impl Run {
    fn second(&mut self, line: Line, at: usize) -> Result<(), Fault> {
        if self.line == 0 {
            self.line = at;
        }
        for (name, number) in [
            ("total_s_count", line.total_s_count),
            ("total_r_count", line.total_r_count),
            ("total_timeouts", line.total_timeouts),
            ("total_net_errors", line.total_net_errors),
        ] {
            count(number.unwrap_or(0), at, name)?;
        }
        let Some(answers) = line.total_r_count else {
            return Err(Fault::new(
                at,
                "no `total_r_count`, expected an object of flamethrower's metrics",
            ));
        };
        let before = self.last.as_ref().and_then(|(_, last)| last.total_r_count).unwrap_or(0);
        let of_second = answers.saturating_sub(before) as f64;
        // The last object has what came after the end, without a mean of its own.
        if let Some(mean) =
            line.period_response_avg_ms.filter(|mean| *mean > 0.0 && of_second > 0.0)
        {
            self.weighed.0 += mean * of_second;
            self.weighed.1 += of_second;
            let sent_before =
                self.last.as_ref().and_then(|(_, last)| last.total_s_count).unwrap_or(0);
            let sent = line.total_s_count.unwrap_or(0).saturating_sub(sent_before);
            let mut figures =
                vec![Figure::rate("qps", of_second), Figure::time("mean", mean * MILLI)];
            figures.extend(line.period_response_max_ms.map(|max| Figure::time("max", max * MILLI)));
            figures.extend(Figure::part("loss", line.period_timeouts.unwrap_or(0), sent));
            self.parts.push(Measured { figures, ..Measured::default() });
        }
        self.last = Some((at, line));
        Ok(())
    }

    fn finish(&mut self, found: &mut Found) -> Result<(), Fault> {
        let Some((at, last)) = self.last.take() else {
            if self.command.is_some() {
                return Err(Fault::new(
                    self.line,
                    "a header without an object behind it: the run did not end",
                ));
            }
            return Ok(());
        };
        let sent = last.total_s_count.filter(|sent| *sent > 0);
        let sent = sent
            .ok_or_else(|| Fault::new(at, "`total_s_count` is 0 or missing, expected queries"))?;
        let lost =
            last.total_timeouts.unwrap_or(0).saturating_add(last.total_net_errors.unwrap_or(0));
        let mut figures = Vec::new();
        figures.extend(last.total_qps_r_avg.map(|rate| Figure::rate("qps", rate)));
        if self.weighed.1 > 0.0 {
            figures.push(Figure::time("mean", self.weighed.0 / self.weighed.1 * MILLI));
        }
        figures.extend(last.total_response_min_ms.map(|min| Figure::time("min", min * MILLI)));
        figures.extend(last.total_response_max_ms.map(|max| Figure::time("max", max * MILLI)));
        figures.extend(Figure::part("loss", lost, sent));
        figures.extend(
            last.total_bad_count
                .filter(|count| *count > 0)
                .map(|count| Figure::new("malformed", Unit::Other(String::new()), count as f64)),
        );
        let mut trial = Trial {
            line: self.line,
            started_unix_ns: self.started,
            whole: Measured { figures, ..Measured::default() },
            parts: std::mem::take(&mut self.parts),
            ..Trial::default()
        };
        trial.labels.extend(self.command.take().map(|command| ("command".to_owned(), command)));
        found.trials.push(trial);
        Ok(())
    }
}

/// Nanoseconds since 1970 of `2026-11-21T02:03:04Z`.
fn started(text: &str) -> Option<u64> {
    let time = DateTime::strptime("%Y-%m-%dT%H:%M:%SZ", text).ok()?;
    u64::try_from(time.to_zoned(TimeZone::UTC).ok()?.timestamp().as_nanosecond()).ok()
}
