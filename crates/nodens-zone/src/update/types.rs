//! Types of records in updates: those that are known, and those that may not be changed.

use crate::data::{Data, META_TYPES};
use crate::dnssec::is_made;
use nodens_wire::{Rcode, Type};

/// Whether updates may name the type at all: every type of data, whether it is known here or not (RFC 3597 section 3), and
/// those of questions and messages that have a meaning.
pub fn is_known(rtype: Type) -> bool {
    match rtype.0 {
        0 | u16::MAX => false,
        number if META_TYPES.contains(&number) => {
            matches!(rtype, Type::NXNAME | Type::TKEY | Type::TSIG | Type::ANY)
        }
        _ => true,
    }
}

/// Whether it is a type of questions or of single messages, which no zone has.
pub fn is_meta(rtype: Type) -> bool {
    matches!(
        rtype,
        Type::ANY
            | Type::AXFR
            | Type::IXFR
            | Type::MAILA
            | Type::MAILB
            | Type::OPT
            | Type::TKEY
            | Type::TSIG
            | Type::NXNAME
    )
}

/// Whether records of the type say something of other records that would not hold after a change: signatures,
/// proofs, keys and digests, old ones among them.
pub fn is_derived(rtype: Type) -> bool {
    matches!(
        rtype,
        Type::SIG
            | Type::KEY
            | Type::NXT
            | Type::DS
            | Type::RRSIG
            | Type::NSEC
            | Type::DNSKEY
            | Type::NSEC3
            | Type::NSEC3PARAM
            | Type::TALINK
            | Type::CDS
            | Type::CDNSKEY
            | Type::ZONEMD
            | Type::TA
            | Type::DLV
    )
}

/// Whether a zone is signed here, which decides on types that say something of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing makes them.
    Unsigned,
    /// Signing makes some of them.
    Signed,
}

impl Kind {
    pub(super) fn of(data: &Data) -> Self {
        if data.apex(Type::DNSKEY).is_some() { Self::Signed } else { Self::Unsigned }
    }

    /// Whether such a zone may have records of the type that it was given: in a signed one DS records are
    /// right, as the zone itself proves where there are none.
    pub fn can_have(self, rtype: Type) -> bool {
        !is_derived(rtype) || self == Self::Signed && rtype == Type::DS
    }

    /// The RCODE for an update of such a type; nothing if it may be done.
    pub(super) fn refuses(self, rtype: Type) -> Option<Rcode> {
        match self {
            _ if self.can_have(rtype) => None,
            // BIND answers so for RRSIG, NSEC and NSEC3. Knot says that it is done, and does nothing.
            Self::Signed if is_made(rtype) => Some(Rcode::REFUSED),
            _ => Some(Rcode::NOTIMP),
        }
    }
}

/// Whether a permission may name it: ANY stands for the deletion of all records of a name.
pub fn may_be_allowed(rtype: Type, kind: Kind) -> bool {
    is_known(rtype) && kind.can_have(rtype) && (!is_meta(rtype) || rtype == Type::ANY)
}
