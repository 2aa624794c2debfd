//! What listeners show their clients.

use crate::acme::Managed;
use crate::clients;
use crate::error::LoadError;
use crate::files::{self, Contents};
use crate::key_log::FileLog;
use crate::protocol::Protocol;
use arc_swap::ArcSwap;
use rustls::crypto::{CryptoProvider, ring};
use rustls::server::{NoServerSessionStorage, ProducesTickets};
use rustls::{ConfigBuilder, ServerConfig, WantsVerifier};
use std::path::PathBuf;
use std::sync::Arc;

/// Whether clients have to show a certificate; the words are those of the Corefile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ClientAuth {
    /// `nocert`: they are not asked for one.
    #[default]
    None,
    /// `request`: they are asked, and any will do, or none.
    Request,
    /// `require`: any will do.
    Require,
    /// `verify_if_given`: none will do, or one of the authorities.
    VerifyIfGiven,
    /// `require_and_verify`: one of the authorities.
    RequireAndVerify,
}

impl ClientAuth {
    /// Whether it is verified who a client is.
    pub(crate) fn verifies(self) -> bool {
        matches!(self, Self::VerifyIfGiven | Self::RequireAndVerify)
    }
}

/// Where the certificate, its key and the authorities for clients are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerFiles {
    /// The certificate and those that lead from it to its authority.
    pub certificate: PathBuf,
    /// The key of the certificate.
    pub key: PathBuf,
    /// The authorities of clients' certificates; none stands for those of the system.
    pub authorities: Option<PathBuf>,
    /// Whether clients have to show a certificate.
    pub client_auth: ClientAuth,
    /// Where to write the secrets of connections, so that others can decrypt them.
    pub key_log: Option<PathBuf>,
}

/// Where the certificates of a listener come from.
#[derive(Debug)]
enum Source {
    /// Files that somebody else writes.
    Files(ServerFiles),
    /// An ACME server.
    Managed(Arc<Managed>),
}

/// The configurations of one listener, one for each protocol, from the files as they were last read.
#[derive(Debug)]
pub struct Server {
    source: Source,
    /// What stays when the files change: secrets go to the same file.
    kept: Kept,
    configs: ArcSwap<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    /// In the order of [`Protocol::ALL`].
    configs: Vec<Arc<ServerConfig>>,
    /// What the files had in them.
    contents: Contents,
    tickets: Tickets,
}

/// Sessions are resumed with these, but not where clients are verified: a client with a ticket shows no certificate, and
/// each resumed session gives it another ticket, however long ago its certificate has expired. The keys live for hours and
/// are replaced by themselves.
type Tickets = Arc<dyn ProducesTickets>;

#[derive(Debug)]
struct Kept {
    provider: Arc<CryptoProvider>,
    key_log: Option<Arc<FileLog>>,
}

impl Kept {
    fn finish(
        &self,
        mut config: ServerConfig,
        protocol: Protocol,
        tickets: Option<&Tickets>,
    ) -> Arc<ServerConfig> {
        config.alpn_protocols = protocol.names();
        config.send_tls13_tickets = usize::from(tickets.is_some());
        match tickets {
            Some(tickets) => config.ticketer = tickets.clone(),
            None => config.session_storage = Arc::new(NoServerSessionStorage {}),
        }
        if let Some(log) = &self.key_log {
            config.key_log = log.clone();
        }
        Arc::new(config)
    }
}

impl Server {
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be read, does not have in it what it should, or they do not go together.
    pub fn load(files: ServerFiles) -> Result<Self, LoadError> {
        let unusable = |source| LoadError::Unusable { path: files.certificate.clone(), source };
        let key_log = files.key_log.as_deref().map(|path| {
            let unwritable = |source| LoadError::Write { path: path.to_owned(), source };
            FileLog::open(path).map(Arc::new).map_err(unwritable)
        });
        let provider = Arc::new(ring::default_provider());
        let kept = Kept { provider, key_log: key_log.transpose()? };
        let tickets = ring::Ticketer::new().map_err(unusable)?;
        let configs = ArcSwap::from_pointee(load((&files, contents(&files)?), &kept, tickets)?);
        Ok(Self { source: Source::Files(files), kept, configs })
    }

    /// With the certificates of `managed`, whichever it has when a client comes.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn managed(managed: Arc<Managed>) -> Result<Self, LoadError> {
        let path = managed.storage().root().to_owned();
        let unusable = |source| LoadError::Unusable { path: path.clone(), source };
        let tickets = ring::Ticketer::new().map_err(unusable)?;
        let kept = Kept { provider: Arc::new(ring::default_provider()), key_log: None };
        let config = |protocol: Protocol| {
            let builder = builder(&kept).map_err(unusable)?.with_no_client_auth();
            Ok(kept.finish(builder.with_cert_resolver(managed.clone()), protocol, Some(&tickets)))
        };
        let configs: Result<_, _> = Protocol::ALL.into_iter().map(config).collect();
        let loaded = Loaded { configs: configs?, contents: Contents::default(), tickets };
        let source = Source::Managed(managed);
        Ok(Self { source, kept, configs: ArcSwap::from_pointee(loaded) })
    }

    /// The files that it comes from, if it does.
    pub fn files(&self) -> Option<&ServerFiles> {
        match &self.source {
            Source::Files(files) => Some(files),
            Source::Managed(_) => None,
        }
    }

    /// The certificates of an ACME server, if it has such.
    pub fn acme(&self) -> Option<&Arc<Managed>> {
        match &self.source {
            Source::Files(_) => None,
            Source::Managed(managed) => Some(managed),
        }
    }

    /// Reads the files again; says whether they changed. New connections get what is in them now, those
    /// that are open keep what they began with. Sessions can still be resumed.
    ///
    /// # Errors
    /// As of [`Server::load`]; what was read before stays in use.
    pub fn reload(&self) -> Result<bool, LoadError> {
        let Source::Files(files) = &self.source else { return Ok(false) };
        let (before, contents) = (self.configs.load(), contents(files)?);
        if before.contents == contents {
            return Ok(false);
        }
        let tickets = before.tickets.clone();
        self.configs.store(Arc::new(load((files, contents), &self.kept, tickets)?));
        Ok(true)
    }

    /// What a new connection of `protocol` begins with.
    pub fn config(&self, protocol: Protocol) -> Option<Arc<ServerConfig>> {
        self.configs.load().configs.get(protocol.index()).cloned()
    }
}

fn builder(kept: &Kept) -> Result<ConfigBuilder<ServerConfig, WantsVerifier>, rustls::Error> {
    let builder = ServerConfig::builder_with_provider(kept.provider.clone());
    builder.with_safe_default_protocol_versions()
}

fn contents(files: &ServerFiles) -> Result<Contents, LoadError> {
    files::contents([Some(&files.certificate), Some(&files.key), files.authorities.as_ref()])
}

/// `contents` was read before the files are parsed: what changes meanwhile is seen the next time.
fn load(
    (files, contents): (&ServerFiles, Contents),
    kept: &Kept,
    tickets: Tickets,
) -> Result<Loaded, LoadError> {
    let chain = files::certificates(&files.certificate)?;
    let key = files::private_key(&files.key)?;
    let verifier = clients::verifier(files, &kept.provider)?;
    let unusable = |source| LoadError::Unusable { path: files.certificate.clone(), source };
    let config = |protocol: Protocol| {
        let builder = builder(kept).map_err(unusable)?;
        let builder = match &verifier {
            Some(verifier) => builder.with_client_cert_verifier(verifier.clone()),
            None => builder.with_no_client_auth(),
        };
        let config = builder.with_single_cert(chain.clone(), key.clone_key()).map_err(unusable)?;
        let tickets = (!files.client_auth.verifies()).then_some(&tickets);
        Ok(kept.finish(config, protocol, tickets))
    };
    let configs: Result<_, _> = Protocol::ALL.into_iter().map(config).collect();
    Ok(Loaded { configs: configs?, contents, tickets })
}

#[cfg(test)]
mod tests;
