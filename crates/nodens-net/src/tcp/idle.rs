//! Finds the connection that has been idle for longest, without any work when a question comes.

use crate::slots::Key;
use nodens_core::Group;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::IpAddr;

/// Busy connections looked at to find an idle one; if that many are all busy, the server is too.
const LOOKS: usize = 256;
/// Idle ones looked at that were active since the last time: of so many, the one idle for longest is
/// good enough.
const STALE_LOOKS: usize = 4096;
/// For how long nobody looks again after so many were all busy, in nanoseconds.
const VAIN_NS: u64 = 2_000_000;

/// Every connection once, with a time since when it was idle when the entry was made. Where that
/// is no longer true, the entry gets the true time once it is looked at. So the first entry that is
/// true is that of the connection which has been idle for longest.
#[derive(Debug, Default)]
pub(crate) struct IdleQueue {
    entries: BinaryHeap<Reverse<(u64, Key)>>,
    /// Before this time it is not worth to look.
    vain_until: u64,
    /// How many there were when they were last looked over.
    tidied_at: usize,
}

impl IdleQueue {
    /// Adds a new connection.
    pub(crate) fn enter(&mut self, key: Key, now_ns: u64) {
        self.entries.push(Reverse((now_ns, key)));
    }

    /// A time since before which no connection is idle: the earliest that is noted.
    pub(crate) fn since(&self) -> Option<u64> {
        self.entries.peek().map(|Reverse((noted, _))| *noted)
    }

    /// Every connection, and some that are closed.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key> {
        self.entries.iter().map(|Reverse((_, key))| *key)
    }

    /// Takes out the connection that has been idle for longest. `idle_since` says since when one is
    /// idle, or `None` if it is closed; a busy one is idle since `now_ns`.
    pub(crate) fn longest(
        &mut self,
        now_ns: u64,
        idle_since: impl Fn(Key) -> Option<u64>,
    ) -> Option<Key> {
        if now_ns < self.vain_until {
            return None;
        }
        let (mut busy, mut stale) = (0, 0);
        // Of those looked at, the one idle for longest. It has no entry meanwhile.
        let mut best: Option<(u64, Key)> = None;
        while busy < LOOKS && stale < STALE_LOOKS {
            let Some(Reverse((noted, key))) = self.entries.pop() else { break };
            if best.is_some_and(|(since, _)| since <= noted) {
                self.enter(key, noted);
                break;
            }
            match idle_since(key) {
                None => {}
                Some(since) if since <= noted && since < now_ns => {
                    best.into_iter().for_each(|(since, key)| self.enter(key, since));
                    return Some(key);
                }
                Some(since) if since >= now_ns => {
                    busy += 1;
                    self.enter(key, since);
                }
                Some(since) => {
                    stale += 1;
                    let [first, second] = match best {
                        Some(other) if other.0 <= since => [Some(other), Some((since, key))],
                        other => [Some((since, key)), other],
                    };
                    best = first;
                    second.into_iter().for_each(|(since, key)| self.enter(key, since));
                }
            }
        }
        if busy >= LOOKS && best.is_none() {
            self.vain_until = now_ns.saturating_add(VAIN_NS);
        }
        best.map(|(_, key)| key)
    }

    /// Drops entries of closed connections once there are many of all.
    pub(crate) fn tidy_since(&mut self, is_open: impl Fn(Key) -> bool) {
        if self.entries.len() >= self.tidied_at.max(32) * 2 {
            self.entries.retain(|Reverse((_, key))| is_open(*key));
            self.tidied_at = self.entries.len();
        }
    }

    /// Drops entries of closed connections once they are the majority.
    pub(crate) fn tidy(&mut self, open: usize, is_open: impl Fn(Key) -> bool) {
        if self.entries.len() > 2 * open + 64 {
            self.entries.retain(|Reverse((_, key))| is_open(*key));
        }
    }
}

/// The connections of each client and each network that has too many of its own.
///
/// There is a queue for such alone, made of all connections when it is needed first, so that others
/// cost nothing. It stays until its group has become much smaller, so that a client that goes back
/// and forth over its bound does not have all connections looked at each time.
#[derive(Debug, Default)]
pub(crate) struct IdleByGroup {
    groups: HashMap<Group, IdleQueue>,
}

impl IdleByGroup {
    /// Adds a new connection of `client`.
    pub(crate) fn enter(&mut self, client: IpAddr, key: Key, now_ns: u64) {
        if self.groups.is_empty() {
            return;
        }
        for group in Group::all_of(client) {
            if let Some(queue) = self.groups.get_mut(&group) {
                queue.enter(key, now_ns);
            }
        }
    }

    /// The same as [`IdleQueue::longest`], of one group. `all` are the connections there are, their
    /// clients, and a time since when each may be idle.
    pub(crate) fn longest(
        &mut self,
        group: Group,
        now_ns: u64,
        all: impl Iterator<Item = (Key, IpAddr, u64)>,
        idle_since: impl Fn(Key) -> Option<u64>,
    ) -> Option<Key> {
        let queue = self.groups.entry(group).or_insert_with(|| {
            let own = all.filter(|(_, client, _)| group.contains(*client));
            let entries = own.map(|(key, _, since)| Reverse((since, key))).collect();
            IdleQueue { entries, ..IdleQueue::default() }
        });
        queue.longest(now_ns, idle_since)
    }

    /// Drops the queues of groups that are small by now, and entries of closed connections where they
    /// are the majority. `size` says how many connections a group has if it is not small.
    pub(crate) fn tidy(
        &mut self,
        size: impl Fn(Group) -> Option<usize>,
        is_open: impl Fn(Key) -> bool,
    ) {
        self.groups.retain(|group, queue| {
            let size = size(*group);
            queue.tidy(size.unwrap_or(0), &is_open);
            size.is_some()
        });
    }

    /// Whether there is anything to tidy.
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
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
    fn a_look_is_bounded_and_forgets_nobody() {
        let mut since = Slots::default();
        let mut queue = IdleQueue::default();
        let count = 3 * STALE_LOOKS as u64;
        let keys: Vec<Key> = (0..count).map(|at| since.insert(at)).collect();
        keys.iter().for_each(|key| queue.enter(*key, 0));
        // All are younger than their entries say.
        keys.iter().zip(1000..).for_each(|(key, at)| *since.get_mut(*key).unwrap() = at);
        let looks = std::cell::Cell::new(0);
        let mut found = std::collections::HashSet::new();
        for _ in 0..count {
            looks.set(0);
            let look = |key| {
                looks.set(looks.get() + 1);
                since.get(key).copied()
            };
            let key = queue.longest(u64::MAX, look).unwrap();
            assert!(looks.get() <= STALE_LOOKS, "{} looks", looks.get());
            since.remove(key);
            found.insert(key.bits());
        }
        assert_eq!((found.len() as u64, queue.entries.len()), (count, 0));
    }

    #[test]
    fn nobody_looks_again_at_once_while_all_are_busy() {
        let mut since = Slots::default();
        let mut queue = IdleQueue::default();
        for _ in 0..LOOKS {
            queue.enter(since.insert(u64::MAX), 0);
        }
        let last = since.insert(u64::MAX);
        queue.enter(last, 0);
        assert_eq!(queue.longest(100, |key| since.get(key).copied()), None);
        *since.get_mut(last).unwrap() = 5;
        assert_eq!(queue.longest(100 + VAIN_NS - 1, |_| panic!("looked again")), None);
        assert_eq!(queue.longest(100 + VAIN_NS, |key| since.get(key).copied()), Some(last));
    }

    #[test]
    fn groups_have_queues_of_their_own_while_they_are_large() {
        let mut since = Slots::default();
        let mut idle = IdleByGroup::default();
        let [a, b, c]: [IpAddr; 3] =
            [[192, 0, 2, 1].into(), [192, 0, 2, 2].into(), [198, 51, 100, 1].into()];
        let clients = [c, a, b, b];
        let keys: Vec<Key> = (0..4).map(|at| since.insert(at)).collect();
        for ((at, key), client) in (0..).zip(&keys).zip(clients) {
            // Nobody has a queue yet.
            idle.enter(client, *key, at);
        }
        assert!(idle.is_empty());
        let look = |idle: &mut IdleByGroup, group, since: &Slots<u64>| {
            let all = keys.iter().zip(clients).filter(|(key, _)| since.get(**key).is_some());
            let all = all.map(|(key, client)| (*key, client, 0));
            idle.longest(group, 100, all, |key| since.get(key).copied())
        };
        assert_eq!(look(&mut idle, Group::network(b), &since), Some(keys[1]));
        assert_eq!(look(&mut idle, Group::client(b), &since), Some(keys[2]));
        since.remove(keys[2]);
        assert_eq!(look(&mut idle, Group::client(b), &since), Some(keys[3]));
        assert_eq!(look(&mut idle, Group::client(b), &since), None);
        assert_eq!(look(&mut idle, Group::network(b), &since), Some(keys[3]));
        let new = since.insert(50);
        idle.enter(b, new, 50);
        assert_eq!(look(&mut idle, Group::client(b), &since), Some(new));
        assert_eq!(look(&mut idle, Group::network(b), &since), Some(new));
        idle.tidy(|group| (group == Group::client(b)).then_some(1), |_| true);
        assert_eq!(idle.groups.len(), 1);
        // Made anew.
        assert_eq!(look(&mut idle, Group::network(b), &since), Some(keys[1]));
    }
}
