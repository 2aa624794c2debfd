//! A folder whose files are zones: they come and go with the files.

use super::files::Files;
use super::{NAME, Settings};
use crate::authority::set::ZoneSet;
use crate::authority::source::{FileZone, KnownFiles, LoadError};
use crate::log::{Level, Sink};
use arc_swap::{ArcSwap, Guard};
use nodens_wire::Name;
use nodens_zone::{Zone, ZoneTable};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Zones by origin.
type Zones = ZoneSet<Arc<FileZone>>;

/// The zones of a folder as they are now.
#[derive(Debug, Default)]
pub(super) struct Folder {
    zones: ArcSwap<Zones>,
    /// Where they can be transferred.
    tables: Mutex<Vec<Weak<ZoneTable>>>,
    /// What earlier configurations have read.
    known: Arc<KnownFiles>,
    /// What the last look came to, apart from zones.
    rest: Mutex<Rest>,
}

/// Whether somebody still reads a zone that is gone.
fn is_read(zone: &Arc<FileZone>) -> bool {
    if Arc::strong_count(zone) > 1 {
        return true;
    }
    zone.served.clear();
    zone.served.sweep() > 0
}

#[derive(Debug, Default)]
struct Rest {
    /// Files that were no zones, which are read again when they change.
    bad: BTreeMap<Name, Arc<FileZone>>,
    /// Zones whose files are gone, until nobody reads them any more: a worker would free them otherwise.
    gone: Vec<Arc<FileZone>>,
    /// Warnings, which are given once.
    said: BTreeSet<String>,
}

impl Folder {
    /// No zones yet; `known` are those of earlier configurations.
    pub(super) fn new(known: Arc<KnownFiles>) -> Self {
        Self { known, ..Self::default() }
    }

    /// The zones that there are now. Takes no lock.
    pub(super) fn zones(&self) -> Guard<Arc<Zones>> {
        self.zones.load()
    }

    /// Lets the zones be transferred out of `table`, also those that will come.
    pub(super) fn show(&self, table: &Arc<ZoneTable>) {
        self.zones().values().for_each(|zone| zone.show(table));
        self.tables().push(Arc::downgrade(table));
    }

    fn tables(&self) -> MutexGuard<'_, Vec<Weak<ZoneTable>>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes up files that have come or changed, and lets go of zones whose files are gone.
    pub(super) fn look(&self, settings: &Settings, sink: &Sink) {
        let Some(directory) = &settings.directory else { return };
        let before = self.zones.load_full();
        let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut after, mut bad) = (Zones::default(), BTreeMap::new());
        let mut is_changed = false;
        let mut files = Files::below(directory, settings);
        for zone in before.values() {
            files.keep(&zone.origin, &zone.path());
        }
        for text in files.warnings.difference(&rest.said) {
            sink.line(Level::Warning, NAME, text.clone());
        }
        rest.said = files.warnings;
        for (origin, path) in files.found {
            let zone = match before.get(origin.view()) {
                Some(zone) => {
                    if *zone.path() != path {
                        zone.set_path(path);
                    }
                    zone.look(sink, NAME);
                    zone.clone()
                }
                None => {
                    let known = rest.bad.remove(&origin).filter(|zone| *zone.path() == path);
                    let is_known = known.as_ref().is_some_and(|zone| !zone.has_changed());
                    let new = || Arc::new(FileZone::new(origin.clone(), path, false));
                    let zone = known.unwrap_or_else(new);
                    if is_known || !self.load(&zone, sink) {
                        bad.insert(origin, zone);
                        continue;
                    }
                    zone
                }
            };
            is_changed |= before.get(zone.origin.view()).is_none();
            after.insert(&zone.origin.clone(), zone);
        }
        for zone in before.values() {
            if after.get(zone.origin.view()).is_none() {
                is_changed = true;
                self.hide(zone);
                sink.line(Level::Info, NAME, format!("Deleting zone `{}'", zone.origin));
                rest.gone.push(zone.clone());
            }
        }
        rest.bad = bad;
        if is_changed {
            self.zones.store(Arc::new(after));
        }
        drop(before);
        rest.gone.retain(is_read);
    }

    /// Reads a file that was not a zone before; says whether it is one.
    fn load(&self, zone: &Arc<FileZone>, sink: &Sink) -> bool {
        let path = zone.path();
        let shown = path.display();
        let failed = zone.failure();
        if let Err(error) = zone.load(&self.known, sink, NAME) {
            let text = format!("Failed: parse zone `{}' from {shown}: {error}", zone.origin);
            // Where there is no room it is tried again each time, and said to be once.
            let is_said = matches!(error, LoadError::NoRoom) && failed == Some(error.to_string());
            sink.line(if is_said { Level::Debug } else { Level::Warning }, NAME, text);
            return false;
        }
        for table in self.tables().iter().filter_map(Weak::upgrade) {
            zone.show(&table);
        }
        sink.line(Level::Info, NAME, format!("Inserting zone `{}' from: {shown}", zone.origin));
        true
    }

    fn hide(&self, zone: &Arc<FileZone>) {
        for table in self.tables().iter().filter_map(Weak::upgrade) {
            zone.hide(&table);
        }
    }
}


#[cfg(test)]
mod tests {
    use super::*;
    use crate::go_regex::compile;
    use crate::handlers::auto::Pattern;
    use std::time::Duration;

    #[test]
    fn a_zone_that_is_gone_is_freed_by_a_look() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db.example.org");
        std::fs::write(&path, "@ 60 SOA . . 1 2 3 4 5").unwrap();
        let (sender, _log) = std::sync::mpsc::sync_channel(9);
        let (sink, pattern) = (Sink::new(sender), Pattern::new(compile("db.(.*)").unwrap(), "{1}"));
        let directory = Some(folder.path().to_owned());
        let settings = Settings { directory, pattern, reload: Duration::ZERO };
        let zones = Folder::default();
        zones.look(&settings, &sink);
        let origin = Name::parse("example.org.").unwrap();
        let zone = zones.zones().get(origin.view()).unwrap().clone();
        let data = zone.served.load().clone();
        assert!(data.is_some());
        std::fs::remove_file(path).unwrap();
        let gone = || {
            zones.look(&settings, &sink);
            zones.rest.lock().unwrap().gone.len()
        };
        assert_eq!(gone(), 1);
        drop(zone);
        assert_eq!(gone(), 1);
        drop(data);
        assert_eq!(gone(), 0);
    }
}
