//! Changes that make a version of a zone out of another, or out of nothing.

use super::check::{check_cname, is_hashed, is_wildcard};
use super::key::Place;
use super::node::{Added, Node};
use super::prepared::Prepared;
use super::room::Claim;
use super::rrset::{Rrset, Rrsets, is_same};
use super::trie::{Entry, Flags, Trie, Walk};
use super::{Data, Incomplete, Refused, check};
use crate::limits::TTL_MAX;
use crate::zone::{RecordRef, Soa};
use nodens_wire::{Class, Name, NameRef, Record, SharedName, Type};
use std::fmt;
use std::sync::Arc;

mod ordered;

pub use ordered::Ordered;

/// A version of a zone that is being made. What does not change is shared with the version it was
/// begun from; what changes twice is copied once.
#[derive(Clone)]
pub struct Edit {
    origin: SharedName,
    class: Class,
    names: Trie,
    hashed: Trie,
    records: u64,
    count: u64,
    strict: bool,
    /// See [`Edit::clash`].
    clash: Option<Name>,
    /// Whose names are taken where they are the same.
    like: Option<Data>,
    /// Octets that another version has as well.
    shared: usize,
    /// Room for the others.
    claim: Claim,
}

impl fmt::Debug for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Edit({}, {} records)", self.origin, self.records)
    }
}

impl Edit {
    /// Begins with no records.
    pub fn new(origin: impl Into<SharedName>, class: Class) -> Self {
        let origin = origin.into();
        let (names, hashed) = (Trie::default(), Trie::default());
        let (like, claim) = (None, Claim::default());
        let mut edit = Self {
            origin,
            class,
            names,
            hashed,
            records: 0,
            count: 0,
            strict: false,
            clash: None,
            like,
            shared: 0,
            claim,
        };
        let origin = edit.origin.clone();
        if let Some(Place { name, key }) = Place::new(origin.view(), origin.view()) {
            edit.names.insert(&key, 0, (Flags::default(), Node::empty(name)), name);
        }
        edit
    }

    pub(super) fn of(data: &Data) -> Self {
        let Data { origin, class, names, hashed, records, count, .. } = data;
        Self {
            origin: origin.clone(),
            class: *class,
            names: names.clone(),
            hashed: hashed.clone(),
            records: *records,
            count: *count,
            strict: false,
            clash: None,
            like: None,
            shared: names.octets() + hashed.octets(),
            claim: Claim::default(),
        }
    }

    /// Names that have the same records in the end as in this version share them with it. To be said of a
    /// version that is about to be replaced by another that was read whole: the two then take little more
    /// memory than one.
    #[must_use]
    pub fn like(self, data: Option<Data>) -> Self {
        Self { like: data, ..self }
    }

    /// Octets that the version it was begun from has as well, or the one that it is [like](Edit::like).
    pub fn shared(&self) -> u64 {
        self.shared as u64
    }

    /// Octets that are this version's alone.
    fn own(&self) -> usize {
        (self.names.octets() + self.hashed.octets()).saturating_sub(self.shared)
    }

    /// Takes the node of the other version in the place of one that is the same, instead of `old`.
    fn share(&mut self, place: &Place<'_>, old: Option<&Node>, node: Node, hashed: bool) -> Node {
        let Some(like) = &self.like else { return node };
        let trie = if hashed { &like.hashed } else { &like.names };
        let Some(entry) = trie.get(place) else { return node };
        if old.is_some_and(|old| old.is(entry.node)) {
            self.shared = self.shared.saturating_sub(entry.node.cost());
        }
        if !entry.node.is_like(&node) {
            return node;
        }
        self.shared += entry.node.cost();
        entry.node.clone()
    }

    /// From now on refuses what RFC 1034 and 2181 forbid in a zone and CoreDNS accepts: a second SOA
    /// record (elsewhere the last one replaces those before it), other data beside CNAME, and
    /// ([`Edit::finish`]) an origin without NS records.
    #[must_use]
    pub fn strict(self) -> Self {
        Self { strict: true, ..self }
    }

    /// The first name that was given a CNAME record and other data, or two CNAME or DNAME records, which other servers
    /// refuse.
    pub fn clash(&self) -> Option<NameRef<'_>> {
        self.clash.as_ref().map(Name::view)
    }

    /// The origin.
    pub fn origin(&self) -> NameRef<'_> {
        self.origin.view()
    }

    /// Adds a record. False if it was there. All records of an RRset get the least TTL of them; a TTL
    /// above 2^31 - 1 is 0 (RFC 2181 section 8).
    ///
    /// # Errors
    /// [`Refused`]; the zone is then as it was.
    pub fn add(&mut self, record: RecordRef<'_>) -> Result<bool, Refused> {
        let record = check::checked(record, self.origin(), self.class)?;
        if !self.claim.grow(self.own() as u64) {
            return Err(Refused::NoRoom);
        }
        let origin = self.origin.clone();
        let place = Place::new(record.owner, origin.view()).ok_or(Refused::OutOfZone)?;
        if record.rtype == Type::SOA {
            self.make_room_for_soa(&place, record.rdata)?;
        }
        let walk = self.trie_of(record.rtype, record.rdata).walk(&place, origin.view());
        let (hit, common) = (walk.hit.map(|hit| (hit.flags, hit.node.clone())), walk.common);
        let (node, is_new, is_first) = match &hit {
            // A name that only others lie below is spelt as it is here.
            Some((_, old)) if old.is_empty() => (Node::first(&record)?, true, true),
            None => (Node::first(&record)?, true, true),
            Some((_, old)) => {
                match check_cname(old, &record) {
                    Err(error) if self.strict => return Err(error),
                    Err(_) if self.clash.is_none() => self.clash = Some(record.owner.to_name()),
                    _ => {}
                }
                match old.with(&record)? {
                    Added::Nothing => return Ok(false),
                    Added::Ttl(node) => (node, false, false),
                    Added::Record(node) => (node, true, false),
                }
            }
        };
        self.records += u64::from(is_new);
        self.count += u64::from(is_first);
        let hashed = is_hashed(record.rtype, record.rdata);
        let node = self.share(&place, hit.as_ref().map(|(_, old)| old), node, hashed);
        match hit {
            Some((flags, old)) => {
                // Only this version may have it: what changes is then changed in place.
                drop(old);
                self.replace(&place, flags, node, hashed);
            }
            None => self.insert(&place, common, node, hashed),
        }
        Ok(is_new)
    }

    /// Takes out the record with this owner, type and RDATA, whatever its TTL; false if there is none.
    pub fn remove(&mut self, record: RecordRef<'_>) -> bool {
        let origin = self.origin.clone();
        let Some(place) = Place::new(record.owner, origin.view()) else { return false };
        let hashed = is_hashed(record.rtype, record.rdata);
        let entry = self.trie_of(record.rtype, record.rdata).get(&place);
        let left = entry.and_then(|entry| entry.node.without(record.rtype, record.rdata));
        let Some(node) = left.filter(|_| record.class == self.class) else { return false };
        self.records -= 1;
        self.keep(&place, node, hashed);
        true
    }

    /// Takes out all records of a name and type, but not the signatures that cover them; with type
    /// RRSIG, all signatures of the name. False if there are none.
    pub fn remove_rrset(&mut self, name: NameRef<'_>, rtype: Type) -> bool {
        self.remove_sets(name, |set| set.rtype() == rtype)
    }

    /// Takes out all records of a name; false if there are none.
    pub fn remove_name(&mut self, name: NameRef<'_>) -> bool {
        self.remove_sets(name, |_| true)
    }

    /// Gives all records of a name and type another TTL; false if there are none.
    pub fn set_ttl(&mut self, name: NameRef<'_>, rtype: Type, ttl: u32) -> bool {
        let origin = self.origin.clone();
        let Some(place) = Place::new(name, origin.view()) else { return false };
        let Some(entry) = self.trie_of(rtype, &[]).get(&place) else { return false };
        let (set, flags) = (entry.node.set(rtype, self.class), entry.flags);
        let changed = set.and_then(|set| entry.node.with_ttl(&set, ttl.min(TTL_MAX)));
        let Some(node) = changed else { return false };
        self.replace(&place, flags, node, rtype == Type::NSEC3);
        true
    }

    /// The RRset of exactly this name and type, as far as changes have been made.
    pub fn rrset(&self, name: NameRef<'_>, rtype: Type) -> Option<Rrset<'_>> {
        let place = Place::new(name, self.origin())?;
        self.trie_of(rtype, &[]).get(&place)?.node.set(rtype, self.class)
    }

    /// All RRsets of exactly this name, as [`Data::rrsets`], as far as changes have been made.
    pub fn rrsets(&self, name: NameRef<'_>) -> Rrsets<'_> {
        let entry = Place::new(name, self.origin()).and_then(|place| self.names.get(&place));
        entry.map_or(Rrsets::none(), |entry| entry.node.sets(self.class))
    }

    /// The version that the changes have made.
    ///
    /// # Errors
    /// [`Incomplete`].
    pub fn finish(self) -> Result<Data, Incomplete> {
        let apex = Place::new(self.origin(), self.origin());
        let apex = apex.and_then(|place| self.names.get(&place)).ok_or(Incomplete::NoSoa)?;
        let soa = apex.node.set(Type::SOA, self.class).ok_or(Incomplete::NoSoa)?;
        if self.strict && !apex.node.has(Type::NS) {
            return Err(Incomplete::NoNs);
        }
        let has_sigs = soa.sigs().is_some() && apex.node.has(Type::DNSKEY);
        let signed = has_sigs && (apex.node.has(Type::NSEC) || apex.node.has(Type::NSEC3PARAM));
        let record = Record {
            owner: soa.owner().to_name(),
            rtype: Type::SOA,
            class: self.class,
            ttl: soa.ttl(),
            rdata: soa.first().to_vec(),
        };
        let soa = Soa::new(record).map_err(|_| Incomplete::NoSoa)?;
        let apex = apex.node.clone();
        let Self { origin, class, names, hashed, records, count, .. } = self;
        let soa = Arc::new(soa);
        let prepared = Prepared::default();
        Ok(Data { origin, class, soa, names, apex, hashed, records, count, signed, prepared })
    }

    /// A zone has one SOA record: another one takes its place.
    fn make_room_for_soa(&mut self, apex: &Place<'_>, rdata: &[u8]) -> Result<(), Refused> {
        let Some(old) = self.names.get(apex).and_then(|e| e.node.set(Type::SOA, self.class)) else {
            return Ok(());
        };
        if is_same(Type::SOA, old.first(), rdata) {
            return Ok(());
        }
        if self.strict {
            return Err(Refused::SecondSoa);
        }
        self.remove_rrset(apex.name, Type::SOA);
        Ok(())
    }

    fn remove_sets(&mut self, name: NameRef<'_>, goes: impl Fn(&Rrset<'_>) -> bool) -> bool {
        let origin = self.origin.clone();
        let Some(place) = Place::new(name, origin.view()) else { return false };
        let mut any = false;
        for hashed in [false, true] {
            let trie = if hashed { &self.hashed } else { &self.names };
            let Some(entry) = trie.get(&place) else { continue };
            let (node, removed) = entry.node.without_sets(&goes);
            if removed > 0 {
                any = true;
                self.records -= removed;
                self.keep(&place, node, hashed);
            }
        }
        any
    }

    fn trie_of(&self, rtype: Type, rdata: &[u8]) -> &Trie {
        if is_hashed(rtype, rdata) { &self.hashed } else { &self.names }
    }

    /// Puts a node in the place of the one of that name.
    fn replace(&mut self, place: &Place<'_>, flags: Flags, node: Node, hashed: bool) {
        if hashed {
            return self.hashed.replace(&place.key, flags, node);
        }
        let flags = flags_of(&node, self.origin(), flags);
        self.names.replace(&place.key, flags, node);
    }

    /// Adds the node of a name that did not exist; the names above then exist.
    fn insert(&mut self, place: &Place<'_>, common: usize, node: Node, hashed: bool) {
        let origin = self.origin.clone();
        let origin = origin.view();
        if hashed {
            return self.hashed.insert(&place.key, common, (Flags::default(), node), origin);
        }
        let flags = flags_of(&node, origin, Flags::default());
        self.names.insert(&place.key, common, (flags, node), origin);
        let mut name = place.name;
        while let Some(parent) = name.parent() {
            // The origin is there.
            if parent.as_wire().len() == origin.as_wire().len() && !is_wildcard(name) {
                return;
            }
            let Some(above) = Place::new(parent, origin) else { return };
            let Walk { hit, common, .. } = self.names.walk(&above, origin);
            let hit = hit.map(|hit| hit.flags);
            match hit {
                Some(flags) => {
                    if is_wildcard(name) && !flags.has(Flags::WILDCARD) {
                        self.names.set_flags(&above.key, |flags| flags.set(Flags::WILDCARD, true));
                    }
                    return;
                }
                None => {
                    let flags = Flags::default().set(Flags::WILDCARD, is_wildcard(name));
                    let node = Node::empty(parent);
                    self.names.insert(&above.key, common, (flags, node), origin);
                }
            }
            name = parent;
        }
    }

    /// Puts a node from which records were taken in its place, or takes it out, and names above that
    /// existed only because of it.
    fn keep(&mut self, place: &Place<'_>, node: Node, hashed: bool) {
        let trie = if hashed { &self.hashed } else { &self.names };
        let Some(flags) = trie.get(place).map(|entry| entry.flags) else { return };
        if !node.is_empty() {
            return self.replace(place, flags, node, hashed);
        }
        self.count -= 1;
        if hashed {
            return self.hashed.remove(&place.key);
        }
        let origin = self.origin.clone();
        let mut place = place.clone();
        let mut node = Some(node);
        loop {
            if place.name == origin.view() || self.names.has_below(&place.key) {
                if let Some(node) = node {
                    self.replace(&place, flags, node, false);
                }
                return;
            }
            self.names.remove(&place.key);
            let Some(parent) = place.name.parent() else { return };
            let Some(above) = Place::new(parent, origin.view()) else { return };
            if is_wildcard(place.name) {
                self.names.set_flags(&above.key, |flags| flags.set(Flags::WILDCARD, false));
            }
            match self.names.get(&above) {
                Some(Entry { node: upper, .. }) if upper.is_empty() => {
                    (place, node) = (above, None)
                }
                _ => return,
            }
        }
    }
}

/// The flags of a name with these records, which had `old` before.
fn flags_of(node: &Node, origin: NameRef<'_>, old: Flags) -> Flags {
    let is_cut = node.has(Type::NS) && node.owner() != origin;
    old.set(Flags::CUT, is_cut).set(Flags::DNAME, node.has(Type::DNAME))
}
