//! Which search list a client has, and whether a question is the first of a walk along it.

use crate::handler::Cx;
use nodens_wire::{Name, NameRef};
use std::sync::Arc;

/// Where search lists come from.
#[derive(Debug)]
pub(super) enum Source {
    /// A file that says what all clients have.
    File(Fixed),
}

/// A search list that does not depend on the client.
#[derive(Debug)]
pub(super) struct Fixed {
    /// Search domains, in order.
    pub(super) domains: Arc<[Name]>,
    /// Names with fewer dots are looked for in the search domains first; `None` if nobody says.
    pub(super) ndots: Option<usize>,
}

impl Source {
    /// The search list of the client, if the current question is the first of a walk along it.
    pub(super) fn list_for(&self, cx: &Cx<'_>) -> Option<Arc<[Name]>> {
        let qname = cx.job.current.qname.view();
        match self {
            Self::File(list) => {
                begins_walk(qname, list.domains.first()?.view(), list.ndots)
                    .then(|| list.domains.clone())
            }
        }
    }
}

/// Whether a client with the search domain `first` asks for `qname` at the beginning of a walk:
/// there is something left without the domain, and it has fewer dots than `ndots`. With more dots
/// clients ask for the name alone first, so whoever asks for `qname` means it, or knows already
/// that there is no such name.
fn begins_walk(qname: NameRef<'_>, first: NameRef<'_>, ndots: Option<usize>) -> bool {
    if !qname.is_in_domain(first) {
        return false;
    }
    let labels = qname.label_count() - first.label_count();
    labels > 0 && ndots.is_none_or(|ndots| labels <= ndots)
}
