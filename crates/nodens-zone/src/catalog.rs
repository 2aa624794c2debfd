//! Catalog zones: zones whose records name other zones (RFC 9432).
//!
//! [`Produced`] is one that lists zones of this server. [`Catalog::read`] finds the members in a version of a catalog. What becomes of them is decided by whoever
//! keeps zones; [`Catalog::member`] is what a change of ownership is looked up by.

use crate::data::Data;
use crate::zone::{Advance, RecordRef};
use nodens_wire::{Name, NameRef, Type};
use std::collections::{BTreeMap, HashMap};

mod produced;

pub use produced::{CatalogService, KnownCatalogs, Listed, Listing, Produced, Producer};

#[cfg(test)]
mod tests;

/// The one version of the schema (section 4.2.1).
const VERSION: &[u8] = b"2";

/// A zone that a catalog names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The label that stands for it, in lower case: as long as it is the same, the zone is.
    pub id: Box<[u8]>,
    /// The zone, in lower case.
    pub zone: Name,
    /// The groups that it is in, sorted (section 4.3.2).
    pub groups: Vec<Box<[u8]>>,
    /// The catalog that may take it over, in lower case (section 4.3.1).
    pub coo: Option<Name>,
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

/// The members of a catalog at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    /// In the order of their labels.
    pub members: Vec<Member>,
    by_zone: HashMap<Name, usize>,
}

/// What records say of one label.
#[derive(Default)]
struct Draft {
    zones: Vec<Name>,
    groups: Vec<Box<[u8]>>,
    owners: Vec<Name>,
}

impl Catalog {
    /// Reads the members in `data`.
    ///
    /// # Errors
    /// [`CatalogError`].
    pub fn read(data: &Data) -> Result<Self, CatalogError> {
        let origin = data.origin().to_name();
        let (mut drafts, mut versions) = (BTreeMap::<Box<[u8]>, Draft>::new(), Vec::new());
        let mut has_ns = false;
        let mut records = data.cursor();
        loop {
            match records.advance() {
                Advance::Nothing => continue,
                Advance::End => break,
                Advance::Record => {}
            }
            let Some(record) = records.record() else { continue };
            has_ns |= record.rtype == Type::NS && record.owner == origin.view();
            match place(record.owner, origin.view()) {
                Place::Version if record.rtype == Type::TXT => versions.push(text(record.rdata)),
                Place::Member(id) => {
                    let zones = target(&record).filter(|_| record.rtype == Type::PTR);
                    if let Some(zone) = zones {
                        drafts.entry(id).or_default().zones.push(zone);
                    }
                }
                Place::Property(id, property) => {
                    let draft = drafts.entry(id).or_default();
                    match (&*property, record.rtype) {
                        (b"group", Type::TXT) => draft.groups.push(text(record.rdata).into()),
                        (b"coo", Type::PTR) => draft.owners.extend(target(&record)),
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        if !has_ns {
            return Err(CatalogError::NoNs(origin));
        }
        match versions.as_slice() {
            [version] if version == VERSION => Self::of(&origin, drafts),
            [version] => {
                let version = String::from_utf8_lossy(version).into_owned();
                Err(CatalogError::Version(origin, version))
            }
            _ => Err(CatalogError::Versions(origin)),
        }
    }

    fn of(origin: &Name, drafts: BTreeMap<Box<[u8]>, Draft>) -> Result<Self, CatalogError> {
        let mut catalog = Self::default();
        for (id, Draft { mut zones, mut groups, mut owners }) in drafts {
            let owner = || member_name(&id, origin);
            // Properties of a label without a zone are of no member.
            let Some(zone) = zones.pop() else { continue };
            if !zones.is_empty() {
                return Err(CatalogError::Pointers(owner()));
            }
            let coo = owners.pop();
            if !owners.is_empty() {
                return Err(CatalogError::Owners(owner()));
            }
            if catalog.by_zone.insert(zone.clone(), catalog.members.len()).is_some() {
                return Err(CatalogError::Twice(zone));
            }
            groups.sort();
            catalog.members.push(Member { id, zone, groups, coo });
        }
        Ok(catalog)
    }

    /// The member that is this zone.
    pub fn member(&self, zone: &Name) -> Option<&Member> {
        self.members.get(*self.by_zone.get(zone)?)
    }
}

/// What an owner in a catalog is that of.
enum Place {
    Version,
    Member(Box<[u8]>),
    /// A label, and the name of a property.
    Property(Box<[u8]>, Box<[u8]>),
    Other,
}

fn place(owner: NameRef<'_>, origin: NameRef<'_>) -> Place {
    let depth = owner.label_count().saturating_sub(origin.label_count());
    if !owner.is_in_domain(origin) {
        return Place::Other;
    }
    let mut labels = owner.labels().map(|label| label.to_ascii_lowercase().into_boxed_slice());
    let labels = [labels.next(), labels.next(), labels.next()];
    match (depth, labels) {
        (1, [Some(first), ..]) if *first == *b"version" => Place::Version,
        (2, [Some(id), Some(zones), _]) if *zones == *b"zones" => Place::Member(id),
        (3, [Some(property), Some(id), Some(zones)]) if *zones == *b"zones" => {
            Place::Property(id, property)
        }
        _ => Place::Other,
    }
}

/// The name that a PTR record leads to, in lower case.
fn target(record: &RecordRef<'_>) -> Option<Name> {
    Name::from_wire(record.rdata).ok().map(|name| name.to_folded())
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
fn member_name(id: &[u8], origin: &Name) -> Name {
    let mut wire = vec![id.len() as u8];
    wire.extend_from_slice(id);
    wire.extend_from_slice(b"\x05zones");
    wire.extend_from_slice(origin.as_wire());
    Name::from_wire(&wire).unwrap_or_else(|_| origin.clone())
}
