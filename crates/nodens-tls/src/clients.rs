//! What is asked of clients' certificates.

use crate::error::LoadError;
use crate::files;
use crate::server::{ClientAuth, ServerFiles};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use std::sync::Arc;

/// How clients are verified; none if they are not asked for a certificate.
pub(crate) fn verifier(
    files: &ServerFiles,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, LoadError> {
    let is_mandatory = match files.client_auth {
        ClientAuth::None => return Ok(None),
        ClientAuth::Request | ClientAuth::Require => {
            let is_mandatory = files.client_auth == ClientAuth::Require;
            return Ok(Some(Arc::new(Anyone { provider: provider.clone(), is_mandatory })));
        }
        ClientAuth::VerifyIfGiven => false,
        ClientAuth::RequireAndVerify => true,
    };
    let roots = Arc::new(authorities(files)?);
    let builder = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
    let builder = if is_mandatory { builder } else { builder.allow_unauthenticated() };
    let path = files.authorities.clone().unwrap_or_else(|| files.certificate.clone());
    let verifier = builder
        .build()
        .map_err(|error| LoadError::Unusable { path, source: Error::General(error.to_string()) })?;
    Ok(Some(verifier))
}

fn authorities(files: &ServerFiles) -> Result<RootCertStore, LoadError> {
    let mut roots = RootCertStore::empty();
    let Some(path) = &files.authorities else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    for certificate in files::certificates(path)? {
        let unusable = |source| LoadError::Unusable { path: path.clone(), source };
        roots.add(certificate).map_err(unusable)?;
    }
    Ok(roots)
}

/// Takes any certificate, but only from who has its key.
#[derive(Debug)]
struct Anyone {
    provider: Arc<CryptoProvider>,
    is_mandatory: bool,
}

impl ClientCertVerifier for Anyone {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn client_auth_mandatory(&self) -> bool {
        self.is_mandatory
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
