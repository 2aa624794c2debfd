//! How many client connections there may be: in all, from one address, and from one network.

use super::connection::NEVER;
use super::few::{Few, OpenByListener};
use crate::limits::{IDLE_ALIKE_NS, PRESSURE, QUOTA_PARTS, RESERVE_MAX};
use foldhash::fast::RandomState;
use nodens_core::Group;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One in this many places, of all and of each group's, is kept free while idle connections can be
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
    all: Bounds,
    client: Bounds,
    network: Bounds,
    parts: [Mutex<Part>; QUOTA_PARTS],
    /// Which part a network belongs to. The hash has a random key, so that clients cannot choose
    /// networks of one part.
    hasher: RandomState,
    /// How many groups are crowded, in all parts.
    crowded: AtomicUsize,
    /// How many networks have few places left.
    pressed: AtomicUsize,
    /// Of listeners that may have few.
    by_listener: OpenByListener,
    /// A worker had no descriptor for a new connection, and no idle connection to close for it.
    short: AtomicBool,
    /// Above this, idle connections are closed because the limit of descriptors was lowered.
    lowered: AtomicUsize,
    /// For each worker, a time since when none of its connections is idle.
    idle_since: Vec<Apart>,
}

/// A time that a worker tells the others, in a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct Apart(AtomicU64);

/// How many connections there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    max: usize,
    /// Above this, idle connections are closed to make room.
    comfortable: usize,
    /// Above this, they may be idle for less time.
    ample: usize,
}

impl Bounds {
    fn new(max: usize) -> Self {
        let max = max.max(1);
        let comfortable = max - (max / RESERVE_SHARE).min(RESERVE_MAX);
        let least = |percent: usize| (max * percent).div_ceil(100);
        let ample = PRESSURE.iter().map(|(percent, _)| max - least(*percent)).min();
        Self { max, comfortable, ample: ample.unwrap_or(max) }
    }

    /// The part of its idle time after which an idle connection is closed while so many are open: one in
    /// so many. 1 unless few places are left.
    fn idle_divisor(self, open: usize) -> u64 {
        let free = self.max.saturating_sub(open);
        let is_short = |(percent, _): &&(usize, u64)| free * 100 < self.max * percent;
        PRESSURE.iter().find(is_short).map_or(1, |(_, divisor)| *divisor)
    }
}

#[derive(Debug, Default)]
struct Part {
    /// Connections of each client and of each network.
    open: HashMap<Group, u32, RandomState>,
    /// Those with more connections than they can have in comfort: a few, as each has many.
    crowded: Vec<Group>,
}

/// One counted connection; dropping it gives its place back.
#[derive(Debug)]
pub(crate) struct Place {
    quota: Option<Arc<Quota>>,
    client: IpAddr,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// This client, or its network, has as many as one may have.
    Group(Group),
    /// All places are taken.
    All,
}

impl Quota {
    /// For so many workers.
    pub(crate) fn new(
        max: usize,
        (per_client, per_network): (usize, usize),
        workers: usize,
    ) -> Self {
        let apart = |_| Apart(AtomicU64::new(NEVER));
        Self {
            open: AtomicUsize::new(0),
            all: Bounds::new(max),
            client: Bounds::new(per_client),
            network: Bounds::new(per_network),
            parts: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::default(),
            crowded: AtomicUsize::new(0),
            pressed: AtomicUsize::new(0),
            by_listener: OpenByListener::default(),
            short: AtomicBool::new(false),
            lowered: AtomicUsize::new(usize::MAX),
            idle_since: (0..workers).map(apart).collect(),
        }
    }

    /// The connections of a listener that may have so many.
    pub(crate) fn few(&self, listener: u32, max: usize) -> Few {
        self.by_listener.few(listener, max)
    }

    /// Takes a place for a connection from `client`.
    pub(crate) fn take(self: &Arc<Self>, client: IpAddr) -> Result<Place, Full> {
        let mut part = self.part_of(Group::network(client));
        let groups = self.groups(client);
        part.check(groups)?;
        let one_more = |open: usize| (open < self.all.max).then_some(open + 1);
        if self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_err() {
            return Err(Full::All);
        }
        self.enter(&mut part, groups);
        Ok(Place { quota: Some(self.clone()), client })
    }

    /// A connection from `client` whose place was kept is closed.
    pub(crate) fn give_back(&self, client: IpAddr) {
        let mut part = self.part_of(Group::network(client));
        self.open.fetch_sub(1, Ordering::Relaxed);
        self.leave(&mut part, self.groups(client));
    }

    /// Counts an open connection of `former` as one of `client` from now on, unless that, or its
    /// network, has as many as one may have.
    pub(crate) fn pass(&self, former: IpAddr, client: IpAddr) -> Result<(), Full> {
        let (old, new) = (self.groups(former), self.groups(client));
        // What both are of, such as the network, has it already.
        let gains = new.map(|group| Some(group).filter(|group| !old.contains(group)));
        let loses = old.map(|group| Some(group).filter(|group| !new.contains(group)));
        // One lock after the other: both may be of the same part.
        let mut part = self.part_of(Group::network(client));
        part.check(gains.into_iter().flatten())?;
        self.enter(&mut part, gains.into_iter().flatten());
        drop(part);
        self.leave(&mut self.part_of(Group::network(former)), loses.into_iter().flatten());
        Ok(())
    }

    /// Counts one more of each of these groups.
    fn enter(&self, part: &mut Part, groups: impl IntoIterator<Item = (Group, Bounds)>) {
        for (group, bounds) in groups {
            let count = part.open.entry(group).or_default();
            *count += 1;
            if *count as usize == bounds.comfortable + 1 {
                part.crowded.push(group);
                self.crowded.fetch_add(1, Ordering::Relaxed);
            }
            if !group.is_client() && *count as usize == bounds.ample + 1 {
                self.pressed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Counts one less of each.
    fn leave(&self, part: &mut Part, groups: impl IntoIterator<Item = (Group, Bounds)>) {
        for (group, bounds) in groups {
            let Some(count) = part.open.get_mut(&group) else { continue };
            *count = count.saturating_sub(1);
            let left = *count as usize;
            if left == 0 {
                part.open.remove(&group);
            }
            if left == bounds.comfortable {
                part.crowded.retain(|other| *other != group);
                self.crowded.fetch_sub(1, Ordering::Relaxed);
            }
            if !group.is_client() && left == bounds.ample {
                self.pressed.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Whether idle connections should make room: the last places are being taken.
    pub(crate) fn is_tight(&self) -> bool {
        self.open() > self.all.comfortable.min(self.lowered.load(Ordering::Relaxed))
    }

    /// There are descriptors for no more than `max` connections by now. More are accepted all the same, if
    /// there is a descriptor.
    pub(crate) fn lower(&self, max: usize) {
        self.lowered.fetch_min(Bounds::new(max).comfortable, Ordering::Relaxed);
    }

    /// None of a worker's connections is idle since before `since`.
    pub(crate) fn tell_idle(&self, worker: usize, since: u64) {
        let Some(Apart(told)) = self.idle_since.get(worker) else { return };
        if told.load(Ordering::Relaxed) != since {
            told.store(since, Ordering::Relaxed);
        }
    }

    /// The worker that may have a connection which is idle since clearly before `since`, if any but
    /// `worker` has.
    pub(crate) fn idle_elsewhere(&self, worker: usize, since: u64) -> Option<usize> {
        let told = self.idle_since.iter().map(|Apart(told)| told.load(Ordering::Relaxed));
        let others = told.enumerate().filter(|(at, _)| *at != worker);
        let (at, told) = others.min_by_key(|(_, told)| *told)?;
        (told.saturating_add(IDLE_ALIKE_NS) < since).then_some(at)
    }

    /// Asks whoever has an idle connection to close it: there is no descriptor for a new one.
    pub(crate) fn note_shortage(&self) {
        self.short.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked so.
    pub(crate) fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed)
    }

    /// It is done, or about to be; says whether somebody asked.
    pub(crate) fn end_shortage(&self) -> bool {
        self.is_short() && self.short.swap(false, Ordering::Relaxed)
    }

    /// Whether few places are left, of all or of a network's.
    pub(crate) fn has_pressure(&self) -> bool {
        self.pressed.load(Ordering::Relaxed) > 0 || self.all.idle_divisor(self.open()) > 1
    }

    /// The part of its idle time after which an idle connection of `client` is closed: one in so
    /// many. 1 unless few places are left, of all or of its network's.
    pub(crate) fn idle_divisor(&self, client: IpAddr) -> u64 {
        let of_all = self.all.idle_divisor(self.open());
        if self.pressed.load(Ordering::Relaxed) == 0 {
            return of_all;
        }
        of_all.max(self.network.idle_divisor(self.open_of(Group::network(client))))
    }

    /// Whether idle connections of this group should make room: it is taking its last places.
    pub(crate) fn is_crowded(&self, group: Group) -> bool {
        self.has_crowded() && self.part_of(group).crowded.contains(&group)
    }

    /// Of the groups of `client`, those of which this is so.
    pub(crate) fn crowded_of(&self, client: IpAddr) -> impl Iterator<Item = Group> {
        let groups = if self.has_crowded() { Group::all_of(client).to_vec() } else { Vec::new() };
        groups.into_iter().filter(|group| self.is_crowded(*group))
    }

    /// All groups of which this is so.
    pub(crate) fn crowded(&self) -> Vec<Group> {
        if !self.has_crowded() {
            return Vec::new();
        }
        self.parts.iter().flat_map(|part| lock(part).crowded.clone()).collect()
    }

    /// How many connections a group has.
    pub(crate) fn open_of(&self, group: Group) -> usize {
        self.part_of(group).count(group)
    }

    /// With how many connections a group is not about to be crowded again.
    pub(crate) fn small(&self, group: Group) -> usize {
        let bounds = if group.is_client() { self.client } else { self.network };
        bounds.comfortable / 2
    }

    fn has_crowded(&self) -> bool {
        self.crowded.load(Ordering::Relaxed) > 0
    }

    fn groups(&self, client: IpAddr) -> [(Group, Bounds); 2] {
        let [address, network] = Group::all_of(client);
        [(address, self.client), (network, self.network)]
    }

    fn part_of(&self, group: Group) -> MutexGuard<'_, Part> {
        let hash = self.hasher.hash_one(group.to_network());
        // invariant: the remainder is less than the number of parts.
        lock(&self.parts[hash as usize % QUOTA_PARTS])
    }

    /// How many connections are open.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

impl Part {
    /// Whether each of these groups may have one more.
    fn check(&self, groups: impl IntoIterator<Item = (Group, Bounds)>) -> Result<(), Full> {
        let mut groups = groups.into_iter();
        let full = groups.find(|(group, bounds)| self.count(*group) >= bounds.max);
        full.map_or(Ok(()), |(group, _)| Err(Full::Group(group)))
    }

    fn count(&self, group: Group) -> usize {
        self.open.get(&group).map_or(0, |count| *count as usize)
    }
}

fn lock(part: &Mutex<Part>) -> MutexGuard<'_, Part> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Place {
    /// The connection is open. Its owner calls [`Quota::give_back`] when it closes, so that it need
    /// not keep this.
    pub(crate) fn keep(mut self) {
        self.quota = None;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(quota) = self.quota.take() {
            quota.give_back(self.client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_per_client_and_in_all() {
        let quota = Arc::new(Quota::new(3, (2, 9), 1));
        let [a, b]: [IpAddr; 2] = [[192, 0, 2, 1].into(), [192, 0, 2, 2].into()];
        let first = quota.take(a).unwrap();
        let second = quota.take(a).unwrap();
        assert_eq!(quota.take(a).unwrap_err(), Full::Group(Group::client(a)));
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
        let quota = Arc::new(Quota::new(4, (2, 3), 1));
        let [proxy, a, b]: [IpAddr; 3] =
            [[192, 0, 2, 9].into(), [192, 0, 2, 1].into(), [198, 51, 100, 1].into()];
        (0..2).for_each(|_| quota.take(proxy).unwrap().keep());
        let full = Err(Full::Group(Group::client(a)));
        assert!(quota.take(proxy).is_err());
        quota.pass(proxy, a).unwrap();
        quota.pass(a, a).unwrap();
        quota.take(proxy).unwrap().keep();
        quota.pass(proxy, a).unwrap();
        assert_eq!(quota.pass(proxy, a), full);
        // All three are of one network, which has no more than that.
        assert_eq!(quota.take(proxy).unwrap_err(), Full::Group(Group::network(a)));
        quota.pass(proxy, b).unwrap();
        assert_eq!((quota.open(), quota.open_of(Group::network(a))), (3, 2));
        quota.take(proxy).unwrap().keep();
        quota.pass(b, proxy).unwrap_err();
        [a, a, b, proxy].into_iter().for_each(|client| quota.give_back(client));
        assert_eq!(quota.open(), 0);
        assert!(quota.parts.iter().all(|part| lock(part).open.is_empty()));
        assert!(quota.crowded().is_empty() && !quota.has_crowded());
    }

    #[test]
    fn a_client_is_crowded_while_it_has_its_last_places() {
        let quota = Arc::new(Quota::new(100, (16, 100), 1));
        let [a, b]: [IpAddr; 2] = [[192, 0, 2, 1].into(), [192, 0, 2, 2].into()];
        let _other = quota.take(b).unwrap();
        let mut places: Vec<_> = (0..14).map(|_| quota.take(a).unwrap()).collect();
        assert!(!quota.is_crowded(Group::client(a)));
        places.extend((0..2).map(|_| quota.take(a).unwrap()));
        let [a, b] = [a, b].map(Group::client);
        assert!(quota.is_crowded(a) && !quota.is_crowded(b) && !quota.is_tight());
        assert_eq!(quota.crowded(), [a]);
        places.truncate(15);
        assert!(quota.is_crowded(a));
        places.truncate(14);
        assert!(!quota.is_crowded(a));
    }

    #[test]
    fn a_lowered_limit_makes_idle_connections_go_and_turns_nobody_away() {
        let quota = Arc::new(Quota::new(64, (64, 64), 1));
        let client: IpAddr = [192, 0, 2, 1].into();
        let mut places: Vec<_> = (0..20).map(|_| quota.take(client).unwrap()).collect();
        assert!(!quota.is_tight());
        quota.lower(16);
        assert!(quota.is_tight());
        places.push(quota.take(client).unwrap());
        places.truncate(14);
        assert!(!quota.is_tight());
        // What was known to be too much stays too much.
        quota.lower(64);
        places.push(quota.take(client).unwrap());
        assert!(quota.is_tight());
    }

    #[test]
    fn the_worker_with_what_is_idle_for_clearly_longer_is_asked() {
        let quota = Quota::new(64, (64, 64), 3);
        assert_eq!(quota.idle_elsewhere(0, 5 * IDLE_ALIKE_NS), None);
        quota.tell_idle(1, 3 * IDLE_ALIKE_NS);
        quota.tell_idle(2, IDLE_ALIKE_NS);
        assert_eq!(quota.idle_elsewhere(0, 2 * IDLE_ALIKE_NS), None);
        assert_eq!(quota.idle_elsewhere(0, 2 * IDLE_ALIKE_NS + 1), Some(2));
        assert_eq!(quota.idle_elsewhere(2, 4 * IDLE_ALIKE_NS), None);
        assert_eq!(quota.idle_elsewhere(2, NEVER), Some(1));
        quota.tell_idle(2, NEVER);
        assert_eq!(quota.idle_elsewhere(0, NEVER), Some(1));
    }

    #[test]
    fn the_last_places_are_tight() {
        let quota = Arc::new(Quota::new(16, (16, 16), 1));
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
        let quota = Arc::new(Quota::new(MAX, (8, MAX), 1));
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

    #[test]
    fn the_addresses_of_a_network_share_what_one_network_may_have() {
        let quota = Arc::new(Quota::new(100, (16, 32), 1));
        let address = |last: u16| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, last]);
        let mut places: Vec<_> = (0..28).map(|last| quota.take(address(last)).unwrap()).collect();
        let network = Group::network(address(0));
        assert!(!quota.is_crowded(network));
        places.extend((28..32).map(|last| quota.take(address(last)).unwrap()));
        assert_eq!(quota.crowded(), [network]);
        assert_eq!(quota.crowded_of(address(99)).collect::<Vec<_>>(), [network]);
        assert_eq!(quota.take(address(99)).unwrap_err(), Full::Group(network));
        assert!(quota.take("2001:db8:0:1::1".parse().unwrap()).is_ok());
        assert_eq!(quota.open_of(network), 32);
        let kept = places.pop().unwrap();
        kept.keep();
        drop(places);
        assert_eq!((quota.open(), quota.open_of(network)), (1, 1));
        quota.give_back(address(31));
        assert_eq!(quota.open(), 0);
        assert!(quota.parts.iter().all(|part| lock(part).open.is_empty()));
        assert!(quota.crowded().is_empty() && !quota.has_crowded());
    }

    #[test]
    fn the_fewer_places_are_left_the_shorter_connections_may_be_idle() {
        let quota = Arc::new(Quota::new(1000, (1000, 1000), 1));
        let client: IpAddr = [192, 0, 2, 1].into();
        let mut places = Vec::new();
        let mut divisors = Vec::new();
        while let Ok(place) = quota.take(client) {
            places.push(place);
            let divisor = quota.idle_divisor(client);
            assert_eq!(quota.has_pressure(), divisor > 1);
            if divisors.last().is_none_or(|(_, last)| *last != divisor) {
                divisors.push((places.len(), divisor));
            }
        }
        assert_eq!(divisors, [(1, 1), (881, 2), (971, 4)]);
        places.truncate(880);
        assert_eq!((quota.idle_divisor(client), quota.has_pressure()), (1, false));
    }

    #[test]
    fn a_network_with_few_places_left_is_pressed_and_others_are_not() {
        let quota = Arc::new(Quota::new(1000, (1000, 100), 1));
        let [a, b]: [IpAddr; 2] = [[192, 0, 2, 1].into(), [198, 51, 100, 1].into()];
        let mut places: Vec<_> = (0..88).map(|_| quota.take(a).unwrap()).collect();
        assert!(!quota.has_pressure());
        places.push(quota.take(a).unwrap());
        assert_eq!((quota.idle_divisor(a), quota.idle_divisor(b)), (2, 1));
        assert!(quota.has_pressure());
        places.truncate(88);
        assert_eq!((quota.idle_divisor(a), quota.has_pressure()), (1, false));
    }
}
