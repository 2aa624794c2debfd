//! The store alone: budget, eviction, keys, threads.

use crate::cache::entry::{self, Entry, Facts, Kind};
use crate::cache::key::{KeyBits, KeyOctets};
use crate::cache::store::{Lease, Store};
use crate::metrics::Registry;
use crate::time::Now;
use nodens_wire::{Class, Flags, Name, Type};
use proptest::prelude::*;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

struct Rig {
    store: Store,
    lease: Arc<Lease>,
    now: Now,
}

impl Rig {
    fn new(budget: usize) -> Self {
        Self::with_stale(budget, 0)
    }

    /// Answers may be served for `stale_s` seconds after their expiry.
    fn with_stale(budget: usize, stale_s: u32) -> Self {
        let registry = Registry::new(1);
        let counters = ["a", "b"].map(|label| registry.counter("test", "Test.", &[("l", label)]));
        let store = Store::default();
        store.set_budget(budget);
        let lease = store.lease(1, stale_s, counters);
        Self { store, lease, now: Now { mono_ns: 1_000_000_000, unix_s: 0 } }
    }

    fn entry(&self, name: &Name, kind: Kind, ttl_s: u32, len: usize) -> Entry {
        let octets = KeyOctets::new(name.view(), &[]).unwrap();
        let key = octets.key(Type::A, Class::IN, KeyBits::default());
        let facts = Facts {
            message: &vec![0; len],
            records_at: 0,
            counts: [0; 3],
            ttls_at: &[],
            flags: Flags::default(),
            optional_extras: false,
            kind,
            ttl_s,
            hits: 0,
        };
        entry::make(self.lease.scope(), &key, &facts, self.now, &mut Vec::new())
    }

    fn put(&self, n: u32, ttl_s: u32, len: usize) {
        let entry = self.entry(&name(n), Kind::Success, ttl_s, len);
        self.store.insert(entry, self.now, |_| true, None, &mut |_, _| {});
    }

    fn get(&self, n: u32) -> Option<u32> {
        let name = name(n);
        let octets = KeyOctets::new(name.view(), &[]).unwrap();
        let key = octets.key(Type::A, Class::IN, KeyBits::default());
        let scope = self.lease.scope();
        let hash = self.store.hash(scope, &key);
        let rank = |view: entry::View<'_>| u8::from(view.is_servable(self.now));
        let found = self.store.find(scope, &key, hash, u8::MAX, rank)?;
        let view = found.view().unwrap();
        view.visit();
        Some(view.ttl_s())
    }
}

fn name(n: u32) -> Name {
    Name::parse(&format!("n{n}.example.org")).unwrap()
}

#[test]
fn everything_fits_until_the_budget_is_spent() {
    let rig = Rig::new(64 << 20);
    for n in 0..100_000 {
        rig.put(n, n + 1, 16);
    }
    let found = (0..100_000).filter(|n| rig.get(*n) == Some(n + 1)).count();
    // A bucket and its overflow hold twenty entries; more than that is very rare.
    assert!(found > 99_990, "{found}");
    let each = rig.store.used() / 100_000;
    assert!(each <= 160, "{each} octets per name");
}

#[test]
fn a_new_answer_takes_the_place_of_the_old() {
    let rig = Rig::new(1 << 20);
    rig.put(1, 10, 16);
    let used = rig.store.used();
    rig.put(1, 20, 16);
    assert_eq!((rig.get(1), rig.store.entries(), rig.store.used()), (Some(20), 1, used));
}

#[test]
fn what_is_dead_is_tidied_away_by_later_insertions() {
    let mut rig = Rig::new(16 << 20);
    for n in 0..20_000 {
        rig.put(n, 5, 16);
    }
    rig.now.mono_ns += 5_000_000_000;
    for n in 20_000..30_000 {
        rig.put(n, 60, 16);
    }
    assert!(rig.store.entries() < 11_000, "{}", rig.store.entries());
}

#[test]
fn a_block_that_is_gone_leaves_nothing() {
    let mut rig = Rig::with_stale(1 << 20, 60);
    rig.put(1, 60, 16);
    rig.lease = rig.store.lease(2, 0, rig.lease.scope().evictions);
    assert_eq!(rig.get(1), None);
    for n in 2..4000 {
        rig.put(n, 60, 16);
    }
    assert_eq!(rig.lease.scope().count(0), rig.store.entries());
}

/// Names of a Zipf distribution with exponent 1 over `names`.
fn zipf(rng: &mut fastrand::Rng, names: u32) -> u32 {
    (f64::from(names).powf(rng.f64()) - 1.0) as u32
}

/// The share of hits on the Zipf part of a load that is half scan: the store, then FIFO with the
/// same number of entries.
fn hit_shares(rounds: u32) -> (f64, f64) {
    let rig = Rig::new(2 << 20);
    let mut rng = fastrand::Rng::with_seed(7);
    let (mut fifo, mut known) = (VecDeque::new(), HashMap::new());
    let (mut asked, mut hits, mut fifo_hits) = (0, 0, 0);
    for round in 0..rounds {
        let scan = round % 2 == 0;
        let n = if scan { 1_000_000 + round } else { zipf(&mut rng, 100_000) };
        let hit = rig.get(n).is_some();
        if !hit {
            rig.put(n, 3600, 16);
        }
        let fifo_hit = known.contains_key(&n);
        if !fifo_hit {
            fifo.push_back(n);
            known.insert(n, ());
            while fifo.len() > rig.store.entries() {
                known.remove(&fifo.pop_front().unwrap());
            }
        }
        if !scan && round > rounds / 2 {
            asked += 1;
            hits += u32::from(hit);
            fifo_hits += u32::from(fifo_hit);
        }
    }
    (f64::from(hits) / f64::from(asked), f64::from(fifo_hits) / f64::from(asked))
}

#[test]
fn a_scan_does_not_push_out_what_is_asked_often() {
    let (hits, fifo) = hit_shares(200_000);
    assert!(hits > fifo + 0.05, "{hits:.3} of questions hit, {fifo:.3} with FIFO");
}

#[test]
fn stale_entries_keep_their_share_and_no_more() {
    let mut rig = Rig::with_stale(4 << 20, 3600);
    for n in 0..20_000 {
        rig.put(n, 5, 16);
    }
    rig.now.mono_ns += 5_000_000_000;
    // Fresh names push out stale ones down to their share …
    for n in 20_000..80_000 {
        rig.put(n, 3600, 16);
    }
    let stale = (0..20_000).filter(|n| rig.get(*n).is_some()).count();
    let share = (4 << 20) / crate::limits::CACHE_STALE_SHARE / 160;
    assert!(stale > share / 2, "{stale} stale entries are left, {share} have a place");
    assert!(stale < 2 * share, "{stale} stale entries are left, {share} have a place");
    assert!(rig.store.used() <= rig.store.budget());
}

#[test]
fn a_capacity_bounds_one_block_and_one_class() {
    let rig = Rig::new(16 << 20);
    let put = |n, kind| {
        let entry = rig.entry(&name(n), kind, 60, 16);
        rig.store.insert(entry, rig.now, |_| true, Some(1024), &mut |_, _| {});
    };
    for n in 0..5000 {
        put(n, Kind::Success);
        put(10_000 + n, Kind::Denial);
    }
    let scope = rig.lease.scope();
    assert_eq!((scope.count(0), scope.count(1)), (1024, 1024));
}

#[test]
fn readers_and_writers_do_not_disturb_each_other() {
    let rig = Rig::new(1 << 20);
    let rig = &rig;
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(thread);
                for _ in 0..30_000 {
                    let n = rng.u32(..20_000);
                    match rig.get(n) {
                        // An entry is always the one of its name.
                        Some(ttl_s) => assert_eq!(ttl_s, n + 1),
                        None => rig.put(n, n + 1, rng.usize(..200)),
                    }
                }
            });
        }
    });
    // Each thread may have booked one entry more than there was room for.
    assert!(rig.store.used() <= rig.store.budget() + 4 * 512);
    let counted = (0..20_000).filter(|n| rig.get(*n).is_some()).count();
    assert_eq!(counted, rig.store.entries());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn the_budget_is_kept_whatever_is_stored(
        sizes in prop::collection::vec((0_u32..3000, 0_usize..20_000, 0_u32..20), 1..600),
    ) {
        let mut rig = Rig::with_stale(1 << 20, 10);
        for (n, len, ttl_s) in sizes {
            rig.put(n, ttl_s + 1, len);
            rig.now.mono_ns += 10_000_000;
            prop_assert!(rig.store.used() <= rig.store.budget());
        }
    }
}
