//! The records of one name as they come, which its node is made of once all are there.

use super::Refused;
use super::node::{Added, Node, push_set};
use super::rrset::{Rrset, Rrsets, SET_HEAD_LEN, is_same, sort_of};
use crate::limits::{NODE_LEN_MAX, RRSET_LEN_MAX};
use crate::zone::RecordRef;
use nodens_wire::{Class, NameRef};

/// The octets of a node that is being made.
#[derive(Default)]
pub(super) struct Gathered {
    /// As those of a [`Node`].
    octets: Vec<u8>,
    /// Where its last RRset begins.
    last: usize,
}

impl Gathered {
    /// Begins anew, with no records.
    pub(super) fn begin(&mut self, owner: NameRef<'_>) {
        self.octets.clear();
        Node::write_owner(&mut self.octets, owner);
        self.last = self.octets.len();
    }

    /// The name.
    pub(super) fn owner(&self) -> NameRef<'_> {
        Node::owner_in(&self.octets)
    }

    /// Whether it has no records.
    pub(super) fn is_empty(&self) -> bool {
        self.last_set().is_none()
    }

    /// Octets that it has.
    pub(super) fn len(&self) -> usize {
        self.octets.len()
    }

    /// What it has become.
    pub(super) fn node(&self) -> Node {
        Node::of(&self.octets)
    }

    /// Adds a record of the name, as [`Node::with`]. False if it was there.
    pub(super) fn add(&mut self, record: &RecordRef<'_>) -> Result<bool, Refused> {
        let RecordRef { rtype, ttl, rdata, .. } = *record;
        let sort = sort_of(rtype, rdata);
        let Some(set) = self.last_set() else { return self.begin_set(record) };
        if sort > set.sort() {
            return self.begin_set(record);
        }
        let is_new = || !set.iter().any(|other| is_same(rtype, other.rdata, rdata));
        if sort == set.sort() && ttl == set.ttl() && is_new() {
            let has = (set.count(), set.block.len());
            return self.grow(rdata, has);
        }
        self.insert(record)
    }

    fn last_set(&self) -> Option<Rrset<'_>> {
        let rest = self.octets.get(self.last..)?;
        Rrsets::new(self.owner(), Class::IN, rest).next()
    }

    /// Adds the first record of an RRset behind all others.
    fn begin_set(&mut self, record: &RecordRef<'_>) -> Result<bool, Refused> {
        let before = self.octets.len();
        let head = (record.rtype, record.ttl, 1);
        let pushed = push_set(&mut self.octets, head, &[], Some(record.rdata));
        let fits = pushed.and(self.fits());
        match fits {
            Ok(()) => self.last = before,
            Err(_) => self.octets.truncate(before),
        }
        fits.map(|()| true)
    }

    /// Adds a record to the last RRset, which has so many records and octets.
    fn grow(&mut self, rdata: &[u8], (count, len): (u16, usize)) -> Result<bool, Refused> {
        let len = len + 2 + rdata.len();
        let fits = len <= RRSET_LEN_MAX && self.octets.len() + 2 + rdata.len() <= NODE_LEN_MAX;
        let len = u16::try_from(len).ok().filter(|_| fits);
        let (count, len) = count.checked_add(1).zip(len).ok_or(Refused::TooLong)?;
        let head = self.octets.get_mut(self.last..).and_then(<[u8]>::first_chunk_mut);
        let Some([.., c0, c1, l0, l1]): Option<&mut [u8; SET_HEAD_LEN]> = head else {
            return Err(Refused::TooLong);
        };
        ([*c0, *c1], [*l0, *l1]) = (count.to_be_bytes(), len.to_be_bytes());
        self.octets.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
        self.octets.extend_from_slice(rdata);
        Ok(true)
    }

    /// Adds a record anywhere else, or one that is there, perhaps.
    fn insert(&mut self, record: &RecordRef<'_>) -> Result<bool, Refused> {
        let (node, is_new) = match self.node().with(record)? {
            Added::Nothing => return Ok(false),
            Added::Ttl(node) => (node, false),
            Added::Record(node) => (node, true),
        };
        self.octets.clear();
        self.octets.extend_from_slice(node.octets());
        self.last = node.last_set_at();
        Ok(is_new)
    }

    fn fits(&self) -> Result<(), Refused> {
        if self.octets.len() <= NODE_LEN_MAX { Ok(()) } else { Err(Refused::TooLong) }
    }
}
