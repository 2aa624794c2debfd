//! Versions that are made of records in their order, as stored zones have them.

use super::super::gathered::Gathered;
use super::super::key::{Key, Place};
use super::super::node::Node;
use super::super::trie::{Flags, Spine};
use super::{Edit, flags_of};
use crate::data::check::{checked, is_hashed, is_wildcard};
use crate::data::{Data, Incomplete, Refused};
use crate::zone::RecordRef;
use nodens_wire::{Class, NameRef, SharedName, Type};

/// A version that is made of its records: the SOA record, then the others as [`Data::cursor`] gives them. Each name is
/// written once then, and none is searched for. They may come in any other order, and take the time of an [`Edit`] then.
pub struct Ordered {
    /// Has all records once one did not come in its order; it has none before.
    edit: Edit,
    is_ordered: bool,
    coming: Coming,
    names: Spine,
    hashed: Spine,
}

/// The name whose records come.
struct Coming {
    gathered: Gathered,
    is_hashed: bool,
    /// Its key, and how much that has in common with the key of the name before it. Nothing once it is complete.
    at: Option<(Key, usize)>,
}

impl Ordered {
    /// Begins with no records; see [`Edit::like`].
    pub fn new(origin: impl Into<SharedName>, class: Class, like: Option<Data>) -> Self {
        let edit = Edit::new(origin, class).like(like);
        let mut gathered = Gathered::default();
        gathered.begin(edit.origin());
        let at = Key::new(edit.origin(), edit.origin()).map(|key| (key, 0));
        let coming = Coming { gathered, is_hashed: false, at };
        let (names, hashed) = (Spine::default(), Spine::default());
        Self { edit, is_ordered: true, coming, names, hashed }
    }

    /// Adds a record, as [`Edit::add`].
    ///
    /// # Errors
    /// [`Refused`].
    pub fn add(&mut self, record: RecordRef<'_>) -> Result<bool, Refused> {
        if self.is_ordered {
            let octets = self.names.octets() + self.hashed.octets() + self.coming.gathered.len();
            let own = octets.saturating_sub(self.edit.shared);
            let record = checked(record, self.edit.origin(), self.edit.class)?;
            if !self.edit.claim.grow(own as u64) {
                return Err(Refused::NoRoom);
            }
            if self.follows(&record)? {
                let is_first = self.coming.gathered.is_empty();
                let is_new = self.coming.gathered.add(&record)?;
                self.edit.records += u64::from(is_new);
                self.edit.count += u64::from(is_first);
                return Ok(is_new);
            }
            self.end_order();
        }
        self.edit.add(record)
    }

    /// The version that the records make.
    ///
    /// # Errors
    /// [`Incomplete`].
    pub fn finish(mut self) -> Result<Data, Incomplete> {
        if self.is_ordered {
            self.end_order();
        }
        self.edit.finish()
    }

    /// Whether all records came in their order.
    #[cfg(test)]
    pub(in crate::data) fn is_in_order(&self) -> bool {
        self.is_ordered
    }

    /// Whether a record comes in its order. Its name is the one whose records come then.
    fn follows(&mut self, record: &RecordRef<'_>) -> Result<bool, Refused> {
        let is_first = self.edit.records == 0;
        // Another SOA record would take the place of the one that is there.
        if is_first != (record.rtype == Type::SOA) {
            return Ok(false);
        }
        if is_first {
            // The origin is spelt as this record has it.
            self.coming.gathered.begin(record.owner);
            return Ok(true);
        }
        let is_hashed = is_hashed(record.rtype, record.rdata);
        let Coming { gathered, is_hashed: was_hashed, .. } = &self.coming;
        if is_hashed == *was_hashed && record.owner == gathered.owner() {
            return Ok(true);
        }
        let key = Key::new(record.owner, self.edit.origin()).ok_or(Refused::OutOfZone)?;
        self.complete();
        let spine = if is_hashed { &self.hashed } else { &self.names };
        let Some(common) = spine.common(&key) else { return Ok(false) };
        let Coming { gathered, is_hashed: hashed, at } = &mut self.coming;
        gathered.begin(record.owner);
        (*hashed, *at) = (is_hashed, Some((key, common)));
        Ok(true)
    }

    /// All records of a name have come.
    fn complete(&mut self) {
        let Some((key, common)) = self.coming.at.take() else { return };
        let origin = self.edit.origin.clone();
        // Of a name its first record may be refused. The origin exists without any.
        if self.coming.gathered.is_empty() && self.coming.gathered.owner() != origin.view() {
            return;
        }
        let node = self.coming.gathered.node();
        let owner = self.coming.gathered.owner();
        let place = Place { name: owner, key };
        let node = self.edit.share(&place, None, node, self.coming.is_hashed);
        if self.coming.is_hashed {
            return self.hashed.push(&place.key, common, Flags::default(), node);
        }
        let flags = flags_of(&node, origin.view(), Flags::default());
        let common = add_above(&mut self.names, &place, common, origin.view());
        push_name(&mut self.names, &place, common, (flags, node));
    }

    /// From now on records may come in any order.
    fn end_order(&mut self) {
        self.complete();
        self.is_ordered = false;
        self.edit.names = std::mem::take(&mut self.names).finish();
        self.edit.hashed = std::mem::take(&mut self.hashed).finish();
    }
}

/// Adds the names above one that is about to come and do not exist yet: all that the name before it does not have in common
/// with it. Gives how much it has in common with the last of them.
fn add_above(names: &mut Spine, place: &Place<'_>, common: usize, origin: NameRef<'_>) -> usize {
    let missing = place.key.ends_above().take_while(|end| *end > common).count();
    let above = std::iter::successors(place.name.parent(), |name| name.parent());
    let above: Vec<_> = above.take(missing).collect();
    let mut common = common;
    for name in above.into_iter().rev() {
        let Some(upper) = Place::new(name, origin) else { continue };
        push_name(names, &upper, common, (Flags::default(), Node::empty(name)));
        // Nothing but what lies below it comes before the name itself.
        common = upper.key.len().saturating_sub(1);
    }
    common
}

fn push_name(names: &mut Spine, place: &Place<'_>, common: usize, (flags, node): (Flags, Node)) {
    let is_wildcard = is_wildcard(place.name);
    names.push(&place.key, common, flags, node);
    let end = place.key.ends_above().next().filter(|_| is_wildcard);
    end.into_iter().for_each(|end| names.set_flags_above(end, Flags::WILDCARD));
}
