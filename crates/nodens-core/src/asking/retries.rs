//! Further attempts for a question, and how many of them there may be.
//!
//! An upstream that drops what it cannot handle must not get several times as much for it. So
//! attempts behind the first of a question have a budget (see [`super::budget`]), whether an answer is late
//! or the way is closed. A retry without budget is put off: as long as an earlier
//! attempt may still be answered the question waits for both, else for a short time, if there is an
//! upstream that has not failed.

use super::attempts::bit;
use super::budget::Budget;
use super::{Asking, Progress, Query, State, probes};
use crate::limits::{
    ATTEMPTS_PER_QUESTION_MAX, BUDGETS_KEPT, HEDGE_TIME_MIN, PUT_OFF_PAUSE_MAX, RETRY_WAIT_MAX,
};
use crate::time::Now;
use crate::upstream::{Carrier, Fault, Path, Upstream};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Why an attempt starts that is not the first of its question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// There is no answer, or none that can be used.
    Retry,
    /// An upstream answered, and its answer says to ask on: truncated, or an RCODE of `failover`.
    Answer,
    /// A connection broke that may have been idle for long: most likely the upstream never saw the
    /// query. There is one for each upstream and query.
    Repair,
    /// The query of the attempt before it was lost (see [`is_lost`]), and this one goes to an upstream that has not failed
    /// and was not queried yet. No upstream gets the query twice, so none gets more than its share.
    Substitute,
}

/// Whether the query of a failed attempt was not delivered (there was no connection, or a datagram was refused with an
/// ICMP error), or has had no response in all its time.
pub(crate) fn is_lost(carrier: Carrier, fault: &Fault) -> bool {
    match fault {
        Fault::Connect(_) | Fault::Send(_) | Fault::Full(_) | Fault::Timeout(_) => true,
        Fault::Broken(_) => carrier.is_datagram(),
        Fault::Refused(_) => false,
    }
}

/// A question's retry that was put off for lack of budget.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PutOff {
    /// It waits.
    waits: bool,
    /// Since when there is no attempt to wait for beside it, monotonic nanoseconds.
    alone_since: Option<u64>,
    /// The query of a failed attempt was lost: what that cost pays for a [`Cause::Substitute`].
    pub(crate) has_credit: bool,
}

impl PutOff {
    /// What an error should begin with. Not what it ends with: patterns of `errors consolidate` look for the
    /// ends of CoreDNS's texts, such as `i/o timeout$`.
    pub(crate) fn remark(self) -> &'static str {
        if self.waits { "no retry left: " } else { "" }
    }
}

/// The one retry of a query that needs no budget: it had no response in all its time, and its upstream has answered others
/// since. So the upstream is well, and a lost datagram must not become a failure because others have used up the budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Spare {
    /// There was no reason for it yet.
    #[default]
    Kept,
    /// It may be made.
    Due,
    /// It was made.
    Used,
}

impl Spare {
    pub(crate) fn allow(&mut self) {
        if *self == Self::Kept {
            *self = Self::Due;
        }
    }
}

/// What an attempt is paid with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credit {
    /// It costs nothing.
    Nothing,
    /// With what the queries of this worker have earned.
    Own,
    /// With what all workers have together.
    Floor,
    /// With what is kept for clients that have had few.
    Reserve,
}

/// The budgets of one worker, by [`Asking::instance`]: an upstream that is dead must not take
/// away the retries of others.
#[derive(Debug, Default)]
pub(crate) struct Budgets(BTreeMap<u64, Budget>);

impl Budgets {
    fn of(&mut self, asking: &Asking, now: Now) -> &mut Budget {
        if self.0.len() >= BUDGETS_KEPT && !self.0.contains_key(&asking.instance) {
            // Those of configurations that are gone, too; one without counts is as good as new.
            self.0.retain(|_, budget| budget.is_counting(now));
        }
        let new = || Budget::new(now, asking.recoveries());
        self.0.entry(asking.instance).or_insert_with(new)
    }
}

impl Asking {
    /// Whether the limits allow another attempt.
    pub(crate) fn may_start(&self, state: &State) -> bool {
        state.started < ATTEMPTS_PER_QUESTION_MAX
            && (0..self.upstreams.len().max(1)).any(|member| state.is_useful(member))
            && match self.options.max_connect_attempts {
                Some(0) => true,
                Some(most) => state.started < most,
                // As many failures as CoreDNS allows by default.
                None => state.failures < self.two_rounds(),
            }
    }

    pub(crate) fn two_rounds(&self) -> u32 {
        2 * self.upstreams.len() as u32
    }

    /// The upstream to query in place of one to which the query was not delivered.
    pub(crate) fn substitute(&self, state: &mut State, carrier: Carrier) -> Option<usize> {
        if !state.put_off.has_credit {
            return None;
        }
        let is_new = |member| state.is_useful(member) && state.ever_asked & bit(member) == 0;
        let is_sound = |path: &Path| !path.is_suspect();
        // One that is only late gets the query at most once.
        let is_alive = |path: &Path| !path.has_failed();
        let find = |fits: fn(&Path) -> bool| {
            let of = |member: usize| Some(self.upstreams.get(member)?.path(carrier));
            let fits = |path: &Path| fits(path) && !path.is_down(self.options.max_fails);
            let order = state.order.as_slice();
            order.iter().position(|m| is_new((*m).into()) && of((*m).into()).is_some_and(fits))
        };
        let at = find(is_sound).or_else(|| find(is_alive))?;
        state.cursor = at + 1;
        state.order.get(at)
    }

    /// Takes from the budget what another attempt costs; `None` if it has no room for it.
    pub(crate) fn take_credit(&self, q: &mut Query<'_>, cause: Cause) -> Option<Credit> {
        if q.state.started == 0 || cause != Cause::Retry {
            return Some(Credit::Nothing);
        }
        if q.state.spare == Spare::Due {
            q.state.spare = Spare::Used;
            return Some(Credit::Nothing);
        }
        let (now, is_put_off) = (q.now, q.state.put_off.waits);
        let budget = q.worker.budgets.of(self, now);
        if budget.take(now) {
            return Some(Credit::Own);
        }
        let recoveries = self.recoveries();
        if self.floor.take(now, recoveries) {
            return Some(Credit::Floor);
        }
        if budget.forgive(now, recoveries) && budget.take(now) {
            return Some(Credit::Own);
        }
        // Once: the many queries that wait in an overload must not all come back to its lock.
        (!is_put_off && self.reserve.take(now, q.client)).then_some(Credit::Reserve)
    }

    /// The attempt was not made.
    pub(crate) fn give_back(&self, q: &mut Query<'_>, credit: Credit) {
        match credit {
            Credit::Nothing => {}
            Credit::Own => q.worker.budgets.of(self, q.now).give_back(q.now),
            Credit::Floor => self.floor.give_back(q.now),
            Credit::Reserve => self.reserve.give_back(q.client),
        }
    }

    /// How often upstreams recovered from an outage.
    fn recoveries(&self) -> u32 {
        let count = |upstream: &Arc<Upstream>| {
            let of = |carrier| upstream.path(carrier).recoveries();
            Carrier::ALL.into_iter().map(of).fold(0, u32::wrapping_add)
        };
        self.upstreams.iter().map(count).fold(0, u32::wrapping_add)
    }

    /// Takes an attempt that starts into account.
    pub(crate) fn book(&self, q: &mut Query<'_>, cause: Cause) {
        let state = &mut *q.state;
        state.put_off = PutOff::default();
        if state.started == 0 {
            q.worker.budgets.of(self, q.now).add_first(q.now);
        } else if cause == Cause::Retry {
            q.worker.cells.add(self.series.retries, 1);
        }
    }

    /// Waits with a retry until there is budget for it.
    pub(crate) fn put_off(&self, q: &mut Query<'_>) -> Progress {
        let state = &mut *q.state;
        if !std::mem::replace(&mut state.put_off.waits, true) {
            q.worker.cells.add(self.series.put_off, 1);
        }
        // The pauses grow, so that many questions that wait do not keep the worker busy.
        state.hedge_wait = (state.hedge_wait * 2).clamp(HEDGE_TIME_MIN, PUT_OFF_PAUSE_MAX);
        state.hedge_at = q.now.plus(state.hedge_wait);
        if state.waits() {
            state.put_off.alone_since = None;
            return self.wait(q);
        }
        let since = *state.put_off.alone_since.get_or_insert(q.now.mono_ns);
        if self.is_hopeless(&*q.state, q.carrier) {
            return self.fail(q);
        }
        let end =
            since.saturating_add(u64::try_from(RETRY_WAIT_MAX.as_nanos()).unwrap_or(u64::MAX));
        if q.now.mono_ns >= end {
            return self.fail(q);
        }
        let state = &mut *q.state;
        state.hedge_at = state.hedge_at.min(end);
        self.wait(q)
    }

    /// Whether every upstream failed when it was asked last: then it is better to say so at once.
    /// Of a lone upstream only its health checks can say that: any failure makes it suspect.
    fn is_hopeless(&self, state: &State, carrier: Carrier) -> bool {
        let lone = self.upstreams.len() == 1;
        let failed =
            |path: &Path| (!lone && path.is_suspect()) || path.is_down(self.options.max_fails);
        let hopeless = |(member, upstream): (usize, &Arc<Upstream>)| {
            !state.is_useful(member) || failed(upstream.path(carrier))
        };
        self.upstreams.iter().enumerate().all(hopeless)
    }

    /// Asks the same upstream again, for a reason that needs no budget.
    pub(crate) fn ask_again(
        &self,
        q: &mut Query<'_>,
        member: usize,
        carrier: Carrier,
        cause: Cause,
    ) -> Progress {
        let state = &*q.state;
        // Its reply to another attempt may have been malformed meanwhile.
        if state.started >= ATTEMPTS_PER_QUESTION_MAX || !state.is_useful(member) {
            return self.ask_next(q, cause);
        }
        self.start(q, member, carrier, true, cause);
        q.state.hedge_at = q.now.plus(self.patience(member, carrier));
        self.wait(q)
    }

    /// An upstream failed to answer properly.
    pub(crate) fn count_failure(
        &self,
        q: &mut Query<'_>,
        upstream: &Arc<Upstream>,
        carrier: Carrier,
    ) {
        q.state.failures += 1;
        upstream.path(carrier).failed();
        if self.options.max_fails > 0 {
            probes::start(q.worker, q.now, upstream, carrier);
        }
    }

    /// The upstream answered with an RCODE of `failover`. Whether another is to be asked.
    pub(crate) fn fails_over(&self, state: &mut State) -> bool {
        state.failovers += 1;
        let useful = self.upstreams.len().saturating_sub(state.malformed.count_ones() as usize);
        state.failovers < useful
    }
}
