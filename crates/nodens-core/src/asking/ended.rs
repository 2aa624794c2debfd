//! The ends of coalesced queries: followers are told.

use super::Parts;
use crate::coalescing::{Mail, Member};
use std::sync::Arc;

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
        self.shared.in_flight.finish(hash, leader, &mut followers);
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
