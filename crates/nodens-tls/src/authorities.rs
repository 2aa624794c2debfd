//! Whose certificates are believed.

use crate::chain;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, Error, OtherError, RootCertStore};
use std::sync::Arc;

/// Authorities, which vouch for those servers that Go's `crypto/tls` believes with them.
#[derive(Debug)]
pub struct Authorities {
    certificates: Vec<CertificateDer<'static>>,
    /// Whom each of them is for.
    subjects: Vec<Vec<u8>>,
    /// None if it can use none of them.
    webpki: Option<Arc<WebPkiServerVerifier>>,
}

impl Authorities {
    /// These certificates.
    pub fn new(certificates: Vec<CertificateDer<'static>>, provider: &Arc<CryptoProvider>) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates.iter().cloned());
        let builder =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let subjects = certificates.iter().map(chain::subject).collect();
        Self { certificates, subjects, webpki: builder.build().ok() }
    }

    /// Those of the system.
    pub fn of_system(provider: &Arc<CryptoProvider>) -> Self {
        Self::new(rustls_native_certs::load_native_certs().certs, provider)
    }

    /// The certificates in a text in PEM format. What does not read as one is skipped, as Go does.
    pub fn in_text(text: &[u8]) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(text).flatten().filter(chain::is_certificate).collect()
    }

    /// Whether Go reads this as a certificate.
    pub fn is_certificate(octets: &CertificateDer<'_>) -> bool {
        chain::is_certificate(octets)
    }

    /// The certificates.
    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.certificates
    }

    /// Checks that `leaf` is the certificate of `name`, and that an authority vouches for it.
    ///
    /// # Errors
    /// Why it is not believed.
    pub fn verify(
        &self,
        leaf: &CertificateDer<'_>,
        sent: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verdict = self
            .webpki
            .as_ref()
            .map(|webpki| webpki.verify_server_cert(leaf, sent, name, ocsp, now));
        let refused = match verdict {
            Some(Ok(believed)) => return Ok(believed),
            Some(Err(error)) => Some(error),
            None => None,
        };
        let authorities = (&*self.certificates, &*self.subjects);
        let Err(error) = chain::verify(leaf, sent, authorities, name, now) else {
            return Ok(ServerCertVerified::assertion());
        };
        // Its words have more in them, unless they are of a rule that does not count.
        Err(match refused {
            Some(refused) if !is_of_webpki_alone(&refused) => refused,
            _ => Error::InvalidCertificate(error),
        })
    }

    /// The verdict of `webpki` alone; none if it can use no certificate.
    #[cfg(feature = "testing")]
    pub fn webpki(&self) -> Option<&Arc<WebPkiServerVerifier>> {
        self.webpki.as_ref()
    }
}

fn is_of_webpki_alone(error: &Error) -> bool {
    matches!(error, Error::InvalidCertificate(CertificateError::Other(OtherError(_))))
}
