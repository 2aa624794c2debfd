//! Queries out of packet captures, at a rate or at their own times.

use super::files::octets;
use super::{Questions, roles};
use crate::term;
use anyhow::{Context, Result, anyhow, bail};
use lab_load::run::client_rate_max;
use lab_load::schedule::Arrivals;
use lab_load::{Config, Pace, Workload};
use lab_workload::capture;
use std::borrow::Cow;
use std::time::Duration;

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;
/// The shortest recording that has a rate.
const SPAN_MIN: Duration = Duration::from_millis(1);
/// Speeds that make sense.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.001..=1_000_000.0;

impl Questions {
    /// The queries in the capture.
    pub(super) fn captured(&self, seed: u64) -> Result<Workload> {
        let path = self.capture.as_deref().context("no capture")?;
        if !SPEEDS.contains(&self.speed) {
            bail!("--speed {}, expected a factor from 0.001 to 1000000", self.speed);
        }
        let roles = roles(&self.dnstap_role);
        let read = capture::read_roles(&octets(path)?, self.capture_port, &roles);
        let capture = read.map_err(|error| anyhow!("{}: {error}", path.display()))?;
        self.faults(path, &capture.faults)?;
        self.faults(path, &capture.broken_frames)?;
        eprintln!(
            "{}: {} queries in {} packets, {} other packets, {} faults",
            path.display(),
            term::count(capture.questions.len() as u64),
            term::count(capture.packets),
            term::count(capture.others),
            term::count((capture.faults.len() + capture.broken_frames.len()) as u64),
        );
        if capture.copies > 0 {
            eprintln!(
                "{}: {} copies of queries were left out: the same datagrams within 1 ms, from several devices",
                path.display(),
                term::count(capture.copies),
            );
        }
        if capture.questions.is_empty() {
            bail!("{} has no query to port {}", path.display(), self.capture_port);
        }
        Ok(capture.workload(seed, self.original_timing.then_some(self.speed)))
    }

    /// Makes `config` follow the times of the capture if that is wanted; true if it does.
    pub(crate) fn follow_times(&self, workload: &Workload, config: &mut Config) -> bool {
        let times = workload.times();
        let Some(last) = times.last().filter(|_| self.original_timing) else { return false };
        let span = Duration::from_nanos(*last).max(SPAN_MIN);
        let rate = times.len() as f64 / span.as_secs_f64();
        let peak = (busiest_second(times) as f64 / rate).max(1.0);
        config.pace = Pace::Open { rate, arrivals: Arrivals::Recorded { peak } };
        config.duration = Duration::from_nanos(*last) + SPAN_MIN;
        true
    }

    /// Gives clients of the capture that ask more than one socket has IDs for several; how many
    /// clients the run has then. In a closed loop every client asks only what it has IDs for.
    pub(crate) fn split_clients(&self, workload: &mut Cow<'_, Workload>, config: &Config) -> usize {
        if self.capture.is_none() || matches!(config.pace, Pace::Closed { .. }) {
            return config.clients;
        }
        let (rate, most) = (config.peak_rate(), client_rate_max(config.timeout));
        if workload.busiest_client(usize::MAX, rate) <= most {
            return config.clients;
        }
        workload.to_mut().split_clients(config.clients, rate, most).max(config.clients)
    }
}

/// The most items within a second.
fn busiest_second(times: &[u64]) -> usize {
    let mut from = 0;
    let within = times.iter().enumerate().map(|(at, time)| {
        while times.get(from).is_some_and(|first| first + SECOND <= *time) {
            from += 1;
        }
        at + 1 - from
    });
    within.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_second_slides() {
        let times = [0, 900_000_000, 950_000_000, 1_850_000_000, 1_899_999_999, 9_000_000_000];
        assert_eq!(busiest_second(&times), 4);
        assert_eq!(busiest_second(&[]), 0);
    }
}
