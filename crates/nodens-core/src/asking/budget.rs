//! How many further attempts there may be: counts of the last seconds, of each worker and of all.

use crate::limits::{QUERIES_PER_RETRY, RETRIES_FREE, RETRY_WINDOW_S};
use crate::time::Now;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const NANOS: u64 = 1_000_000_000;
const PER_RETRY: u64 = QUERIES_PER_RETRY as u64;

/// Attempts of one [`Asking`](super::Asking) of one worker in the last seconds.
///
/// In any [`RETRY_WINDOW_S`] seconds there is at most one retry for every [`QUERIES_PER_RETRY`] first
/// attempts, beside those of the [`Floor`]: retries are counted for a second more than the window,
/// first attempts for up to a second less. When an upstream has recovered from an outage, the count of
/// retries begins anew, at most once in a window: else the retries of the outage would be missing
/// for the queries that wait, and for those after it.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    window: Window,
    starts: Starts,
    /// The second in which it began.
    began: u64,
    /// What the last fresh start added for a window.
    extra: u64,
}

/// When the count of retries begins anew.
#[derive(Clone, Copy, Debug, Default)]
struct Starts {
    /// The recoveries of upstreams that have been taken into account.
    recoveries: u32,
    /// When it began anew, monotonic nanoseconds; 0 if it never did.
    at_ns: u64,
}

impl Starts {
    fn is_allowed(self, now: Now) -> bool {
        self.at_ns == 0 || now.since(self.at_ns) >= Duration::from_secs(RETRY_WINDOW_S as u64)
    }

    /// Whether to begin anew now: if there were recoveries since that was done last.
    fn take(&mut self, now: Now, recoveries: u32) -> bool {
        if recoveries == self.recoveries || !self.is_allowed(now) {
            return false;
        }
        (self.recoveries, self.at_ns) = (recoveries, now.mono_ns);
        true
    }
}

/// Counts of the last seconds.
#[derive(Debug, Default)]
struct Window {
    second: u64,
    /// The counts of a second stand at its number modulo their length.
    counts: [Counts; COUNTS],
}

const COUNTS: usize = RETRY_WINDOW_S + 1;

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    first: u32,
    retries: u32,
}

fn second_of(now: Now) -> u64 {
    now.mono_ns / NANOS
}

fn place(second: u64) -> usize {
    (second % COUNTS as u64) as usize
}

impl Window {
    /// Drops the counts of seconds that are over and gives those of this second.
    fn current(&mut self, now: Now) -> Option<&mut Counts> {
        let second = second_of(now);
        while self.second < second {
            // Seconds without a question were those before the last few.
            self.second = (self.second + 1).max(second.saturating_sub(COUNTS as u64));
            if let Some(counts) = self.counts.get_mut(place(self.second)) {
                *counts = Counts::default();
            }
        }
        self.counts.get_mut(place(self.second))
    }

    fn add_retry(&mut self, now: Now) {
        if let Some(counts) = self.current(now) {
            counts.retries += 1;
        }
    }

    fn take_back_retry(&mut self, now: Now) {
        if let Some(counts) = self.current(now) {
            counts.retries = counts.retries.saturating_sub(1);
        }
    }

    fn first(&self) -> u64 {
        let oldest = place(self.second + 1);
        let within =
            |(at, counts): (usize, &Counts)| if at == oldest { 0 } else { counts.first.into() };
        self.counts.iter().enumerate().map(within).sum()
    }

    fn retries(&self) -> u64 {
        self.counts.iter().map(|counts| u64::from(counts.retries)).sum()
    }

    fn forget_retries(&mut self) {
        for counts in &mut self.counts {
            counts.retries = 0;
        }
    }

    /// When the oldest retries are forgotten, monotonic nanoseconds; 0 if there are none.
    fn forgets_at(&self) -> u64 {
        let seconds = self.second.saturating_sub(RETRY_WINDOW_S as u64)..=self.second;
        let has_any = |second: &u64| self.counts.get(place(*second)).is_some_and(|c| c.retries > 0);
        let oldest = seconds.into_iter().find(has_any);
        oldest.map_or(0, |second| (second + COUNTS as u64).saturating_mul(NANOS))
    }
}

impl Budget {
    /// One without counts.
    pub(crate) fn new(now: Now, recoveries: u32) -> Self {
        let starts = Starts { recoveries, at_ns: 0 };
        Self { starts, began: second_of(now), ..Self::default() }
    }

    /// Counts a first attempt.
    pub(crate) fn add_first(&mut self, now: Now) {
        if let Some(counts) = self.window.current(now) {
            counts.first = counts.first.saturating_add(1);
        }
    }

    /// A retry that was taken was not made.
    pub(crate) fn give_back(&mut self, now: Now) {
        self.window.take_back_retry(now);
    }

    /// Whether something is counted still, or a second fresh start would be too early.
    pub(crate) fn is_counting(&self, now: Now) -> bool {
        second_of(now) < self.window.second + COUNTS as u64 || !self.starts.is_allowed(now)
    }

    /// Takes one retry, if there is one.
    pub(crate) fn take(&mut self, now: Now) -> bool {
        self.window.current(now);
        let extra = if self.starts.is_allowed(now) { 0 } else { self.extra };
        let has_one = self.window.retries() < self.window.first() / PER_RETRY + extra;
        if has_one {
            self.window.add_retry(now);
        }
        has_one
    }

    /// Begins the count of retries anew if there were recoveries since that was done last.
    ///
    /// In the first seconds little has been earned. What waits then gets as much as if there had been
    /// as many queries before, but no more than one retry for each.
    pub(crate) fn forgive(&mut self, now: Now, recoveries: u32) -> bool {
        let forgiven = self.starts.take(now, recoveries);
        if forgiven {
            self.window.current(now);
            self.window.forget_retries();
            let window = RETRY_WINDOW_S as u64;
            let seconds = (self.window.second.saturating_sub(self.began) + 1).min(window);
            let first = self.window.first();
            let of_a_window = (first * window / (PER_RETRY * seconds)).min(first);
            self.extra = of_a_window.saturating_sub(first / PER_RETRY);
        }
        forgiven
    }
}

/// Retries that the workers have together for one [`Asking`](super::Asking), whatever it asks: at most
/// [`RETRIES_FREE`] in any [`RETRY_WINDOW_S`] seconds, with fresh starts as for a [`Budget`]. Only a
/// retry that its worker's queries have not earned comes here.
#[derive(Debug, Default)]
pub(crate) struct Floor {
    /// No retry is left before this time, in monotonic nanoseconds, unless an upstream recovers before
    /// it (then there are more than `recoveries`). The many queries that wait see that without the lock.
    empty_until_ns: AtomicU64,
    recoveries: AtomicU32,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    window: Window,
    starts: Option<Starts>,
}

impl Floor {
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one, if there is one.
    pub(crate) fn take(&self, now: Now, recoveries: u32) -> bool {
        let is_known = self.recoveries.load(Ordering::Relaxed) == recoveries;
        if is_known && now.mono_ns < self.empty_until_ns.load(Ordering::Relaxed) {
            return false;
        }
        let mut taken = self.lock();
        let Taken { window, starts } = &mut *taken;
        let starts = starts.get_or_insert(Starts { recoveries, at_ns: 0 });
        window.current(now);
        if window.retries() >= RETRIES_FREE.into() && starts.take(now, recoveries) {
            window.forget_retries();
        }
        let has_one = window.retries() < RETRIES_FREE.into();
        if has_one {
            window.add_retry(now);
        } else {
            let mut until_ns = window.forgets_at();
            if starts.recoveries != recoveries {
                until_ns = until_ns.min(starts.at_ns.saturating_add(RETRY_WINDOW_S as u64 * NANOS));
            }
            self.empty_until_ns.store(until_ns, Ordering::Relaxed);
            self.recoveries.store(recoveries, Ordering::Relaxed);
        }
        has_one
    }

    /// One that was taken was not used.
    pub(crate) fn give_back(&self, now: Now) {
        self.lock().window.take_back_retry(now);
        self.empty_until_ns.store(0, Ordering::Relaxed);
    }
}
