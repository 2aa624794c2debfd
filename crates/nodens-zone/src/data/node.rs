//! A name with its RRsets, in one piece of memory.
//!
//! The octets are: the length of the owner and the owner, its letters as they were given; then each
//! RRset: TYPE, TTL, how many records, how many octets, and each RDATA behind its length, all of
//! them as in a message (RFC 1035 section 3.2.1). RRsets are in the order of their types; signatures
//! are behind the RRset that they cover.

use super::Refused;
use crate::limits::{NODE_LEN_MAX, RRSET_LEN_MAX};
use crate::zone::RecordRef;
use nodens_wire::record::{RdataPart, rdata_layout};
use nodens_wire::{Class, NameRef, Type};
use std::fmt;
use std::ops::Range;
use triomphe::ThinArc;

/// TYPE, TTL, count of records, count of octets.
const SET_HEAD_LEN: usize = 10;

/// The place of an RRset among those of a name: the type, or the type that it covers and true.
type Sort = (u16, bool);

#[derive(Clone)]
pub(super) struct Node(ThinArc<(), u8>);

/// What stands in front of the records of an RRset.
struct Head {
    rtype: Type,
    ttl: u32,
    count: u16,
    /// Octets of the records with their lengths.
    len: usize,
}

impl Head {
    fn read(octets: &[u8; SET_HEAD_LEN]) -> Self {
        let [t0, t1, ttl @ .., c0, c1, l0, l1] = *octets;
        Self {
            rtype: Type(u16::from_be_bytes([t0, t1])),
            ttl: u32::from_be_bytes(ttl),
            count: u16::from_be_bytes([c0, c1]),
            len: usize::from(u16::from_be_bytes([l0, l1])),
        }
    }
}

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
        let wire = owner.as_wire();
        let mut octets = Vec::with_capacity(1 + wire.len());
        octets.push(wire.len() as u8);
        octets.extend_from_slice(wire);
        Self::of(&octets)
    }

    fn of(octets: &[u8]) -> Self {
        Self(ThinArc::from_header_and_slice((), octets))
    }

    fn octets(&self) -> &[u8] {
        &self.0.slice
    }

    /// Whether both are one and the same piece of memory.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.0.as_ptr() == other.0.as_ptr()
    }

    /// The name.
    pub(super) fn owner(&self) -> NameRef<'_> {
        let Some((len, rest)) = self.octets().split_first() else { return NameRef::root() };
        let wire = rest.get(..usize::from(*len)).unwrap_or_default();
        NameRef::new(wire).unwrap_or(NameRef::root())
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
        Rrsets { owner: self.owner(), class, rest, only: None }
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

    /// The node with one record more.
    pub(super) fn with(&self, record: &RecordRef<'_>) -> Result<Added, Refused> {
        let sort = sort_of(record.rtype, record.rdata);
        let old = self.find(sort, record.class);
        let (mut ttl, mut count, mut block) = (record.ttl, 0_u16, &[][..]);
        let mut is_new = true;
        if let Some(old) = &old {
            is_new = !old.iter().any(|other| is_same(record.rtype, other.rdata, record.rdata));
            if !is_new && old.ttl <= ttl {
                return Ok(Added::Nothing);
            }
            (ttl, count, block) = (old.ttl.min(ttl), old.count, old.block);
        }
        let mut block = block.to_vec();
        if is_new {
            let len = u16::try_from(record.rdata.len()).map_err(|_| Refused::TooLong)?;
            count = count.checked_add(1).ok_or(Refused::TooLong)?;
            block.extend_from_slice(&len.to_be_bytes());
            block.extend_from_slice(record.rdata);
        }
        let node = self.replace(sort, record.rtype, ttl, count, &block)?;
        Ok(if is_new { Added::Record(node) } else { Added::Ttl(node) })
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
        if left == old.count {
            return None;
        }
        self.replace(sort, rtype, old.ttl, left, &block).ok()
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
                removed += u64::from(set.count);
            } else {
                let len = before.len() - sets.rest.len();
                octets.extend_from_slice(before.get(..len).unwrap_or_default());
            }
        }
        (Self::of(&octets), removed)
    }

    /// The node with another TTL for an RRset that it has.
    pub(super) fn with_ttl(&self, set: &Rrset<'_>, ttl: u32) -> Option<Self> {
        self.replace(set.sort(), set.rtype, ttl, set.count, set.block).ok()
    }

    /// The node with an RRset in the place of the one that it has, or without if it has no records.
    fn replace(
        &self,
        sort: Sort,
        rtype: Type,
        ttl: u32,
        count: u16,
        block: &[u8],
    ) -> Result<Self, Refused> {
        let Range { start, end } = self.locate(sort);
        let old = self.octets();
        let mut octets = Vec::with_capacity(old.len() + SET_HEAD_LEN + block.len());
        octets.extend_from_slice(old.get(..start).unwrap_or_default());
        if count > 0 {
            let len = u16::try_from(block.len()).map_err(|_| Refused::TooLong)?;
            octets.extend_from_slice(&rtype.0.to_be_bytes());
            octets.extend_from_slice(&ttl.to_be_bytes());
            octets.extend_from_slice(&count.to_be_bytes());
            octets.extend_from_slice(&len.to_be_bytes());
            octets.extend_from_slice(block);
        }
        octets.extend_from_slice(old.get(end..).unwrap_or_default());
        let fits = block.len() <= RRSET_LEN_MAX && octets.len() <= NODE_LEN_MAX;
        if fits { Ok(Self::of(&octets)) } else { Err(Refused::TooLong) }
    }
}

/// The place of records with this type and RDATA.
fn sort_of(rtype: Type, rdata: &[u8]) -> Sort {
    let is_signature = rtype == Type::RRSIG;
    let covered = rdata.first_chunk().copied().map_or(0, u16::from_be_bytes);
    (if is_signature { covered } else { rtype.0 }, is_signature)
}

/// Whether both are the same RDATA: names in it that may be compressed, and those in types as old,
/// are compared without case (RFC 4034 section 6.2).
pub(super) fn is_same(rtype: Type, a: &[u8], b: &[u8]) -> bool {
    if a == b {
        return true;
    }
    if a.len() != b.len() {
        return false;
    }
    let (mut a, mut b) = (a, b);
    for part in rdata_layout(rtype) {
        let len = match part {
            RdataPart::Octets(len) => *len,
            RdataPart::CharacterString => 1 + a.first().copied().map_or(0, usize::from),
            RdataPart::Name => name_len(a),
        };
        let (Some((x, after_a)), Some((y, after_b))) =
            (a.split_at_checked(len), b.split_at_checked(len))
        else {
            return false;
        };
        let same = if matches!(part, RdataPart::Name) { x.eq_ignore_ascii_case(y) } else { x == y };
        if !same {
            return false;
        }
        (a, b) = (after_a, after_b);
    }
    a == b
}

/// Octets of the name at the front; more than there are if it does not end.
fn name_len(octets: &[u8]) -> usize {
    let mut at = 0;
    while let Some(len @ 1..) = octets.get(at) {
        at += 1 + usize::from(*len);
    }
    at + 1
}

/// The name at the front of RDATA whose first `skip` octets are something else.
pub(super) fn name_in(rdata: &[u8], skip: usize) -> Option<NameRef<'_>> {
    let rest = rdata.get(skip..)?;
    NameRef::new(rest.get(..name_len(rest))?).ok()
}

/// An RRset of a zone, without the signatures that cover it.
#[derive(Clone, Copy)]
pub struct Rrset<'z> {
    owner: NameRef<'z>,
    rtype: Type,
    class: Class,
    ttl: u32,
    count: u16,
    block: &'z [u8],
    /// RRsets behind it.
    rest: &'z [u8],
}

impl<'z> Rrset<'z> {
    /// The name it belongs to, its letters as the zone has them. Of an RRset that a wildcard stands
    /// for, the wildcard.
    pub fn owner(&self) -> NameRef<'z> {
        self.owner
    }

    /// TYPE.
    pub fn rtype(&self) -> Type {
        self.rtype
    }

    /// CLASS.
    pub fn class(&self) -> Class {
        self.class
    }

    /// Seconds it may be kept: the least that one of its records was added with (RFC 2181 section 5.2).
    pub fn ttl(&self) -> u32 {
        self.ttl
    }

    /// How many records it has; never none.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// The type that it covers, if it consists of signatures.
    pub fn covered(&self) -> Option<Type> {
        let covered = self.block.get(2..)?.first_chunk().copied().map(u16::from_be_bytes)?;
        (self.rtype == Type::RRSIG).then_some(Type(covered))
    }

    /// Its records.
    pub fn iter(&self) -> RrsetRecords<'z> {
        RrsetRecords { set: *self, block: self.block }
    }

    /// The RDATA of its first record.
    pub fn first(&self) -> &'z [u8] {
        self.iter().next().map_or(&[], |record| record.rdata)
    }

    /// The signatures that cover it (RFC 4034 section 3).
    pub fn sigs(&self) -> Option<Rrset<'z>> {
        let next = Rrsets { owner: self.owner, class: self.class, rest: self.rest, only: None };
        next.take(1).find(|next| next.sort() == (self.rtype.0, true))
    }

    fn sort(&self) -> Sort {
        match self.covered() {
            Some(covered) => (covered.0, true),
            None => (self.rtype.0, false),
        }
    }
}

impl<'z> IntoIterator for Rrset<'z> {
    type Item = RecordRef<'z>;
    type IntoIter = RrsetRecords<'z>;

    fn into_iter(self) -> RrsetRecords<'z> {
        self.iter()
    }
}

impl fmt::Debug for Rrset<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {:?}", self.owner, self.ttl, self.rtype, self.block)
    }
}

/// The records of an [`Rrset`].
#[derive(Clone)]
pub struct RrsetRecords<'z> {
    set: Rrset<'z>,
    block: &'z [u8],
}

impl<'z> Iterator for RrsetRecords<'z> {
    type Item = RecordRef<'z>;

    fn next(&mut self) -> Option<RecordRef<'z>> {
        let (len, rest) = self.block.split_first_chunk()?;
        let (rdata, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
        self.block = rest;
        let Rrset { owner, rtype, class, ttl, .. } = self.set;
        Some(RecordRef { owner, rtype, class, ttl, rdata })
    }
}

/// The RRsets of a name, signatures behind what they cover.
#[derive(Clone)]
pub struct Rrsets<'z> {
    owner: NameRef<'z>,
    class: Class,
    rest: &'z [u8],
    only: Option<Type>,
}

impl Rrsets<'_> {
    /// Those of a name that has none.
    pub(super) fn none() -> Self {
        Rrsets { owner: NameRef::root(), class: Class::IN, rest: &[], only: None }
    }

    /// Only those of a type.
    pub(super) fn only(self, only: Type) -> Self {
        Self { only: Some(only), ..self }
    }

    /// The name.
    pub fn owner(&self) -> NameRef<'_> {
        self.owner
    }
}

impl<'z> Iterator for Rrsets<'z> {
    type Item = Rrset<'z>;

    fn next(&mut self) -> Option<Rrset<'z>> {
        loop {
            let (head, rest) = self.rest.split_first_chunk::<SET_HEAD_LEN>()?;
            let Head { rtype, ttl, count, len } = Head::read(head);
            let (block, rest) = rest.split_at_checked(len)?;
            self.rest = rest;
            if self.only.is_none_or(|only| only == rtype) {
                let Self { owner, class, .. } = *self;
                return Some(Rrset { owner, rtype, class, ttl, count, block, rest });
            }
        }
    }
}

impl fmt::Debug for Rrsets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}
