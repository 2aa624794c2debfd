//! What is counted, for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// What happened so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counts {
    /// Rules that somebody else took away and that were put back.
    pub rules_put_back: u64,
    /// Links and addresses that somebody else took away and that were put back.
    pub addresses_put_back: u64,
    /// Failed attempts to make the link or its addresses.
    pub interface_errors: u64,
    /// Failed attempts to make or look at the rules.
    pub rules_errors: u64,
}

/// [`Counts`] in the making.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    pub(crate) rules_put_back: AtomicU64,
    pub(crate) addresses_put_back: AtomicU64,
    pub(crate) interface_errors: AtomicU64,
    pub(crate) rules_errors: AtomicU64,
}

impl Counting {
    pub(crate) fn read(&self) -> Counts {
        let read = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        Counts {
            rules_put_back: read(&self.rules_put_back),
            addresses_put_back: read(&self.addresses_put_back),
            interface_errors: read(&self.interface_errors),
            rules_errors: read(&self.rules_errors),
        }
    }
}

/// Adds to a count.
pub(crate) fn count(cell: &AtomicU64, n: u64) {
    cell.fetch_add(n, Ordering::Relaxed);
}
