//! Databases of zones that are updated: a file for each, which has a version and the changes since.
//!
//! A change is on the disk before its client hears of it. A file that has grown is written anew beside the old
//! one and takes its place once it is on the disk. Beside it, `PATH.lock` is locked by the process that writes.

use crate::limits::DATABASE_LEN_MIN;
use nodens_zone::data::Data;
use nodens_zone::dynamic::DynamicZone;
use nodens_zone::image::{Image, Rest, Writer, Written};
use nodens_zone::journal::Step;
use nodens_zone::update::{Next, octets};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Zones and their changes are not for everybody's eyes.
const MODE: u32 = 0o600;

/// The database of one zone, which no other process writes to.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    /// What the file has; nothing if that is not known, after an error.
    written: Option<Written>,
    /// Locked until it is closed.
    _lock: File,
}

impl Store {
    /// Takes the database of `zone`, which serves what it has from now on; one that is not there is made of what
    /// is served. Nothing if another process has it.
    ///
    /// # Errors
    /// What the system says, [`io::ErrorKind::InvalidData`] if the file is damaged.
    pub(super) fn open(zone: &DynamicZone) -> io::Result<Option<Self>> {
        let Some(path) = zone.database() else { return Ok(None) };
        let lock = options().create(true).truncate(false).open(beside(path, ".lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let mut store = Self { path: path.to_owned(), written: None, _lock: lock };
        match fs::read(path) {
            Ok(found) => store.take_up(zone, &found)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some((data, _)) = zone.data() {
                    store.replace(&data)?;
                }
            }
            Err(error) => return Err(error),
        }
        Ok(Some(store))
    }

    fn take_up(&mut self, zone: &DynamicZone, found: &[u8]) -> io::Result<()> {
        let invalid = |error: String| io::Error::new(io::ErrorKind::InvalidData, error);
        let image =
            Image::read(zone.origin(), found).map_err(|error| invalid(error.to_string()))?;
        if image.rest(found) == Rest::Damaged {
            return Err(invalid(format!("damaged at octet {}", image.len)));
        }
        let Image { data, steps, version_len, len, check } = image;
        let (version_len, len, serial) = (version_len as u64, len as u64, data.soa().serial());
        self.written = Some(Written { serial, version_len, len, check });
        let served = zone.data().map(|(data, _)| data.soa().serial());
        if served != Some(serial) {
            // Another process had it meanwhile.
            let octets = octets(&data);
            zone.replace(Next { data, octets }, &steps);
            zone.shown().announce();
        }
        Ok(())
    }

    /// Keeps a version, which this step leads to from the one before it. It is on the disk afterwards.
    ///
    /// # Errors
    /// What the system says; the file has the version before, or is written anew with the next one.
    pub(super) fn save(&mut self, data: &Data, step: &Step) -> io::Result<()> {
        let known = self.written.take().filter(|own| own.serial == step.from.serial());
        let Some(known) = known else { return self.replace(data) };
        let has_grown = known.len >= DATABASE_LEN_MIN.max(2 * known.version_len);
        // Where there is no room for both files, there may be some for a few octets.
        if has_grown && let Ok(written) = self.prepare(data) {
            return self.commit(written);
        }
        let file = match options().append(true).open(&self.path) {
            // Somebody has removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.replace(data),
            opened => opened?,
        };
        if file.metadata()?.len() < known.len {
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
            if file.set_len(known.len).and_then(|()| file.sync_data()).is_ok() {
                self.written = Some(known);
            }
            return Err(error);
        }
        if let Err(error) = file.sync_data() {
            // What is on the disk is not known any more: the next version is written to another file.
            _ = file.set_len(known.len);
            return Err(error);
        }
        let (serial, len) = (data.soa().serial(), known.len + frame.len() as u64);
        self.written = Some(Written { serial, len, check: writer.check(), ..known });
        Ok(())
    }

    fn replace(&mut self, data: &Data) -> io::Result<()> {
        let written = self.prepare(data)?;
        self.commit(written)
    }

    /// Writes a version to another file, which is on the disk afterwards.
    fn prepare(&self, data: &Data) -> io::Result<Written> {
        let new = beside(&self.path, ".new");
        let result = write(&new, data);
        if result.is_err() {
            _ = fs::remove_file(&new);
        }
        result
    }

    /// Puts that file in the place of the old one.
    fn commit(&mut self, written: Written) -> io::Result<()> {
        fs::rename(beside(&self.path, ".new"), &self.path)?;
        let folder = self.path.parent().unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()?;
        self.written = Some(written);
        Ok(())
    }
}

fn write(path: &Path, data: &Data) -> io::Result<Written> {
    let file = options().create(true).truncate(true).open(path)?;
    let (mut file, mut writer, mut len) = (BufWriter::new(file), Writer::default(), 0);
    writer.version(data, |octets| {
        len += octets.len() as u64;
        file.write_all(octets)
    })?;
    file.flush()?;
    file.get_ref().sync_data()?;
    Ok(Written { serial: data.soa().serial(), version_len: len, len, check: writer.check() })
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(MODE);
    options
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}
