//! What becomes of a query whose response takes long.

use super::attempts::Attempt;
use super::{Asking, Cause, Policy, Progress, Query, State, probes};
use crate::action::Action;
use crate::coalescing::Role;
use crate::limits::HEDGE_TIME_MIN;
use crate::upstream::Carrier;

impl Asking {
    pub(crate) fn on_timer(&self, q: &mut Query<'_>) -> Progress {
        let now = q.now;
        let state = &mut *q.state;
        if now.mono_ns >= q.deadline_ns {
            state.timed_out = true;
            return self.fail(q);
        }
        if matches!(state.role, Role::Follower(_)) {
            return Progress::Waits;
        }
        let ticket = state.ticket;
        for attempt in &mut state.pending {
            let is_over =
                !attempt.connects && now.since(attempt.sent_ns) >= self.options.read_timeout;
            if !attempt.given_up && is_over {
                attempt.given_up = true;
                let attempt = attempt.number;
                q.worker.actions.push(Action::GiveUp { ticket, attempt });
            }
        }
        let due = state.hedge_at <= now.mono_ns && self.may_start(state);
        if !due {
            return self.wait(q);
        }
        self.mark_late(q);
        if let Some(way) = self.keeps_to(q.state) {
            return self.ask_once_more(q, way);
        }
        let state = &mut *q.state;
        let useful = |member: &usize| state.is_useful(*member);
        let mut useful = (0..self.upstreams.len()).filter(useful);
        if state.waits() && useful.all(|member| state.connects_to(member, now)) {
            state.hedge_at = now.plus(state.hedge_wait.max(HEDGE_TIME_MIN));
            return self.wait(q);
        }
        self.ask_next(q, Cause::Retry)
    }

    /// Notes that attempts take longer than usual. Until its query has left that says nothing of an upstream,
    /// but for the time that its connections take.
    pub(crate) fn mark_late(&self, q: &mut Query<'_>) {
        for attempt in &mut *q.state.pending {
            if attempt.late || attempt.connects(q.now) {
                continue;
            }
            attempt.late = true;
            let path = attempt.upstream.path(attempt.carrier);
            path.late();
            if path.is_suspect() && self.options.max_fails > 0 {
                probes::start(q.worker, q.now, &attempt.upstream, attempt.carrier);
            }
        }
    }

    /// The upstream that the query stays with under [`Policy::Sequential`]: the next one may have other data, such as
    /// that of the Internet, and is queried once the one before has failed.
    fn keeps_to(&self, state: &State) -> Option<(usize, Carrier)> {
        let is_open = |attempt: &&Attempt| !attempt.given_up && state.is_useful(attempt.member);
        let attempt = state.pending.iter().rev().find(is_open)?;
        matches!(self.options.policy, Policy::Sequential)
            .then_some((attempt.member, attempt.carrier))
    }

    /// The datagram may be lost, or the connection dead.
    fn ask_once_more(&self, q: &mut Query<'_>, (member, carrier): (usize, Carrier)) -> Progress {
        if q.state.connects_to(member, q.now) {
            q.state.hedge_at = q.now.plus(q.state.hedge_wait.max(HEDGE_TIME_MIN));
            return self.wait(q);
        }
        if self.take_credit(q, Cause::Retry).is_none() {
            return self.put_off(q);
        }
        self.ask_member(q, member, carrier, Cause::Retry)
    }
}
