//! The one function that decides whether a request may be looked at, for every transport.
//!
//! It allocates nothing and does bounded work: the order is length, QR, OPCODE, counts, then the
//! records, of which an admissible request has at most four. An UPDATE may have as many as go into a
//! message: they are only counted off here, and read once it is known who has sent them.

use crate::edns::{Edns, Options};
use crate::header::{Flags, Header};
use crate::name::{NAME_LEN_MAX, NameRef};
use crate::reader::{Reader, WireError};
use crate::record::{Records, Section};
use crate::types::{Class, Opcode, Rcode, Type};
use crate::{HEADER_LEN, UDP_SIZE_MIN};

/// Most answer records of an admissible request (a NOTIFY may carry one SOA, RFC 1996).
const ANSWERS_MAX: u16 = 1;
/// Most authority records (an IXFR request carries one SOA, RFC 1995).
const AUTHORITY_MAX: u16 = 1;
/// Most additional records: OPT and TSIG.
const ADDITIONAL_MAX: u16 = 2;

/// The verdict over a datagram or a framed message from a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// A well-formed request with one question.
    Accept(Query),
    /// An UPDATE (RFC 2136) of one zone, which is what its question names. Its prerequisites and updates are
    /// whole records, but what they say has not been looked at. Few servers take any.
    Update(Query),
    /// Answer with nothing but this header.
    Reject(Header),
    /// Say nothing: not a request, or too short to have an ID.
    Ignore,
}

/// A request's question and EDNS by value and position; the octets stay where they are.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Query {
    /// Identifier chosen by the client.
    pub id: u16,
    /// The flags as received.
    pub flags: Flags,
    /// Octets of the QNAME, which starts behind the header and is not compressed.
    pub qname_len: usize,
    /// QTYPE.
    pub qtype: Type,
    /// QCLASS.
    pub qclass: Class,
    /// The OPT record.
    pub edns: Option<Edns>,
}

impl Query {
    /// The QNAME in `request`, the octets this query was read from.
    pub fn qname<'r>(&self, request: &'r [u8]) -> NameRef<'r> {
        let wire = request.get(HEADER_LEN..HEADER_LEN + self.qname_len).unwrap_or_default();
        if wire.is_empty() { NameRef::root() } else { NameRef::of_checked(wire) }
    }

    /// Where the question section ends.
    pub fn question_end(&self) -> usize {
        HEADER_LEN + self.qname_len + 4
    }

    /// Whether the client set the DO bit.
    pub fn dnssec_ok(&self) -> bool {
        self.edns.as_ref().is_some_and(Edns::dnssec_ok)
    }

    /// The largest UDP response the client takes, in octets; at least 512 (RFC 6891 6.2.3).
    pub fn udp_size(&self) -> u16 {
        self.edns.as_ref().map_or(UDP_SIZE_MIN, |edns| edns.udp_size.max(UDP_SIZE_MIN))
    }
}

/// Decides over `request`.
pub fn admit(request: &[u8]) -> Admission {
    let Ok(header) = Header::read(request) else { return Admission::Ignore };
    if header.flags.has(Flags::QR) {
        return Admission::Ignore;
    }
    if !matches!(header.flags.opcode(), Opcode::QUERY | Opcode::NOTIFY) {
        return admit_other(request, header);
    }
    let [questions, answers, authority, additional] = header.counts;
    if questions != 1
        || answers > ANSWERS_MAX
        || authority > AUTHORITY_MAX
        || additional > ADDITIONAL_MAX
    {
        return reject(header, Rcode::FORMERR);
    }
    match read_query(request, header) {
        Ok(query) => Admission::Accept(query),
        Err(_) => reject(header, Rcode::FORMERR),
    }
}

#[cold]
fn admit_other(request: &[u8], header: Header) -> Admission {
    if header.flags.opcode() != Opcode::UPDATE {
        return reject(header, Rcode::NOTIMP);
    }
    let [zones, _, _, additional] = header.counts;
    if zones != 1 || additional > ADDITIONAL_MAX {
        return reject(header, Rcode::FORMERR);
    }
    match read_query(request, header) {
        Ok(query) => Admission::Update(query),
        Err(_) => reject(header, Rcode::FORMERR),
    }
}

/// The answer to a request with an OPCODE that the server does not have: nothing but a header.
pub fn not_implemented(request: &[u8]) -> Option<Header> {
    match reject(Header::read(request).ok()?, Rcode::NOTIMP) {
        Admission::Reject(header) => Some(header),
        _ => None,
    }
}

/// The QNAME of octets that were not admitted yet; nothing if they are a response, or their QNAME cannot be read.
pub fn qname_of(request: &[u8]) -> Option<NameRef<'_>> {
    if Header::read(request).ok()?.flags.has(Flags::QR) {
        return None;
    }
    let len = read_qname(request).ok()?;
    request.get(HEADER_LEN..HEADER_LEN + len).map(NameRef::of_checked)
}

fn reject(header: Header, rcode: Rcode) -> Admission {
    // Z is zero in every response (RFC 1035 section 4.1.1).
    let flags = header.flags.with(Flags::QR, true).with(Flags::AA | Flags::Z, false);
    let flags = flags.with_rcode(rcode);
    Admission::Reject(Header { id: header.id, flags, counts: [0; 4] })
}

fn read_query(request: &[u8], header: Header) -> Result<Query, WireError> {
    let qname_len = read_qname(request)?;
    let mut reader = Reader::new(request, HEADER_LEN + qname_len);
    let qtype = Type(reader.u16("QTYPE")?);
    let qclass = Class(reader.u16("QCLASS")?);
    let edns = read_edns(request, reader.at(), header)?;
    Ok(Query { id: header.id, flags: header.flags, qname_len, qtype, qclass, edns })
}

/// The length of an uncompressed QNAME; the first name of a message has nothing to point to.
fn read_qname(request: &[u8]) -> Result<usize, WireError> {
    let rest = request.get(HEADER_LEN..).unwrap_or_default();
    // A request may be many times as long as a name.
    let name = rest.get(..NAME_LEN_MAX).unwrap_or(rest);
    let mut len = 0;
    loop {
        match name.get(len) {
            Some(0) => return Ok(len + 1),
            Some(label @ 1..=63) => len += 1 + usize::from(*label),
            Some(64..=191) => return Err(WireError::LabelType(HEADER_LEN + len)),
            Some(192..=255) => return Err(WireError::Pointer(HEADER_LEN + len)),
            None if len >= NAME_LEN_MAX => return Err(WireError::NameTooLong(HEADER_LEN)),
            None => return Err(WireError::Short { at: request.len(), what: "QNAME" }),
        }
    }
}

fn read_edns(
    request: &[u8],
    question_end: usize,
    header: Header,
) -> Result<Option<Edns>, WireError> {
    let [_, behind @ ..] = header.counts;
    if behind == [0; 3] {
        return Ok(None);
    }
    let mut edns = None;
    let mut records = Records::new(request, question_end, header.counts);
    for record in records.by_ref() {
        let record = record?;
        if record.rtype != Type::OPT {
            // The names of a whole message are much work for a stranger.
            let is_update = header.flags.opcode() == Opcode::UPDATE;
            if !is_update || record.section == Section::Additional {
                record.check(request)?;
            }
            continue;
        }
        if record.section != Section::Additional || edns.is_some() {
            return Err(WireError::Opt(record.owner_at));
        }
        let options = request.get(record.rdata.clone()).unwrap_or_default();
        Options::check(options)?;
        edns = Some(Edns::from_fields(record.class.0, record.ttl, record.rdata.clone()));
    }
    Ok(edns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: &[u8] = b"\x07example\x03org\x00\x00\x01\x00\x01";

    fn request(flags: u16, counts: [u16; 4], rest: &[u8]) -> Vec<u8> {
        let mut bytes = Header { id: 7, flags: Flags(flags), counts }.to_bytes().to_vec();
        bytes.extend(rest);
        bytes
    }

    fn rejected(request: &[u8]) -> Rcode {
        match admit(request) {
            Admission::Reject(header) => {
                assert!(header.flags.has(Flags::QR) && !header.flags.has(Flags::Z));
                header.flags.rcode()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_plain_query_is_accepted() {
        let bytes = request(0x0100, [1, 0, 0, 0], QUESTION);
        let Admission::Accept(query) = admit(&bytes) else { panic!() };
        assert_eq!(query.qname(&bytes).to_string(), "example.org.");
        assert_eq!((query.qtype, query.qclass, query.udp_size()), (Type::A, Class::IN, 512));
        assert_eq!(query.question_end(), bytes.len());
    }

    #[test]
    fn edns_is_read_and_a_second_opt_is_refused() {
        let opt = b"\x00\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x04\x00\x03\x00\x00";
        let bytes = request(0, [1, 0, 0, 1], &[QUESTION, opt].concat());
        let Admission::Accept(query) = admit(&bytes) else { panic!() };
        assert!(query.dnssec_ok());
        assert_eq!(query.udp_size(), 1232);
        let edns = query.edns.unwrap();
        assert_eq!(edns.options(&bytes).collect::<Vec<_>>(), [(3, &b""[..])]);
        let bytes = request(0, [1, 0, 0, 2], &[QUESTION, opt, opt].concat());
        assert_eq!(rejected(&bytes), Rcode::FORMERR);
        let bytes = request(0, [1, 1, 0, 0], &[QUESTION, opt].concat());
        assert_eq!(rejected(&bytes), Rcode::FORMERR);
    }

    #[test]
    fn no_more_octets_are_looked_at_than_a_name_may_have() {
        let too_long = Err(WireError::NameTooLong(HEADER_LEN));
        for (labels, expected) in
            [(126, Ok(253)), (127, Ok(255)), (128, too_long), (2000, too_long)]
        {
            let bytes = request(0, [1, 0, 0, 0], &[&b"\x01a".repeat(labels)[..], b"\0"].concat());
            assert_eq!(read_qname(&bytes), expected, "{labels}");
            assert_eq!(
                qname_of(&bytes).map(|name| name.label_count()),
                expected.ok().map(|_| labels)
            );
        }
        // What stands behind is not reached.
        let bytes = request(0, [1, 0, 0, 0], &[&b"\x01a".repeat(500)[..], b"\xc0\x0c"].concat());
        assert_eq!(read_qname(&bytes), too_long);
    }

    #[test]
    fn a_name_is_read_of_what_may_be_a_request() {
        let name = |flags, rest: &[u8]| {
            qname_of(&request(flags, [1, 0, 0, 0], rest)).map(|name| name.to_string())
        };
        assert_eq!(name(0x0100, QUESTION).as_deref(), Some("example.org."));
        assert_eq!(name(0, b"\0").as_deref(), Some("."));
        for (flags, rest) in
            [(0x8000, QUESTION), (0, b""), (0, b"\x03a"), (0, b"\xc0\x0c"), (0, b"\x40a\0")]
        {
            assert_eq!(name(flags, rest), None, "{flags:x} {rest:?}");
        }
        assert_eq!(qname_of(&[0; 11]), None);
    }

    #[test]
    fn what_is_not_a_request_is_ignored() {
        assert_eq!(admit(&[0; 11]), Admission::Ignore);
        assert_eq!(admit(&request(0x8000, [1, 0, 0, 0], QUESTION)), Admission::Ignore);
    }

    #[test]
    fn opcodes_and_counts_are_checked_before_records() {
        assert_eq!(rejected(&request(0x1040, [1, 0, 0, 0], QUESTION)), Rcode::NOTIMP);
        for counts in [[0, 0, 0, 0], [2, 0, 0, 0], [1, 2, 0, 0], [1, 0, 2, 0], [1, 0, 0, 3]] {
            assert_eq!(rejected(&request(0, counts, QUESTION)), Rcode::FORMERR, "{counts:?}");
        }
    }

    #[test]
    fn an_update_has_one_zone_and_as_many_records_as_there_are() {
        let record = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x00\x00\x00";
        for count in [0, 1, 500] {
            let rest = [QUESTION, &record.repeat(2 * usize::from(count))].concat();
            let bytes = request(0x2800, [1, count, count, 0], &rest);
            let Admission::Update(update) = admit(&bytes) else { panic!("{count}") };
            assert_eq!(update.qname(&bytes).to_string(), "example.org.");
            let short = request(0x2800, [1, count, count + 1, 0], &rest);
            assert_eq!(rejected(&short), Rcode::FORMERR);
        }
        for counts in [[0, 0, 0, 0], [2, 0, 0, 0], [1, 0, 0, 3], [1, 65535, 65535, 0]] {
            assert_eq!(rejected(&request(0x2800, counts, QUESTION)), Rcode::FORMERR, "{counts:?}");
        }
        // An OPT record stands in the additional section here as well.
        let opt = b"\x00\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x00";
        let bytes = request(0x2800, [1, 0, 1, 0], &[QUESTION, opt].concat());
        assert_eq!(rejected(&bytes), Rcode::FORMERR);
    }

    #[test]
    fn every_cut_of_a_query_is_refused_or_ignored() {
        let opt = b"\x00\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x04\x00\x03\x00\x00";
        let bytes = request(0, [1, 0, 0, 1], &[QUESTION, opt].concat());
        for len in 0..bytes.len() {
            assert!(!matches!(admit(&bytes[..len]), Admission::Accept(_)), "{len}");
        }
    }
}
