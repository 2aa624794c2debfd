//! Coalescing: of the jobs that have the same query at the same time, one sends it upstream, the
//! leader; the others, its followers, wait for its response.

use crate::limits::{
    FOLLOWERS_PER_QUERY_MAX, FORMER_LEADERS_MAX, JOIN_TIME_MAX, SPARE_COALESCED_LEN,
    SPARE_COALESCED_MAX,
};
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
    by_hash: HashMap<u64, Coalesced, RandomState>,
    /// Some that have ended, for their buffers.
    spare: Vec<Coalesced>,
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

    /// Joins the query of `key`, or starts it. `None` if as many wait for it as may.
    pub(crate) fn join(&self, key: &[u8], now: Now, me: Member) -> Option<Role> {
        let hash = self.hasher.hash_one(key);
        let Some(mut shard) = self.shard(hash) else { return Some(Role::Alone) };
        let shard = &mut *shard;
        let Some(query) = shard.by_hash.get_mut(&hash) else {
            shard.start(hash, key, now, me);
            return Some(Role::Leader(hash));
        };
        if query.key != key {
            return Some(Role::Alone);
        }
        // Its leader may have made its last attempt, and has less time left than this job; or it is gone without
        // finishing, or its worker is stuck. The others would wait in vain.
        if now.since(query.since_ns) > JOIN_TIME_MAX || query.is_stuck {
            if query.former.len() >= FORMER_LEADERS_MAX {
                // It has ended by now.
                query.former.remove(0);
            }
            query.former.push(std::mem::replace(&mut query.leader, me));
            (query.since_ns, query.is_stuck) = (now.mono_ns, false);
            return Some(Role::Leader(hash));
        }
        if query.followers.len() >= FOLLOWERS_PER_QUERY_MAX {
            return None;
        }
        query.followers.push(me);
        Some(Role::Follower(hash))
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
        let Some(query) = shard.by_hash.get_mut(&hash) else { return };
        if query.leader == me || (has_response && query.former.contains(&me)) {
            followers.append(&mut query.followers);
            shard.end(hash);
        }
    }

    /// The leader leaves without an answer: the first follower becomes the leader.
    pub(crate) fn pass_on(&self, hash: u64, me: Member) -> Option<Member> {
        let mut shard = self.shard(hash)?;
        let query = shard.by_hash.get_mut(&hash)?;
        if query.leader != me {
            return None;
        }
        if query.followers.is_empty() {
            shard.end(hash);
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
        let Some(query) = shard.by_hash.get_mut(&hash) else { return true };
        query.followers.retain(|follower| *follower != me);
        query.leader != me
    }

    pub(crate) fn is_leader(&self, hash: u64, me: Member) -> bool {
        let Some(shard) = self.shard(hash) else { return false };
        shard.by_hash.get(&hash).is_some_and(|query| query.leader == me)
    }

    fn shard(&self, hash: u64) -> Option<MutexGuard<'_, Shard>> {
        // The low bits choose the bucket in the shard's table.
        let index = (hash >> 48) as usize % SHARDS;
        self.shards.get(index).map(lock)
    }
}

impl Shard {
    fn start(&mut self, hash: u64, key: &[u8], now: Now, leader: Member) {
        let mut query = self.spare.pop().unwrap_or_else(|| Coalesced {
            key: Vec::with_capacity(key.len()),
            leader,
            former: Vec::new(),
            since_ns: 0,
            followers: Vec::new(),
            is_stuck: false,
        });
        query.key.clear();
        query.key.extend_from_slice(key);
        query.leader = leader;
        (query.since_ns, query.is_stuck) = (now.mono_ns, false);
        query.former.clear();
        query.followers.clear();
        self.by_hash.insert(hash, query);
    }

    fn end(&mut self, hash: u64) {
        let Some(query) = self.by_hash.remove(&hash) else { return };
        if self.spare.len() < SPARE_COALESCED_MAX && query.is_small() {
            self.spare.push(query);
        }
        if self.by_hash.is_empty() && self.by_hash.capacity() > 4 * SPARE_COALESCED_MAX {
            self.by_hash.shrink_to(SPARE_COALESCED_MAX);
        }
    }
}

impl Coalesced {
    /// Whether its buffers may be kept.
    fn is_small(&self) -> bool {
        let followers = self.followers.capacity() * size_of::<Member>();
        self.key.capacity().max(followers) <= SPARE_COALESCED_LEN
    }
}

impl Shard {
    fn take_over_from(&mut self, worker: usize, mails: &mut Vec<(usize, Mail)>) {
        for (hash, query) in &mut self.by_hash {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_that_is_never_answered_does_not_grow_with_all_who_sent_it() {
        let in_flight = InFlight::default();
        let mut now = Now::default();
        for serial in 0..100 {
            let me = Member { worker: 0, ticket: Ticket { slot: 0, serial } };
            assert!(matches!(in_flight.join(b"key", now, me), Some(Role::Leader(_))));
            now.mono_ns = now.plus(JOIN_TIME_MAX) + 1;
        }
        let queries = in_flight.shards.iter().map(|shard| lock(shard).longest()).max();
        assert_eq!(queries, Some(FORMER_LEADERS_MAX));
    }

    #[test]
    fn a_query_that_as_many_wait_for_as_may_is_not_sent_once_more() {
        let in_flight = InFlight::default();
        let mut waiting = 0;
        for serial in 0..20_000 {
            let me = Member { worker: 0, ticket: Ticket { slot: 0, serial } };
            match in_flight.join(b"key", Now::default(), me) {
                Some(Role::Follower(_)) => waiting += 1,
                Some(role) => assert!(serial == 0 && role != Role::Alone, "{serial}: {role:?}"),
                None => {}
            }
        }
        assert_eq!(waiting, FOLLOWERS_PER_QUERY_MAX);
    }

    #[test]
    fn of_queries_that_have_ended_few_and_small_ones_are_kept() {
        let in_flight = InFlight::default();
        let me = Member { worker: 0, ticket: Ticket::default() };
        for len in [16, 4_000] {
            let roles: Vec<Role> = (0..10_000_u32)
                .filter_map(|n| {
                    in_flight.join(&n.to_be_bytes().repeat(len / 4), Now::default(), me)
                })
                .collect();
            for role in roles {
                let Role::Leader(hash) = role else { panic!("{role:?}") };
                in_flight.finish(hash, me, true, &mut Vec::new());
            }
            for shard in &in_flight.shards {
                let shard = lock(shard);
                assert!(shard.spare.len() <= SPARE_COALESCED_MAX);
                assert!(
                    shard.spare.iter().all(|ended| ended.key.capacity() <= SPARE_COALESCED_LEN)
                );
                assert!(shard.by_hash.capacity() <= 4 * SPARE_COALESCED_MAX);
            }
        }
    }

    impl Shard {
        fn longest(&self) -> usize {
            self.by_hash.values().map(|query| query.former.len()).max().unwrap_or(0)
        }
    }
}
