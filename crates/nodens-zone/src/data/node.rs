//! A name with its RRsets, in one piece of memory.
//!
//! The octets are: the length of the owner and the owner, its letters as they were given; then each
//! RRset: TYPE, TTL, how many records, how many octets, and each RDATA behind its length, all of
//! them as in a message (RFC 1035 section 3.2.1). RRsets are in the order of their types; signatures
//! are behind the RRset that they cover.

use super::Refused;
use super::rrset::{Head, Rrset, Rrsets, SET_HEAD_LEN, Sort, is_same, sort_of};
use crate::limits::{NODE_LEN_MAX, RRSET_LEN_MAX};
use crate::zone::RecordRef;
use nodens_wire::{Class, NameRef, Type};
use std::ops::Range;
use triomphe::ThinArc;

#[derive(Clone)]
pub(super) struct Node(ThinArc<(), u8>);

/// A place in a node, for a reader that holds the node: before the first record, or at one.
#[derive(Clone, Debug, Default)]
pub(super) struct Step {
    rtype: Type,
    ttl: u32,
    rdata: Range<usize>,
    next: usize,
    set_end: usize,
}

impl Step {
    /// The type of the record.
    pub(super) fn rtype(&self) -> Type {
        self.rtype
    }
}

/// What became of a node that a record was added to.
pub(super) enum Added {
    /// It had it.
    Nothing,
    /// A new record.
    Record(Node),
    /// It had it, with a greater TTL.
    Ttl(Node),
}

impl Node {
    /// A name that has no records.
    pub(super) fn empty(owner: NameRef<'_>) -> Self {
        let mut octets = Vec::with_capacity(1 + owner.as_wire().len());
        Self::write_owner(&mut octets, owner);
        Self::of(&octets)
    }

    /// What the octets of a node begin with.
    pub(super) fn write_owner(octets: &mut Vec<u8>, owner: NameRef<'_>) {
        let wire = owner.as_wire();
        octets.push(wire.len() as u8);
        octets.extend_from_slice(wire);
    }

    pub(super) fn of(octets: &[u8]) -> Self {
        Self(ThinArc::from_header_and_slice((), octets))
    }

    pub(super) fn octets(&self) -> &[u8] {
        &self.0.slice
    }

    /// Whether both are one and the same piece of memory.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.0.as_ptr() == other.0.as_ptr()
    }

    /// Whether both have the same octets: owner, letters' case, records, TTLs.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.octets() == other.octets()
    }

    /// Octets of memory that it takes, with what malloc adds.
    pub(super) fn cost(&self) -> usize {
        // Two numbers in front of the octets, one of malloc's; in steps of sixteen.
        (3 * size_of::<usize>() + self.octets().len()).next_multiple_of(16).max(32)
    }

    /// The name.
    pub(super) fn owner(&self) -> NameRef<'_> {
        Self::owner_in(self.octets())
    }

    /// The name in the octets of a node.
    pub(super) fn owner_in(octets: &[u8]) -> NameRef<'_> {
        let Some((len, rest)) = octets.split_first() else { return NameRef::root() };
        let wire = rest.get(..usize::from(*len)).unwrap_or_default();
        if wire.is_empty() { NameRef::root() } else { NameRef::of_checked(wire) }
    }

    fn sets_at(&self) -> usize {
        1 + self.octets().first().copied().map_or(0, usize::from)
    }

    /// Whether it has no records.
    pub(super) fn is_empty(&self) -> bool {
        self.octets().len() <= self.sets_at()
    }

    /// Its RRsets.
    pub(super) fn sets(&self, class: Class) -> Rrsets<'_> {
        let rest = self.octets().get(self.sets_at()..).unwrap_or_default();
        Rrsets::new(self.owner(), class, rest)
    }

    /// The RRset of a type other than RRSIG.
    pub(super) fn set(&self, rtype: Type, class: Class) -> Option<Rrset<'_>> {
        self.find((rtype.0, false), class)
    }

    /// The RRset at a place.
    fn find(&self, sort: Sort, class: Class) -> Option<Rrset<'_>> {
        let mut sets = self.sets(class);
        sets.find(|set| set.sort() >= sort).filter(|set| set.sort() == sort)
    }

    /// Whether it has records of a type other than RRSIG.
    pub(super) fn has(&self, rtype: Type) -> bool {
        self.set(rtype, Class::IN).is_some()
    }

    /// Where its last RRset begins; where one would, if it has none.
    pub(super) fn last_set_at(&self) -> usize {
        let len = self.octets().len();
        let mut sets = self.sets(Class::IN);
        let mut last = self.sets_at();
        loop {
            let start = len - sets.rest.len();
            if sets.next().is_none() {
                return last;
            }
            last = start;
        }
    }

    /// Where the RRset is, or would be.
    fn locate(&self, sort: Sort) -> Range<usize> {
        let len = self.octets().len();
        let mut sets = self.sets(Class::IN);
        loop {
            let start = len - sets.rest.len();
            match sets.next() {
                Some(set) if set.sort() < sort => {}
                Some(set) if set.sort() == sort => return start..len - sets.rest.len(),
                _ => return start..start,
            }
        }
    }

    /// Leads to the next record; false behind the last.
    pub(super) fn step(&self, step: &mut Step) -> bool {
        let octets = self.octets();
        if step.next == step.set_end {
            let start = step.set_end.max(self.sets_at());
            let Some((head, _)) = octets.get(start..).and_then(<[u8]>::split_first_chunk) else {
                return false;
            };
            let Head { rtype, ttl, len, .. } = Head::read(head);
            (step.rtype, step.ttl, step.next) = (rtype, ttl, start + SET_HEAD_LEN);
            step.set_end = step.next + len;
        }
        let len = octets.get(step.next..).and_then(<[u8]>::first_chunk).copied();
        let Some(len) = len.map(u16::from_be_bytes) else { return false };
        let start = step.next + 2;
        step.next = start + usize::from(len);
        step.rdata = start..step.next;
        true
    }

    /// The record that a step led to.
    pub(super) fn record(&self, step: &Step, class: Class) -> Option<RecordRef<'_>> {
        let Step { rtype, ttl, .. } = *step;
        let rdata = self.octets().get(step.rdata.clone())?;
        (step.next > 0).then(|| RecordRef { owner: self.owner(), rtype, class, ttl, rdata })
    }

    /// A name with its first record.
    pub(super) fn first(record: &RecordRef<'_>) -> Result<Self, Refused> {
        let owner_len = record.owner.as_wire().len();
        let mut octets = Vec::with_capacity(SET_HEAD_LEN + 3 + owner_len + record.rdata.len());
        Self::write_owner(&mut octets, record.owner);
        push_set(&mut octets, (record.rtype, record.ttl, 1), &[], Some(record.rdata))?;
        Ok(Self::of(&octets))
    }

    /// The node with one record more.
    pub(super) fn with(&self, record: &RecordRef<'_>) -> Result<Added, Refused> {
        let RecordRef { rtype, class, ttl, rdata, .. } = *record;
        let sort = sort_of(rtype, rdata);
        let Some(old) = self.find(sort, class) else {
            return self.replace(sort, (rtype, ttl, 1), &[], Some(rdata)).map(Added::Record);
        };
        if old.iter().any(|other| is_same(rtype, other.rdata, rdata)) {
            let Some(ttl) = Some(ttl).filter(|ttl| *ttl < old.ttl()) else {
                return Ok(Added::Nothing);
            };
            return self.with_ttl(&old, ttl).map(Added::Ttl).ok_or(Refused::TooLong);
        }
        let count = old.count().checked_add(1).ok_or(Refused::TooLong)?;
        let head = (rtype, ttl.min(old.ttl()), count);
        self.replace(sort, head, old.block, Some(rdata)).map(Added::Record)
    }

    /// The node without a record; nothing if it does not have it.
    pub(super) fn without(&self, rtype: Type, rdata: &[u8]) -> Option<Self> {
        let sort = sort_of(rtype, rdata);
        let old = self.find(sort, Class::IN)?;
        let mut block = Vec::with_capacity(old.block.len());
        let mut left = 0;
        for other in old.iter().filter(|other| !is_same(rtype, other.rdata, rdata)) {
            block.extend_from_slice(&(other.rdata.len() as u16).to_be_bytes());
            block.extend_from_slice(other.rdata);
            left += 1;
        }
        if left == old.count() {
            return None;
        }
        self.replace(sort, (rtype, old.ttl(), left), &block, None).ok()
    }

    /// The node without the RRsets that `goes` accepts, and how many records they had.
    pub(super) fn without_sets(&self, goes: impl Fn(&Rrset<'_>) -> bool) -> (Self, u64) {
        let (mut octets, mut removed) = (Vec::with_capacity(self.octets().len()), 0);
        octets.extend_from_slice(self.octets().get(..self.sets_at()).unwrap_or_default());
        let mut sets = self.sets(Class::IN);
        loop {
            let before = sets.rest;
            let Some(set) = sets.next() else { break };
            if goes(&set) {
                removed += u64::from(set.count());
            } else {
                let len = before.len() - sets.rest.len();
                octets.extend_from_slice(before.get(..len).unwrap_or_default());
            }
        }
        (Self::of(&octets), removed)
    }

    /// The node with another TTL for an RRset that it has.
    pub(super) fn with_ttl(&self, set: &Rrset<'_>, ttl: u32) -> Option<Self> {
        self.replace(set.sort(), (set.rtype(), ttl, set.count()), set.block, None).ok()
    }

    /// The node with an RRset in the place of the one that it has, or without if it has no records.
    fn replace(
        &self,
        sort: Sort,
        head: (Type, u32, u16),
        block: &[u8],
        more: Option<&[u8]>,
    ) -> Result<Self, Refused> {
        let Range { start, end } = self.locate(sort);
        let old = self.octets();
        let len = old.len() + SET_HEAD_LEN + 2 + more.unwrap_or_default().len();
        let mut octets = Vec::with_capacity(len);
        octets.extend_from_slice(old.get(..start).unwrap_or_default());
        if head.2 > 0 {
            push_set(&mut octets, head, block, more)?;
        }
        octets.extend_from_slice(old.get(end..).unwrap_or_default());
        if octets.len() <= NODE_LEN_MAX { Ok(Self::of(&octets)) } else { Err(Refused::TooLong) }
    }
}

/// Writes an RRset: type, TTL, count, the records it had and one more.
pub(super) fn push_set(
    octets: &mut Vec<u8>,
    (rtype, ttl, count): (Type, u32, u16),
    block: &[u8],
    more: Option<&[u8]>,
) -> Result<(), Refused> {
    let len = block.len() + more.map_or(0, |rdata| rdata.len() + 2);
    let len = u16::try_from(len).ok().filter(|len| usize::from(*len) <= RRSET_LEN_MAX);
    octets.extend_from_slice(&rtype.0.to_be_bytes());
    octets.extend_from_slice(&ttl.to_be_bytes());
    octets.extend_from_slice(&count.to_be_bytes());
    octets.extend_from_slice(&len.ok_or(Refused::TooLong)?.to_be_bytes());
    octets.extend_from_slice(block);
    if let Some(rdata) = more {
        octets.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
        octets.extend_from_slice(rdata);
    }
    Ok(())
}
