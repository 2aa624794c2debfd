//! Parts of responses that are the same for many queries, written once for each version of a zone.
//!
//! They are made by the queries that first need them, and freed with the version. A place holds what
//! came first; what finds its places taken, or no memory, is written anew for each query.

use super::node::Node;
use super::{Data, room};
use crate::limits::{PREPARED_ONE_ZONE, PREPARED_PLACES, PREPARED_RESERVE, PREPARED_SLOTS_MAX};
use nodens_wire::{Block, NameRef};
use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Octets of all parts in the process. Threads that make some at the same time may exceed the maximum by
/// these.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// Octets of a slot, with what malloc adds.
const SLOT_COST: usize = (size_of::<Slot>() + size_of::<usize>()).next_multiple_of(16);

/// Octets of all parts in the process.
pub(super) fn held() -> usize {
    HELD.load(Ordering::Relaxed)
}

/// What a part consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The servers of the zone, in the authority section.
    Servers,
    /// The SOA record of a negative response.
    Soa,
    /// A referral to the servers of another zone, with what proves that it is signed or not.
    Referral,
    /// An RRset that proves what does not exist.
    Proof,
    /// The name whose NSEC record covers the wildcard right below this one.
    Wildcard,
}

/// Where the owner lies in memory, which is its own as long as the version is, and what of it.
type Key = (usize, Part, bool);

struct Slot {
    key: Key,
    value: Value,
}

/// Where a slot may be. Most have none: a table of slots would leave many zones without.
type Place = OnceLock<Box<Slot>>;

enum Value {
    Block(Block),
    Node(Node),
    /// It cannot be made.
    Nothing,
}

impl Value {
    fn cost(&self) -> usize {
        match self {
            Self::Block(block) => block.cost(),
            // The version has it.
            Self::Node(_) | Self::Nothing => 0,
        }
    }
}

/// The parts of one version. Those of a clone are its own.
#[derive(Default)]
pub(super) struct Prepared {
    slots: OnceLock<Box<[Place]>>,
    /// Whether a thread makes them, or has.
    opened: AtomicBool,
    held: AtomicUsize,
}

impl Clone for Prepared {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        let held = *self.held.get_mut();
        if held > 0 {
            HELD.fetch_sub(held, Ordering::Relaxed);
        }
    }
}

impl Prepared {
    /// Whether so many octets more may be taken. Reads alone, so that threads without hope disturb no others.
    fn has_room(&self, octets: usize) -> bool {
        let most = room::prepared_most();
        let own = self.held.load(Ordering::Relaxed).saturating_add(octets);
        let all = HELD.load(Ordering::Relaxed).saturating_add(octets);
        // One zone leaves some for the others.
        all <= most && own <= most / PREPARED_ONE_ZONE
    }

    /// Has the processor fetch the table.
    pub(super) fn fetch(&self) {
        let first = self.slots.get().and_then(|slots| slots.first());
        _ = black_box(first.is_some_and(|place| place.get().is_some()));
    }

    fn claim(&self, octets: usize) {
        self.held.fetch_add(octets, Ordering::Relaxed);
        HELD.fetch_add(octets, Ordering::Relaxed);
    }

    fn release(&self, octets: usize) {
        self.held.fetch_sub(octets, Ordering::Relaxed);
        HELD.fetch_sub(octets, Ordering::Relaxed);
    }

    /// The places where a part may be, first to last. None is ever freed, so that it is in none behind a free one.
    fn places(&self, key: &Key) -> impl Iterator<Item = &Place> {
        let slots = self.slots.get().map(AsRef::as_ref).unwrap_or_default();
        let (at, part, signed) = *key;
        let mixed = (at ^ part as usize ^ (usize::from(signed) << 2)) as u64;
        let hash = (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
        // The length is a power of two.
        let last = slots.len().saturating_sub(1);
        let first = hash & last;
        (first..first + PREPARED_PLACES).filter_map(move |at| slots.get(at & last))
    }

    /// Makes the table, whose length goes by the names of the zone, unless another thread does. Whether it
    /// is there.
    fn open(&self, names: u64) -> bool {
        if self.slots.get().is_some() {
            return true;
        }
        let wanted = usize::try_from(names.saturating_mul(2)).unwrap_or(usize::MAX);
        let count = wanted.clamp(8, PREPARED_SLOTS_MAX).next_power_of_two();
        let octets = count * size_of::<Place>();
        if !self.has_room(octets) || self.opened.swap(true, Ordering::Relaxed) {
            return false;
        }
        self.claim(octets);
        self.slots.set((0..count).map(|_| OnceLock::new()).collect()).is_ok()
    }

    /// The value of a key that was made before.
    fn get(&self, key: &Key) -> Option<&Value> {
        let mut slots = self.places(key).map_while(|place| place.get());
        slots.find(|slot| slot.key == *key).map(|slot| &slot.value)
    }

    /// The value of a key, which `make` makes if it is not there yet. Nothing if there is no room for it, or
    /// if it cannot be made.
    fn value(&self, key: Key, names: u64, make: impl FnOnce() -> Option<Value>) -> Option<&Value> {
        if let Some(value) = self.get(&key) {
            return Some(value);
        }
        let is_free = |place: &Place| place.get().is_none();
        let is_taken = self.slots.get().is_some() && !self.places(&key).any(is_free);
        if is_taken || !self.has_room(PREPARED_RESERVE) || !self.open(names) {
            return None;
        }
        self.keep(Box::new(Slot { key, value: make().unwrap_or(Value::Nothing) }))
    }

    /// Keeps what was made, unless another thread was first.
    fn keep(&self, slot: Box<Slot>) -> Option<&Value> {
        let (key, octets) = (slot.key, SLOT_COST + slot.value.cost());
        self.claim(octets);
        let mut slot = slot;
        for place in self.places(&key) {
            match place.set(slot) {
                Ok(()) => return place.get().map(|slot| &slot.value),
                Err(refused) => slot = refused,
            }
            if let Some(there) = place.get().filter(|there| there.key == key) {
                self.release(octets);
                return Some(&there.value);
            }
        }
        self.release(octets);
        None
    }

    /// Whether the RRset with which a name proves something was asked for before.
    pub(super) fn proves(&self, owner: NameRef<'_>) -> bool {
        self.get(&(owner.as_wire().as_ptr() as usize, Part::Proof, true)).is_some()
    }

    /// The node whose NSEC record covers the wildcard right below a name of the zone.
    pub(super) fn covering(
        &self,
        (encloser, names): (NameRef<'_>, u64),
        find: impl FnOnce() -> Option<Node>,
    ) -> Option<&Node> {
        let key = (encloser.as_wire().as_ptr() as usize, Part::Wildcard, true);
        match self.value(key, names, || find().map(Value::Node))? {
            Value::Node(node) => Some(node),
            Value::Block(_) | Value::Nothing => None,
        }
    }
}

impl Data {
    /// The part of a response that belongs to `owner`, a name that [`Data::lookup`] gave, with
    /// signatures and proofs or without; `make` writes it if it is not there yet. Nothing if there is no
    /// room for it, and if it cannot be made. Waits for another thread only while that stores the same part.
    pub fn prepared(
        &self,
        part: Part,
        owner: NameRef<'_>,
        signed: bool,
        make: impl FnOnce() -> Option<Block>,
    ) -> Option<&Block> {
        let key = (owner.as_wire().as_ptr() as usize, part, signed);
        match self.prepared.value(key, self.count, || make().map(Value::Block))? {
            Value::Block(block) => Some(block),
            Value::Node(_) | Value::Nothing => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_wire::{Class, Name, Section, Type};

    fn block(name: &Name, len: usize) -> Option<Block> {
        Block::new(name.view(), |builder| {
            let fields = (Type::TXT, Class::IN, 1);
            _ = builder.record(Section::Authority, name.view(), fields, &vec![1; len]);
        })
    }

    fn key(at: usize) -> Key {
        (at, Part::Proof, true)
    }

    #[test]
    fn what_is_there_or_cannot_be_made_is_made_once() {
        let (prepared, name) = (Prepared::default(), "example.org.".parse::<Name>().unwrap());
        let made = std::cell::Cell::new(0);
        let value = |at, len| {
            prepared.value(key(at), 10, || {
                made.set(made.get() + 1);
                block(&name, len).map(Value::Block)
            })
        };
        assert!(matches!(value(1, 9), Some(Value::Block(_))));
        assert!(matches!(value(1, 9), Some(Value::Block(_))));
        assert!(matches!(value(2, 20_000), Some(Value::Nothing)), "no pointer reaches so far");
        assert!(matches!(value(2, 20_000), Some(Value::Nothing)));
        assert_eq!(made.get(), 2);
        // A duplicate takes no other place.
        let before = prepared.held.load(Ordering::Relaxed);
        let again = Slot { key: key(1), value: Value::Block(block(&name, 9).unwrap()) };
        assert!(matches!(prepared.keep(Box::new(again)), Some(Value::Block(_))));
        assert_eq!(prepared.held.load(Ordering::Relaxed), before);
        let slots = prepared.slots.get().unwrap();
        assert_eq!(slots.iter().filter(|slot| slot.get().is_some()).count(), 2);
    }

    #[test]
    fn one_zone_takes_no_more_than_its_share_and_gives_it_back() {
        let name = "example.org.".parse::<Name>().unwrap();
        let share = room::prepared_most() / PREPARED_ONE_ZONE;
        let prepared = Prepared::default();
        for at in 0..4 * PREPARED_SLOTS_MAX {
            prepared.value(key(at << 4), 1 << 20, || block(&name, 1_000).map(Value::Block));
        }
        let held = prepared.held.load(Ordering::Relaxed);
        assert!((share / 2..=share).contains(&held), "{held} of {share}");
        assert!(super::held() >= held);
    }

    #[test]
    fn nearly_all_parts_of_a_zone_like_the_root_have_a_place() {
        let prepared = Prepared::default();
        // Two referrals for each of 1,450 zones and a denial, whose owners lie some hundred octets apart.
        let keys = (0..1450_usize).flat_map(|zone| {
            let at = 0x7f00_0000_0000 + zone * 1_072 + zone % 7 * 16;
            [(at, Part::Referral, false), (at, Part::Referral, true), (at, Part::Proof, true)]
        });
        let kept =
            keys.filter(|key| prepared.value(*key, 8_000, || Some(Value::Nothing)).is_some());
        assert!(kept.count() > 4_350 * 97 / 100);
    }

    #[test]
    fn threads_that_begin_together_make_one_table() {
        let (prepared, name) = (Prepared::default(), "example.org.".parse::<Name>().unwrap());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for at in 0..200 {
                        prepared.value(key(at << 4), 4096, || block(&name, 100).map(Value::Block));
                    }
                });
            }
        });
        let slots = prepared.slots.get().unwrap();
        let table = slots.len() * size_of::<Place>();
        let parts = slots.iter().filter_map(|slot| slot.get());
        let parts: usize = parts.map(|slot| SLOT_COST + slot.value.cost()).sum();
        assert_eq!(prepared.held.load(Ordering::Relaxed), table + parts);
        let mut keys: Vec<_> = slots.iter().filter_map(|slot| Some(slot.get()?.key.0)).collect();
        let all = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), all, "no part is there twice");
    }
}
