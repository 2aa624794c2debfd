//! Versions of zones as octets to be kept: one version whole, and the differences that followed.
//!
//! An image begins with eight octets that say what it is. Frames follow: the records of a version in chunks,
//! the end of these, then one frame for each difference. Each has its length in front, and behind it eight
//! octets of a SHA-256 over itself and the check of the frame before it, so that a frame that is cut,
//! damaged or not its predecessor's is found. What stands before it is good: an image that was written
//! in part, or lost its end, is an earlier version.

use crate::data::{Data, Ordered, Refused};
use crate::journal::{Packed, Step, record_at};
use crate::limits::IMAGE_CHUNK_LEN;
use crate::serial::Serial;
use crate::zone::{Advance, RecordRef, Soa};
use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Class, NameRef, Record, SharedName};
use sha2::{Digest, Sha256};
use std::sync::Arc;

mod behind;
mod rest;

pub use rest::Rest;

#[cfg(test)]
mod tests;

/// What an image begins with.
const MAGIC: &[u8; 8] = b"nodens\x00\x01";
/// Octets in front of what a frame has: length and kind.
const HEAD_LEN: usize = 5;
/// Octets behind it.
const CHECK_LEN: usize = 8;

/// What a frame has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Records = 1,
    End = 2,
    Step = 3,
}

/// The check of the last frame, which the next one continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Check([u8; CHECK_LEN]);

/// What a file has that an image was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Of its last version.
    pub serial: Serial,
    /// Octets of the version that it begins with.
    pub version_len: u64,
    /// Octets of all of it.
    pub len: u64,
    /// The check of the last frame.
    pub check: Check,
}

/// Writes frames.
#[derive(Debug, Default)]
pub struct Writer {
    check: Check,
}

impl Writer {
    /// Continues an image whose last frame has this check.
    pub fn after(check: Check) -> Self {
        Self { check }
    }

    /// The check of the last frame.
    pub fn check(&self) -> Check {
        self.check
    }

    /// Gives a whole version to `write`, in pieces.
    ///
    /// # Errors
    /// The first of `write`.
    pub fn version<E>(
        &mut self,
        data: &Data,
        mut write: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        write(MAGIC)?;
        let (mut chunk, mut records) = (Packed::default(), data.cursor());
        chunk.push(data.soa().record().into());
        let mut count: u64 = 1;
        loop {
            match records.advance() {
                Advance::Nothing => continue,
                Advance::End => break,
                Advance::Record => {}
            }
            let Some(record) = records.record() else { continue };
            chunk.push(record);
            count += 1;
            if chunk.octets() >= IMAGE_CHUNK_LEN {
                write(&self.frame(Kind::Records, &[chunk.as_octets()]))?;
                chunk = Packed::default();
            }
        }
        write(&self.frame(Kind::Records, &[chunk.as_octets()]))?;
        write(&self.frame(Kind::End, &[&count.to_be_bytes()]))
    }

    /// The frame of a difference.
    pub fn step(&mut self, step: &Step) -> Vec<u8> {
        let mut ends = Packed::default();
        ends.push(step.from.record().into());
        ends.push(step.to.record().into());
        let lengths = [ends.octets(), step.removed.octets()].map(|len| (len as u64).to_be_bytes());
        let [ends_len, removed_len] = &lengths;
        let parts = [
            &ends_len[..],
            &removed_len[..],
            ends.as_octets(),
            step.removed.as_octets(),
            step.added.as_octets(),
        ];
        self.frame(Kind::Step, &parts)
    }

    fn frame(&mut self, kind: Kind, parts: &[&[u8]]) -> Vec<u8> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let mut frame = Vec::with_capacity(HEAD_LEN + len + CHECK_LEN);
        // A frame that no length can say is one that is found to be damaged.
        frame.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes());
        frame.push(kind as u8);
        parts.iter().for_each(|part| frame.extend_from_slice(part));
        self.check = check(self.check, &[&frame]);
        frame.extend_from_slice(&self.check.0);
        frame
    }
}

fn check(before: Check, frame: &[&[u8]]) -> Check {
    let mut digest = Sha256::new().chain_update(before.0);
    frame.iter().for_each(|part| digest.update(part));
    Check(digest.finalize().first_chunk().copied().unwrap_or_default())
}

/// What an image has.
#[derive(Debug)]
pub struct Image {
    /// The last version.
    pub data: Data,
    /// The last of the differences that led to it, as many as a [`Journal`](crate::journal::Journal) keeps.
    pub steps: Vec<Arc<Step>>,
    /// Octets of that version.
    pub version_len: usize,
    /// Octets that are good: what follows them is not, and has to be cut off before more is written.
    pub len: usize,
    /// The check of the last frame.
    pub check: Check,
}

/// Why octets are no image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// They do not begin as one.
    #[error("not a stored zone")]
    Magic,
    /// A frame of the first version is cut or damaged.
    #[error("damaged at octet {0}")]
    Damaged(usize),
    /// It is another zone, or none.
    #[error("not the zone that it should be")]
    OtherZone,
    /// Zones may not take more memory ([`room`](crate::data::room)).
    #[error("no room: there is no more memory for zones")]
    NoRoom,
}

impl From<Refused> for ImageError {
    fn from(refused: Refused) -> Self {
        if refused == Refused::NoRoom { Self::NoRoom } else { Self::OtherZone }
    }
}

impl Written {
    /// What an image of `zone` has, without a version of it being made: that takes no memory of zones.
    ///
    /// # Errors
    /// As those of [`Image::read`].
    pub fn of(zone: NameRef<'_>, octets: &[u8]) -> Result<Self, ImageError> {
        let mut frames = Frames::of(octets)?;
        let (mut soa, mut count) = (None, 0_u64);
        read_version(&mut frames, |record| {
            if count == 0 {
                soa = Soa::new(owned(record)).ok();
            }
            count += 1;
            Ok(())
        })?;
        let soa =
            soa.filter(|soa| soa.record().owner.view() == zone).ok_or(ImageError::OtherZone)?;
        let (len, check) = (frames.at as u64, frames.check);
        let mut written = Self { serial: soa.serial(), version_len: len, len, check };
        while let Some((Kind::Step, payload)) = frames.next() {
            let leads_on = |step: &Step| step.from.serial() == written.serial;
            let Some(step) = read_step(payload).filter(leads_on) else { break };
            let (serial, len, check) = (step.to.serial(), frames.at as u64, frames.check);
            written = Self { serial, len, check, ..written };
        }
        Ok(written)
    }
}

impl Image {
    /// Reads an image of `zone`.
    ///
    /// # Errors
    /// [`ImageError`]; not for damaged differences, which are not read.
    pub fn read(zone: impl Into<SharedName>, octets: &[u8]) -> Result<Self, ImageError> {
        Self::read_like(zone, octets, None)
    }

    /// What the octets have that it was read from.
    pub fn written(&self) -> Written {
        let (version_len, len) = (self.version_len as u64, self.len as u64);
        Written { serial: self.data.soa().serial(), version_len, len, check: self.check }
    }

    /// Reads an image of `zone`. Names that have the same records in the version `like`, which is served, share
    /// its memory: where both are about the same, no room is needed for a second one.
    ///
    /// # Errors
    /// As those of [`Image::read`].
    pub fn read_like(
        zone: impl Into<SharedName>,
        octets: &[u8],
        like: Option<&Data>,
    ) -> Result<Self, ImageError> {
        let mut frames = Frames::of(octets)?;
        // They were written in their order.
        let mut records = Ordered::new(zone, Class::IN, like.cloned());
        read_version(&mut frames, |record| Ok(records.add(record).map(drop)?))?;
        let data = records.finish().map_err(|_| ImageError::OtherZone)?;
        let (version_len, check) = (frames.at, frames.check);
        let mut image = Self { data, steps: Vec::new(), version_len, len: version_len, check };
        image.take_steps(frames, 0, like)?;
        Ok(image)
    }
}

/// Gives `take` the records of the version that an image begins with.
fn read_version(
    frames: &mut Frames<'_>,
    mut take: impl FnMut(RecordRef<'_>) -> Result<(), ImageError>,
) -> Result<(), ImageError> {
    let mut count: u64 = 0;
    loop {
        let at = frames.at;
        match frames.next() {
            Some((Kind::Records, payload)) => {
                let mut next = 0;
                while next < payload.len() {
                    let record = record_at(payload, next).ok_or(ImageError::Damaged(at))?;
                    next = record.1;
                    take(record.0)?;
                    count += 1;
                }
            }
            Some((Kind::End, payload)) if payload == count.to_be_bytes() => return Ok(()),
            _ => return Err(ImageError::Damaged(at)),
        }
    }
}

/// Goes through frames, up to the first that is cut or damaged.
struct Frames<'o> {
    octets: &'o [u8],
    at: usize,
    check: Check,
}

impl<'o> Frames<'o> {
    fn of(octets: &'o [u8]) -> Result<Self, ImageError> {
        let is_image = octets.starts_with(MAGIC);
        let frames = Self { octets, at: MAGIC.len(), check: Check::default() };
        is_image.then_some(frames).ok_or(ImageError::Magic)
    }

    fn next(&mut self) -> Option<(Kind, &'o [u8])> {
        let rest = self.octets.get(self.at..)?;
        let (head, _) = rest.split_first_chunk::<HEAD_LEN>()?;
        let [a, b, c, d, kind] = *head;
        let len = usize::try_from(u32::from_be_bytes([a, b, c, d])).ok()?;
        let frame = rest.get(..HEAD_LEN.checked_add(len)?)?;
        let stored = rest.get(frame.len()..)?.first_chunk::<CHECK_LEN>()?;
        let expected = check(self.check, &[frame]);
        if expected.0 != *stored {
            return None;
        }
        let kind = match kind {
            1 => Kind::Records,
            2 => Kind::End,
            3 => Kind::Step,
            _ => return None,
        };
        self.check = expected;
        self.at += frame.len() + CHECK_LEN;
        Some((kind, frame.get(HEAD_LEN..)?))
    }
}

fn read_step(payload: &[u8]) -> Option<Step> {
    let (ends_len, rest) = payload.split_first_chunk::<8>()?;
    let (removed_len, rest) = rest.split_first_chunk::<8>()?;
    let [ends_len, removed_len] =
        [ends_len, removed_len].map(|len| usize::try_from(u64::from_be_bytes(*len)).ok());
    let (ends, rest) = rest.split_at_checked(ends_len?)?;
    let (removed, added) = rest.split_at_checked(removed_len?)?;
    let ends = Packed::from_octets(ends.to_vec())?;
    let mut soas = ends.iter().map(|record| Soa::new(owned(record)).ok());
    let (from, to) = (soas.next()??, soas.next()??);
    let removed = Packed::from_octets(removed.to_vec())?;
    Some(Step { from, to, removed, added: Packed::from_octets(added.to_vec())? })
}

/// The version that a step leads to; nothing if it does not lead on from this one.
///
/// # Errors
/// [`ImageError::NoRoom`]: the step is as good as it was.
fn apply(data: &Data, step: &Step, like: Option<&Data>) -> Result<Option<Data>, ImageError> {
    if data.soa().serial() != step.from.serial() {
        return Ok(None);
    }
    let mut edit = data.edit().like(like.cloned());
    if !step.removed.iter().all(|record| edit.remove(record)) {
        return Ok(None);
    }
    for record in step.added.iter().chain([step.to.record().into()]) {
        match edit.add(record) {
            Ok(_) => {}
            Err(Refused::NoRoom) => return Err(ImageError::NoRoom),
            Err(_) => return Ok(None),
        }
    }
    Ok(edit.finish().ok())
}

fn owned(record: RecordRef<'_>) -> Record {
    let RecordRef { owner, rtype, class, ttl, rdata } = record;
    Record { owner: owner.to_name(), rtype, class, ttl, rdata: rdata.to_vec() }
}

/// The name of a file for `zone`: its name in lower case where it has usual characters and is not too long.
pub fn file_name(zone: NameRef<'_>) -> String {
    const LONGEST: usize = 200;
    const ENDING: &str = "zone";
    let is_usual = |octet: &u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_');
    let usual = |label: &[u8]| label.iter().all(is_usual);
    // A dot behind each label makes it as long as on the wire, but for the root label.
    let len = zone.as_wire().len().saturating_sub(1);
    if (1..=LONGEST).contains(&len) && zone.labels().all(usual) {
        let mut name = String::with_capacity(len + ENDING.len());
        for label in zone.labels() {
            name.extend(label.iter().map(|octet| char::from(octet.to_ascii_lowercase())));
            name.push('.');
        }
        return name + ENDING;
    }
    let digest = Sha256::digest(zone.fold(&mut [0; NAME_LEN_MAX]));
    let hex: String = digest.iter().map(|octet| format!("{octet:02x}")).collect();
    format!("{hex}.zone")
}
