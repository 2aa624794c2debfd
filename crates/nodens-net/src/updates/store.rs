//! Databases of zones that are updated: a file for each, which has a version and the changes since.
//!
//! A change is on the disk before its client hears of it. A file that has grown is written anew beside the old
//! one and takes its place once it is on the disk. Beside it, `PATH.lock` is locked by the process that writes, and
//! `PATH.cut` has what was cut off last.

use super::reading::READING;
use crate::limits::{DATABASE_LEN_MIN, DATABASE_TURN};
use nodens_zone::data::Data;
use nodens_zone::dynamic::{
    CUT_ENDING, DynamicZone, KnownFile, LOCK_ENDING, NEW_ENDING, Stamp, beside,
};
use nodens_zone::image::{Image, ImageError, Rest, Writer, Written};
use nodens_zone::journal::Step;
use nodens_zone::update::{Next, size};
use std::fmt::Debug;
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Zones and their changes are not for everybody's eyes.
const MODE: u32 = 0o600;

/// What waits until the disk has something.
pub(super) trait Disk: Debug + Send + Sync {
    /// The octets of a file, and how many there are.
    fn sync_file(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    /// The names of the files in a folder.
    fn sync_folder(&self, folder: &File) -> io::Result<()> {
        folder.sync_all()
    }
}

/// That of the system.
#[derive(Debug)]
pub(super) struct System;

impl Disk for System {}

/// The database of one zone, which no other process writes to.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    /// What the file has; nothing if that is not known, after an error.
    written: Option<Written>,
    /// The state in which this process left the file; nothing if that is not known.
    left: Option<Stamp>,
    zone: Arc<DynamicZone>,
    /// Locked until it is closed.
    lock: File,
    fault: Option<Fault>,
}

/// What others have done to files that are this process's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The database was changed: it was written anew.
    Changed,
    /// What is locked is not there any more, so that another process may have the database.
    Unlocked,
}

impl Store {
    /// Takes the database of `zone`, which serves what it has from now on; one that is not there is made of what
    /// is served. Nothing if another process has it.
    ///
    /// # Errors
    /// What the system says, [`io::ErrorKind::InvalidData`] if the file is damaged.
    pub(super) fn open(zone: &Arc<DynamicZone>, disk: &Arc<dyn Disk>) -> io::Result<Option<Self>> {
        let Some(path) = zone.database() else { return Ok(None) };
        let lock = options().create(true).truncate(false).open(beside(path, LOCK_ENDING))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let (path, disk) = (path.to_owned(), disk.clone());
        let written = served_as_left(zone, &path);
        zone.file().begin();
        let (zone, left, fault) = (zone.clone(), None, None);
        let mut store = Self { path, disk, written, left, zone, lock, fault };
        store.note_left();
        let zone = &*store.zone.clone();
        if store.written.is_some() {
            return Ok(Some(store));
        }
        let turn = READING.turn(DATABASE_TURN);
        match fs::read(&store.path) {
            Ok(found) => store.take_up(zone, &found)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Nothing is in memory while it is written.
                drop(turn);
                if let Some((data, _)) = zone.data() {
                    store.fault = zone.file().served().map(|_| Fault::Changed);
                    store.replace(&data)?;
                }
            }
            Err(error) => return Err(error),
        }
        Ok(Some(store))
    }

    fn take_up(&mut self, zone: &DynamicZone, found: &[u8]) -> io::Result<()> {
        let written = Written::of(zone.origin().view(), found).map_err(refused)?;
        match written.rest(found) {
            Rest::Nothing => {}
            Rest::Cut => {
                let len = usize::try_from(written.len).unwrap_or(usize::MAX);
                self.keep_apart(found.get(len..).unwrap_or_default())?;
            }
            Rest::Damaged => return Err(damaged(written.len)),
        }
        let served = zone.data().map(|(data, _)| data);
        let of_served = served.as_ref().map(|data| data.soa().serial());
        let was_left = zone.file().served();
        let is_behind = was_left
            .is_some_and(|own| own.serial > written.serial && of_served == Some(own.serial));
        if let Some(served) = served.as_ref().filter(|_| is_behind) {
            // It had what is served, and that was confirmed.
            self.fault = Some(Fault::Changed);
            return self.replace(served);
        }
        // Two processes that did not know of each other may have reached one serial number.
        let is_other = was_left.is_some_and(|own| own.serial == written.serial && own != written);
        if of_served != Some(written.serial) || is_other {
            // Another process had it meanwhile.
            let image = Image::read_like(zone.origin(), found, served.as_ref()).map_err(refused)?;
            if image.written() != written {
                return Err(damaged(image.written().len));
            }
            let size = size(&image.data);
            zone.replace(Next { data: image.data, size }, &image.steps);
            zone.shown().announce();
        }
        self.written = Some(written);
        self.note_left();
        Ok(())
    }

    /// What was done to the files since the last time, which is to be said.
    pub(super) fn take_fault(&mut self) -> Option<Fault> {
        self.fault.take()
    }

    fn note_left(&mut self) {
        self.left = fs::metadata(&self.path).ok().map(|found| stamp(&found));
    }

    /// Whether the file that is locked is the one that others would lock.
    fn is_locked(&self) -> bool {
        let number = |found: Metadata| (found.dev(), found.ino());
        let (own, there) = (self.lock.metadata(), fs::metadata(beside(&self.path, LOCK_ENDING)));
        own.ok().map(number).is_some_and(|own| there.ok().map(number) == Some(own))
    }

    /// Keeps what is about to be cut off in a file of its own.
    fn keep_apart(&self, rest: &[u8]) -> io::Result<()> {
        let mut file =
            options().create(true).truncate(true).open(beside(&self.path, CUT_ENDING))?;
        file.write_all(rest)?;
        self.disk.sync_file(&file)?;
        self.sync_folder()
    }

    /// Keeps a version, which this step leads to from the one before it. It is on the disk afterwards.
    ///
    /// # Errors
    /// What the system says; the file has the version before, or is written anew with the next one.
    pub(super) fn save(&mut self, data: &Data, step: &Step) -> io::Result<()> {
        if !self.is_locked() {
            self.fault = Some(Fault::Unlocked);
            return Err(io::Error::other("its lock was removed, it is opened again"));
        }
        let known = self.written.take().filter(|own| own.serial == step.from.serial());
        let Some(known) = known else { return self.replace(data) };
        let has_grown = known.len >= DATABASE_LEN_MIN.max(2 * known.version_len);
        // Where there is no room for both files, there may be some for a few octets.
        if has_grown && let Ok(written) = self.prepare(data) {
            return self.commit(written);
        }
        let file = match options().append(true).open(&self.path) {
            // Somebody has removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.fault = Some(Fault::Changed);
                return self.replace(data);
            }
            opened => opened?,
        };
        // Behind what another program has put there, nothing could be read.
        if self.left != Some(stamp(&file.metadata()?)) {
            self.fault = Some(Fault::Changed);
            return self.replace(data);
        }
        self.append(&file, known, data, step)
    }

    fn append(
        &mut self,
        mut file: &File,
        known: Written,
        data: &Data,
        step: &Step,
    ) -> io::Result<()> {
        // What was written in part.
        file.set_len(known.len)?;
        let mut writer = Writer::after(known.check);
        let frame = writer.step(step);
        if let Err(error) = file.write_all(&frame) {
            if file.set_len(known.len).and_then(|()| self.disk.sync_file(file)).is_ok() {
                self.written = Some(known);
                self.note_left();
            }
            return Err(error);
        }
        if let Err(error) = self.disk.sync_file(file) {
            // What is on the disk is not known any more: the next version is written to another file.
            _ = file.set_len(known.len);
            return Err(error);
        }
        let (serial, len) = (data.soa().serial(), known.len + frame.len() as u64);
        self.written = Some(Written { serial, len, check: writer.check(), ..known });
        self.left = file.metadata().ok().map(|found| stamp(&found));
        Ok(())
    }

    fn replace(&mut self, data: &Data) -> io::Result<()> {
        let written = self.prepare(data)?;
        self.commit(written)
    }

    /// Writes a version to another file, which is on the disk afterwards.
    fn prepare(&self, data: &Data) -> io::Result<Written> {
        let new = beside(&self.path, NEW_ENDING);
        let result = self.write(&new, data);
        if result.is_err() {
            _ = fs::remove_file(&new);
        }
        result
    }

    /// Puts that file in the place of the old one.
    fn commit(&mut self, written: Written) -> io::Result<()> {
        fs::rename(beside(&self.path, NEW_ENDING), &self.path)?;
        self.sync_folder()?;
        self.written = Some(written);
        self.note_left();
        Ok(())
    }

    fn write(&self, path: &Path, data: &Data) -> io::Result<Written> {
        let file = options().create(true).truncate(true).open(path)?;
        let (mut file, mut writer, mut len) = (BufWriter::new(file), Writer::default(), 0);
        writer.version(data, |octets| {
            len += octets.len() as u64;
            file.write_all(octets)
        })?;
        file.flush()?;
        self.disk.sync_file(file.get_ref())?;
        Ok(Written { serial: data.soa().serial(), version_len: len, len, check: writer.check() })
    }

    fn sync_folder(&self) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        self.disk.sync_folder(&File::open(folder)?)
    }
}

impl Drop for Store {
    /// Before the lock is given up: another store of this process then knows what is there.
    fn drop(&mut self) {
        let known = self.left.zip(self.written);
        self.zone.file().end(known.map(|(stamp, own)| KnownFile { stamp, written: Some(own) }));
    }
}

/// What the file has, if it is in the state that it was found or left in, as a whole, and its version is served: then
/// it need not be read.
fn served_as_left(zone: &DynamicZone, path: &Path) -> Option<Written> {
    let KnownFile { stamp: then, written } = zone.file().known()?;
    let now = fs::metadata(path).ok()?;
    let (data, _) = zone.data()?;
    let served = zone.file().served();
    let is_served = |own: &Written| {
        let is_own = served.is_none_or(|served| served == *own);
        is_own && own.serial == data.soa().serial() && own.len == then.len
    };
    written.filter(is_served).filter(|_| then == stamp(&now))
}

/// The state of a file.
pub(super) fn stamp(found: &Metadata) -> Stamp {
    Stamp {
        device: found.dev(),
        inode: found.ino(),
        len: found.len(),
        modified: (found.mtime(), found.mtime_nsec()),
    }
}

pub(super) fn refused(error: ImageError) -> io::Error {
    let kind = match error {
        ImageError::NoRoom => io::ErrorKind::OutOfMemory,
        _ => io::ErrorKind::InvalidData,
    };
    io::Error::new(kind, error.to_string())
}

fn damaged(at: u64) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("damaged at octet {at}"))
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(MODE);
    options
}
