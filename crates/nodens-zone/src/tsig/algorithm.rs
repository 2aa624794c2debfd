//! The algorithms of TSIG (RFC 8945 section 6), and how far a MAC may be cut.

use std::str::FromStr;

/// The least octets of a MAC, whatever the algorithm (RFC 8945 section 5.2.2.1).
const MAC_LEN_MIN: usize = 10;

/// An HMAC with one of the hash functions that have names in TSIG.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// HMAC-MD5: only for keys that name it.
    Md5,
    /// HMAC-SHA-1.
    Sha1,
    /// HMAC-SHA-224.
    Sha224,
    /// HMAC-SHA-256: what queries are signed with if a key names none.
    Sha256,
    /// HMAC-SHA-384.
    Sha384,
    /// HMAC-SHA-512.
    Sha512,
}

impl Algorithm {
    /// Those that a key without an algorithm stands for; the first signs queries.
    pub(super) const UNNAMED: [Self; 5] =
        [Self::Sha256, Self::Sha1, Self::Sha224, Self::Sha384, Self::Sha512];
    const ALL: [Self; 6] =
        [Self::Md5, Self::Sha1, Self::Sha224, Self::Sha256, Self::Sha384, Self::Sha512];

    /// The name that operators write, such as `hmac-sha256`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Md5 => "hmac-md5",
            Self::Sha1 => "hmac-sha1",
            Self::Sha224 => "hmac-sha224",
            Self::Sha256 => "hmac-sha256",
            Self::Sha384 => "hmac-sha384",
            Self::Sha512 => "hmac-sha512",
        }
    }

    /// Octets of a whole MAC.
    pub fn mac_len(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha224 => 28,
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    /// The fewest octets that a MAC may be cut to (RFC 8945 section 5.2.2.1).
    pub fn mac_len_min(self) -> usize {
        MAC_LEN_MIN.max(self.mac_len() / 2)
    }

    /// The spelling of the whole algorithm.
    pub(super) fn spelling(self) -> &'static Spelling {
        let [first, ..] = &SPELLINGS;
        SPELLINGS.iter().find(|spelling| spelling.algorithm == self).unwrap_or(first)
    }
}

/// How messages name an algorithm.
#[derive(Debug)]
pub(super) struct Spelling {
    pub(super) algorithm: Algorithm,
    /// The domain name in wire format, in lower case.
    pub(super) wire: &'static [u8],
    /// Octets of the MAC, if it is not cut further.
    pub(super) mac_len: usize,
}

/// Those of whole MACs first.
static SPELLINGS: [Spelling; 9] = [
    spelling(Algorithm::Md5, b"\x08hmac-md5\x07sig-alg\x03reg\x03int\0", 16),
    spelling(Algorithm::Sha1, b"\x09hmac-sha1\0", 20),
    spelling(Algorithm::Sha224, b"\x0bhmac-sha224\0", 28),
    spelling(Algorithm::Sha256, b"\x0bhmac-sha256\0", 32),
    spelling(Algorithm::Sha384, b"\x0bhmac-sha384\0", 48),
    spelling(Algorithm::Sha512, b"\x0bhmac-sha512\0", 64),
    spelling(Algorithm::Sha256, b"\x0fhmac-sha256-128\0", 16),
    spelling(Algorithm::Sha384, b"\x0fhmac-sha384-192\0", 24),
    spelling(Algorithm::Sha512, b"\x0fhmac-sha512-256\0", 32),
];

const fn spelling(algorithm: Algorithm, wire: &'static [u8], mac_len: usize) -> Spelling {
    Spelling { algorithm, wire, mac_len }
}

/// The algorithm that a message names, in any case.
pub(super) fn spelled(wire: &[u8]) -> Option<&'static Spelling> {
    SPELLINGS.iter().find(|spelling| spelling.wire.eq_ignore_ascii_case(wire))
}

/// What a key is used with: an algorithm, and how far its MACs may be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Octets of the MACs that are made, and the fewest that are accepted.
    pub mac_len: usize,
}

impl From<Algorithm> for Policy {
    fn from(algorithm: Algorithm) -> Self {
        Self { algorithm, mac_len: algorithm.mac_len() }
    }
}

/// Text that names no algorithm.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not an algorithm of TSIG, expected hmac-md5, hmac-sha1, hmac-sha224, hmac-sha256, \
     hmac-sha384 or hmac-sha512, with the bits of a shorter MAC behind it if wanted, as in \
     hmac-sha256-128"
)]
pub struct UnknownAlgorithm(pub String);

impl FromStr for Policy {
    type Err = UnknownAlgorithm;

    /// Reads `hmac-sha256`, with or without a final dot, or with the bits of a MAC that is cut, as BIND
    /// writes it: `hmac-sha256-128`.
    fn from_str(text: &str) -> Result<Self, UnknownAlgorithm> {
        let unknown = || UnknownAlgorithm(text.to_owned());
        let lower = text.to_ascii_lowercase();
        let bare = lower.strip_suffix('.').unwrap_or(&lower);
        let bare = bare.strip_suffix(".sig-alg.reg.int").unwrap_or(bare);
        let named = |name: &str| Algorithm::ALL.into_iter().find(|known| known.name() == name);
        if let Some(algorithm) = named(bare) {
            return Ok(algorithm.into());
        }
        let (name, bits) = bare.rsplit_once('-').ok_or_else(unknown)?;
        let algorithm = named(name).ok_or_else(unknown)?;
        let bits: usize = bits.parse().map_err(|_| unknown())?;
        let (mac_len, least) = (bits / 8, algorithm.mac_len_min());
        let fits = bits.is_multiple_of(8) && (least..=algorithm.mac_len()).contains(&mac_len);
        fits.then_some(Self { algorithm, mac_len }).ok_or_else(unknown)
    }
}
