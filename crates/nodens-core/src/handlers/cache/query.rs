//! What a query says beside the parts of the key.
//!
//! An upstream may go by any of it. What is not in the key must not go upstream, or the answer must
//! not be kept: else one client decides what others are told.

use crate::handler::{Job, Resolution};
use nodens_wire::edns::{self, Options, code};
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
