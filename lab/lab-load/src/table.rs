//! The queries in flight on one socket, by ID, and the IDs that must rest before they are reused.

use crate::rng;
use nodens_wire::Type;
use std::collections::VecDeque;

/// How many IDs are looked at for a free one before giving up for now.
const SCAN_MAX: usize = 256;

/// What became of the query that last used an ID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Never used.
    Free,
    /// In flight.
    Waiting,
    /// Answered in time: another answer is a duplicate.
    Answered,
    /// Given up after the timeout: an answer is late.
    GivenUp,
    /// Refused, or lost with its connection: nothing can answer it.
    Failed,
    /// Given up and answered late: another answer is a duplicate.
    AnsweredLate,
}

/// One use of an ID.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// The item of the workload.
    pub(crate) item: u64,
    /// When it should have been sent, in nanoseconds from the start.
    pub(crate) intended: u64,
    /// When it was sent.
    pub(crate) sent: u64,
    /// When its first octet was given to the kernel.
    pub(crate) wrote: u64,
    /// The connection it was asked on, counted from 1 for each client; 0 for none.
    pub(crate) lane: u32,
    /// QTYPE; 0 if its message has no question.
    pub(crate) qtype: Type,
    /// Octets of its message.
    pub(crate) octets: u16,
    pub(crate) state: State,
    /// The bits of the ID above the index: another each time.
    salt: u16,
}

/// An ID that was never used.
const UNUSED: Slot = Slot {
    item: 0,
    intended: 0,
    sent: 0,
    wrote: 0,
    lane: 0,
    qtype: Type(0),
    octets: 0,
    state: State::Free,
    salt: 0,
};

/// How long IDs rest, in nanoseconds from when their query was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest {
    /// After an answer.
    pub(crate) answered: u64,
    /// After being given up: the timeout and the window for late answers.
    pub(crate) given_up: u64,
}

pub(crate) struct Table {
    slots: Vec<Slot>,
    bits: u32,
    next: usize,
    /// `(ID, sent)` in the order of sending; entries of settled queries are dropped lazily.
    order: VecDeque<(u16, u64)>,
    waiting: usize,
    rest: Rest,
    seed: u64,
    issued: u64,
}

impl Table {
    /// A table of `capacity` IDs, rounded up to a power of two and at most 65,536.
    pub(crate) fn new(capacity: usize, rest: Rest, seed: u64) -> Self {
        let capacity = capacity.clamp(16, 1 << 16).next_power_of_two();
        Self {
            slots: vec![UNUSED; capacity],
            bits: capacity.ilog2(),
            next: 0,
            order: VecDeque::new(),
            waiting: 0,
            rest,
            seed,
            issued: 0,
        }
    }

    /// Doubles the IDs up to `most`; false if that is not possible. Every use of an ID stays.
    pub(crate) fn grow(&mut self, most: usize) -> bool {
        let doubled = self.slots.len() * 2;
        if doubled > most.min(1 << 16) {
            return false;
        }
        for (at, mut slot) in
            std::mem::replace(&mut self.slots, vec![UNUSED; doubled]).into_iter().enumerate()
        {
            // The lowest bit of the salt becomes the highest of the index: the ID is the same.
            let at = at | usize::from(slot.salt & 1) << self.bits;
            slot.salt >>= 1;
            if let Some(place) = self.slots.get_mut(at) {
                *place = slot;
            }
        }
        self.bits += 1;
        true
    }

    /// How many queries are in flight.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Takes an ID for `item`; `None` if no ID near the cursor has rested long enough.
    pub(crate) fn issue(&mut self, now: u64, item: u64, intended: u64) -> Option<u16> {
        let mask = self.slots.len() - 1;
        for _ in 0..SCAN_MAX.min(self.slots.len()) {
            let at = self.next;
            self.next = (self.next + 1) & mask;
            let slot = self.slots.get_mut(at)?;
            let rested = match slot.state {
                State::Free => true,
                State::Waiting => false,
                State::Answered => now >= slot.sent.saturating_add(self.rest.answered),
                State::GivenUp | State::AnsweredLate | State::Failed => {
                    now >= slot.sent.saturating_add(self.rest.given_up)
                }
            };
            if rested {
                self.issued += 1;
                let salt = if self.bits >= 16 { 0 } else { rng::at(self.seed, self.issued) as u16 };
                let salt = salt & (u16::MAX.checked_shr(self.bits).unwrap_or(0));
                let (qtype, octets, state) = (Type(0), 0, State::Waiting);
                *slot = Slot {
                    item,
                    intended,
                    sent: now,
                    wrote: now,
                    lane: 0,
                    qtype,
                    octets,
                    state,
                    salt,
                };
                self.waiting += 1;
                return Some(salt.checked_shl(self.bits).unwrap_or(0) | at as u16);
            }
        }
        None
    }

    /// Notes the QTYPE of the query with `id`.
    pub(crate) fn describe(&mut self, id: u16, qtype: Type, octets: u16) {
        if let Some(slot) = self.find_mut(id) {
            slot.qtype = qtype;
            slot.octets = octets;
        }
    }

    /// Notes which connection the query with `id` is asked on.
    pub(crate) fn assign(&mut self, id: u16, lane: u32) {
        if let Some(slot) = self.find_mut(id) {
            slot.lane = lane;
        }
    }

    /// Notes that the first octet of the query with `id` left at `now`.
    pub(crate) fn wrote(&mut self, id: u16, now: u64) {
        if let Some(slot) = self.find_mut(id) {
            slot.wrote = now;
        }
    }

    /// The query with `id`, if it is asked on `lane` and has no outcome yet.
    pub(crate) fn waits(&self, id: u16, lane: u32) -> Option<Slot> {
        self.find(id).filter(|slot| slot.state == State::Waiting && slot.lane == lane)
    }

    /// Takes back an ID whose query was not sent.
    pub(crate) fn withdraw(&mut self, id: u16) {
        if let Some(slot) = self.find_mut(id).filter(|slot| slot.state == State::Waiting) {
            slot.state = State::Free;
            self.waiting -= 1;
        }
    }

    /// Notes that the query with `id` went out at `now`.
    pub(crate) fn sent(&mut self, id: u16, now: u64) {
        if let Some(slot) = self.find_mut(id) {
            slot.sent = now;
            slot.wrote = now;
            self.order.push_back((id, now));
        }
    }

    /// The last use of `id`, if there was one.
    pub(crate) fn find(&self, id: u16) -> Option<Slot> {
        self.slots.get(self.index(id)).copied().filter(|slot| self.is_use(slot, id))
    }

    fn find_mut(&mut self, id: u16) -> Option<&mut Slot> {
        let at = self.index(id);
        let salt = id.checked_shr(self.bits).unwrap_or(0);
        self.slots.get_mut(at).filter(|slot| slot.state != State::Free && slot.salt == salt)
    }

    fn is_use(&self, slot: &Slot, id: u16) -> bool {
        slot.state != State::Free && slot.salt == id.checked_shr(self.bits).unwrap_or(0)
    }

    fn index(&self, id: u16) -> usize {
        usize::from(id) & (self.slots.len() - 1)
    }

    /// Changes the outcome of the query with `id`.
    pub(crate) fn settle(&mut self, id: u16, state: State) {
        if let Some(slot) = self.find_mut(id) {
            let was_waiting = slot.state == State::Waiting;
            slot.state = state;
            self.waiting -= usize::from(was_waiting);
        }
    }

    /// The oldest query without an outcome.
    fn oldest(&mut self) -> Option<(u16, Slot)> {
        while let Some(&(id, sent)) = self.order.front() {
            let current = self.find(id).filter(|s| s.state == State::Waiting && s.sent == sent);
            if let Some(slot) = current {
                return Some((id, slot));
            }
            self.order.pop_front();
        }
        None
    }

    /// Whether a query that was sent before `deadline` has no outcome.
    pub(crate) fn is_overdue(&mut self, deadline: u64) -> bool {
        self.oldest().is_some_and(|(_, slot)| slot.sent < deadline)
    }

    /// Gives up the oldest query if it was sent before `deadline`, and returns it.
    pub(crate) fn expire(&mut self, deadline: u64) -> Option<(u16, Slot)> {
        let (id, slot) = self.oldest().filter(|(_, slot)| slot.sent < deadline)?;
        self.order.pop_front();
        self.settle(id, State::GivenUp);
        Some((id, slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: Rest = Rest { answered: 100, given_up: 1_000 };

    #[test]
    fn an_id_rests_after_an_answer_and_longer_after_a_timeout() {
        let mut table = Table::new(16, REST, 1);
        let ids: Vec<u16> = (0..16).map(|item| table.issue(0, item, 0).unwrap()).collect();
        ids.iter().for_each(|id| table.sent(*id, 0));
        assert_eq!(table.issue(50, 99, 0), None, "all are in flight");
        table.settle(ids[3], State::Answered);
        assert_eq!(table.issue(99, 99, 0), None, "the answered one still rests");
        let reused = table.issue(100, 99, 0).unwrap();
        assert_eq!(reused & 15, ids[3] & 15);
        table.sent(reused, 100);
        let mut expired = Vec::new();
        while let Some((id, _)) = table.expire(1) {
            expired.push(id);
        }
        assert_eq!((expired.len(), table.waiting()), (15, 1));
        assert_eq!(table.issue(999, 7, 0), None, "late answers may still come");
        assert!(table.issue(1_000, 7, 0).is_some());
    }

    #[test]
    fn a_table_that_grows_forgets_no_query_and_no_rest() {
        let mut table = Table::new(16, REST, 1);
        let mut asked = Vec::new();
        for item in 0..200 {
            let id = table.issue(item, item, 0).unwrap_or_else(|| {
                assert!(table.grow(256), "{item}");
                table.issue(item, item, 0).unwrap()
            });
            table.sent(id, item);
            asked.push(id);
            for (item, id) in asked.iter().enumerate() {
                assert_eq!(table.find(*id).map(|slot| slot.item), Some(item as u64));
            }
        }
        assert_eq!(table.waiting(), 200);
        assert!(!table.grow(256), "there are no more");
        let mut expired = Vec::new();
        while let Some((id, _)) = table.expire(u64::MAX) {
            expired.push(id);
        }
        assert_eq!(expired, asked, "in the order of sending");
    }

    #[test]
    fn an_old_id_does_not_find_the_new_use_of_its_slot() {
        let mut table = Table::new(16, Rest { answered: 0, given_up: 0 }, 1);
        let mut stale = 0;
        let mut old = Vec::new();
        for item in 0..1_600 {
            let id = table.issue(item, item, 0).unwrap();
            table.sent(id, item);
            table.settle(id, State::Answered);
            old.push(id);
        }
        for id in &old[..1_584] {
            stale += usize::from(table.find(*id).is_some());
        }
        assert!(stale < 16, "12 bits of salt hide all but chance matches: {stale}");
    }

    #[test]
    fn a_query_that_was_not_sent_leaves_no_trace() {
        let mut table = Table::new(16, REST, 1);
        let id = table.issue(0, 1, 0).unwrap();
        table.withdraw(id);
        assert_eq!((table.waiting(), table.find(id).is_none()), (0, true));
        assert!(table.expire(u64::MAX).is_none());
    }

    #[test]
    fn one_lost_query_does_not_stop_the_others() {
        let mut table = Table::new(16, Rest { answered: 5, given_up: 1_000_000 }, 1);
        let lost = table.issue(0, 0, 0).unwrap();
        table.sent(lost, 0);
        for now in 1..1_000 {
            let id = table.issue(now, now, 0).unwrap();
            table.sent(id, now);
            table.settle(id, State::Answered);
        }
        assert_eq!(table.find(lost).unwrap().state, State::Waiting);
    }
}
