//! Certificates that an ACME server (RFC 8555) issues: what is wanted, what is there, and where it is kept. Who asks the
//! server for them is another crate.

mod options;
mod storage;

pub use options::{AcmeDomainError, AcmeOptions};
pub use storage::{Storage, Stored};

use crate::error::LoadError;
use crate::files;
use arc_swap::ArcSwap;
use rustls::client::verify_server_name;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::path::Path;
use std::sync::Arc;
use x509_parser::prelude::{FromDer, X509Certificate};

/// A certificate with its key, ready for handshakes.
#[derive(Clone, Debug)]
struct Held {
    key: Arc<CertifiedKey>,
    life: Life,
}

/// When a certificate is valid, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// The first second.
    pub not_before: i64,
    /// The last second.
    pub not_after: i64,
}

impl Life {
    /// When to renew it: one third of its life before the end.
    pub fn renew_at(&self) -> i64 {
        let life = self.not_after.saturating_sub(self.not_before).saturating_add(1).max(0);
        self.not_after.saturating_add(1).saturating_sub(life / 3)
    }
}

/// The certificates of one `tls { acme ... }`, one for each domain. Handshakes read them without a lock.
#[derive(Debug)]
pub struct Managed {
    options: AcmeOptions,
    storage: Storage,
    /// In the order of the domains.
    held: ArcSwap<Vec<Option<Held>>>,
}

impl Managed {
    /// Without any certificate: handshakes fail until there is one.
    pub fn new(options: AcmeOptions) -> Self {
        let held = ArcSwap::from_pointee(vec![None; options.domains.len()]);
        Self { storage: Storage::new(&options), options, held }
    }

    /// What is wanted.
    pub fn options(&self) -> &AcmeOptions {
        &self.options
    }

    /// Where certificates and the account are kept.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// When the certificate of `domain` is valid; `None` if there is none.
    pub fn life(&self, domain: &str) -> Option<Life> {
        let place = self.options.domains.iter().position(|own| own == domain)?;
        self.held.load().get(place)?.as_ref().map(|held| held.life)
    }

    /// Takes up what the storage has of `domain`; says whether it has anything.
    ///
    /// # Errors
    /// The files cannot be read or are of no use; what was there before stays in use.
    pub fn load(&self, domain: &str) -> Result<bool, LoadError> {
        let Some((chain, key)) = self.storage.certificate(domain)? else { return Ok(false) };
        self.take_up(domain, &chain, &key)?;
        Ok(true)
    }

    /// Uses this certificate, with the chain to its authority, and its key, both in PEM format, for new connections.
    ///
    /// # Errors
    /// They are no certificate of `domain` and its key.
    pub fn take_up(&self, domain: &str, chain: &[u8], key: &[u8]) -> Result<(), LoadError> {
        let (at, key_at) = self.storage.certificate_files(domain);
        let held = held(domain, (&at, chain), (&key_at, key))?;
        let Some(place) = self.options.domains.iter().position(|own| own == domain) else {
            return Ok(());
        };
        self.held.rcu(|all| {
            let mut all = Vec::clone(all);
            if let Some(slot) = all.get_mut(place) {
                *slot = Some(held.clone());
            }
            all
        });
        Ok(())
    }

    /// The certificate for who asks for `name`. Without a name it is that of the first domain, as in CoreDNS.
    fn certificate(&self, name: Option<&str>) -> Option<Arc<CertifiedKey>> {
        let place = match name {
            None => 0,
            Some(name) => self.options.place(name)?,
        };
        self.held.load().get(place)?.as_ref().map(|held| held.key.clone())
    }
}

impl ResolvesServerCert for Managed {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.certificate(hello.server_name())
    }
}

fn held(
    domain: &str,
    (at, chain): (&Path, &[u8]),
    (key_at, key): (&Path, &[u8]),
) -> Result<Held, LoadError> {
    let unusable = |source| LoadError::Unusable { path: at.to_owned(), source };
    let wrong = |wanted| LoadError::Content { path: at.to_owned(), wanted, detail: String::new() };
    let chain = files::certificates_in(at, chain)?;
    let key = files::private_key_in(key_at, key)?;
    let leaf = chain.first().ok_or_else(|| wrong("certificates"))?.clone();
    // Fails also if the key is that of another certificate.
    let key = CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(unusable)?;
    // A certificate of `*.example` is one for any name below `example`.
    let name = domain.replacen('*', "any", 1);
    let name = ServerName::try_from(name).map_err(|_| wrong("a certificate of another name"))?;
    let parsed = ParsedCertificate::try_from(&leaf).map_err(unusable)?;
    verify_server_name(&parsed, &name).map_err(unusable)?;
    let (_, parsed) = X509Certificate::from_der(&leaf).map_err(|_| wrong("certificates"))?;
    let validity = parsed.validity();
    let life = Life {
        not_before: validity.not_before.timestamp(),
        not_after: validity.not_after.timestamp(),
    };
    Ok(Held { key: Arc::new(key), life })
}

#[cfg(test)]
mod tests;
