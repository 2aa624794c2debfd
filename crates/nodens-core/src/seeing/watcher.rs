//! Which answers a worker counts.

use super::sketch::Asked;
use super::{COUNTED_WHOLE, Pane, SAMPLED};
use crate::job::{Job, States};
use crate::time::Now;
use nodens_wire::Rcode;
use nodens_wire::name::NAME_LEN_MAX;
use std::sync::{Arc, TryLockError};

/// A worker's eye on its own answers.
#[derive(Debug)]
pub struct Watcher {
    pane: Arc<Pane>,
    /// The interval the paces are of.
    interval: u64,
    /// Answers NOERROR that were at hand.
    good: Pace,
    /// Other answers that were at hand.
    bad: Pace,
    /// Questions to count and not counted yet, because the sketch was being emptied.
    missed: u64,
    rng: fastrand::Rng,
}

/// Every answer while there are few, later one in [`SAMPLED`] on average; at random distances,
/// since questions come in patterns.
#[derive(Debug)]
struct Pace {
    whole: u32,
    skip: u32,
}

impl Pace {
    const fn new() -> Self {
        Self { whole: COUNTED_WHOLE, skip: 1 }
    }

    /// For how many answers this one is counted, if it is.
    #[inline]
    fn step(&mut self, rng: &mut fastrand::Rng) -> Option<u32> {
        self.skip -= 1;
        if self.skip > 0 {
            return None;
        }
        self.whole = self.whole.saturating_sub(1);
        if self.whole > 0 {
            self.skip = 1;
            return Some(1);
        }
        // The distance behind this answer is what it stands for, so that the sum is right
        // whatever the distances are.
        self.skip = rng.u32(1..2 * SAMPLED);
        Some(self.skip)
    }
}

impl Watcher {
    pub(super) fn new(pane: Arc<Pane>, seed: u64) -> Self {
        let rng = fastrand::Rng::with_seed(seed);
        Self { pane, interval: 0, good: Pace::new(), bad: Pace::new(), missed: 0, rng }
    }

    /// Looks at an answer that was at hand.
    #[inline]
    pub(crate) fn answered<S: States>(&mut self, job: &Job<S>) {
        let pace = match job.current.response.rcode {
            Rcode::NOERROR => &mut self.good,
            _ => &mut self.bad,
        };
        if let Some(weight) = pace.step(&mut self.rng) {
            self.count(job, None, weight);
        }
    }

    /// Looks at an answer that was waited for.
    pub(crate) fn waited<S: States>(&mut self, now: Now, job: &Job<S>) {
        let us = now.since(job.received.mono_ns).as_micros();
        self.count(job, Some(u32::try_from(us).unwrap_or(u32::MAX)), 1);
    }

    #[cold]
    #[inline(never)]
    fn count<S: States>(&mut self, job: &Job<S>, waited_us: Option<u32>, weight: u32) {
        let mut folded = [0; NAME_LEN_MAX];
        let folded = job.query.qname(&job.request).fold(&mut folded);
        let mut sketch = match self.pane.sketch.try_lock() {
            Ok(sketch) => sketch,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.missed += u64::from(weight);
                return;
            }
        };
        let mut weight = weight;
        if sketch.interval() != self.interval {
            // From the next answer on, each is counted: this one stands for itself alone.
            weight = 1;
            self.interval = sketch.interval();
            (self.good, self.bad) = (Pace::new(), Pace::new());
        }
        sketch.totals.missed += std::mem::take(&mut self.missed);
        sketch.record(&Asked {
            client: job.client().peer.ip().to_canonical(),
            qname: folded,
            qtype: job.query.qtype,
            rcode: job.current.response.rcode,
            waited_us,
            weight,
        });
    }
}
