//! The attempts to get one query answered: whom to ask next, when, and when to stop.
//!
//! The first attempt goes to the first upstream of the policy's order. A further one starts as
//! soon as an attempt fails, and also when a response takes longer than 99 of 100 responses of
//! that upstream took ([`Asking::patience`]). Then the earlier attempt stays in flight, and the first
//! response of the two counts. An attempt fails for good after `read_timeout`. Further attempts
//! have a budget, see [`retries`].

use super::retries::{self, Cause};
use super::{Asking, Parts, Progress, Query, coalesce};
use crate::action::Action;
use crate::coalescing::Role;
use crate::limits::{HEDGE_TIME_MAX, HEDGE_TIME_MIN, TRY_SUSPECT_EVERY};
use crate::ticket::Ticket;
use crate::time::Now;
use crate::upstream::{Ask, Carrier, Fault, Upstream};
use fastrand::Rng;
use std::sync::Arc;
use std::time::Duration;

/// What is remembered of a query while it is in flight.
#[derive(Debug, Default)]
pub struct State {
    /// The message to send upstream; its ID is the sender's to choose.
    pub message: Vec<u8>,
    /// The upstream that answered; the metadata `forward/upstream`.
    pub answered: Option<Arc<Upstream>>,
    pub(crate) ticket: Ticket,
    pub(crate) role: Role,
    /// The job counts for `max_concurrent`.
    pub(crate) concurrent: Option<Arc<std::sync::atomic::AtomicU32>>,
    pub(crate) order: super::policy::Order,
    pub(crate) cursor: usize,
    /// Attempts that may still be answered.
    pub(crate) pending: Vec<Attempt>,
    pub(crate) started: u32,
    pub(crate) failures: u32,
    pub(crate) failovers: usize,
    /// When to start another attempt although none has failed, monotonic nanoseconds.
    pub(crate) hedge_at: u64,
    pub(crate) hedge_wait: Duration,
    /// Upstreams (by bit) whose broken connection was made good once.
    mended: u64,
    /// Upstreams (by bit) that were asked, since all had been.
    pub(crate) asked: u64,
    /// All upstreams (by bit) that were asked.
    pub(crate) ever_asked: u64,
    /// Upstreams (by bit) whose reply was malformed: they would send the same again.
    pub(crate) malformed: u64,
    pub(crate) timed_out: bool,
    /// What became of a retry for which there was no budget.
    pub(crate) put_off: retries::PutOff,
    /// Whether there is, or was, one that needs none.
    pub(crate) spare: retries::Spare,
    /// There is something to forget.
    pub(super) used: bool,
}

#[derive(Debug)]
pub(crate) struct Attempt {
    pub(super) number: u32,
    pub(super) member: usize,
    pub(crate) carrier: Carrier,
    pub(crate) upstream: Arc<Upstream>,
    /// When it began.
    pub(super) asked_ns: u64,
    /// When its query left, as far as is known.
    pub(super) sent_ns: u64,
    /// Its query waits for a connection that is being made, which has a time of its own.
    pub(super) connects: bool,
    pub(crate) late: bool,
    pub(super) given_up: bool,
}

/// An attempt that was answered.
pub(crate) struct Answered {
    pub carrier: Carrier,
    pub member: usize,
    pub upstream: Arc<Upstream>,
    pub took: Duration,
}

impl State {
    /// Forgets everything but buffers.
    #[inline]
    pub fn clear(&mut self) {
        if self.used {
            self.forget_query();
        }
    }

    fn forget_query(&mut self) {
        self.used = false;
        self.message.clear();
        self.answered = None;
        self.concurrent = None;
        self.role = Role::Alone;
        self.pending.clear();
        (self.started, self.failures, self.failovers) = (0, 0, 0);
        (self.cursor, self.hedge_at) = (0, 0);
        (self.mended, self.asked, self.ever_asked, self.malformed) = (0, 0, 0, 0);
        self.timed_out = false;
        self.put_off = retries::PutOff::default();
        self.spare = retries::Spare::default();
    }

    /// Whether there being no response says something of the question: an upstream had all its time, or failed otherwise,
    /// and it was not for want of a retry. A job that waited for another's response knows nothing of that.
    pub(crate) fn is_conclusive(&self) -> bool {
        self.failures > 0 && self.put_off.remark().is_empty()
    }

    /// Octets of memory that the query takes: in its buffers, as what others compare theirs with, and on its way
    /// into connections.
    #[inline]
    pub(crate) fn octets(&self) -> usize {
        let shared = usize::from(matches!(self.role, Role::Leader(_)));
        let unsent = self.pending.iter().filter(|attempt| !attempt.carrier.is_datagram()).count();
        let copies = 1 + shared + unsent;
        copies * self.message.capacity() + self.pending.capacity() * size_of::<Attempt>()
    }

    /// Whether an attempt may still be answered.
    pub(crate) fn waits(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Takes the attempt out, if it is one of this resolution that still counts.
    fn take(&mut self, number: u32) -> Option<Attempt> {
        let at = self.pending.iter().position(|attempt| attempt.number == number)?;
        let attempt = self.pending.swap_remove(at);
        attempt.upstream.path(attempt.carrier).arrived();
        Some(attempt)
    }

    /// A random upstream that may still answer and was not asked yet, or after all were, if `again`.
    fn any_of(&mut self, upstreams: usize, again: bool, now: Now, rng: &mut Rng) -> Option<usize> {
        let useful = |member: &usize| self.is_useful(*member);
        if again && (0..upstreams).filter(useful).all(|member| self.asked & bit(member) != 0) {
            self.asked = 0;
        }
        let left = |member: &usize| {
            let is_useful = self.is_useful(*member) && !self.connects_to(*member, now);
            is_useful && self.asked & bit(*member) == 0
        };
        let count = (0..upstreams).filter(left).count();
        if count == 0 { None } else { (0..upstreams).filter(left).nth(rng.usize(..count)) }
    }

    /// Nobody waits any more.
    pub(crate) fn forget_all(&mut self, worker: &mut Parts) {
        if self.pending.is_empty() {
            return;
        }
        for attempt in self.pending.drain(..) {
            attempt.upstream.path(attempt.carrier).arrived();
            let (ticket, attempt) = (self.ticket, attempt.number);
            worker.actions.push(Action::Forget { ticket, attempt });
        }
    }
}

/// The place of an upstream in a set of them; no [`Asking`] has more than 64.
pub(crate) fn bit(member: usize) -> u64 {
    1_u64.checked_shl(member as u32).unwrap_or(0)
}

impl Asking {
    /// Gets ready to ask.
    pub(crate) fn prepare(&self, q: &mut Query<'_>) {
        let worker = &mut *q.worker;
        let state = &mut *q.state;
        state.clear();
        state.used = true;
        state.ticket = worker.ticket;
        // Where no health check says that an upstream is well again, a question does now and then.
        let wary = self.options.max_fails > 0 || worker.rng.u32(..TRY_SUSPECT_EVERY) != 0;
        state.order = self.options.policy.order(&self.upstreams, q.carrier, wary, &mut worker.rng);
    }

    /// Whom a query that was [prepared](Self::prepare) goes to first.
    pub(crate) fn first(&self, state: &State) -> Option<&Arc<Upstream>> {
        self.upstreams.get(state.order.get(state.cursor)?)
    }

    /// Starts an attempt with whoever is next, or fails if there is nothing left to try.
    pub(crate) fn ask_next(&self, q: &mut Query<'_>, cause: Cause) -> Progress {
        let carrier = q.carrier;
        let now = q.now;
        if self.may_start(q.state) {
            // Attempts that fail at once must not follow each other without a pause for ever.
            let state = &mut *q.state;
            if state.failures >= self.two_rounds() && state.hedge_at > now.mono_ns {
                return self.wait(q);
            }
            if let Some(member) = self.substitute(q.state, carrier) {
                return self.ask_member(q, member, carrier, Cause::Substitute);
            }
            let Some(credit) = self.take_credit(q, cause) else { return self.put_off(q) };
            if let Some(member) = self.pick(q, carrier) {
                return self.ask_member(q, member, carrier, cause);
            }
            self.give_back(q, credit);
            // All are down; some may be up again when this question still waits.
            q.state.hedge_at = now.plus(HEDGE_TIME_MAX);
        }
        if q.state.waits() { self.wait(q) } else { self.fail(q) }
    }

    /// Asks this upstream, and another one as well when it takes longer than usual.
    pub(super) fn ask_member(
        &self,
        q: &mut Query<'_>,
        member: usize,
        carrier: Carrier,
        cause: Cause,
    ) -> Progress {
        self.start(q, member, carrier, false, cause);
        let patience = self.patience(member, carrier);
        let state = &mut *q.state;
        // Once all were asked, it is more likely the query that takes long.
        state.hedge_wait = if state.started as usize <= self.upstreams.len() {
            patience
        } else {
            patience.max((state.hedge_wait * 4).min(HEDGE_TIME_MAX))
        };
        state.hedge_at = q.now.plus(state.hedge_wait);
        self.wait(q)
    }

    pub(crate) fn start(
        &self,
        q: &mut Query<'_>,
        member: usize,
        carrier: Carrier,
        elsewhere: bool,
        cause: Cause,
    ) {
        let Some(upstream) = self.upstreams.get(member) else { return };
        let carrier = upstream.carrier(carrier);
        self.book(q, cause);
        let worker = &mut *q.worker;
        let state = &mut *q.state;
        let number = worker.attempt_number();
        let same = |attempt: &Attempt| attempt.member == member && attempt.carrier == carrier;
        let elsewhere = elsewhere || state.pending.iter().any(same);
        state.started += 1;
        state.asked |= bit(member);
        state.ever_asked |= bit(member);
        upstream.path(carrier).departed();
        upstream.series.count_request(&mut worker.cells);
        let (ticket, sent_ns, upstream) = (state.ticket, q.now.mono_ns, upstream.clone());
        state.pending.push(Attempt {
            number,
            member,
            carrier,
            upstream: upstream.clone(),
            asked_ns: sent_ns,
            sent_ns,
            connects: false,
            late: false,
            given_up: false,
        });
        let ask = Ask { ticket, attempt: number, upstream, carrier, elsewhere };
        worker.actions.push(Action::Ask(ask));
    }

    /// The next upstream that is not down; if all are, any that was not asked yet, because the
    /// health checks may be wrong, or none (`failfast_all_unhealthy_upstreams`). None whose reply was
    /// malformed.
    fn pick(&self, q: &mut Query<'_>, carrier: Carrier) -> Option<usize> {
        let worker = &mut *q.worker;
        let state = &mut *q.state;
        let mut all_down = true;
        for _ in 0..self.upstreams.len() {
            let member = state.order.get(state.cursor)?;
            state.cursor += 1;
            let upstream = self.upstreams.get(member)?;
            if upstream.path(carrier).is_down(self.options.max_fails) {
                continue;
            }
            self.note_recovery(worker, q.now, upstream, carrier);
            if state.is_useful(member) && !state.connects_to(member, q.now) {
                return Some(member);
            }
            all_down = false;
        }
        if all_down {
            worker.cells.add(self.series.all_down, 1);
            self.note_outage(worker, q.now, carrier);
        }
        if self.options.failfast || self.upstreams.is_empty() {
            return None;
        }
        // Beside one that is up the health checks are right, most likely: once is enough for others.
        state.any_of(self.upstreams.len(), all_down, q.now, &mut worker.rng)
    }

    /// How long to wait for this upstream before somebody else is asked as well.
    pub(crate) fn patience(&self, member: usize, carrier: Carrier) -> Duration {
        let upstream = self.upstreams.get(member);
        let p99 = upstream.map_or(Duration::ZERO, |upstream| upstream.path(carrier).p99());
        p99.clamp(HEDGE_TIME_MIN, HEDGE_TIME_MAX)
    }

    /// Sets the timer to whatever comes first.
    pub(crate) fn wait(&self, q: &mut Query<'_>) -> Progress {
        let state = &*q.state;
        let timeout = u64::try_from(self.options.read_timeout.as_nanos()).unwrap_or(u64::MAX);
        let open = state.pending.iter().filter(|attempt| !attempt.given_up);
        let mut at = q.deadline_ns;
        for attempt in open {
            // One whose query has not left is looked at again before its time can be over.
            let since = if attempt.connects { q.now.mono_ns } else { attempt.sent_ns };
            at = at.min(since.saturating_add(timeout));
        }
        if self.may_start(state) {
            at = at.min(state.hedge_at);
        }
        // A timer in the past would fire again before the clock has moved.
        q.set_timer(at.max(q.now.mono_ns.saturating_add(1)));
        Progress::Waits
    }

    /// Notes an answer; `None` if nobody waits for it.
    pub(crate) fn on_reply(&self, q: &mut Query<'_>, number: u32) -> Option<Answered> {
        let attempt = q.state.take(number)?;
        // How long a connection took to be made is no time of its answers, but one of the query.
        let took = q.now.since(attempt.asked_ns);
        attempt.upstream.path(attempt.carrier).replied(q.now, q.now.since(attempt.sent_ns));
        for other in q.state.pending.iter().filter(|other| !other.connects) {
            other.upstream.path(other.carrier).outrun(q.now.since(other.sent_ns));
        }
        let Attempt { member, carrier, upstream, .. } = attempt;
        Some(Answered { carrier, member, upstream, took })
    }

    pub(crate) fn on_failure(&self, q: &mut Query<'_>, number: u32, fault: &Fault) -> Progress {
        let Some(attempt) = q.state.take(number) else { return Progress::Waits };
        let state = &mut *q.state;
        let bit = bit(attempt.member);
        let stale = !attempt.carrier.is_datagram() && matches!(fault, Fault::Broken(_));
        if stale && state.mended & bit == 0 && self.options.max_connect_attempts != Some(1) {
            // A connection that was idle may have been closed by its peer at any time.
            state.mended |= bit;
            return self.ask_again(q, attempt.member, attempt.carrier, Cause::Repair);
        }
        state.timed_out = matches!(fault, Fault::Timeout(_));
        // TCP after a truncated response: the query was delivered over UDP.
        let is_first_way = attempt.carrier == attempt.upstream.carrier(q.carrier);
        state.put_off.has_credit |= is_first_way && retries::is_lost(attempt.carrier, fault);
        let path = attempt.upstream.path(attempt.carrier);
        if matches!(fault, Fault::Timeout(_)) && path.has_replied_since(attempt.sent_ns) {
            state.spare.allow();
        }
        *q.error = fault.to_string();
        match fault {
            Fault::Full(_) => q.state.failures += 1,
            _ => self.count_failure(q, &attempt.upstream, attempt.carrier),
        }
        self.ask_next(q, Cause::Retry)
    }

    /// Ends without an answer.
    pub(crate) fn fail(&self, q: &mut Query<'_>) -> Progress {
        if q.error.is_empty() {
            *q.error = self.reason(q.state);
        }
        q.error.insert_str(0, q.state.put_off.remark());
        if q.state.role != Role::Alone {
            self.remember_error(q.error);
        }
        coalesce::failed(q.state, q.worker);
        Progress::Failed
    }

    fn reason(&self, state: &State) -> String {
        let late = state.pending.last();
        late.map_or_else(
            || "no healthy proxies".to_owned(),
            |late| format!("read {} ->{}: i/o timeout", late.carrier.name(), late.upstream.name),
        )
    }
}
