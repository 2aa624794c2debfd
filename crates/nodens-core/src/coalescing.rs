//! Coalescing: of the jobs that have the same query at the same time, one sends it upstream, the
//! leader; the others, its followers, wait for its response.

use crate::limits::{FOLLOWERS_PER_QUERY_MAX, JOIN_TIME_MAX, QUESTION_TIME_MAX};
use crate::ticket::Ticket;
use crate::time::Now;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Locks to spread queries over.
const SHARDS: usize = 64;

/// Queries in flight, of all workers.
#[derive(Debug)]
pub struct InFlight {
    hasher: RandomState,
    shards: Box<[Mutex<Shard>]>,
    instances: AtomicU64,
}

#[derive(Debug, Default)]
struct Shard {
    by_hash: HashMap<u64, usize, RandomState>,
    /// Those that have ended keep their buffers for the next query.
    queries: Vec<Coalesced>,
    free: Vec<usize>,
}

#[derive(Debug)]
struct Coalesced {
    key: Vec<u8>,
    leader: Member,
    /// Those that asked before it and may get a response still.
    former: Vec<Member>,
    since_ns: u64,
    followers: Vec<Member>,
    /// The leader's worker is stuck: the next identical query takes over.
    is_stuck: bool,
}

/// A job of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The worker.
    pub(crate) worker: usize,
    /// The job.
    pub(crate) ticket: Ticket,
}

/// A job's part in a coalesced query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// None: the job sends the query for itself alone.
    #[default]
    Alone,
    /// The job sends the query; the number finds it again.
    Leader(u64),
    /// The job waits for the leader's response.
    Follower(u64),
}

impl Default for InFlight {
    fn default() -> Self {
        Self {
            hasher: RandomState::default(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            instances: AtomicU64::new(0),
        }
    }
}

impl InFlight {
    /// A number for those of a configuration that ask: queries of two are not coalesced.
    pub(crate) fn instance(&self) -> u64 {
        self.instances.fetch_add(1, Ordering::Relaxed)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        let in_shard = |shard: &Mutex<Shard>| lock(shard).by_hash.len();
        self.shards.iter().map(in_shard).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Joins the query of `key`, or starts it.
    pub(crate) fn join(&self, key: &[u8], now: Now, me: Member) -> Role {
        let hash = self.hasher.hash_one(key);
        let Some(mut shard) = self.shard(hash) else { return Role::Alone };
        let shard = &mut *shard;
        let Some(query) = shard.by_hash.get(&hash).copied() else {
            shard.start(hash, key, now, me);
            return Role::Leader(hash);
        };
        let Some(query) = shard.queries.get_mut(query) else { return Role::Alone };
        if query.key != key {
            return Role::Alone;
        }
        // If the leader's job is gone without finishing, the others would wait in vain: one of them takes over.
        if now.since(query.since_ns) > 2 * QUESTION_TIME_MAX || query.is_stuck {
            (query.since_ns, query.is_stuck) = (now.mono_ns, false);
            query.leader = me;
            return Role::Leader(hash);
        }
        // Its leader may have made its last attempt, and has less time left than this job.
        if now.since(query.since_ns) > JOIN_TIME_MAX {
            query.former.push(std::mem::replace(&mut query.leader, me));
            query.since_ns = now.mono_ns;
            return Role::Leader(hash);
        }
        if query.followers.len() >= FOLLOWERS_PER_QUERY_MAX {
            return Role::Alone;
        }
        query.followers.push(me);
        Role::Follower(hash)
    }

    /// Ends the query and moves its followers to `followers`. One that was its leader before does so only if it
    /// `has_response`: otherwise the others wait for the one after it.
    pub(crate) fn finish(
        &self,
        hash: u64,
        me: Member,
        has_response: bool,
        followers: &mut Vec<Member>,
    ) {
        let Some(mut shard) = self.shard(hash) else { return };
        let Some(index) = shard.by_hash.get(&hash).copied() else { return };
        let Some(query) = shard.queries.get_mut(index) else { return };
        if query.leader == me || (has_response && query.former.contains(&me)) {
            followers.append(&mut query.followers);
            shard.by_hash.remove(&hash);
            shard.free.push(index);
        }
    }

    /// The leader leaves without an answer: the first follower becomes the leader.
    pub(crate) fn pass_on(&self, hash: u64, me: Member) -> Option<Member> {
        let mut shard = self.shard(hash)?;
        let index = shard.by_hash.get(&hash).copied()?;
        let query = shard.queries.get_mut(index)?;
        if query.leader != me {
            return None;
        }
        if query.followers.is_empty() {
            shard.by_hash.remove(&hash);
            shard.free.push(index);
            return None;
        }
        query.leader = query.followers.remove(0);
        Some(query.leader)
    }

    /// Takes the queries of `worker`, which is stuck: a follower of another worker sends each in its
    /// place, and later jobs do not wait for it. Gives the mail that has to be delivered, with the
    /// worker that each is for.
    pub fn take_over_from(&self, worker: usize) -> Vec<(usize, Mail)> {
        let mut mails = Vec::new();
        for shard in &self.shards {
            // The worker may have got stuck with the lock in its hands.
            let Ok(mut shard) = shard.try_lock() else { continue };
            shard.take_over_from(worker, &mut mails);
        }
        mails
    }

    /// A follower leaves.
    pub(crate) fn leave(&self, hash: u64, me: Member) -> bool {
        let Some(mut shard) = self.shard(hash) else { return true };
        let Some(index) = shard.by_hash.get(&hash).copied() else { return true };
        let Some(query) = shard.queries.get_mut(index) else { return true };
        query.followers.retain(|follower| *follower != me);
        query.leader != me
    }

    pub(crate) fn is_leader(&self, hash: u64, me: Member) -> bool {
        let Some(shard) = self.shard(hash) else { return false };
        let query = shard.by_hash.get(&hash).and_then(|index| shard.queries.get(*index));
        query.is_some_and(|query| query.leader == me)
    }

    fn shard(&self, hash: u64) -> Option<MutexGuard<'_, Shard>> {
        // The low bits choose the bucket in the shard's table.
        let index = (hash >> 48) as usize % SHARDS;
        self.shards.get(index).map(lock)
    }
}

impl Shard {
    fn start(&mut self, hash: u64, key: &[u8], now: Now, leader: Member) {
        let index = self.free.pop().unwrap_or(self.queries.len());
        if index == self.queries.len() {
            let (key, former, followers) = Default::default();
            let (since_ns, is_stuck) = (0, false);
            self.queries.push(Coalesced { key, leader, former, since_ns, followers, is_stuck });
        }
        if let Some(query) = self.queries.get_mut(index) {
            query.key.clear();
            query.key.extend_from_slice(key);
            query.leader = leader;
            (query.since_ns, query.is_stuck) = (now.mono_ns, false);
            query.former.clear();
            query.followers.clear();
            self.by_hash.insert(hash, index);
        }
    }
}

impl Shard {
    fn take_over_from(&mut self, worker: usize, mails: &mut Vec<(usize, Mail)>) {
        for (hash, index) in &self.by_hash {
            let Some(query) = self.queries.get_mut(*index) else { continue };
            if query.leader.worker != worker {
                continue;
            }
            if let Some(next) =
                query.followers.iter().position(|follower| follower.worker != worker)
            {
                let next = query.followers.remove(next);
                query.leader = next;
                let mail = Mail { ticket: next.ticket, query: *hash, message: None };
                mails.push((next.worker, mail));
                continue;
            }
            // No other query waits: it resumes when the worker recovers, unless another comes first.
            query.is_stuck = true;
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
    /// The query it waited for. By the time this arrives, the job may wait for something else, or
    /// have made place for another.
    pub query: u64,
    /// The upstream's message; `None` if the query failed.
    pub message: Option<Arc<[u8]>>,
}

/// A query whose response is decided, and room to collect its followers.
#[derive(Debug, Default)]
pub struct Finished {
    pub(crate) query: Option<(u64, Member)>,
    pub(crate) message: Vec<u8>,
    pub(crate) followers: Vec<Member>,
}

impl Finished {
    /// Whether `Parts::tell_followers` has something to do.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.query.is_some()
    }
}
