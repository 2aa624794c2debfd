//! What goes when there is no more room.
//!
//! When the budget is spent, a hand goes round the table and takes entries nobody asked for. The
//! rules are those of S3-FIFO (Yang et al., SOSP 2023) with the table's order instead of queues:
//! new entries are on probation, and as long as these have more than their share, one of them
//! goes, so that names asked once cannot push out those asked often. Who was asked for stays and
//! from then on goes only after it was not asked for during a whole round. Who comes back soon
//! after it went, as far as the table remembers, needs no probation.

use super::entry::{self, Entry, View};
use super::store::{Scope, Store};
use super::table::{Bucket, Sweep};
use crate::limits::{CACHE_PATIENCE, CACHE_PROBATION_SHARE, CACHE_STALE_SHARE, CACHE_TIDY_EVERY};
use crate::time::Now;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard, PoisonError};

/// What an eviction is for.
#[derive(Clone, Copy)]
pub(super) enum Goal<'s> {
    /// The budget in octets.
    Octets,
    /// A scope's limit on entries of a class.
    Count(&'s Arc<Scope>, usize, usize),
}

impl Store {
    /// Takes one entry out of a full bucket, one that nobody asked for if there is one.
    pub(super) fn evict_from(&self, bucket: &Bucket, evicted: &mut dyn FnMut(&Scope, usize)) {
        for last_resort in [false, true] {
            let mut done = false;
            bucket.each(|_, slot| {
                let held = slot.load();
                let Some(view) = held.as_ref().map(entry::view) else { return Sweep::On };
                if view.spend_visit() && !last_resort {
                    return Sweep::On;
                }
                evicted(view.scope(), view.kind().class());
                self.remove(slot);
                done = true;
                Sweep::Stop
            });
            if done {
                return;
            }
        }
    }

    /// Moves the hand until `goal` is reached; gives up after one round and a bit.
    pub(super) fn make_room(
        &self,
        goal: Goal<'_>,
        now: Now,
        evicted: &mut dyn FnMut(&Scope, usize),
    ) {
        if self.is_reached(goal) {
            return;
        }
        let mut hand = self.hand();
        let rounds = match goal {
            Goal::Octets => 2 * self.table.len(),
            Goal::Count(..) => 2 * CACHE_PATIENCE,
        };
        let mut patience = CACHE_PATIENCE;
        for _ in 0..rounds {
            if self.is_reached(goal) {
                return;
            }
            let freed = self.sweep(*hand % self.table.len(), goal, patience == 0, now, evicted);
            patience = if freed { CACHE_PATIENCE } else { patience.saturating_sub(1) };
            if !self.is_reached(goal) {
                *hand = hand.wrapping_add(1);
            }
        }
    }

    fn hand(&self) -> MutexGuard<'_, usize> {
        self.ledger.hand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_reached(&self, goal: Goal<'_>) -> bool {
        match goal {
            Goal::Octets => self.used() <= self.budget(),
            Goal::Count(scope, class, capacity) => scope.count(class) <= capacity,
        }
    }

    /// Goes through one bucket until `goal` is reached; true if something was removed.
    fn sweep(
        &self,
        index: usize,
        goal: Goal<'_>,
        impatient: bool,
        now: Now,
        evicted: &mut dyn FnMut(&Scope, usize),
    ) -> bool {
        let _lock = self.table.lock(index);
        let Some(bucket) = self.table.bucket(index) else { return false };
        let mut removed = false;
        bucket.each(|_, slot| {
            let held = slot.load();
            let Some(entry) = held.as_ref() else { return Sweep::On };
            let view = entry::view(entry);
            if view.is_dead(now) {
                self.remove(slot);
                removed = true;
                return Sweep::On;
            }
            self.book(view, entry::size(entry), now);
            if self.is_reached(goal) {
                return Sweep::Stop;
            }
            if self.is_candidate(view, goal) && (!self.is_spared(entry) || impatient) {
                evicted(view.scope(), view.kind().class());
                self.remove(slot);
                removed = true;
            }
            Sweep::On
        });
        removed
    }

    /// Whether evicting the entry would help: with octets, whether those like it, stale or on
    /// probation or neither, have more than their share.
    fn is_candidate(&self, view: View<'_>, goal: Goal<'_>) -> bool {
        if let Goal::Count(scope, class, _) = goal {
            return Arc::ptr_eq(view.scope(), scope) && view.kind().class() == class;
        }
        let (budget, stale) = (self.budget(), self.ledger.stale.load(Relaxed));
        let share = budget / CACHE_STALE_SHARE;
        if view.is_booked_stale() {
            return stale > share;
        }
        let probation = self.ledger.probation.load(Relaxed);
        let on_probation = probation > budget / CACHE_PROBATION_SHARE;
        self.used().saturating_sub(stale) > budget - share && view.is_on_probation() == on_probation
    }

    /// Whether the hand passes a candidate by this time, because someone asked for it or it has
    /// just come.
    fn is_spared(&self, entry: &Entry) -> bool {
        let view = entry::view(entry);
        if !view.is_on_probation() {
            return view.spend_visit();
        }
        if view.is_visited() {
            self.end_probation(view, entry::size(entry));
            return true;
        }
        !view.was_seen()
    }

    fn end_probation(&self, view: View<'_>, size: usize) {
        if view.end_probation() {
            self.ledger.probation.fetch_sub(size, Relaxed);
        }
    }

    /// Books an entry as stale once it has expired.
    fn book(&self, view: View<'_>, size: usize, now: Now) {
        if view.is_expired(now) && view.book_stale() {
            self.ledger.stale.fetch_add(size, Relaxed);
            self.end_probation(view, size);
        }
    }

    /// Removes what is dead from one bucket, so that with every few insertions a little is done:
    /// still more entries are looked at than come in.
    pub(super) fn tidy(&self, now: Now) {
        let insertions = self.ledger.broom.fetch_add(1, Relaxed);
        if !insertions.is_multiple_of(CACHE_TIDY_EVERY) {
            return;
        }
        let index = insertions / CACHE_TIDY_EVERY % self.table.len();
        let _lock = self.table.lock(index);
        let Some(bucket) = self.table.bucket(index) else { return };
        bucket.each(|_, slot| {
            if let Some(held) = &*slot.load() {
                let view = entry::view(held);
                if view.is_dead(now) {
                    self.remove(slot);
                } else {
                    self.book(view, entry::size(held), now);
                }
            }
            Sweep::On
        });
    }
}
