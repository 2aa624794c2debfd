//! Connections of listeners that may have few at a time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How many connections a listener has, of all workers.
#[derive(Debug, Default)]
pub(crate) struct Open {
    count: AtomicUsize,
    /// A worker had no place for a new one, and none of its own was idle.
    is_short: AtomicBool,
}

/// Those of every listener, by its number for good: a reload changes how many there may be, not how many
/// there are.
#[derive(Debug, Default)]
pub(crate) struct OpenByListener(Mutex<HashMap<u32, Arc<Open>>>);

/// The connections of a listener, and how many there may be.
#[derive(Clone, Debug)]
pub(crate) struct Few {
    open: Arc<Open>,
    max: usize,
}

/// One of them; dropping it gives its place back.
#[derive(Debug)]
pub(crate) struct Entry(Arc<Open>);

impl OpenByListener {
    /// Those of one listener, of which there may be so many.
    pub(crate) fn few(&self, listener: u32, max: usize) -> Few {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|own, open| *own == listener || Arc::strong_count(open) > 1);
        Few { open: all.entry(listener).or_default().clone(), max }
    }
}

impl Few {
    /// Takes a place, if there is one.
    pub(crate) fn enter(&self) -> Option<Entry> {
        let one_more = |count: usize| (count < self.max).then_some(count + 1);
        let taken = self.open.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        taken.ok().map(|_| Entry(self.open.clone()))
    }

    /// Asks whoever has an idle one to close it.
    pub(crate) fn note_shortage(&self) {
        self.open.is_short.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked so.
    pub(crate) fn is_short(&self) -> bool {
        self.open.is_short.load(Ordering::Relaxed)
    }

    /// It is being done, or not needed any more; says whether nobody else said so before.
    pub(crate) fn end_shortage(&self) -> bool {
        self.open.is_short.swap(false, Ordering::Relaxed)
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.open.count.load(Ordering::Relaxed)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_given_back_and_survive_a_reload() {
        let all = OpenByListener::default();
        let few = all.few(1, 2);
        let (one, two) = (few.enter().unwrap(), few.enter().unwrap());
        assert!(few.enter().is_none());
        // Another configuration of the same listener.
        let more = all.few(1, 3);
        let three = more.enter().unwrap();
        assert_eq!((few.count(), more.enter().is_none()), (3, true));
        assert!(all.few(2, 1).enter().is_some());
        drop((one, two, three));
        assert_eq!(more.count(), 0);
        assert!(!few.is_short());
        more.note_shortage();
        assert!(few.is_short());
        assert_eq!([few.end_shortage(), more.end_shortage()], [true, false]);
        assert!(!more.is_short());
    }
}
