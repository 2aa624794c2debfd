//! Which slices have an endpoint at an address: the largest table of a cluster, and the one that
//! nearly every change of endpoints changes twice.
//!
//! Addresses and numbers stand side by side in pages of a two-storied tree. A copy that differs in
//! one address shares all but a page and two rows of pointers with the original, and the page has
//! nothing in it whose uses are counted.

use foldhash::fast::RandomState;
use std::array;
use std::hash::{BuildHasher, Hash};
use std::net::IpAddr;
use std::sync::Arc;

/// Branches of a row. With a hundred thousand addresses, a page has a hundred of them.
const FAN: usize = 32;
/// Bits of a hash that choose one of them.
const FAN_BITS: u32 = FAN.ilog2();

/// A slice in short, as long as it is there.
pub(super) type Number = u32;

/// Numbers of slices by address. A clone is cheap and shares everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    v4: Pages<[u8; 4]>,
    v6: Pages<[u8; 16]>,
}

impl Places {
    /// There is an endpoint of slice `number` at `address`.
    pub(super) fn add(&mut self, address: IpAddr, number: Number) {
        match address {
            IpAddr::V4(address) => self.v4.add(address.octets(), number),
            IpAddr::V6(address) => self.v6.add(address.octets(), number),
        }
    }

    /// There is none any more.
    pub(super) fn remove(&mut self, address: IpAddr, number: Number) {
        match address {
            IpAddr::V4(address) => self.v4.remove(address.octets(), number),
            IpAddr::V6(address) => self.v6.remove(address.octets(), number),
        }
    }

    /// The slices with an endpoint at `address`, in ascending order. Allocates nothing.
    pub(super) fn at(&self, address: IpAddr) -> impl Iterator<Item = Number> + Clone + use<'_> {
        let (v4, v6) = match address {
            IpAddr::V4(address) => (self.v4.at(address.octets()), Default::default()),
            IpAddr::V6(address) => (Default::default(), self.v6.at(address.octets())),
        };
        v4.iter().map(|(_, number)| *number).chain(v6.iter().map(|(_, number)| *number))
    }

    /// How many addresses there are.
    pub(super) fn len(&self) -> usize {
        self.v4.len + self.v6.len
    }
}

/// In ascending order.
type Page<A> = Vec<(A, Number)>;
type Row<T> = [Option<Arc<T>>; FAN];

#[derive(Clone, Debug)]
struct Pages<A> {
    root: Arc<Row<Row<Page<A>>>>,
    /// How many addresses there are.
    len: usize,
    hasher: RandomState,
}

impl<A> Default for Pages<A> {
    fn default() -> Self {
        Self { root: Arc::new(array::from_fn(|_| None)), len: 0, hasher: RandomState::default() }
    }
}

impl<A: Copy + Ord + Hash> Pages<A> {
    /// Where the page of `address` is.
    fn path(&self, address: A) -> [usize; 2] {
        let hash = self.hasher.hash_one(address);
        let top = hash >> (u64::BITS - 2 * FAN_BITS);
        [top as usize / FAN, top as usize % FAN]
    }

    fn page(&self, address: A) -> &[(A, Number)] {
        let [first, second] = self.path(address);
        let row = self.root.get(first).and_then(Option::as_ref);
        let page = row.and_then(|row| row.get(second)?.as_ref());
        page.map_or(&[], |page| page.as_slice())
    }

    fn at(&self, address: A) -> &[(A, Number)] {
        let page = self.page(address);
        let start = page.partition_point(|(known, _)| *known < address);
        let rest = page.get(start..).unwrap_or_default();
        let len = rest.iter().take_while(|(known, _)| *known == address).count();
        rest.get(..len).unwrap_or_default()
    }

    fn add(&mut self, address: A, number: Number) {
        let is_new = self.at(address).is_empty();
        let Err(at) = self.page(address).binary_search(&(address, number)) else { return };
        self.len += usize::from(is_new);
        let place = self.place(address);
        if let Some(page) = place.as_mut().and_then(Arc::get_mut) {
            page.insert(at, (address, number));
            return;
        }
        let (before, after) = place.as_deref().map_or(&[][..], Vec::as_slice).split_at(at);
        let mut page = Vec::with_capacity(before.len() + 1 + after.len());
        page.extend_from_slice(before);
        page.push((address, number));
        page.extend_from_slice(after);
        *place = Some(Arc::new(page));
    }

    fn remove(&mut self, address: A, number: Number) {
        let Ok(at) = self.page(address).binary_search(&(address, number)) else { return };
        let place = self.place(address);
        let Some(page) = place else { return };
        Arc::make_mut(page).remove(at);
        if page.is_empty() {
            *place = None;
        }
        self.len -= usize::from(self.at(address).is_empty());
    }

    /// Where the page of `address` hangs, in rows that nobody shares.
    fn place(&mut self, address: A) -> &mut Option<Arc<Page<A>>> {
        let [first, second] = self.path(address);
        let row = &mut Arc::make_mut(&mut self.root)[first];
        let row = row.get_or_insert_with(|| Arc::new(array::from_fn(|_| None)));
        &mut Arc::make_mut(row)[second]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn address(number: u16) -> IpAddr {
        match number % 3 {
            0 => IpAddr::from([0, 0, 0, 0, 0, 0, 0, number]),
            _ => IpAddr::from([10, 0, (number >> 8) as u8, number as u8]),
        }
    }

    fn shown(places: &Places, addresses: u16) -> Vec<Vec<Number>> {
        (0..addresses).map(|number| places.at(address(number)).collect()).collect()
    }

    proptest! {
        #[test]
        fn what_is_added_is_found_until_it_is_removed_and_copies_stay_as_they_were(
            changes in prop::collection::vec((any::<bool>(), 0_u16..12, 0_u32..4), 0..60),
            copied_after in 0_usize..60,
        ) {
            let (mut places, mut model) = (Places::default(), BTreeSet::new());
            let mut copy = None;
            for (done, (adds, number, slice)) in changes.into_iter().enumerate() {
                if done == copied_after {
                    copy = Some((places.clone(), shown(&places, 12)));
                }
                if adds {
                    places.add(address(number), slice);
                    model.insert((number, slice));
                } else {
                    places.remove(address(number), slice);
                    model.remove(&(number, slice));
                }
                let of = |number| {
                    let all = model.iter().filter(move |(known, _)| *known == number);
                    all.map(|(_, slice)| *slice).collect::<Vec<_>>()
                };
                prop_assert_eq!(shown(&places, 12), (0..12).map(of).collect::<Vec<_>>());
                let addresses: BTreeSet<u16> = model.iter().map(|(number, _)| *number).collect();
                prop_assert_eq!(places.len(), addresses.len());
            }
            if let Some((copy, before)) = copy {
                prop_assert_eq!(shown(&copy, 12), before);
            }
        }
    }

    #[test]
    fn a_change_copies_one_page_and_its_rows() {
        let mut places = Places::default();
        (0..50_000).for_each(|number| places.add(address(number), 7));
        let before = places.clone();
        places.add(IpAddr::from([192, 0, 2, 1]), 8);
        assert_eq!(places.at(IpAddr::from([192, 0, 2, 1])).collect::<Vec<_>>(), [8]);
        assert_eq!(before.at(IpAddr::from([192, 0, 2, 1])).count(), 0);
        let pages = |places: &Places| -> Vec<_> {
            let rows = places.v4.root.iter().flatten();
            rows.flat_map(|row| row.iter().map(|page| page.as_ref().map(Arc::as_ptr))).collect()
        };
        let (before, after) = (pages(&before), pages(&places));
        let differ = before.iter().zip(&after).filter(|(before, after)| before != after).count();
        assert_eq!((before.len(), differ), (FAN * FAN, 1));
    }
}
