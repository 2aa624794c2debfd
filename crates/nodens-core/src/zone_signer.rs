//! Zones that are signed as a whole: when a signed file is due, and how it is made.

mod head;
mod leftovers;

use crate::authority::source::{Files, LoadError, Seen, changed, read, steadily};
use crate::limits::SIGNED_FILE_RECORDS;
use head::Head;
use nodens_wire::{Name, NameRef, Type};
use nodens_zone::data::{Data, Refused};
use nodens_zone::dnssec::{
    Denial, EXPIRATION_SPREAD_S, REMAINING_MIN_S, SignZoneError, SigningKey, Validity,
    in_file_name, sign_zone,
};
use nodens_zone::presentation::record_text;
use nodens_zone::{Advance, Master, RecordRef, Serial};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

const HOUR_S: u32 = 3600;
const DAY_S: u32 = 24 * HOUR_S;

/// How much longer than others signatures have been valid when they are made, at most.
const INCEPTION_JITTER_S: u32 = 18 * HOUR_S;
/// The age at which a zone is signed again.
const AGAIN_AFTER_S: u32 = 6 * DAY_S;

/// Octets of RRSIG RDATA in front of the key tag.
const TAG_AT: usize = 16;
/// Octets of SOA RDATA from the serial number on.
const SOA_NUMBERS: usize = 20;

/// `sign`: signs one zone, from its file to `db.ORIGINsigned` in a folder.
#[derive(Debug)]
pub struct ZoneSigner {
    origin: Name,
    file: PathBuf,
    folder: PathBuf,
    keys: Vec<SigningKey>,
    denial: Denial,
    /// So that zones are not all due at once.
    inception_jitter_s: u32,
    expiration_jitter_s: u32,
    known: Mutex<Known>,
}

/// What the files of the zone were like.
#[derive(Debug, Default)]
struct Known {
    /// When they were read last.
    last: Seen,
    /// When they were read for the signed file, if that was done here.
    signed: Option<Seen>,
}

/// A zone that has been signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The serial number of the signed file.
    pub serial: Serial,
    /// That of the file of the zone.
    pub source_serial: Serial,
}

impl Signed {
    /// Whether secondaries that have the zone as it is in its file would not take the signed one, whose
    /// serial number is not greater (RFC 1982).
    pub fn is_behind(self) -> bool {
        self.source_serial > self.serial
    }
}

/// Why a zone was not signed. The file that was there before is still there.
#[derive(Debug, thiserror::Error)]
pub enum SignFailure {
    /// Its file is no zone.
    #[error("{0}")]
    File(String),
    /// The caller did not want it any more.
    #[error("signing was stopped")]
    Stopped,
    /// See [`SignZoneError`].
    #[error("{0}")]
    Sign(#[from] SignZoneError),
    /// The signed file cannot be written.
    #[error("failed to move zone file into place: {0}")]
    Write(#[from] io::Error),
}

impl SignFailure {
    /// Whether nothing went wrong: the caller did not want it any more.
    pub fn is_stop(&self) -> bool {
        matches!(self, Self::Stopped | Self::Sign(SignZoneError::Stopped))
    }

    /// Whether it is not the zone that is wrong: memory, the disk or random numbers may be there soon.
    pub fn may_pass(&self) -> bool {
        let missing = |error: &SignZoneError| {
            matches!(error, SignZoneError::Refused(Refused::NoRoom) | SignZoneError::Sign)
        };
        match self {
            Self::Write(_) => true,
            Self::Sign(error) => missing(error),
            Self::File(_) | Self::Stopped => false,
        }
    }
}

impl ZoneSigner {
    pub(crate) fn new(
        origin: Name,
        (file, folder): (PathBuf, PathBuf),
        (keys, denial): (Vec<SigningKey>, Denial),
    ) -> Self {
        Self {
            origin,
            file,
            folder,
            keys,
            denial,
            known: Mutex::default(),
            inception_jitter_s: fastrand::u32(0..=INCEPTION_JITTER_S),
            expiration_jitter_s: fastrand::u32(0..=EXPIRATION_SPREAD_S),
        }
    }

    /// The zone.
    pub fn origin(&self) -> NameRef<'_> {
        self.origin.view()
    }

    /// The file with its records.
    pub fn file(&self) -> &Path {
        &self.file
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether its file, or one that it includes, is not as it was when it was read last.
    pub fn has_changed(&self) -> bool {
        changed(&self.known().last).is_some()
    }

    /// Whether it would write the same as another signer, but for the times.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        fn keys(signer: &ZoneSigner) -> BTreeSet<&[u8]> {
            signer.keys.iter().map(SigningKey::rdata).collect()
        }
        self.origin == other.origin
            && self.file == other.file
            && self.denial == other.denial
            && keys(self) == keys(other)
    }

    /// The file that is written.
    pub fn signed_file(&self) -> PathBuf {
        self.folder.join(format!("db.{}signed", in_file_name(&self.origin)))
    }

    /// The key tags, with commas.
    pub fn key_tags(&self) -> String {
        let tags = self.keys.iter().map(|key| key.tag().to_string());
        tags.collect::<Vec<_>>().join(",")
    }

    /// Why the zone has to be signed at a time in Unix seconds; nothing if it has not.
    pub fn reason(&self, now_s: u64) -> Option<String> {
        let path = self.signed_file();
        let (mut tags, mut reason) = (BTreeSet::new(), None);
        let mut left = SIGNED_FILE_RECORDS;
        let see = |record: &RecordRef<'_>| {
            if let Some(head) = signature_of_soa(record) {
                reason = reason.take().or_else(|| reason_in(head, now_s));
                tags.extend(head.get(TAG_AT..).and_then(<[u8]>::first_chunk).copied());
            }
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        match read_some(&path, self.origin(), see) {
            Ok(()) => {}
            Err(LoadError::Open(error)) => {
                return Some(format!("open {}: {error}", path.display()));
            }
            Err(error) => return Some(error.to_string()),
        }
        if reason.is_some() {
            return reason;
        }
        let own: BTreeSet<[u8; 2]> = self.keys.iter().map(|key| key.tag().to_be_bytes()).collect();
        if tags.is_empty() {
            return Some(format!("no SOA RRSIG found in first {SIGNED_FILE_RECORDS} records"));
        }
        if tags != own {
            return Some(format!("it is not signed with the keys {} alone", self.key_tags()));
        }
        self.reason_in_files(&path)
    }

    /// Why a signed file is not made of what there is now.
    fn reason_in_files(&self, path: &Path) -> Option<String> {
        let has_changed = |seen: &Seen| Some(format!("{} has changed", changed(seen)?.display()));
        if let Some(seen) = &self.known().signed {
            return has_changed(seen);
        }
        let Some(Head { seen, denial }) = Head::read(path) else {
            return Some("it does not say which files it was made of".to_owned());
        };
        if denial != self.denial {
            return Some("it has NSEC records in the place of NSEC3, or the reverse".to_owned());
        }
        if seen.first().is_none_or(|(first, _)| *first != self.file) {
            return Some(format!("it was not made of {}", self.file.display()));
        }
        has_changed(&seen)
    }

    /// Signs the zone at a time in Unix seconds. That is its serial number, too, if it is greater than that
    /// of the signed file before, which else is counted up. `goes_on` is asked for each name and record.
    ///
    /// # Errors
    /// [`SignFailure`].
    pub fn sign(&self, now_s: u64, goes_on: &dyn Fn() -> bool) -> Result<Signed, SignFailure> {
        let zone = || (self.origin(), None);
        let (seen, read) = steadily(|files| read(&self.file, zone(), (None, goes_on), files));
        self.known().last.clone_from(&seen);
        let data = match read {
            Ok(read) => read.data,
            Err(LoadError::Stopped) => return Err(SignFailure::Stopped),
            Err(LoadError::NoRoom) => return Err(SignZoneError::from(Refused::NoRoom).into()),
            Err(error) => return Err(SignFailure::File(error.to_string())),
        };
        let now = Serial(now_s as u32);
        let (serial, source_serial) = (self.serial_after(now), data.soa().serial());
        let jitter = (self.inception_jitter_s, self.expiration_jitter_s);
        let validity = Validity::from(now_s, jitter);
        let how = (self.keys.as_slice(), self.denial);
        let signed = sign_zone(data, how, (serial.0, validity), goes_on)?;
        let head = Head { seen, denial: self.denial };
        leftovers::remove(&self.folder, UNIX_EPOCH + Duration::from_secs(now_s));
        let temporary = self.write(&head, &signed.data, goes_on)?;
        // Who reads the file needs the memory.
        drop(signed);
        let moved = fs::rename(&temporary, self.signed_file());
        moved.inspect_err(|_| _ = fs::remove_file(temporary))?;
        self.known().signed = Some(head.seen);
        Ok(Signed { serial, source_serial })
    }

    /// `now`, or the number behind that of the signed file that is there, if that is not less.
    fn serial_after(&self, now: Serial) -> Serial {
        let mut before = None;
        let see = |record: &RecordRef<'_>| {
            if record.rtype == Type::SOA && record.owner == self.origin() {
                let at = record.rdata.len().checked_sub(SOA_NUMBERS);
                let number = at.and_then(|at| record.rdata.get(at..)?.first_chunk());
                before = number.copied().map(u32::from_be_bytes);
            }
            ControlFlow::Break(())
        };
        // What cannot be read is not served either.
        _ = read_some(&self.signed_file(), self.origin(), see);
        match before.map(Serial) {
            Some(before) if now.partial_cmp(&before) != Some(Ordering::Greater) => {
                Serial(before.0.wrapping_add(1))
            }
            _ => now,
        }
    }

    /// Writes the zone beside its place, to be moved there, so that readers see a whole one.
    fn write(
        &self,
        head: &Head,
        data: &Data,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<PathBuf, SignFailure> {
        let (temporary, mut file) = loop {
            let name = format!("{}{:08x}", leftovers::PREFIX, fastrand::u32(..));
            let temporary = self.folder.join(name);
            match File::create_new(&temporary) {
                Ok(file) => break (temporary, BufWriter::new(file)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error.into()),
            }
        };
        let head = file.write_all(head.text().as_bytes()).map_err(SignFailure::from);
        let written = head.and_then(|()| write_records(&mut file, data, goes_on));
        let flushed = written.and_then(|()| Ok(file.flush()?));
        let synced = flushed.and_then(|()| Ok(file.get_ref().sync_all()?));
        match synced {
            Ok(()) => Ok(temporary),
            Err(error) => {
                _ = fs::remove_file(temporary);
                Err(error)
            }
        }
    }
}

/// Shows the records of a file, until `see` has seen enough.
fn read_some(
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

/// The SOA record and its signatures, which are looked for at the front, and then the others.
fn write_records(
    out: &mut impl Write,
    data: &Data,
    goes_on: &dyn Fn() -> bool,
) -> Result<(), SignFailure> {
    let mut line = |record: &RecordRef<'_>| {
        let written = writeln!(out, "{}", record_text(record));
        if goes_on() { Ok(written?) } else { Err(SignFailure::Stopped) }
    };
    line(&RecordRef::from(data.soa().record()))?;
    let sigs = data.rrset(data.origin(), Type::SOA).and_then(|soa| soa.sigs());
    sigs.into_iter().flatten().try_for_each(|record| line(&record))?;
    let mut cursor = data.cursor();
    loop {
        match cursor.advance() {
            Advance::End => return Ok(()),
            Advance::Nothing => {}
            Advance::Record => {
                let is_first = |record: &RecordRef<'_>| signature_of_soa(record).is_some();
                if let Some(record) = cursor.record().filter(|record| !is_first(record)) {
                    line(&record)?;
                }
            }
        }
    }
}

/// The RDATA of a signature that covers the SOA record.
fn signature_of_soa<'r>(record: &RecordRef<'r>) -> Option<&'r [u8]> {
    let covers = record.rdata.first_chunk().copied().map(u16::from_be_bytes) == Some(Type::SOA.0);
    (record.rtype == Type::RRSIG && covers).then_some(record.rdata)
}

/// Why a zone with this signature has to be signed again.
fn reason_in(rdata: &[u8], now_s: u64) -> Option<String> {
    let validity = Validity::of_signature(rdata)?;
    let (age, remaining) = (validity.age_s(now_s), validity.remaining_s(now_s));
    if age < 0 {
        return Some(format!("its signature begins in {} s", age.unsigned_abs()));
    }
    if age.unsigned_abs() > AGAIN_AFTER_S {
        return Some(format!("its signature began {age} s ago, more than {AGAIN_AFTER_S}"));
    }
    let is_short = remaining < REMAINING_MIN_S.cast_signed();
    is_short.then(|| format!("its signature expires in {remaining} s, less than {REMAINING_MIN_S}"))
}
