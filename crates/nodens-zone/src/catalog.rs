//! Catalog zones: zones whose records name other zones (RFC 9432).
//!
//! [`Produced`] is a catalog of the zones of this server. [`Catalog`] is the list of members of a catalog that another
//! server produces; a new version of it is read by its differences from the last. Which members are served, and which
//! catalog owns a member, is decided by the caller, who asks [`Catalog::member`].

use crate::data::{Data, Rrset};
use foldhash::fast::RandomState;
use indexmap::{IndexMap, IndexSet};
use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Name, NameRef, SharedName, Type};
use std::sync::Arc;

mod produced;

pub use produced::{CatalogService, Delay, KnownCatalogs, Listed, Listing, Produced, Producer};

#[cfg(test)]
mod tests;

/// The one version of the schema (section 4.2.1).
const VERSION: &[u8] = b"2";
/// The label that members are below.
const ZONES: &[u8] = b"zones";

/// Names of members, in the order in which they were found. Those of a large catalog are then met in the order in which
/// their memory was taken, and not here and there.
pub type Names = IndexSet<SharedName, RandomState>;

/// The zones whose members differ from those of the version before, in the order of [`Names`], and what they are now: `None`
/// for a zone that is no member.
pub type Changed = IndexMap<SharedName, Option<Arc<Member>>, RandomState>;

/// A zone that a catalog names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The label that stands for it, in lower case: as long as it is the same, the zone is.
    pub id: Arc<[u8]>,
    /// The zone.
    pub zone: SharedName,
    /// The groups that it is in, sorted (section 4.3.2).
    pub groups: Vec<Box<[u8]>>,
    /// The catalog that may take it over (section 4.3.1).
    pub coo: Option<SharedName>,
}

/// Why a zone is no catalog (section 5.1). The one before it stays in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// No NS record at the apex.
    #[error("catalog zone {0} has no NS record")]
    NoNs(Name),
    /// Not one TXT record at `version`.
    #[error("catalog zone {0} must have exactly one version TXT record")]
    Versions(Name),
    /// A version that is not understood.
    #[error("catalog zone {0} has unsupported version {1:?}")]
    Version(Name, String),
    /// Several PTR records of one member.
    #[error("catalog member {0} must have exactly one PTR record")]
    Pointers(Name),
    /// One zone under two labels.
    #[error("catalog member zone {0} is listed twice")]
    Twice(Name),
    /// Several catalogs that may take over one member.
    #[error("catalog member {0} has more than one coo PTR record")]
    Owners(Name),
}

/// The members of a catalog at one time. A clone costs a few counted references.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// The version that they were read from.
    data: Option<Data>,
    by_zone: imbl::GenericHashMap<
        SharedName,
        Arc<Member>,
        RandomState,
        imbl::shared_ptr::DefaultSharedPtr,
    >,
}

impl Catalog {
    /// Reads the members in `data`.
    ///
    /// # Errors
    /// [`CatalogError`].
    pub fn read(data: &Data) -> Result<Self, CatalogError> {
        let mut catalog = Self::default();
        catalog.update(data)?;
        Ok(catalog)
    }

    /// Becomes what `data` says, which is another version of the same zone, and gives the zones that came,
    /// went, or are members in another way. Costs as much as the two versions do not share, however many
    /// members there are.
    ///
    /// # Errors
    /// [`CatalogError`]; the members are then those they were.
    pub fn update(&mut self, data: &Data) -> Result<Changed, CatalogError> {
        check(data)?;
        let mut ids = Vec::new();
        data.changed_names(self.data.as_ref(), |owner| ids.extend(id_of(owner, data.origin())));
        // They come nearly sorted. In order, so that of several faults the same one is told each time.
        ids.sort();
        ids.dedup();
        let mut by_zone = self.by_zone.clone();
        let (mut changed, mut new) = (Changed::default(), Vec::new());
        for id in ids {
            #[cfg(test)]
            tests::READ.set(tests::READ.get() + 1);
            // What it was like is known to be right.
            let before = self.data.as_ref().and_then(|data| read(&id, data).ok().flatten());
            let after = read(&id, data)?;
            if before == after {
                continue;
            }
            if let Some(before) = before {
                by_zone.remove(&before.zone);
                changed.insert(before.zone, None);
            }
            new.extend(after.map(Arc::new));
        }
        changed.reserve(new.len());
        for member in new {
            let zone = member.zone.clone();
            changed.insert(zone.clone(), Some(member.clone()));
            if by_zone.insert(zone.clone(), member).is_some() {
                return Err(CatalogError::Twice(zone.to_name()));
            }
        }
        (self.by_zone, self.data) = (by_zone, Some(data.clone()));
        Ok(changed)
    }

    /// How many members it has.
    pub fn len(&self) -> usize {
        self.by_zone.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.by_zone.is_empty()
    }

    /// The members, in no order.
    pub fn members(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.by_zone.values()
    }

    /// The members that these zones are.
    pub fn look_up(&self, zones: Names) -> Changed {
        let found = zones.into_iter().map(|zone| {
            let member = self.member(&zone).cloned();
            (zone, member)
        });
        found.collect()
    }

    /// The member that is this zone.
    pub fn member(&self, zone: &SharedName) -> Option<&Arc<Member>> {
        self.by_zone.get(zone)
    }
}

/// Whether it is a catalog that is understood.
fn check(data: &Data) -> Result<(), CatalogError> {
    let origin = || data.origin().to_name();
    if data.apex(Type::NS).is_none() {
        return Err(CatalogError::NoNs(origin()));
    }
    let mut buffer = [0; NAME_LEN_MAX];
    let versions = under(&[b"version"], data.origin(), &mut buffer);
    let versions = versions.and_then(|owner| data.rrset(owner, Type::TXT));
    let mut versions = versions.iter().flat_map(|set| set.iter()).map(|record| text(record.rdata));
    match (versions.next(), versions.next()) {
        (Some(version), None) if version == VERSION => Ok(()),
        (Some(version), None) => {
            let version = String::from_utf8_lossy(&version).into_owned();
            Err(CatalogError::Version(origin(), version))
        }
        _ => Err(CatalogError::Versions(origin())),
    }
}

/// What a version says of the member with this label; nothing if there is none. Properties of a label without a
/// zone are of no member.
fn read(id: &Arc<[u8]>, data: &Data) -> Result<Option<Member>, CatalogError> {
    let mut buffer = [0; NAME_LEN_MAX];
    let mut rrset = |labels: &[&[u8]], rtype| {
        under(labels, data.origin(), &mut buffer).and_then(|owner| data.rrset(owner, rtype))
    };
    let owner = || member_name(id, data.origin());
    let Ok(zone) = only_target(rrset(&[id, ZONES], Type::PTR)) else {
        return Err(CatalogError::Pointers(owner()));
    };
    let Some(zone) = zone else { return Ok(None) };
    let Ok(coo) = only_target(rrset(&[b"coo", id, ZONES], Type::PTR)) else {
        return Err(CatalogError::Owners(owner()));
    };
    let groups = rrset(&[b"group", id, ZONES], Type::TXT);
    let groups = groups.iter().flat_map(|set| set.iter()).map(|own| text(own.rdata).into());
    let mut groups: Vec<Box<[u8]>> = groups.collect();
    groups.sort();
    Ok(Some(Member { id: id.clone(), zone, groups, coo }))
}

/// The target of a PTR record: `None` without a record, an error with more than one.
fn only_target(set: Option<Rrset<'_>>) -> Result<Option<SharedName>, ()> {
    let records = set.iter().flat_map(|set| set.iter());
    let mut names = records.filter_map(|own| NameRef::new(own.rdata).ok());
    let name = names.next();
    if names.next().is_some() { Err(()) } else { Ok(name.map(SharedName::of)) }
}

/// The label of the member that an owner in a catalog says something of.
fn id_of(owner: NameRef<'_>, origin: NameRef<'_>) -> Option<Arc<[u8]>> {
    let depth = owner.label_count().checked_sub(origin.label_count())?;
    let mut labels = owner.labels().skip(depth.checked_sub(2)?.min(1));
    let (id, zones) = (labels.next()?, labels.next()?);
    let is_one = matches!(depth, 2 | 3) && zones.eq_ignore_ascii_case(ZONES);
    is_one.then(|| id.to_ascii_lowercase().into())
}

/// The name below `origin` with these labels in front, written to `buffer`; nothing if there is no such name.
fn under<'b>(
    labels: &[&[u8]],
    origin: NameRef<'_>,
    buffer: &'b mut [u8; NAME_LEN_MAX],
) -> Option<NameRef<'b>> {
    let mut at = 0;
    let mut put = |octets: &[u8]| {
        let end = at + octets.len();
        buffer.get_mut(at..end)?.copy_from_slice(octets);
        at = end;
        Some(())
    };
    for label in labels {
        put(&[u8::try_from(label.len()).ok()?])?;
        put(label)?;
    }
    put(origin.as_wire())?;
    NameRef::new(buffer.get(..at)?).ok()
}

/// The strings of a TXT record as one.
fn text(rdata: &[u8]) -> Vec<u8> {
    let (mut all, mut rest) = (Vec::with_capacity(rdata.len()), rdata);
    while let Some((len, tail)) = rest.split_first() {
        let (string, tail) = tail.split_at(tail.len().min(usize::from(*len)));
        all.extend_from_slice(string);
        rest = tail;
    }
    all
}

/// `ID.zones.ORIGIN`.
fn member_name(id: &[u8], origin: NameRef<'_>) -> Name {
    under(&[id, ZONES], origin, &mut [0; NAME_LEN_MAX]).unwrap_or(origin).to_name()
}
