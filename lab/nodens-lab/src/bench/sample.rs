//! One measurement, and what can be read from it.

use super::cells::Cell;
use crate::child::Account;
use lab_experiment::disturbance::{Fault, Kind, Signs};
use lab_histogram::Histogram;
use lab_load::{Outcome, SECOND};
use lab_result::ResultFile;

/// What the load brought.
#[derive(Clone, Debug, Default)]
pub(super) struct Load {
    pub(super) sent: u64,
    pub(super) answered: u64,
    pub(super) lost: u64,
    /// Answers a second.
    pub(super) rate: f64,
    /// Seconds from the start to the last outcome.
    pub(super) elapsed: f64,
    /// From the intended time of sending to the answer.
    pub(super) response: Histogram,
    /// From sending to the answer.
    pub(super) service: Histogram,
    pub(super) plan: String,
    /// Octets of the server's memory that each connection took, where they were held.
    pub(super) octets_each: Option<f64>,
    /// Why its measurement is INVALID.
    pub(super) invalid: Vec<String>,
}

/// One measurement.
pub(super) struct Sample {
    pub(super) server: &'static str,
    pub(super) repeat: usize,
    pub(super) cell: Cell,
    /// How often it was measured; the least disturbed attempt is kept.
    pub(super) tries: usize,
    /// Why it is disturbed nevertheless.
    pub(super) faults: Vec<Fault>,
    pub(super) load: Load,
    /// CPUs that the server may use.
    pub(super) cpus: usize,
    /// What the server's threads did meanwhile.
    pub(super) account: Account,
    /// What the upstream's thread did meanwhile.
    pub(super) upstream: Account,
    /// Queries that the upstream was asked meanwhile.
    pub(super) asked: u64,
    /// Octets of memory that the server held before and afterwards.
    pub(super) resident: (Option<u64>, Option<u64>),
}

impl Sample {
    /// Answers a second.
    pub(super) fn rate(&self) -> f64 {
        self.load.rate
    }

    /// Microseconds of CPU per answer.
    pub(super) fn cost(&self) -> f64 {
        self.account.ran.as_secs_f64() * 1e6 / (self.load.answered as f64).max(1.0)
    }

    /// Thousandths of a CPU.
    pub(super) fn millicores(&self) -> f64 {
        self.account.ran.as_secs_f64() * 1e3 / self.load.elapsed.max(1e-9)
    }

    /// Nanoseconds of a quantile of the latency; from the sending where the client's own waking up
    /// would count too. A rank among timeouts counts with its bound.
    pub(super) fn latency(&self, part: f64) -> f64 {
        let from_sending = self.cell.counts_from_sending();
        let histogram = if from_sending { &self.load.service } else { &self.load.response };
        histogram.quantile(part).nanos().unwrap_or(0) as f64
    }

    /// Octets of memory that each of `names` names took.
    pub(super) fn per_name(&self, names: usize) -> f64 {
        let (Some(before), Some(after)) = self.resident else { return f64::NAN };
        (after.saturating_sub(before)) as f64 / names as f64
    }

    /// The part of the time that other processes had the server's CPU while it wanted to run.
    pub(super) fn robbed(&self) -> f64 {
        // One client waits for one answer after the other.
        if matches!(self.cell, Cell::SameCpu | Cell::TcpPair | Cell::TcpIdle) {
            return 0.0;
        }
        let available = self.load.elapsed.max(1e-9) * self.cpus as f64;
        let waited = self.account.waited.as_secs_f64() / available;
        // A server with several threads on one CPU also waits for its own.
        waited.min(1.0 - self.account.ran.as_secs_f64() / available).max(0.0)
    }

    /// The part of the answers that took a query to the upstream.
    pub(super) fn miss_rate(&self) -> f64 {
        self.asked as f64 / (self.load.answered as f64).max(1.0)
    }

    /// The part of the time that the upstream had work; near 1 it was the limit and not the server.
    pub(super) fn upstream_busy(&self) -> f64 {
        let time = self.upstream.ran + self.upstream.waited;
        time.as_secs_f64() / self.load.elapsed.max(1e-9)
    }

    /// What the rule of disturbance looks at; `stolen` is the part that the hypervisor took.
    pub(super) fn signs(&self, stolen: f64) -> Signs {
        Signs { stolen, robbed: self.robbed(), invalid: self.load.invalid.clone() }
    }

    /// Whether others took too much of the CPU: a fault of the machine and not of the server.
    pub(super) fn is_spoilt(&self) -> bool {
        self.faults.iter().any(|fault| fault.kind == Kind::Robbed)
    }

    /// What the hypervisor took, if that was too much.
    pub(super) fn stolen(&self) -> Option<&Fault> {
        self.faults.iter().find(|fault| fault.kind == Kind::Stolen)
    }
}

impl From<Outcome> for Load {
    fn from(outcome: Outcome) -> Self {
        let counts = &outcome.tally.counts;
        Self {
            sent: counts.sent,
            answered: counts.answered,
            lost: counts.lost(),
            rate: outcome.answer_rate(),
            elapsed: outcome.elapsed.as_secs_f64(),
            plan: format!("{:016x}", outcome.plan_hash),
            octets_each: None,
            response: outcome.tally.response,
            service: outcome.tally.service,
            invalid: outcome.verdict.invalid,
        }
    }
}

impl From<ResultFile> for Load {
    fn from(result: ResultFile) -> Self {
        let counts = &result.counts;
        let seconds = |nanos: u64| nanos as f64 / SECOND as f64;
        Self {
            sent: counts.sent,
            answered: counts.answered,
            lost: counts.timed_out + counts.refused + counts.connection_failed,
            rate: counts.answered as f64 / seconds(result.run.active_ns).max(1e-9),
            elapsed: seconds(result.run.elapsed_ns),
            plan: result.plan.hash,
            octets_each: None,
            response: result.response,
            service: result.service,
            invalid: result.verdict.invalid_because,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A second in which the server ran for half of it, and waited for its CPU that part of it.
    fn sample(cell: Cell, waited: f64) -> Sample {
        let (ran, waited) = (Duration::from_millis(500), Duration::from_secs_f64(waited));
        Sample {
            server: "a",
            repeat: 0,
            cell,
            tries: 1,
            faults: Vec::new(),
            load: Load { elapsed: 1.0, ..Load::default() },
            cpus: 1,
            account: Account { ran, waited },
            upstream: Account::default(),
            asked: 0,
            resident: (None, None),
        }
    }

    #[test]
    fn what_others_took_from_a_server_or_the_load_says_of_itself_is_a_fault() {
        let faults = |sample: &Sample, stolen: f64| sample.signs(stolen).faults();
        let kinds = |sample: &Sample, stolen| {
            faults(sample, stolen).iter().map(|fault| fault.kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds(&sample(Cell::ManyNames, 0.04), 0.005), []);
        assert_eq!(kinds(&sample(Cell::ManyNames, 0.06), 0.02), [Kind::Stolen, Kind::Robbed]);
        // Its client has the same CPU, as is meant.
        assert_eq!(kinds(&sample(Cell::SameCpu, 0.06), 0.0), []);
        let mut late = sample(Cell::ManyNames, 0.0);
        late.load.invalid.push("late".to_owned());
        assert_eq!(kinds(&late, 0.0), [Kind::Invalid]);
        // A star in the tables is for what others took, not for what the load says.
        for (mut sample, spoilt) in [(late, false), (sample(Cell::ManyNames, 0.06), true)] {
            sample.faults = faults(&sample, 0.0);
            assert_eq!(sample.is_spoilt(), spoilt);
        }
    }
}
