//! Names put together on the stack, and sets without allocation.

use foldhash::fast::RandomState;
use nodens_wire::NameRef;
use std::hash::{BuildHasher, Hash};

/// The last `len` octets of `name`, in the case of the question: the zone.
pub(crate) fn zone_of(name: NameRef<'_>, len: usize) -> NameRef<'_> {
    let mut zone = name;
    while zone.as_wire().len() > len {
        let Some(parent) = zone.parent() else { break };
        zone = parent;
    }
    zone
}

/// Octets being put together: a name, or RDATA with names.
pub(crate) struct Octets<const N: usize> {
    octets: [u8; N],
    len: usize,
    overflown: bool,
}

impl<const N: usize> Octets<N> {
    /// Nothing yet.
    pub(crate) fn new() -> Self {
        Self { octets: [0; N], len: 0, overflown: false }
    }

    /// Starts anew.
    pub(crate) fn clear(&mut self) {
        (self.len, self.overflown) = (0, false);
    }

    /// Adds octets as they are: labels in wire form, or numbers.
    pub(crate) fn push(&mut self, octets: &[u8]) {
        let end = self.len + octets.len();
        match self.octets.get_mut(self.len..end) {
            Some(room) => {
                room.copy_from_slice(octets);
                self.len = end;
            }
            None => self.overflown = true,
        }
    }

    /// Adds a text as labels. There are dots in names of pods.
    pub(crate) fn push_text(&mut self, text: &[u8]) {
        for label in text.split(|octet| *octet == b'.') {
            match u8::try_from(label.len()) {
                Ok(len @ 1..=63) => {
                    self.push(&[len]);
                    self.push(label);
                }
                _ => self.overflown = true,
            }
        }
    }

    /// What there is; nothing if it was too much.
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self.overflown {
            true => &[],
            false => self.octets.get(..self.len).unwrap_or_default(),
        }
    }

    /// The octets as one name, if they are.
    pub(crate) fn name(&self) -> Option<NameRef<'_>> {
        NameRef::new(self.as_slice()).ok()
    }
}

/// Finds what is the same in a list, in time that grows with the list.
#[derive(Debug, Default)]
pub(crate) struct Distinct {
    /// Indices into the list, by hash; at least half are [`FREE`].
    slots: Vec<u32>,
    hasher: RandomState,
}

const FREE: u32 = u32::MAX;

impl Distinct {
    /// Forgets everything and makes room for a list of `len`.
    pub(crate) fn begin(&mut self, len: usize) {
        self.slots.clear();
        // One alone is like no other.
        if len > 1 {
            self.slots.resize((2 * len).next_power_of_two(), FREE);
        }
    }

    /// Whether no index so far is the `same` as `index`; what is, has to have the same `key`.
    pub(crate) fn is_new(
        &mut self,
        index: usize,
        key: impl Hash,
        same: impl Fn(usize) -> bool,
    ) -> bool {
        let Some(mask) = self.slots.len().checked_sub(1) else { return true };
        let mut at = self.hasher.hash_one(key) as usize & mask;
        while let Some(slot) = self.slots.get_mut(at) {
            if *slot == FREE {
                *slot = u32::try_from(index).unwrap_or(FREE);
                return true;
            }
            if same(*slot as usize) {
                return false;
            }
            at = (at + 1) & mask;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_nothing() {
        let mut octets = Octets::<8>::new();
        octets.push_text(b"ab.cd");
        assert_eq!(octets.as_slice(), b"\x02ab\x02cd");
        octets.push(&[0]);
        assert_eq!(octets.name().unwrap().to_string(), "ab.cd.");
        octets.push(b"xyz");
        assert_eq!(octets.as_slice(), b"");
        octets.clear();
        octets.push_text(b"a..b");
        assert!(octets.name().is_none());
    }

    #[test]
    fn each_value_is_new_once() {
        let list: Vec<u32> = (0..1000).map(|n| n * n % 251).collect();
        let mut distinct = Distinct::default();
        for len in [0, 1, 2, 3, 500, 1000] {
            distinct.begin(len);
            let list = &list[..len];
            let new = |i: &usize| distinct.is_new(*i, list[*i], |k| list[k] == list[*i]);
            let new: Vec<usize> = (0..len).filter(new).collect();
            let first = |i: &usize| !list[..*i].contains(&list[*i]);
            assert_eq!(new, (0..len).filter(first).collect::<Vec<_>>());
        }
    }
}
