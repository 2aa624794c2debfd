//! Everything that is measured: counts, and histograms by run, second, QTYPE and RCODE.

use crate::SECOND;
pub use crate::connections::{Closure, Connections, Failure, Second as ConnectionSecond};
pub use crate::counts::{Counts, Rcodes};
use lab_histogram::Histogram;

/// Nanoseconds of one step of the rate record.
pub const RATE_STEP: u64 = SECOND / 10;

/// How many buckets the histograms of all seconds of a run may have together: a run of many seconds is kept and
/// written with coarser ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Those of response times.
    pub response: usize,
    /// Those of service times, lateness and connecting.
    pub others: usize,
}

/// Ten minutes of up to 800 different response times a second are whole.
pub const ROOM: Room = Room { response: 500_000, others: 250_000 };

/// The items intended for one second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cohort {
    /// Items whose intended time came.
    pub scheduled: u64,
    /// Never sent for want of an ID, because the run was stopped, or not by its end.
    pub skipped: u64,
    /// Never sent because the operating system refused.
    pub send_errors: u64,
    /// Sent, whenever that was.
    pub sent: u64,
    /// Answered within the timeout, whenever the answer came.
    pub answered: u64,
    /// Not answered within the timeout, whenever that was noticed.
    pub timed_out: u64,
    /// Refused by an ICMP message.
    pub refused: u64,
    /// Lost with their connection.
    pub connection_failed: u64,
    /// In flight when the run was stopped.
    pub interrupted: u64,
    /// RCODEs of the answers.
    pub rcodes: Rcodes,
    /// Response times, with lost items as censored.
    pub response: Histogram,
    /// From sending to answer, with lost items as censored.
    pub service: Histogram,
    /// From intended time to sending.
    pub lateness: Histogram,
    /// From asking for a connection to having it, of those had during the second.
    pub connect: Histogram,
    /// Whether nothing can change any more: the second and the timeout are over, or the run is, and
    /// every item has its outcome.
    pub is_final: bool,
}

impl Cohort {
    /// Sent items without an answer in time, whatever the cause.
    pub fn lost(&self) -> u64 {
        self.timed_out + self.refused + self.connection_failed
    }

    /// Whether every item has an outcome that the run gave it.
    pub(crate) fn is_settled(&self) -> bool {
        self.scheduled == self.sent + self.skipped + self.send_errors
            && self.sent == self.answered + self.lost()
    }

    /// Adds what another thread has measured of the same second; final only if both are.
    pub fn merge(&mut self, other: &Self) {
        self.scheduled += other.scheduled;
        self.skipped += other.skipped;
        self.send_errors += other.send_errors;
        self.sent += other.sent;
        self.answered += other.answered;
        self.timed_out += other.timed_out;
        self.refused += other.refused;
        self.connection_failed += other.connection_failed;
        self.interrupted += other.interrupted;
        self.service.merge(&other.service);
        self.lateness.merge(&other.lateness);
        self.connect.merge(&other.connect);
        self.rcodes.merge(&other.rcodes);
        self.response.merge(&other.response);
        self.is_final &= other.is_final;
    }
}

/// The items that have something in common: their QTYPE.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Sent.
    pub sent: u64,
    /// Answered within the timeout.
    pub answered: u64,
    /// Lost, whatever the cause.
    pub lost: u64,
    /// In flight when the run was stopped.
    pub interrupted: u64,
    /// Response times, with lost items as censored.
    pub response: Histogram,
}

impl Group {
    fn merge(&mut self, other: &Self) {
        self.sent += other.sent;
        self.answered += other.answered;
        self.lost += other.lost;
        self.interrupted += other.interrupted;
        self.response.merge(&other.response);
    }
}

/// Values by a 16-bit code, in the order of the codes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByCode<T>(Vec<(u16, T)>);

impl<T> Default for ByCode<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Default> ByCode<T> {
    /// The codes in use, lowest first, and their values.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &T)> + '_ {
        self.0.iter().map(|(code, value)| (*code, value))
    }

    /// The value of `code`, if it is in use.
    pub fn get(&self, code: u16) -> Option<&T> {
        self.iter().find(|entry| entry.0 == code).map(|entry| entry.1)
    }

    /// The value of `code`, which is in use from now on.
    pub fn entry(&mut self, code: u16) -> Option<&mut T> {
        let found = self.0.binary_search_by_key(&code, |entry| entry.0);
        let at = found.unwrap_or_else(|at| {
            self.0.insert(at, (code, T::default()));
            at
        });
        self.0.get_mut(at).map(|entry| &mut entry.1)
    }

    fn merge(&mut self, other: &Self, add: impl Fn(&mut T, &T)) {
        for (code, from) in other.iter() {
            if let Some(into) = self.entry(code) {
                add(into, from);
            }
        }
    }
}

/// Planned and sent items in one step of [`RATE_STEP`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateStep {
    /// Items whose intended time lies in the step.
    pub planned: u64,
    /// Items sent during the step.
    pub sent: u64,
}

/// The first and the last of the sent items, in nanoseconds from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When they were to be sent.
    pub intended: (u64, u64),
    /// When they were.
    pub sent: (u64, u64),
}

impl Span {
    fn join(self, other: Self) -> Self {
        let join = |a: (u64, u64), b: (u64, u64)| (a.0.min(b.0), a.1.max(b.1));
        Self { intended: join(self.intended, other.intended), sent: join(self.sent, other.sent) }
    }
}

/// Everything one thread, or the whole run, has measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Outcomes.
    pub counts: Counts,
    /// Answers by RCODE, with the extension of EDNS.
    pub rcodes: Rcodes,
    /// From intended time to answer; lost items are censored.
    pub response: Histogram,
    /// From sending to answer; lost items are censored.
    pub service: Histogram,
    /// From intended time to sending.
    pub lateness: Histogram,
    /// From sending to answers that came too late, up to the window for late answers.
    pub late: Histogram,
    /// From asking for a connection to having it.
    pub connect: Histogram,
    /// Connections asked for and not got.
    pub connect_failures: u64,
    /// From the stamp of sending to the end of the system call, once per call: the last of the
    /// queries it sent left by this much later than their stamp says.
    pub send_call: Histogram,
    /// From the kernel's receive stamp to the time at which this program had the datagram.
    pub receive_wait: Histogram,
    /// What became of every connection.
    pub connections: Connections,
    /// By QTYPE; 0 for messages without a question.
    pub by_qtype: ByCode<Group>,
    /// Response times of answers by RCODE.
    pub by_rcode: ByCode<Histogram>,
    /// By second of intended time.
    pub cohorts: Vec<Cohort>,
    /// By tenth of a second.
    pub rate: Vec<RateStep>,
    /// From the first to the last item, if any was sent.
    pub span: Option<Span>,
    /// Whether items were left that there was no time to count.
    pub uncounted: bool,
}

impl Tally {
    /// Adds what another thread has measured.
    pub fn merge(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.rcodes.merge(&other.rcodes);
        self.response.merge(&other.response);
        self.service.merge(&other.service);
        self.lateness.merge(&other.lateness);
        self.late.merge(&other.late);
        self.connect.merge(&other.connect);
        self.connect_failures += other.connect_failures;
        self.send_call.merge(&other.send_call);
        self.receive_wait.merge(&other.receive_wait);
        self.connections.merge(&other.connections);
        self.by_qtype.merge(&other.by_qtype, Group::merge);
        self.by_rcode.merge(&other.by_rcode, Histogram::merge);
        grow(&mut self.cohorts, other.cohorts.len());
        for (into, from) in self.cohorts.iter_mut().zip(&other.cohorts) {
            into.merge(from);
        }
        grow(&mut self.rate, other.rate.len());
        for (into, from) in self.rate.iter_mut().zip(&other.rate) {
            into.planned += from.planned;
            into.sent += from.sent;
        }
        if let Some(span) = other.span {
            self.stretch(span);
        }
        self.uncounted |= other.uncounted;
    }

    /// Notes items with this span.
    pub fn stretch(&mut self, span: Span) {
        self.span = Some(self.span.map_or(span, |before| before.join(span)));
    }

    /// The cohort of an intended time.
    pub fn cohort(&mut self, intended: u64) -> Option<&mut Cohort> {
        let at = (intended / SECOND) as usize;
        grow(&mut self.cohorts, at + 1);
        self.cohorts.get_mut(at)
    }

    /// The rate step of a time.
    pub fn rate_step(&mut self, time: u64) -> Option<&mut RateStep> {
        let at = (time / RATE_STEP) as usize;
        grow(&mut self.rate, at + 1);
        self.rate.get_mut(at)
    }

    /// Declares final what can no longer change in a run that has ended after `elapsed`
    /// nanoseconds: everything that has its outcome, but in an interrupted run only seconds that
    /// were over and whose answers had their time.
    pub fn close(&mut self, elapsed: u64, timeout: u64, interrupted: bool) {
        for (second, cohort) in self.cohorts.iter_mut().enumerate() {
            let over = elapsed >= final_time(second as u64, timeout);
            cohort.is_final = cohort.is_settled() && (over || !interrupted);
        }
    }

    /// Every way in which the numbers do not add up; empty unless the generator has a fault.
    pub fn contradictions(&self) -> Vec<&'static str> {
        let mut found = self.counts_at_odds();
        found.extend(self.seconds_at_odds());
        found.extend(self.groups_at_odds());
        found.extend(self.connections.contradictions());
        found.extend(self.set_up_at_odds());
        found
    }

    fn set_up_at_odds(&self) -> Vec<&'static str> {
        let c = &self.connections;
        failed(&[
            (self.connect.recorded() == c.opened, "times of setting up connections"),
            (self.connect_failures == c.failed(), "failures of connections"),
            (c.rejected + c.half_written <= self.counts.connection_failed, "ended streams"),
            (c.half_written + c.asked_again <= c.waited.recorded() + self.counts.sent, "waits"),
        ])
    }

    fn counts_at_odds(&self) -> Vec<&'static str> {
        let c = &self.counts;
        let matched = c.answered + c.late + c.duplicate;
        failed(&[
            (c.scheduled == c.sent + c.skipped + c.send_errors, "scheduled items"),
            (c.sent == c.answered + c.lost() + c.interrupted, "sent items"),
            (c.received == matched + c.mismatched + c.unknown + c.malformed, "received messages"),
            (c.overdue <= c.skipped, "skipped items"),
            (c.late <= c.timed_out, "late answers and timeouts"),
            (c.not_responses <= c.mismatched, "mismatched messages"),
            (self.rcodes.total() == c.answered, "RCODEs"),
            (self.response.recorded() == c.answered, "response times"),
            (self.response.censored() == c.lost(), "lost items in response times"),
            (self.service.recorded() == c.answered, "service times"),
            (self.service.censored() == c.lost(), "lost items in service times"),
            (self.lateness.recorded() == c.sent, "latenesses"),
            (self.late.recorded() == c.late, "times of late answers"),
        ])
    }

    fn seconds_at_odds(&self) -> Vec<&'static str> {
        let c = &self.counts;
        let sum = |of: fn(&Cohort) -> u64| self.cohorts.iter().map(of).sum::<u64>();
        let (mut response, mut rcodes) = (Histogram::new(), Rcodes::default());
        let mut others = [Histogram::new(), Histogram::new(), Histogram::new()];
        for cohort in &self.cohorts {
            response.merge(&cohort.response);
            let of_second = [&cohort.service, &cohort.lateness, &cohort.connect];
            others.iter_mut().zip(of_second).for_each(|(sum, of)| sum.merge(of));
            rcodes.merge(&cohort.rcodes);
        }
        let planned: u64 = self.rate.iter().map(|step| step.planned).sum();
        let sent: u64 = self.rate.iter().map(|step| step.sent).sum();
        // Seconds of a long run may be coarser than the whole of it.
        let is = |sum: &Histogram, whole: &Histogram| *sum == whole.coarsened(sum.bits());
        failed(&[
            (sum(|cohort| cohort.scheduled) == c.scheduled, "scheduled items of all seconds"),
            (sum(|cohort| cohort.skipped) == c.skipped, "skipped items of all seconds"),
            (sum(|cohort| cohort.send_errors) == c.send_errors, "unsent items of all seconds"),
            (sum(|cohort| cohort.sent) == c.sent, "sent items of all seconds"),
            (sum(|cohort| cohort.answered) == c.answered, "answers of all seconds"),
            (sum(|cohort| cohort.timed_out) == c.timed_out, "timeouts of all seconds"),
            (sum(|cohort| cohort.refused) == c.refused, "refusals of all seconds"),
            (sum(|s| s.connection_failed) == c.connection_failed, "failures of all seconds"),
            (sum(|s| s.interrupted) == c.interrupted, "interrupted items of all seconds"),
            (is(&response, &self.response), "response times of all seconds, bucket by bucket"),
            (is(&others[0], &self.service), "service times of all seconds, bucket by bucket"),
            (is(&others[1], &self.lateness), "latenesses of all seconds, bucket by bucket"),
            (is(&others[2], &self.connect), "times of connecting of all seconds, bucket by bucket"),
            (rcodes == self.rcodes, "RCODEs of all seconds"),
            (planned == c.scheduled && sent == c.sent, "steps of the rate"),
        ])
    }

    fn groups_at_odds(&self) -> Vec<&'static str> {
        let c = &self.counts;
        let sum = |of: fn(&Group) -> u64| self.by_qtype.iter().map(|(_, g)| of(g)).sum::<u64>();
        let (mut by_qtype, mut by_rcode) = (Histogram::new(), Histogram::new());
        self.by_qtype.iter().for_each(|(_, group)| by_qtype.merge(&group.response));
        self.by_rcode.iter().for_each(|(_, times)| by_rcode.merge(times));
        let rcodes = self.by_rcode.iter().map(|(rcode, times)| (rcode, times.recorded()));
        failed(&[
            (sum(|group| group.sent) == c.sent, "sent items of all QTYPEs"),
            (sum(|group| group.answered) == c.answered, "answers of all QTYPEs"),
            (sum(|group| group.lost) == c.lost(), "lost items of all QTYPEs"),
            (sum(|group| group.interrupted) == c.interrupted, "interrupted items of all QTYPEs"),
            (by_qtype == self.response, "response times of all QTYPEs, bucket by bucket"),
            (rcodes.eq(self.rcodes.iter()), "response times by RCODE"),
            (by_rcode.recorded() == self.response.recorded(), "response times of all RCODEs"),
        ])
    }
}

/// When, in nanoseconds from the start, no answer of `second` can come in time any more.
pub(crate) fn final_time(second: u64, timeout: u64) -> u64 {
    second.saturating_add(1).saturating_mul(SECOND).saturating_add(timeout)
}

fn failed(checks: &[(bool, &'static str)]) -> Vec<&'static str> {
    checks.iter().filter(|(holds, _)| !holds).map(|(_, what)| *what).collect()
}

fn grow<T: Default + Clone>(vec: &mut Vec<T>, len: usize) {
    if vec.len() < len {
        vec.resize(len, T::default());
    }
}
