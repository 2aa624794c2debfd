//! Parts of responses that are the same for many queries, written once for each version of a zone.
//!
//! They are made by the queries that first need them, and freed with the version. A place holds what
//! came first; what finds its places taken, or no memory, is written anew for each query.

use super::node::Node;
use super::{Data, room};
use crate::limits::{PREPARED_RESERVE, PREPARED_SLOTS_MAX};
use nodens_wire::{Block, NameRef};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Octets of all parts in the process.
static HELD: AtomicUsize = AtomicUsize::new(0);

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

enum Value {
    Block(Block),
    Node(Node),
}

impl Value {
    fn cost(&self) -> usize {
        match self {
            Self::Block(block) => block.cost(),
            // The version has it.
            Self::Node(_) => 0,
        }
    }
}

/// The parts of one version. Those of a clone are its own.
#[derive(Default)]
pub(super) struct Prepared {
    slots: OnceLock<Box<[OnceLock<Box<Slot>>]>>,
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
    /// Sets memory aside; false if there is none left.
    fn claim(&self, octets: usize) -> bool {
        let before = HELD.fetch_add(octets, Ordering::Relaxed);
        if before.saturating_add(octets) > room::prepared_most() {
            HELD.fetch_sub(octets, Ordering::Relaxed);
            return false;
        }
        self.held.fetch_add(octets, Ordering::Relaxed);
        true
    }

    fn release(&self, octets: usize) {
        self.held.fetch_sub(octets, Ordering::Relaxed);
        HELD.fetch_sub(octets, Ordering::Relaxed);
    }

    /// The two places where a part may be.
    fn places(&self, key: &Key) -> [Option<&OnceLock<Box<Slot>>>; 2] {
        let Some(slots) = self.slots.get() else { return [None; 2] };
        let (at, part, signed) = *key;
        let mixed = (at ^ part as usize ^ (usize::from(signed) << 2)) as u64;
        let hash = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let at = hash as usize & (slots.len() - 1);
        [slots.get(at), slots.get(at ^ 1)]
    }

    fn open(&self, names: u64) -> bool {
        if self.slots.get().is_some() {
            return true;
        }
        let wanted = usize::try_from(names.saturating_mul(2)).unwrap_or(usize::MAX);
        let count = wanted.clamp(8, PREPARED_SLOTS_MAX).next_power_of_two();
        let octets = count * size_of::<OnceLock<Box<Slot>>>();
        if !self.claim(octets) {
            return false;
        }
        let slots = (0..count).map(|_| OnceLock::new()).collect();
        if self.slots.set(slots).is_err() {
            self.release(octets);
        }
        true
    }

    /// The value of a key, which `make` makes if it is not there yet. Nothing if there is no room for it.
    fn value(&self, key: Key, names: u64, make: impl FnOnce() -> Option<Value>) -> Option<&Value> {
        let places = self.places(&key);
        for slot in places.iter().flatten().filter_map(|place| place.get()) {
            if slot.key == key {
                return Some(&slot.value);
            }
        }
        let is_free = |place: &&OnceLock<Box<Slot>>| place.get().is_none();
        let is_taken = self.slots.get().is_some() && !places.iter().flatten().any(is_free);
        let is_short = HELD.load(Ordering::Relaxed) + PREPARED_RESERVE > room::prepared_most();
        if is_taken || is_short || !self.open(names) {
            return None;
        }
        self.keep(Box::new(Slot { key, value: make()? }))
    }

    /// Keeps what was made, unless another thread was first.
    fn keep(&self, slot: Box<Slot>) -> Option<&Value> {
        let (key, octets) = (slot.key, size_of::<Slot>() + slot.value.cost());
        if !self.claim(octets) {
            return None;
        }
        let mut slot = slot;
        for place in self.places(&key).into_iter().flatten() {
            match place.set(slot) {
                Ok(()) => return place.get().map(|slot| &slot.value),
                Err(refused) => slot = refused,
            }
        }
        self.release(octets);
        None
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
            Value::Block(_) => None,
        }
    }
}

impl Data {
    /// The part of a response that belongs to `owner`, a name that [`Data::lookup`] gave, with
    /// signatures and proofs or without; `make` writes it if it is not there yet. Nothing if there is no
    /// room for it. Takes no lock.
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
            Value::Node(_) => None,
        }
    }
}
