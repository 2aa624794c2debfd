//! What a query says beside the parts of the key.
//!
//! An upstream may go by any of it. What is not in the key must not go upstream, or the answer must
//! not be kept: else one client decides what others are told.

use crate::handler::{Job, Resolution};
use crate::limits::{UDP_SIZE_DEFAULT, UDP_SIZE_LARGE, UDP_SIZE_LARGE_FROM};
use nodens_wire::edns::{self, Options, code, push_option};
use nodens_wire::Flags;

/// Bits of the header that a query has a use for (RFC 1035 section 4.1.1, RFC 4035 section 3.2).
const OF_QUERIES: u16 = Flags::RD | Flags::AD | Flags::CD;

/// Clears the bits of header and OPT record that are not in the key: those of responses, the
/// reserved ones, and those behind DO, of which one changes the RCODE (RFC 9824 section 5.1).
pub(super) fn clear_unshared_bits(q: &mut Resolution) {
    q.flags = Flags(q.flags.0 & OF_QUERIES);
    if let Some(edns) = &mut q.edns {
        edns.flags &= edns::DO;
    }
}

/// Takes out what clients say that is neither in the key nor changes the answer: else one of them can have any number of
/// queries for one question under way at the same time, and a forged response only has to fit one of them
/// (CVE-2023-30464). Of options, what `rewrite` sets stays.
pub(super) fn say_the_same(job: &mut Job, udp_size_max: u16) {
    let Some(current) = &mut job.current.edns else { return };
    current.udp_size = shared_udp_size(current.udp_size, udp_size_max);
    if current.options.is_empty() {
        return;
    }
    let Some(asked) = &job.query.edns else { return };
    let mut kept = Vec::with_capacity(current.options.len());
    for (code, data) in Options::new(&current.options) {
        let of_client = asked.options(&job.request).any(|own| own == (code, data));
        // Each subnet has a key of its own.
        if !of_client || !is_harmless(code) || code == code::CLIENT_SUBNET {
            push_option(&mut kept, code, data);
        }
    }
    current.options = kept;
}

/// One of two sizes for what upstreams may send over UDP, within what `bufsize` says. The response to the client is
/// truncated to its own size.
fn shared_udp_size(of_client: u16, max: u16) -> u16 {
    if of_client >= UDP_SIZE_LARGE_FROM.min(max) { UDP_SIZE_LARGE.min(max) } else { UDP_SIZE_DEFAULT.min(max) }
}

/// Whether the client says something in an option that may change the answer: then nobody else
/// gets it. What `rewrite` sets is the operator's, and the same for everybody.
pub(super) fn says_more(job: &Job) -> bool {
    let Some(edns) = &job.current.edns else { return false };
    if edns.options.is_empty() {
        return false;
    }
    let Some(asked) = &job.query.edns else { return false };
    let of_client = || asked.options(&job.request);
    Options::new(&edns.options)
        .any(|(code, data)| !is_harmless(code) && of_client().any(|own| own == (code, data)))
}

/// Options that change nothing but options of the answer, or do not go upstream at all. The client
/// subnet has its own rules.
fn is_harmless(option: u16) -> bool {
    matches!(
        option,
        code::NSID
            | code::DAU
            | code::DHU
            | code::N3U
            | code::CLIENT_SUBNET
            | code::EXPIRE
            | code::COOKIE
            | code::TCP_KEEPALIVE
            | code::PADDING
            | code::KEY_TAG
            | code::EXTENDED_ERROR
            | code::REPORT_CHANNEL
            | code::ZONEVERSION
    )
}
