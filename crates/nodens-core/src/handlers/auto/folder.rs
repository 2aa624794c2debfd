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
use std::path::PathBuf;
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
    /// Zones whose files could not be read, which are read again when they change. They are shown without data:
    /// that they are zones is known.
    bad: BTreeMap<Name, Arc<FileZone>>,
    /// Zones whose files are gone, until nobody reads them any more: a worker would free them otherwise.
    gone: Vec<Arc<FileZone>>,
    /// Warnings, which are given once.
    said: BTreeSet<String>,
    /// Whether the folder could not be read.
    is_unknown: bool,
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
        let rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        self.zones().values().chain(rest.bad.values()).for_each(|zone| zone.show(table));
        table.set_complete(!rest.is_unknown);
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
        before.values().chain(rest.bad.values()).for_each(|own| files.keep(&own.origin, &own.path()));
        for text in files.warnings.difference(&rest.said) {
            sink.line(Level::Warning, NAME, text.clone());
        }
        rest.said = files.warnings;
        rest.is_unknown = !files.is_complete;
        if rest.is_unknown {
            self.set_complete(false);
        }
        for (origin, path) in files.found {
            let zone = match before.get(origin.view()) {
                Some(zone) => {
                    if *zone.path() != path {
                        zone.set_path(path, &self.known);
                    }
                    zone.look(sink, NAME);
                    zone.clone()
                }
                None => match self.take_up(rest.bad.remove(&origin), (&origin, path), sink) {
                    Ok(zone) => zone,
                    Err(zone) => {
                        bad.insert(origin, zone);
                        continue;
                    }
                },
            };
            is_changed |= before.get(zone.origin.view()).is_none();
            after.insert(&zone.origin.clone(), zone);
        }
        // Their files are gone.
        rest.bad.values().for_each(|zone| self.hide(zone));
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
        // Not before all zones are there again.
        self.set_complete(!rest.is_unknown);
        drop(before);
        rest.gone.retain(is_read);
    }

    fn set_complete(&self, is_complete: bool) {
        for table in self.tables().iter().filter_map(Weak::upgrade) {
            table.set_complete(is_complete);
        }
    }

    /// Reads a file that could not be read before, or was not there; without data if it cannot be read now.
    fn take_up(
        &self,
        known: Option<Arc<FileZone>>,
        (origin, path): (&Name, PathBuf),
        sink: &Sink,
    ) -> Result<Arc<FileZone>, Arc<FileZone>> {
        if let Some(zone) = &known {
            if *zone.path() != path {
                zone.set_path(path.clone(), &self.known);
            }
            if !zone.has_changed() {
                return Err(zone.clone());
            }
        }
        let is_new = known.is_none();
        let new = || Arc::new(FileZone::new(origin.clone(), path.clone(), false));
        let zone = known.unwrap_or_else(new);
        let shown = path.display();
        let failed = zone.failure();
        // Another configuration must not lose what this one would keep.
        let may_stay = |error: &_| !matches!(error, LoadError::Stopped | LoadError::Unchanged);
        let loaded = zone.load(&self.known, sink, NAME, may_stay);
        if is_new {
            let tables: Vec<_> = self.tables().iter().filter_map(Weak::upgrade).collect();
            tables.iter().for_each(|table| zone.show(table));
        } else if loaded.is_ok() {
            zone.announce();
        }
        match loaded {
            Ok(()) => {
                let text = format!("Inserting zone `{origin}' from: {shown}");
                sink.line(Level::Info, NAME, text);
                Ok(zone)
            }
            Err(error) => {
                let text = format!("Failed: parse zone `{origin}' from {shown}: {error}");
                // Where there is no room it is tried again each time, and said to be once.
                let is_no_room = matches!(error, LoadError::NoRoom);
                let is_said = is_no_room && failed == Some(error.to_string());
                sink.line(if is_said { Level::Debug } else { Level::Warning }, NAME, text);
                Err(zone)
            }
        }
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
