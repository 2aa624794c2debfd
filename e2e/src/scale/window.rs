//! One stretch of steady load on one server: response times, CPU of each process, the changes that the server received,
//! and whether something else disturbed it.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use lab_histogram::Histogram;
use lab_load::Outcome;
use lab_sys::cpu::process_time;

use super::starts::process_named;
use crate::server::{Endpoint, Server};

/// The part of a CPU that others may take from the measured server or the load, as in `nodens-lab bench`.
const ROBBED: f64 = 0.05;
/// The part of the CPUs' time that the hypervisor may give to others.
const STOLEN: f64 = 0.01;
/// `USER_HZ`: the unit of `/proc/stat` is the same on every Linux that Rust supports.
const TICKS_PER_SECOND: f64 = 100.0;
/// Time from a change of endpoints until it is answered; both servers keep it.
const PROGRAMMING: &str = "coredns_kubernetes_dns_programming_duration_seconds";

/// Who is measured, and where.
pub(super) struct Measured<'a> {
    /// None for the echo.
    pub(super) server: Option<&'a mut Server>,
    /// The CPU that it has for itself.
    pub(super) cpu: Option<usize>,
}

/// What came out of a stretch.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) response: Histogram,
    pub(super) lost: u64,
    /// What else had the CPU of the server or of the load.
    pub(super) disturbed: Option<String>,
    /// CPUs used by the server, the API server and the store.
    pub(super) cpus: [f64; 3],
    /// Changes a second that the server answers from, and how long that took on average.
    pub(super) heard: Option<(f64, Duration)>,
    /// Changes a second that were written.
    pub(super) written: f64,
}

/// Counters at one moment.
pub(super) struct Reading {
    at: Instant,
    /// Of the server, the API server and the store.
    used: [Duration; 3],
    /// For which the server's CPU was busy.
    busy: Duration,
    /// Changes that the server answers from, and how long they took together.
    heard: Option<(f64, f64)>,
}

impl Measured<'_> {
    /// The counters now.
    pub(super) fn read(&mut self) -> Result<Reading> {
        let named = |name| process_named(name).with_context(|| format!("there is no {name}"));
        let (api_server, store) =
            (process_time(named("kube-apiserver")?)?, process_time(named("etcd")?)?);
        let mut reading = Reading {
            at: Instant::now(),
            used: [Duration::ZERO, api_server, store],
            busy: self.cpu.map(busy).unwrap_or_default(),
            heard: None,
        };
        if let Some(server) = &mut self.server {
            let (_, metrics) = server.get(Endpoint::Metrics)?;
            reading.heard = heard(&metrics);
            // The cost of reporting it is not counted.
            reading.at = Instant::now();
            reading.busy = self.cpu.map(busy).unwrap_or_default();
            reading.used[0] = process_time(server.process().id())?;
        }
        Ok(reading)
    }

    /// What happened between two readings.
    pub(super) fn window(
        &self,
        (before, after): (&Reading, &Reading),
        outcome: &Outcome,
        written: f64,
    ) -> Window {
        let seconds = (after.at - before.at).as_secs_f64();
        let part = |later: Duration, earlier: Duration| {
            later.saturating_sub(earlier).as_secs_f64() / seconds
        };
        let cpus = [0, 1, 2].map(|of| part(after.used[of], before.used[of]));
        // Of the echo, a thread of this process, it is not known.
        let others = self.server.as_ref().map(|_| part(after.busy, before.busy) - cpus[0]);
        let heard = after.heard.and_then(|after| {
            // CoreDNS shows what it counts when there is something.
            let before = before.heard.unwrap_or_default();
            let (count, took) = (after.0 - before.0, after.1 - before.1);
            (count > 0.0).then(|| (count / seconds, Duration::from_secs_f64(took.max(0.0) / count)))
        });
        Window {
            response: outcome.tally.response.clone(),
            lost: outcome.tally.counts.lost(),
            disturbed: disturbance(outcome, others.filter(|_| self.cpu.is_some())),
            cpus,
            heard,
            written,
        }
    }
}

/// What spoilt a stretch; `others` is the part of the server's CPU that was not the server's.
fn disturbance(outcome: &Outcome, others: Option<f64>) -> Option<String> {
    if let Some(invalid) = outcome.verdict.invalid.first() {
        return Some(invalid.clone());
    }
    let elapsed = outcome.elapsed.as_secs_f64();
    let waited = |thread: &lab_load::run::ThreadReport| thread.waited.as_secs_f64() / elapsed;
    let robbed = outcome.threads.iter().map(waited).fold(0.0, f64::max);
    let stolen = outcome.host.stolen.as_secs_f64() / elapsed;
    let percent = |part: f64| format!("{:.0} %", part * 100.0);
    match others {
        _ if stolen > STOLEN => Some(format!("the hypervisor took {} of a CPU", percent(stolen))),
        _ if robbed > ROBBED => Some(format!("the load waited {} for its CPU", percent(robbed))),
        Some(others) if others > ROBBED => {
            Some(format!("other processes used {} of the server's CPU", percent(others)))
        }
        _ => None,
    }
}

/// For how long a CPU has worked for processes.
fn busy(cpu: usize) -> Duration {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("cpu{cpu} ")));
    let numbers = line.unwrap_or_default().split_ascii_whitespace();
    // For users, nice ones, and in system calls.
    let ticks: f64 = numbers.take(3).filter_map(|number| number.parse::<f64>().ok()).sum();
    Duration::from_secs_f64(ticks / TICKS_PER_SECOND)
}

/// Changes that a server answers from, and how many seconds they took together.
fn heard(metrics: &str) -> Option<(f64, f64)> {
    let sum = |suffix: &str| {
        let prefix = format!("{PROGRAMMING}_{suffix}{{");
        let lines = metrics.lines().filter(|line| line.starts_with(&prefix));
        let numbers = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        numbers.reduce(|sum, number| sum + number)
    };
    Some((sum("count")?, sum("sum")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_all_kinds_of_services_are_added() {
        let name = PROGRAMMING;
        let metrics = format!(
            "# TYPE {name} histogram\n\
             {name}_bucket{{service_kind=\"cluster_ip\",le=\"0.001\"}} 7\n\
             {name}_sum{{service_kind=\"cluster_ip\"}} 1.5\n\
             {name}_count{{service_kind=\"cluster_ip\"}} 30\n\
             {name}_sum{{service_kind=\"headless_with_selector\"}} 0.5\n\
             {name}_count{{service_kind=\"headless_with_selector\"}} 10\n"
        );
        assert_eq!(heard(&metrics), Some((40.0, 2.0)));
        assert_eq!(heard("up 1\n"), None);
    }

    #[test]
    fn a_cpu_that_works_is_busy() {
        let all = lab_sys::cpu::allowed().unwrap();
        let sum = || all.iter().map(|cpu| busy(*cpu)).sum::<Duration>();
        let before = sum();
        let begin = Instant::now();
        while sum() == before {
            assert!(begin.elapsed() < Duration::from_secs(60));
        }
        assert_eq!(busy(usize::MAX), Duration::ZERO);
    }
}
