//! What is known of one connection to an upstream: its age, and the queries on it.

use super::stream::Standing;
use super::waiting::Waiting;
use crate::context::Context;
use crate::limits::UPSTREAM_AGE;
use crate::random::Random;
use foldhash::fast::RandomState;
use nodens_core::Now;
use nodens_core::upstream::{Carrier, Upstream};
use nodens_core::worker::Ticket;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

pub(super) struct Record {
    pub(super) upstream: Arc<Upstream>,
    /// Queries on it, by the IDs that they have here.
    pub(super) waiting: HashMap<u16, Waiting, RandomState>,
    /// How many of them each job has sent.
    tickets: HashMap<Ticket, u32, RandomState>,
    /// Queries put on it, and how many of them it answered.
    asked: u32,
    pub(super) answers: u32,
    /// Whether the connection is made, and queries may be sent.
    pub(super) connected: bool,
    /// See [`Standing::Doubtful`].
    pub(super) doubtful: bool,
    pub(super) opened_at: u64,
    /// [`Peer::generation`](nodens_core::upstream::Peer::generation) when it was opened.
    generation: u64,
    /// When it takes no more queries.
    retire_at: u64,
    /// When something was last received.
    pub(super) heard_at: u64,
    /// When the last query was answered or given up.
    pub(super) idle_since: u64,
}

impl Record {
    /// Of a connection that is being made.
    pub(super) fn new(upstream: &Arc<Upstream>, random: &mut Random, now: Now) -> Self {
        Self {
            upstream: upstream.clone(),
            waiting: HashMap::default(),
            tickets: HashMap::default(),
            asked: 0,
            answers: 0,
            connected: false,
            doubtful: false,
            opened_at: now.mono_ns,
            generation: generation(upstream),
            retire_at: now.plus(age(upstream, random)),
            heard_at: now.mono_ns,
            idle_since: now.mono_ns,
        }
    }

    /// Notes that the connection is made: the queries that waited for that leave.
    pub(super) fn note_made(&mut self, carrier: Carrier, cx: &mut Context<'_>) {
        let now = cx.now;
        self.connected = true;
        self.note_heard(now);
        self.upstream.path(carrier).connected(now.since(self.opened_at));
        for waiting in self.waiting.values_mut() {
            waiting.sent_at = now.mono_ns;
            cx.worker.departed(now, waiting.ticket, waiting.attempt);
        }
    }

    /// Notes that something was received.
    pub(super) fn note_heard(&mut self, now: Now) {
        self.heard_at = now.mono_ns;
        self.doubtful = false;
    }

    /// How good a place for another query it is; none if it takes no more, as after `queries_max`.
    pub(super) fn standing(&self, now: Now, queries_max: Option<u32>) -> Option<Standing> {
        let is_spent = queries_max.is_some_and(|most| self.asked >= most);
        match (self.connected, self.is_old(now)) {
            _ if is_spent => None,
            (_, true) if !self.connected || !self.may_outlast() => None,
            (false, _) => Some(Standing::InTheMaking),
            (true, _) if self.doubtful => Some(Standing::Doubtful),
            (true, false) => Some(Standing::Made),
            (true, true) => Some(Standing::Old),
        }
    }

    /// Whether it has had its time, or began with files that have changed since.
    fn is_old(&self, now: Now) -> bool {
        now.mono_ns >= self.retire_at || self.is_outdated()
    }

    fn is_outdated(&self) -> bool {
        self.generation != generation(&self.upstream)
    }

    /// Whether it may go on after its time while there is no other; not where the Corefile limits it, nor
    /// with keys that were replaced.
    fn may_outlast(&self) -> bool {
        self.upstream.key.settings.max_age.is_zero() && !self.is_outdated()
    }

    /// Whether it is to be closed: no query waits, and it has been idle for long, or has had its time where
    /// there is another (`has_other`).
    pub(super) fn is_over(&self, now: Now, has_other: bool) -> bool {
        let retired = self.is_old(now) && (has_other || !self.may_outlast());
        // A little earlier than asked for: many upstreams close after the same time, and a query that meets
        // their close on the way has to be sent again.
        let expire = self.upstream.key.settings.expire.mul_f64(0.8);
        self.is_idle() && (retired || now.since(self.idle_since) >= expire)
    }

    /// Whether no query waits.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn has_asked_for(&self, ticket: Ticket) -> bool {
        self.tickets.contains_key(&ticket)
    }

    /// How many queries it answered, if the upstream has closed it without a response to others that it had
    /// by then. One that it had not may have crossed a close for idleness.
    pub(super) fn answers_before_close(&self) -> Option<u32> {
        let left = self.waiting.values().any(|waiting| waiting.sent_at < self.heard_at);
        (self.connected && self.answers > 0 && left).then_some(self.answers)
    }

    /// Notes a query that is on its way.
    pub(super) fn await_answer(&mut self, id: u16, waiting: Waiting) {
        *self.tickets.entry(waiting.ticket).or_default() += 1;
        self.waiting.insert(id, waiting);
        self.asked = self.asked.saturating_add(1);
    }

    /// The query with this ID waits no more.
    pub(super) fn take(&mut self, id: u16, now: Now) -> Option<Waiting> {
        let waiting = self.waiting.remove(&id)?;
        self.idle_since = now.mono_ns;
        if let Entry::Occupied(mut count) = self.tickets.entry(waiting.ticket) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        Some(waiting)
    }
}

/// For how long a new connection takes queries.
fn age(upstream: &Upstream, random: &mut Random) -> Duration {
    let age = match upstream.key.settings.max_age {
        Duration::ZERO => UPSTREAM_AGE,
        age => age,
    };
    age - Duration::from_millis(random.below((age / 2).as_millis() as usize) as u64)
}

fn generation(upstream: &Upstream) -> u64 {
    upstream.key.tls.as_ref().map_or(0, |peer| peer.generation())
}
