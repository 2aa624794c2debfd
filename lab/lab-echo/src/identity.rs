//! The certificate that an echo over TLS shows.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ProducesTickets, ServerSessionMemoryCache};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Sessions that a server over QUIC remembers.
const SESSIONS: usize = 16_384;

/// Why there is no certificate to show.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file cannot be used.
    #[error("cannot use {}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A certificate for these names cannot be made.
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// Certificate and key do not belong together, or rustls refuses them.
    #[error("cannot show the certificate: {0}")]
    Show(#[from] rustls::Error),
}

/// A certificate with its key, and the authority that signed it.
#[derive(Debug)]
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    /// The certificate of the authority that signed it, in PEM, if it was made here.
    pub authority: Option<String>,
    /// Certificate and key in PEM, for other servers, if they were made here.
    pub made: Option<Made>,
}

/// Texts in PEM.
#[derive(Debug)]
pub struct Made {
    /// The certificate.
    pub chain: String,
    /// Its key.
    pub key: String,
}

impl Identity {
    /// Makes a certificate for `names` (domain names and addresses), and an authority for it whose
    /// key is forgotten at once.
    pub fn make(names: &[String]) -> Result<Self, IdentityError> {
        let mut authority = CertificateParams::new(Vec::new())?;
        // Not the name of the certificate: OpenSSL takes one that names itself for its own authority.
        authority.distinguished_name.push(DnType::CommonName, "nodens-lab authority");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority_key = KeyPair::generate()?;
        let pem = authority.self_signed(&authority_key)?.pem();
        let issuer = Issuer::new(authority, authority_key);
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "nodens-lab echo");
        let certificate = params.signed_by(&key, &issuer)?;
        let made = Some(Made { chain: certificate.pem(), key: key.serialize_pem() });
        let key = PrivateKeyDer::try_from(key.serialize_der())
            .map_err(|why| rustls::Error::General(why.to_owned()))?;
        Ok(Self { chain: vec![certificate.der().clone()], key, authority: Some(pem), made })
    }

    /// Reads a chain of certificates and its key from files in PEM.
    pub fn read(chain: &Path, key: &Path) -> Result<Self, IdentityError> {
        let wrong = |path: &Path, why: String| IdentityError::File { path: path.to_owned(), why };
        let read = CertificateDer::pem_file_iter(chain).and_then(Iterator::collect);
        let certificates: Vec<_> = read.map_err(|error| wrong(chain, error.to_string()))?;
        if certificates.is_empty() {
            return Err(wrong(chain, "expected a certificate in PEM".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_file(key);
        let key = key.map_err(|error| wrong(chain, format!("no key: {error}")))?;
        Ok(Self { chain: certificates, key, authority: None, made: None })
    }

    /// The settings of a server that speaks `protocol` (ALPN) over QUIC and takes early data.
    pub fn quic_config(&self, protocol: &str) -> Result<Arc<ServerConfig>, IdentityError> {
        let mut config = ServerConfig::clone(&*self.config(protocol)?);
        // Early data wants sessions that the server remembers, and QUIC this very limit (RFC 9001
        // section 4.6.1).
        config.ticketer = Arc::new(NoTickets);
        config.session_storage = ServerSessionMemoryCache::new(SESSIONS);
        config.max_early_data_size = u32::MAX;
        Ok(Arc::new(config))
    }

    /// The settings of a server that speaks `protocol` (ALPN), with tickets for resumption.
    pub fn config(&self, protocol: &str) -> Result<Arc<ServerConfig>, IdentityError> {
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let mut config = builder
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(self.chain.clone(), self.key.clone_key())?;
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        config.ticketer = ring::Ticketer::new()?;
        Ok(Arc::new(config))
    }
}

/// Keeps sessions here and not in tickets.
#[derive(Debug)]
struct NoTickets;

impl ProducesTickets for NoTickets {
    fn enabled(&self) -> bool {
        false
    }

    fn lifetime(&self) -> u32 {
        0
    }

    fn encrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn decrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_identity_has_an_authority_and_a_read_one_names_its_file() {
        let made = Identity::make(&["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        assert!(made.authority.as_ref().unwrap().starts_with("-----BEGIN CERTIFICATE"));
        made.config("dot").unwrap();
        let named =
            |name: &[u8]| made.chain[0].windows(name.len()).filter(|at| *at == name).count();
        assert_eq!([named(b"nodens-lab authority"), named(b"nodens-lab echo")], [1, 1]);
        let missing = Path::new("/nonexistent/cert.pem");
        let error = Identity::read(missing, missing).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/cert.pem"), "{error}");
    }
}
