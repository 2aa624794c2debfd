//! The ends of queries: what they held is given back, and followers of coalesced ones are told.

use super::attempts::State;
use super::{Parts, coalesce};
use crate::coalescing::{Mail, Member};
use std::sync::Arc;

/// Lets go of everything that outlives a resolution: attempts, the coalesced query, the place among the
/// concurrent questions. Does nothing for a resolution that holds none of it.
#[inline]
pub(crate) fn leave(state: &mut State, worker: &mut Parts) {
    if state.used {
        let_go(state, worker);
    }
}

fn let_go(state: &mut State, worker: &mut Parts) {
    state.forget_all(worker);
    coalesce::leave(state, worker);
    if let Some(count) = state.concurrent.take() {
        count.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
    }
}

impl Parts {
    /// Ends the coalesced query whose response is decided, if there is one.
    pub(crate) fn tell_followers(&mut self) {
        let Some((hash, leader)) = self.finished.query.take() else { return };
        let message = std::mem::take(&mut self.finished.message);
        self.tell(hash, leader, Some(&message));
        self.finished.message = message;
    }

    /// Ends the coalesced query of `leader`: each follower gets `message`, or hears that there is no
    /// response if that is `None`.
    pub(crate) fn tell(&mut self, hash: u64, leader: Member, message: Option<&[u8]>) {
        let mut followers = std::mem::take(&mut self.finished.followers);
        self.shared.in_flight.finish(hash, leader, message.is_some(), &mut followers);
        if !followers.is_empty() {
            let message: Option<Arc<[u8]>> = message.map(Arc::from);
            for follower in followers.drain(..) {
                let mail = Mail { ticket: follower.ticket, query: hash, message: message.clone() };
                self.deliver(follower.worker, mail);
            }
        }
        self.finished.followers = followers;
    }
}
