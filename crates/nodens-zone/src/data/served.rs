//! A zone whose data are replaced while others read them.

use super::{Data, room};
use crate::limits::RETIRED_MAX;
use crate::zone::{Advance, Cursor, RecordRef, Soa, Version, Zone};
use arc_swap::{ArcSwapOption, Guard};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A zone that answers queries. Without data it cannot be served: queries fail (SERVFAIL).
///
/// Readers take no lock. They also free nothing: a version that was replaced is kept until its last
/// reader is done, so that it is the one who replaces versions who frees them, and no query waits
/// while a million names are freed.
#[derive(Default)]
pub struct Served {
    now: ArcSwapOption<Data>,
    /// Versions that may have readers.
    retired: Mutex<VecDeque<Arc<Data>>>,
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

    /// The data that there are now, for as long as the caller wants: they are not freed meanwhile.
    pub fn load_full(&self) -> Option<Arc<Data>> {
        self.now.load_full()
    }

    /// Replaces the data. The caller announces the zone afterwards
    /// ([`ZoneTable::announce`](crate::ZoneTable::announce)).
    pub fn store(&self, data: Data) {
        let after = data.octets();
        let before = self.now.swap(Some(Arc::new(data)));
        room::replaced(before.as_ref().map_or(0, |data| data.octets()), after);
        self.retire(before);
    }

    /// Takes the data away, of a zone that has expired or is not wanted any more.
    pub fn clear(&self) {
        let before = self.now.swap(None);
        room::replaced(before.as_ref().map_or(0, |data| data.octets()), 0);
        self.retire(before);
    }

    /// Frees versions that have no readers any more; gives how many still have some. `store` and
    /// `clear` do this as well, so that it is only needed some time after the last of them.
    pub fn sweep(&self) -> usize {
        let mut retired = self.lock();
        let all = std::mem::take(&mut *retired);
        let (kept, unused): (VecDeque<_>, VecDeque<_>) =
            all.into_iter().partition(|data| Arc::strong_count(data) > 1);
        *retired = kept;
        let left = retired.len();
        drop(retired);
        drop(unused);
        left
    }

    fn retire(&self, data: Option<Arc<Data>>) {
        let Some(data) = data else { return };
        let mut retired = self.lock();
        retired.push_back(data);
        if retired.len() > RETIRED_MAX {
            retired.pop_front();
        }
        drop(retired);
        self.sweep();
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Data>>> {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let last = self.now.load_full();
        room::replaced(last.map_or(0, |data| data.octets()), 0);
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
