//! Which API server is believed to be one.

use nodens_tls::Authorities;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

/// Who vouches for an API server.
#[derive(Clone, Debug)]
pub(crate) enum Trust {
    /// These authorities; read anew from a file, if they came from one that is replaced in place.
    Given(Vec<CertificateDer<'static>>, Option<PathBuf>),
    /// Those of the system.
    System,
    /// No one has to: `insecure-skip-tls-verify`.
    Skipped,
}

/// Believes what Go's client believes.
#[derive(Debug)]
pub(crate) struct Verifier {
    known: RwLock<Arc<Authorities>>,
    file: Option<PathBuf>,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    /// One that believes `trust`; none if nothing is checked.
    pub(crate) fn new(trust: Trust, provider: Arc<CryptoProvider>) -> Option<Self> {
        let (authorities, file) = match trust {
            Trust::Given(authorities, file) => (authorities, file),
            Trust::System => (rustls_native_certs::load_native_certs().certs, None),
            Trust::Skipped => return None,
        };
        let known = RwLock::new(Arc::new(Authorities::new(authorities, &provider)));
        Some(Self { known, file, provider })
    }

    /// The authorities, as the file has them now. Handshakes are rare; a file that cannot be used
    /// changes nothing.
    fn known(&self) -> Arc<Authorities> {
        let read = self.file.as_ref().and_then(|file| std::fs::read(file).ok());
        let found = read.map(|text| Authorities::in_text(&text)).filter(|found| !found.is_empty());
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).clone();
        match found {
            Some(found) if found != known.certificates() => {
                let fresh = Arc::new(Authorities::new(found, &self.provider));
                *self.known.write().unwrap_or_else(PoisonError::into_inner) = fresh.clone();
                fresh
            }
            _ => known,
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        sent: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.known().verify(leaf, sent, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, leaf, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, leaf, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests;
