//! What primaries say without being asked.

use super::lock;
use crate::serial::Serial;
use nodens_wire::SharedName;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Mutex;

/// Primaries that say that a zone has changed (RFC 1996), each once, until the keeper takes them.
#[derive(Default)]
pub struct Notices {
    waiting: Mutex<BTreeMap<(SharedName, usize), Option<Serial>>>,
    /// Zones of which it was told that they are looked at, and no primary was asked since.
    told: Mutex<HashSet<SharedName>>,
    wake: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Notices({})", lock(&self.waiting).len())
    }
}

impl Notices {
    /// Has `wake` called when there is something to take.
    pub fn on_notice(&self, wake: impl Fn() + Send + Sync + 'static) {
        *lock(&self.wake) = Some(Box::new(wake));
    }

    /// The primary with this index says that `zone` has changed, and perhaps to what: of what it says
    /// before the keeper takes it, the latest version counts, and one that it does not name most. Gives
    /// whether this is the first since a primary was last asked for the zone.
    pub fn note(
        &self,
        zone: impl Into<SharedName>,
        primary: usize,
        serial: Option<Serial>,
    ) -> bool {
        let zone = zone.into();
        let (had_some, is_new) = {
            let mut waiting = lock(&self.waiting);
            let had_some = !waiting.is_empty();
            let is_new = match waiting.entry((zone.clone(), primary)) {
                Entry::Vacant(place) => {
                    place.insert(serial);
                    true
                }
                Entry::Occupied(mut place) => {
                    let is_later = |noted| serial.is_none_or(|serial| serial > noted);
                    if place.get().is_some_and(is_later) {
                        place.insert(serial);
                    }
                    false
                }
            };
            (had_some, is_new)
        };
        if let Some(wake) = lock(&self.wake).as_ref().filter(|_| !had_some) {
            wake();
        }
        is_new && lock(&self.told).insert(zone)
    }

    /// A primary was asked for the zone, or the zone is gone.
    pub fn asked(&self, zone: &SharedName) {
        lock(&self.told).remove(zone);
    }

    /// Takes what was noted.
    pub fn take(&self) -> impl Iterator<Item = (SharedName, usize, Option<Serial>)> + use<> {
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        waiting.into_iter().map(|((zone, primary), serial)| (zone, primary, serial))
    }
}
