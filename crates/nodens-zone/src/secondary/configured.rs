//! Zones as a configuration names them.

use super::{Primary, SecondaryZone};
use crate::tsig::Key;
use nodens_wire::{Name, NameRef};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A zone that the configuration names.
#[derive(Clone, Debug)]
pub struct Configured {
    /// The zone.
    pub zone: Arc<SecondaryZone>,
    /// Whether its members are zones to be served as well (RFC 9432), and which of them: those in one of
    /// these zones, or all if there are none.
    pub catalog: Option<Vec<Name>>,
    /// See [`SecondaryZone::key`].
    pub key: Option<Key>,
    /// The folder that it and its members are kept in, if any.
    pub store: Option<PathBuf>,
    /// Of a catalog: what members in these groups have instead.
    pub groups: Vec<Group>,
}

/// Where the members of a catalog come from that are in one group (RFC 9432 section 4.3.2).
#[derive(Clone, Debug)]
pub struct Group {
    /// The value of the property.
    pub name: Box<[u8]>,
    /// See [`SecondaryZone::primaries`].
    pub primaries: Arc<[Primary]>,
    /// See [`SecondaryZone::key`].
    pub key: Option<Key>,
    /// The folder that they are kept in, if any.
    pub store: Option<PathBuf>,
}

/// Where a zone comes from, and where it is kept.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'c> {
    /// See [`SecondaryZone::primaries`].
    pub primaries: &'c Arc<[Primary]>,
    /// See [`SecondaryZone::key`].
    pub key: Option<&'c Key>,
    /// The folder, if any.
    pub store: Option<&'c Path>,
}

impl Configured {
    /// Whether a member of this name is accepted.
    pub fn accepts(&self, member: NameRef<'_>) -> bool {
        let Some(accepted) = &self.catalog else { return false };
        accepted.is_empty() || accepted.iter().any(|zone| member.is_in_domain(zone.view()))
    }

    /// What counts for a member that is in these groups: the first group here that is one of them, and what
    /// the catalog itself has otherwise.
    pub fn terms(&self, groups: &[Box<[u8]>]) -> Terms<'_> {
        match self.groups.iter().find(|own| groups.contains(&own.name)) {
            Some(Group { primaries, key, store, .. }) => {
                Terms { primaries, key: key.as_ref(), store: store.as_deref() }
            }
            None => Terms {
                primaries: self.zone.shared_primaries(),
                key: self.key.as_ref(),
                store: self.store.as_deref(),
            },
        }
    }
}
