//! The client subnet option (RFC 7871), by which an upstream tailors an answer to a network.
//!
//! An answer made for one client's network would be wrong for the next client. So a client's own
//! option does not go upstream, and an option that does go there, because the operator wants it,
//! is part of the key.

use crate::handler::Job;
use crate::job::RequestEdns;
use nodens_wire::edns::{self, Options, code};

/// Removes from the question what the client itself said; an option that `rewrite` put in its
/// place stays.
pub(super) fn strip(job: &mut Job) {
    let Some(current) = &mut job.current.edns else { return };
    if current.options.is_empty() {
        return;
    }
    let Some(asked) = &job.query.edns else { return };
    let Some(of_client) = find(job.request.get(asked.options.clone()).unwrap_or_default()) else {
        return;
    };
    if find(&current.options) == Some(of_client) {
        let mut kept = Vec::with_capacity(current.options.len());
        for (code, data) in Options::new(&current.options) {
            if code != code::CLIENT_SUBNET {
                edns::push_option(&mut kept, code, data);
            }
        }
        current.options = kept;
    }
}

/// The option that would go upstream; empty without one.
pub(super) fn of(edns: &Option<RequestEdns>) -> &[u8] {
    match edns {
        Some(edns) if !edns.options.is_empty() => find(&edns.options).unwrap_or_default(),
        _ => &[],
    }
}

fn find(options: &[u8]) -> Option<&[u8]> {
    Options::new(options).find(|(code, _)| *code == code::CLIENT_SUBNET).map(|(_, data)| data)
}
