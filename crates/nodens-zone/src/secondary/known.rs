//! The zones that there are, for the next configuration.

use super::{Primary, Restoring, SecondaryZone, lock};
use crate::counts;
use nodens_wire::{Name, NameRef};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

type ByPrimaries = HashMap<(Name, Vec<Primary>, Option<Name>), Weak<SecondaryZone>>;

/// Zones by name, primaries and name of the key, for as long as a configuration has them: a new one goes on with what is
/// here. What is counted outlives them.
#[derive(Debug, Default)]
pub struct Known {
    pub(super) zones: Mutex<ByPrimaries>,
    /// What is counted of their transfers.
    pub counts: Arc<counts::Incoming>,
    /// Whether zones have been read from disk.
    pub restoring: Arc<Restoring>,
}

impl Known {
    /// The zone with this name and these primaries, whose queries are signed with a key of this name.
    /// Primaries may have another zone for each key (views), so that none goes on with that of another.
    pub fn zone(
        &self,
        origin: NameRef<'_>,
        primaries: &[Primary],
        key: Option<NameRef<'_>>,
    ) -> Arc<SecondaryZone> {
        let mut known = lock(&self.zones);
        let key_name = key.map(|key| key.to_name().to_folded());
        let key = (origin.to_name().to_folded(), primaries.to_vec(), key_name);
        if let Some(zone) = known.get(&key).and_then(Weak::upgrade) {
            return zone;
        }
        // Those that no configuration has any more go whenever the room would have to grow.
        if known.len() == known.capacity() {
            known.retain(|_, zone| zone.strong_count() > 0);
        }
        let zone = Arc::new(SecondaryZone::new(key.0.clone(), key.1.clone()));
        known.insert(key, Arc::downgrade(&zone));
        zone
    }
}
