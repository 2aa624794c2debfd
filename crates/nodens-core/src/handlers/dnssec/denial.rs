//! NSEC records that deny one type of one name, and of the name itself nothing.

use nodens_wire::{Class, NameRef, Record, Type};
use nodens_zone::dnssec::{nsec_rdata, successor};

/// What is denied.
pub(super) struct Denied<'n> {
    /// The name that has no such records.
    pub(super) name: NameRef<'n>,
    /// The zone that says so.
    pub(super) zone: NameRef<'n>,
    pub(super) qtype: Type,
    /// Whether another zone begins at the name.
    pub(super) is_referral: bool,
}

/// Types that a name is said to have, as in CoreDNS.
const OF_NAME: [Type; 14] = [
    Type::A,
    Type::HINFO,
    Type::TXT,
    Type::AAAA,
    Type::LOC,
    Type::SRV,
    Type::CERT,
    Type::SSHFP,
    Type::RRSIG,
    Type::NSEC,
    Type::TLSA,
    Type::HIP,
    Type::OPENPGPKEY,
    Type::SPF,
];

/// Those that the apex has besides.
const OF_APEX: [Type; 4] = [Type::NS, Type::SOA, Type::MX, Type::DNSKEY];

/// The NSEC record; nothing where the name is so long that none comes behind it.
pub(super) fn nsec(denied: &Denied<'_>, ttl: u32) -> Option<Record> {
    let Denied { name, zone, qtype, is_referral } = *denied;
    let more: &[Type] = match (name == zone, is_referral || qtype == Type::DS) {
        (true, _) => &OF_APEX,
        (false, true) => &[Type::NS],
        (false, false) => &[],
    };
    let is_there = |rtype: &Type| *rtype != qtype || qtype == Type::NSEC;
    let types = OF_NAME.iter().chain(more).copied().filter(is_there);
    let next = successor(name, is_referral)?;
    let rdata = nsec_rdata(next.view(), types);
    Some(Record { owner: name.to_name(), rtype: Type::NSEC, class: Class::IN, ttl, rdata })
}
