//! What lookups will read, brought into the processor's caches before they are made.
//!
//! A search in a zone that the caches do not hold waits for memory at nearly each of its steps, as each says where the
//! next is. Searches for queries that arrived together do not depend on each other.

use super::Data;
use super::key::Key;
use super::trie::Trie;
use crate::limits::{FETCHED_ZONE_MIN, NAMES_AT_ONCE};
use nodens_wire::NameRef;
use std::hint::black_box;
use std::iter::repeat;

impl Data {
    /// Has the processor fetch what [`Data::lookup`] will read for these names, as far as they lie in the zone. Of
    /// no other effect, and of none for small zones, which the caches hold; of little use for a single name.
    pub fn fetch(&self, names: &[NameRef<'_>]) {
        if self.is_fetched() {
            names.chunks(NAMES_AT_ONCE).for_each(|names| _ = self.fetch_together(names));
        }
    }

    /// Whether [`Data::fetch`] does anything.
    pub fn is_fetched(&self) -> bool {
        self.names() >= FETCHED_ZONE_MIN
    }

    /// As [`Data::fetch`], of zones that are small and many: each name lies in the version beside it. How many names
    /// seem to be there.
    pub(crate) fn fetch_each<const N: usize>(all: [Option<(&Self, NameRef<'_>)>; N]) -> usize {
        // What comes after these is passed over.
        const { assert!(N <= NAMES_AT_ONCE) };
        // Other lines of memory than the first, and in any order.
        for (data, _) in all.iter().flatten() {
            _ = black_box((data.records, data.signed));
        }
        // No more than there are: an empty key is half a kilobyte.
        let mut keys: [Key; N] = std::array::from_fn(|_| Key::empty());
        let mut tries = [None; N];
        let mut count = 0;
        for (data, name) in all.into_iter().flatten() {
            data.prepared.fetch();
            if let (Some(key), Some(trie)) = (keys.get_mut(count), tries.get_mut(count))
                && key.fill(name, data.origin())
            {
                *trie = Some(&data.names);
                count += 1;
            }
        }
        Trie::go_ahead(tries.iter().copied().flatten(), keys.get(..count).unwrap_or_default())
    }

    /// How many of at most [`NAMES_AT_ONCE`] names seem to be there.
    fn fetch_together(&self, names: &[NameRef<'_>]) -> usize {
        let origin = self.origin();
        let mut keys: [Key; NAMES_AT_ONCE] = std::array::from_fn(|_| Key::empty());
        let mut count = 0;
        for name in names {
            if let Some(key) = keys.get_mut(count)
                && key.fill(*name, origin)
            {
                count += 1;
            }
        }
        Trie::go_ahead(repeat(&self.names), keys.get(..count).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Edit;
    use crate::zone::RecordRef;
    use nodens_wire::{Class, Name, Type};

    #[test]
    fn names_are_gone_to_side_by_side() {
        let name = |text: &str| text.parse::<Name>().unwrap();
        let origin = name("example.org.");
        let mut edit = Edit::new(origin.view(), Class::IN);
        let mut add = |owner: &Name, rtype, rdata: &[u8]| {
            let record = RecordRef { owner: owner.view(), rtype, class: Class::IN, ttl: 1, rdata };
            edit.add(record).unwrap();
        };
        let soa = [origin.as_wire(), origin.as_wire(), &[0; 20]].concat();
        add(&origin, Type::SOA, &soa);
        add(&origin, Type::NS, origin.as_wire());
        let known: Vec<Name> =
            (0..NAMES_AT_ONCE).map(|n| name(&format!("h{n}.a.example.org."))).collect();
        known.iter().for_each(|known| add(known, Type::A, &[0; 4]));
        let data = edit.finish().unwrap();
        let found =
            |names: &[Name]| data.fetch_together(&names.iter().map(Name::view).collect::<Vec<_>>());
        assert_eq!(found(&known), NAMES_AT_ONCE);
        assert_eq!(found(&[]), 0);
        // Names in other letters are found, those of other zones passed over, others lead to a branch without them.
        let others = [
            "H3.A.EXAMPLE.ORG.",
            "h3.a.example.com.",
            "org.",
            ".",
            "x.a.example.org.",
            "h1.a.example.org.",
        ];
        assert_eq!(found(&others.map(name)), 2);
    }

    #[test]
    fn large_zones_are_fetched_and_their_longest_names_gone_to() {
        let label = |octet: u8, len: u8| [&[len][..], &vec![octet; usize::from(len)]].concat();
        // As long as names may be, of octets that have two symbols each, and of as many labels as there may be.
        let longest = |octet| {
            let labels = [63, 63, 63, 61].map(|len| label(octet, len)).concat();
            Name::from_wire(&[&labels[..], b"\0"].concat()).unwrap()
        };
        let most =
            |octet| Name::from_wire(&[&label(octet, 1).repeat(127)[..], b"\0"].concat()).unwrap();
        let names: Vec<_> = (0xf0..=0xff).flat_map(|octet| [longest(octet), most(octet)]).collect();
        let mut edit = Edit::new(NameRef::root(), Class::IN);
        let mut add = |owner: NameRef<'_>, rtype, rdata: &[u8]| {
            edit.add(RecordRef { owner, rtype, class: Class::IN, ttl: 1, rdata }).unwrap();
        };
        add(NameRef::root(), Type::SOA, &[0; 22]);
        add(NameRef::root(), Type::NS, &[0]);
        names.iter().for_each(|name| add(name.view(), Type::A, &[0; 4]));
        let small = edit.finish().unwrap();
        assert!(!small.is_fetched());
        let mut edit = small.edit();
        for n in 0..FETCHED_ZONE_MIN {
            let owner: Name = format!("h{n}.example.").parse().unwrap();
            let (owner, rtype, class) = (owner.view(), Type::A, Class::IN);
            edit.add(RecordRef { owner, rtype, class, ttl: 1, rdata: &[0; 4] }).unwrap();
        }
        let large = edit.finish().unwrap();
        assert!(large.is_fetched());
        let views: Vec<_> = names.iter().map(Name::view).collect();
        for views in views.chunks(NAMES_AT_ONCE) {
            assert_eq!(large.fetch_together(views), NAMES_AT_ONCE);
        }
        [&small, &large].iter().for_each(|data| data.fetch(&views));
    }
}
