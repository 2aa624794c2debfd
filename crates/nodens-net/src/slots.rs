//! A table whose keys name an entry for good: a key of an entry that is gone matches no later one.

/// Names an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    index: u32,
    /// 28 bits, so that a key and a [`Kind`] fit into the 64 bits epoll keeps for us.
    generation: u32,
}

/// What a key is a key of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Wake,
    UdpServer,
    TcpListener,
    TcpServer,
    UdpUpstream,
    TcpUpstream,
    QuicServer,
    QuicUpstream,
}

const GENERATION_MASK: u32 = 0x0fff_ffff;
const KINDS: [Kind; 8] = [
    Kind::Wake,
    Kind::UdpServer,
    Kind::TcpListener,
    Kind::TcpServer,
    Kind::UdpUpstream,
    Kind::TcpUpstream,
    Kind::QuicServer,
    Kind::QuicUpstream,
];

impl Key {
    /// A key for things there is only one of.
    pub(crate) const ONLY: Self = Self { index: 0, generation: 0 };

    /// The key as one number, of 60 bits.
    pub(crate) fn bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// The reverse of [`Key::bits`]; what stands above those 60 bits does not matter.
    pub(crate) fn from_bits(bits: u64) -> Self {
        Self { index: bits as u32, generation: (bits >> 32) as u32 & GENERATION_MASK }
    }

    /// The key and its kind as one number.
    pub(crate) fn pack(self, kind: Kind) -> u64 {
        (kind as u64) << 60 | self.bits()
    }

    /// The reverse of [`Key::pack`].
    pub(crate) fn unpack(packed: u64) -> Option<(Kind, Self)> {
        let kind = *KINDS.get((packed >> 60) as usize)?;
        Some((kind, Self::from_bits(packed)))
    }
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// The table.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    pub(crate) fn insert(&mut self, value: T) -> Key {
        self.insert_with(|_| value)
    }

    /// Adds what `make` makes of its key.
    pub(crate) fn insert_with(&mut self, make: impl FnOnce(Key) -> T) -> Key {
        if let Some(index) = self.free.pop()
            && let Some(slot) = self.slots.get_mut(index as usize)
        {
            let key = Key { index, generation: slot.generation };
            slot.value = Some(make(key));
            return key;
        }
        let index = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        let key = Key { index, generation: 0 };
        self.slots.push(Slot { generation: 0, value: Some(make(key)) });
        key
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        let slot = self.slots.get(key.index as usize)?;
        if slot.generation == key.generation { slot.value.as_ref() } else { None }
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation == key.generation { slot.value.as_mut() } else { None }
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation != key.generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = (slot.generation + 1) & GENERATION_MASK;
        self.free.push(key.index);
        Some(value)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        (0..).zip(&self.slots).filter_map(|(index, slot)| {
            let key = Key { index, generation: slot.generation };
            slot.value.as_ref().map(|value| (key, value))
        })
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut T)> {
        (0..).zip(&mut self.slots).filter_map(|(index, slot)| {
            let key = Key { index, generation: slot.generation };
            slot.value.as_mut().map(|value| (key, value))
        })
    }

    /// The keys of all entries that `wanted` picks.
    pub(crate) fn keys(&self, wanted: impl Fn(&T) -> bool) -> Vec<Key> {
        self.iter().filter(|(_, value)| wanted(value)).map(|(key, _)| key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_a_removed_entry_matches_no_later_one() {
        let mut slots = Slots::default();
        let first = slots.insert('a');
        assert_eq!(slots.remove(first), Some('a'));
        let second = slots.insert('b');
        assert_eq!((first.index, slots.len()), (second.index, 1));
        assert_eq!((slots.get(first), slots.get(second)), (None, Some(&'b')));
        assert_eq!((slots.remove(first), slots.get_mut(first)), (None, None));
    }

    #[test]
    fn packing_keeps_kind_and_key() {
        let key = Key { index: u32::MAX, generation: GENERATION_MASK };
        for kind in KINDS {
            assert_eq!(Key::unpack(key.pack(kind)), Some((kind, key)));
            assert_eq!(Key::from_bits(key.bits()), key);
        }
        assert_eq!(Key::unpack(u64::MAX), None);
    }
}
