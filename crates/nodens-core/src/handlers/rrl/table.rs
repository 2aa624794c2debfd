//! The accounts of a worker: a table of fixed size, in which those who are in debt stay.

use crate::limits::RRL_TABLES_MAX;
use foldhash::fast::{FoldHasher, RandomState};
use std::hash::BuildHasher;

/// Accounts that one key may have its place among.
const WAYS: usize = 8;
const SECOND: u64 = 1_000_000_000;

/// How an account is kept: nanoseconds each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    /// From one response to the next.
    pub(super) interval: u64,
    /// The deepest debt.
    pub(super) window: u64,
    /// Of so many responses that are too many, one is sent truncated; none at 0.
    pub(super) slip: u8,
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
}

#[derive(Debug)]
struct Table {
    id: u64,
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
        (id, len): (u64, usize),
        key: u64,
        now: u64,
        account: Account,
    ) -> Outcome {
        let sets = (len / WAYS).max(1);
        let at = self.tables.iter().position(|table| table.id == id);
        if let Some(at) = at {
            if at + 1 < self.tables.len() {
                let table = self.tables.remove(at);
                self.tables.push(table);
            }
        } else {
            // A reload may have changed the block: what was there for it before is of no use.
            if self.tables.len() >= RRL_TABLES_MAX {
                self.tables.remove(0);
            }
            self.tables.push(Table { id, entries: vec![Entry::default(); sets * WAYS] });
        }
        let Some(table) = self.tables.last_mut() else { return Outcome::Passes };
        table.debit(key, now, account)
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
            entry.even_at = (now + account.interval).saturating_sub(account.credit()).max(1);
        }
        Outcome::Passes
    }
}

impl Account {
    /// The most that can be saved up: a second's responses, and always one.
    fn credit(&self) -> u64 {
        self.interval.max(SECOND)
    }
}

impl Entry {
    fn debit(&mut self, now: u64, account: Account) -> Outcome {
        let earliest = now.saturating_sub(account.credit());
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
