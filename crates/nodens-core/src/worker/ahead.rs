//! What requests that arrived together will read, before the first of them is looked at.

use super::Worker;
use crate::limits::{FETCHED_AT_ONCE, FETCHED_FROM};
use nodens_wire::{NameRef, qname_of};

impl Worker {
    /// Has the processor fetch what answers to these requests will read, which come next from one listener. This is
    /// of no other effect: what the first one will search is taken to be what most of them will.
    pub fn expect<'r>(&self, listener: u16, requests: impl ExactSizeIterator<Item = &'r [u8]>) {
        if requests.len() < FETCHED_FROM {
            return;
        }
        let mut qnames = requests.filter_map(qname_of);
        let Some(first) = qnames.next() else { return };
        let searches = self.config.searches(listener, first);
        if !searches.is_fetched() {
            return;
        }
        let mut names = [NameRef::root(); FETCHED_AT_ONCE];
        let mut count = 0;
        for (place, name) in names.iter_mut().zip(std::iter::once(first).chain(qnames)) {
            *place = name;
            count += 1;
        }
        searches.fetch(names.get(..count).unwrap_or_default());
    }
}
