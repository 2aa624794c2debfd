//! The first and the last step of every answer: what EDNS does not allow; ID, question, OPT, size.

use crate::compact;
use crate::config::Config;
use crate::cookie;
use crate::handler::Job;
use crate::limits::PADDING_BLOCK;
use crate::shared::Shared;
use nodens_wire::edns::{CO, DO, code, push_option};
use nodens_wire::padding::pad;
use nodens_wire::shape::{ResponseEdns, shape_as};
use nodens_wire::{Builder, Flags, HEADER_LEN, Rcode, header};
use nodens_zone::tsig::Signer;

#[cfg(test)]
#[path = "finish_tests.rs"]
mod tests;

/// Turns the decided response of `job` into the message for its client, in place.
pub fn finish(config: &Config, shared: &Shared, job: &mut Job) {
    let block = config.blocks.get(job.current.block);
    let mut rcode = job.current.response.rcode;
    if job.query.edns.is_none() && Flags::default().with_rcode(rcode).rcode() != rcode {
        // Its upper bits stand in the OPT record; the lower ones alone mean something else.
        rcode = Rcode::SERVFAIL;
        write_bare(job, rcode);
    }
    if !job.current.response.written || job.current.response.wire.len() < HEADER_LEN {
        write_bare(job, rcode);
    }
    restore_question(job);
    let is_padded = answer_options(config, shared, job);
    let is_compact = block.is_some_and(|block| block.settings.signs) && takes_compact(job);
    if is_compact && rcode == Rcode::NOERROR && compact::denies_name(&job.current.response.wire) {
        rcode = Rcode::NXDOMAIN;
        job.current.response.rcode = rcode;
    }
    let response = &mut job.current.response;
    let own = block.map_or(u16::MAX, |block| block.settings.udp_size_max);
    let udp_size = job.query.udp_size().min(own);
    let edns = job.query.edns.as_ref().map(|edns| ResponseEdns {
        // The client's own figure is given back, even one below the 512 octets that count then.
        udp_size: edns.udp_size.min(own),
        flags: edns.flags & if is_compact { DO | CO } else { DO },
        options: &response.options,
    });
    let limit = job.recipient.client().transport.max_message(udp_size);
    let reserve = job.signer.as_ref().map_or(0, |signer| signer.record_len());
    let limit = usize::from(limit).saturating_sub(reserve);
    let shaped = shape_as(&mut response.wire, rcode, edns, limit, response.traits);
    if is_padded && shaped.is_ok() {
        pad(&mut response.wire, &response.options, PADDING_BLOCK, limit);
    }
    if shaped.is_err() {
        // Only an upstream's or a handler's message can be malformed here.
        write_bare(job, Rcode::SERVFAIL);
    }
    header::set_id(&mut job.current.response.wire, job.query.id);
    if let Some(signer) = job.signer.take() {
        sign(job, signer);
    }
}

/// Whether the client takes NXDOMAIN with a denial that says NOERROR to others (RFC 9824 section 5.1).
fn takes_compact(job: &Job) -> bool {
    job.query.edns.as_ref().is_some_and(|edns| edns.flags & (DO | CO) == DO | CO)
}

/// Signs the message as it will be sent, and has those that follow it signed.
#[cold]
fn sign(job: &mut Job, mut signer: Box<Signer>) {
    let response = &mut job.current.response;
    if signer.sign_next(&mut response.wire, job.received.unix_s).is_err() {
        response.rest = None;
        write_bare(job, Rcode::SERVFAIL);
    } else if let Some(rest) = &mut response.rest {
        rest.sign_with(signer);
    }
}

/// Whether the request's EDNS rules out an answer; the reason is then the response.
///
/// A version other than 0 is answered with the version we have (RFC 6891 section 6.1.3), a cookie
/// of a length none has with FORMERR (RFC 7873 section 5.2.2).
pub fn objection(job: &mut Job) -> bool {
    let Some(edns) = &job.query.edns else { return false };
    let is_malformed = |(option, data)| option == code::COOKIE && !cookie::is_well_formed(data);
    let rcode = if edns.version != 0 {
        Rcode::BADVERS
    } else if !edns.options.is_empty() && edns.options(&job.request).any(is_malformed) {
        Rcode::FORMERR
    } else {
        return false;
    };
    job.current.block = usize::MAX;
    job.current.response.rcode = rcode;
    true
}

/// Answers the options of the request that the server itself answers, whatever the handlers did. True if
/// the response is to be padded, which has to be done last.
fn answer_options(config: &Config, shared: &Shared, job: &mut Job) -> bool {
    let Some(edns) = job.query.edns.as_ref().filter(|edns| !edns.options.is_empty()) else {
        return false;
    };
    let client = job.recipient.client();
    let options = &mut job.current.response.options;
    let (mut cookie, mut keepalive, mut padding) = (None, false, false);
    for (option, data) in edns.options(&job.request) {
        match option {
            // Only the first one counts (RFC 7873 section 5.2).
            code::COOKIE if cookie.is_none() => cookie = Some(data),
            code::TCP_KEEPALIVE => keepalive = true,
            code::PADDING => padding = true,
            _ => {}
        }
    }
    let (ip, now) = (client.peer.ip(), job.received.unix_s);
    let secret = shared.cookies.get();
    if let Some(cookie) = cookie.zip(secret).and_then(|(data, secret)| secret.answer(data, ip, now))
    {
        push_option(options, code::COOKIE, &cookie);
    }
    if keepalive && client.transport.may_keep_alive() {
        let server = config.server_of(client);
        let idle = server.map(|server| server.timeouts).unwrap_or_default().idle;
        let tenths = u16::try_from(idle.as_millis() / 100).unwrap_or(u16::MAX);
        push_option(options, code::TCP_KEEPALIVE, &tenths.to_be_bytes());
    }
    // In the clear it would only cost octets (RFC 7830 section 6).
    padding && client.transport.is_encrypted()
}

/// Header and question with `rcode`, as the server answers what no handler did.
fn write_bare(job: &mut Job, rcode: Rcode) {
    // As `header` may have changed them.
    let flags = job.current.flags.reply().with_rcode(rcode);
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
        && asked != given
        && asked.eq_ignore_ascii_case(given)
    {
        given.copy_from_slice(asked);
    }
    let flags = job.current.response.flags();
    if !flags.has(Flags::QR) {
        job.current.response.set_flags(flags.with(Flags::QR, true));
    }
}
