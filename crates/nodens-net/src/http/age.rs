//! For how long a response may be kept, as CoreDNS computes it for `Cache-Control`.

use crate::limits::HTTP_AGE_MAX;
use nodens_wire::{HEADER_LEN, Header, Opcode, Rcode, Reader, Records, Section, Type};

/// For what should not be kept, in seconds.
const LEAST: u32 = 5;

/// The least TTL of a response in seconds, within bounds; that of what is no answer is short.
pub(super) fn max_age(message: &[u8]) -> u32 {
    least_ttl(message).unwrap_or(LEAST)
}

fn least_ttl(message: &[u8]) -> Option<u32> {
    let header = Header::read(message).ok()?;
    let rcode = header.flags.rcode();
    let is_query = header.flags.opcode() == Opcode::QUERY;
    if !is_query || is_transfer(message, header) {
        return None;
    }
    let [_, answers, ..] = header.counts;
    let (mut least, mut seen, mut has_soa, mut has_ns) = (HTTP_AGE_MAX, 0, false, false);
    for record in Records::of(message).ok()? {
        let record = record.ok()?;
        if record.rtype == Type::OPT && record.section == Section::Additional {
            continue;
        }
        seen += 1;
        least = least.min(record.ttl);
        let is_authority = record.section == Section::Authority;
        has_soa |= is_authority && record.rtype == Type::SOA;
        has_ns |= is_authority && record.rtype == Type::NS;
    }
    let may_keep = match rcode {
        Rcode::NXDOMAIN => answers == 0,
        // Else it is a referral.
        Rcode::NOERROR => answers > 0 || has_soa || !has_ns,
        _ => false,
    };
    (may_keep && seen > 0).then_some(least)
}

fn is_transfer(message: &[u8], header: Header) -> bool {
    let mut reader = Reader::new(message, HEADER_LEN);
    let [questions, ..] = header.counts;
    if questions == 0 {
        return false;
    }
    let qtype = reader.skip_name().and_then(|()| reader.u16("QTYPE"));
    qtype.is_ok_and(|qtype| [Type::AXFR, Type::IXFR].contains(&Type(qtype)))
}
