//! NSEC records that deny one type of one name, or the name itself.

use nodens_wire::{Class, NameRef, Record, Type};
use nodens_zone::dnssec::{nsec_rdata, successor};
use std::ops::RangeInclusive;
use std::sync::LazyLock;

/// What is denied.
pub(super) struct Denied<'n> {
    /// The name that has no such records.
    pub(super) name: NameRef<'n>,
    /// The zone that says so.
    pub(super) zone: NameRef<'n>,
    pub(super) what: What,
    /// Whether the name has a DNAME record, which only its zone knows.
    pub(super) has_dname: bool,
}

/// What a name lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Everything (RFC 9824 section 3.1).
    Name,
    /// One type (RFC 9824 section 3.2).
    Type(Type),
    /// Keys of the zone that begins there (RFC 9824 section 3.4).
    Keys,
}

/// Types of data that resolvers ask for. What a name lacks of them is denied so often that its apex has room of its own
/// for the signatures.
const OF_NAME: [Type; 41] = [
    Type::A,
    Type::HINFO,
    Type::PTR,
    Type::MINFO,
    Type::MX,
    Type::TXT,
    Type::RP,
    Type::AFSDB,
    Type::X25,
    Type::ISDN,
    Type::RT,
    Type::PX,
    Type::GPOS,
    Type::AAAA,
    Type::LOC,
    Type::SRV,
    Type::NAPTR,
    Type::KX,
    Type::CERT,
    Type::APL,
    Type::SSHFP,
    Type::IPSECKEY,
    Type::DHCID,
    Type::TLSA,
    Type::SMIMEA,
    Type::HIP,
    Type::OPENPGPKEY,
    Type::SVCB,
    Type::HTTPS,
    Type::SPF,
    Type::NID,
    Type::L32,
    Type::L64,
    Type::LP,
    Type::EUI48,
    Type::EUI64,
    Type::URI,
    Type::CAA,
    Type::AVC,
    Type::AMTRELAY,
    Type::RESINFO,
];

/// Those that the apex has besides.
const OF_APEX: [Type; 7] =
    [Type::NS, Type::SOA, Type::DNSKEY, Type::CDS, Type::CDNSKEY, Type::CSYNC, Type::ZONEMD];

/// All types of data, those that are not assigned yet and private ones among them (RFC 6895 section 3.1): a name is said
/// to have all but the one that it is denied. What is missing here has no records for a resolver that answers out of
/// NSEC records it knows (RFC 8198).
const DATA: [RangeInclusive<u16>; 4] = [1..=127, 256..=271, 32_768..=32_769, 65_280..=65_534];

/// What no name below the apex is said to have. NS would make it a cut without keys, CNAME and DNAME an alias; the
/// others have a meaning at the apex or at a cut alone, or are no data of a name.
const NOT_BELOW_APEX: [Type; 9] = [
    Type::NS,
    Type::CNAME,
    Type::SOA,
    Type::DNAME,
    Type::OPT,
    Type::DS,
    Type::DNSKEY,
    Type::NSEC3,
    Type::NSEC3PARAM,
];

/// What every name has that is denied something: the proof itself.
const OF_PROOF: [Type; 2] = [Type::RRSIG, Type::NSEC];

/// Whether the type is one that resolvers ask for.
pub(super) fn is_common(rtype: Type) -> bool {
    OF_NAME.contains(&rtype) || OF_APEX.contains(&rtype)
}

/// The NSEC record; nothing where the name is so long that none comes behind it.
pub(super) fn nsec(denied: &Denied<'_>, ttl: u32) -> Option<Record> {
    let Denied { name, zone, what, has_dname } = *denied;
    let next = successor(name, what == What::Keys)?;
    let only = |rtype| nsec_rdata(next.view(), OF_PROOF.into_iter().chain([rtype]));
    let rdata = match what {
        What::Name => only(Type::NXNAME),
        What::Keys => only(Type::NS),
        What::Type(rtype) => {
            let bitmap = if name == zone { &AT_APEX } else { &BELOW_APEX };
            let mut rdata = next.view().as_wire().to_vec();
            bitmap.of(rtype, has_dname).push(&mut rdata);
            rdata
        }
    };
    Some(Record { owner: name.to_name(), rtype: Type::NSEC, class: Class::IN, ttl, rdata })
}

static BELOW_APEX: LazyLock<Bitmap> = LazyLock::new(|| Bitmap::with(&[]));
static AT_APEX: LazyLock<Bitmap> = LazyLock::new(|| Bitmap::with(&OF_APEX));

/// The upper octets of the types in [`DATA`].
const WINDOWS: [u8; 4] = [0, 1, 128, 255];

/// A list of types as an NSEC record has it (RFC 4034 section 4.1.2), in blocks that are not shortened yet: putting
/// hundreds of types into it for each response would take longer than all else.
#[derive(Clone, Default)]
struct Bitmap([[u8; 32]; WINDOWS.len()]);

impl Bitmap {
    /// All types of data but those that only the apex has, and `more`.
    fn with(more: &[Type]) -> Self {
        let mut bitmap = Self::default();
        let data = DATA.into_iter().flatten().map(Type);
        let data = data.filter(|rtype| !NOT_BELOW_APEX.contains(rtype));
        data.chain(more.iter().copied()).for_each(|rtype| bitmap.set(rtype, true));
        bitmap
    }

    /// That of a name which lacks one type.
    fn of(&self, rtype: Type, has_dname: bool) -> Self {
        let mut bitmap = self.clone();
        bitmap.set(Type::DNAME, has_dname);
        if !OF_PROOF.contains(&rtype) {
            bitmap.set(rtype, false);
        }
        bitmap
    }

    fn set(&mut self, rtype: Type, is_there: bool) {
        let [window, low] = rtype.0.to_be_bytes();
        let block = WINDOWS.iter().position(|own| *own == window);
        let block = block.and_then(|at| self.0.get_mut(at));
        if let Some(octet) = block.and_then(|block| block.get_mut(usize::from(low / 8))) {
            let bit = 0x80 >> (low % 8);
            *octet = if is_there { *octet | bit } else { *octet & !bit };
        }
    }

    fn push(&self, rdata: &mut Vec<u8>) {
        for (window, block) in WINDOWS.into_iter().zip(&self.0) {
            let len = block.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1);
            if let Some(octets) = block.get(..len).filter(|octets| !octets.is_empty()) {
                rdata.extend([window, len as u8]);
                rdata.extend_from_slice(octets);
            }
        }
    }
}
