//! What a zone consists of: immutable versions ([`Data`]) that share what they have in common, the one
//! lookup ([`Data::lookup`]), and changes ([`Edit`], [`Difference`]) that make another version.
//!
//! Zones from files and from transfers, catalogs and zones that are updated all have their records
//! here. A zone that answers queries while it changes is a [`Served`].
//!
//! # Costs
//! A lookup walks down one trie, compares the name once and allocates nothing. An edit costs what it
//! changes: as many copies of branches as the names that change have above them, whatever the size of
//! the zone. A name takes one allocation for its owner and all its records, and its part of a branch.
//!
//! # Rules
//! All records of an RRset have one TTL, the least that was given (RFC 2181 section 5.2). Names keep
//! the letters' case that they were given with and are found in any (RFC 4343). Names that exist only
//! because others lie below them (RFC 8020) have a node without records. NSEC3 records are kept apart
//! from names that can be asked for (RFC 5155 section 7.2.8).
//!
//! What is deliberately absent: files, sockets, the clock, signing, and how a DNS response is made of
//! what was found.

mod ahead;
mod check;
mod cursor;
mod denial;
mod difference;
mod edit;
mod gathered;
mod key;
mod lookup;
mod node;
mod prepared;
pub mod room;
mod rrset;
mod served;
mod standing;
mod trie;

#[cfg(test)]
mod tests;

pub(crate) use check::META_TYPES;
pub use check::{Incomplete, Refused};
pub use denial::{Denial, Proof};
pub(crate) use denial::{HASH_LEN, hashed_name, plain_hash};
pub use difference::{Conflict, Difference};
pub use edit::{Edit, Ordered};
pub use lookup::{Cut, Found, Gap};
pub use prepared::Part;
pub use rrset::{Rrset, RrsetRecords, Rrsets};
pub(crate) use rrset::{is_same, name_in};
pub use served::Served;
pub(crate) use standing::Standing;

use crate::zone::{Cursor, Soa, Version};
use key::Place;
use node::Node;
use nodens_wire::{Class, NameRef, SharedName, Type};
use prepared::Prepared;
use std::fmt;
use std::sync::Arc;
use trie::{Entry, Trie};

/// Octets of a version beside its names: itself, its name and its SOA record.
const DATA_LEN: usize = 512;

/// One version of a zone. A clone costs a few counted references.
#[derive(Clone)]
pub struct Data {
    origin: SharedName,
    class: Class,
    soa: Arc<Soa>,
    names: Trie,
    /// The node of the origin, which nearly every response needs.
    apex: Node,
    /// Owners of NSEC3 records.
    hashed: Trie,
    records: u64,
    count: u64,
    signed: bool,
    prepared: Prepared,
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Data({} {}, {} records)", self.origin, self.soa.serial().0, self.records)
    }
}

impl Data {
    /// The name of the zone, in lower case.
    pub fn origin(&self) -> NameRef<'_> {
        self.origin.view()
    }

    /// The class of all its records.
    pub fn class(&self) -> Class {
        self.class
    }

    /// Its SOA record.
    pub fn soa(&self) -> &Soa {
        &self.soa
    }

    /// How many records it has, the SOA record among them.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Octets of memory that it takes, about; what it shares with other versions counts, too.
    pub fn octets(&self) -> u64 {
        (self.names.octets() + self.hashed.octets() + DATA_LEN) as u64
    }

    /// How many names have records.
    pub fn names(&self) -> u64 {
        self.count
    }

    /// Whether its apex has DNSKEY records, a signature, and NSEC or NSEC3PARAM records.
    pub fn is_signed(&self) -> bool {
        self.signed
    }

    /// The RRset of exactly this name and type, whatever stands around it: also below a cut, where
    /// addresses of name servers are, and below a DNAME record. Nothing for type RRSIG: signatures
    /// are found beside what they cover ([`Rrset::sigs`]).
    pub fn rrset(&self, name: NameRef<'_>, rtype: Type) -> Option<Rrset<'_>> {
        let trie = if rtype == Type::NSEC3 { &self.hashed } else { &self.names };
        self.entry(trie, name)?.node.set(rtype, self.class)
    }

    /// The RRset of this type at the origin.
    pub fn apex(&self, rtype: Type) -> Option<Rrset<'_>> {
        self.apex.set(rtype, self.class)
    }

    /// All RRsets of exactly this name, each with its signatures behind it as another RRset.
    pub fn rrsets(&self, name: NameRef<'_>) -> Rrsets<'_> {
        let entry = self.entry(&self.names, name);
        entry.map_or(Rrsets::none(), |entry| entry.node.sets(self.class))
    }

    fn entry<'t>(&self, trie: &'t Trie, name: NameRef<'_>) -> Option<Entry<'t>> {
        let mut place = Place::unknown(name);
        if place.find(self.origin()) { trie.get(&place) } else { None }
    }

    /// All records but the SOA record, in canonical order of their owners, those of NSEC3 last. The
    /// cursor keeps this version.
    pub fn cursor(&self) -> Box<dyn Cursor> {
        Box::new(cursor::Records::new(self))
    }

    /// This version for a transfer.
    pub fn version(&self) -> Version {
        Version { soa: Soa::clone(&self.soa), records: self.cursor() }
    }

    /// Begins changes. This version stays as it is.
    pub fn edit(&self) -> Edit {
        Edit::of(self)
    }
}
