//! Questions under way: one job asks, the others that want the same wait for its answer.

use super::State;
use crate::limits::{QUESTION_TIME_MAX, WAITERS_PER_FLIGHT_MAX};
use crate::shared::Mail;
use crate::time::Now;
use crate::worker::{Ticket, WorkerState};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Locks to spread questions over.
const SHARDS: usize = 64;

/// Questions under way, of all workers.
#[derive(Debug)]
pub struct Flights {
    hasher: RandomState,
    shards: Box<[Mutex<Shard>]>,
    instances: AtomicU64,
}

#[derive(Debug, Default)]
struct Shard {
    by_hash: HashMap<u64, usize, RandomState>,
    /// Places keep their buffers for the next flight.
    places: Vec<Place>,
    free: Vec<usize>,
}

#[derive(Debug)]
struct Place {
    key: Vec<u8>,
    owner: Waiter,
    since_ns: u64,
    waiters: Vec<Waiter>,
    /// The owner's worker is stuck: the next identical query takes over.
    forsaken: bool,
}

/// A job of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiter {
    worker: usize,
    ticket: Ticket,
}

/// A job's part in a flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seat {
    /// None: the job asks for itself alone.
    #[default]
    Alone,
    /// The job asks; the number finds the flight again.
    Owner(u64),
    /// The job waits for the owner's answer.
    Waiter(u64),
}

impl Default for Flights {
    fn default() -> Self {
        Self {
            hasher: RandomState::default(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            instances: AtomicU64::new(0),
        }
    }
}

impl Flights {
    /// A number for a `forward` of a configuration: flights do not cross from one to another.
    pub(super) fn instance(&self) -> u64 {
        self.instances.fetch_add(1, Ordering::Relaxed)
    }

    /// How many questions are under way.
    pub fn len(&self) -> usize {
        let in_shard = |shard: &Mutex<Shard>| lock(shard).by_hash.len();
        self.shards.iter().map(in_shard).sum()
    }

    /// Whether no question is under way.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Finds or starts the flight of `key`.
    fn board(&self, key: &[u8], now: Now, me: Waiter) -> Seat {
        let hash = self.hasher.hash_one(key);
        let Some(mut shard) = self.shard(hash) else { return Seat::Alone };
        let shard = &mut *shard;
        let Some(place) = shard.by_hash.get(&hash).copied() else {
            shard.start(hash, key, now, me);
            return Seat::Owner(hash);
        };
        let Some(place) = shard.places.get_mut(place) else { return Seat::Alone };
        if place.key != key {
            return Seat::Alone;
        }
        // An owner that vanished without a word must not take others with it.
        if now.since(place.since_ns) > 2 * QUESTION_TIME_MAX || place.forsaken {
            (place.since_ns, place.forsaken) = (now.mono_ns, false);
            place.owner = me;
            return Seat::Owner(hash);
        }
        if place.waiters.len() >= WAITERS_PER_FLIGHT_MAX {
            return Seat::Alone;
        }
        place.waiters.push(me);
        Seat::Waiter(hash)
    }

    /// Ends the flight and moves those who wait for it to `waiters`.
    fn land(&self, hash: u64, me: Waiter, waiters: &mut Vec<Waiter>) {
        let Some(mut shard) = self.shard(hash) else { return };
        let Some(index) = shard.by_hash.get(&hash).copied() else { return };
        let Some(place) = shard.places.get_mut(index) else { return };
        if place.owner == me {
            waiters.append(&mut place.waiters);
            shard.by_hash.remove(&hash);
            shard.free.push(index);
        }
    }

    /// The owner leaves without an answer: the first waiter becomes the owner.
    fn hand_over(&self, hash: u64, me: Waiter) -> Option<Waiter> {
        let mut shard = self.shard(hash)?;
        let index = shard.by_hash.get(&hash).copied()?;
        let place = shard.places.get_mut(index)?;
        if place.owner != me {
            return None;
        }
        if place.waiters.is_empty() {
            shard.by_hash.remove(&hash);
            shard.free.push(index);
            return None;
        }
        place.owner = place.waiters.remove(0);
        Some(place.owner)
    }

    /// Takes the flights of `worker` from it, because it is stuck: who waits elsewhere is to ask in
    /// its place, and whoever comes finds no flight that does not land. Gives the mail that has to
    /// be delivered, with the worker that it is for.
    pub fn forsake(&self, worker: usize) -> Vec<(usize, Mail)> {
        let mut mails = Vec::new();
        for shard in &self.shards {
            // The worker may have got stuck with the lock in its hands.
            let Ok(mut shard) = shard.try_lock() else { continue };
            shard.forsake(worker, &mut mails);
        }
        mails
    }

    /// A waiter leaves.
    fn step_out(&self, hash: u64, me: Waiter) -> bool {
        let Some(mut shard) = self.shard(hash) else { return true };
        let Some(index) = shard.by_hash.get(&hash).copied() else { return true };
        let Some(place) = shard.places.get_mut(index) else { return true };
        place.waiters.retain(|waiter| *waiter != me);
        place.owner != me
    }

    fn is_owner(&self, hash: u64, me: Waiter) -> bool {
        let Some(shard) = self.shard(hash) else { return false };
        let place = shard.by_hash.get(&hash).and_then(|index| shard.places.get(*index));
        place.is_some_and(|place| place.owner == me)
    }

    fn shard(&self, hash: u64) -> Option<MutexGuard<'_, Shard>> {
        // The low bits choose the bucket in the shard's table.
        let index = (hash >> 48) as usize % SHARDS;
        self.shards.get(index).map(lock)
    }
}

impl Shard {
    fn start(&mut self, hash: u64, key: &[u8], now: Now, owner: Waiter) {
        let index = self.free.pop().unwrap_or(self.places.len());
        if index == self.places.len() {
            let (key, waiters) = (Vec::new(), Vec::new());
            self.places.push(Place { key, owner, since_ns: 0, waiters, forsaken: false });
        }
        if let Some(place) = self.places.get_mut(index) {
            place.key.clear();
            place.key.extend_from_slice(key);
            place.owner = owner;
            (place.since_ns, place.forsaken) = (now.mono_ns, false);
            place.waiters.clear();
            self.by_hash.insert(hash, index);
        }
    }
}

impl Shard {
    fn forsake(&mut self, worker: usize, mails: &mut Vec<(usize, Mail)>) {
        for (hash, index) in &self.by_hash {
            let Some(place) = self.places.get_mut(*index) else { continue };
            if place.owner.worker != worker {
                continue;
            }
            if let Some(next) = place.waiters.iter().position(|waiter| waiter.worker != worker) {
                let next = place.waiters.remove(next);
                place.owner = next;
                let mail = Mail { ticket: next.ticket, flight: *hash, message: None };
                mails.push((next.worker, mail));
                continue;
            }
            // No other query waits: it resumes when the worker recovers, unless another comes first.
            place.forsaken = true;
        }
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

fn me(state: &State, worker: &WorkerState) -> Waiter {
    Waiter { worker: worker.index, ticket: state.ticket }
}

/// Joins or starts the flight for the message in `state`. `scope` tells apart those who must not
/// share an answer; `question` is where QNAME, QTYPE and QCLASS are in the message.
pub(super) fn board(
    state: &mut State,
    worker: &WorkerState,
    now: Now,
    scope: &[u8],
    question: Range<usize>,
) {
    state.key.clear();
    // The ID is not part of what is asked; it is 0 here.
    state.key.extend_from_slice(&state.message);
    if let Some(question) = state.key.get_mut(question) {
        question.make_ascii_lowercase();
    }
    state.key.extend_from_slice(scope);
    state.seat = worker.shared.flights.board(&state.key, now, me(state, worker));
}

/// The flight has its answer and ends as soon as the handlers above have seen it: whoever asks
/// the same from then on finds it in their cache, so there is no moment to ask again in.
pub(super) fn approach(state: &mut State, worker: &mut WorkerState, message: &[u8]) {
    let Seat::Owner(hash) = std::mem::take(&mut state.seat) else { return };
    finish_landing(worker);
    let owner = me(state, worker);
    worker.landing.flight = Some((hash, owner));
    worker.landing.message.clear();
    worker.landing.message.extend_from_slice(message);
}

/// Ends the flight that [`approach`] announced, if any.
pub(crate) fn finish_landing(worker: &mut WorkerState) {
    let Some((hash, owner)) = worker.landing.flight.take() else { return };
    let message = std::mem::take(&mut worker.landing.message);
    tell(hash, owner, worker, Some(&message));
    worker.landing.message = message;
}

/// Ends the flight, if the job owns one: all who wait learn that there is no answer.
pub(super) fn crash(state: &mut State, worker: &mut WorkerState) {
    // One who waits keeps its seat until it leaves it: it must not be made the one to ask.
    let Seat::Owner(hash) = state.seat else { return };
    state.seat = Seat::Alone;
    tell(hash, me(state, worker), worker, None);
}

fn tell(hash: u64, owner: Waiter, worker: &mut WorkerState, message: Option<&[u8]>) {
    let mut waiters = std::mem::take(&mut worker.landing.waiters);
    worker.shared.flights.land(hash, owner, &mut waiters);
    if !waiters.is_empty() {
        let message: Option<Arc<[u8]>> = message.map(Arc::from);
        for waiter in waiters.drain(..) {
            let mail = Mail { ticket: waiter.ticket, flight: hash, message: message.clone() };
            worker.deliver(waiter.worker, mail);
        }
    }
    worker.landing.waiters = waiters;
}

/// The job ends without having landed: somebody else takes over.
pub(super) fn bail_out(state: &mut State, worker: &mut WorkerState) {
    if state.seat == Seat::Alone {
        return;
    }
    let me = me(state, worker);
    let shared = worker.shared.clone();
    let flights = &shared.flights;
    let hash = match std::mem::take(&mut state.seat) {
        Seat::Alone => return,
        Seat::Owner(hash) => hash,
        // The owner may have made this job the new one without its knowing.
        Seat::Waiter(hash) if flights.step_out(hash, me) => return,
        Seat::Waiter(hash) => hash,
    };
    if let Some(next) = flights.hand_over(hash, me) {
        worker.deliver(next.worker, Mail { ticket: next.ticket, flight: hash, message: None });
    }
}

/// A waiter was told that there is no message: whether it is now the one to ask.
pub(super) fn takes_over(state: &mut State, worker: &WorkerState) -> bool {
    let Seat::Waiter(hash) = state.seat else { return false };
    let owner = worker.shared.flights.is_owner(hash, me(state, worker));
    state.seat = if owner { Seat::Owner(hash) } else { Seat::Alone };
    owner
}

/// A flight that is about to land, and room to collect those who wait for it.
#[derive(Debug, Default)]
pub struct Landing {
    flight: Option<(u64, Waiter)>,
    message: Vec<u8>,
    waiters: Vec<Waiter>,
}

impl Landing {
    /// Whether [`finish_landing`] has something to do.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.flight.is_some()
    }
}
