//! Branches and leaves: parts of tries that versions share.

use super::Entry;
use crate::data::key::END;
use crate::data::node::Node;
use std::hint::black_box;
use std::mem;
use triomphe::{Arc, ThinArc};

/// What a search has to know of a name on its way to those below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::data) struct Flags(u8);

impl Flags {
    /// It has NS records and is not the apex.
    pub(in crate::data) const CUT: Self = Self(1);
    /// It has a DNAME record.
    pub(in crate::data) const DNAME: Self = Self(2);
    /// The name `*` exists right below it.
    pub(in crate::data) const WILDCARD: Self = Self(4);

    /// Whether all of `other` are set.
    pub(in crate::data) fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// With those of `other` set or not.
    pub(in crate::data) fn set(self, other: Self, on: bool) -> Self {
        if on { Self(self.0 | other.0) } else { Self(self.0 & !other.0) }
    }

    /// Whether names below are not answered from what they have.
    pub(in crate::data) fn hides_names_below(self) -> bool {
        self.0 & (Self::CUT.0 | Self::DNAME.0) != 0
    }
}

/// Twigs each in another line of 64 octets, wherever a branch begins; most branches have no more lines.
const TWIGS_IN_LINES: [usize; 3] = [2, 6, 10];
/// The same for the octets of a node, whose last one may lie in a line more.
const OCTETS_IN_LINES: [usize; 4] = [40, 104, 168, 232];

/// What a branch looks at, and for which symbols it has a twig.
#[derive(Clone, Copy)]
struct Head {
    bitmap: u64,
    offset: u16,
}

#[derive(Clone)]
pub(super) struct Branch(ThinArc<Head, Twig>);

#[derive(Clone, Default)]
pub(super) enum Twig {
    /// Only the root of an empty trie, and a place whose twig was taken out for a moment.
    #[default]
    Nothing,
    Leaf(Flags, Node),
    Branch(Branch),
}

impl Branch {
    pub(super) fn pair(offset: usize, mut twigs: [(u8, Twig); 2]) -> Self {
        twigs.sort_by_key(|(symbol, _)| *symbol);
        let bitmap = twigs.iter().fold(0, |bitmap, (symbol, _)| bitmap | bit(*symbol));
        Self::of(offset, bitmap, twigs.into_iter().map(|(_, twig)| twig))
    }

    /// A branch that has twigs for the symbols in `bitmap`, in their order.
    pub(super) fn of(
        offset: usize,
        bitmap: u64,
        twigs: impl ExactSizeIterator<Item = Twig>,
    ) -> Self {
        Self(ThinArc::from_header_and_iter(Head { bitmap, offset: offset as u16 }, twigs))
    }

    fn head(&self) -> Head {
        self.0.header.header
    }

    pub(super) fn offset(&self) -> usize {
        usize::from(self.head().offset)
    }

    pub(super) fn twigs(&self) -> &[Twig] {
        &self.0.slice
    }

    /// How many twigs have lesser symbols.
    pub(super) fn rank(&self, symbol: u8) -> usize {
        (self.head().bitmap & (bit(symbol) - 1)).count_ones() as usize
    }

    pub(super) fn has(&self, symbol: u8) -> bool {
        self.head().bitmap & bit(symbol) != 0
    }

    pub(super) fn twig(&self, symbol: u8) -> Option<&Twig> {
        if self.has(symbol) { self.twigs().get(self.rank(symbol)) } else { None }
    }

    /// The name that ends at the offset, which all others of this branch lie below.
    pub(super) fn upper(&self) -> Option<Entry<'_>> {
        // No symbol is less.
        if self.has(END) { self.twigs().first()?.entry() } else { None }
    }

    /// The same, if it hides those below it.
    pub(super) fn hiding(&self) -> Option<Entry<'_>> {
        self.upper().filter(|upper| upper.flags.hides_names_below())
    }

    /// Lets `change` see the twigs, of a copy if others have this branch too.
    fn change<T>(&mut self, change: impl FnOnce(&mut [Twig]) -> T) -> Option<T> {
        if ThinArc::strong_count(&self.0) != 1 {
            self.0 = ThinArc::from_header_and_iter(self.head(), self.twigs().iter().cloned());
        }
        self.0.with_arc_mut(|arc| Arc::get_mut(arc).map(|inner| change(inner.slice_mut())))
    }

    pub(super) fn take(&mut self, rank: usize) -> Twig {
        let taken = self.change(|twigs| twigs.get_mut(rank).map(mem::take));
        taken.flatten().unwrap_or_default()
    }

    pub(super) fn put(&mut self, rank: usize, twig: Twig) {
        self.change(|twigs| twigs.get_mut(rank).map(|slot| *slot = twig));
    }

    /// The branch with one twig more.
    pub(super) fn with(mut self, symbol: u8, twig: Twig) -> Self {
        let Head { bitmap, offset } = self.head();
        let (rank, len) = (self.rank(symbol), self.twigs().len());
        let mut new = Some(twig);
        let head = Head { bitmap: bitmap | bit(symbol), offset };
        let grown = self.change(|twigs| {
            let mut old = twigs.iter_mut().map(mem::take);
            let all = (0..len + 1).map(|at| {
                let next = if at == rank { new.take() } else { old.next() };
                next.unwrap_or_default()
            });
            ThinArc::from_header_and_iter(head, all)
        });
        grown.map_or(self, Self)
    }

    /// What is left without one twig: the last one alone needs no branch.
    pub(super) fn without(mut self, symbol: u8) -> Twig {
        let Head { bitmap, offset } = self.head();
        let (rank, len) = (self.rank(symbol), self.twigs().len());
        if len <= 2 {
            return self.take(1_usize.saturating_sub(rank));
        }
        let head = Head { bitmap: bitmap & !bit(symbol), offset };
        let shrunk = self.change(|twigs| {
            let mut old = twigs.iter_mut().map(mem::take);
            let rest = (0..len - 1).map(|at| {
                let next = if at == rank { old.nth(1) } else { old.next() };
                next.unwrap_or_default()
            });
            ThinArc::from_header_and_iter(head, rest)
        });
        shrunk.map_or_else(Twig::default, |branch| Twig::Branch(Self(branch)))
    }
}

/// The bit of a symbol in the map of a branch.
pub(super) fn bit(symbol: u8) -> u64 {
    1 << (symbol & 63)
}

impl Twig {
    /// Has the processor fetch the lines of memory that a search is likely to read here. It would wait for one after the
    /// other, as which twig is next depends on the head, and where a record begins on the length of the owner.
    pub(super) fn fetch(&self) {
        match self {
            Self::Branch(branch) => {
                let twigs = TWIGS_IN_LINES.iter().filter_map(|at| branch.twigs().get(*at));
                twigs.for_each(|twig| _ = black_box(matches!(twig, Self::Nothing)));
            }
            // Referrals are prepared as a rule, and need the name alone.
            Self::Leaf(flags, node) if flags.has(Flags::CUT) => {
                _ = black_box(node.octets().first().copied());
            }
            Self::Leaf(_, node) => {
                let octets = OCTETS_IN_LINES.iter().filter_map(|at| node.octets().get(*at));
                octets.chain(node.octets().last()).for_each(|octet| _ = black_box(*octet));
            }
            Self::Nothing => {}
        }
    }

    /// Octets that the node of a leaf takes.
    pub(super) fn cost(&self) -> usize {
        match self {
            Self::Leaf(_, node) => node.cost(),
            Self::Nothing | Self::Branch(_) => 0,
        }
    }

    pub(super) fn entry(&self) -> Option<Entry<'_>> {
        match self {
            Self::Leaf(flags, node) => Some(Entry { flags: *flags, node }),
            _ => None,
        }
    }

    pub(super) fn first(&self) -> Option<Entry<'_>> {
        let mut twig = self;
        while let Self::Branch(branch) = twig {
            twig = branch.twigs().first()?;
        }
        twig.entry()
    }

    pub(super) fn last(&self) -> Option<Entry<'_>> {
        let mut twig = self;
        while let Self::Branch(branch) = twig {
            twig = branch.twigs().last()?;
        }
        twig.entry()
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Leaf(flags, node), Self::Leaf(others, other)) => {
                flags == others && node.is(other)
            }
            (Self::Branch(branch), Self::Branch(other)) => branch.0.as_ptr() == other.0.as_ptr(),
            _ => false,
        }
    }
}
