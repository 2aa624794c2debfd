//! TLS to a reader of dnstap, with the system's authorities.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    StreamOwned,
};
use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::sync::Arc;

pub(super) type TlsStream = StreamOwned<ClientConnection, TcpStream>;

/// Agrees with the other side on a session; `host` is the name or address that its certificate has
/// to be for, unless any certificate will do.
pub(super) fn connect(stream: TcpStream, host: &str, skip_verify: bool) -> io::Result<TlsStream> {
    let wrong = |text: String| io::Error::new(ErrorKind::InvalidInput, text);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(host.to_owned());
    let name =
        name.map_err(|_| wrong(format!("{host} is not a valid server name for a certificate")))?;
    let config = Arc::new(config(skip_verify)?);
    let connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(connection, stream);
    stream.conn.complete_io(&mut stream.sock)?;
    Ok(stream)
}

fn config(skip_verify: bool) -> io::Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
    if skip_verify {
        let anyone = Arc::new(Anyone(provider));
        let builder = builder.dangerous().with_custom_certificate_verifier(anyone);
        return Ok(builder.with_no_client_auth());
    }
    let mut authorities = RootCertStore::empty();
    let system = rustls_native_certs::load_native_certs();
    authorities.add_parsable_certificates(system.certs);
    if authorities.is_empty() {
        let text = "this system has no authorities for certificates: install ca-certificates, or \
                    name a file of them in SSL_CERT_FILE";
        return Err(io::Error::new(ErrorKind::NotFound, text));
    }
    Ok(builder.with_root_certificates(authorities).with_no_client_auth())
}

/// Takes any certificate (`skipverify`), but only from who has its key.
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
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
