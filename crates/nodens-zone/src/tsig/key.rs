//! Keys: a name, a secret, and what it is used with.

use super::algorithm::{Algorithm, Policy, Spelling, UnknownAlgorithm, spelled};
use super::digest::{Digest, Mac};
use super::signer::{Signer, TooLong};
use super::verifier::Verifier;
use crate::limits::TSIG_SECRET_LEN_MAX;
use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use nodens_wire::{Name, NameError, NameRef};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// As the library that CoreDNS is built on reads secrets: with padding, and whatever the last bits are.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// Why there is no key. The secret itself is not repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The name of the key.
    #[error("the name of key {0:?} is invalid: {1}")]
    Name(String, NameError),
    /// The secret.
    #[error("the secret of key {0:?} is not base64 of 1 to {TSIG_SECRET_LEN_MAX} octets")]
    Secret(String),
    /// The algorithm.
    #[error(transparent)]
    Algorithm(#[from] UnknownAlgorithm),
}

/// A key. A copy is a pointer.
#[derive(Clone)]
pub struct Key(Arc<Inner>);

struct Inner {
    /// In lower case.
    name: Name,
    /// What it may be used with; the first signs queries.
    uses: Vec<Use>,
}

/// One algorithm that a key may be used with.
pub(super) struct Use {
    pub(super) policy: Policy,
    /// It has digested the secret.
    pub(super) digest: Digest,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uses = self.0.uses.iter().map(|own| own.policy.algorithm.name());
        write!(f, "Key({} {})", self.0.name, uses.collect::<Vec<_>>().join(" "))
    }
}

impl Key {
    /// The key `name` with this secret. Without a policy it verifies messages of every algorithm but
    /// hmac-md5, and signs queries with hmac-sha256.
    ///
    /// # Errors
    /// If the secret is empty or longer than [`TSIG_SECRET_LEN_MAX`] octets.
    pub fn new(name: NameRef<'_>, secret: &[u8], policy: Option<Policy>) -> Result<Self, KeyError> {
        let no_secret = || KeyError::Secret(name.to_string());
        if !(1..=TSIG_SECRET_LEN_MAX).contains(&secret.len()) {
            return Err(no_secret());
        }
        let with = |policy: Policy| {
            let digest = Digest::new(policy.algorithm, secret)?;
            Some(Use { policy, digest })
        };
        let uses: Option<_> = match policy {
            Some(policy) => std::iter::once(policy).map(with).collect(),
            None => Algorithm::UNNAMED.into_iter().map(Policy::from).map(with).collect(),
        };
        let name = name.to_name().to_folded();
        Ok(Self(Arc::new(Inner { name, uses: uses.ok_or_else(no_secret)? })))
    }

    /// The same from text: `secret` in base64, `algorithm` such as `hmac-sha256`.
    ///
    /// # Errors
    /// If any of them cannot be read.
    pub fn parse(name: &str, secret: &str, algorithm: Option<&str>) -> Result<Self, KeyError> {
        let read = Name::parse(name).map_err(|error| KeyError::Name(name.to_owned(), error))?;
        let secret = BASE64.decode(secret).map_err(|_| KeyError::Secret(name.to_owned()))?;
        Self::new(read.view(), &secret, algorithm.map(str::parse).transpose()?)
    }

    /// The name of the key, in lower case.
    pub fn name(&self) -> NameRef<'_> {
        self.0.name.view()
    }

    /// Signs `query` and gives what verifies the messages of the response.
    ///
    /// # Errors
    /// If the query has no room for the record; it is unchanged then.
    pub fn sign_query(&self, query: &mut Vec<u8>, unix_s: u64) -> Result<Verifier, TooLong> {
        let own = self.0.uses.first().ok_or(TooLong)?;
        let spelling = own.policy.algorithm.spelling();
        let mut signer = Signer::new(self.0.name.clone(), spelling, own, Mac::NONE);
        let mac = signer.sign(query, unix_s)?;
        Ok(Verifier::new(self.clone(), spelling, own, &mac))
    }

    /// What a message means that names `algorithm`, in wire format; nothing if the key is not for it.
    pub(super) fn used_with(&self, algorithm: &[u8]) -> Option<(&'static Spelling, &Use)> {
        let spelling = spelled(algorithm)?;
        let own = self.0.uses.iter().find(|own| own.policy.algorithm == spelling.algorithm)?;
        Some((spelling, own))
    }
}

/// Keys by their names, whose letters' case does not count.
#[derive(Clone, Debug, Default)]
pub struct Keys(HashMap<Name, Key>);

impl Keys {
    /// Adds a key; gives it back if there is one of that name already.
    pub fn add(&mut self, key: Key) -> Result<(), Key> {
        match self.0.contains_key(&key.0.name) {
            true => Err(key),
            false => {
                self.replace(key);
                Ok(())
            }
        }
    }

    /// Adds a key in the place of one with the same name.
    pub fn replace(&mut self, key: Key) {
        self.0.insert(key.0.name.clone(), key);
    }

    /// The key of this name.
    pub fn get(&self, name: &Name) -> Option<&Key> {
        self.0.get(name)
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Key> {
        self.0.values()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
