//! Which API server is believed to be one.

use crate::chain;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

/// The certificates in a bundle. What does not read as one is skipped, as Go does.
pub(crate) fn certificates(text: &[u8]) -> Vec<CertificateDer<'static>> {
    let found = CertificateDer::pem_slice_iter(text).flatten();
    found.filter(|certificate| chain::parse(certificate).is_some()).collect()
}

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
    known: RwLock<Arc<Known>>,
    file: Option<PathBuf>,
    provider: Arc<CryptoProvider>,
}

#[derive(Debug)]
struct Known {
    authorities: Vec<CertificateDer<'static>>,
    /// None if it can use none of them.
    webpki: Option<Arc<WebPkiServerVerifier>>,
}

impl Known {
    fn new(authorities: Vec<CertificateDer<'static>>, provider: &Arc<CryptoProvider>) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(authorities.iter().cloned());
        let builder =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        Self { authorities, webpki: builder.build().ok() }
    }
}

impl Verifier {
    /// One that believes `trust`; none if nothing is checked.
    pub(crate) fn new(trust: Trust, provider: Arc<CryptoProvider>) -> Option<Self> {
        let (authorities, file) = match trust {
            Trust::Given(authorities, file) => (authorities, file),
            Trust::System => (rustls_native_certs::load_native_certs().certs, None),
            Trust::Skipped => return None,
        };
        let known = RwLock::new(Arc::new(Known::new(authorities, &provider)));
        Some(Self { known, file, provider })
    }

    /// The authorities, as the file has them now. Handshakes are rare; a file that cannot be used
    /// changes nothing.
    fn known(&self) -> Arc<Known> {
        let read = self.file.as_ref().and_then(|file| std::fs::read(file).ok());
        let found = read.map(|text| certificates(&text)).filter(|found| !found.is_empty());
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).clone();
        match found {
            Some(found) if found != known.authorities => {
                let fresh = Arc::new(Known::new(found, &self.provider));
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
        let known = self.known();
        let verdict = known
            .webpki
            .as_ref()
            .map(|webpki| webpki.verify_server_cert(leaf, sent, name, ocsp, now));
        let refused = match verdict {
            Some(Ok(believed)) => return Ok(believed),
            Some(Err(error)) => Some(error),
            None => None,
        };
        let Err(error) = chain::verify(leaf, sent, &known.authorities, name, now) else {
            return Ok(ServerCertVerified::assertion());
        };
        // Its words have more in them, unless they are of a rule that does not count.
        Err(match refused {
            Some(refused) if !is_of_webpki_alone(&refused) => refused,
            _ => Error::InvalidCertificate(error),
        })
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

fn is_of_webpki_alone(error: &Error) -> bool {
    matches!(error, Error::InvalidCertificate(CertificateError::Other(OtherError(_))))
}

#[cfg(test)]
mod tests;
