//! What client connections hold in all: answers that their clients do not read, and requests that
//! wait for that. One budget for the process. When it is spent, the network that holds most of it
//! is looked at, in it the address that holds most, and that address loses its largest connection:
//! an attacker gains nothing from the many addresses of an IPv6 host, and a client loses nothing to its
//! neighbours.
//!
//! A connection whose client reads what it asked for is never entered here, so a query takes no
//! lock. What connections take by being open, as those of HTTP/2 do, is counted apart: such a connection
//! owes its client nothing, and is closed like any other that is idle.

use crate::limits::{HELD_FREE, HELD_STEP};
use crate::slots::Key;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is reckoned as one: an IPv4 address, or the /64 an IPv6 address is in. One host may have
/// all addresses of a /64; the pods of one node often share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Network(u128);

impl Network {
    /// Of an address in its canonical form.
    pub(super) fn of(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(ip) => Self(u128::from(u32::from(ip))),
            IpAddr::V6(ip) => Self(ip.to_bits() >> 64 << 64),
        }
    }
}

/// A connection: its worker, and its key there.
type Place = (usize, Key);

/// What each of `T` holds, and in which order within its group.
#[derive(Debug)]
struct Ranking<G, T> {
    octets: HashMap<T, usize>,
    order: BTreeSet<(G, usize, T)>,
}

/// Who holds what, without what is doomed already. Everything is kept in order of its size: a
/// connection to be closed is chosen with the lock held, and there may be many.
#[derive(Debug, Default)]
struct Books {
    networks: Ranking<(), Network>,
    clients: Ranking<Network, IpAddr>,
    connections: Ranking<IpAddr, Place>,
    /// Connections that are to be closed, and what they hold.
    doomed: HashMap<Place, usize>,
    /// The sum of that.
    ending: usize,
}

/// The budget, and who holds what of it.
#[derive(Debug)]
pub(crate) struct Unsent {
    max: usize,
    held: AtomicUsize,
    /// What connections take by being open.
    fixed: AtomicUsize,
    books: Mutex<Books>,
}

/// What one connection takes by being open; dropping it gives that back.
#[derive(Debug)]
pub(crate) struct Fixed {
    budget: Arc<Unsent>,
    octets: usize,
}

/// What one connection holds; dropping it gives that back.
#[derive(Debug)]
pub(crate) struct Holding {
    budget: Arc<Unsent>,
    /// In its canonical form.
    client: IpAddr,
    place: Place,
    /// As it is in the books.
    octets: usize,
}

/// What is entered for a connection that holds so many octets: nothing for what each may hold, and
/// whole steps, so that few changes change the books.
fn entered(octets: usize) -> usize {
    octets.saturating_sub(HELD_FREE).next_multiple_of(HELD_STEP)
}

impl Unsent {
    /// A budget of so many octets.
    pub(crate) fn new(max: usize) -> Self {
        Self { max, held: AtomicUsize::new(0), fixed: AtomicUsize::new(0), books: Mutex::default() }
    }

    /// The budget.
    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// How much of it is held, with what connections take by being open.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed) + self.fixed.load(Ordering::Relaxed)
    }

    /// Takes what a connection needs to be open, up to half of the budget for all of them.
    pub(crate) fn take_fixed(self: &Arc<Self>, octets: usize) -> Option<Fixed> {
        let free = self.max.saturating_sub(self.held.load(Ordering::Relaxed)).min(self.max / 2);
        let more = |fixed: usize| Some(fixed + octets).filter(|sum| *sum <= free);
        let taken = self.fixed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then(|| Fixed { budget: self.clone(), octets })
    }

    /// Whether so little is left that nothing should be made for a client that does not read.
    pub(crate) fn is_tight(&self) -> bool {
        self.held() > self.max / 4 * 3
    }

    /// Whether so much more is held than may be that the workers of the doomed connections do not
    /// get to close them in time. A connection that holds something itself finds so first.
    pub(crate) fn is_overdrawn(&self, holds: bool) -> bool {
        self.held() > if holds { self.max + self.max / 2 } else { 2 * self.max }
    }

    /// Connections of `worker` that are to be closed.
    pub(crate) fn doomed(&self, worker: usize) -> Vec<Key> {
        let books = self.books();
        let own = books.doomed.keys().filter(|(of, _)| *of == worker);
        own.map(|(_, key)| *key).collect()
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters `new` octets in place of `old`; says whether a connection is doomed for it.
    fn enter(&self, client: IpAddr, place: Place, old: usize, new: usize) -> bool {
        let mut books = self.books();
        match books.doomed.remove(&place) {
            // It gave something back meanwhile, or is gone.
            Some(noted) => books.ending -= noted,
            None => books.change(client, place, |sum| sum - old),
        }
        books.change(client, place, |sum| sum + new);
        // All changes are made with the lock held.
        let held = self.held.load(Ordering::Relaxed) - old + new;
        self.held.store(held, Ordering::Relaxed);
        let fixed = self.fixed.load(Ordering::Relaxed);
        let mut dooms = false;
        while held + fixed - books.ending > self.max && books.doom() {
            dooms = true;
        }
        dooms
    }
}

impl Books {
    /// Changes what a connection holds, and with it what its client and its network hold.
    fn change(&mut self, client: IpAddr, place: Place, change: impl Fn(usize) -> usize) {
        let network = Network::of(client);
        self.networks.change((), network, &change);
        self.clients.change(network, client, &change);
        self.connections.change(client, place, &change);
    }

    /// Chooses the largest connection of the address that holds most in the network that holds
    /// most; says whether there is one.
    fn doom(&mut self) -> bool {
        let most = self.networks.largest((), Network(0)).and_then(|(_, network)| {
            let (_, client) = self.clients.largest(network, Ipv4Addr::UNSPECIFIED.into())?;
            Some((client, self.connections.largest(client, (0, Key::ONLY))?))
        });
        let Some((client, (octets, place))) = most else { return false };
        self.change(client, place, |sum| sum - octets);
        self.doomed.insert(place, octets);
        self.ending += octets;
        true
    }
}

impl<G, T> Default for Ranking<G, T> {
    fn default() -> Self {
        Self { octets: HashMap::new(), order: BTreeSet::new() }
    }
}

impl<G: Copy + Ord, T: Copy + Ord + Hash> Ranking<G, T> {
    /// Changes what `one` of `group` holds.
    fn change(&mut self, group: G, one: T, change: impl Fn(usize) -> usize) {
        let old = self.octets.get(&one).copied().unwrap_or_default();
        let new = change(old);
        self.order.remove(&(group, old, one));
        if new == 0 {
            self.octets.remove(&one);
        } else {
            self.octets.insert(one, new);
            self.order.insert((group, new, one));
        }
    }

    /// What the one of `group` holds that holds most, and which it is. `any` may be any: none that is
    /// in order holds 0 octets, or all that there can be.
    fn largest(&self, group: G, any: T) -> Option<(usize, T)> {
        let mut of_group = self.order.range((group, 0, any)..(group, usize::MAX, any));
        of_group.next_back().map(|(_, octets, one)| (*octets, *one))
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.octets.is_empty() && self.order.is_empty()
    }
}

impl Holding {
    /// For the connection `key` of `worker`, whose client is `ip`; it holds nothing yet.
    pub(crate) fn new(budget: Arc<Unsent>, ip: IpAddr, worker: usize, key: Key) -> Self {
        Self { budget, client: ip.to_canonical(), place: (worker, key), octets: 0 }
    }

    /// The connection holds so many octets now; says whether any connection is doomed for it.
    pub(crate) fn set(&mut self, octets: usize) -> bool {
        let octets = entered(octets);
        let old = std::mem::replace(&mut self.octets, octets);
        old != octets && self.budget.enter(self.client, self.place, old, octets)
    }

    /// Whether anything is entered for it.
    pub(crate) fn is_entered(&self) -> bool {
        self.octets > 0
    }
}

impl Drop for Fixed {
    fn drop(&mut self) {
        self.budget.fixed.fetch_sub(self.octets, Ordering::Relaxed);
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::Slots;

    const STEP: usize = HELD_STEP;

    fn keys(count: usize) -> Vec<Key> {
        let mut slots = Slots::default();
        (0..count).map(|number| slots.insert(number)).collect()
    }

    fn holding(budget: &Arc<Unsent>, ip: &str, worker: usize, key: Key) -> Holding {
        Holding::new(budget.clone(), ip.parse().unwrap(), worker, key)
    }

    #[test]
    fn what_every_connection_may_hold_is_not_entered() {
        let budget = Arc::new(Unsent::new(STEP));
        let mut one = holding(&budget, "192.0.2.1", 0, Key::ONLY);
        assert!(!one.set(HELD_FREE));
        assert_eq!((budget.held(), one.is_entered()), (0, false));
        assert!(!one.set(HELD_FREE + 1));
        assert_eq!((budget.held(), one.is_entered()), (STEP, true));
        drop(one);
        assert_eq!(budget.held(), 0);
        assert!(budget.books().networks.is_empty());
    }

    #[test]
    fn what_connections_take_by_being_open_is_at_most_half_and_leaves_less_for_the_rest() {
        let budget = Arc::new(Unsent::new(8 * STEP));
        let mut fixed: Vec<_> = (0..4).map(|_| budget.take_fixed(STEP).unwrap()).collect();
        assert!(budget.take_fixed(STEP).is_none());
        assert!(budget.books().networks.is_empty());
        assert_eq!(budget.held(), 4 * STEP);
        let mut one = holding(&budget, "192.0.2.1", 0, Key::ONLY);
        assert!(!one.set(HELD_FREE + 4 * STEP));
        // Nobody takes what others hold.
        fixed.pop();
        assert!(!one.set(HELD_FREE + 5 * STEP));
        assert!(budget.take_fixed(STEP).is_none());
        assert!(one.set(HELD_FREE + 6 * STEP));
        drop((one, fixed));
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn the_largest_connection_of_the_client_that_holds_most_goes_first() {
        let (budget, keys) = (Arc::new(Unsent::new(11 * STEP)), keys(5));
        // One of 5 steps, against three of 2 steps that are one client's.
        let mut lone = holding(&budget, "192.0.2.1", 0, keys[0]);
        lone.set(HELD_FREE + 5 * STEP);
        let addresses = ["2001:db8::1", "2001:db8::2", "2001:db8:0:0:8::"];
        let mut greedy: Vec<_> = (1..)
            .zip(addresses)
            .map(|(worker, ip)| {
                let mut holding = holding(&budget, ip, worker, keys[worker]);
                holding.set(HELD_FREE + 2 * STEP);
                holding
            })
            .collect();
        assert_eq!(budget.held(), 11 * STEP);
        assert!((0..4).all(|worker| budget.doomed(worker).is_empty()));
        assert!(greedy[1].set(HELD_FREE + 3 * STEP));
        assert_eq!(budget.doomed(2), [keys[2]]);
        assert!(budget.doomed(0).is_empty());
        // What is about to be given back is not to be had twice.
        let mut small = holding(&budget, "192.0.2.9", 0, keys[4]);
        assert!(!small.set(HELD_FREE + 2 * STEP));
        greedy.remove(1);
        assert_eq!(budget.held(), 11 * STEP);
        assert!(budget.doomed(2).is_empty());
        // Now it is the turn of the lone one.
        assert!(small.set(HELD_FREE + 3 * STEP));
        let ends = |worker| budget.doomed(worker);
        assert_eq!((ends(0), ends(1).len(), ends(3).len()), (vec![keys[0]], 0, 0));
    }

    #[test]
    fn a_connection_that_gave_back_in_time_stays() {
        let (budget, keys) = (Arc::new(Unsent::new(4 * STEP)), keys(2));
        let mut large = holding(&budget, "192.0.2.1", 0, keys[0]);
        let mut small = holding(&budget, "192.0.2.2", 1, keys[1]);
        large.set(HELD_FREE + 3 * STEP);
        assert!(small.set(HELD_FREE + 2 * STEP));
        assert_eq!(budget.doomed(0), [keys[0]]);
        assert!(!large.set(HELD_FREE + STEP));
        assert!(budget.doomed(0).is_empty());
        assert_eq!(budget.held(), 3 * STEP);
    }

    #[test]
    fn within_the_greediest_prefix_the_greediest_address_loses() {
        let (budget, keys) = (Arc::new(Unsent::new(12 * STEP)), keys(6));
        // Two pods of one node: a transfer on one connection, and one that reads nothing on many.
        let mut transfer = holding(&budget, "2001:db8::1", 0, keys[0]);
        transfer.set(HELD_FREE + 4 * STEP);
        let mut culprit: Vec<_> = keys[1..4]
            .iter()
            .map(|key| {
                let mut one = holding(&budget, "2001:db8::2", 0, *key);
                one.set(HELD_FREE + 2 * STEP);
                one
            })
            .collect();
        // Of another node, more than any one address but the culprit, less than the node.
        let mut other = holding(&budget, "2001:db8:0:1::1", 1, keys[4]);
        other.set(HELD_FREE + 2 * STEP);
        assert!(other.set(HELD_FREE + 3 * STEP));
        assert!(budget.doomed(1).is_empty());
        assert!(keys[1..4].contains(&budget.doomed(0)[0]), "the transfer lost");
        // Once the culprit holds less than the transfer, it is the transfer's turn.
        culprit.retain(|one| !budget.doomed(0).contains(&one.place.1));
        culprit[0].set(HELD_FREE + 3 * STEP);
        culprit[1].set(HELD_FREE);
        transfer.set(HELD_FREE + 5 * STEP);
        assert!(transfer.set(HELD_FREE + 7 * STEP));
        assert_eq!(budget.doomed(0), [keys[0]]);
    }

    #[test]
    fn many_addresses_of_one_prefix_lose_before_a_single_one_of_another() {
        let (budget, keys) = (Arc::new(Unsent::new(12 * STEP)), keys(10));
        let mut lone = holding(&budget, "2001:db8:0:1::1", 0, keys[0]);
        lone.set(HELD_FREE + 4 * STEP);
        let spread: Vec<_> = (1..)
            .zip(&keys[1..])
            .map(|(last, key)| {
                let mut one = holding(&budget, &format!("2001:db8::{last}"), 1, *key);
                one.set(HELD_FREE + STEP);
                one
            })
            .collect();
        assert_eq!((budget.held(), budget.doomed(1).len()), (13 * STEP, 1));
        assert!(budget.doomed(0).is_empty());
        drop(spread);
    }
    /// Numbers that look random, from 0 to below `end`.
    fn random(state: &mut u64, end: usize) -> usize {
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) as usize % end
    }

    /// What each connection holds, and who is doomed, found by looking at all of them.
    #[derive(Default)]
    struct Plain {
        shares: HashMap<Place, (IpAddr, usize)>,
        doomed: HashMap<Place, usize>,
    }

    impl Plain {
        fn set(&mut self, client: IpAddr, place: Place, octets: usize, max: usize) {
            if self.shares.get(&place).map_or(0, |(_, old)| *old) == octets {
                return;
            }
            self.shares.insert(place, (client, octets));
            self.doomed.remove(&place);
            let held: usize = self.shares.values().map(|(_, octets)| octets).sum();
            while held - self.doomed.values().sum::<usize>() > max {
                let stay = |place: &Place| !self.doomed.contains_key(place);
                let all = self.shares.iter().filter(|(place, _)| stay(place));
                let all: Vec<_> = all.map(|(place, (ip, octets))| (*ip, *octets, *place)).collect();
                let sum = |of: &dyn Fn(IpAddr) -> bool| -> usize {
                    all.iter().filter(|(ip, ..)| of(*ip)).map(|(_, octets, _)| octets).sum()
                };
                let networks = all.iter().map(|(ip, ..)| Network::of(*ip));
                let most = networks
                    .max_by_key(|network| (sum(&|ip| Network::of(ip) == *network), *network));
                let clients = all.iter().map(|(ip, ..)| *ip);
                let clients = clients.filter(|ip| Some(Network::of(*ip)) == most);
                let greediest = clients.max_by_key(|client| (sum(&|ip| ip == *client), *client));
                let own = all.iter().filter(|(ip, ..)| Some(*ip) == greediest);
                let (_, octets, place) =
                    own.max_by_key(|(_, octets, place)| (*octets, *place)).unwrap();
                self.doomed.insert(*place, *octets);
            }
        }
    }

    #[test]
    fn who_is_doomed_is_who_would_be_found_by_looking_at_all() {
        const MAX: usize = 40 * STEP;
        let addresses = ["192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"];
        let (budget, keys, mut seed) = (Arc::new(Unsent::new(MAX)), keys(24), 1);
        let mut plain = Plain::default();
        let mut all: Vec<_> = (0..)
            .zip(&keys)
            .map(|(at, key)| holding(&budget, addresses[at % addresses.len()], at % 3, *key))
            .collect();
        for _ in 0..20_000 {
            let one = random(&mut seed, all.len());
            let octets = [0, random(&mut seed, 8) * STEP][random(&mut seed, 2)];
            all[one].set(HELD_FREE + octets);
            plain.set(all[one].client, all[one].place, octets, MAX);
            let doomed = (0..3)
                .flat_map(|worker| budget.doomed(worker).into_iter().map(move |key| (worker, key)));
            let (mut doomed, mut expected) =
                (doomed.collect::<Vec<_>>(), plain.doomed.keys().copied().collect::<Vec<_>>());
            doomed.sort_unstable();
            expected.sort_unstable();
            assert_eq!(doomed, expected);
        }
        drop(all);
        let books = budget.books();
        assert!(books.clients.is_empty() && books.networks.is_empty());
        assert!(books.connections.is_empty() && books.doomed.is_empty());
        assert_eq!((books.ending, budget.held()), (0, 0));
    }
}
