//! The accounts of a worker: a table of fixed size, in which those who are in debt stay.

use crate::limits::RRL_OLD_TABLES_MAX;
use foldhash::fast::{FoldHasher, RandomState};
use std::hash::BuildHasher;
use std::sync::{Arc, Weak};

/// Accounts that one key may have its place among.
const WAYS: usize = 8;
const SECOND: u64 = 1_000_000_000;

/// How an account is kept: nanoseconds each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    /// From one response to the next.
    interval: u64,
    /// The most that can be saved up.
    credit: u64,
    /// The deepest debt.
    window: u64,
    /// Of so many responses that are too many, one is sent truncated; none at 0.
    slip: u8,
}

/// What becomes of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passes,
    Dropped,
    /// Sent truncated.
    Slips,
}

/// The tables of a worker, one for each `rrl` that it has met.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    state: RandomState,
    /// The one used last is the last.
    tables: Vec<Table>,
    /// Room for a name.
    pub(super) name: Vec<u8>,
}

#[derive(Debug)]
struct Table {
    id: u64,
    /// Whether a configuration has that `rrl`, as far as it was met.
    owner: Weak<u64>,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    key: u64,
    /// When the balance is nothing, monotonic nanoseconds. 0 in an entry that is free.
    even_at: u64,
    /// Responses until one slips.
    left: u8,
}

impl Tables {
    /// A hasher that no one outside can predict.
    pub(super) fn hasher(&self) -> FoldHasher<'_> {
        self.state.build_hasher()
    }

    /// Counts a response of the `rrl` with this identity, whose table has `len` accounts.
    pub(super) fn debit(
        &mut self,
        (id, len): (&Arc<u64>, usize),
        key: u64,
        now: u64,
        account: Account,
    ) -> Outcome {
        let sets = (len / WAYS).max(1);
        let at = self.tables.iter().rposition(|table| table.id == **id);
        if let Some(at) = at {
            if at + 1 < self.tables.len() {
                let table = self.tables.remove(at);
                self.tables.push(table);
            }
        } else {
            self.forget_old();
            let (owner, entries) = (Arc::downgrade(id), vec![Entry::default(); sets * WAYS]);
            self.tables.push(Table { id: **id, owner, entries });
        }
        let Some(table) = self.tables.last_mut() else { return Outcome::Passes };
        // The same block after a reload.
        if !std::ptr::eq(table.owner.as_ptr(), Arc::as_ptr(id)) {
            table.owner = Arc::downgrade(id);
        }
        table.debit(key, now, account)
    }

    /// Frees the tables of blocks that a reload has changed or taken out. The last of them stay: a block that is there
    /// still may not have been met since.
    fn forget_old(&mut self) {
        let is_old = |table: &Table| table.owner.strong_count() == 0;
        let mut old = self.tables.iter().filter(|table| is_old(table)).count();
        self.tables.retain(|table| {
            let goes = old > RRL_OLD_TABLES_MAX && is_old(table);
            old -= usize::from(goes);
            !goes
        });
    }
}

impl Table {
    fn debit(&mut self, key: u64, now: u64, account: Account) -> Outcome {
        let sets = (self.entries.len() / WAYS).max(1) as u64;
        let first = (key % sets) as usize * WAYS;
        let Some(set) = self.entries.get_mut(first..first + WAYS) else { return Outcome::Passes };
        if let Some(entry) = set.iter_mut().find(|entry| entry.key == key && entry.even_at > 0) {
            return entry.debit(now, account);
        }
        // The one with the most credit: what it knows is worth least. An account in debt gives way
        // only to make room among others in deeper debt.
        if let Some(entry) = set.iter_mut().min_by_key(|entry| entry.even_at) {
            *entry = Entry { key, even_at: 0, left: account.slip };
            let even_at = now.saturating_add(account.interval).saturating_sub(account.credit);
            entry.even_at = even_at.max(1);
        }
        Outcome::Passes
    }
}

impl Account {
    /// The part of one of so many workers. A network's queries are not spread evenly over them: each lets as many
    /// through that were saved up as all may together in a second, and always one.
    pub(super) fn new(interval: u64, workers: u64, window: u64, slip: u8) -> Self {
        let interval = interval.saturating_mul(workers);
        Self { interval, credit: interval.max(SECOND.saturating_mul(workers)), window, slip }
    }
}

impl Entry {
    fn debit(&mut self, now: u64, account: Account) -> Outcome {
        let earliest = now.saturating_sub(account.credit);
        let latest = now.saturating_add(account.window);
        self.even_at = (self.even_at.max(earliest).saturating_add(account.interval)).min(latest);
        if self.even_at <= now {
            return Outcome::Passes;
        }
        match self.left {
            0 => Outcome::Dropped,
            1 => {
                self.left = account.slip;
                Outcome::Slips
            }
            _ => {
                self.left -= 1;
                Outcome::Dropped
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 15 * SECOND;

    /// How many of a network's queries pass, of so many in a second for that time, which go to workers at random.
    fn spread(workers: u64, rate: u64, (queries, time_s): (u64, u64)) -> (u64, u64) {
        let (id, mut random) = (Arc::new(7), fastrand::Rng::with_seed(42));
        let mut tables: Vec<_> = (0..workers).map(|_| Tables::default()).collect();
        let account = Account::new(SECOND / rate, workers, WINDOW, 0);
        let (mut all, mut late) = (0, 0);
        for at in 0..queries * time_s {
            let now = 1000 * SECOND + at * SECOND / queries;
            let table = &mut tables[random.usize(0..workers as usize)];
            let passes = table.debit((&id, 64), 1, now, account) == Outcome::Passes;
            all += u64::from(passes);
            late += u64::from(passes && at >= queries * time_s / 2);
        }
        (all, late)
    }

    #[test]
    fn a_network_whose_queries_go_to_many_workers_gets_its_rate_and_a_flood_no_more() {
        for workers in [1, 4, 64] {
            let (passed, _) = spread(workers, 20, (10, 2000));
            assert!(passed >= 19_900, "{workers}: {passed} of 20000");
            let (_, late) = spread(workers, 20, (2000, 60));
            assert!(late <= 20 * 30, "{workers}: {late} of a flood");
        }
    }

    #[test]
    fn tables_of_blocks_that_are_there_stay_however_many_there_are() {
        let ids: Vec<_> = (0..3 * RRL_OLD_TABLES_MAX as u64).map(Arc::new).collect();
        let (mut tables, account) = (Tables::default(), Account::new(SECOND, 1, WINDOW, 0));
        let mut passed = |ids: &[Arc<u64>]| {
            ids.iter().filter(|id| tables.debit((id, 8), 1, 1000 * SECOND, account) == Outcome::Passes).count()
        };
        assert_eq!(passed(&ids), ids.len());
        assert_eq!(passed(&ids), 0, "tables are forgotten");
        // Some are met after a reload.
        let mut ids = ids;
        ids[20] = Arc::new(20);
        assert_eq!(passed(&ids), 0);
        ids.truncate(21);
        assert_eq!(passed(&[Arc::new(1000)]), 1);
        assert_eq!(passed(&ids), 0);
        assert_eq!(tables.tables.len(), 21 + RRL_OLD_TABLES_MAX + 1);
    }

    #[test]
    fn rates_that_are_nearly_none_let_one_pass() {
        let (mut tables, id) = (Tables::default(), Arc::new(1));
        let account = Account::new(u64::MAX, 64, WINDOW, 0);
        let mut ask = |now| tables.debit((&id, 8), 1, now, account);
        assert_eq!([ask(5), ask(6), ask(u64::MAX - 1)], [Outcome::Passes, Outcome::Dropped, Outcome::Dropped]);
    }
}
