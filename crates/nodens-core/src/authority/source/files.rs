//! The files of a zone: opened, told apart by what they were like, and read until they do not change meanwhile.

use super::LoadError;
use crate::limits::ZONE_FILE_READS_MAX;
use nodens_zone::Includes;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Octets of a file that are read at once.
const BUFFER_LEN: usize = 1 << 16;

/// Seconds between two changes of a file that may belong together.
const WRITE_TIME: u64 = 60;

/// Between two attempts to read files that change meanwhile.
const READ_PAUSE: Duration = Duration::from_millis(100);

/// The files of a zone, each as it was before it was read.
pub(crate) type Seen = Vec<(PathBuf, Option<Stamp>)>;

/// Tells one version of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(super) modified: (i64, i64),
    /// Also when it was allowed to be read.
    changed: (i64, i64),
    size: u64,
    inode: u64,
}

impl Stamp {
    pub(super) fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            size: metadata.size(),
            inode: metadata.ino(),
        })
    }

    /// What [`Display`](fmt::Display) has written.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let mut time = || {
            let (seconds, nanoseconds) = words.next()?.split_once('.')?;
            Some((seconds.parse().ok()?, nanoseconds.parse().ok()?))
        };
        let (modified, changed) = (time()?, time()?);
        let mut number = || words.next()?.parse().ok();
        let (size, inode) = (number()?, number()?);
        words.next().is_none().then_some(Self { modified, changed, size, inode })
    }

    /// Whether it may be `before` with what was written to it afterwards: a file that takes the place of another is
    /// not.
    fn goes_on_from(&self, before: &Self) -> bool {
        let is_soon = self.modified.0.abs_diff(before.modified.0) <= WRITE_TIME;
        self != before && self.inode == before.inode && is_soon
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { modified, changed, size, inode } = self;
        write!(f, "{}.{:09} {}.{:09} {size} {inode}", modified.0, modified.1, changed.0, changed.1)
    }
}

/// Whether one of the files has changed since it was `seen`: another process still writes to it.
pub(super) fn is_written_on(seen: &Seen) -> bool {
    let goes_on = |(path, before): &(PathBuf, Option<Stamp>)| {
        let (now, before) = (Stamp::of(path)?, before.as_ref()?);
        Some(now.goes_on_from(before))
    };
    seen.iter().any(|file| goes_on(file).unwrap_or(false))
}

pub(super) fn has_changed(seen: &Seen) -> bool {
    changed(seen).is_some()
}

/// The first of the files that is not as it was `seen`.
pub(crate) fn changed(seen: &Seen) -> Option<&Path> {
    let is_other = |(path, stamp): &&(PathBuf, Option<Stamp>)| Stamp::of(path) != *stamp;
    seen.iter().find(is_other).map(|(path, _)| path.as_path())
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
