//! How much memory the zones of the process take, and may take.
//!
//! What is served and what is being made count together, what a caller claims for work with a version, differences that
//! are kept, and what a zone of a primary costs whether it has a version or not. What
//! two versions share counts once; what versions have that are kept for their last readers alone does not count.

use super::prepared;
use crate::limits::{PREPARED_OCTETS_MAX, PREPARED_PART, ROOM_STEP};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Octets of all versions that are served, and of what belongs to their zones.
static HELD: AtomicU64 = AtomicU64::new(0);
/// Octets set aside for versions that are being made.
static CLAIMED: AtomicU64 = AtomicU64::new(0);
/// Octets that both together may be.
static MOST: AtomicU64 = AtomicU64::new(u64::MAX);
/// Octets that prepared parts of responses may take beside them.
static PREPARED_MOST: AtomicUsize = AtomicUsize::new(PREPARED_OCTETS_MAX);

/// How often there was no room.
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// How often there was no room for a version since the process began.
pub fn refused() -> u64 {
    REFUSED.load(Ordering::Relaxed)
}

/// Octets of all versions that are served, and of what belongs to their zones, about.
pub fn held() -> u64 {
    HELD.load(Ordering::Relaxed)
}

/// Octets that all zones may take together.
pub fn most() -> u64 {
    MOST.load(Ordering::Relaxed)
}

/// From now on no zone grows while all of them take more than so many octets
/// ([`Refused::NoRoom`](super::Refused::NoRoom)), less a part for what is prepared of responses. What is
/// served stays.
pub fn set_most(octets: u64) {
    let part = (octets / PREPARED_PART).min(PREPARED_OCTETS_MAX as u64);
    PREPARED_MOST.store(part as usize, Ordering::Relaxed);
    MOST.store(octets - part, Ordering::Relaxed);
}

/// Octets that prepared parts of responses take or may take, whichever is more: they are beside
/// [`held`].
pub fn prepared() -> u64 {
    prepared::held().max(prepared_most()) as u64
}

/// Octets that the prepared parts of responses may take.
pub(super) fn prepared_most() -> usize {
    PREPARED_MOST.load(Ordering::Relaxed)
}

/// Whether there is room for so many octets.
pub fn has(octets: u64) -> bool {
    let taken = HELD.load(Ordering::Relaxed) + CLAIMED.load(Ordering::Relaxed);
    taken.saturating_add(octets) <= MOST.load(Ordering::Relaxed)
}

/// Another version is served, or something else is kept: of so many octets, in the place of one of so many.
pub(crate) fn replaced(before: u64, after: u64) {
    if after >= before {
        HELD.fetch_add(after - before, Ordering::Relaxed);
    } else {
        HELD.fetch_sub(before - after, Ordering::Relaxed);
    }
}

/// Memory set aside for versions that are not served, until this is dropped. Another copy of it has none.
#[derive(Debug, Default)]
pub struct Claim(u64);

impl Claim {
    /// Sets so many octets aside in all, little by little; false if there is no room. A claim that
    /// is larger stays so.
    pub fn grow(&mut self, octets: u64) -> bool {
        if octets == 0 {
            return true;
        }
        let more = octets.saturating_sub(self.0);
        if !has(more) {
            REFUSED.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        // Small changes need not write what all threads share.
        if more > ROOM_STEP {
            CLAIMED.fetch_add(more, Ordering::Relaxed);
            self.0 += more;
        }
        true
    }

    /// Keeps at most so many octets.
    pub fn shrink_to(&mut self, octets: u64) {
        let less = self.0.saturating_sub(octets);
        CLAIMED.fetch_sub(less, Ordering::Relaxed);
        self.0 -= less;
    }
}

impl Clone for Claim {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.0 > 0 {
            CLAIMED.fetch_sub(self.0, Ordering::Relaxed);
        }
    }
}
