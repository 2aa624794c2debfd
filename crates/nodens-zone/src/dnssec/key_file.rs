//! The two files of a key: `K….key` and `K….private`.

use super::algorithm::Algorithm;
use super::key::{Pair, SigningKey};
use crate::presentation::{self, PresentationError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nodens_wire::{Name, Type};
use ring::rand::SystemRandom;
use ring::rsa::{KeyPairComponents, PublicKeyComponents};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, Ed25519KeyPair, RsaKeyPair,
};

/// A zone in the names of files: a slash, as zones below a cut of a reverse zone have (RFC 2317), is written as
/// `dnssec-keygen` does.
pub fn in_file_name(origin: &Name) -> String {
    origin.to_string().replace('/', "%2F")
}

/// Why two files make no key. Nothing of the private part is repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// What the public file holds is no record.
    #[error("public key: {0}")]
    Record(#[from] PresentationError),
    /// It is another record than DNSKEY.
    #[error("public key: expected a DNSKEY record, found {0}")]
    NotKey(Type),
    /// DNSKEY RDATA of another shape.
    #[error(
        "public key: expected a DNSKEY record of protocol 3 with the zone key bit, such as `257 3 13 …`"
    )]
    Rdata,
    /// An algorithm that signatures are not made with here.
    #[error("algorithm {0} is not supported: expected 8, 10, 13, 14 or 15")]
    Algorithm(u8),
    /// The private file is of another format.
    #[error("private key: expected `Private-key-format: v1.2` or v1.3")]
    Format,
    /// The private file is for another algorithm than the public one.
    #[error("private key: expected `Algorithm: {0}`, as the public key has")]
    OtherAlgorithm(u8),
    /// A field is missing or is not Base64.
    #[error("private key: expected `{0}: ` and Base64")]
    Field(&'static str),
    /// The two do not belong together, or the key is too short, or too long, or no key at all.
    #[error("the private key does not belong to the public key, or their size is not supported")]
    Mismatch,
}

const FORMATS: [&str; 2] = ["v1.2", "v1.3"];

/// Reads both files.
pub(super) fn parse(public: &str, private: &str) -> Result<SigningKey, KeyError> {
    let record = presentation::record(first_entry(public))?;
    if record.rtype != Type::DNSKEY {
        return Err(KeyError::NotKey(record.rtype));
    }
    let [flags, _, protocol, number, key @ ..] = record.rdata.as_slice() else {
        return Err(KeyError::Rdata);
    };
    if *protocol != 3 || flags & 1 == 0 {
        return Err(KeyError::Rdata);
    }
    let algorithm = Algorithm::from_number(*number).ok_or(KeyError::Algorithm(*number))?;
    let fields = Fields(private);
    if !fields.get("Private-key-format").is_some_and(|format| FORMATS.contains(&format)) {
        return Err(KeyError::Format);
    }
    // `13 (ECDSAP256SHA256)`
    let own = fields.get("Algorithm").and_then(|text| text.split_ascii_whitespace().next());
    if own.and_then(|own| own.parse().ok()) != Some(*number) {
        return Err(KeyError::OtherAlgorithm(*number));
    }
    let pair = match algorithm {
        Algorithm::RsaSha256 | Algorithm::RsaSha512 => rsa(key, &fields)?,
        Algorithm::EcdsaP256Sha256 => ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING, key, &fields)?,
        Algorithm::EcdsaP384Sha384 => ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING, key, &fields)?,
        Algorithm::Ed25519 => {
            let seed = fields.octets("PrivateKey")?;
            let pair = Ed25519KeyPair::from_seed_and_public_key(&seed, key);
            Pair::Ed25519(Box::new(pair.map_err(|_| KeyError::Mismatch)?))
        }
    };
    Ok(SigningKey::new(record, algorithm, pair))
}

/// The text from the first line on that is not empty and not a comment.
fn first_entry(text: &str) -> &str {
    let mut rest = text;
    loop {
        let line = rest.lines().next().unwrap_or_default().trim_start();
        if !line.is_empty() && !line.starts_with(';') {
            return rest;
        }
        match rest.split_once('\n') {
            Some((_, behind)) => rest = behind,
            None => return "",
        }
    }
}

fn ecdsa(
    algorithm: &'static EcdsaSigningAlgorithm,
    key: &[u8],
    fields: &Fields<'_>,
) -> Result<Pair, KeyError> {
    let private = fields.octets("PrivateKey")?;
    // A point that is not compressed (SEC 1 section 2.3.3).
    let public = [&[4], key].concat();
    // Some tools leave out zeros in front.
    let missing = (key.len() / 2).saturating_sub(private.len());
    let private = [vec![0; missing], private].concat();
    let random = SystemRandom::new();
    let pair = EcdsaKeyPair::from_private_key_and_public_key(algorithm, &private, &public, &random);
    Ok(Pair::Ecdsa(Box::new(pair.map_err(|_| KeyError::Mismatch)?)))
}

fn rsa(key: &[u8], fields: &Fields<'_>) -> Result<Pair, KeyError> {
    let (e, n) = exponent_and_modulus(key).ok_or(KeyError::Mismatch)?;
    let number = |name| fields.octets(name).map(|octets| without_zeros(&octets).to_vec());
    let components = KeyPairComponents {
        public_key: PublicKeyComponents { n: n.to_vec(), e: e.to_vec() },
        d: number("PrivateExponent")?,
        p: number("Prime1")?,
        q: number("Prime2")?,
        dP: number("Exponent1")?,
        dQ: number("Exponent2")?,
        qInv: number("Coefficient")?,
    };
    let pair = RsaKeyPair::from_components(&components).map_err(|_| KeyError::Mismatch)?;
    Ok(Pair::Rsa(Box::new(pair)))
}

/// The parts of an RSA public key (RFC 3110 section 2).
fn exponent_and_modulus(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = match key {
        [0, high, low, rest @ ..] => (usize::from(u16::from_be_bytes([*high, *low])), rest),
        [len, rest @ ..] => (usize::from(*len), rest),
        [] => return None,
    };
    let (exponent, modulus) = rest.split_at_checked(len)?;
    Some((without_zeros(exponent), without_zeros(modulus)))
}

fn without_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|octet| **octet == 0).count();
    number.get(zeros..).unwrap_or_default()
}

/// The lines `NAME: VALUE` of a private file.
struct Fields<'t>(&'t str);

impl<'t> Fields<'t> {
    fn get(&self, name: &str) -> Option<&'t str> {
        let mut lines = self.0.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(own, _)| own.trim().eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    fn octets(&self, name: &'static str) -> Result<Vec<u8>, KeyError> {
        let value = self.get(name).ok_or(KeyError::Field(name))?;
        STANDARD.decode(value).map_err(|_| KeyError::Field(name))
    }
}
