//! Primaries that did not answer: for a while zones that have another pass them over.

use super::exchange::nanoseconds;
use crate::limits::{PRIMARY_DOWN_TIME, PRIMARY_HINT_INTERVAL};
use std::collections::HashMap;
use std::net::SocketAddr;

#[derive(Debug)]
struct Entry {
    /// When it last failed, or was last tried.
    since: u64,
    /// When it is tried again.
    until: u64,
    /// Whether a NOTIFY has had it tried at once.
    hinted: bool,
}

/// The primaries, by their addresses. Times are monotonic nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Down(HashMap<SocketAddr, Entry>);

impl Down {
    /// It could not be reached, or said nothing. True if that is new.
    pub(super) fn note(&mut self, address: SocketAddr, now: u64) -> bool {
        let time = nanoseconds(PRIMARY_DOWN_TIME);
        // Addresses that nothing was asked for so long are of no zone any more, or the next zone tries them.
        self.0.retain(|_, entry| entry.until.saturating_add(time) > now);
        let (until, mut is_new) = (now.saturating_add(time), false);
        let entry = self.0.entry(address).or_insert_with(|| {
            is_new = true;
            Entry { since: now, until, hinted: false }
        });
        (entry.since, entry.until) = (now, until);
        is_new
    }

    /// Whether it is to be passed over.
    pub(super) fn has(&self, address: SocketAddr, now: u64) -> bool {
        self.0.get(&address).is_some_and(|entry| entry.until > now)
    }

    /// It is asked for one zone: until that has an answer, others that need not wait for it pass it over as before.
    pub(super) fn tried(&mut self, address: SocketAddr, now: u64) {
        if self.0.contains_key(&address) {
            self.note(address, now);
        }
    }

    /// It has said something.
    pub(super) fn heard(&mut self, address: SocketAddr) {
        self.0.remove(&address);
    }

    /// A NOTIFY seems to come from it, so it may be tried again: at once the first time, and then not more often than
    /// every [`PRIMARY_HINT_INTERVAL`], as anybody can send that.
    pub(super) fn hint(&mut self, address: SocketAddr, now: u64) {
        let Some(entry) = self.0.get_mut(&address) else { return };
        let soonest = match std::mem::replace(&mut entry.hinted, true) {
            true => entry.since.saturating_add(nanoseconds(PRIMARY_HINT_INTERVAL)),
            false => now,
        };
        entry.until = entry.until.min(soonest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_primary_that_did_not_answer_is_tried_for_one_zone_at_a_time() {
        let (mut down, address) = (Down::default(), "192.0.2.1:53".parse().unwrap());
        down.tried(address, 0);
        assert!(!down.has(address, 0));
        assert!(down.note(address, 0) && !down.note(address, 0));
        assert!(down.has(address, 59 * SECOND) && !down.has(address, 60 * SECOND));
        down.tried(address, 60 * SECOND);
        assert!(down.has(address, 119 * SECOND) && !down.has(address, 120 * SECOND));
        down.heard(address);
        assert!(!down.has(address, 60 * SECOND));
        assert!(down.note(address, 0));
        // One that is gone for good is not kept.
        down.note("192.0.2.2:53".parse().unwrap(), 121 * SECOND);
        assert_eq!(down.0.len(), 1);
    }

    #[test]
    fn a_notify_has_a_primary_tried_and_many_do_not_more_often() {
        let (mut down, address) = (Down::default(), "192.0.2.1:53".parse().unwrap());
        down.note(address, 0);
        down.hint(address, 0);
        assert!(!down.has(address, 0));
        let mut tries = 0;
        for tenth in 1..600 {
            let now = tenth * SECOND / 10;
            down.hint(address, now);
            if !down.has(address, now) {
                down.tried(address, now);
                tries += 1;
            }
        }
        assert_eq!(tries, 6);
    }
}
