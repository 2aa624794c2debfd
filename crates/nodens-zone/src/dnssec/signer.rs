//! How a zone that changes is kept signed: with which keys, for how long, and what proves that names do
//! not exist.

use super::canonical::{Canonical, Validity};
use super::ds::{DigestType, ds_rdata};
use super::key::SigningKey;
use super::nsec3::PARAMETERS;
use super::times::EXPIRATION_SPREAD_S;
use super::zone::{Denial, MADE, SignZoneError, SignedZone, prepared, sign_whole};
use crate::data::{Data, Rrset};
use nodens_wire::{NameRef, Type};
use std::collections::BTreeSet;
use std::fmt;

/// Whether signing makes all records of this type: updates of it are refused.
pub fn is_made(rtype: Type) -> bool {
    MADE.contains(&rtype)
}

/// Whether records of the type are signatures or deny others, at any name.
pub(super) fn is_proof(rtype: Type) -> bool {
    matches!(rtype, Type::RRSIG | Type::NSEC | Type::NSEC3)
}

/// Keys, and what denies.
pub struct Signer {
    keys: Vec<SigningKey>,
    denial: Denial,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({}, {:?})", self.key_tags(), self.denial)
    }
}

impl Signer {
    /// A signer with these keys, of which there has to be one at least.
    pub fn new(keys: Vec<SigningKey>, denial: Denial) -> Self {
        Self { keys, denial }
    }

    /// The key tags, with commas.
    pub fn key_tags(&self) -> String {
        let tags = self.keys.iter().map(|key| key.tag().to_string());
        tags.collect::<Vec<_>>().join(",")
    }

    pub(super) fn keys(&self) -> &[SigningKey] {
        &self.keys
    }

    pub(super) fn denial(&self) -> Denial {
        self.denial
    }

    /// Whether another signer does the same.
    pub fn is_like(&self, other: &Self) -> bool {
        fn keys(signer: &Signer) -> BTreeSet<&[u8]> {
            signer.keys.iter().map(SigningKey::rdata).collect()
        }
        self.denial == other.denial && keys(self) == keys(other)
    }

    /// Whether a version was signed as a whole by such a signer: its apex says by which.
    pub fn has_signed(&self, data: &Data) -> bool {
        let origin = data.origin();
        let has = |rtype, wanted: BTreeSet<Vec<u8>>| {
            let found = data.apex(rtype).into_iter().flatten();
            found.map(|record| record.rdata.to_vec()).collect::<BTreeSet<_>>() == wanted
        };
        let keys = || self.keys.iter().map(|key| key.rdata().to_vec()).collect();
        let ds = |key: &SigningKey| ds_rdata(origin, key.rdata(), key.tag(), DigestType::Sha256);
        let params = (self.denial == Denial::Nsec3).then(|| PARAMETERS.to_vec());
        data.is_signed()
            && has(Type::DNSKEY, keys())
            && has(Type::CDNSKEY, keys())
            && has(Type::CDS, self.keys.iter().map(ds).collect())
            && has(Type::NSEC3PARAM, params.into_iter().collect())
    }

    /// Whether the signatures over the keys of a version are not valid at a time in Unix seconds, as after a long stop:
    /// then others are not either.
    pub fn has_lapsed(data: &Data, now_s: u64) -> bool {
        let is_valid = |rdata: &[u8]| {
            Validity::of_signature(rdata).is_some_and(|validity| validity.contains(now_s))
        };
        let sigs = data.apex(Type::DNSKEY).and_then(|keys| keys.sigs());
        !sigs.is_some_and(|sigs| sigs.iter().all(|sig| is_valid(sig.rdata)))
    }

    /// The version signed as a whole, with the same serial number, at a time in Unix seconds. `goes_on` is asked
    /// for each name.
    ///
    /// # Errors
    /// [`SignZoneError`].
    pub fn whole(
        &self,
        data: Data,
        now_s: u64,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<SignedZone, SignZoneError> {
        let (serial, origin) = (data.soa().serial().0, data.origin().to_name());
        let validity = |set: &Canonical| validity(set, origin.view(), now_s);
        sign_whole(data, (&self.keys, self.denial), (serial, &validity), goes_on)
    }

    /// The version without anything that signing makes.
    ///
    /// # Errors
    /// [`SignZoneError`].
    pub fn unsigned(data: Data, goes_on: &dyn Fn() -> bool) -> Result<Data, SignZoneError> {
        let serial = data.soa().serial().0;
        prepared(data, &[], (Denial::Nsec, serial), goes_on)
    }
}

/// When a signature over an RRset is valid that is made now. The spread is the RRset's own.
pub(super) fn validity(set: &Canonical, origin: NameRef<'_>, now_s: u64) -> Validity {
    let [a, b, c, d, ..] = set.digest(origin);
    Validity::from(now_s, (0, u32::from_be_bytes([a, b, c, d]) % EXPIRATION_SPREAD_S))
}

/// Whether all signatures last long enough at a time in Unix seconds.
pub(super) fn is_fresh(sigs: &Rrset<'_>, now_s: u64) -> bool {
    sigs.iter().all(|sig| sig_is_fresh(sig.rdata, now_s))
}

/// Whether the signature with this RDATA does.
pub(super) fn sig_is_fresh(rdata: &[u8], now_s: u64) -> bool {
    Validity::of_signature(rdata).is_some_and(|validity| validity.lasts(now_s))
}
