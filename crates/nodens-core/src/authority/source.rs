//! Zones from master files: read as a whole or not at all, and again when their files change.

use crate::log::{Level, Sink};
use arc_swap::ArcSwap;
use nodens_wire::{Class, Name, NameRef, Type};
use nodens_zone::data::{Data, Edit, Refused, Served};
use nodens_zone::{Master, RecordRef, Serial, Shown, Sight, Soa, Version, Zone, ZoneTable};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

mod files;
mod known;

pub(crate) use files::{Files, Seen, Stamp, changed, steadily};
use files::{has_changed, is_written_on};
pub(crate) use known::KnownFiles;

/// A zone that lies in a file, as one block of the Corefile has it.
#[derive(Debug)]
pub(crate) struct FileZone {
    /// As the Corefile says it.
    pub(crate) origin: Name,
    path: ArcSwap<PathBuf>,
    /// Its data, once the file could be read.
    pub(crate) served: Arc<Served>,
    /// Where it can be transferred.
    shown: Shown,
    /// Whether a changed file is read whatever its serial says.
    by_mtime: bool,
    known: Mutex<Known>,
    /// The directive that reads it, once it has.
    directive: OnceLock<&'static str>,
    /// Why the files could not be read the last time, if they could not.
    failure: Mutex<Option<String>>,
}

impl Zone for FileZone {
    fn soa(&self) -> Option<Soa> {
        self.served.soa()
    }

    fn version(&self) -> Option<Version> {
        self.served.version()
    }

    fn sight(&self) -> Option<Sight> {
        let stamp = self.known().served.first().and_then(|(_, stamp)| *stamp);
        Some(Sight {
            source: self.directive.get().copied().unwrap_or_default(),
            data: self.served.load_full(),
            modified_s: stamp.map(|stamp| stamp.modified.0),
            ..Sight::default()
        })
    }

    fn comes_from(&self) -> String {
        self.path().display().to_string()
    }

    fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What the files of a zone were like.
#[derive(Clone, Debug, Default)]
struct Known {
    /// When they were read last.
    last: Seen,
    /// When the data were read that are served.
    served: Seen,
}

/// Why a file is no zone.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    /// It cannot be opened.
    #[error("{0}")]
    Open(#[from] io::Error),
    /// Somebody writes to it.
    #[error("it changes while it is read")]
    Changing,
    /// The caller did not want it any more.
    #[error("reading was stopped")]
    Stopped,
    /// Something in it is not as it should be.
    #[error("{0}")]
    Content(String),
    /// The SOA record has the serial that was known.
    #[error("no change in SOA serial")]
    Unchanged,
    /// Zones have no memory left for it.
    #[error("{}", Refused::NoRoom)]
    NoRoom,
}

impl FileZone {
    /// A zone without data.
    pub(crate) fn new(origin: Name, path: PathBuf, by_mtime: bool) -> Self {
        Self {
            origin,
            path: ArcSwap::from_pointee(path),
            served: Arc::default(),
            shown: Shown::default(),
            by_mtime,
            known: Mutex::default(),
            directive: OnceLock::new(),
            failure: Mutex::default(),
        }
    }

    /// Lets the zone be transferred out of `table`, unless that has another of its name.
    pub(crate) fn show(self: &Arc<Self>, table: &Arc<ZoneTable>) {
        self.shown.add(table, self.origin.clone());
        let zone = self.clone() as Arc<dyn Zone>;
        table.update(|update| _ = update.add(self.origin.view(), zone));
    }

    /// Says that it has other data than before, to those who transfer it.
    pub(crate) fn announce(&self) {
        self.shown.announce();
    }

    /// Lets it be transferred out of `table` no more.
    pub(crate) fn hide(self: &Arc<Self>, table: &ZoneTable) {
        table.update(|update| _ = update.remove_own(self.origin.view(), self));
    }

    /// The file.
    pub(crate) fn path(&self) -> Arc<PathBuf> {
        self.path.load_full()
    }

    /// Another file has the zone from now on.
    pub(crate) fn set_path(self: &Arc<Self>, path: PathBuf, files: &KnownFiles) {
        files.forget(self);
        self.path.store(Arc::new(path));
        files.add(self);
    }

    /// Whether its files are not as they were when they were read last.
    pub(crate) fn has_changed(&self) -> bool {
        let last = &self.known().last;
        let is_first = last.first().is_some_and(|(first, _)| *first == *self.path());
        !is_first || has_changed(last)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the zone for the first time. What an earlier configuration has read of the same file is taken as it is
    /// if that has not changed since, or if the file cannot be read for a reason that `may_stay` allows.
    ///
    /// # Errors
    /// [`LoadError`]; there are no data then.
    pub(crate) fn load(
        self: &Arc<Self>,
        files: &KnownFiles,
        sink: &Sink,
        directive: &'static str,
        may_stay: impl Fn(&LoadError) -> bool,
    ) -> Result<(), LoadError> {
        _ = self.directive.set(directive);
        let earlier = files.find(&self.path(), &self.origin);
        // Also where it cannot be read now: it may be read later, when the next configuration wants it.
        files.add(self);
        let is_taken = earlier.as_ref().is_some_and(|earlier| self.take(earlier));
        let read =
            if is_taken { Ok(()) } else { self.read(earlier.as_deref(), None, sink, directive) };
        match (read, earlier) {
            (Err(error), Some(earlier)) if may_stay(&error) && self.take_data(&earlier) => {
                self.known().served = earlier.known().served.clone();
                let (origin, path) = (&self.origin, self.path());
                let text = format!(
                    "Failed to read zone \"{origin}\" in \"{}\": {error}: the version before it is served",
                    path.display(),
                );
                sink.line(Level::Error, directive, text);
                Ok(())
            }
            (read, _) => read,
        }
    }

    /// Serves what another one has read, if its files are still as they were then.
    fn take(&self, other: &Self) -> bool {
        let known = other.known().clone();
        // What could not be read since is to be said again.
        if known.last != known.served || other.has_changed() || !self.take_data(other) {
            return false;
        }
        *self.known() = known;
        true
    }

    /// Serves what another one serves.
    fn take_data(&self, other: &Self) -> bool {
        let Some(data) = other.served.load_full() else { return false };
        let shared = data.octets();
        self.served.store_beside(Data::clone(&data), (&other.served, &data), shared);
        true
    }

    /// Reads the zone again if its files have changed, and its serial or, if so configured, only the files. What cannot
    /// be read leaves the last good version in service.
    pub(crate) fn look(&self, sink: &Sink, directive: &'static str) {
        self.served.sweep();
        if !self.has_changed() {
            return;
        }
        let path = self.path();
        let known = self.served.load().as_ref().map(|data| data.soa().serial());
        // Half a file may have been read, which is a zone with the same serial.
        let counts = !self.by_mtime && !is_written_on(&self.known().served);
        let (origin, path) = (&self.origin, path.display());
        let failed = self.failure();
        let line = match self.read(None, known.filter(|_| counts), sink, directive) {
            Ok(()) => {
                self.announce();
                let serial = self.served.load().as_ref().map_or(0, |data| data.soa().serial().0);
                (
                    Level::Info,
                    format!(
                        "Successfully reloaded zone \"{origin}\" in \"{path}\" with {serial} SOA serial"
                    ),
                )
            }
            Err(LoadError::Unchanged) => {
                let serial = known.map_or(0, |serial| serial.0);
                let text = format!(
                    "\"{path}\" has changed, but not the serial {serial} of zone \"{origin}\": not reloaded"
                );
                (Level::Info, text)
            }
            Err(LoadError::Open(error)) => {
                let text = format!("Failed to open zone \"{origin}\" in \"{path}\": {error}");
                (Level::Error, text)
            }
            Err(error @ (LoadError::Changing | LoadError::Stopped)) => {
                let text = format!("\"{path}\" of zone \"{origin}\" is not reloaded: {error}");
                (Level::Info, text)
            }
            // It is tried again each time, and said to be once.
            Err(error @ LoadError::NoRoom) => {
                let text = format!("Failed: reading zone \"{origin}\" in \"{path}\": {error}");
                let is_said = failed.is_some_and(|failed| failed == error.to_string());
                (if is_said { Level::Debug } else { Level::Error }, text)
            }
            Err(LoadError::Content(error)) => {
                (Level::Error, format!("Failed: parsing zone \"{origin}\": {error}"))
            }
        };
        sink.line(line.0, directive, line.1);
    }

    /// Reads the files, as far as the serial is not `known`. The new version shares what it has in common with the one
    /// before it, which may be that of an `earlier` configuration.
    fn read(
        &self,
        earlier: Option<&Self>,
        known: Option<Serial>,
        sink: &Sink,
        directive: &'static str,
    ) -> Result<(), LoadError> {
        let path = self.path();
        let earlier = earlier.and_then(|zone| Some((&*zone.served, zone.served.load_full()?)));
        let own = self.served.load_full();
        let before = earlier.as_ref().map(|(_, data)| data).or(own.as_ref());
        let base = || before.map(|data| Data::clone(data));
        let (seen, read) =
            steadily(|files| read(&path, (self.origin.view(), base()), (known, &|| true), files));
        // There may be room the next time.
        if !matches!(read, Err(LoadError::NoRoom)) {
            self.known().last.clone_from(&seen);
        }
        let failure = read.as_ref().err().filter(|error| !matches!(error, LoadError::Unchanged));
        let failure = failure.map(LoadError::to_string);
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
        let Read { data, ignored, clash, shared } = read?;
        match &earlier {
            Some((zone, before)) => self.served.store_beside(data, (zone, before), shared),
            None => self.served.store(data),
        }
        self.known().served = seen;
        if let Some((owner, count)) = ignored {
            let (origin, path) = (&self.origin, path.display());
            let text = format!(
                "{count} records of \"{path}\" are ignored, as they are outside zone \"{origin}\": {owner} is the first"
            );
            sink.line(Level::Warning, directive, text);
        }
        if let Some(owner) = clash {
            let (origin, path) = (&self.origin, path.display());
            let text = format!(
                "\"{path}\" of zone \"{origin}\" has a CNAME record and other data for {owner}, or two CNAME or DNAME records: secondaries may refuse the zone"
            );
            sink.line(Level::Warning, directive, text);
        }
        Ok(())
    }
}

/// What a file holds.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) data: Data,
    /// The first owner outside the zone, and the number of such records.
    ignored: Option<(Name, usize)>,
    /// The first name with a CNAME record and other data.
    clash: Option<Name>,
    /// Octets that the version before has as well.
    shared: u64,
}

/// Reads the zone `origin` out of a file, but not if its serial is `known`. `goes_on` is asked for each record.
pub(crate) fn read(
    path: &Path,
    (origin, before): (NameRef<'_>, Option<Data>),
    (known, goes_on): (Option<Serial>, &dyn Fn() -> bool),
    files: &Files,
) -> Result<Read, LoadError> {
    let file = path.to_string_lossy();
    let text = files.open_path(path)?;
    let mut master = Master::new(text, &file, origin, Box::new(files.clone()));
    let mut edit = Edit::new(origin, Class::IN).like(before);
    let mut ignored: Option<(Name, usize)> = None;
    let mut has_soa = false;
    loop {
        let record = match master.next_record() {
            Ok(Some(_)) if !goes_on() => return Err(LoadError::Stopped),
            Ok(Some(record)) => record,
            Ok(None) => break,
            Err(error) => return Err(LoadError::Content(error.to_string())),
        };
        if record.rtype == Type::SOA {
            check_soa(&record, origin, &file)?;
            let serial = || nodens_zone::Soa::new(owned(&record)).ok().map(|soa| soa.serial());
            if !has_soa && known.is_some() && serial() == known {
                return Err(LoadError::Unchanged);
            }
            has_soa = true;
        }
        match edit.add(record) {
            Ok(_) => {}
            Err(Refused::OutOfZone) => {
                let first = ignored.get_or_insert_with(|| (record.owner.to_name(), 0));
                first.1 += 1;
            }
            Err(Refused::NoRoom) => return Err(LoadError::NoRoom),
            Err(error) => {
                let (owner, rtype) = (record.owner.to_name(), record.rtype);
                let (file, line) = master.position();
                let text = format!("{file}:{line}: {owner} {rtype}: {error}");
                return Err(LoadError::Content(text));
            }
        }
    }
    if !has_soa {
        let text = format!("file \"{file}\" has no SOA record for origin {origin}");
        return Err(LoadError::Content(text));
    }
    let (shared, clash) = (edit.shared(), edit.clash().map(|name| name.to_name()));
    let data = edit.finish().map_err(|error| LoadError::Content(format!("{file}: {error}")))?;
    Ok(Read { data, ignored, clash, shared })
}

fn check_soa(record: &RecordRef<'_>, origin: NameRef<'_>, file: &str) -> Result<(), LoadError> {
    let owner = record.owner;
    if owner == origin {
        return Ok(());
    }
    let text = format!("file \"{file}\" has SOA owner {owner} that does not match origin {origin}");
    Err(LoadError::Content(text))
}

fn owned(record: &RecordRef<'_>) -> nodens_wire::Record {
    let RecordRef { owner, rtype, class, ttl, rdata } = *record;
    nodens_wire::Record { owner: owner.to_name(), rtype, class, ttl, rdata: rdata.to_vec() }
}
