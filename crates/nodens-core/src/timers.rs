//! When which waiting job wants to be called.
//!
//! Nearly all timers are set for the same few spans of time from now, and nearly none of them ever
//! fires: the answer comes first. So they stand in a few queues, each in the order of time, where
//! setting one costs no search and those of jobs that ended are dropped from the front before
//! their time. What fits no queue goes into a heap.

use crate::ticket::Ticket;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Queues there are: an upstream's timeout, the time to ask elsewhere, a client's patience, and
/// one to spare.
const QUEUES: usize = 4;
/// Timers that one call of [`Timers::prune`] looks at. More than are set between two calls.
const PRUNED_AT_ONCE: usize = 8;

/// A time on the monotonic clock in nanoseconds, and who is to be called then.
type Timer = (u64, Ticket);

#[derive(Debug, Default)]
pub(crate) struct Timers {
    queues: [VecDeque<Timer>; QUEUES],
    heap: BinaryHeap<Reverse<Timer>>,
}

/// Where a timer stands.
#[derive(Clone, Copy)]
enum Place {
    Queue(usize),
    Heap,
}

impl Timers {
    /// Sets a timer.
    pub(crate) fn push(&mut self, at_ns: u64, ticket: Ticket) {
        // The queue whose last timer is nearest leaves the others to those for earlier times.
        let fits = |queue: &&mut VecDeque<Timer>| queue.back().is_none_or(|back| back.0 <= at_ns);
        let nearest = |queue: &&mut VecDeque<Timer>| queue.back().map(|back| back.0);
        match self.queues.iter_mut().filter(fits).max_by_key(nearest) {
            Some(queue) => queue.push_back((at_ns, ticket)),
            None => self.heap.push(Reverse((at_ns, ticket))),
        }
    }

    fn first(&self) -> Option<(Timer, Place)> {
        let queues = self.queues.iter().enumerate();
        let fronts = queues.filter_map(|(at, queue)| Some((*queue.front()?, Place::Queue(at))));
        let top = self.heap.peek().map(|Reverse(timer)| (*timer, Place::Heap));
        fronts.chain(top).min_by_key(|(timer, _)| *timer)
    }

    /// The timer that fires next.
    pub(crate) fn peek(&self) -> Option<Timer> {
        self.first().map(|(timer, _)| timer)
    }

    /// Takes the timer that fires next.
    pub(crate) fn pop(&mut self) -> Option<Timer> {
        let (timer, place) = self.first()?;
        match place {
            Place::Queue(at) => _ = self.queues.get_mut(at).and_then(VecDeque::pop_front),
            Place::Heap => _ = self.heap.pop(),
        }
        Some(timer)
    }

    /// How many are set.
    pub(crate) fn len(&self) -> usize {
        self.heap.len() + self.queues.iter().map(VecDeque::len).sum::<usize>()
    }

    /// Drops timers that nobody waits for any more from the front of the queues: a few at a time,
    /// and more than are set in that time.
    pub(crate) fn prune(&mut self, mut wanted: impl FnMut(u64, Ticket) -> bool) {
        let mut left = PRUNED_AT_ONCE;
        for queue in &mut self.queues {
            while left > 0 && queue.front().is_some_and(|(at_ns, ticket)| !wanted(*at_ns, *ticket))
            {
                queue.pop_front();
                left -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ticket(slot: u32) -> Ticket {
        Ticket { slot, serial: 0 }
    }

    #[test]
    fn timers_of_ended_jobs_do_not_pile_up() {
        let mut timers = Timers::default();
        let spans = [2_000_000, 50_000, 400_000];
        for now in 0..100_000_u64 {
            timers.push(now + spans[now as usize % spans.len()], ticket(now as u32));
            timers.prune(|_, ticket| u64::from(ticket.slot) + 10 > now);
            assert!(timers.len() <= 20, "{} at {now}", timers.len());
        }
    }

    #[test]
    fn a_timer_that_is_wanted_keeps_its_place() {
        let mut timers = Timers::default();
        (0..4).for_each(|at| timers.push(at, ticket(at as u32)));
        timers.prune(|at_ns, _| at_ns == 2);
        assert_eq!(timers.pop(), Some((2, ticket(2))));
        assert_eq!(timers.pop(), Some((3, ticket(3))));
        assert_eq!((timers.pop(), timers.len()), (None, 0));
    }

    proptest! {
        #[test]
        fn they_fire_in_the_order_of_time(times in prop::collection::vec(0_u64..50, 0..60)) {
            let mut timers = Timers::default();
            for (at, slot) in times.iter().zip(0..) {
                timers.push(*at, ticket(slot));
            }
            prop_assert_eq!(timers.len(), times.len());
            let mut fired = Vec::new();
            while let Some(next) = timers.peek() {
                prop_assert_eq!(timers.pop(), Some(next));
                fired.push(next.0);
            }
            let mut wanted = times.clone();
            wanted.sort();
            prop_assert_eq!(fired, wanted);
        }
    }
}
