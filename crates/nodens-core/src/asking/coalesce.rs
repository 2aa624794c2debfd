//! The part of a job in the coalesced queries that [`crate::coalescing`] keeps.

use super::{Parts, State};
use crate::coalescing::{Mail, Member, Role};
use crate::time::Now;
use std::ops::Range;

fn me(state: &State, worker: &Parts) -> Member {
    Member { worker: worker.index, ticket: state.ticket }
}

/// The error of a query beyond those that may wait.
pub(crate) const TOO_MANY: &str = "too many queries wait for the same response";

/// Joins or starts the query for the message in `state`; false if as many wait for it as may. Queries of different `scope` do
/// not share an answer; `question` is where QNAME, QTYPE and QCLASS are in the message.
pub(crate) fn join(
    state: &mut State,
    worker: &mut Parts,
    now: Now,
    scope: &[u8],
    question: Range<usize>,
) -> bool {
    let me = me(state, worker);
    let key = &mut worker.scratch;
    key.clear();
    // The ID is not part of what is asked; it is 0 here.
    key.extend_from_slice(&state.message);
    if let Some(question) = key.get_mut(question) {
        question.make_ascii_lowercase();
    }
    key.extend_from_slice(scope);
    let role = worker.shared.in_flight.join(key, now, me);
    state.role = role.unwrap_or_default();
    role.is_some()
}

/// The query has its response and ends as soon as the handlers above have seen it: a job that has
/// the same query from then on finds it in their cache, so that it is never sent twice.
pub(crate) fn answered(state: &mut State, worker: &mut Parts, message: &[u8]) {
    let Role::Leader(hash) = std::mem::take(&mut state.role) else { return };
    worker.tell_followers();
    let leader = me(state, worker);
    worker.finished.query = Some((hash, leader));
    worker.finished.message.clear();
    worker.finished.message.extend_from_slice(message);
}

/// Ends the query, if the job is its leader: the followers learn that there is no response.
pub(crate) fn failed(state: &mut State, worker: &mut Parts) {
    // A follower stays one until it leaves: it must not be made the leader.
    let Role::Leader(hash) = state.role else { return };
    state.role = Role::Alone;
    worker.tell(hash, me(state, worker), None);
}

/// The job ends without a response: a follower takes over.
pub(crate) fn leave(state: &mut State, worker: &mut Parts) {
    if state.role == Role::Alone {
        return;
    }
    let me = me(state, worker);
    let shared = worker.shared.clone();
    let hash = match std::mem::take(&mut state.role) {
        Role::Alone => return,
        Role::Leader(hash) => hash,
        // The leader may have made this job the new one without its knowing.
        Role::Follower(hash) if shared.in_flight.leave(hash, me) => return,
        Role::Follower(hash) => hash,
    };
    if let Some(next) = shared.in_flight.pass_on(hash, me) {
        worker.deliver(next.worker, Mail { ticket: next.ticket, query: hash, message: None });
    }
}

/// A follower was told that there is no message: whether it is now the one to ask.
pub(crate) fn takes_over(state: &mut State, worker: &Parts) -> bool {
    let Role::Follower(hash) = state.role else { return false };
    let leader = worker.shared.in_flight.is_leader(hash, me(state, worker));
    state.role = if leader { Role::Leader(hash) } else { Role::Alone };
    leader
}
