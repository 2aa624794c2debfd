//! RRsets in the form that is signed (RFC 4034 section 6).

use super::key::{SignError, SigningKey};
use nodens_wire::record::{RdataPart, rdata_layout};
use nodens_wire::{Class, NameRef, Type};
use sha2::{Digest, Sha256};

/// When signatures are valid, in seconds since 1970 modulo 2^32 (RFC 4034 section 3.1.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// From this second on.
    pub inception: u32,
    /// Up to this second.
    pub expiration: u32,
}

impl Validity {
    /// Whether signatures are valid at a time, in serial arithmetic (RFC 1982).
    pub fn contains(self, unix_s: u64) -> bool {
        let now = unix_s as u32;
        let reached = |later: u32, earlier: u32| later.wrapping_sub(earlier).cast_signed() >= 0;
        reached(now, self.inception) && reached(self.expiration, now)
    }
}

/// An RRset as it is signed: its records in order, names in lower case, one TTL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canonical {
    rtype: Type,
    labels: u8,
    ttl: u32,
    octets: Vec<u8>,
}

impl Canonical {
    /// The RRset with these RDATA, whose names are not compressed. `ttl` is the original TTL, which
    /// validators do not exceed. Equal records count once.
    pub fn new<'r>(
        owner: NameRef<'_>,
        (rtype, class): (Type, Class),
        ttl: u32,
        rdatas: impl IntoIterator<Item = &'r [u8]>,
    ) -> Self {
        let mut rdatas: Vec<Vec<u8>> = rdatas.into_iter().map(|rdata| fold(rtype, rdata)).collect();
        rdatas.sort_unstable();
        rdatas.dedup();
        let mut octets = Vec::new();
        for rdata in &rdatas {
            owner.fold_into(&mut octets);
            octets.extend(rtype.0.to_be_bytes());
            octets.extend(class.0.to_be_bytes());
            octets.extend(ttl.to_be_bytes());
            octets.extend((rdata.len() as u16).to_be_bytes());
            octets.extend(rdata);
        }
        // A wildcard's label does not count (RFC 4034 section 3.1.3).
        let is_wildcard = owner.labels().next().is_some_and(|label| label == b"*");
        let labels = owner.label_count() - usize::from(is_wildcard);
        Self { rtype, labels: labels as u8, ttl, octets }
    }

    /// The type of the records.
    pub fn rtype(&self) -> Type {
        self.rtype
    }

    /// Tells this RRset, signed for the zone `signer`, from every other: a SHA-256 hash.
    pub fn digest(&self, signer: NameRef<'_>) -> [u8; 32] {
        let mut head = Vec::new();
        signer.fold_into(&mut head);
        Sha256::new().chain_update(&head).chain_update(&self.octets).finalize().into()
    }

    /// The RDATA of the RRSIG record that `key` makes for the zone `signer` (RFC 4034 section 3.1).
    ///
    /// # Errors
    /// [`SignError`] where the system has no random numbers.
    pub fn sign(
        &self,
        key: &SigningKey,
        signer: NameRef<'_>,
        validity: Validity,
    ) -> Result<Vec<u8>, SignError> {
        let mut data = Vec::with_capacity(self.octets.len() + 300);
        data.extend(self.rtype.0.to_be_bytes());
        data.extend([key.algorithm().number(), self.labels]);
        data.extend(self.ttl.to_be_bytes());
        data.extend(validity.expiration.to_be_bytes());
        data.extend(validity.inception.to_be_bytes());
        data.extend(key.tag().to_be_bytes());
        signer.fold_into(&mut data);
        let head = data.len();
        data.extend(&self.octets);
        let signature = key.sign(&data)?;
        data.truncate(head);
        data.extend(signature);
        Ok(data)
    }
}

/// RDATA with its names in lower case, where RFC 4034 section 6.2 and RFC 6840 section 5.1 say so.
fn fold(rtype: Type, rdata: &[u8]) -> Vec<u8> {
    let mut folded = rdata.to_vec();
    let mut rest = folded.as_mut_slice();
    for part in rdata_layout(rtype) {
        let len = match part {
            RdataPart::Octets(len) => *len,
            RdataPart::CharacterString => 1 + rest.first().copied().map_or(0, usize::from),
            RdataPart::Name => name_len(rest),
        };
        let Some((front, behind)) = rest.split_at_mut_checked(len) else { break };
        if matches!(part, RdataPart::Name) {
            // Lengths of labels are less than letters.
            front.make_ascii_lowercase();
        }
        rest = behind;
    }
    folded
}

/// Octets of the name at the front; more than there are if it does not end.
fn name_len(octets: &[u8]) -> usize {
    let mut at = 0;
    while let Some(len @ 1..) = octets.get(at) {
        at += 1 + usize::from(*len);
    }
    at + 1
}
