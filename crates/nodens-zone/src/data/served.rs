//! A zone whose data are replaced while others read them.

use super::{Data, room};
use crate::limits::RETIRED_MAX;
use crate::zone::{Advance, Cursor, RecordRef, Soa, Version, Zone};
use arc_swap::{ArcSwapOption, Guard};
use std::collections::VecDeque;
use std::fmt;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A zone that answers queries. Without data it cannot be served: queries fail (SERVFAIL).
///
/// Readers take no lock. They also free nothing: a version that was replaced is kept until its last
/// reader is done, so that it is the one who replaces versions who frees them, and no query waits
/// while a million names are freed.
#[derive(Default)]
pub struct Served {
    now: ArcSwapOption<Data>,
    /// Nothing of most zones, of which there may be a hundred thousand.
    past: Mutex<Option<Box<Past>>>,
}

#[derive(Default)]
struct Past {
    /// Versions that may have readers.
    retired: VecDeque<Arc<Data>>,
    /// What the version shares with those of other zones and they count.
    borrowed: Option<Arc<Shared>>,
    /// What versions of other zones share with this one, which counts it.
    lent: Vec<Arc<Shared>>,
}

/// Octets that two zones share and one of them counts, until one of them has another version.
struct Shared(AtomicU64);

impl Shared {
    /// From now on both count them, or the one that is left does.
    fn count(&self) {
        room::replaced(0, self.0.swap(0, Ordering::Relaxed));
    }
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Served({:?})", *self.load())
    }
}

impl Served {
    /// A zone with data.
    pub fn new(data: Data) -> Self {
        let served = Self::default();
        served.store(data);
        served
    }

    /// The data that there are now. Writes no memory that other CPUs use.
    pub fn load(&self) -> Guard<Option<Arc<Data>>> {
        self.now.load()
    }

    /// Has the processor fetch what [`Served::load`] reads.
    pub(crate) fn fetch(&self) {
        // This lies beside it.
        _ = black_box(self.past.is_poisoned());
    }

    /// The data that there are now, for as long as the caller wants: they are not freed meanwhile.
    pub fn load_full(&self) -> Option<Arc<Data>> {
        self.now.load_full()
    }

    /// Replaces the data. The caller announces the zone afterwards
    /// ([`ZoneTable::announce`](crate::ZoneTable::announce)).
    pub fn store(&self, data: Data) {
        self.replace(Some(Arc::new(data)));
    }

    /// As [`Served::store`], of a version that shares so many octets with that one, which `other` serves: they
    /// count once while both are served.
    pub fn store_beside(&self, data: Data, (other, theirs): (&Self, &Arc<Data>), shared: u64) {
        let shared = shared.min(data.octets()).min(theirs.octets());
        self.replace(Some(Arc::new(data)));
        let debt = {
            let mut past = other.lock();
            // Another version has taken its place, perhaps.
            if !other.now.load().as_ref().is_some_and(|now| Arc::ptr_eq(now, theirs)) {
                return;
            }
            let past = past.get_or_insert_default();
            past.lent.retain(|debt| Arc::strong_count(debt) > 1);
            let debt = Arc::new(Shared(AtomicU64::new(shared)));
            past.lent.push(debt.clone());
            room::replaced(shared, 0);
            debt
        };
        self.lock().get_or_insert_default().borrowed = Some(debt);
    }

    /// Takes the data away, of a zone that has expired or is not wanted any more.
    pub fn clear(&self) {
        self.replace(None);
    }

    /// Frees versions that have no readers any more; gives how many still have some. `store` and
    /// `clear` do this as well, so that it is only needed some time after the last of them.
    pub fn sweep(&self) -> usize {
        let mut guard = self.lock();
        let Some(past) = &mut *guard else { return 0 };
        let all = std::mem::take(&mut past.retired);
        let (kept, unused): (VecDeque<_>, VecDeque<_>) =
            all.into_iter().partition(|data| Arc::strong_count(data) > 1);
        past.retired = kept;
        let left = past.retired.len();
        if left == 0 && past.borrowed.is_none() && past.lent.is_empty() {
            *guard = None;
        }
        drop(guard);
        drop(unused);
        left
    }

    fn replace(&self, data: Option<Arc<Data>>) {
        let after = data.as_ref().map_or(0, |data| data.octets());
        let mut past = self.lock();
        let before = self.now.swap(data);
        if let Some(past) = &mut *past {
            past.borrowed.take().into_iter().for_each(|debt| debt.count());
            past.lent.drain(..).for_each(|debt| debt.count());
        }
        room::replaced(before.as_ref().map_or(0, |data| data.octets()), after);
        let surplus = before.and_then(|before| {
            let retired = &mut past.get_or_insert_default().retired;
            retired.push_back(before);
            if retired.len() > RETIRED_MAX { retired.pop_front() } else { None }
        });
        drop(past);
        drop(surplus);
        self.sweep();
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<Past>>> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.replace(None);
    }
}

impl Zone for Served {
    fn soa(&self) -> Option<Soa> {
        self.load().as_ref().map(|data| data.soa().clone())
    }

    fn version(&self) -> Option<Version> {
        let data = self.load().as_ref().map(Arc::clone)?;
        let (soa, records) = (data.soa().clone(), data.cursor());
        Some(Version { soa, records: Box::new(Held { records, _data: data }) })
    }
}

/// A cursor that counts as a reader of its version, whose records it would free otherwise.
struct Held {
    records: Box<dyn Cursor>,
    /// Let go of after the records.
    _data: Arc<Data>,
}

impl Cursor for Held {
    fn advance(&mut self) -> Advance {
        self.records.advance()
    }

    fn record(&self) -> Option<RecordRef<'_>> {
        self.records.record()
    }
}
