//! A map from names to nodes, in the canonical order of names, whose versions share what they have
//! in common.
//!
//! It is a qp-trie: of the symbols of a [`Key`] a branch looks at one, at its offset, and has a twig
//! for each symbol that occurs there; offsets at which all keys of a branch agree have no branch. A
//! search therefore looks at few symbols, and compares the name once, at the leaf it ends at.
//!
//! Nodes and branches are counted references. A change copies the branches from the root to the leaf,
//! but for those that no other version has: these it changes in place.
//!
//! Two names, one above the other, part at the offset where the upper one ends. So a search for the
//! lower one passes a branch there, whose twig for [`END`] is the leaf of the upper one: names above
//! are seen on the way down, and their [`Flags`] stand in the twig.

use super::key::{END, Key, Place};
use super::node::Node;
use nodens_wire::NameRef;
use std::mem;

mod ahead;
mod branch;
mod changes;
mod leaves;
mod spine;

use branch::{Branch, Twig};

pub(super) use branch::Flags;
pub(super) use changes::changes;
pub(super) use leaves::Leaves;
pub(super) use spine::Spine;

/// A node with its flags.
#[derive(Clone, Copy)]
pub(super) struct Entry<'t> {
    pub(super) flags: Flags,
    pub(super) node: &'t Node,
}

/// Where a search ended.
pub(super) struct Walk<'t> {
    /// The uppermost name above that hides those below it.
    pub(super) hidden_by: Option<Entry<'t>>,
    /// The name itself.
    pub(super) hit: Option<Entry<'t>>,
    /// How many symbols the key has in common with the key nearest to it; all if it was found.
    pub(super) common: usize,
    /// Whether the key nearest to it is less.
    pub(super) is_behind: bool,
}

#[derive(Clone, Default)]
pub(super) struct Trie {
    root: Twig,
    /// Of memory.
    octets: usize,
}

/// Octets that branches take for one name: its twig, and a part of what a branch has beside twigs.
const TWIG_COST: usize = 40;

impl Trie {
    /// Octets of memory that it takes, about.
    pub(super) fn octets(&self) -> usize {
        self.octets
    }

    /// Searches for a name.
    pub(super) fn walk(&self, place: &Place<'_>, origin: NameRef<'_>) -> Walk<'_> {
        let mut hidden_by = None;
        let mut twig = &self.root;
        let nearest = loop {
            let Twig::Branch(branch) = twig else { break twig.entry() };
            let symbol = place.key.at(branch.offset());
            if hidden_by.is_none() && symbol != END {
                hidden_by = branch.hiding().map(|upper| (branch.offset(), upper));
            }
            match branch.twig(symbol) {
                Some(next) => twig = next,
                None => break twig.first(),
            }
            twig.fetch();
        };
        let Some(nearest) = nearest else {
            return Walk { hidden_by: None, hit: None, common: 0, is_behind: false };
        };
        if nearest.node.owner() == place.name {
            let hidden_by = hidden_by.map(|(_, upper)| upper);
            let common = place.key.len();
            return Walk { hidden_by, hit: Some(nearest), common, is_behind: false };
        }
        let Some(found) = Key::new(nearest.node.owner(), origin) else {
            return Walk { hidden_by: None, hit: None, common: 0, is_behind: false };
        };
        let common = place.key.common(&found);
        // A name on the way is above only if it ends within what is common.
        let hidden_by = hidden_by.filter(|(offset, _)| *offset <= common);
        let hidden_by = hidden_by.map(|(_, upper)| upper).or_else(|| {
            let hides = nearest.flags.hides_names_below() && found.is_above(&place.key);
            hides.then_some(nearest)
        });
        let is_behind = found.at(common) < place.key.at(common);
        Walk { hidden_by, hit: None, common, is_behind }
    }

    /// The name itself.
    pub(super) fn get(&self, place: &Place<'_>) -> Option<Entry<'_>> {
        let mut twig = &self.root;
        while let Twig::Branch(branch) = twig {
            twig = branch.twig(place.key.at(branch.offset()))?;
            twig.fetch();
        }
        twig.entry().filter(|entry| entry.node.owner() == place.name)
    }

    /// The lowest name above, after a search that did not find the name itself and told `common`.
    pub(super) fn encloser(
        &self,
        key: &Key,
        common: usize,
        origin: NameRef<'_>,
    ) -> Option<Entry<'_>> {
        let mut found = None;
        let mut twig = &self.root;
        loop {
            match twig {
                Twig::Branch(branch) if branch.offset() <= common => {
                    let symbol = key.at(branch.offset());
                    if symbol != END {
                        found = branch.upper().or(found);
                    }
                    match branch.twig(symbol) {
                        Some(next) => twig = next,
                        None => return found,
                    }
                }
                Twig::Leaf(..) => {
                    let leaf = twig.entry()?;
                    let above = Key::new(leaf.node.owner(), origin)?.is_above(key);
                    return if above { Some(leaf) } else { found };
                }
                _ => return found,
            }
        }
    }

    /// The last name before this one, or the uppermost that hides it, after a search that told
    /// `common` and `is_behind`.
    pub(super) fn before(
        &self,
        key: &Key,
        (common, is_behind): (usize, bool),
    ) -> Option<Entry<'_>> {
        // A branch, the place of a twig whose names all come before, and what hides them.
        let mut lesser: Option<(&Branch, usize, Option<Entry<'_>>)> = None;
        let mut hidden_by = None;
        let mut twig = &self.root;
        while let Twig::Branch(branch) = twig
            && branch.offset() <= common
        {
            let symbol = key.at(branch.offset());
            let rank = branch.rank(symbol);
            if let Some(before) = rank.checked_sub(1) {
                lesser = Some((branch, before, hidden_by));
            }
            match branch.twigs().get(rank).filter(|_| branch.has(symbol)) {
                Some(next) => twig = next,
                None => return last_at(lesser?),
            }
            if symbol != END {
                hidden_by = hidden_by.or_else(|| branch.hiding());
            }
        }
        // All names from here on are on the same side.
        if is_behind { last_seen((twig, hidden_by)) } else { last_at(lesser?) }
    }

    /// The last name of all.
    pub(super) fn last(&self) -> Option<Entry<'_>> {
        self.root.last()
    }

    /// Whether there are names below one that exists.
    pub(super) fn has_below(&self, key: &Key) -> bool {
        let end = key.len().saturating_sub(1);
        let mut twig = &self.root;
        while let Twig::Branch(branch) = twig {
            if branch.offset() >= end {
                return branch.offset() == end;
            }
            match branch.twig(key.at(branch.offset())) {
                Some(next) => twig = next,
                None => return false,
            }
        }
        false
    }

    /// Shows the nodes below a name that exists, in no particular order, until `see` has seen enough.
    pub(super) fn below<'t>(&'t self, key: &Key, mut see: impl FnMut(&'t Node) -> bool) {
        let end = key.len().saturating_sub(1);
        let mut twig = &self.root;
        let mut left: Vec<&'t Twig> = loop {
            let Twig::Branch(branch) = twig else { return };
            if branch.offset() > end {
                return;
            }
            if branch.offset() == end {
                // The first of them is the name itself.
                let itself = usize::from(branch.has(END));
                break branch.twigs().iter().skip(itself).collect();
            }
            match branch.twig(key.at(branch.offset())) {
                Some(next) => twig = next,
                None => return,
            }
        };
        while let Some(twig) = left.pop() {
            match twig {
                Twig::Nothing => {}
                Twig::Leaf(_, node) if see(node) => {}
                Twig::Leaf(..) => return,
                Twig::Branch(branch) => left.extend(branch.twigs().iter()),
            }
        }
    }

    /// Adds a node of a name that does not exist, after a search that told `common`.
    pub(super) fn insert(
        &mut self,
        key: &Key,
        common: usize,
        (flags, node): (Flags, Node),
        origin: NameRef<'_>,
    ) {
        self.octets += TWIG_COST + node.cost();
        let (mut path, twig) = self.open(key, common);
        let symbol = key.at(common);
        let new = Twig::Leaf(flags, node);
        let twig = match twig {
            Twig::Branch(branch) if branch.offset() == common => {
                Twig::Branch(branch.with(symbol, new))
            }
            Twig::Nothing => new,
            other => {
                let first = other.first().and_then(|first| Key::new(first.node.owner(), origin));
                let beside = first.map_or(END, |first| first.at(common));
                Twig::Branch(Branch::pair(common, [(symbol, new), (beside, other)]))
            }
        };
        self.close(&mut path, twig);
    }

    /// Puts a node in the place of the one of a name that exists.
    pub(super) fn replace(&mut self, key: &Key, flags: Flags, node: Node) {
        let (mut path, old) = self.open(key, usize::MAX);
        self.octets = (self.octets + node.cost()).saturating_sub(old.cost());
        self.close(&mut path, Twig::Leaf(flags, node));
    }

    /// Changes the flags of a name that exists.
    pub(super) fn set_flags(&mut self, key: &Key, change: impl FnOnce(Flags) -> Flags) {
        let (mut path, mut twig) = self.open(key, usize::MAX);
        if let Twig::Leaf(flags, _) = &mut twig {
            *flags = change(*flags);
        }
        self.close(&mut path, twig);
    }

    /// Takes out a name that exists.
    pub(super) fn remove(&mut self, key: &Key) {
        let (mut path, old) = self.open(key, usize::MAX);
        self.octets = self.octets.saturating_sub(TWIG_COST + old.cost());
        let twig = match path.pop() {
            Some((branch, _)) => {
                let symbol = key.at(branch.offset());
                branch.without(symbol)
            }
            None => Twig::Nothing,
        };
        self.close(&mut path, twig);
    }

    /// Takes the trie apart along `key`, as far as branches look at symbols before `until`. Gives the
    /// branches, each with the place of the next, and the twig at the end.
    fn open(&mut self, key: &Key, until: usize) -> (Vec<(Branch, usize)>, Twig) {
        let mut path = Vec::new();
        let mut twig = mem::take(&mut self.root);
        loop {
            let Twig::Branch(mut branch) = twig else { return (path, twig) };
            let symbol = key.at(branch.offset());
            if branch.offset() >= until || !branch.has(symbol) {
                return (path, Twig::Branch(branch));
            }
            let rank = branch.rank(symbol);
            twig = branch.take(rank);
            path.push((branch, rank));
        }
    }

    /// Puts together what [`Trie::open`] took apart.
    fn close(&mut self, path: &mut Vec<(Branch, usize)>, mut twig: Twig) {
        while let Some((mut branch, rank)) = path.pop() {
            branch.put(rank, twig);
            twig = Twig::Branch(branch);
        }
        self.root = twig;
    }
}

/// The last name of a twig of a branch, or the uppermost that hides it.
fn last_at<'t>(
    (branch, rank, hidden_by): (&'t Branch, usize, Option<Entry<'t>>),
) -> Option<Entry<'t>> {
    let is_upper = rank == 0 && branch.has(END);
    let hidden_by = hidden_by.or_else(|| branch.hiding().filter(|_| !is_upper));
    last_seen((branch.twigs().get(rank)?, hidden_by))
}

/// The last name of a twig, or the uppermost that hides it.
fn last_seen<'t>((twig, hidden_by): (&'t Twig, Option<Entry<'t>>)) -> Option<Entry<'t>> {
    let (mut twig, mut hidden_by) = (twig, hidden_by);
    while let (Twig::Branch(branch), None) = (twig, hidden_by) {
        // Of several twigs the last is not that of the upper name.
        hidden_by = branch.hiding();
        twig = branch.twigs().last()?;
    }
    hidden_by.or_else(|| twig.entry())
}
