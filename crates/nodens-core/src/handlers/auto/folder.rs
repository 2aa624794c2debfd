//! A folder whose files are zones: they come and go with the files.

use super::{NAME, Settings};
use crate::authority::set::ZoneSet;
use crate::authority::source::FileZone;
use crate::log::{Level, Sink};
use arc_swap::{ArcSwap, Guard};
use nodens_wire::Name;
use nodens_zone::ZoneTable;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Zones by origin.
type Zones = ZoneSet<Arc<FileZone>>;

/// The zones of a folder as they are now.
#[derive(Debug, Default)]
pub(super) struct Folder {
    zones: ArcSwap<Zones>,
    /// Where they can be transferred.
    tables: Mutex<Vec<Weak<ZoneTable>>>,
}

impl Folder {
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
        let mut after = Zones::default();
        let mut is_changed = false;
        for (origin, path) in files(directory, settings, sink) {
            let zone = match before.get(origin.view()) {
                Some(zone) => {
                    if *zone.path() != path {
                        zone.set_path(path);
                    }
                    zone.look(sink, NAME);
                    zone.clone()
                }
                None => match self.load(origin, path, sink) {
                    Some(zone) => zone,
                    None => continue,
                },
            };
            is_changed |= before.get(zone.origin.view()).is_none();
            after.insert(&zone.origin.clone(), zone);
        }
        for zone in before.values() {
            if after.get(zone.origin.view()).is_none() {
                is_changed = true;
                self.hide(zone);
                sink.line(Level::Info, NAME, format!("Deleting zone `{}'", zone.origin));
            }
        }
        if is_changed {
            self.zones.store(Arc::new(after));
        }
    }

    /// Reads a file that was not a zone before.
    fn load(&self, origin: Name, path: PathBuf, sink: &Sink) -> Option<Arc<FileZone>> {
        let shown = path.display().to_string();
        let zone = Arc::new(FileZone::new(origin, path, false));
        if let Err(error) = zone.load(sink, NAME) {
            let text = format!("Failed: parse zone `{}' from {shown}: {error}", zone.origin);
            sink.line(Level::Warning, NAME, text);
            return None;
        }
        for table in self.tables().iter().filter_map(Weak::upgrade) {
            zone.show(&table);
        }
        sink.line(Level::Info, NAME, format!("Inserting zone `{}' from: {shown}", zone.origin));
        Some(zone)
    }

    fn hide(&self, zone: &FileZone) {
        for table in self.tables().iter().filter_map(Weak::upgrade) {
            table.update(|update| _ = update.remove(zone.origin.view()));
        }
    }
}

/// The files with zones below a folder, by origin; of several for one, the first in the order of paths.
fn files(directory: &Path, settings: &Settings, sink: &Sink) -> BTreeMap<Name, PathBuf> {
    let mut found: BTreeMap<Name, PathBuf> = BTreeMap::new();
    // The folder itself may be a link, as that of a ConfigMap.
    let top = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let mut folders = vec![top];
    while let Some(folder) = folders.pop() {
        let mut entries: Vec<_> = match fs::read_dir(&folder) {
            Ok(entries) => entries.filter_map(Result::ok).collect(),
            Err(error) => {
                let text = format!("error reading {}: failed: {error}", folder.display());
                sink.line(Level::Warning, NAME, text);
                continue;
            }
        };
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            // A link to a folder is not followed.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
                continue;
            }
            let name = entry.file_name();
            match settings.pattern.origin(&name.to_string_lossy()) {
                None => {}
                Some(Err(error)) => {
                    let text = format!("{}: failed: no origin: {error}", entry.path().display());
                    sink.line(Level::Warning, NAME, text);
                }
                Some(Ok(origin)) => match found.get(&origin) {
                    None => _ = found.insert(origin, entry.path()),
                    Some(first) => {
                        let (first, other) = (first.display(), entry.path());
                        let text = format!(
                            "Multiple zone files match origin \"{origin}\": using \"{first}\" instead of \"{}\"",
                            other.display()
                        );
                        sink.line(Level::Warning, NAME, text);
                    }
                },
            }
        }
    }
    found
}
