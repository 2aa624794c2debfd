//! The neighbours of a link in a ring that has changed: NSEC records in the order of names, NSEC3
//! records in that of hashes. Only links near those that changed are looked at.

use crate::data::{Data, HASH_LEN, hashed_name, name_in};
use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Name, Type};
use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

/// A ring as it was before the change.
pub(super) trait Ring {
    /// What tells links apart, in their order.
    type Key: Ord + Clone;

    /// The link before this place, not the one at it. Before the first link comes the last: the chain is a ring.
    fn before(&self, key: &Self::Key) -> Option<Self::Key>;

    /// What a link says comes next.
    fn next(&self, key: &Self::Key) -> Option<Self::Key>;

    /// Whether it has the link.
    fn has(&self, key: &Self::Key) -> bool;
}

/// The NSEC records of a version.
pub(super) struct ByName<'o>(pub(super) &'o Data);

impl Ring for ByName<'_> {
    type Key = Name;

    fn before(&self, key: &Name) -> Option<Name> {
        self.0.nsec_behind(key.view()).map(|set| set.owner().to_name())
    }

    fn next(&self, key: &Name) -> Option<Name> {
        let set = self.0.rrset(key.view(), Type::NSEC)?;
        name_in(set.first(), 0).map(|next| next.to_name())
    }

    fn has(&self, key: &Name) -> bool {
        self.0.rrset(key.view(), Type::NSEC).is_some()
    }
}

/// A name's hash.
pub(super) type Hash = [u8; HASH_LEN];

/// The NSEC3 records of a version, without iterations and salt.
pub(super) struct ByHash<'o>(pub(super) &'o Data);

/// Octets of NSEC3 RDATA in front of the next hash.
pub(super) const NEXT_AT: usize = 6;

impl Ring for ByHash<'_> {
    type Key = Hash;

    fn before(&self, key: &Hash) -> Option<Hash> {
        let mut buffer = [0; NAME_LEN_MAX];
        let owner = hashed_name(key, self.0.origin(), &mut buffer)?;
        hash_in(self.0.nsec3_behind(owner)?.owner().labels().next()?)
    }

    fn next(&self, key: &Hash) -> Option<Hash> {
        let mut buffer = [0; NAME_LEN_MAX];
        let owner = hashed_name(key, self.0.origin(), &mut buffer)?;
        let rdata = self.0.rrset(owner, Type::NSEC3)?.first();
        rdata.get(NEXT_AT..)?.first_chunk().copied()
    }

    fn has(&self, key: &Hash) -> bool {
        self.next(key).is_some()
    }
}

/// The hash that a label of base32hex stands for.
pub(super) fn hash_in(label: &[u8]) -> Option<Hash> {
    let mut hash = [0; HASH_LEN];
    if label.len() != HASH_LEN / 5 * 8 {
        return None;
    }
    for (octets, letters) in hash.chunks_exact_mut(5).zip(label.chunks_exact(8)) {
        let mut bits = 0_u64;
        for letter in letters {
            let digit = match letter.to_ascii_lowercase() {
                digit @ b'0'..=b'9' => digit - b'0',
                letter @ b'a'..=b'v' => letter - b'a' + 10,
                _ => return None,
            };
            bits = bits << 5 | u64::from(digit);
        }
        octets.copy_from_slice(bits.to_be_bytes().get(3..)?);
    }
    Some(hash)
}

/// A ring from which links have gone, and to which others have come.
pub(super) struct Links<R: Ring> {
    old: R,
    pub(super) gone: BTreeSet<R::Key>,
    pub(super) come: BTreeSet<R::Key>,
}

impl<R: Ring> Links<R> {
    pub(super) fn of(old: R) -> Self {
        Self { old, gone: BTreeSet::new(), come: BTreeSet::new() }
    }

    /// Says whether there is to be a link.
    pub(super) fn set(&mut self, key: R::Key, is_there: bool) {
        match (self.old.has(&key), is_there) {
            (true, false) => _ = self.gone.insert(key),
            (false, true) => _ = self.come.insert(key),
            _ => {}
        }
    }

    /// The link before this place.
    pub(super) fn before(&self, key: &R::Key) -> Option<R::Key> {
        let kept = self.kept(self.old.before(key), |at| self.old.before(at));
        let come = self.come.range(..key).next_back().or_else(|| self.come.last()).cloned();
        // Of what comes first backwards, and what comes behind the place, around the ring.
        kept.into_iter().chain(come).max_by(|a, b| (a < key, a).cmp(&(b < key, b)))
    }

    /// The link behind a link; the link itself if it is the only one.
    pub(super) fn after(&self, key: &R::Key) -> Option<R::Key> {
        let known = if self.old.has(key) { Some(key.clone()) } else { self.old.before(key) };
        let first = known.and_then(|known| self.old.next(&known));
        let kept = self.kept(first, |at| self.old.next(at));
        let mut later = self.come.range((Excluded(key), Unbounded));
        let come = later.next().or_else(|| self.come.first()).cloned();
        kept.into_iter().chain(come).min_by(|a, b| (a <= key, a).cmp(&(b <= key, b)))
    }

    /// The first of the links on a way that has not gone.
    fn kept(
        &self,
        first: Option<R::Key>,
        step: impl Fn(&R::Key) -> Option<R::Key>,
    ) -> Option<R::Key> {
        let mut at = first?;
        // Each that has gone is met once at most.
        for _ in 0..=self.gone.len() {
            if !self.gone.contains(&at) {
                return Some(at);
            }
            at = step(&at)?;
        }
        None
    }
}
