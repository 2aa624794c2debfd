//! NSEC records that deny one type of one name, or the name itself.

use nodens_wire::{Class, NameRef, Record, Type};
use nodens_zone::dnssec::{nsec_rdata, successor};

/// What is denied.
pub(super) struct Denied<'n> {
    /// The name that has no such records.
    pub(super) name: NameRef<'n>,
    /// The zone that says so.
    pub(super) zone: NameRef<'n>,
    pub(super) what: What,
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

/// Types of data that a name is said to have: all that some resolver may ask for. What is missing here has no
/// records for a resolver that answers out of NSEC records it knows (RFC 8198). NS would make the name a cut
/// without keys, CNAME and DNAME an alias.
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

/// What every name has that is denied something: the proof itself.
const OF_PROOF: [Type; 2] = [Type::RRSIG, Type::NSEC];

/// The NSEC record; nothing where the name is so long that none comes behind it.
pub(super) fn nsec(denied: &Denied<'_>, ttl: u32) -> Option<Record> {
    let Denied { name, zone, what } = *denied;
    let (all, more, lacking): (&[Type], &[Type], _) = match what {
        What::Name => (&[], &[Type::NXNAME], None),
        What::Keys => (&[], &[Type::NS], None),
        What::Type(rtype) if name == zone => (&OF_NAME, &OF_APEX, Some(rtype)),
        What::Type(rtype) => (&OF_NAME, &[], Some(rtype)),
    };
    let others = all.iter().chain(more).filter(|rtype| Some(**rtype) != lacking);
    let types = others.chain(&OF_PROOF).copied();
    let next = successor(name, what == What::Keys)?;
    let rdata = nsec_rdata(next.view(), types);
    Some(Record { owner: name.to_name(), rtype: Type::NSEC, class: Class::IN, ttl, rdata })
}
