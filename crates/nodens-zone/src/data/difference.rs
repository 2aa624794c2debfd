//! What changes between two versions of a zone: the content of an incremental transfer (RFC 1995
//! section 2) and of a journal.

use super::node::Node;
use super::trie::{Trie, changes};
use super::{Data, Refused, Rrset};
use crate::zone::{RecordRef, Soa};
use nodens_wire::{Class, NameRef, Record, Type};
use std::collections::BTreeSet;
use std::fmt;

/// What leads from one version of a zone to another.
#[derive(Clone, PartialEq, Eq)]
pub struct Difference {
    /// The SOA record of the version before.
    pub from: Soa,
    /// The SOA record of the version after.
    pub to: Soa,
    /// Records that are taken out, without the SOA record.
    pub removed: Vec<Record>,
    /// Records that are added afterwards, without the SOA record.
    pub added: Vec<Record>,
}

impl fmt::Debug for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, removed, added } = self;
        let [from, to] = [from, to].map(|soa| soa.serial().0);
        write!(f, "Difference({from} to {to}, -{} +{})", removed.len(), added.len())
    }
}

/// Why a difference does not lead from this version anywhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// It begins at a version with another SOA record.
    #[error("the difference is from serial {from}, the zone has {has}")]
    Serial {
        /// The serial number that it begins at.
        from: u32,
        /// That of the zone.
        has: u32,
    },
    /// A record to be taken out is not in the zone.
    #[error("{owner} {rtype} is to be removed and is not there")]
    Missing {
        /// Its owner.
        owner: String,
        /// Its type.
        rtype: Type,
    },
    /// A record to be added is in the zone.
    #[error("{owner} {rtype} is to be added and is there")]
    Present {
        /// Its owner.
        owner: String,
        /// Its type.
        rtype: Type,
    },
    /// A record that cannot be in the zone.
    #[error("{owner} {rtype}: {why}")]
    Refused {
        /// Its owner.
        owner: String,
        /// Its type.
        rtype: Type,
        /// What is wrong with it.
        why: Refused,
    },
}

impl Difference {
    /// What leads from `old` to `new`, both of the same name. Costs as much as there is that they do
    /// not share.
    pub fn between(old: &Data, new: &Data) -> Self {
        let [from, to] = [old, new].map(|data| data.soa().clone());
        let mut difference = Self { from, to, removed: Vec::new(), added: Vec::new() };
        for tries in [[&old.names, &new.names], [&old.hashed, &new.hashed]] {
            changes(tries, old.origin(), |before, after| {
                difference.compare(before, after, old.class());
            });
        }
        difference
    }

    /// How many records it consists of, both SOA records among them.
    pub fn records(&self) -> usize {
        self.removed.len() + self.added.len() + 2
    }

    fn compare(&mut self, before: Option<&Node>, after: Option<&Node>, class: Class) {
        // A name that is spelt differently is another one to those that keep the spelling.
        let respelt = match (before, after) {
            (Some(a), Some(b)) => a.owner().as_wire() != b.owner().as_wire(),
            _ => false,
        };
        let (before, after) = (sets_of(before, class), sets_of(after, class));
        for (here, there, out) in
            [(&before, &after, &mut self.removed), (&after, &before, &mut self.added)]
        {
            for set in here {
                let same = |other: &&Rrset<'_>| {
                    let kind = |set: &Rrset<'_>| (set.rtype(), set.covered(), set.ttl());
                    !respelt && kind(other) == kind(set)
                };
                let other = there.iter().find(same);
                let kept: BTreeSet<&[u8]> =
                    other.into_iter().flat_map(Rrset::iter).map(|record| record.rdata).collect();
                let gone = set.iter().filter(|record| !kept.contains(record.rdata));
                out.extend(gone.map(to_record));
            }
        }
    }
}

impl Data {
    /// Calls `each` with the names whose records are not those of the version before, in canonical order; with
    /// all names, if there is none. Costs as much as there is that the two do not share.
    pub fn changed_names(&self, before: Option<&Self>, mut each: impl FnMut(NameRef<'_>)) {
        let nothing = Trie::default();
        let old = before.map_or(&nothing, |data| &data.names);
        changes([old, &self.names], self.origin(), |before, after| {
            let is_like = before.zip(after).is_some_and(|(before, after)| before.is_like(after));
            if let Some(node) = after.or(before).filter(|_| !is_like) {
                each(node.owner());
            }
        });
    }

    /// The version that `difference` leads to from this one.
    ///
    /// # Errors
    /// [`Conflict`], if it does not belong to this version: every record that it takes out has to be
    /// here, and none that it adds.
    pub fn apply(&self, difference: &Difference) -> Result<Self, Conflict> {
        let Difference { from, to, removed, added } = difference;
        if from.serial().0 != self.soa().serial().0 {
            let [from, has] = [from, self.soa()].map(|soa| soa.serial().0);
            return Err(Conflict::Serial { from, has });
        }
        let mut edit = self.edit();
        for record in removed {
            if !edit.remove(RecordRef::from(record)) {
                return Err(Conflict::Missing {
                    owner: record.owner.to_string(),
                    rtype: record.rtype,
                });
            }
        }
        for record in added.iter().chain([to.record()]) {
            let Record { owner, rtype, .. } = record;
            let (owner, rtype) = (|| owner.to_string(), *rtype);
            match edit.add(RecordRef::from(record)) {
                Ok(false) if rtype != Type::SOA => {
                    return Err(Conflict::Present { owner: owner(), rtype });
                }
                Ok(_) => {}
                Err(why) => return Err(Conflict::Refused { owner: owner(), rtype, why }),
            }
        }
        let why = Refused::SoaBelowApex;
        let owner = || to.record().owner.to_string();
        edit.finish().map_err(|_| Conflict::Refused { owner: owner(), rtype: Type::SOA, why })
    }
}

/// All RRsets but the SOA record.
fn sets_of(node: Option<&Node>, class: Class) -> Vec<Rrset<'_>> {
    let sets = node.into_iter().flat_map(|node| node.sets(class));
    sets.filter(|set| set.rtype() != Type::SOA).collect()
}

fn to_record(record: RecordRef<'_>) -> Record {
    let RecordRef { owner, rtype, class, ttl, rdata } = record;
    Record { owner: owner.to_name(), rtype, class, ttl, rdata: rdata.to_vec() }
}
