//! A trie that is made of names in their order.
//!
//! Only the branches on the way to the last name can get more twigs. They are open: their twigs stand on one stack. A name
//! that parts from the last one at an offset closes all open branches that look at symbols behind it. So each
//! branch is written once, at its final size, and no name is searched for.

use super::branch::{Branch, Flags, Twig, bit};
use super::{TWIG_COST, Trie};
use crate::data::key::Key;
use crate::data::node::Node;

/// A branch that may get more twigs.
struct Open {
    offset: usize,
    bitmap: u64,
    /// Where its twigs begin among all that are open.
    start: usize,
}

/// A trie that grows at its end.
#[derive(Default)]
pub(in crate::data) struct Spine {
    open: Vec<Open>,
    twigs: Vec<Twig>,
    /// The last name, which is in no branch yet.
    last: Option<(Key, Twig)>,
    octets: usize,
}

impl Spine {
    /// Octets of memory that the trie takes, about.
    pub(in crate::data) fn octets(&self) -> usize {
        self.octets
    }

    /// How many symbols a key has in common with that of the last name; nothing if it does not come behind it.
    pub(in crate::data) fn common(&self, key: &Key) -> Option<usize> {
        let Some((last, _)) = &self.last else { return Some(0) };
        let common = last.common(key);
        (last.at(common) < key.at(common)).then_some(common)
    }

    /// Adds the node of a name that comes behind the last one and has so many symbols in common with it.
    pub(in crate::data) fn push(&mut self, key: &Key, common: usize, flags: Flags, node: Node) {
        self.octets += TWIG_COST + node.cost();
        let twig = Twig::Leaf(flags, node);
        if let Some((last, before)) = self.last.replace((key.clone(), twig)) {
            let before = self.close(&last, Some(common), before);
            self.put(last.at(common), common, before);
        }
    }

    /// Sets flags of the name that ends at this offset, which the last name lies below.
    pub(in crate::data) fn set_flags_above(&mut self, offset: usize, new: Flags) {
        let upper = self.open.iter().rev().find(|open| open.offset == offset);
        let upper = upper.and_then(|open| self.twigs.get_mut(open.start));
        if let Some(Twig::Leaf(flags, _)) = upper {
            *flags = flags.set(new, true);
        }
    }

    /// The trie of all names.
    pub(in crate::data) fn finish(mut self) -> Trie {
        let root = match self.last.take() {
            Some((last, twig)) => self.close(&last, None, twig),
            None => Twig::Nothing,
        };
        Trie { root, octets: self.octets }
    }

    /// Closes the branches that look at symbols behind `until`, or all. Gives the uppermost, which `twig` lies below.
    fn close(&mut self, last: &Key, until: Option<usize>, mut twig: Twig) -> Twig {
        let is_behind = |open: &mut Open| until.is_none_or(|until| open.offset > until);
        while let Some(open) = self.open.pop_if(is_behind) {
            twig = self.close_one(open, last, twig);
        }
        twig
    }

    fn close_one(&mut self, Open { offset, bitmap, start }: Open, last: &Key, twig: Twig) -> Twig {
        self.twigs.push(twig);
        let symbols = bitmap | bit(last.at(offset));
        Twig::Branch(Branch::of(offset, symbols, self.twigs.drain(start..)))
    }

    /// Puts a twig behind those of the branch that looks at this offset.
    fn put(&mut self, symbol: u8, offset: usize, twig: Twig) {
        match self.open.last_mut() {
            Some(open) if open.offset == offset => open.bitmap |= bit(symbol),
            _ => self.open.push(Open { offset, bitmap: bit(symbol), start: self.twigs.len() }),
        }
        self.twigs.push(twig);
    }
}

#[cfg(test)]
impl Trie {
    /// All that it consists of, branches with their offsets and symbols.
    pub(in crate::data) fn shape(&self) -> String {
        fn of(twig: &Twig) -> String {
            match twig {
                Twig::Nothing => "nothing".to_owned(),
                Twig::Leaf(flags, node) => format!("{flags:?} {:?}", node.octets()),
                Twig::Branch(branch) => {
                    let symbols: Vec<_> = (0..64).filter(|symbol| branch.has(*symbol)).collect();
                    let twigs: Vec<_> = branch.twigs().iter().map(of).collect();
                    format!("{} {symbols:?} {twigs:?}", branch.offset())
                }
            }
        }
        format!("{} octets: {}", self.octets, of(&self.root))
    }
}
