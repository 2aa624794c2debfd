//! Connections of listeners that may have few at a time, and whose they are.

use crate::limits::{CONNECTIONS_CLIENT_SHARE, CONNECTIONS_NETWORK_TENTHS};
use nodens_core::Group;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The connections that a listener has, of all workers. Touched when one opens or closes, never by a
/// question.
#[derive(Debug, Default)]
pub(crate) struct Open {
    /// Changed with the lock of `shares`. A flood of packets looks at it without.
    count: AtomicUsize,
    shares: Mutex<Shares>,
    /// A worker had no place for a new one, and none of its own to close for it.
    is_short: AtomicBool,
}

/// Who has them.
#[derive(Debug, Default)]
struct Shares {
    /// How many there may be. A reload may change that.
    max: usize,
    of: HashMap<Group, usize>,
    /// Those that have more than a share: a few, as each has many.
    greedy: Vec<Group>,
    /// A client that is not of these was turned away: the next place is not theirs.
    is_awaited: bool,
}

/// Those of every listener, by its number for good: a reload changes how many there may be, not how many
/// there are.
#[derive(Debug, Default)]
pub(crate) struct OpenByListener(Mutex<HashMap<u32, Arc<Open>>>);

/// The connections of a listener, and how many there may be.
#[derive(Clone, Debug)]
pub(crate) struct Few {
    open: Arc<Open>,
    max: usize,
}

/// One of them; dropping it gives its place back.
#[derive(Debug)]
pub(crate) struct Entry {
    open: Arc<Open>,
    client: IpAddr,
}

impl OpenByListener {
    /// Those of one listener, of which there may be so many.
    pub(crate) fn few(&self, listener: u32, max: usize) -> Few {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|own, open| *own == listener || Arc::strong_count(open) > 1);
        Few { open: all.entry(listener).or_default().clone(), max }
    }
}

impl Few {
    /// So many of `open`; 0 stands for no bound.
    pub(crate) fn of(open: Arc<Open>, max: usize) -> Self {
        Self { open, max: if max == 0 { usize::MAX } else { max } }
    }

    /// Takes a place, if there is one for this client.
    pub(crate) fn enter(&self, client: IpAddr) -> Option<Entry> {
        let mut shares = self.shares();
        let is_greedy = shares.is_greedy(client);
        let kept = usize::from(shares.is_awaited && is_greedy);
        if self.open.count().saturating_add(kept) >= self.max {
            return None;
        }
        shares.is_awaited &= is_greedy;
        shares.enter(client);
        self.open.count.fetch_add(1, Ordering::Relaxed);
        Some(Entry { open: self.open.clone(), client })
    }

    /// Whether there is no place.
    pub(crate) fn is_full(&self) -> bool {
        self.open.count() >= self.max
    }

    /// Whether this client, or its network, has more than a share: no other makes room for it.
    pub(crate) fn is_greedy(&self, client: IpAddr) -> bool {
        self.shares().is_greedy(client)
    }

    /// Who has to make room for this client, busy or not, who has most first: addresses with more than a
    /// share, or networks if there are none. Nobody has to for one that is among them.
    pub(crate) fn debtors(&self, client: IpAddr) -> Vec<Group> {
        let shares = self.shares();
        if shares.is_greedy(client) { Vec::new() } else { shares.debtors() }
    }

    /// The same for whoever was turned away.
    pub(crate) fn debtors_of_awaited(&self) -> Vec<Group> {
        let shares = self.shares();
        if shares.is_awaited { shares.debtors() } else { Vec::new() }
    }

    /// Asks whoever has a connection that can go to close it for this client.
    pub(crate) fn note_shortage(&self, client: IpAddr) {
        let mut shares = self.shares();
        shares.is_awaited |= !shares.greedy.is_empty() && !shares.is_greedy(client);
        drop(shares);
        self.renew_shortage();
    }

    /// Asks once more.
    pub(crate) fn renew_shortage(&self) {
        self.open.is_short.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked so.
    pub(crate) fn is_short(&self) -> bool {
        self.open.is_short.load(Ordering::Relaxed)
    }

    /// It is being done, or not needed any more; says whether nobody else said so before.
    pub(crate) fn end_shortage(&self) -> bool {
        self.is_short() && self.open.is_short.swap(false, Ordering::Relaxed)
    }

    fn shares(&self) -> MutexGuard<'_, Shares> {
        let mut shares = self.open.lock();
        shares.set_max(self.max);
        shares
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.open.count()
    }
}

impl Open {
    fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shares {
    /// As of all connections.
    fn share(&self, group: Group) -> usize {
        let share = match group.is_client() {
            true => self.max / CONNECTIONS_CLIENT_SHARE,
            false => self.max.saturating_mul(CONNECTIONS_NETWORK_TENTHS) / 10,
        };
        share.max(1)
    }

    fn set_max(&mut self, max: usize) {
        if self.max == max {
            return;
        }
        self.max = max;
        let all = self.of.iter().filter(|(group, count)| **count > self.share(**group));
        self.greedy = all.map(|(group, _)| *group).collect();
    }

    fn enter(&mut self, client: IpAddr) {
        for group in Group::all_of(client) {
            let share = self.share(group);
            let count = self.of.entry(group).or_default();
            *count += 1;
            if *count == share + 1 {
                self.greedy.push(group);
            }
        }
    }

    fn leave(&mut self, client: IpAddr) {
        for group in Group::all_of(client) {
            let share = self.share(group);
            let Some(count) = self.of.get_mut(&group) else { continue };
            *count = count.saturating_sub(1);
            let left = *count;
            if left == 0 {
                self.of.remove(&group);
            }
            if left <= share {
                self.greedy.retain(|own| *own != group);
            }
        }
    }

    fn debtors(&self) -> Vec<Group> {
        let are_clients = self.greedy.iter().any(|own| own.is_client());
        let own = self.greedy.iter().filter(|own| own.is_client() == are_clients);
        let mut debtors: Vec<Group> = own.copied().collect();
        debtors.sort_by_key(|own| Reverse(self.of.get(own).copied().unwrap_or_default()));
        debtors
    }

    fn is_greedy(&self, client: IpAddr) -> bool {
        !self.greedy.is_empty() && self.debtors().iter().any(|own| own.contains(client))
    }
}

impl Entry {
    /// It is one of this client from now on.
    pub(crate) fn pass(&mut self, client: IpAddr) {
        let mut shares = self.open.lock();
        shares.leave(self.client);
        shares.enter(client);
        drop(shares);
        self.client = client;
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut shares = self.open.lock();
        shares.leave(self.client);
        self.open.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn places_are_given_back_and_survive_a_reload() {
        let client = ip("192.0.2.1");
        let all = OpenByListener::default();
        let few = all.few(1, 2);
        let (one, two) = (few.enter(client).unwrap(), few.enter(client).unwrap());
        assert!(few.enter(client).is_none() && few.is_full());
        // Another configuration of the same listener.
        let more = all.few(1, 3);
        let three = more.enter(client).unwrap();
        assert_eq!((few.count(), more.enter(client).is_none()), (3, true));
        assert!(all.few(2, 1).enter(client).is_some());
        drop((one, two, three));
        assert_eq!(more.count(), 0);
        assert!(more.shares().of.is_empty() && more.shares().greedy.is_empty());
        assert!(!few.is_short());
        more.note_shortage(client);
        assert!(few.is_short());
        assert_eq!([few.end_shortage(), more.end_shortage()], [true, false]);
        assert!(!more.is_short());
        let without = Few::of(Arc::default(), 0);
        let many: Vec<_> = (0..1000).map_while(|_| without.enter(client)).collect();
        assert_eq!((many.len(), without.is_full()), (1000, false));
    }

    #[test]
    fn who_has_more_than_a_share_makes_room_and_does_not_get_the_place() {
        let all = OpenByListener::default();
        let few = all.few(1, 8);
        let [a, b, c] = [ip("192.0.2.1"), ip("192.0.2.2"), ip("198.51.100.1")];
        let mut of_a: Vec<_> = (0..5).map(|_| few.enter(a).unwrap()).collect();
        let of_b: Vec<_> = (0..3).map(|_| few.enter(b).unwrap()).collect();
        // Also for one of the same network, but not for each other.
        let both = [Group::client(a), Group::client(b)];
        assert_eq!((few.debtors(c), few.debtors(ip("192.0.2.3"))), (both.into(), both.into()));
        assert!(few.debtors(a).is_empty() && few.debtors(b).is_empty());
        assert!(few.debtors_of_awaited().is_empty());
        few.note_shortage(a);
        assert!(few.debtors_of_awaited().is_empty());
        few.note_shortage(c);
        assert_eq!(few.debtors_of_awaited(), both);
        of_a.pop();
        assert!(few.enter(a).is_none() && few.enter(b).is_none());
        let of_c = few.enter(c).unwrap();
        assert!(few.debtors_of_awaited().is_empty());
        of_a.pop();
        // Nobody waits for this one.
        of_a.push(few.enter(a).unwrap());
        // As many as a share are nobody else's.
        of_a.truncate(2);
        assert_eq!(few.debtors(c), [Group::client(b)]);
        assert!(!few.is_greedy(a) && few.is_greedy(b));
        // Other bounds, other shares.
        assert!(all.few(1, 12).debtors(c).is_empty());
        assert_eq!(all.few(1, 4).debtors(c), [Group::client(b), Group::client(a)]);
        drop((of_a, of_b, of_c));
        assert!(few.shares().of.is_empty() && few.shares().greedy.is_empty());
    }

    #[test]
    fn a_network_with_many_addresses_makes_room_too() {
        let few = OpenByListener::default().few(1, 20);
        let own = |last: u16| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, last]);
        let mut entries: Vec<_> = (0..20).map(|last| few.enter(own(last)).unwrap()).collect();
        let other = ip("2001:db8:0:1::1");
        assert_eq!(few.debtors(other), [Group::network(own(0))]);
        assert!(few.debtors(own(99)).is_empty());
        // A client that its proxy named.
        entries.iter_mut().for_each(|entry| entry.pass(other));
        assert_eq!(few.debtors(own(0)), [Group::client(other)]);
        entries.truncate(5);
        assert!(few.debtors(own(0)).is_empty());
    }
}
