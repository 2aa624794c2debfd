//! Further attempts for a question, and how many of them there may be.
//!
//! An upstream that drops what it cannot handle must not get several times as much for it. So
//! attempts behind the first of a question have a budget ([`Budget`]), whether an answer is late,
//! the way is closed or a connection broke. A retry without budget is put off: as long as an earlier
//! attempt may still be answered the question waits for both, else for a short time, if there is an
//! upstream that has not failed.

use super::{Forward, probes};
use crate::handler::{Cx, Step};
use crate::limits::{
    ATTEMPTS_PER_QUESTION_MAX, HEDGE_TIME_MAX, HEDGE_TIME_MIN, QUERIES_PER_RETRY, RETRIES_FREE,
    RETRY_WAIT_MAX, RETRY_WINDOW_S,
};
use crate::time::Now;
use crate::upstream::{Carrier, Path, Upstream};
use std::sync::Arc;

/// Why an attempt starts that is not the first of its question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// There is no answer, or none that can be used.
    Retry,
    /// An upstream answered, and its answer says to ask on: truncated, or an RCODE of `failover`.
    Answer,
}

/// A question's retry that was put off for lack of budget.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PutOff {
    /// It waits.
    waits: bool,
    /// Since when there is no attempt to wait for beside it, monotonic nanoseconds.
    alone_since: Option<u64>,
}

impl PutOff {
    /// What an error should say of it.
    pub(super) fn remark(self) -> &'static str {
        if self.waits { " (not retried: retries have reached their limit)" } else { "" }
    }
}

/// Attempts of one worker in the last seconds.
///
/// In any [`RETRY_WINDOW_S`] seconds there are at most [`RETRIES_FREE`] retries and one for every
/// [`QUERIES_PER_RETRY`] first attempts: retries are counted for a second more than the window, first
/// attempts for up to a second less.
#[derive(Debug, Default)]
pub(crate) struct Budget {
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

impl Budget {
    /// The counts of this second.
    fn current(&mut self, now: Now) -> Option<&mut Counts> {
        let second = now.mono_ns / 1_000_000_000;
        while self.second < second {
            // Seconds without a question were those before the last few.
            self.second = (self.second + 1).max(second.saturating_sub(COUNTS as u64));
            if let Some(counts) = self.counts.get_mut(place(self.second)) {
                *counts = Counts::default();
            }
        }
        self.counts.get_mut(place(self.second))
    }

    /// Whether there may be one more retry.
    fn has_one(&mut self, now: Now) -> bool {
        self.current(now);
        let oldest = place(self.second + 1);
        let within = |(at, counts): (usize, &Counts)| if at == oldest { 0 } else { counts.first };
        let first: u32 = self.counts.iter().enumerate().map(within).sum();
        let retries: u32 = self.counts.iter().map(|counts| counts.retries).sum();
        retries < RETRIES_FREE + first / QUERIES_PER_RETRY
    }
}

fn place(second: u64) -> usize {
    (second % COUNTS as u64) as usize
}

/// Whether the budget has room for another attempt.
pub(super) fn is_affordable(cx: &mut Cx<'_>, cause: Cause) -> bool {
    let first = cx.job.current.forward.started == 0;
    first || cause == Cause::Answer || cx.worker.retries.has_one(cx.now)
}

impl Forward {
    /// Takes an attempt that starts into account.
    pub(super) fn book(&self, cx: &mut Cx<'_>, cause: Cause) {
        let state = &mut cx.job.current.forward;
        state.put_off = PutOff::default();
        let Some(counts) = cx.worker.retries.current(cx.now) else { return };
        if state.started == 0 {
            counts.first = counts.first.saturating_add(1);
        } else if cause == Cause::Retry {
            counts.retries += 1;
            cx.worker.cells.add(self.series.retries, 1);
        }
    }

    /// Waits with a retry until there is budget for it.
    pub(super) fn put_off(&self, cx: &mut Cx<'_>) -> Step {
        let state = &mut cx.job.current.forward;
        if !std::mem::replace(&mut state.put_off.waits, true) {
            cx.worker.cells.add(self.series.put_off, 1);
        }
        // The pauses grow, so that many questions that wait do not keep the worker busy.
        state.hedge_wait = (state.hedge_wait * 2).clamp(HEDGE_TIME_MIN, HEDGE_TIME_MAX);
        state.hedge_at = cx.now.plus(state.hedge_wait);
        if state.waits() {
            state.put_off.alone_since = None;
            return self.wait(cx);
        }
        let since = *state.put_off.alone_since.get_or_insert(cx.now.mono_ns);
        if self.is_hopeless(self.carrier(cx)) {
            return self.fail(cx);
        }
        let end = since.saturating_add(u64::try_from(RETRY_WAIT_MAX.as_nanos()).unwrap_or(u64::MAX));
        if cx.now.mono_ns >= end {
            return self.fail(cx);
        }
        let state = &mut cx.job.current.forward;
        state.hedge_at = state.hedge_at.min(end);
        self.wait(cx)
    }

    /// Whether every upstream failed when it was asked last: then it is better to say so at once.
    fn is_hopeless(&self, carrier: Carrier) -> bool {
        let failed = |path: &Path| path.is_suspect() || path.is_down(self.options.max_fails);
        self.upstreams.iter().all(|upstream| failed(upstream.path(carrier)))
    }

    /// Asks the same upstream again.
    pub(super) fn ask_again(
        &self,
        cx: &mut Cx<'_>,
        member: usize,
        carrier: Carrier,
        cause: Cause,
    ) -> Step {
        if cx.job.current.forward.started >= ATTEMPTS_PER_QUESTION_MAX {
            return self.ask_next(cx, cause);
        }
        if !is_affordable(cx, cause) {
            return self.put_off(cx);
        }
        self.start(cx, member, carrier, true, cause);
        cx.job.current.forward.hedge_at = cx.now.plus(self.patience(member, carrier));
        self.wait(cx)
    }

    pub(super) fn mark_late(&self, cx: &mut Cx<'_>) {
        for attempt in &mut cx.job.current.forward.pending {
            if attempt.late {
                continue;
            }
            attempt.late = true;
            let path = attempt.upstream.path(attempt.carrier);
            path.late();
            if path.is_suspect() && self.options.max_fails > 0 {
                probes::start(cx.worker, cx.now, &attempt.upstream, attempt.carrier);
            }
        }
    }

    /// An upstream failed to answer properly.
    pub(super) fn count_failure(&self, cx: &mut Cx<'_>, upstream: &Arc<Upstream>, carrier: Carrier) {
        cx.job.current.forward.failures += 1;
        upstream.path(carrier).failed();
        if self.options.max_fails > 0 {
            probes::start(cx.worker, cx.now, upstream, carrier);
        }
    }

    /// The upstream answered with an RCODE of `failover`. Whether another is to be asked.
    pub(super) fn fails_over(&self, cx: &mut Cx<'_>) -> bool {
        let state = &mut cx.job.current.forward;
        state.failovers += 1;
        state.failovers < self.upstreams.len()
    }
}
