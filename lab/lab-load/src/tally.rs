//! What became of every item and every received message, as counts that add up.

use crate::SECOND;
use lab_histogram::Histogram;

/// Nanoseconds of one step of the rate record.
pub const RATE_STEP: u64 = SECOND / 10;

/// Counts of items and received messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Items whose intended time came.
    pub scheduled: u64,
    /// Items that were never sent because no ID had rested long enough.
    pub skipped: u64,
    /// Items that the operating system refused to send.
    pub send_errors: u64,
    /// Items sent.
    pub sent: u64,
    /// Sent items answered within the timeout.
    pub answered: u64,
    /// Sent items that were not.
    pub timed_out: u64,
    /// Sent items that an ICMP message said nobody listens to.
    pub refused: u64,
    /// Sent items whose connection ended before the answer.
    pub connection_failed: u64,
    /// Sent items still in flight when the run was interrupted.
    pub interrupted: u64,
    /// Messages received.
    pub received: u64,
    /// Messages that answer an item after it had timed out.
    pub late: u64,
    /// Messages that answer an item again.
    pub duplicate: u64,
    /// Messages with a known ID that are no response or have another question.
    pub mismatched: u64,
    /// Messages with an ID that nothing was asked with.
    pub unknown: u64,
    /// Messages too short to have a header and a question.
    pub malformed: u64,
    /// Answers with the TC bit.
    pub truncated: u64,
    /// Octets of answers.
    pub answer_octets: u64,
}

impl Counts {
    /// Adds `other`.
    pub fn add(&mut self, other: &Self) {
        for (into, from) in self.fields_mut().into_iter().zip(other.fields()) {
            *into += from;
        }
    }

    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut difference = *self;
        for (into, from) in difference.fields_mut().into_iter().zip(earlier.fields()) {
            *into = into.saturating_sub(from);
        }
        difference
    }

    fn fields(&self) -> [u64; 17] {
        let mut copy = *self;
        copy.fields_mut().map(|field| *field)
    }

    fn fields_mut(&mut self) -> [&mut u64; 17] {
        let Self {
            scheduled,
            skipped,
            send_errors,
            sent,
            answered,
            timed_out,
            refused,
            connection_failed,
            interrupted,
            received,
            late,
            duplicate,
            mismatched,
            unknown,
            malformed,
            truncated,
            answer_octets,
        } = self;
        [
            scheduled,
            skipped,
            send_errors,
            sent,
            answered,
            timed_out,
            refused,
            connection_failed,
            interrupted,
            received,
            late,
            duplicate,
            mismatched,
            unknown,
            malformed,
            truncated,
            answer_octets,
        ]
    }

    /// Sent items without an answer in time, whatever the cause; interrupted ones are not among them.
    pub fn lost(&self) -> u64 {
        self.timed_out + self.refused + self.connection_failed
    }

    /// Sent items without an outcome yet.
    pub fn in_flight(&self) -> u64 {
        self.sent.saturating_sub(self.answered + self.lost() + self.interrupted)
    }
}

/// The items intended for one second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cohort {
    /// Sent.
    pub sent: u64,
    /// Answered within the timeout, whenever the answer came.
    pub answered: u64,
    /// Lost, whenever that was noticed.
    pub lost: u64,
    /// Response times, with lost items as censored.
    pub response: Histogram,
}

/// Planned and sent items in one step of [`RATE_STEP`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateStep {
    /// Items whose intended time lies in the step.
    pub planned: u64,
    /// Items sent during the step.
    pub sent: u64,
}

/// Everything one thread, or the whole run, has measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Outcomes.
    pub counts: Counts,
    /// Answers by the lower four bits of the RCODE.
    pub rcodes: [u64; 16],
    /// From intended time to answer; lost items are censored.
    pub response: Histogram,
    /// From sending to answer; lost items are censored.
    pub service: Histogram,
    /// From intended time to sending.
    pub lateness: Histogram,
    /// From sending to answers that came too late.
    pub late: Histogram,
    /// From asking for a connection to having it.
    pub connect: Histogram,
    /// Connections asked for and not got.
    pub connect_failures: u64,
    /// By second of intended time.
    pub cohorts: Vec<Cohort>,
    /// By tenth of a second.
    pub rate: Vec<RateStep>,
}

impl Tally {
    /// Adds what another thread has measured.
    pub fn merge(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        for (into, from) in self.rcodes.iter_mut().zip(other.rcodes) {
            *into += from;
        }
        self.response.merge(&other.response);
        self.service.merge(&other.service);
        self.lateness.merge(&other.lateness);
        self.late.merge(&other.late);
        self.connect.merge(&other.connect);
        self.connect_failures += other.connect_failures;
        grow(&mut self.cohorts, other.cohorts.len());
        for (into, from) in self.cohorts.iter_mut().zip(&other.cohorts) {
            into.sent += from.sent;
            into.answered += from.answered;
            into.lost += from.lost;
            into.response.merge(&from.response);
        }
        grow(&mut self.rate, other.rate.len());
        for (into, from) in self.rate.iter_mut().zip(&other.rate) {
            into.planned += from.planned;
            into.sent += from.sent;
        }
    }

    /// The cohort of an intended time.
    pub(crate) fn cohort(&mut self, intended: u64) -> Option<&mut Cohort> {
        let at = (intended / SECOND) as usize;
        grow(&mut self.cohorts, at + 1);
        self.cohorts.get_mut(at)
    }

    /// The rate step of a time.
    pub(crate) fn rate_step(&mut self, time: u64) -> Option<&mut RateStep> {
        let at = (time / RATE_STEP) as usize;
        grow(&mut self.rate, at + 1);
        self.rate.get_mut(at)
    }

    /// Every way in which the numbers do not add up; empty unless the generator has a fault.
    pub fn contradictions(&self) -> Vec<&'static str> {
        let c = &self.counts;
        let sum = |of: fn(&Cohort) -> u64| self.cohorts.iter().map(of).sum::<u64>();
        let checks = [
            (c.scheduled == c.sent + c.skipped + c.send_errors, "scheduled items"),
            (c.sent == c.answered + c.lost() + c.interrupted, "sent items"),
            (
                c.received
                    == c.answered + c.late + c.duplicate + c.mismatched + c.unknown + c.malformed,
                "received messages",
            ),
            (self.rcodes.iter().sum::<u64>() == c.answered, "RCODEs"),
            (self.response.recorded() == c.answered, "response times"),
            (self.response.censored() == c.lost(), "lost items in response times"),
            (self.service.recorded() == c.answered, "service times"),
            (self.lateness.recorded() == c.sent, "latenesses"),
            (self.late.recorded() == c.late, "late answers"),
            (sum(|cohort| cohort.sent) == c.sent, "sent items of all seconds"),
            (sum(|cohort| cohort.answered) == c.answered, "answers of all seconds"),
            (sum(|cohort| cohort.lost) == c.lost(), "lost items of all seconds"),
            (sum(|cohort| cohort.response.recorded()) == c.answered, "times of all seconds"),
        ];
        checks.iter().filter(|(holds, _)| !holds).map(|(_, what)| *what).collect()
    }
}

fn grow<T: Default + Clone>(vec: &mut Vec<T>, len: usize) {
    if vec.len() < len {
        vec.resize(len, T::default());
    }
}
