//! What signing asks of a version beside its records: whether names are the zone's own.

use super::Data;
use super::key::Place;
use nodens_wire::{Name, NameRef, Type};

/// How a name stands in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It does not exist.
    Missing,
    /// It lies below a cut or a DNAME record, so that the zone says nothing of it.
    Hidden,
    /// It exists, if only because others lie below it.
    Own,
}

impl Data {
    /// How a name stands in this version.
    pub(crate) fn standing(&self, name: NameRef<'_>) -> Standing {
        let origin = self.origin();
        let Some(place) = Place::new(name, origin) else { return Standing::Missing };
        let walk = self.names.walk(&place, origin);
        match (walk.hit, walk.hidden_by) {
            (None, _) => Standing::Missing,
            (Some(_), Some(_)) => Standing::Hidden,
            (Some(_), None) => Standing::Own,
        }
    }

    /// Whether what lies below the name is not the zone's own.
    pub(crate) fn hides_below(&self, name: NameRef<'_>) -> bool {
        self.is_cut(name) || self.rrset(name, Type::DNAME).is_some()
    }

    /// Whether another zone begins at the name.
    pub(crate) fn is_cut(&self, name: NameRef<'_>) -> bool {
        name != self.origin() && self.rrset(name, Type::NS).is_some()
    }

    /// The names with records below a name; nothing if these are more than `most`.
    pub(crate) fn names_below(&self, name: NameRef<'_>, most: usize) -> Option<Vec<Name>> {
        let Some(place) = Place::new(name, self.origin()) else { return Some(Vec::new()) };
        let mut found = Vec::new();
        let mut fits = true;
        if self.names.get(&place).is_some() {
            self.names.below(&place.key, |node| {
                fits = node.is_empty() || found.len() < most;
                if fits && !node.is_empty() {
                    found.push(node.owner().to_name());
                }
                fits
            });
        }
        fits.then_some(found)
    }
}
