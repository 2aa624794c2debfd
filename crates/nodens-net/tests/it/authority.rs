//! Certificates for servers, and clients that believe them.

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// Files of a certificate, and a configuration for clients that believe it.
pub(crate) struct Authority {
    folder: TempDir,
    certificate: CertificateDer<'static>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let certificate = Self::write(folder.path());
        Self { folder, certificate }
    }

    fn write(folder: &Path) -> CertificateDer<'static> {
        let made = generate_simple_self_signed(["dns.example".to_owned()]).unwrap();
        let CertifiedKey { cert, signing_key } = made;
        fs::write(folder.join("cert.pem"), cert.pem()).unwrap();
        fs::write(folder.join("key.pem"), signing_key.serialize_pem()).unwrap();
        cert.der().clone()
    }

    /// `tls` with this certificate and these words behind it.
    pub(crate) fn corefile(&self, more: &str) -> String {
        format!("tls://.:0 {{\n bind 127.0.0.1\n {} {more}\n whoami\n}}", self.tls())
    }

    /// `tls` with this certificate.
    pub(crate) fn tls(&self) -> String {
        let at = |name: &str| self.folder.path().join(name).display().to_string();
        let (cert, key) = (at("cert.pem"), at("key.pem"));
        format!("tls {cert} {key} {cert}")
    }

    /// The file of the certificate, which is its own authority.
    pub(crate) fn certificate_path(&self) -> String {
        self.folder.path().join("cert.pem").display().to_string()
    }

    /// The certificate and its key.
    pub(crate) fn pair(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let key = PrivateKeyDer::from_pem_file(self.folder.path().join("key.pem")).unwrap();
        (vec![self.certificate.clone()], key)
    }

    /// A client that speaks this version of TLS alone.
    pub(crate) fn client_of(
        &self,
        version: &'static rustls::SupportedProtocolVersion,
    ) -> Arc<ClientConfig> {
        let builder = ClientConfig::builder_with_protocol_versions(&[version]);
        Arc::new(builder.with_root_certificates(self.roots()).with_no_client_auth())
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        roots
    }

    /// A client that shows the certificate of `other`.
    pub(crate) fn client_as(&self, other: &Self) -> Arc<ClientConfig> {
        let builder = ClientConfig::builder().with_root_certificates(self.roots());
        let (chain, key) = other.pair();
        Arc::new(builder.with_client_auth_cert(chain, key).unwrap())
    }

    pub(crate) fn client(&self, has_certificate: bool) -> Arc<ClientConfig> {
        let builder = ClientConfig::builder().with_root_certificates(self.roots());
        Arc::new(if has_certificate {
            let key = PrivateKeyDer::from_pem_file(self.folder.path().join("key.pem")).unwrap();
            builder.with_client_auth_cert(vec![self.certificate.clone()], key).unwrap()
        } else {
            builder.with_no_client_auth()
        })
    }
}
