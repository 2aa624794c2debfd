//! Versions of zones as octets to be kept: one version whole, and the differences that followed.
//!
//! An image begins with eight octets that say what it is. Frames follow: the records of a version in chunks,
//! the end of these, then one frame for each difference. Each has its length in front, and behind it eight
//! octets of a SHA-256 over itself and the check of the frame before it, so that a frame that is cut,
//! damaged or not its predecessor's is found. What stands before it is good: an image that was written
//! in part, or lost its end, is an earlier version.

use crate::data::{Data, Edit};
use crate::journal::{Packed, Step};
use crate::limits::IMAGE_CHUNK_LEN;
use crate::serial::Serial;
use crate::zone::{Advance, RecordRef, Soa};
use nodens_wire::{Class, Name, Record};
use sha2::{Digest, Sha256};
use std::sync::Arc;

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
        self.check = check(self.check, &frame);
        frame.extend_from_slice(&self.check.0);
        frame
    }
}

fn check(before: Check, frame: &[u8]) -> Check {
    let digest = Sha256::new().chain_update(before.0).chain_update(frame).finalize();
    Check(digest.first_chunk().copied().unwrap_or_default())
}

/// What an image has.
#[derive(Debug)]
pub struct Image {
    /// The last version.
    pub data: Data,
    /// The differences that led to it from the version that the image begins with.
    pub steps: Vec<Arc<Step>>,
    /// Octets of that version.
    pub version_len: usize,
    /// Octets that are good: what follows them is not, and has to be cut off before more is written.
    pub len: usize,
    /// The check of the last frame.
    pub check: Check,
}

/// What stands behind that of an image which is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Nothing.
    Nothing,
    /// A last frame that was written in part: whoever wrote it has not said that it is there.
    Cut,
    /// Something else: frames that were there are damaged.
    Damaged,
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
}

impl Image {
    /// Reads an image of `zone`.
    ///
    /// # Errors
    /// [`ImageError`]; not for damaged differences, which are not read.
    pub fn read(zone: &Name, octets: &[u8]) -> Result<Self, ImageError> {
        if !octets.starts_with(MAGIC) {
            return Err(ImageError::Magic);
        }
        let mut frames = Frames { octets, at: MAGIC.len(), check: Check::default() };
        let mut edit = Edit::new(zone.view(), Class::IN);
        let mut count: u64 = 0;
        loop {
            let at = frames.at;
            match frames.next() {
                Some((Kind::Records, payload)) => {
                    let records = Packed::from_octets(payload.to_vec());
                    for record in records.ok_or(ImageError::Damaged(at))?.iter() {
                        edit.add(record).map_err(|_| ImageError::OtherZone)?;
                        count += 1;
                    }
                }
                Some((Kind::End, payload)) if payload == count.to_be_bytes() => break,
                _ => return Err(ImageError::Damaged(at)),
            }
        }
        let data = edit.finish().map_err(|_| ImageError::OtherZone)?;
        let (version_len, check) = (frames.at, frames.check);
        let mut image = Self { data, steps: Vec::new(), version_len, len: version_len, check };
        while let Some((Kind::Step, payload)) = frames.next() {
            let Some((step, data)) = read_step(payload).and_then(|step| {
                let data = apply(&image.data, &step)?;
                Some((step, data))
            }) else {
                break;
            };
            image.data = data;
            image.steps.push(Arc::new(step));
            (image.len, image.check) = (frames.at, frames.check);
        }
        Ok(image)
    }
}

impl Image {
    /// What `octets`, which the image was read from, have behind it.
    pub fn rest(&self, octets: &[u8]) -> Rest {
        let rest = octets.get(self.len..).unwrap_or_default();
        if rest.is_empty() {
            return Rest::Nothing;
        }
        let ends_at = |head: &[u8; HEAD_LEN]| {
            let [a, b, c, d, _] = *head;
            HEAD_LEN as u64 + u64::from(u32::from_be_bytes([a, b, c, d])) + CHECK_LEN as u64
        };
        let is_last = rest.first_chunk().is_none_or(|head| ends_at(head) >= rest.len() as u64);
        // A file may have become longer before its octets were on the disk.
        let is_empty = rest.iter().all(|octet| *octet == 0);
        if is_last || is_empty { Rest::Cut } else { Rest::Damaged }
    }
}

/// Goes through frames, up to the first that is cut or damaged.
struct Frames<'o> {
    octets: &'o [u8],
    at: usize,
    check: Check,
}

impl<'o> Frames<'o> {
    fn next(&mut self) -> Option<(Kind, &'o [u8])> {
        let rest = self.octets.get(self.at..)?;
        let (head, _) = rest.split_first_chunk::<HEAD_LEN>()?;
        let [a, b, c, d, kind] = *head;
        let len = usize::try_from(u32::from_be_bytes([a, b, c, d])).ok()?;
        let frame = rest.get(..HEAD_LEN.checked_add(len)?)?;
        let stored = rest.get(frame.len()..)?.first_chunk::<CHECK_LEN>()?;
        let expected = check(self.check, frame);
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

/// The version that a step leads to.
fn apply(data: &Data, step: &Step) -> Option<Data> {
    if data.soa().serial() != step.from.serial() {
        return None;
    }
    let mut edit = data.edit();
    let gone = step.removed.iter().all(|record| edit.remove(record));
    let here = step.added.iter().all(|record| edit.add(record).is_ok());
    edit.add(step.to.record().into()).ok()?;
    if gone && here { edit.finish().ok() } else { None }
}

fn owned(record: RecordRef<'_>) -> Record {
    let RecordRef { owner, rtype, class, ttl, rdata } = record;
    Record { owner: owner.to_name(), rtype, class, ttl, rdata: rdata.to_vec() }
}

/// The name of a file for `zone`: its name in lower case where it has usual characters and is not too long.
pub fn file_name(zone: &Name) -> String {
    const LONGEST: usize = 200;
    let zone = zone.to_folded();
    let is_usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let text = zone.to_string();
    if text.len() <= LONGEST && text.chars().all(is_usual) && !zone.view().is_root() {
        return format!("{text}zone");
    }
    let digest = Sha256::digest(zone.as_wire());
    let hex: String = digest.iter().map(|octet| format!("{octet:02x}")).collect();
    format!("{hex}.zone")
}
