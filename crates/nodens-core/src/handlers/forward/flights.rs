//! The part of a job in the flights that [`crate::flights`] keeps.

use super::State;
use crate::flights::{Mail, Seat, Waiter};
use crate::time::Now;
use crate::worker::WorkerState;
use std::ops::Range;

fn me(state: &State, worker: &WorkerState) -> Waiter {
    Waiter { worker: worker.index, ticket: state.ticket }
}

/// Joins or starts the flight for the message in `state`. `scope` tells apart those who must not
/// share an answer; `question` is where QNAME, QTYPE and QCLASS are in the message.
pub(super) fn board(
    state: &mut State,
    worker: &WorkerState,
    now: Now,
    scope: &[u8],
    question: Range<usize>,
) {
    state.key.clear();
    // The ID is not part of what is asked; it is 0 here.
    state.key.extend_from_slice(&state.message);
    if let Some(question) = state.key.get_mut(question) {
        question.make_ascii_lowercase();
    }
    state.key.extend_from_slice(scope);
    state.seat = worker.shared.flights.board(&state.key, now, me(state, worker));
}

/// The flight has its answer and ends as soon as the handlers above have seen it: whoever asks
/// the same from then on finds it in their cache, so there is no moment to ask again in.
pub(super) fn approach(state: &mut State, worker: &mut WorkerState, message: &[u8]) {
    let Seat::Owner(hash) = std::mem::take(&mut state.seat) else { return };
    worker.finish_landing();
    let owner = me(state, worker);
    worker.landing.flight = Some((hash, owner));
    worker.landing.message.clear();
    worker.landing.message.extend_from_slice(message);
}

/// Ends the flight, if the job owns one: all who wait learn that there is no answer.
pub(super) fn crash(state: &mut State, worker: &mut WorkerState) {
    // One who waits keeps its seat until it leaves it: it must not be made the one to ask.
    let Seat::Owner(hash) = state.seat else { return };
    state.seat = Seat::Alone;
    worker.tell(hash, me(state, worker), None);
}

/// The job ends without having landed: somebody else takes over.
pub(super) fn bail_out(state: &mut State, worker: &mut WorkerState) {
    if state.seat == Seat::Alone {
        return;
    }
    let me = me(state, worker);
    let shared = worker.shared.clone();
    let flights = &shared.flights;
    let hash = match std::mem::take(&mut state.seat) {
        Seat::Alone => return,
        Seat::Owner(hash) => hash,
        // The owner may have made this job the new one without its knowing.
        Seat::Waiter(hash) if flights.step_out(hash, me) => return,
        Seat::Waiter(hash) => hash,
    };
    if let Some(next) = flights.hand_over(hash, me) {
        worker.deliver(next.worker, Mail { ticket: next.ticket, flight: hash, message: None });
    }
}

/// A waiter was told that there is no message: whether it is now the one to ask.
pub(super) fn takes_over(state: &mut State, worker: &WorkerState) -> bool {
    let Seat::Waiter(hash) = state.seat else { return false };
    let owner = worker.shared.flights.is_owner(hash, me(state, worker));
    state.seat = if owner { Seat::Owner(hash) } else { Seat::Alone };
    owner
}
