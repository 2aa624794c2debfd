//! NSEC3 records over all names of a zone (RFC 5155 section 7.1), without opt-out, iterations and salt
//! (RFC 9276 section 3.1).

use super::zone::SignZoneError;
use crate::data::room::Claim;
use crate::data::{HASH_LEN, Refused, hashed_name, plain_hash};
use crate::presentation::rdata::push_types;
use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Name, NameRef, Type};
use std::collections::BTreeSet;

/// The RDATA of NSEC3PARAM, and the front of that of NSEC3: SHA-1, no flags, iterations and salt.
pub(super) const PARAMETERS: [u8; 5] = [1, 0, 0, 0, 0];

/// Octets that malloc adds to a list of types, about.
const LIST_COST: usize = 16;

/// A name's hash, and the list of its types as RDATA has it.
struct Link {
    hash: [u8; HASH_LEN],
    types: Box<[u8]>,
}

/// The names of a zone as NSEC3 records prove them. They come in canonical order; the records are in the
/// order of hashes.
pub(super) struct Chain<'z> {
    origin: NameRef<'z>,
    links: Vec<Link>,
    /// The name that came last.
    last: Option<Name>,
    /// Octets of all lists.
    lists: usize,
    room: Claim,
}

impl<'z> Chain<'z> {
    pub(super) fn new(origin: NameRef<'z>) -> Self {
        let (links, last, lists) = (Vec::new(), None, 0);
        Self { origin, links, last, lists, room: Claim::default() }
    }

    /// Adds a name that comes behind all others, and the names above it that have no records.
    pub(super) fn push(
        &mut self,
        name: NameRef<'_>,
        types: impl IntoIterator<Item = Type>,
    ) -> Result<(), SignZoneError> {
        let mut above = name.parent();
        while let Some(upper) = above.filter(|upper| upper.is_in_domain(self.origin)) {
            // What lies above the name before has come with it.
            if self.last.as_ref().is_some_and(|last| last.view().is_in_domain(upper)) {
                break;
            }
            self.link(upper, BTreeSet::new())?;
            above = upper.parent();
        }
        self.last = Some(name.to_name());
        self.link(name, types.into_iter().map(|rtype| rtype.0).collect())
    }

    fn link(&mut self, name: NameRef<'_>, types: BTreeSet<u16>) -> Result<(), SignZoneError> {
        let mut list = Vec::new();
        push_types(&mut list, &types);
        self.lists += list.len() + LIST_COST;
        self.links.push(Link { hash: plain_hash(name), types: list.into() });
        let octets = self.links.capacity() * size_of::<Link>() + self.lists;
        let has_room = self.room.grow(octets as u64);
        has_room.then_some(()).ok_or(SignZoneError::Refused(Refused::NoRoom))
    }

    /// Shows owner and RDATA of each record.
    pub(super) fn records(
        mut self,
        mut show: impl FnMut(NameRef<'_>, &[u8]) -> Result<(), SignZoneError>,
    ) -> Result<(), SignZoneError> {
        self.links.sort_unstable_by_key(|link| link.hash);
        let nexts = self.links.iter().cycle().skip(1);
        for (link, next) in self.links.iter().zip(nexts) {
            let mut buffer = [0; NAME_LEN_MAX];
            let owner = hashed_name(&link.hash, self.origin, &mut buffer);
            let owner = owner.ok_or(SignZoneError::LongOrigin)?;
            let rdata = [&PARAMETERS, &[HASH_LEN as u8][..], &next.hash, &link.types].concat();
            show(owner, &rdata)?;
        }
        Ok(())
    }
}
