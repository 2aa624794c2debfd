//! What is digested (RFC 8945 section 4.3), with each hash function.

use super::algorithm::Algorithm;
use super::record::Variables;
use hmac::{Hmac, Mac as _};
use nodens_wire::{Class, HEADER_LEN, Header};

/// Octets of the longest MAC.
const MAC_LEN_MAX: usize = 64;

/// A MAC as it stands in a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mac {
    octets: [u8; MAC_LEN_MAX],
    len: usize,
}

impl Mac {
    /// None, as in queries where the MAC of a query would be.
    pub(super) const NONE: Self = Self { octets: [0; MAC_LEN_MAX], len: 0 };

    /// The first octets of `octets`, as many as a MAC has.
    pub(super) fn of(octets: &[u8]) -> Self {
        let mut mac = Self { len: octets.len().min(MAC_LEN_MAX), ..Self::NONE };
        mac.octets.iter_mut().zip(octets).for_each(|(slot, octet)| *slot = *octet);
        mac
    }

    pub(super) fn cut_to(self, len: usize) -> Self {
        Self { len: self.len.min(len), ..self }
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        self.octets.get(..self.len).unwrap_or_default()
    }
}

macro_rules! digests {
    ($($variant:ident $hash:ty,)*) => {
        /// An HMAC that has digested the secret and what followed so far.
        #[derive(Clone)]
        pub(super) enum Digest {
            $($variant(Hmac<$hash>),)*
        }

        impl Digest {
            /// With `secret`, which may have any length.
            pub(super) fn new(algorithm: Algorithm, secret: &[u8]) -> Option<Self> {
                match algorithm {
                    $(Algorithm::$variant => {
                        Hmac::<$hash>::new_from_slice(secret).ok().map(Self::$variant)
                    })*
                }
            }

            pub(super) fn octets(&mut self, octets: &[u8]) {
                match self {
                    $(Self::$variant(hmac) => hmac.update(octets),)*
                }
            }

            pub(super) fn mac(self) -> Mac {
                match self {
                    $(Self::$variant(hmac) => Mac::of(&hmac.finalize().into_bytes()),)*
                }
            }

            /// Whether `mac` is the MAC or the beginning of it, compared in constant time.
            pub(super) fn matches(self, mac: &[u8]) -> bool {
                match self {
                    $(Self::$variant(hmac) => hmac.verify_truncated_left(mac).is_ok(),)*
                }
            }
        }
    };
}

digests! {
    Md5 md5::Md5,
    Sha1 sha1::Sha1,
    Sha224 sha2::Sha224,
    Sha256 sha2::Sha256,
    Sha384 sha2::Sha384,
    Sha512 sha2::Sha512,
}

impl Digest {
    /// The same behind the MAC of the query, or of the message before (sections 4.3.1 and 5.3.1).
    pub(super) fn behind(&self, mac: &Mac) -> Self {
        let mut digest = self.clone();
        if !mac.as_slice().is_empty() {
            digest.octets(&(mac.len as u16).to_be_bytes());
            digest.octets(mac.as_slice());
        }
        digest
    }

    /// A message that has no TSIG record (section 4.3.2).
    pub(super) fn message(&mut self, message: &[u8]) {
        self.octets(message);
    }

    /// A message whose TSIG record starts at `end`, as it was before it got one: without the record,
    /// with the ID that it had then.
    pub(super) fn signed_message(&mut self, message: &[u8], end: usize, original_id: u16) {
        let Ok(mut header) = Header::read(message) else { return };
        let [.., additional] = &mut header.counts;
        *additional = additional.saturating_sub(1);
        header.id = original_id;
        self.octets(&header.to_bytes());
        self.octets(message.get(HEADER_LEN..end).unwrap_or_default());
    }

    /// The variables of the record (section 4.3.3). `key` is the key's name in lower case.
    pub(super) fn variables(&mut self, key: &[u8], algorithm: &[u8], variables: &Variables<'_>) {
        self.octets(key);
        self.octets(&Class::ANY.0.to_be_bytes());
        // TTL.
        self.octets(&[0; 4]);
        self.octets(algorithm);
        self.timers(variables);
        self.octets(&variables.error.0.to_be_bytes());
        self.octets(&(variables.other.len() as u16).to_be_bytes());
        self.octets(variables.other);
    }

    /// The timers alone, in the messages behind the first (section 5.3.1).
    pub(super) fn timers(&mut self, variables: &Variables<'_>) {
        self.octets(&variables.time_octets());
        self.octets(&variables.fudge_s.to_be_bytes());
    }
}
