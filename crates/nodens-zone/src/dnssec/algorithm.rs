//! The algorithms that signatures are made with.

use std::fmt;

/// An algorithm of DNSSEC that keys may have. Those with SHA-1 are missing: signatures must not be made
/// with them any more (RFC 9905).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// RSA/SHA-256 (RFC 5702).
    RsaSha256,
    /// RSA/SHA-512 (RFC 5702).
    RsaSha512,
    /// ECDSA with curve P-256 and SHA-256 (RFC 6605).
    EcdsaP256Sha256,
    /// ECDSA with curve P-384 and SHA-384 (RFC 6605).
    EcdsaP384Sha384,
    /// Ed25519 (RFC 8080).
    Ed25519,
}

impl Algorithm {
    const ALL: [(Self, u8, &'static str); 5] = [
        (Self::RsaSha256, 8, "RSASHA256"),
        (Self::RsaSha512, 10, "RSASHA512"),
        (Self::EcdsaP256Sha256, 13, "ECDSAP256SHA256"),
        (Self::EcdsaP384Sha384, 14, "ECDSAP384SHA384"),
        (Self::Ed25519, 15, "ED25519"),
    ];

    /// The algorithm with a number, if it is one of these.
    pub fn from_number(number: u8) -> Option<Self> {
        let all = Self::ALL.into_iter();
        all.into_iter().find(|(_, own, _)| *own == number).map(|(algorithm, ..)| algorithm)
    }

    /// Its number.
    pub fn number(self) -> u8 {
        Self::ALL.into_iter().find(|(own, ..)| *own == self).map_or(0, |(_, number, _)| number)
    }

    /// Its mnemonic.
    pub fn mnemonic(self) -> &'static str {
        Self::ALL.into_iter().find(|(own, ..)| *own == self).map_or("", |(_, _, text)| text)
    }

    /// Whether it is one with RSA, whose signatures take much longer to make than others.
    pub fn is_rsa(self) -> bool {
        matches!(self, Self::RsaSha256 | Self::RsaSha512)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.mnemonic())
    }
}
