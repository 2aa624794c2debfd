//! Zones on disk: a file for each, which a restart goes on with.
//!
//! A file is written anew beside the old one and takes its place once it is on the disk, or differences are
//! appended to it. The system is not asked to write these to the disk at once, nor the first version of a zone,
//! which takes the place of nothing: a process that ends loses nothing, and what a machine that fails loses
//! is found to be missing, and transferred again. Waiting for the disk would take most of the time in which
//! the members of a large catalog come.

use super::lock::Lock;
use crate::limits::STORED_LEN_MIN;
use nodens_wire::SharedName;
use nodens_zone::data::Data;
use nodens_zone::image::{Image, Writer, Written, file_name};
use nodens_zone::journal::Step;
use nodens_zone::refresh::kept_for;
use nodens_zone::secondary::SecondaryZone;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

#[cfg(test)]
mod tests;

/// The file of one zone.
#[derive(Debug)]
pub(super) struct Store {
    /// Those of all zones in it are one: a hundred thousand paths would take much memory.
    folder: Arc<Path>,
    zone: SharedName,
    written: Option<Written>,
    /// Nothing is written while another process has the folder.
    lock: Option<Arc<Lock>>,
    /// [`Lock::losses`] of what is known of the file.
    losses: u32,
    /// The file as it was read while another process had it: its number and octets.
    unsure: Option<(u64, u64)>,
}

/// What a file had.
pub(super) struct Found {
    /// How long ago a primary was last reached.
    pub(super) age: Duration,
    /// The steps that are handed on.
    steps: Vec<Arc<Step>>,
    data: Data,
    /// Where differences begin that are cut or damaged.
    pub(super) damaged_at: Option<u64>,
}

impl Found {
    /// Serves it; whether it may be is the caller's decision.
    pub(super) fn serve(self, zone: &SecondaryZone) {
        zone.replace(self.data, &self.steps);
    }

    pub(super) fn data(&self) -> &Data {
        &self.data
    }
}

impl Store {
    /// The file of `zone` in `folder`.
    pub(super) fn new(folder: impl Into<Arc<Path>>, zone: &SecondaryZone) -> Self {
        let (folder, zone) = (folder.into(), zone.origin().clone());
        Self { folder, zone, written: None, lock: None, losses: 0, unsure: None }
    }

    fn path(&self) -> PathBuf {
        self.folder.join(file_name(self.zone.view()))
    }

    /// Writes only while this lock is ours, which is that of the folder.
    pub(super) fn locked_by(self, lock: Arc<Lock>) -> Self {
        Self { losses: lock.losses(), lock: Some(lock), ..self }
    }

    fn is_locked(&self) -> bool {
        self.lock.as_ref().is_none_or(|lock| lock.is_held())
    }

    fn losses(&self) -> u32 {
        self.lock.as_ref().map_or(0, |lock| lock.losses())
    }

    /// Whether it may be written now. What another process has written meanwhile is not continued.
    fn is_ours(&mut self) -> bool {
        if !self.is_locked() {
            return false;
        }
        let losses = self.losses();
        if std::mem::replace(&mut self.losses, losses) != losses {
            self.written = None;
        }
        if let Some(before) = self.unsure.take()
            && number(&self.path()) != Some(before)
        {
            self.written = None;
        }
        true
    }

    /// The folder that it is in.
    pub(super) fn folder(&self) -> &Arc<Path> {
        &self.folder
    }

    /// Whether it is the file of `other`.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.zone == other.zone && self.folder == other.folder
    }

    /// Whether it is the file of that zone in this folder.
    pub(super) fn is_of(&self, zone: &SecondaryZone, folder: &Path) -> bool {
        self.zone == *zone.origin() && *self.folder == *folder
    }

    /// Goes on with what an earlier configuration has written of what `zone` serves; gives whether there
    /// is that.
    pub(super) fn resume(&mut self, zone: &SecondaryZone) -> bool {
        let serial = zone.data().map(|data| data.soa().serial());
        let known = zone.take_stored().filter(|(path, _)| *path == self.path());
        let known = known.filter(|(_, written)| Some(written.serial) == serial);
        self.written = known.map(|(_, written)| written);
        self.written.is_some()
    }

    /// Leaves it to a later configuration. That reads again what another process may have changed since.
    pub(super) fn leave_to(&self, zone: &SecondaryZone) {
        let is_sure = self.unsure.is_none() && self.losses == self.losses();
        if let Some(written) = self.written.filter(|_| is_sure) {
            zone.set_stored(self.path(), written);
        }
    }

    /// Whether it is the file of `before` with the same content, so that there is nothing to write.
    fn continues(&self, before: &Self) -> bool {
        self.is_same(before) && self.written.is_some() && self.written == before.written
    }

    /// Keeps what is served already, of which `before` was the file; a primary was last reached so long ago.
    ///
    /// # Errors
    /// As [`Store::save`].
    pub(super) fn take_over(
        &mut self,
        before: Option<&Self>,
        data: &Data,
        age: Duration,
    ) -> io::Result<()> {
        if before.is_some_and(|before| self.continues(before)) {
            return Ok(());
        }
        self.save(data, &[])?;
        let reached = SystemTime::now().checked_sub(age);
        if let Some(reached) = reached.filter(|_| self.written.is_some()) {
            self.set_time(reached);
        }
        Ok(())
    }

    /// What the file has; nothing if there is none.
    ///
    /// # Errors
    /// What the system says, [`io::ErrorKind::InvalidData`] if the file is damaged.
    pub(super) fn load(&mut self, zone: &SecondaryZone) -> io::Result<Option<Found>> {
        let file = match open(&self.path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let is_held = self.is_locked();
        let metadata = file.metadata()?;
        let reached = metadata.modified()?;
        self.unsure = (!is_held).then(|| (metadata.ino(), metadata.len()));
        // Many small files are read with one call each. What another process appends meanwhile is found later.
        let mut octets = Vec::new();
        octets.try_reserve_exact(usize::try_from(metadata.len()).unwrap_or(usize::MAX))?;
        file.take(metadata.len()).read_to_end(&mut octets)?;
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let Image { data, steps, version_len, len, check } =
            Image::read(zone.origin(), &octets).map_err(invalid)?;
        let (version_len, len, serial) = (version_len as u64, len as u64, data.soa().serial());
        self.written = Some(Written { serial, version_len, len, check });
        let damaged_at = (len < octets.len() as u64).then_some(len);
        // A clock that was put back since makes it as good as new.
        let age = SystemTime::now().duration_since(reached).unwrap_or_default();
        Ok(Some(Found { age, steps, data, damaged_at }))
    }

    /// Keeps a version, which these steps led to from the one before it.
    ///
    /// # Errors
    /// What the system says; the file may then be that of an earlier version, or gone.
    pub(super) fn save(&mut self, data: &Data, steps: &[Arc<Step>]) -> io::Result<()> {
        if !self.is_ours() {
            self.written = None;
            return Ok(());
        }
        let begins = steps.first().map(|step| step.from.serial());
        let known = self.written.take().filter(|written| Some(written.serial) == begins);
        let most = |written: &Written| (2 * written.version_len).max(STORED_LEN_MIN);
        // Twice the octets of the zone are more than it is worth to read all of them.
        let written = match known.filter(|written| written.len < most(written)) {
            // Somebody has removed the file, perhaps.
            Some(written) => self.append(written, data, steps).or_else(|_| self.replace(data))?,
            None => self.replace(data)?,
        };
        self.written = Some(written);
        Ok(())
    }

    fn append(&self, written: Written, data: &Data, steps: &[Arc<Step>]) -> io::Result<Written> {
        let mut file = OpenOptions::new().append(true).open(self.path())?;
        let len = file.metadata()?.len();
        if len < written.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // What was written in part.
        if len > written.len {
            file.set_len(written.len)?;
        }
        let mut writer = Writer::after(written.check);
        let frames: Vec<u8> = steps.iter().flat_map(|step| writer.step(step)).collect();
        file.write_all(&frames)?;
        let (serial, len) = (data.soa().serial(), written.len + frames.len() as u64);
        Ok(Written { serial, len, check: writer.check(), ..written })
    }

    fn replace(&self, data: &Data) -> io::Result<Written> {
        let path = self.path();
        let new = path.with_extension("new");
        // What is there already must not be lost for something that is not there yet.
        let has_earlier = path.exists();
        let written = match write(&new, data, has_earlier) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(&self.folder)?;
                write(&new, data, has_earlier)
            }
            written => written,
        };
        let result = written.and_then(|written| {
            fs::rename(&new, &path)?;
            if has_earlier {
                sync(&File::open(&self.folder)?)?;
            }
            Ok(written)
        });
        if result.is_err() {
            _ = fs::remove_file(&new);
        }
        result
    }

    /// A primary was reached now, and `data` is served: it is kept if it was not when it came, or if
    /// somebody has removed the file since.
    ///
    /// # Errors
    /// As [`Store::save`].
    pub(super) fn touch(&mut self, data: &Data) -> io::Result<()> {
        if !self.is_ours() {
            return Ok(());
        }
        let is_written = self.written.is_some_and(|written| written.serial == data.soa().serial());
        if is_written && self.set_time(SystemTime::now()) { Ok(()) } else { self.save(data, &[]) }
    }

    /// A primary was reached now, and what is served is not to be kept: the file is as good as it was.
    pub(super) fn renew(&mut self) {
        if self.is_ours() {
            self.set_time(SystemTime::now());
        }
    }

    /// Notes when a primary was reached; false if there is no file.
    fn set_time(&self, reached: SystemTime) -> bool {
        let file = OpenOptions::new().append(true).open(self.path());
        // Where it fails, the zone expires earlier after a restart.
        file.map(|file| _ = file.set_modified(reached)).is_ok()
    }

    /// The folder has become ours. What another process has written since it was read is given if it is later than what
    /// `zone` serves; otherwise that is kept, if it is to be and is not what the file has.
    ///
    /// # Errors
    /// As [`Store::save`].
    pub(super) fn catch_up(
        &mut self,
        zone: &SecondaryZone,
        keeps: bool,
    ) -> io::Result<Option<Found>> {
        if !self.is_ours() {
            return Ok(None);
        }
        let data = zone.data();
        let serial = data.as_ref().map(|data| data.soa().serial());
        if serial.is_some() && self.written.map(|written| written.serial) == serial {
            return Ok(None);
        }
        // What cannot be read is written anew.
        let found = self.load(zone).unwrap_or_default();
        let found = found.filter(|found| is_fresh(found.data(), found.age));
        let theirs = found.as_ref().map(|found| found.data().soa().serial());
        match data {
            _ if theirs > serial => Ok(found),
            Some(data) if keeps && theirs != serial => self.save(&data, &[]).map(|()| None),
            _ => Ok(None),
        }
    }

    /// The zone is not kept any more.
    pub(super) fn remove(&mut self) {
        let is_ours = self.is_ours();
        self.written = None;
        if is_ours {
            _ = fs::remove_file(self.path());
        }
    }
}

/// What tells a file from one that has taken its place or has grown.
fn number(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.ino(), metadata.len()))
}

/// Opens a file to be read. Nothing wants to know when that was, which would be a write to the disk for each of many.
fn open(path: &Path) -> io::Result<File> {
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NOATIME).open(path);
    // The file of another user may be read, but not that way.
    let is_refused = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    if opened.as_ref().is_err_and(is_refused) { File::open(path) } else { opened }
}

/// Writes a version, to the disk if it has to be there at once.
fn write(path: &Path, data: &Data, at_once: bool) -> io::Result<Written> {
    let (mut file, mut writer) = (BufWriter::new(File::create(path)?), Writer::default());
    let mut len: u64 = 0;
    writer.version(data, |octets| {
        len += octets.len() as u64;
        file.write_all(octets)
    })?;
    file.flush()?;
    if at_once {
        sync(file.get_ref())?;
    }
    Ok(Written { serial: data.soa().serial(), version_len: len, len, check: writer.check() })
}

/// Waits until the disk has what was written.
fn sync(file: &File) -> io::Result<()> {
    #[cfg(test)]
    tests::SYNCS.with(|syncs| syncs.set(syncs.get() + 1));
    file.sync_all()
}

/// Whether a version may still be served after so long without a primary.
pub(super) fn is_fresh(data: &Data, age: Duration) -> bool {
    age < kept_for(data.soa().timers())
}
