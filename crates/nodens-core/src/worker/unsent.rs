//! How long answers took, which shows only when they are sent: the clock is read once for all that
//! go out together.

use super::Worker;
use crate::limits::UNSENT_KINDS_MAX;
use crate::metrics::{Cells, Histogram};
use crate::time::Now;

/// Answers that have not been sent yet, by where they are counted and when they were asked for.
/// Those of one batch are nearly always one entry.
#[derive(Debug)]
pub(crate) struct Unsent {
    /// The one that was counted last.
    last: Option<Entry>,
    /// Those before it.
    others: Vec<Entry>,
    /// When the questions at work arrived; 0 if nobody said.
    arrived_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    histogram: Histogram,
    asked_ns: u64,
    count: u64,
}

impl Default for Unsent {
    fn default() -> Self {
        // A hit must not allocate.
        Self { last: None, others: Vec::with_capacity(UNSENT_KINDS_MAX), arrived_ns: 0 }
    }
}

impl Unsent {
    pub(super) fn set_arrived(&mut self, at_ns: u64) {
        self.arrived_ns = at_ns;
    }

    /// When a question that is taken now arrived.
    #[inline]
    pub(super) fn arrived(&self, now: Now) -> u64 {
        if self.arrived_ns == 0 { now.mono_ns } else { self.arrived_ns }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// Counts an answer in `histogram` once it is sent.
    #[inline]
    pub(crate) fn add(&mut self, histogram: Histogram, asked_ns: u64, now: Now, cells: &Cells) {
        match &mut self.last {
            Some(last) if last.asked_ns == asked_ns && last.histogram == histogram => {
                last.count += 1;
            }
            last => {
                if let Some(other) = last.replace(Entry { histogram, asked_ns, count: 1 }) {
                    self.put_aside(other, now, cells);
                }
            }
        }
    }

    #[cold]
    fn put_aside(&mut self, entry: Entry, now: Now, cells: &Cells) {
        if self.others.len() < UNSENT_KINDS_MAX - 1 {
            self.others.push(entry);
        } else {
            // Better a little early than not at all, or without bound.
            entry.observe(now.mono_ns, cells);
        }
    }

    #[inline]
    pub(super) fn sent(&mut self, at_ns: u64, cells: &Cells) {
        self.arrived_ns = 0;
        let Some(last) = self.last.take() else { return };
        last.observe(at_ns, cells);
        if !self.others.is_empty() {
            self.others_sent(at_ns, cells);
        }
    }

    #[cold]
    fn others_sent(&mut self, at_ns: u64, cells: &Cells) {
        self.others.drain(..).for_each(|entry| entry.observe(at_ns, cells));
    }
}

impl Worker {
    /// The questions from now on arrived at this time, monotonic nanoseconds, until
    /// [`Worker::sent`].
    pub fn arrived(&mut self, at_ns: u64) {
        self.state.unsent.set_arrived(at_ns);
    }

    /// Whether [`Worker::sent`] has something to measure.
    pub fn has_unsent(&self) -> bool {
        !self.state.unsent.is_empty()
    }

    /// The answers so far were sent at this time, monotonic nanoseconds.
    pub fn sent(&mut self, at_ns: u64) {
        self.state.unsent.sent(at_ns, &self.state.parts.cells);
    }
}

impl Entry {
    fn observe(&self, at_ns: u64, cells: &Cells) {
        cells.observe_many(self.histogram, at_ns.saturating_sub(self.asked_ns), self.count);
    }
}
