//! The zones that were read from files, for the next configuration.

use super::FileZone;
use nodens_wire::Name;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

type ByFile = HashMap<(PathBuf, Name), Vec<Weak<FileZone>>>;

/// Zones by file and name, for as long as a configuration has them: the next one shares what has not changed, so that
/// a reload takes little memory.
#[derive(Debug, Default)]
pub(crate) struct KnownFiles(Mutex<ByFile>);

impl KnownFiles {
    /// Of the zones that have data of this file, the one that was added last.
    pub(super) fn find(&self, path: &Path, origin: &Name) -> Option<Arc<FileZone>> {
        let key = (path.to_owned(), origin.to_folded());
        let known = self.lock();
        let mut zones = known.get(&key)?.iter().rev().filter_map(Weak::upgrade);
        zones.find(|zone| **zone.path() == *path && zone.served.load().is_some())
    }

    /// Adds one that is read from its file, now or later.
    pub(super) fn add(&self, zone: &Arc<FileZone>) {
        let mut known = self.lock();
        // Those that no configuration has any more go whenever the room would have to grow.
        if known.len() == known.capacity() {
            known.retain(|_, zones| zones.iter().any(|zone| zone.strong_count() > 0));
        }
        let zones = known.entry(key(zone)).or_default();
        let own = Arc::downgrade(zone);
        zones.retain(|zone| zone.strong_count() > 0 && !zone.ptr_eq(&own));
        zones.push(own);
    }

    /// Takes out one that gets another file: it may live for long, and get many.
    pub(super) fn forget(&self, zone: &Arc<FileZone>) {
        let (mut known, key) = (self.lock(), key(zone));
        let Some(zones) = known.get_mut(&key) else { return };
        zones.retain(|other| !std::ptr::eq(other.as_ptr(), Arc::as_ptr(zone)));
        if zones.is_empty() {
            known.remove(&key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, ByFile> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(zone: &FileZone) -> (PathBuf, Name) {
    (PathBuf::clone(&zone.path()), zone.origin.to_folded())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_that_gets_another_file_leaves_nothing_at_the_one_before() {
        let files = KnownFiles::default();
        let new = || {
            let zone = Arc::new(FileZone::new("example.org.".parse().unwrap(), "0".into(), false));
            files.add(&zone);
            zone
        };
        let (moves, stays) = (new(), new());
        for n in 1..1000 {
            moves.set_path(n.to_string().into(), &files);
        }
        let mut left: Vec<_> =
            files.lock().iter().map(|((path, _), zones)| (path.clone(), zones.len())).collect();
        left.sort();
        assert_eq!(left, [("0".into(), 1), ("999".into(), 1)]);
        drop(stays);
    }
}
