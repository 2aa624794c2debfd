//! Keys that sign.

use super::algorithm::Algorithm;
use super::ds::key_tag;
use super::key_file::{self, KeyError};
use nodens_wire::{Name, NameRef, Record};
use ring::rand::SystemRandom;
use ring::signature::{
    EcdsaKeyPair, Ed25519KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RsaKeyPair,
};
use std::fmt;

/// The key signs zones (RFC 4034 section 2.1.1).
const ZONE_KEY: u16 = 1 << 8;
/// The parent refers to the key, which signs other keys.
const ENTRY_POINT: u16 = 1;

/// No signature could be made: the system has no random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("signing failed")]
pub struct SignError;

/// A key with both its parts. What is shown of it has nothing of the private part.
pub struct SigningKey {
    owner: Name,
    ttl: u32,
    rdata: Vec<u8>,
    tag: u16,
    algorithm: Algorithm,
    pair: Pair,
    random: SystemRandom,
}

/// The private part.
pub(super) enum Pair {
    Rsa(Box<RsaKeyPair>),
    Ecdsa(Box<EcdsaKeyPair>),
    Ed25519(Box<Ed25519KeyPair>),
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({} {} {})", self.owner, self.algorithm, self.tag)
    }
}

impl SigningKey {
    /// Reads a key from what its two files hold: `K….key`, one DNSKEY record in presentation format, and
    /// `K….private`, the format of BIND's tools.
    ///
    /// # Errors
    /// [`KeyError`], which repeats nothing of the private part.
    pub fn parse(public: &str, private: &str) -> Result<Self, KeyError> {
        key_file::parse(public, private)
    }

    pub(super) fn new(record: Record, algorithm: Algorithm, pair: Pair) -> Self {
        let Record { owner, ttl, rdata, .. } = record;
        let (tag, random) = (key_tag(&rdata), SystemRandom::new());
        Self { owner, ttl, rdata, tag, algorithm, pair, random }
    }

    /// The name that it was made for. It may sign other zones.
    pub fn owner(&self) -> NameRef<'_> {
        self.owner.view()
    }

    /// The TTL of its DNSKEY record, in seconds.
    pub fn ttl(&self) -> u32 {
        self.ttl
    }

    /// The RDATA of its DNSKEY record.
    pub fn rdata(&self) -> &[u8] {
        &self.rdata
    }

    /// Its key tag (RFC 4034 appendix B).
    pub fn tag(&self) -> u16 {
        self.tag
    }

    /// Its algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Octets of its signatures: with RSA as many as the modulus has.
    pub fn signature_len(&self) -> usize {
        match (&self.pair, self.algorithm) {
            (Pair::Rsa(pair), _) => pair.public().modulus_len(),
            (_, Algorithm::EcdsaP384Sha384) => 96,
            _ => 64,
        }
    }

    fn flags(&self) -> u16 {
        self.rdata.first_chunk().copied().map_or(0, u16::from_be_bytes)
    }

    /// Whether it is marked as one that signs keys (KSK): a zone key with the SEP bit.
    pub fn is_ksk(&self) -> bool {
        self.flags() & (ZONE_KEY | ENTRY_POINT) == ZONE_KEY | ENTRY_POINT
    }

    /// Whether it is a zone key without the SEP bit (ZSK).
    pub fn is_zsk(&self) -> bool {
        self.flags() & (ZONE_KEY | ENTRY_POINT) == ZONE_KEY
    }

    /// A signature over octets, in the form of its algorithm.
    ///
    /// # Errors
    /// [`SignError`].
    pub(super) fn sign(&self, data: &[u8]) -> Result<Vec<u8>, SignError> {
        match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                let is_short = self.algorithm == Algorithm::RsaSha256;
                let padding = if is_short { &RSA_PKCS1_SHA256 } else { &RSA_PKCS1_SHA512 };
                let signed = pair.sign(padding, &self.random, data, &mut signature);
                signed.map(|()| signature).map_err(|_| SignError)
            }
            Pair::Ecdsa(pair) => {
                let signed = pair.sign(&self.random, data);
                signed.map(|signature| signature.as_ref().to_vec()).map_err(|_| SignError)
            }
            Pair::Ed25519(pair) => Ok(pair.sign(data).as_ref().to_vec()),
        }
    }
}
