//! What another version of a catalog changes.

use nodens_wire::SharedName;
use nodens_zone::catalog::{Member, Names};
use nodens_zone::secondary::{SecondaryZone, Terms};
use std::collections::HashMap;
use std::sync::Arc;

/// A catalog that has a member, and the label of that in it.
pub(super) type Owner = (SharedName, Arc<[u8]>);

/// Zones to be added and zones to be removed.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) added: Vec<(Arc<SecondaryZone>, Arc<Member>)>,
    pub(super) removed: Names,
    /// Those of them that another catalog had, by its name.
    pub(super) taken: HashMap<SharedName, Names>,
}

/// What becomes of a member.
pub(super) enum Fate {
    /// It is no member, or not any more.
    Ends,
    /// It lies outside of the zones that are accepted.
    Outside,
    /// It is served as it is.
    Stays,
    /// Another zone of its name is in its place.
    Clashes,
    /// It begins, with what is here of the zone.
    Begins(Option<Arc<SecondaryZone>>),
}

/// The zone of a member that begins, with what is here of it.
pub(super) fn beginning(
    Terms { primaries, .. }: Terms<'_>,
    member: &Member,
    known: Option<Arc<SecondaryZone>>,
) -> Arc<SecondaryZone> {
    match known {
        Some(known) if known.shared_primaries() == primaries => known,
        Some(known) => Arc::new(known.moved(primaries.clone())),
        None => Arc::new(SecondaryZone::new(member.zone.clone(), primaries.clone())),
    }
}
