//! Finds the connection that has been idle for longest, without any work when a question comes.

use crate::slots::Key;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::IpAddr;

/// Busy connections looked at to find an idle one; if that many are all busy, the server is too.
/// An idle one is looked at in vain only if it was active since the last time.
const LOOKS: usize = 256;

/// Every connection once, with a time since when it was idle when the entry was made. Where that
/// is no longer true, the entry gets the true time once it is looked at. So the first entry that is
/// true is that of the connection which has been idle for longest.
#[derive(Debug, Default)]
pub(crate) struct IdleQueue {
    entries: BinaryHeap<Reverse<(u64, Key)>>,
}

impl IdleQueue {
    /// Adds a new connection.
    pub(crate) fn enter(&mut self, key: Key, now_ns: u64) {
        self.entries.push(Reverse((now_ns, key)));
    }

    /// Takes out the connection that has been idle for longest. `idle_since` says since when one is
    /// idle, or `None` if it is closed; a busy one is idle since `now_ns`.
    pub(crate) fn longest(
        &mut self,
        now_ns: u64,
        idle_since: impl Fn(Key) -> Option<u64>,
    ) -> Option<Key> {
        let mut busy = 0;
        while busy < LOOKS {
            let Reverse((noted, key)) = self.entries.pop()?;
            match idle_since(key) {
                None => {}
                Some(since) if since <= noted && since < now_ns => return Some(key),
                Some(since) => {
                    busy += usize::from(since >= now_ns);
                    self.enter(key, since);
                }
            }
        }
        None
    }

    /// Drops entries of closed connections once they are the majority.
    pub(crate) fn tidy(&mut self, open: usize, is_open: impl Fn(Key) -> bool) {
        if self.entries.len() > 2 * open + 64 {
            self.entries.retain(|Reverse((_, key))| is_open(*key));
        }
    }
}

/// The connections of each client, for one that has too many of its own.
#[derive(Debug, Default)]
pub(crate) struct IdleByClient {
    clients: HashMap<IpAddr, OfClient>,
}

#[derive(Debug, Default)]
struct OfClient {
    open: usize,
    queue: IdleQueue,
}

impl IdleByClient {
    /// Adds a new connection of `client`.
    pub(crate) fn enter(&mut self, client: IpAddr, key: Key, now_ns: u64) {
        let own = self.clients.entry(client).or_default();
        own.open += 1;
        own.queue.enter(key, now_ns);
    }

    /// A connection of `client` has closed.
    pub(crate) fn left(&mut self, client: IpAddr, is_open: impl Fn(Key) -> bool) {
        let Some(own) = self.clients.get_mut(&client) else { return };
        own.open = own.open.saturating_sub(1);
        if own.open == 0 {
            self.clients.remove(&client);
        } else {
            own.queue.tidy(own.open, is_open);
        }
    }

    /// The same as [`IdleQueue::longest`], of one client.
    pub(crate) fn longest(
        &mut self,
        client: IpAddr,
        now_ns: u64,
        idle_since: impl Fn(Key) -> Option<u64>,
    ) -> Option<Key> {
        self.clients.get_mut(&client)?.queue.longest(now_ns, idle_since)
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

    #[test]
    fn what_was_idle_for_longer_goes_first_however_often_others_were_used() {
        let mut since = Slots::default();
        let mut queue = IdleQueue::default();
        let keys: Vec<Key> = (0..1000).map(|at| since.insert(at)).collect();
        for (at, key) in (0..).zip(&keys) {
            queue.enter(*key, at);
        }
        // All were used once, from the last to the first; more of them than are looked at in vain.
        for (at, key) in (2000..).zip(keys.iter().rev()) {
            *since.get_mut(*key).unwrap() = at;
        }
        for key in keys.iter().rev() {
            assert_eq!(queue.longest(5000, |key| since.get(key).copied()), Some(*key));
        }
    }

    #[test]
    fn each_client_has_its_own_and_nothing_stays_of_one_that_is_gone() {
        let mut since = Slots::default();
        let mut idle = IdleByClient::default();
        let [a, b]: [IpAddr; 2] = [[192, 0, 2, 1].into(), [192, 0, 2, 2].into()];
        let keys: Vec<Key> = (0..3).map(|at| since.insert(at)).collect();
        for ((at, key), client) in (0..).zip(&keys).zip([a, b, b]) {
            idle.enter(client, *key, at);
        }
        let look = |idle: &mut IdleByClient, client, since: &Slots<u64>| {
            idle.longest(client, 100, |key| since.get(key).copied())
        };
        assert_eq!(look(&mut idle, b, &since), Some(keys[1]));
        since.remove(keys[1]);
        idle.left(b, |key| since.get(key).is_some());
        assert_eq!(look(&mut idle, b, &since), Some(keys[2]));
        assert_eq!(look(&mut idle, b, &since), None);
        idle.left(b, |_| true);
        assert_eq!(look(&mut idle, a, &since), Some(keys[0]));
        idle.left(a, |_| true);
        assert!(idle.clients.is_empty());
    }
}
