//! The ends of flights: those who wait are told.

use super::WorkerState;
use crate::flights::{Mail, Waiter};
use std::sync::Arc;

impl WorkerState {
    /// Ends the flight whose answer is decided, if there is one.
    pub(crate) fn finish_landing(&mut self) {
        let Some((hash, owner)) = self.landing.flight.take() else { return };
        let message = std::mem::take(&mut self.landing.message);
        self.tell(hash, owner, Some(&message));
        self.landing.message = message;
    }

    /// Ends the flight of `owner` and tells all who wait for it; without a message, that there is
    /// none to be had.
    pub(crate) fn tell(&mut self, hash: u64, owner: Waiter, message: Option<&[u8]>) {
        let mut waiters = std::mem::take(&mut self.landing.waiters);
        self.shared.flights.land(hash, owner, &mut waiters);
        if !waiters.is_empty() {
            let message: Option<Arc<[u8]>> = message.map(Arc::from);
            for waiter in waiters.drain(..) {
                let mail = Mail { ticket: waiter.ticket, flight: hash, message: message.clone() };
                self.deliver(waiter.worker, mail);
            }
        }
        self.landing.waiters = waiters;
    }
}
