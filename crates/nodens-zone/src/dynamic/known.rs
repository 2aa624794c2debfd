//! Zones as long as a configuration has them.

use super::{DynamicZone, lock};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

/// Zones by the files that they are kept in, for as long as a configuration has them: a new one goes on with
/// what is here.
#[derive(Debug, Default)]
pub struct Known(Mutex<HashMap<PathBuf, Weak<DynamicZone>>>);

impl Known {
    /// The zone that is kept in this file.
    pub fn get(&self, database: &Path) -> Option<Arc<DynamicZone>> {
        lock(&self.0).get(database).and_then(Weak::upgrade)
    }

    /// All zones that are kept in files.
    pub fn all(&self) -> Vec<Arc<DynamicZone>> {
        lock(&self.0).values().filter_map(Weak::upgrade).collect()
    }

    /// Remembers a zone that is kept in a file.
    pub fn add(&self, zone: &Arc<DynamicZone>) {
        let Some(database) = zone.database() else { return };
        let mut known = lock(&self.0);
        known.retain(|_, zone| zone.strong_count() > 0);
        known.insert(database.to_owned(), Arc::downgrade(zone));
    }
}
