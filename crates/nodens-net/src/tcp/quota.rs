//! How many client connections there may be: in all, and from one address.

use super::unsent::Network;
use crate::limits::{QUOTA_PARTS, RESERVE_MAX};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One in this many places, of all and of each client's, is kept free while idle connections can be
/// closed instead, so that a worker which has none of its own can take a new connection until
/// others have made room.
const RESERVE_SHARE: usize = 8;

/// Counts the connections of all workers. Touched when a connection opens or closes, never by a
/// question.
///
/// What is counted of clients is spread over parts by their networks, each with its own lock, so
/// that workers hardly ever wait for each other, and the clients of a network that opens very many
/// connections wait for each other alone.
#[derive(Debug)]
pub(crate) struct Quota {
    open: AtomicUsize,
    max: usize,
    /// Above this, idle connections are closed to make room.
    comfortable: usize,
    per_client: usize,
    /// A client with more than this loses idle connections of its own.
    comfortable_per_client: usize,
    parts: [Mutex<Clients>; QUOTA_PARTS],
    /// Which part a network belongs to. The hash has a random key, so that clients cannot choose
    /// networks of one part.
    hasher: RandomState,
    /// How many clients are crowded, in all parts.
    crowded: AtomicUsize,
}

#[derive(Debug, Default)]
struct Clients {
    open: HashMap<IpAddr, usize>,
    /// Those with more connections than they can have in comfort: a few, as each has many.
    crowded: Vec<IpAddr>,
}

/// One counted connection; dropping it gives its place back.
#[derive(Debug)]
pub(crate) struct Place {
    quota: Arc<Quota>,
    client: IpAddr,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// This client has as many as one may have.
    Client,
    /// All places are taken.
    All,
}

impl Quota {
    pub(crate) fn new(max: usize, per_client: usize) -> Self {
        let (max, per_client) = (max.max(1), per_client.max(1));
        let comfortable = |max: usize| max - (max / RESERVE_SHARE).min(RESERVE_MAX);
        Self {
            open: AtomicUsize::new(0),
            max,
            comfortable: comfortable(max),
            per_client,
            comfortable_per_client: comfortable(per_client),
            parts: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::default(),
            crowded: AtomicUsize::new(0),
        }
    }

    /// Takes a place for a connection from `client`.
    pub(crate) fn take(self: &Arc<Self>, client: IpAddr) -> Result<Place, Full> {
        let mut clients = self.part_of(client);
        let count = clients.open.get(&client).copied().unwrap_or(0);
        if count >= self.per_client {
            return Err(Full::Client);
        }
        let one_more = |open: usize| (open < self.max).then_some(open + 1);
        if self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_err() {
            return Err(Full::All);
        }
        self.enter(&mut clients, client, count);
        Ok(Place { quota: self.clone(), client })
    }

    /// Counts one more of a client that has `count`.
    fn enter(&self, clients: &mut Clients, client: IpAddr, count: usize) {
        clients.open.insert(client, count + 1);
        if count == self.comfortable_per_client {
            clients.crowded.push(client);
            self.crowded.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts one less of a client.
    fn leave(&self, clients: &mut Clients, client: IpAddr) {
        let left = clients.open.get(&client).map_or(0, |count| count - 1);
        if left == 0 {
            clients.open.remove(&client);
        } else {
            clients.open.insert(client, left);
        }
        if left == self.comfortable_per_client {
            clients.crowded.retain(|own| *own != client);
            self.crowded.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether idle connections should make room: the last places are being taken.
    pub(crate) fn is_tight(&self) -> bool {
        self.open() > self.comfortable
    }

    /// Whether idle connections of this client should make room: it is taking its last places.
    pub(crate) fn is_crowded(&self, client: IpAddr) -> bool {
        self.has_crowded() && self.part_of(client).crowded.contains(&client)
    }

    /// All clients of which this is so.
    pub(crate) fn crowded(&self) -> Vec<IpAddr> {
        if !self.has_crowded() {
            return Vec::new();
        }
        self.parts.iter().flat_map(|part| lock(part).crowded.clone()).collect()
    }

    fn has_crowded(&self) -> bool {
        self.crowded.load(Ordering::Relaxed) > 0
    }

    fn part_of(&self, client: IpAddr) -> MutexGuard<'_, Clients> {
        let hash = self.hasher.hash_one(Network::of(client.to_canonical()));
        // invariant: the remainder is less than the number of parts.
        lock(&self.parts[hash as usize % QUOTA_PARTS])
    }

    /// How many connections are open.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

fn lock(part: &Mutex<Clients>) -> MutexGuard<'_, Clients> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut clients = self.quota.part_of(self.client);
        self.quota.open.fetch_sub(1, Ordering::Relaxed);
        self.quota.leave(&mut clients, self.client);
    }
}

impl Place {
    /// Makes it a place of `client`, unless that has as many as one may have.
    pub(crate) fn pass_to(&mut self, client: IpAddr) -> Result<(), Full> {
        if client == self.client {
            return Ok(());
        }
        // One lock after the other: both may be of the same part.
        let mut clients = self.quota.part_of(client);
        let count = clients.open.get(&client).copied().unwrap_or(0);
        if count >= self.quota.per_client {
            return Err(Full::Client);
        }
        self.quota.enter(&mut clients, client, count);
        drop(clients);
        let former = std::mem::replace(&mut self.client, client);
        let mut clients = self.quota.part_of(former);
        self.quota.leave(&mut clients, former);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_per_client_and_in_all() {
        let quota = Arc::new(Quota::new(3, 2));
        let [a, b]: [IpAddr; 2] = [[192, 0, 2, 1].into(), [192, 0, 2, 2].into()];
        let first = quota.take(a).unwrap();
        let second = quota.take(a).unwrap();
        assert_eq!(quota.take(a).unwrap_err(), Full::Client);
        let third = quota.take(b).unwrap();
        assert_eq!(quota.take(b).unwrap_err(), Full::All);
        drop(first);
        let again = quota.take(a).unwrap();
        assert_eq!(quota.open(), 3);
        drop((second, third, again));
        assert_eq!(quota.open(), 0);
        assert!(!quota.is_tight());
        assert!(quota.parts.iter().all(|part| lock(part).open.is_empty()));
        assert!(quota.crowded().is_empty() && !quota.has_crowded());
    }

    #[test]
    fn a_place_that_passes_to_another_client_counts_once() {
        let quota = Arc::new(Quota::new(4, 2));
        let [proxy, a]: [IpAddr; 2] = [[192, 0, 2, 9].into(), [192, 0, 2, 1].into()];
        let mut first = quota.take(proxy).unwrap();
        let mut second = quota.take(proxy).unwrap();
        assert_eq!(quota.take(proxy).unwrap_err(), Full::Client);
        first.pass_to(a).unwrap();
        first.pass_to(a).unwrap();
        let mut third = quota.take(proxy).unwrap();
        second.pass_to(a).unwrap();
        assert_eq!(third.pass_to(a), Err(Full::Client));
        let _fourth = quota.take(proxy).unwrap();
        assert_eq!((quota.open(), quota.take(proxy).unwrap_err()), (4, Full::Client));
        drop((first, second));
        third.pass_to(a).unwrap();
        drop((third, _fourth));
        assert_eq!(quota.open(), 0);
        assert!(quota.parts.iter().all(|part| lock(part).open.is_empty()));
        assert!(quota.crowded().is_empty() && !quota.has_crowded());
    }

    #[test]
    fn a_client_is_crowded_while_it_has_its_last_places() {
        let quota = Arc::new(Quota::new(100, 16));
        let [a, b]: [IpAddr; 2] = [[192, 0, 2, 1].into(), [192, 0, 2, 2].into()];
        let _other = quota.take(b).unwrap();
        let mut places: Vec<_> = (0..14).map(|_| quota.take(a).unwrap()).collect();
        assert!(!quota.is_crowded(a));
        places.extend((0..2).map(|_| quota.take(a).unwrap()));
        assert!(quota.is_crowded(a) && !quota.is_crowded(b) && !quota.is_tight());
        assert_eq!(quota.crowded(), [a]);
        places.truncate(15);
        assert!(quota.is_crowded(a));
        places.truncate(14);
        assert!(!quota.is_crowded(a));
    }

    #[test]
    fn the_last_places_are_tight() {
        let quota = Arc::new(Quota::new(16, 16));
        let client: IpAddr = [192, 0, 2, 1].into();
        let mut places: Vec<_> = (0..14).map(|_| quota.take(client).unwrap()).collect();
        assert!(!quota.is_tight());
        places.push(quota.take(client).unwrap());
        assert!(quota.is_tight());
        places.pop();
        assert!(!quota.is_tight());
    }
    #[test]
    fn the_bounds_hold_however_many_take_places_at_once() {
        const MAX: usize = 40;
        let quota = Arc::new(Quota::new(MAX, 8));
        let worker = |seed: u8| {
            let quota = quota.clone();
            move || {
                let mut places = Vec::new();
                for turn in 0..20_000_u32 {
                    let client = [192, 0, 2, (turn % 7) as u8].into();
                    let taken = quota.take(client);
                    assert!(quota.open() <= MAX);
                    match taken {
                        Ok(place) => places.push(place),
                        Err(_) => places.truncate(usize::from(seed)),
                    }
                    let own = places.iter().filter(|place| place.client == client).count();
                    assert!(own <= 8);
                }
            }
        };
        let threads: Vec<_> = (0..4).map(|seed| std::thread::spawn(worker(seed))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(quota.open(), 0);
        assert!(quota.parts.iter().all(|part| lock(part).open.is_empty()));
        assert!(quota.crowded().is_empty() && !quota.has_crowded());
    }
}
