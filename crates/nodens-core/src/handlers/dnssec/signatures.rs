//! Signatures that are kept, for all workers.

use crate::limits::SIGNATURES_MAX;
use lru::LruCache;
use nodens_zone::dnssec::Validity;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Parts with a lock each, so that workers rarely wait for one another.
const PARTS: usize = 16;

/// What an RRset is known by: its SHA-256 hash.
type Digest = [u8; 32];

/// The signatures over one RRset.
#[derive(Clone, Debug)]
pub(super) struct Signed {
    /// RDATA of RRSIG records, one of each key.
    pub(super) rdatas: Arc<[Vec<u8>]>,
    pub(super) validity: Validity,
}

/// Signatures by what they cover; those not given for longest make room.
#[derive(Debug)]
pub(super) struct Signatures([Mutex<LruCache<Digest, Signed>>; PARTS]);

impl Signatures {
    /// Room for the signatures over `capacity` RRsets.
    pub(super) fn new(capacity: usize) -> Self {
        let each = capacity.min(SIGNATURES_MAX).div_ceil(PARTS);
        let each = NonZeroUsize::new(each).unwrap_or(NonZeroUsize::MIN);
        Self(std::array::from_fn(|_| {
            // The table grows with what is in it.
            let mut part = LruCache::unbounded();
            part.resize(each);
            Mutex::new(part)
        }))
    }

    fn part(&self, digest: &Digest) -> Option<MutexGuard<'_, LruCache<Digest, Signed>>> {
        let index = usize::from(*digest.first()?) % PARTS;
        let part = self.0.get(index)?;
        Some(part.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The signatures over an RRset.
    pub(super) fn find(&self, digest: &Digest) -> Option<Signed> {
        self.part(digest)?.get(digest).cloned()
    }

    /// Keeps signatures, in the place of older ones.
    pub(super) fn keep(&self, digest: Digest, signed: Signed) {
        if let Some(mut part) = self.part(&digest) {
            part.put(digest, signed);
        }
    }

    /// Of how many RRsets there are signatures.
    pub(super) fn len(&self) -> usize {
        let len = |part: &Mutex<LruCache<_, _>>| {
            part.lock().unwrap_or_else(PoisonError::into_inner).len()
        };
        self.0.iter().map(len).sum()
    }
}
