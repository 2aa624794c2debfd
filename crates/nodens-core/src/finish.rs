//! The last step of every answer: ID, question, OPT, size.

use crate::config::Config;
use crate::job::{Job, Transport};
use nodens_wire::edns::extended_error;
use nodens_wire::shape::{ResponseEdns, shape};
use nodens_wire::{Builder, Flags, HEADER_LEN, MESSAGE_LEN_MAX, Rcode, header};

/// Turns the decided response of `job` into the message for its client, in place.
pub fn finish(config: &Config, job: &mut Job) {
    let block = config.blocks.get(job.current.block);
    let rcode = job.current.response.rcode;
    if !job.current.response.written || job.current.response.wire.len() < HEADER_LEN {
        write_bare(job, rcode);
    }
    restore_question(job);
    let response = &mut job.current.response;
    let own = block.map_or(u16::MAX, |block| block.settings.udp_size_max);
    let udp_size = job.query.udp_size().min(own);
    let edns = job.query.edns.as_ref().map(|edns| ResponseEdns {
        udp_size,
        flags: edns.flags & nodens_wire::edns::DO,
        options: &response.options,
    });
    let limit = match job.recipient.client().transport {
        Transport::Tcp => MESSAGE_LEN_MAX,
        Transport::Udp => usize::from(udp_size),
    };
    let shaped = shape(&mut response.wire, rcode, edns, limit);
    if shaped.is_err() {
        // Only an upstream's or a handler's message can be malformed here.
        write_bare(job, Rcode::SERVFAIL);
    }
    header::set_id(&mut job.current.response.wire, job.query.id);
}

/// Marks a question that cannot wait because too many do.
pub fn refuse_overload(job: &mut Job) {
    let response = &mut job.current.response;
    response.clear();
    response.rcode = Rcode::SERVFAIL;
    response.extended_error(extended_error::OTHER, "too many questions are waiting");
}

/// Header and question with `rcode`, as the server answers what no handler did.
fn write_bare(job: &mut Job, rcode: Rcode) {
    let flags = job.query.flags.reply().with_rcode(rcode);
    let qname = job.query.qname(&job.request);
    let mut builder = Builder::new(&mut job.current.response.wire, job.query.id, flags);
    builder.question(qname, job.query.qtype, job.query.qclass);
}

/// Gives the client its question back as it was asked, letter by letter.
///
/// Owner names that are pointers to the question follow it, which is what makes the case of the
/// question an anti-spoofing measure (0x20).
fn restore_question(job: &mut Job) {
    let range = HEADER_LEN..job.query.question_end();
    let asked = job.request.get(range.clone());
    let given = job.current.response.wire.get_mut(range);
    if let (Some(asked), Some(given)) = (asked, given)
        && asked.eq_ignore_ascii_case(given)
    {
        given.copy_from_slice(asked);
    }
    let flags = job.current.response.flags();
    if !flags.has(Flags::QR) {
        job.current.response.set_flags(flags.with(Flags::QR, true));
    }
}
