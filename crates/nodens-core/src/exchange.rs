//! The message that an upstream is asked, and what a reply says.

use crate::handler::{Job, Resolution, Step};
use nodens_wire::edns::{
    Edns, OPT_LEN, Options, code, extended_error, is_well_formed, push_option,
};
use nodens_wire::shape::{ResponseEdns, shape};
use nodens_wire::{
    Builder, Flags, HEADER_LEN, Header, MESSAGE_LEN_MAX, Message, Query, Rcode, Reader, Records,
    Section, Type, WireError,
};
use std::ops::Range;

/// Options that concern one hop only (RFC 7873 section 4, RFC 7828 section 3, RFC 7830 section 3)
/// and so are neither passed on to an upstream nor back to a client.
const HOP_BY_HOP: [u16; 3] = [code::COOKIE, code::TCP_KEEPALIVE, code::PADDING];

/// Octets of QTYPE and QCLASS.
const TYPE_AND_CLASS: usize = 4;

/// Writes the question as the chain left it; the ID is 0. Gives the place of the question in it.
pub(crate) fn compose(q: &mut Resolution, scratch: &mut Vec<u8>) -> Range<usize> {
    let out = &mut q.state.forward.message;
    let opt_len = q.edns.as_ref().map_or(0, |edns| OPT_LEN + edns.options.len());
    out.clear();
    // Growing by and by it would take up to twice as much.
    out.reserve(HEADER_LEN + q.qname.as_wire().len() + TYPE_AND_CLASS + opt_len);
    let flags = q.flags.with(Flags::QR, false).with_rcode(Rcode::NOERROR);
    Builder::new(out, 0, flags).question(q.qname.view(), q.qtype, q.qclass);
    let question = HEADER_LEN..out.len();
    if let Some(edns) = &q.edns {
        scratch.clear();
        for (code, data) in Options::new(&edns.options) {
            if !HOP_BY_HOP.contains(&code) {
                push_option(scratch, code, data);
            }
        }
        let (udp_size, flags) = (edns.udp_size, edns.flags);
        let edns = ResponseEdns { udp_size, flags, options: scratch };
        let shaped = shape(out, Rcode::NOERROR, Some(edns), MESSAGE_LEN_MAX);
        debug_assert!(shaped.is_ok(), "a question was just written");
    }
    question
}

/// What matters of a reply here.
#[derive(Debug)]
pub(crate) struct Facts {
    /// With the upper bits of the OPT record.
    pub rcode: Rcode,
    /// TC is set.
    pub truncated: bool,
    /// NOERROR without a record in the answer section.
    pub no_data: bool,
    edns: Option<Edns>,
    /// Where the last record ends; what follows is no part of the message.
    end: usize,
    /// Names are compressed only against the question, so nothing in the message depends on the
    /// fields that are changed on the way to the client.
    plain: bool,
}

/// Reads a whole reply. What passes is well-formed to the last octet of its last record.
pub(crate) fn examine(reply: &[u8]) -> Result<Facts, WireError> {
    let header = Header::read(reply)?;
    let mut edns: Option<Edns> = None;
    let mut records = Records::of(reply)?;
    let mut plain = true;
    for record in records.by_ref() {
        let record = record?;
        record.validate(reply)?;
        plain &= record.points_to_qname(reply)?;
        if record.rtype == Type::OPT {
            if record.section != Section::Additional || edns.is_some() {
                return Err(WireError::Opt(record.owner_at));
            }
            edns = Some(Edns::from_fields(record.class.0, record.ttl, record.rdata.clone()));
        }
    }
    let upper = edns.as_ref().map_or(0, |edns| u16::from(edns.extended_rcode) << 4);
    let rcode = Rcode(header.flags.rcode().0 | upper);
    let [_, answers, ..] = header.counts;
    let no_data = rcode == Rcode::NOERROR && answers == 0;
    let (truncated, end) = (header.flags.has(Flags::TC), records.at());
    if !plain {
        // A name may run on into what follows the last record, which will be dropped.
        Message::parse(reply.get(..end).unwrap_or(reply))?;
    }
    Ok(Facts { rcode, truncated, no_data, edns, end, plain })
}

/// Cuts a reply that is malformed behind its question down to header and question with TC set,
/// so that the client asks again over TCP. `None` if there is no question to keep.
pub(crate) fn cut_to_question(reply: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut header = Header::read(reply).ok()?;
    let mut reader = Reader::new(reply, HEADER_LEN);
    reader.skip_name().ok()?;
    reader.take(4, "question").ok()?;
    out.clear();
    out.extend_from_slice(reply.get(..reader.at())?);
    header.flags = header.flags.with(Flags::TC, true);
    header.counts = [1, 0, 0, 0];
    header.write_to(out);
    Some(())
}

/// Takes `reply` as the response, with what its OPT record says.
pub(crate) fn adopt(job: &mut Job, reply: &[u8], facts: &Facts) {
    let reply = reply.get(..facts.end).unwrap_or(reply);
    let response = &mut job.current.response;
    response.adopt(reply);
    if !facts.plain {
        // Written anew, names point only at names. What was examined parses.
        _ = response.edit(|_| ());
    }
    response.rcode = facts.rcode;
    let Some(edns) = &facts.edns else { return };
    for (code, data) in edns.options(reply) {
        if is_for_client(code, &job.query, &job.request) && is_well_formed(code, data) {
            push_option(&mut response.options, code, data);
        }
    }
}

/// Fails the query without sending it upstream. The failure is not cached: the next query may have a response.
pub(crate) fn refuse_for_now(job: &mut Job, reason: &str) -> Step {
    reason.clone_into(&mut job.error);
    let response = &mut job.current.response;
    response.extended_error(extended_error::OTHER, reason);
    response.live = true;
    Step::Fail(Rcode::SERVFAIL)
}

/// Whether the client of `query` gets an option of the response: an extended error in any case (RFC 8914 section 3),
/// others if it sent one of that code, as it has a use for no others.
fn is_for_client(code: u16, query: &Query, request: &[u8]) -> bool {
    let is_asked_for = || {
        let asked = query
            .edns
            .as_ref()
            .is_some_and(|edns| edns.options(request).any(|(own, _)| own == code));
        asked && !HOP_BY_HOP.contains(&code)
    };
    code == code::EXTENDED_ERROR || is_asked_for()
}
