//! Queries by the socket and ID they were sent with: in flight, and for some time after it. No I/O, no clock.

use lab_workload::recorded::Carrier;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

/// A socket, by a number that no other gets, and an ID on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tag {
    pub(crate) serial: u64,
    pub(crate) id: u16,
}

/// How far a query has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Waiting,
    Answered,
    GivenUp,
    /// Answered after it was given up.
    AnsweredLate,
    Failed,
}

/// A query that was sent.
#[derive(Clone, Debug)]
pub(crate) struct Flying {
    pub(crate) state: State,
    /// Counts queries: two uses of one tag differ in it.
    pub(crate) item: u64,
    /// Its packet.
    pub(crate) number: u64,
    pub(crate) carrier: Carrier,
    pub(crate) intended: u64,
    pub(crate) sent: u64,
    pub(crate) qtype: u16,
    pub(crate) octets: u64,
    /// A hash of what it asks, if that is one question.
    pub(crate) question: Option<u64>,
    pub(crate) is_update: bool,
    /// The response that was recorded.
    pub(crate) recorded: Option<Vec<u8>>,
    /// Where its socket is.
    pub(crate) lane: usize,
}

/// IDs of a socket in use above which those of answered queries do not rest any longer.
const CROWDED: usize = 1 << 15;

pub(crate) struct Flight {
    known: HashMap<Tag, Flying>,
    /// In the order of sending: up to the timeout, and from there until the ID may be used again.
    waiting: VecDeque<(u64, Tag, u64)>,
    resting: VecDeque<(u64, Tag, u64)>,
    timeout: u64,
    late_end: u64,
}

impl Flight {
    /// Queries time out after `timeout` nanoseconds, and their IDs rest until `late_end` after sending. There is
    /// memory for `expected` of them: making room while queries are sent would delay them.
    pub(crate) fn new(timeout: u64, late_end: u64, expected: usize) -> Self {
        let (waiting, resting) =
            (VecDeque::with_capacity(expected), VecDeque::with_capacity(expected));
        Self { known: HashMap::with_capacity(expected), waiting, resting, timeout, late_end }
    }

    /// The recorded ID, or the next one that is free on the socket with `used` IDs; `None` if there is none.
    pub(crate) fn free_id(&self, serial: u64, recorded: u16, used: usize) -> Option<u16> {
        let is_free = |id: &u16| match self.known.get(&Tag { serial, id: *id }) {
            None => true,
            Some(flying) => used > CROWDED && flying.state != State::Waiting,
        };
        (0..=u16::MAX).map(|step| recorded.wrapping_add(step)).find(is_free)
    }

    /// Takes a query that was sent; whether its tag was not in use.
    pub(crate) fn sent(&mut self, tag: Tag, flying: Flying) -> bool {
        self.waiting.push_back((flying.sent, tag, flying.item));
        match self.known.entry(tag) {
            Entry::Vacant(entry) => {
                entry.insert(flying);
                true
            }
            Entry::Occupied(mut entry) => {
                entry.insert(flying);
                false
            }
        }
    }

    pub(crate) fn get_mut(&mut self, tag: Tag) -> Option<&mut Flying> {
        self.known.get_mut(&tag)
    }

    /// Gives up the oldest query if it was sent longer than the timeout before `now`. An answer after exactly the
    /// timeout is in time.
    pub(crate) fn expire(&mut self, now: u64) -> Option<(Tag, Flying)> {
        let deadline = now.saturating_sub(self.timeout);
        while let Some(&(sent, tag, item)) = self.waiting.front().filter(|first| first.0 < deadline)
        {
            self.waiting.pop_front();
            self.resting.push_back((sent, tag, item));
            let found = self.known.get_mut(&tag).filter(|flying| flying.item == item);
            if let Some(flying) = found.filter(|flying| flying.state == State::Waiting) {
                flying.state = State::GivenUp;
                let recorded = flying.recorded.take();
                return Some((tag, Flying { recorded, ..flying.clone() }));
            }
        }
        None
    }

    /// Whether the oldest query would be given up at `now`.
    pub(crate) fn is_overdue(&self, now: u64) -> bool {
        let deadline = now.saturating_sub(self.timeout);
        self.waiting.front().is_some_and(|first| first.0 < deadline)
    }

    /// Forgets the oldest query whose ID has rested long enough: its tag and where its socket is.
    pub(crate) fn release(&mut self, now: u64) -> Option<(Tag, usize)> {
        let deadline = now.saturating_sub(self.late_end);
        while let Some(&(_, tag, item)) = self.resting.front().filter(|first| first.0 < deadline) {
            self.resting.pop_front();
            if let Entry::Occupied(entry) = self.known.entry(tag)
                && entry.get().item == item
            {
                return Some((tag, entry.remove().lane));
            }
        }
        None
    }

    /// Takes out a query in flight, whichever, because the run is stopped.
    pub(crate) fn interrupt(&mut self) -> Option<Flying> {
        while let Some((_, tag, item)) = self.waiting.pop_front() {
            let found = self.known.get_mut(&tag).filter(|flying| flying.item == item);
            if let Some(flying) = found.filter(|flying| flying.state == State::Waiting) {
                flying.state = State::Failed;
                return Some(flying.clone());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flying(item: u64, sent: u64) -> Flying {
        Flying {
            state: State::Waiting,
            item,
            number: item + 1,
            carrier: Carrier::Udp,
            intended: sent,
            sent,
            qtype: 1,
            octets: 30,
            question: None,
            is_update: false,
            recorded: Some(vec![7]),
            lane: 0,
        }
    }

    #[test]
    fn an_id_in_use_is_not_given_again_until_it_has_rested() {
        let mut flight = Flight::new(100, 300, 0);
        let tag = Tag { serial: 1, id: 65_535 };
        assert_eq!(flight.free_id(1, 65_535, 0), Some(65_535));
        assert!(flight.sent(tag, flying(0, 1_000)));
        assert_eq!(flight.free_id(1, 65_535, 1), Some(0));
        assert_eq!(flight.free_id(2, 65_535, 0), Some(65_535), "another socket");
        assert!(!flight.is_overdue(1_100) && flight.expire(1_100).is_none(), "exactly in time");
        assert!(flight.is_overdue(1_101));
        let (_, lost) = flight.expire(1_101).unwrap();
        assert_eq!((lost.item, lost.recorded), (0, Some(vec![7])));
        assert_eq!(flight.get_mut(tag).unwrap().state, State::GivenUp);
        assert!(flight.release(1_300).is_none());
        assert_eq!(flight.free_id(1, 65_535, 1), Some(0), "it rests");
        assert_eq!(flight.free_id(1, 65_535, CROWDED + 1), Some(65_535), "no room for rest");
        assert_eq!(flight.release(1_301), Some((tag, 0)));
        assert_eq!(flight.free_id(1, 65_535, 0), Some(65_535));
    }

    #[test]
    fn a_tag_that_was_used_again_is_not_ended_by_its_first_use() {
        let mut flight = Flight::new(100, 300, 0);
        let tag = Tag { serial: 1, id: 5 };
        flight.sent(tag, flying(0, 1_000));
        flight.get_mut(tag).unwrap().state = State::Answered;
        assert!(!flight.sent(tag, flying(1, 1_050)));
        assert!(flight.expire(1_120).is_none() && flight.release(1_320).is_none());
        assert_eq!(flight.expire(1_160).unwrap().1.item, 1);
        assert_eq!(flight.release(1_360), Some((tag, 0)));
        flight.sent(tag, flying(2, 2_000));
        assert_eq!(flight.interrupt().unwrap().item, 2);
        assert!(flight.interrupt().is_none());
    }
}
