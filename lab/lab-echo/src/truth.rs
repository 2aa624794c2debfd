//! What was really injected: counts that a generator's report can be compared with.

use lab_histogram::Histogram;

/// Counts of one thread or of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// Messages that are queries.
    pub questions: u64,
    /// Messages that are not, and were not answered.
    pub ignored: u64,
    /// Queries that were left without an answer on purpose.
    pub lost: u64,
    /// Queries that were answered twice.
    pub duplicated: u64,
    /// Queries that were answered with the TC bit.
    pub truncated: u64,
    /// Queries whose answer waited for the end of a freeze.
    pub frozen: u64,
    /// Answered queries by RCODE, duplicates not counted.
    pub rcodes: [u64; 16],
    /// Messages handed to the kernel, duplicates among them.
    pub sent: u64,
    /// Messages that the kernel did not take, or whose client was gone.
    pub unsent: u64,
    /// Answers that were not kept because too many were waiting.
    pub overflowed: u64,
    /// Answers still held back at the end.
    pub unfinished: u64,
    /// For every answered query, how long it was to be held back, in nanoseconds.
    pub chosen: Histogram,
    /// For every message sent, how long after its arrival it was handed to the kernel.
    pub held: Histogram,
}

impl Truth {
    /// Adds what another thread did.
    pub fn merge(&mut self, other: &Self) {
        self.questions += other.questions;
        self.ignored += other.ignored;
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.truncated += other.truncated;
        self.frozen += other.frozen;
        for (into, from) in self.rcodes.iter_mut().zip(other.rcodes) {
            *into += from;
        }
        self.sent += other.sent;
        self.unsent += other.unsent;
        self.overflowed += other.overflowed;
        self.unfinished += other.unfinished;
        self.chosen.merge(&other.chosen);
        self.held.merge(&other.held);
    }

    /// Whether every answer that was decided on is accounted for.
    pub fn adds_up(&self) -> bool {
        let answered: u64 = self.rcodes.iter().sum();
        let decided = answered + self.duplicated;
        self.questions == answered + self.lost
            && decided == self.sent + self.unsent + self.overflowed + self.unfinished
    }
}
