//! Types of records in updates: those that are known, and those that may not be changed.

use nodens_wire::Type;

/// Whether updates may name the type at all: those that CoreDNS knows.
pub fn is_known(rtype: Type) -> bool {
    // WKS, NSAP, ATMA, A6, SINK, and one that was never given.
    const GAPS: [u16; 6] = [11, 22, 34, 38, 40, 54];
    match rtype.0 {
        number @ 1..=65 => !GAPS.contains(&number),
        99..=102 | 104..=109 | 128 | 249 | 250 | 255..=258 | 260 | 261 => true,
        32_768 | 32_769 => true,
        _ => false,
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

/// Whether a permission may name it: ANY stands for the deletion of all records of a name.
pub fn may_be_allowed(rtype: Type) -> bool {
    is_known(rtype) && !is_derived(rtype) && (!is_meta(rtype) || rtype == Type::ANY)
}
