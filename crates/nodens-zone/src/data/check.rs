//! What can be in a zone.

use super::lookup;
use super::node::Node;
use super::rrset::{is_same, name_in};
use crate::limits::TTL_MAX;
use crate::zone::RecordRef;
use nodens_wire::record::{RdataPart, rdata_layout};
use nodens_wire::{Class, NameRef, Type};
use std::ops::RangeInclusive;

/// Why a record was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The owner does not lie in the zone.
    #[error("the owner is outside the zone")]
    OutOfZone,
    /// The class is not that of the zone.
    #[error("the class is not that of the zone")]
    Class,
    /// The type is one of questions, or of records that are made for one message.
    #[error("the type is not one of zone data")]
    NotData,
    /// RDATA whose names cannot be read.
    #[error("the RDATA is not of the type")]
    Rdata,
    /// More octets than one RRset or one name may have.
    #[error("the RRset or the name has too many records")]
    TooLong,
    /// Zones may not take more memory ([`room`](super::room)).
    #[error("no room: there is no more memory for zones")]
    NoRoom,
    /// A SOA record of another name than the origin.
    #[error("the SOA record is not at the origin")]
    SoaBelowApex,
    /// Strict: a zone has one SOA record.
    #[error("the zone has another SOA record")]
    SecondSoa,
    /// Strict: a name has a CNAME record or other data (RFC 2181 section 10.1), and one CNAME or DNAME.
    #[error("the name has a CNAME record and other data")]
    CnameAndOther,
}

/// Why changes do not make a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Incomplete {
    /// There is no SOA record.
    #[error("the zone has no SOA record")]
    NoSoa,
    /// Strict: there are no NS records at the origin.
    #[error("the zone has no NS records at its origin")]
    NoNs,
}

/// Types of questions and of single messages (RFC 6895 section 3.1): no data have these.
pub(crate) const META_TYPES: RangeInclusive<u16> = 128..=255;

/// Whether a record can be in the zone, whatever else is there.
fn check(record: &RecordRef<'_>, zone: NameRef<'_>, of: Class) -> Result<(), Refused> {
    let RecordRef { owner, rtype, class, rdata, .. } = *record;
    if class != of {
        return Err(Refused::Class);
    }
    if matches!(rtype, Type::NONE | Type::OPT) || META_TYPES.contains(&rtype.0) {
        return Err(Refused::NotData);
    }
    let readable = match rtype {
        Type::SOA => rdata.len() > SOA_NUMBERS && has_names(rtype, rdata),
        Type::RRSIG => rdata.len() > RRSIG_HEAD && name_in(rdata, RRSIG_HEAD).is_some(),
        Type::NSEC => name_in(rdata, 0).is_some(),
        _ => has_names(rtype, rdata),
    };
    if !readable {
        return Err(Refused::Rdata);
    }
    if rtype == Type::SOA && owner != zone {
        let outside = !owner.is_in_domain(zone);
        return Err(if outside { Refused::OutOfZone } else { Refused::SoaBelowApex });
    }
    Ok(())
}

/// A record that can be in the zone, with a TTL that it may have.
pub(super) fn checked<'r>(
    record: RecordRef<'r>,
    origin: NameRef<'_>,
    class: Class,
) -> Result<RecordRef<'r>, Refused> {
    check(&record, origin, class)?;
    let ttl = if record.ttl > TTL_MAX { 0 } else { record.ttl };
    Ok(RecordRef { ttl, ..record })
}

/// Octets of SOA RDATA behind its two names.
const SOA_NUMBERS: usize = 20;
/// Octets of RRSIG RDATA before the signer's name.
const RRSIG_HEAD: usize = 18;

/// Whether the record belongs to the hashed names (RFC 5155 section 7.2.8: they are no names that
/// are asked for).
pub(super) fn is_hashed(rtype: Type, rdata: &[u8]) -> bool {
    let covers = || rdata.first_chunk().copied().map(u16::from_be_bytes) == Some(Type::NSEC3.0);
    rtype == Type::NSEC3 || rtype == Type::RRSIG && covers()
}

pub(super) fn is_wildcard(name: NameRef<'_>) -> bool {
    name.as_wire().starts_with(b"\x01*")
}

/// Whether the fields up to the last name can be read.
fn has_names(rtype: Type, rdata: &[u8]) -> bool {
    let mut at = 0;
    rdata_layout(rtype).iter().all(|part| {
        at += match part {
            RdataPart::Octets(len) => *len,
            RdataPart::CharacterString => 1 + rdata.get(at).copied().map_or(0, usize::from),
            RdataPart::Name => match name_in(rdata, at) {
                Some(name) => name.as_wire().len(),
                None => return false,
            },
        };
        at <= rdata.len()
    })
}

/// Whether a record may stand beside those of its name.
pub(super) fn check_cname(old: &Node, record: &RecordRef<'_>) -> Result<(), Refused> {
    let clash = match record.rtype {
        Type::CNAME | Type::DNAME => old.sets(record.class).any(|set| {
            let same_type = set.rtype() == record.rtype;
            let is_other = same_type && !is_same(record.rtype, set.first(), record.rdata);
            let beside = record.rtype == Type::CNAME && !lookup::is_beside_cname(set.rtype());
            is_other || beside
        }),
        other => !lookup::is_beside_cname(other) && old.has(Type::CNAME),
    };
    if clash { Err(Refused::CnameAndOther) } else { Ok(()) }
}
