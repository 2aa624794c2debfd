//! Queries that have timed out, and what connections still keep of them.
//!
//! A connection keeps the stream of such a query, so that a late answer is seen as one. It forgets it
//! when the server allows no other stream, and at the latest before its ID is used again.

use super::carrier::Taken;
use super::{Connection, Engine, Handed};

/// Nanoseconds between looks for timeouts.
const EXPIRE_STEP: u64 = 1_000_000;

impl Connection {
    /// Asks a query. `is_past` says whether an answer to what was sent at a time would not even be late.
    pub(super) fn ask(&mut self, handed: &Handed, is_past: impl Fn(u64) -> bool) -> Taken {
        let past = self.given_up.partition_point(|(sent, _)| is_past(*sent));
        self.forget(past);
        match self.carrier.ask(handed.id, &handed.message) {
            Taken::Full if !self.given_up.is_empty() => {
                self.forget(self.given_up.len());
                self.carrier.ask(handed.id, &handed.message)
            }
            taken => taken,
        }
    }

    /// Lets the carrier forget the first `count` of the queries that have timed out.
    fn forget(&mut self, count: usize) {
        if count > 0 {
            let ids = self.given_up.drain(..count).map(|(_, id)| id).collect();
            self.carrier.forget(&ids);
        }
    }
}

impl Engine<'_> {
    pub(super) fn housekeeping(&mut self) {
        let now = self.shard.now();
        self.look_at_timers(now);
        if now >= self.next_expire {
            let any = self.give_up(now);
            self.next_expire = now + EXPIRE_STEP;
            self.close_left();
            // Where a query was given up, there may be room for another.
            for client in 0..if any { self.clients.len() } else { 0 } {
                if self.with_client(client, |it| !it.hand.is_empty()) == Some(true) {
                    self.mark(client);
                }
            }
        }
        self.ticker.turn(&self.shard.ticks, &self.session, now);
    }

    /// Gives up what has timed out; whether there was any.
    fn give_up(&mut self, now: u64) -> bool {
        let (places, connections) = (&self.places, &mut self.connections);
        self.session.expire(now, |client, id, slot| {
            let key = places.get(&(client, slot.lane));
            if let Some(connection) = key.and_then(|key| connections.get_mut(*key)) {
                connection.given_up.push_back((slot.sent, id));
            }
        })
    }
}
