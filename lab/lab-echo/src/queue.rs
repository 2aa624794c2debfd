//! Answers that wait for their time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Items by the nanosecond they are due; those due at the same time keep their order.
#[derive(Debug)]
pub struct Queue<T> {
    /// `(due, number, place)`.
    heap: BinaryHeap<Reverse<(u64, u64, usize)>>,
    /// Items at stable places, so that the heap moves three words and not an item.
    items: Vec<Option<T>>,
    free: Vec<usize>,
    next: u64,
    capacity: usize,
}

impl<T> Queue<T> {
    /// An empty queue for at most `capacity` items.
    pub fn new(capacity: usize) -> Self {
        Self { heap: BinaryHeap::new(), items: Vec::new(), free: Vec::new(), next: 0, capacity }
    }

    /// How many items wait.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Keeps `item` until `due`; gives it back if the queue is full.
    pub fn push(&mut self, due: u64, item: T) -> Result<(), T> {
        if self.heap.len() >= self.capacity {
            return Err(item);
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.items.push(None);
            self.items.len() - 1
        });
        if let Some(slot) = self.items.get_mut(place) {
            *slot = Some(item);
        }
        self.heap.push(Reverse((due, self.next, place)));
        self.next += 1;
        Ok(())
    }

    /// When the next item is due.
    pub fn next_due(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((due, ..))| *due)
    }

    /// Takes the next item if it is due at `now`.
    pub fn pop(&mut self, now: u64) -> Option<T> {
        self.next_due().filter(|due| *due <= now)?;
        let Reverse((_, _, place)) = self.heap.pop()?;
        self.free.push(place);
        self.items.get_mut(place)?.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_leave_by_time_and_then_in_order() {
        let mut queue = Queue::new(4);
        for (due, item) in [(30, 'c'), (10, 'a'), (30, 'd'), (20, 'b')] {
            queue.push(due, item).unwrap();
        }
        assert_eq!(queue.push(1, 'x'), Err('x'));
        assert_eq!((queue.pop(9), queue.next_due()), (None, Some(10)));
        let all: String = std::iter::from_fn(|| queue.pop(30)).collect();
        assert_eq!(all, "abcd");
        queue.push(5, 'e').unwrap();
        assert_eq!((queue.len(), queue.pop(5), queue.is_empty()), (1, Some('e'), true));
        assert_eq!(queue.items.len(), 4, "places are used again");
    }
}
