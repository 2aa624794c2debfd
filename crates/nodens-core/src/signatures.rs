//! Signatures over RRsets of responses that are kept, for all workers.

use crate::limits::{
    SIGNATURES_APEX_DENIED_PART, SIGNATURES_APEX_PART, SIGNATURES_APEX_SHARE,
    SIGNATURES_APEX_SPARE, SIGNATURES_DENIED_SHARE, SIGNATURES_MADE_SHARE, SIGNATURES_MAX,
};
use foldhash::fast::FixedState;
use lru::LruCache;
use nodens_zone::dnssec::{SigningKey, Validity};
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Parts with a lock each, so that workers rarely wait for one another.
const PARTS: usize = 16;

/// What an RRset is known by: its SHA-256 hash.
type Digest = [u8; 32];

/// What is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    /// What every validator needs of a zone, whatever is asked for: its keys, its SOA and NS records.
    Apex,
    /// The proof that a zone lacks a type at its own name: one for each type, of which there are few.
    ApexDenied,
    /// An RRset that there is, of which there are as many as the zone has.
    Found,
    /// The proof that a name without records of a type has none: a few for each name that there is, unless an
    /// upstream says so of any.
    Denied,
    /// One that is made for the question, of which there are as many as clients think of.
    Made,
}

/// The signatures over one RRset.
#[derive(Clone, Debug)]
pub(crate) struct Signed {
    /// RDATA of RRSIG records, one of each key.
    pub(crate) rdatas: Arc<[Vec<u8>]>,
    pub(crate) validity: Validity,
}

/// Signatures by what they cover; those not given for longest make room for others of their sort.
#[derive(Debug)]
pub(crate) struct Signatures {
    apex: Store,
    apex_denied: Store,
    found: Store,
    denied: Store,
    made: Store,
}

impl Signatures {
    /// Room for the signatures over `capacity` RRsets that there are, over half as many proofs that records are
    /// missing and a quarter as many RRsets that are made for questions, and for those of the apexes of so many zones.
    pub(crate) fn new(capacity: usize, zones: usize) -> Self {
        let capacity = capacity.min(SIGNATURES_MAX);
        let of_apexes = |part: usize| {
            let each = zones.saturating_mul(part).saturating_add(SIGNATURES_APEX_SPARE);
            Store::new(each.saturating_mul(PARTS).min(SIGNATURES_MAX / SIGNATURES_APEX_SHARE))
        };
        Self {
            apex: of_apexes(SIGNATURES_APEX_PART),
            apex_denied: of_apexes(SIGNATURES_APEX_DENIED_PART),
            found: Store::new(capacity),
            denied: Store::new(capacity / SIGNATURES_DENIED_SHARE),
            made: Store::new(capacity / SIGNATURES_MADE_SHARE),
        }
    }

    fn of(&self, sort: Sort) -> &Store {
        match sort {
            Sort::Apex => &self.apex,
            Sort::ApexDenied => &self.apex_denied,
            Sort::Found => &self.found,
            Sort::Denied => &self.denied,
            Sort::Made => &self.made,
        }
    }

    /// The signatures over an RRset.
    pub(crate) fn find(&self, sort: Sort, digest: &Digest) -> Option<Signed> {
        self.of(sort).part(digest)?.get(digest).cloned()
    }

    /// Keeps signatures, in the place of older ones.
    pub(crate) fn keep(&self, sort: Sort, digest: Digest, signed: Signed) {
        if let Some(mut part) = self.of(sort).part(&digest) {
            part.put(digest, signed);
        }
    }

    /// Of how many RRsets there are signatures.
    pub(crate) fn len(&self) -> usize {
        let stores = [&self.apex, &self.apex_denied, &self.found, &self.denied, &self.made];
        stores.map(Store::len).iter().sum()
    }
}

#[derive(Debug)]
struct Store([Mutex<LruCache<Digest, Signed>>; PARTS]);

impl Store {
    fn new(capacity: usize) -> Self {
        let each = NonZeroUsize::new(capacity.div_ceil(PARTS)).unwrap_or(NonZeroUsize::MIN);
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

    fn len(&self) -> usize {
        let len = |part: &Mutex<LruCache<_, _>>| {
            part.lock().unwrap_or_else(PoisonError::into_inner).len()
        };
        self.0.iter().map(len).sum()
    }
}

/// Signatures by the block that gives them, for its other servers and for the next configuration.
#[derive(Debug, Default)]
pub struct Known(Mutex<HashMap<u64, Weak<Signatures>, FixedState>>);

impl Known {
    /// Those of the block with this fingerprint and so many zones, signed with these keys: the files may have others
    /// meanwhile.
    pub(crate) fn of(
        &self,
        fingerprint: u64,
        keys: &[SigningKey],
        (capacity, zones): (usize, usize),
    ) -> Arc<Signatures> {
        let rdatas: Vec<&[u8]> = keys.iter().map(SigningKey::rdata).collect();
        let id = FixedState::default().hash_one((fingerprint, (capacity, zones), rdatas));
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(signatures) = known.get(&id).and_then(Weak::upgrade) {
            return signatures;
        }
        known.retain(|_, signatures| signatures.strong_count() > 0);
        let signatures = Arc::new(Signatures::new(capacity, zones));
        known.insert(id, Arc::downgrade(&signatures));
        signatures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(signatures: &Signatures, sort: Sort, count: u32) {
        let validity = Validity { inception: 0, expiration: 1 };
        for n in 0..count {
            // As hashes are: any part.
            let digest = std::array::from_fn(|at| FixedState::default().hash_one((n, at)) as u8);
            signatures.keep(sort, digest, Signed { rdatas: Arc::from([]), validity });
        }
    }

    #[test]
    fn of_each_apex_all_is_kept_and_of_any_number_of_them_no_more_than_the_most() {
        for zones in [1, 2, 10, 100] {
            let signatures = Signatures::new(0, zones as usize);
            fill(&signatures, Sort::ApexDenied, 49 * zones);
            fill(&signatures, Sort::Apex, 5 * zones);
            assert_eq!(signatures.len(), 54 * zones as usize, "{zones}");
        }
        let most = SIGNATURES_MAX / SIGNATURES_APEX_SHARE;
        for sort in [Sort::Apex, Sort::ApexDenied] {
            let signatures = Signatures::new(0, usize::MAX);
            fill(&signatures, sort, most as u32 + 5000);
            assert!((most / 10 * 9..=most).contains(&signatures.len()), "{sort:?}");
        }
    }
}
