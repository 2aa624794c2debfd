//! RRsets as they lie in a zone.

use crate::zone::RecordRef;
use nodens_wire::record::{RdataPart, rdata_layout};
use nodens_wire::{Class, NameRef, Type};
use std::fmt;

/// TYPE, TTL, count of records, count of octets.
pub(super) const SET_HEAD_LEN: usize = 10;

/// The place of an RRset among those of a name: the type, or the type that it covers and true.
pub(super) type Sort = (u16, bool);

/// What stands in front of the records of an RRset.
pub(super) struct Head {
    pub(super) rtype: Type,
    pub(super) ttl: u32,
    pub(super) count: u16,
    /// Octets of the records with their lengths.
    pub(super) len: usize,
}

impl Head {
    pub(super) fn read(octets: &[u8; SET_HEAD_LEN]) -> Self {
        let [t0, t1, ttl @ .., c0, c1, l0, l1] = *octets;
        Self {
            rtype: Type(u16::from_be_bytes([t0, t1])),
            ttl: u32::from_be_bytes(ttl),
            count: u16::from_be_bytes([c0, c1]),
            len: usize::from(u16::from_be_bytes([l0, l1])),
        }
    }
}

/// The place of records with this type and RDATA.
pub(super) fn sort_of(rtype: Type, rdata: &[u8]) -> Sort {
    let is_signature = rtype == Type::RRSIG;
    let covered = rdata.first_chunk().copied().map_or(0, u16::from_be_bytes);
    (if is_signature { covered } else { rtype.0 }, is_signature)
}

/// Whether both are the same RDATA: names in it that may be compressed, and those in types as old,
/// are compared without case (RFC 4034 section 6.2).
pub(crate) fn is_same(rtype: Type, a: &[u8], b: &[u8]) -> bool {
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
pub(crate) fn name_in(rdata: &[u8], skip: usize) -> Option<NameRef<'_>> {
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
    pub(super) block: &'z [u8],
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
        let next = Rrsets::new(self.owner, self.class, self.rest);
        next.take(1).find(|next| next.sort() == (self.rtype.0, true))
    }

    pub(super) fn sort(&self) -> Sort {
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
    pub(super) rest: &'z [u8],
    only: Option<Type>,
}

impl<'z> Rrsets<'z> {
    /// Those of a name, from their octets.
    pub(super) fn new(owner: NameRef<'z>, class: Class, rest: &'z [u8]) -> Self {
        Self { owner, class, rest, only: None }
    }

    /// Those of a name that has none.
    pub(super) fn none() -> Self {
        Self::new(NameRef::root(), Class::IN, &[])
    }

    /// Only those of a type.
    pub(super) fn only(self, only: Type) -> Self {
        Self { only: Some(only), ..self }
    }

    /// The name.
    pub fn owner(&self) -> NameRef<'z> {
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
