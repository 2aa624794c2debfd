//! Zones from master files: read as a whole or not at all, and again when their files change.

use crate::limits::ZONE_FILE_READS_MAX;
use crate::log::{Level, Sink};
use arc_swap::ArcSwap;
use nodens_wire::{Class, Name, NameRef, Type};
use nodens_zone::data::{Data, Edit, Refused, Served};
use nodens_zone::{
    Includes, Master, RecordRef, Serial, Shown, Sight, Soa, Version, Zone, ZoneTable,
};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Octets of a file that are read at once.
const BUFFER_LEN: usize = 1 << 16;

/// Seconds between two changes of a file that may belong together.
const WRITE_TIME: u64 = 60;

/// Between two attempts to read files that change meanwhile.
const READ_PAUSE: Duration = Duration::from_millis(100);

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
#[derive(Debug, Default)]
struct Known {
    /// When they were read last.
    last: Seen,
    /// When the data were read that are served.
    served: Seen,
}

/// The files of a zone, each as it was before it was read.
pub(crate) type Seen = Vec<(PathBuf, Option<Stamp>)>;

/// Tells one version of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    modified: (i64, i64),
    /// Also when it was allowed to be read.
    changed: (i64, i64),
    size: u64,
    inode: u64,
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            size: metadata.size(),
            inode: metadata.ino(),
        })
    }

    /// Whether it may be `before` with what was written to it afterwards: a file that takes the place of another is
    /// not.
    fn goes_on_from(&self, before: &Self) -> bool {
        let is_soon = self.modified.0.abs_diff(before.modified.0) <= WRITE_TIME;
        self != before && self.inode == before.inode && is_soon
    }
}

/// Whether one of the files has changed since it was `seen`: another process still writes to it.
fn is_written_on(seen: &Seen) -> bool {
    let goes_on = |(path, before): &(PathBuf, Option<Stamp>)| {
        let (now, before) = (Stamp::of(path)?, before.as_ref()?);
        Some(now.goes_on_from(before))
    };
    seen.iter().any(|file| goes_on(file).unwrap_or(false))
}

fn has_changed(seen: &Seen) -> bool {
    seen.iter().any(|(path, stamp)| Stamp::of(path) != *stamp)
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
    /// Something in it is not as it should be.
    #[error("{0}")]
    Content(String),
    /// The SOA record has the serial that was known.
    #[error("no change in SOA serial")]
    Unchanged,
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

    /// Lets the zone be transferred out of `table`, in the place of another of its name.
    pub(crate) fn show(self: &Arc<Self>, table: &Arc<ZoneTable>) {
        self.shown.add(table, self.origin.clone());
        let zone = self.clone() as Arc<dyn Zone>;
        table.update(|update| _ = update.add(self.origin.view(), zone));
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
    pub(crate) fn set_path(&self, path: PathBuf) {
        self.path.store(Arc::new(path));
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

    /// Reads the zone for the first time.
    ///
    /// # Errors
    /// [`LoadError`]; there are no data then.
    pub(crate) fn load(&self, sink: &Sink, directive: &'static str) -> Result<(), LoadError> {
        self.read(None, sink, directive)
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
        let line = match self.read(known.filter(|_| counts), sink, directive) {
            Ok(()) => {
                self.shown.announce();
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
            Err(error @ LoadError::Changing) => {
                let text = format!("\"{path}\" of zone \"{origin}\" is not reloaded: {error}");
                (Level::Info, text)
            }
            Err(LoadError::Content(error)) => {
                (Level::Error, format!("Failed: parsing zone \"{origin}\": {error}"))
            }
        };
        sink.line(line.0, directive, line.1);
    }

    fn read(
        &self,
        known: Option<Serial>,
        sink: &Sink,
        directive: &'static str,
    ) -> Result<(), LoadError> {
        let path = self.path();
        _ = self.directive.set(directive);
        let before = self.served.load_full();
        let base = || before.as_deref().cloned();
        let (seen, read) =
            steadily(|files| read(&path, (self.origin.view(), base()), known, files));
        self.known().last.clone_from(&seen);
        let failure = read.as_ref().err().filter(|error| !matches!(error, LoadError::Unchanged));
        let failure = failure.map(LoadError::to_string);
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
        let Read { data, ignored } = read?;
        self.served.store(data);
        self.known().served = seen;
        if let Some((owner, count)) = ignored {
            let (origin, path) = (&self.origin, path.display());
            let text = format!(
                "{count} records of \"{path}\" are ignored, as they are outside zone \"{origin}\": {owner} is the first"
            );
            sink.line(Level::Warning, directive, text);
        }
        Ok(())
    }
}

/// Reads files until they do not change meanwhile: half a file may be a zone, too. Gives what they were like.
pub(crate) fn steadily<T>(
    mut read: impl FnMut(&Files) -> Result<T, LoadError>,
) -> (Seen, Result<T, LoadError>) {
    let mut seen = Seen::new();
    for attempt in 0..ZONE_FILE_READS_MAX {
        if attempt > 0 {
            std::thread::sleep(READ_PAUSE);
        }
        let files = Files::default();
        let result = read(&files);
        seen = std::mem::take(&mut *files.lock());
        if !has_changed(&seen) {
            return (seen, result);
        }
    }
    (seen, Err(LoadError::Changing))
}

/// What a file holds.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) data: Data,
    /// The first owner outside the zone, and the number of such records.
    ignored: Option<(Name, usize)>,
}

/// Opens files of one zone, and keeps what they were like.
#[derive(Clone, Default)]
pub(crate) struct Files(Arc<Mutex<Seen>>);

impl Files {
    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a file that is no included one.
    pub(crate) fn open_path(&self, path: &Path) -> io::Result<Box<dyn BufRead>> {
        // Before the file is read, so that a change meanwhile is seen.
        self.lock().push((path.to_owned(), Stamp::of(path)));
        // Opening a named pipe would block until another process opens it too.
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "not a regular file"));
        }
        let file = File::open(path)?;
        Ok(Box::new(BufReader::with_capacity(BUFFER_LEN, file)))
    }
}

impl Includes for Files {
    /// A relative path is relative to the file that includes.
    fn open(&mut self, path: &str, from: &str) -> io::Result<(String, Box<dyn BufRead>)> {
        let folder = Path::new(from).parent().unwrap_or(Path::new(""));
        let path = folder.join(path);
        let text = self.open_path(&path)?;
        Ok((path.to_string_lossy().into_owned(), text))
    }
}

/// Reads the zone `origin` out of a file, but not if its serial is `known`.
pub(crate) fn read(
    path: &Path,
    (origin, before): (NameRef<'_>, Option<Data>),
    known: Option<Serial>,
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
    let data = edit.finish().map_err(|error| LoadError::Content(format!("{file}: {error}")))?;
    Ok(Read { data, ignored })
}

/// Reads the zone `origin` out of a file; records outside it are left out.
///
/// # Errors
/// [`LoadError`].
pub(crate) fn read_zone(path: &Path, origin: NameRef<'_>) -> Result<Data, LoadError> {
    let (_, read) = steadily(|files| read(path, (origin, None), None, files));
    read.map(|read| read.data)
}

/// Shows the records of a file, until `see` has seen enough.
///
/// # Errors
/// [`LoadError`], at the first entry that is no record.
pub(crate) fn read_some(
    path: &Path,
    origin: NameRef<'_>,
    mut see: impl FnMut(&RecordRef<'_>) -> ControlFlow<()>,
) -> Result<(), LoadError> {
    let files = Files::default();
    let text = files.open_path(path)?;
    let mut master = Master::new(text, &path.to_string_lossy(), origin, Box::new(files));
    loop {
        match master.next_record() {
            Ok(Some(record)) if see(&record).is_continue() => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(LoadError::Content(error.to_string())),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_change_while_they_are_read_are_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        for changes in 0..=ZONE_FILE_READS_MAX {
            fs::write(&path, "text").unwrap();
            let mut reads = 0;
            let (seen, read) = steadily(|files| {
                drop(files.open_path(&path)?);
                if reads < changes {
                    fs::write(&path, "more text".repeat(reads + 1)).unwrap();
                }
                reads += 1;
                Ok(reads)
            });
            let is_changing = changes == ZONE_FILE_READS_MAX;
            assert_eq!(
                matches!(read, Err(LoadError::Changing)),
                is_changing,
                "{changes}: {read:?}"
            );
            assert_eq!(has_changed(&seen), is_changing);
            if !is_changing {
                assert_eq!(read.unwrap(), changes + 1);
            }
        }
    }
}
