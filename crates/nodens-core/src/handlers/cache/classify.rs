//! What a response is worth to the cache.

use crate::kind::{Kind as ResponseKind, kind_of};
use crate::limits::CACHE_CNAME_CHAIN_MAX;
use nodens_wire::reader::WireError;
use nodens_wire::{
    Class, Flags, HEADER_LEN, Header, NameRef, Rcode, Reader, RecordView, Records, Section, Type,
};

/// The question a response has to belong to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'q> {
    /// QNAME.
    pub(crate) qname: NameRef<'q>,
    /// QTYPE.
    pub(crate) qtype: Type,
    /// QCLASS.
    pub(crate) qclass: Class,
}

/// What was found out about a response.
#[derive(Debug)]
pub(crate) struct Reply {
    /// Its kind; an alias that leads nowhere, with an SOA, is NODATA (RFC 2308 section 2.2).
    pub(crate) kind: ResponseKind,
    /// Whether it may be stored, for as long as its TTLs allow.
    pub(crate) is_cacheable: bool,
    /// Whether its question is the one that was asked.
    pub(crate) is_matching: bool,
    /// Whether it holds records that answer the question.
    pub(crate) is_answering: bool,
    /// Whether it says that an alias exists and its target does not; its signatures have not expired.
    pub(crate) denies_target: bool,
    /// Whether it is incomplete.
    pub(crate) is_truncated: bool,
    /// The lowest TTL of all records; `None` without records.
    pub(crate) ttl_min_s: Option<u32>,
    /// The lowest MINIMUM of the SOA records in the authority section, which limits denials (RFC 2308 section 5);
    /// `u32::MAX` without one.
    pub(crate) soa_minimum_s: u32,
    /// Where the records start.
    pub(crate) records_at: usize,
    /// ANCOUNT, NSCOUNT, ARCOUNT.
    pub(crate) counts: [u16; 3],
}

/// Looks at the response `wire`, which has no OPT record; `ttls_at` gets the position of each
/// record's TTL. With `signed_until`, the time in Unix seconds, expired signatures count.
pub(crate) fn assess(
    wire: &[u8],
    rcode: Rcode,
    question: Question<'_>,
    signed_until: Option<u64>,
    ttls_at: &mut Vec<u16>,
) -> Result<Reply, WireError> {
    let header = Header::read(wire)?;
    let records = Records::of(wire)?;
    let records_at = records.at();
    let (mut has_soa, mut ttl_min_s, mut expired) = (false, None, false);
    let mut soa_minimum_s = u32::MAX;
    let is_matching = is_matching(wire, &header, question);
    let (mut has_alias, mut is_direct) = (false, false);
    ttls_at.clear();
    for record in records {
        let record = record?;
        ttls_at.push(u16::try_from(record.ttl_at).map_err(|_| WireError::TooLong)?);
        ttl_min_s = Some(ttl_min_s.unwrap_or(u32::MAX).min(ttl(record.ttl)));
        if record.section == Section::Authority && record.rtype == Type::SOA {
            has_soa = true;
            soa_minimum_s = soa_minimum_s.min(soa_minimum(wire, &record));
        }
        if record.section == Section::Answer {
            has_alias |= record.rtype == Type::CNAME;
            is_direct |= is_matching && is_at_question(wire, &record, question);
        }
        expired |= signed_until.is_some_and(|now| !is_signature_valid(wire, &record, now));
    }
    let mut kind = kind_of(wire, rcode, question.qtype);
    if expired && kind != ResponseKind::Meta {
        kind = ResponseKind::OtherError;
    }
    let [_, answers, authority, additional] = header.counts;
    let is_answering = rcode == Rcode::NOERROR
        && answers > 0
        && (is_direct && !has_alias || answers_question(wire, question));
    let is_hollow = kind == ResponseKind::NoError && answers > 0 && !is_answering;
    if is_hollow && has_soa {
        kind = ResponseKind::NoData;
    }
    let denies_target =
        rcode == Rcode::NXDOMAIN && has_alias && !expired && is_alias(wire, question);
    let is_truncated = header.flags.has(Flags::TC);
    let is_cacheable = match kind {
        ResponseKind::OtherError | ResponseKind::Meta => false,
        // Without an SOA nobody knows for how long nothing is there (RFC 2308 section 5).
        ResponseKind::NameError => has_soa,
        ResponseKind::NoError => !is_hollow,
        ResponseKind::NoData | ResponseKind::Delegation | ResponseKind::ServerError => true,
    };
    Ok(Reply {
        kind,
        is_cacheable: is_cacheable && !is_truncated,
        is_matching,
        is_answering,
        denies_target,
        is_truncated,
        ttl_min_s,
        soa_minimum_s,
        records_at,
        counts: [answers, authority, additional],
    })
}

/// Whether the response has an OPT record with DO, as one with signatures ought to (RFC 3225).
pub(crate) fn is_dnssec_ok(wire: &[u8]) -> bool {
    let Ok(records) = Records::of(wire) else { return false };
    let mut opts = records.flatten().filter(|record| record.rtype == Type::OPT);
    opts.any(|opt| opt.ttl & u32::from(nodens_wire::edns::DO) != 0)
}

/// A TTL with the top bit set counts as zero (RFC 2181 section 8).
fn ttl(as_sent: u32) -> u32 {
    if as_sent > i32::MAX as u32 { 0 } else { as_sent }
}

/// The last field of an SOA record; 0 if it has none.
fn soa_minimum(wire: &[u8], soa: &RecordView) -> u32 {
    let minimum = wire.get(soa.rdata.clone()).and_then(<[u8]>::last_chunk);
    minimum.map_or(0, |octets| u32::from_be_bytes(*octets))
}

/// The question of the response is the one asked, written out, behind the header.
fn is_matching(wire: &[u8], header: &Header, question: Question<'_>) -> bool {
    let qname = question.qname.as_wire();
    let end = HEADER_LEN + qname.len();
    let mut fields = Reader::new(wire, end);
    header.counts[0] == 1
        && header.flags.has(Flags::QR)
        && wire.get(HEADER_LEN..end).is_some_and(|name| name.eq_ignore_ascii_case(qname))
        && fields.u16("QTYPE") == Ok(question.qtype.0)
        && fields.u16("QCLASS") == Ok(question.qclass.0)
}

/// Whether `now` is within the validity period, in serial arithmetic (RFC 4034 section 3.1.5).
/// Records that are no RRSIG are valid.
fn is_signature_valid(wire: &[u8], record: &RecordView, now: u64) -> bool {
    if record.rtype != Type::RRSIG {
        return true;
    }
    let mut reader = Reader::new(wire, record.rdata.start + 8);
    let (Ok(expiration), Ok(inception)) = (reader.u32("RRSIG"), reader.u32("RRSIG")) else {
        return false;
    };
    let now = now as u32;
    let reached = |later: u32, earlier: u32| later.wrapping_sub(earlier) as i32 >= 0;
    reached(expiration, now) && reached(now, inception)
}

/// Whether the record has QTYPE and QCLASS, and as its owner a pointer to the QNAME.
fn is_at_question(wire: &[u8], record: &RecordView, question: Question<'_>) -> bool {
    record.rtype == question.qtype
        && record.class == question.qclass
        && wire.get(record.owner_at..record.owner_at + 2) == Some(&[0xc0, HEADER_LEN as u8])
}

/// Whether the answer section has records of QTYPE at the end of the aliases that start at
/// QNAME (RFC 1034 section 3.6.2). Ambiguous aliases, loops and overlong chains answer nothing.
fn answers_question(wire: &[u8], question: Question<'_>) -> bool {
    let mut sname = question.qname.as_wire().to_vec();
    for _ in 0..CACHE_CNAME_CHAIN_MAX {
        let Ok(at) = look_at(wire, &sname, question) else { return false };
        match (question.qtype, at.alias) {
            (Type::ANY, _) => return at.has_any,
            (Type::CNAME, alias) => return alias.is_some() && !at.is_ambiguous,
            (_, _) if at.is_ambiguous => return false,
            (_, Some(target)) => sname = target,
            (_, None) => return at.has_type,
        }
    }
    false
}

/// Whether the answer section has an alias at QNAME.
fn is_alias(wire: &[u8], question: Question<'_>) -> bool {
    let at = look_at(wire, question.qname.as_wire(), question);
    at.is_ok_and(|at| at.alias.is_some() && !at.is_ambiguous)
}

/// What the answer section has at one owner name.
#[derive(Default)]
struct AtOwner {
    has_any: bool,
    has_type: bool,
    alias: Option<Vec<u8>>,
    is_ambiguous: bool,
}

fn look_at(wire: &[u8], owner: &[u8], question: Question<'_>) -> Result<AtOwner, WireError> {
    let mut found = AtOwner::default();
    let mut name = Vec::new();
    for record in Records::of(wire)? {
        let record = record?;
        if record.section != Section::Answer {
            break;
        }
        name.clear();
        Reader::new(wire, record.owner_at).name(&mut name)?;
        let same_class = question.qclass == Class::ANY || record.class == question.qclass;
        if !same_class || !name.eq_ignore_ascii_case(owner) {
            continue;
        }
        found.has_any = true;
        found.has_type |= record.rtype == question.qtype;
        if record.rtype == Type::CNAME {
            let mut target = Vec::new();
            Reader::new(wire, record.rdata.start).name(&mut target)?;
            let other = found.alias.as_ref().is_some_and(|a| !a.eq_ignore_ascii_case(&target));
            found.is_ambiguous |= other;
            found.alias = Some(target);
        }
    }
    Ok(found)
}
