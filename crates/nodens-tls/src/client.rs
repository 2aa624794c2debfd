//! What is asked of servers, and shown to them.

use crate::authorities::Authorities;
use crate::chain;
use crate::error::LoadError;
use crate::files::{self, Contents};
use crate::protocol::Protocol;
use arc_swap::{ArcSwap, ArcSwapOption};
use rustls::client::UnbufferedClientConnection;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientSessionMemoryCache, ClientSessionStore, Resumption};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme};
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Tickets that are kept of each server, for sessions that are resumed.
const TICKETS: usize = 8;

/// Where the authorities for servers are, and the certificate that is shown to them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClientFiles {
    /// The certificate, with those that lead to its authority, and its key; none is shown without.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// The authorities of servers' certificates; none stands for those of the system.
    pub authorities: Option<PathBuf>,
}

/// What connections to servers begin with, from the files as they were last read.
#[derive(Debug)]
pub struct Client {
    files: ClientFiles,
    provider: Arc<CryptoProvider>,
    loaded: ArcSwap<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    /// Without a store for sessions.
    config: Arc<ClientConfig>,
    verifier: Arc<Verifier>,
    /// How often the files had changed before.
    generation: u64,
    /// What the files had in them.
    contents: Contents,
}

impl Client {
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be read, does not have in it what it should, or they do not go together.
    pub fn load(files: ClientFiles) -> Result<Self, LoadError> {
        let provider = Arc::new(ring::default_provider());
        let loaded = ArcSwap::from_pointee(load(&files, &provider, 0)?);
        Ok(Self { files, provider, loaded })
    }

    /// Where it comes from.
    pub fn files(&self) -> &ClientFiles {
        &self.files
    }

    /// Whether there is no authority that could vouch for a server.
    pub fn believes_nobody(&self) -> bool {
        self.loaded.load().verifier.authorities.certificates().is_empty()
    }

    /// Reads the files again; says whether they changed. New connections begin with what is in them now
    /// and resume no session that began with others.
    ///
    /// # Errors
    /// As of [`Client::load`]; what was read before stays in use.
    pub fn reload(&self) -> Result<bool, LoadError> {
        let known = self.loaded.load();
        if known.contents == contents(&self.files)? {
            return Ok(false);
        }
        let generation = known.generation.wrapping_add(1);
        self.loaded.store(Arc::new(load(&self.files, &self.provider, generation)?));
        Ok(true)
    }
}

fn contents(files: &ClientFiles) -> Result<Contents, LoadError> {
    let pair = files.certificate.as_ref();
    let (certificate, key) = (pair.map(|(path, _)| path), pair.map(|(_, path)| path));
    files::contents([certificate, key, files.authorities.as_ref()])
}

fn load(
    files: &ClientFiles,
    provider: &Arc<CryptoProvider>,
    generation: u64,
) -> Result<Loaded, LoadError> {
    // Before they are parsed: what changes meanwhile is seen the next time.
    let contents = contents(files)?;
    let authorities = match &files.authorities {
        Some(path) => Authorities::new(files::authorities(path)?, provider),
        None => Authorities::of_system(provider),
    };
    let path = || files.certificate.as_ref().map(|(path, _)| path.clone()).unwrap_or_default();
    let unusable = |source| LoadError::Unusable { path: path(), source };
    let builder = ClientConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions().map_err(unusable)?;
    let verifier = Arc::new(Verifier {
        authorities: Arc::new(authorities),
        provider: provider.clone(),
        not_after: Arc::default(),
        refusal: Arc::default(),
    });
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier.clone());
    let config = match &files.certificate {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let (chain, key) = (files::certificates(certificate)?, files::private_key(key)?);
            builder.with_client_auth_cert(chain, key).map_err(unusable)?
        }
    };
    Ok(Loaded { config: Arc::new(config), verifier, generation, contents })
}

/// A server that connections are made to: the name that its certificate must have, and the sessions with
/// it that can be resumed.
#[derive(Debug)]
pub struct Peer {
    client: Arc<Client>,
    name: ServerName<'static>,
    protocol: Protocol,
    /// What connections begin with, made from what the client had read last.
    start: ArcSwapOption<Start>,
}

#[derive(Debug)]
struct Start {
    generation: u64,
    config: Arc<ClientConfig>,
    /// The last second of the certificate that was verified last; the sessions count no longer.
    not_after: Arc<AtomicU64>,
    /// Why a certificate was refused last.
    refusal: Refusal,
}

/// Go's words for what is wrong with a certificate.
type Refusal = Arc<ArcSwapOption<String>>;

impl Start {
    fn new(loaded: &Loaded, protocol: Protocol) -> Self {
        let not_after = Arc::new(AtomicU64::new(u64::MAX));
        let refusal = Refusal::default();
        let verifier = Verifier {
            not_after: not_after.clone(),
            refusal: refusal.clone(),
            ..Verifier::clone(&loaded.verifier)
        };
        let mut config = ClientConfig::clone(&loaded.config);
        config.alpn_protocols = protocol.asked();
        config.dangerous().set_certificate_verifier(Arc::new(verifier));
        let sessions: Arc<dyn ClientSessionStore> =
            Arc::new(ClientSessionMemoryCache::new(TICKETS));
        config.resumption = Resumption::store(sessions);
        Self { generation: loaded.generation, config: Arc::new(config), not_after, refusal }
    }

    /// Whether a session may be resumed: in one that is, no certificate is looked at.
    fn counts(&self, generation: u64) -> bool {
        let now = self.config.time_provider.current_time().map_or(u64::MAX, |now| now.as_secs());
        self.generation == generation && now <= self.not_after.load(Relaxed)
    }
}

impl Peer {
    /// One with this name that `protocol` is spoken with, without sessions.
    pub fn new(client: Arc<Client>, name: ServerName<'static>, protocol: Protocol) -> Self {
        Self { client, name, protocol, start: ArcSwapOption::empty() }
    }

    /// The name that its certificate must have, or its address.
    pub fn name(&self) -> &ServerName<'static> {
        &self.name
    }

    /// Differs between connections that began with different files.
    pub fn generation(&self) -> u64 {
        self.client.loaded.load().generation
    }

    /// The client's side of a new connection within TLS, by [`Peer::config`].
    ///
    /// # Errors
    /// There can be no keys.
    pub fn connect(&self) -> Result<ClientConnection, Error> {
        ClientConnection::new(self.config(), self.name.clone())
    }

    /// The same without buffers, for who has them already.
    ///
    /// # Errors
    /// There can be no keys.
    pub fn connect_unbuffered(&self) -> Result<UnbufferedClientConnection, Error> {
        UnbufferedClientConnection::new(self.config(), self.name.clone())
    }

    /// Why its certificate was refused last, in the words of [`go_text`](crate::go_text), for whoever gets no
    /// error of TLS from a connection.
    pub fn refusal(&self) -> Option<String> {
        self.start.load().as_ref()?.refusal.load().as_deref().cloned()
    }

    /// What a new connection begins with; a session is resumed if there is one, as long as the certificate
    /// counts that it began with.
    pub fn config(&self) -> Arc<ClientConfig> {
        let loaded = self.client.loaded.load();
        let known = self.start.load_full().filter(|start| start.counts(loaded.generation));
        let start = known.unwrap_or_else(|| {
            let start = Arc::new(Start::new(&loaded, self.protocol));
            self.start.store(Some(start.clone()));
            start
        });
        start.config.clone()
    }
}

/// Two are the same if they have the same name, protocol and files.
impl PartialEq for Peer {
    fn eq(&self, other: &Self) -> bool {
        let is_same = self.name == other.name && self.protocol == other.protocol;
        is_same && self.client.files == other.client.files
    }
}

impl Eq for Peer {}

impl Hash for Peer {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.name, self.protocol).hash(state);
        self.client.files.hash(state);
    }
}

/// A name or an address as certificates have it; a dot at the end of a name stands for itself. None if it
/// can be in no certificate.
pub fn server_name(text: &str) -> Option<ServerName<'static>> {
    let text = text.strip_suffix('.').unwrap_or(text);
    ServerName::try_from(text.to_ascii_lowercase()).ok()
}

/// Believes whom the authorities vouch for, and notes until when.
#[derive(Clone, Debug)]
struct Verifier {
    authorities: Arc<Authorities>,
    provider: Arc<CryptoProvider>,
    /// The last second of the certificate that was verified last.
    not_after: Arc<AtomicU64>,
    refusal: Refusal,
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
        let verified = self.authorities.verify(leaf, sent, name, ocsp, now);
        let verified = verified.inspect_err(|error| {
            self.refusal.store(Some(Arc::new(crate::go_text(error))));
        })?;
        self.not_after.store(chain::not_after(leaf).unwrap_or_default(), Relaxed);
        Ok(verified)
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
