//! Finds a connection that has been idle for long, without any work when a question comes.

use crate::slots::Key;
use std::collections::VecDeque;

/// Entries looked at to find an idle connection; if that many are all busy, the server is too.
const LOOKS: usize = 256;

/// Every connection once, with a time since when it was idle when the entry was made. Where that
/// is no longer true, the entry goes to the end with the true time (a second chance).
#[derive(Debug, Default)]
pub(crate) struct IdleQueue {
    entries: VecDeque<(Key, u64)>,
}

impl IdleQueue {
    /// Adds a new connection.
    pub(crate) fn enter(&mut self, key: Key, now_ns: u64) {
        self.entries.push_back((key, now_ns));
    }

    /// Takes out a connection that has been idle for long. `idle_since` says since when one is
    /// idle, or `None` if it is closed; a busy one is idle since `now_ns`.
    pub(crate) fn longest(
        &mut self,
        now_ns: u64,
        idle_since: impl Fn(Key) -> Option<u64>,
    ) -> Option<Key> {
        for _ in 0..LOOKS.min(self.entries.len()) {
            let (key, noted) = self.entries.pop_front()?;
            match idle_since(key) {
                None => {}
                Some(since) if since <= noted && since < now_ns => return Some(key),
                Some(since) => self.entries.push_back((key, since)),
            }
        }
        None
    }

    /// Drops entries of closed connections once they are the majority.
    pub(crate) fn tidy(&mut self, open: usize, is_open: impl Fn(Key) -> bool) {
        if self.entries.len() > 2 * open + 64 {
            self.entries.retain(|(key, _)| is_open(*key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::Slots;

    #[test]
    fn the_one_idle_for_longest_is_found_among_busy_and_active_ones() {
        let mut since = Slots::default();
        let mut queue = IdleQueue::default();
        let keys: Vec<Key> = (0..4).map(|at| since.insert(at)).collect();
        for (at, key) in (0..).zip(&keys) {
            queue.enter(*key, at);
        }
        *since.get_mut(keys[0]).unwrap() = 50;
        *since.get_mut(keys[1]).unwrap() = 100;
        since.remove(keys[2]);
        let look = |queue: &mut IdleQueue| queue.longest(100, |key| since.get(key).copied());
        assert_eq!(look(&mut queue), Some(keys[3]));
        assert_eq!(look(&mut queue), Some(keys[0]));
        assert_eq!(look(&mut queue), None);
        for _ in 0..100 {
            queue.enter(keys[2], 0);
        }
        queue.tidy(2, |key| since.get(key).is_some());
        assert_eq!(queue.entries.len(), 1);
    }
}
