//! What stands behind the good octets of an image: nothing, a frame that was not written as a whole, or damage.
//!
//! The first costs nothing, and so does the second: whoever writes a frame says that it is there when it is whole.
//! But what was damaged was confirmed, and must not be cut off.

use super::{CHECK_LEN, Check, HEAD_LEN, Image, Kind, Written, check};
use crate::limits::IMAGE_SEARCH_OCTETS;

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

impl Image {
    /// What `octets`, which the image was read from, have behind it, see [`Written::rest`].
    pub fn rest(&self, octets: &[u8]) -> Rest {
        self.written().rest(octets)
    }
}

impl Written {
    /// What `octets`, of which this is known, have behind it.
    ///
    /// A frame that says that it ends with the octets, or behind them, may do so because its length is damaged. So
    /// good frames are looked for behind its beginning. A last frame of which other octets are damaged than those
    /// of its head looks like one that was written in part.
    pub fn rest(&self, octets: &[u8]) -> Rest {
        let len = usize::try_from(self.len).unwrap_or(usize::MAX);
        let rest = octets.get(len..).unwrap_or_default();
        if rest.is_empty() {
            return Rest::Nothing;
        }
        // A file may have become longer before its octets were on the disk.
        if rest.iter().all(|octet| *octet == 0) {
            return Rest::Cut;
        }
        let is_damaged = ends_early(rest) || is_whole(rest, self.check) || has_step(rest);
        if is_damaged { Rest::Damaged } else { Rest::Cut }
    }
}

/// Octets of what a frame has, as its head says.
fn length(head: [u8; HEAD_LEN]) -> Option<usize> {
    let [a, b, c, d, _] = head;
    usize::try_from(u32::from_be_bytes([a, b, c, d])).ok()
}

/// Whether the frame in front says that others follow.
fn ends_early(rest: &[u8]) -> bool {
    let end = |head: &[u8; HEAD_LEN]| length(*head)?.checked_add(HEAD_LEN + CHECK_LEN);
    rest.first_chunk().and_then(end).is_some_and(|end| end < rest.len())
}

/// Whether all of it is a frame that continues an image, whatever its head says.
fn is_whole(rest: &[u8], before: Check) -> bool {
    let Some((frame, stored)) = rest.split_last_chunk::<CHECK_LEN>() else { return false };
    let Some((_, payload)) = frame.split_first_chunk::<HEAD_LEN>() else { return false };
    let Ok(len) = u32::try_from(payload.len()) else { return false };
    check(before, &[&len.to_be_bytes(), &[Kind::Step as u8], payload]).0 == *stored
}

/// Whether a good frame of a difference stands anywhere behind the beginning of the first one: behind the check
/// that it continues. If it takes too long to know, there is one.
///
/// Whoever may change the zone may have records that look like one. Should they be cut, they are taken for damage:
/// nothing is lost, and somebody has to look.
fn has_step(rest: &[u8]) -> bool {
    let mut left = IMAGE_SEARCH_OCTETS;
    for at in CHECK_LEN..rest.len() {
        let Some((before, frame, stored)) = step_at(rest, at) else { continue };
        let Some(fewer) = left.checked_sub(frame.len()) else { return true };
        left = fewer;
        if check(before, &[frame]) == stored {
            return true;
        }
    }
    false
}

/// What has the form of a frame of a difference, with the checks in front of it and behind it.
fn step_at(rest: &[u8], at: usize) -> Option<(Check, &[u8], Check)> {
    let (front, behind) = rest.split_at_checked(at)?;
    let (head, payload) = behind.split_first_chunk::<HEAD_LEN>()?;
    if head.last() != Some(&(Kind::Step as u8)) {
        return None;
    }
    let len = length(*head)?;
    let (frame, behind) = behind.split_at_checked(len.checked_add(HEAD_LEN)?)?;
    let stored = behind.first_chunk::<CHECK_LEN>()?;
    // Both lengths in front of its records have to fit: few octets do that by chance.
    let (ends, payload) = payload.split_first_chunk::<8>()?;
    let removed = payload.first_chunk::<8>()?;
    let inner = u64::from_be_bytes(*ends).checked_add(u64::from_be_bytes(*removed))?;
    let fits = inner.checked_add(16)? <= len as u64;
    let before = front.last_chunk::<CHECK_LEN>()?;
    fits.then_some((Check(*before), frame, Check(*stored)))
}
