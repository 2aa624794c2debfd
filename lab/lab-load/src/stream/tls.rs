//! What TLS is set up with: whose certificates are taken, names, tickets.

use crate::transport::{Tls, Transport, Trust};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Tickets that a client keeps.
const TICKETS: usize = 8;

/// Why TLS cannot be set up as asked for.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file of trusted certificates cannot be used.
    #[error("cannot use the certificates in {}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The system has no certificates.
    #[error(
        "this system has no certificate authorities ({0}); name a file (--tls-ca) or take any \
         certificate (--tls-insecure)"
    )]
    NoRoots(String),
    /// Not a name that a certificate could have.
    #[error("`{0}` is not a name of a TLS server, expected a domain name or an address")]
    Name(String),
    /// Not a path of a resource.
    #[error("`{0}` is not a path for DNS over HTTPS, expected one such as /dns-query")]
    Path(String),
    /// rustls refuses.
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] rustls::Error),
}

/// The settings of one transport that all clients share.
#[derive(Clone)]
pub struct Settings {
    base: ClientConfig,
    resumption: bool,
    name: ServerName<'static>,
}

impl Settings {
    /// Reads what `tls` names; `server` is whose name a certificate needs if there is no other.
    pub fn new(tls: &Tls, transport: Transport, server: SocketAddr) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone());
        // QUIC is TLS 1.3 alone (RFC 9001 section 4.2).
        let builder = match transport {
            Transport::Doq | Transport::Doh3 => {
                builder.with_protocol_versions(&[&rustls::version::TLS13])?
            }
            _ => builder.with_safe_default_protocol_versions()?,
        };
        let builder = match &tls.trust {
            Trust::System => builder.with_root_certificates(system_roots()?),
            Trust::File(path) => {
                let known = Known::new(path, provider)?;
                builder.dangerous().with_custom_certificate_verifier(Arc::new(known))
            }
            Trust::Anyone => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(Anyone(provider)))
            }
        };
        let mut base = builder.with_no_client_auth();
        base.enable_early_data = tls.early_data;
        base.alpn_protocols = match transport {
            Transport::Doh => vec![b"h2".to_vec()],
            Transport::Doq => vec![b"doq".to_vec()],
            Transport::Doh3 => vec![b"h3".to_vec()],
            // The registered name is "dot"; a server that has only other names would refuse it, and
            // none needs it (RFC 7858 section 3.1).
            Transport::Udp | Transport::Tcp | Transport::Dot => Vec::new(),
        };
        let name = match &tls.name {
            None => ServerName::IpAddress(server.ip().into()),
            Some(name) => {
                let bare = name.strip_suffix('.').unwrap_or(name).to_owned();
                ServerName::try_from(bare).map_err(|_| TlsError::Name(name.clone()))?
            }
        };
        Ok(Self { base, resumption: !tls.no_resumption, name })
    }

    /// The settings of one client, with tickets of its own.
    pub fn of_client(&self) -> Arc<ClientConfig> {
        let resumption = if self.resumption {
            Resumption::in_memory_sessions(TICKETS)
        } else {
            Resumption::disabled()
        };
        let mut config = self.base.clone();
        config.resumption = resumption;
        Arc::new(config)
    }

    /// The name that the server's certificate needs.
    pub fn name(&self) -> ServerName<'static> {
        self.name.clone()
    }
}

fn system_roots() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let why = found.errors.first().map_or("none was found".to_owned(), ToString::to_string);
        return Err(TlsError::NoRoots(why));
    }
    Ok(roots)
}

/// Accepts what the certificates in a file have signed, and those certificates themselves: the usual
/// self-signed one of a test server says that it is an authority, and no authority may be a server.
#[derive(Debug)]
struct Known {
    certificates: Vec<CertificateDer<'static>>,
    chains: Arc<WebPkiServerVerifier>,
}

impl Known {
    fn new(path: &Path, provider: Arc<CryptoProvider>) -> Result<Self, TlsError> {
        let wrong = |why: String| TlsError::File { path: path.to_owned(), why };
        let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
        let certificates: Vec<_> = read.map_err(|error| wrong(error.to_string()))?;
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            roots.add(certificate.clone()).map_err(|error| wrong(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(wrong("expected at least one certificate in PEM".to_owned()));
        }
        let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let chains = chains.map_err(|error| wrong(error.to_string()))?;
        Ok(Self { certificates, chains })
    }
}

impl ServerCertVerifier for Known {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.certificates.contains(certificate) {
            verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
            return Ok(ServerCertVerified::assertion());
        }
        self.chains.verify_server_cert(certificate, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

/// Takes any certificate; signatures are checked all the same, so that the cost is the usual one.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_and_a_name_without_sense_are_refused() {
        let server = SocketAddr::from(([127, 0, 0, 1], 853));
        let new = |tls: Tls| Settings::new(&tls, Transport::Dot, server).map(drop).unwrap_err();
        let file = |path: &str| Tls { trust: Trust::File(path.into()), ..Tls::default() };
        let missing = new(file("/nonexistent.pem")).to_string();
        assert!(missing.contains("/nonexistent.pem"), "{missing}");
        let empty = new(file("/dev/null")).to_string();
        assert!(empty.contains("at least one certificate"), "{empty}");
        let name = Some("not a name".to_owned());
        let error = new(Tls { trust: Trust::Anyone, name, ..Tls::default() }).to_string();
        assert!(error.contains("`not a name`"), "{error}");
    }
}
