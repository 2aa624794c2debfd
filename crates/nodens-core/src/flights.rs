//! Questions under way: one job asks, the others that want the same wait for its answer.

use crate::limits::{QUESTION_TIME_MAX, WAITERS_PER_FLIGHT_MAX};
use crate::ticket::Ticket;
use crate::time::Now;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::hash::BuildHasher;
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
pub struct Waiter {
    /// The worker.
    pub(crate) worker: usize,
    /// The job.
    pub(crate) ticket: Ticket,
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
    pub(crate) fn instance(&self) -> u64 {
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
    pub(crate) fn board(&self, key: &[u8], now: Now, me: Waiter) -> Seat {
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
        // If the owner's job is gone without finishing, the others would wait in vain: one of them takes over.
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
    pub(crate) fn land(&self, hash: u64, me: Waiter, waiters: &mut Vec<Waiter>) {
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
    pub(crate) fn hand_over(&self, hash: u64, me: Waiter) -> Option<Waiter> {
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

    /// Takes the flights of `worker`, which is stuck: a waiter of another worker sends the query in its
    /// place, and later jobs do not wait for it. Gives the mail that has to be delivered, with the
    /// worker that each is for.
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
    pub(crate) fn step_out(&self, hash: u64, me: Waiter) -> bool {
        let Some(mut shard) = self.shard(hash) else { return true };
        let Some(index) = shard.by_hash.get(&hash).copied() else { return true };
        let Some(place) = shard.places.get_mut(index) else { return true };
        place.waiters.retain(|waiter| *waiter != me);
        place.owner != me
    }

    pub(crate) fn is_owner(&self, hash: u64, me: Waiter) -> bool {
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

/// A shared answer for a job of another worker.
#[derive(Debug)]
pub struct Mail {
    /// The waiting job.
    pub ticket: Ticket,
    /// The flight it waited for. By the time this arrives, the job may wait for something else, or
    /// have made place for another.
    pub flight: u64,
    /// The upstream's message; `None` if the query failed.
    pub message: Option<Arc<[u8]>>,
}

/// A flight that is about to land, and room to collect those who wait for it.
#[derive(Debug, Default)]
pub struct Landing {
    pub(crate) flight: Option<(u64, Waiter)>,
    pub(crate) message: Vec<u8>,
    pub(crate) waiters: Vec<Waiter>,
}

impl Landing {
    /// Whether `WorkerState::finish_landing` has something to do.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.flight.is_some()
    }
}
