//! Lines of `-S`.

use super::options::Options;
use super::{now_unix_ns, warn};
use crate::term;
use lab_load::Progress;
use lab_result::SECOND;
use lab_result::export::dnsperf as text;
use std::time::Duration;

/// Lines of `-S`, as the seconds go by.
pub(super) struct Intervals<'o> {
    options: &'o Options,
    /// Seconds of an interval; 0 prints nothing.
    length: u64,
    seconds: u64,
    sum: Progress,
    all: u64,
}

impl<'o> Intervals<'o> {
    pub(super) fn new(options: &'o Options) -> Self {
        let length = options.interval.map_or(0, |length| length.as_secs_f64().ceil() as u64);
        if options.interval.is_some_and(|asked| asked != Duration::from_secs(length)) {
            warn(options, &format!("-S: intervals are whole seconds, taking {length}"));
        }
        let length = if options.json { 0 } else { length };
        Self { options, length, seconds: 0, sum: Progress::default(), all: 0 }
    }

    pub(super) fn add(&mut self, progress: &Progress) {
        if self.length == 0 {
            return;
        }
        self.seconds += 1;
        self.all += 1;
        self.sum.counts.add(&progress.counts);
        self.sum.cohort.merge(&progress.cohort);
        if self.seconds < self.length {
            return;
        }
        let sum = std::mem::take(&mut self.sum);
        let nanos = self.seconds * SECOND;
        self.seconds = 0;
        let text = if self.options.interval_statistics {
            text::statistics(&self.statistics(&sum, nanos))
        } else {
            text::interval_line(now_unix_ns(), sum.counts.answered, nanos)
        };
        // A reader that is gone is noticed at the end.
        _ = term::all(&text);
    }

    /// Counts are of what happened in the interval; latencies and RCODEs of the queries that were
    /// sent in it, as far as they were answered by its end.
    fn statistics<'p>(&self, sum: &'p Progress, interval: u64) -> text::Statistics<'p> {
        let rcodes = sum.cohort.rcodes.iter();
        let rcodes = rcodes.map(|(code, count)| (nodens_wire::Rcode(code).to_string(), count));
        text::Statistics {
            sent: sum.counts.sent,
            completed: sum.counts.answered,
            lost: sum.counts.lost(),
            interrupted: sum.counts.interrupted,
            rcodes: rcodes.collect(),
            request_octets: sum.counts.question_octets,
            response_octets: sum.counts.answer_octets,
            run_time: self.all * SECOND,
            interval: Some(interval),
            latency: Some(&sum.cohort.response),
            connections: None,
            updates: self.options.updates,
            histogram: self.options.latency_histogram,
        }
    }
}
