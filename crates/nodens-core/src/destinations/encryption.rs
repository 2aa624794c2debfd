//! Upstreams that are asked within TLS or QUIC: whom they have to be, and what is shown to them.

use super::Destination;
use crate::config::{BlockBuilder, Renewal};
use crate::limits::CERTIFICATE_RELOAD;
use crate::log::Level;
use crate::transport::ListenerKind;
use crate::upstream::Peer;
use nodens_corefile::{Directive, Error, Token};
use nodens_tls::rustls::pki_types::ServerName;
use nodens_tls::{Client, ClientFiles, Protocol, server_name};
use std::sync::Arc;

/// What `tls` and `tls_servername` say.
#[derive(Clone, Debug)]
pub(crate) struct Encryption {
    /// The directive, for log and errors.
    origin: &'static str,
    /// Whether zones are transferred.
    transfers: bool,
    client: Option<Arc<Client>>,
    /// The name of all certificates, as written.
    name: Option<(String, ServerName<'static>)>,
}

impl Encryption {
    /// What `origin` has without either.
    pub(crate) fn new(origin: &'static str) -> Self {
        Self { origin, transfers: false, client: None, name: None }
    }

    /// The same for a directive that transfers zones.
    pub(crate) fn for_transfers(origin: &'static str) -> Self {
        Self { transfers: true, ..Self::new(origin) }
    }

    /// Whether either is there.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.client.is_some() || self.name.is_some()
    }

    /// Reads `tls [CERT KEY] [CA]`.
    pub(crate) fn read_files(
        &mut self,
        line: &Directive,
        block: &mut BlockBuilder<'_>,
    ) -> Result<(), Error> {
        let path = |word: &Token| block.path(&word.text);
        let files = match line.expect_args_within(0..=3)? {
            [] => ClientFiles::default(),
            [ca] => ClientFiles { certificate: None, authorities: Some(path(ca)) },
            [certificate, key, ca @ ..] => ClientFiles {
                certificate: Some((path(certificate), path(key))),
                authorities: ca.first().map(path),
            },
        };
        self.client = Some(client(files, self.origin, line, block)?);
        Ok(())
    }

    /// Reads `tls_servername NAME`.
    pub(crate) fn read_name(&mut self, line: &Directive) -> Result<(), Error> {
        let [word] = line.expect_args()?;
        self.name = match word.text.as_str() {
            // As if it were not there.
            "" => None,
            text => Some((text.to_owned(), name(word, text)?)),
        };
        Ok(())
    }

    /// Who `to` has to be; none where nothing is encrypted.
    pub(crate) fn peer(
        &mut self,
        to: &Destination,
        directive: &Directive,
        block: &mut BlockBuilder<'_>,
    ) -> Result<Option<Arc<Peer>>, Error> {
        let address = to.address;
        let Some(protocol) = self.protocol(to.kind) else {
            if let Some(own) = &to.name {
                let text = format!(
                    "{address}%{own}: the name has no effect without tls, queries leave without encryption: add tls"
                );
                block.shared.sink.line(Level::Warning, self.origin, text);
            }
            return Ok(None);
        };
        let name = match (&self.name, &to.name) {
            (Some((all, _)), Some(own)) => {
                let (origin, scheme) = (self.origin, to.kind.scheme());
                return Err(directive.invalid(format!(
                    "both {origin} ('{all}') and proxy level ('{own}') TLS servernames are set for \
                     upstream proxy '{scheme}://{address}'"
                )));
            }
            (Some((_, all)), None) => all.clone(),
            (None, Some(own)) => name(&directive.name, own)?,
            (None, None) => ServerName::from(address.ip()),
        };
        let client = match &self.client {
            Some(client) => client.clone(),
            None => client(ClientFiles::default(), self.origin, directive, block)?,
        };
        self.client = Some(client.clone());
        Ok(Some(Arc::new(Peer::new(client, name, protocol))))
    }

    /// What is spoken within TLS with a server that speaks `kind`.
    fn protocol(&self, kind: ListenerKind) -> Option<Protocol> {
        match kind {
            ListenerKind::Dns => None,
            ListenerKind::Tls if self.transfers => Some(Protocol::Xot),
            ListenerKind::Tls => Some(Protocol::Dot),
            ListenerKind::Https => Some(Protocol::Https),
            // Without TLS where the Corefile says nothing of it, as in CoreDNS.
            ListenerKind::Grpc => self.is_asked_for().then_some(Protocol::Grpc),
            ListenerKind::Quic => Some(Protocol::Doq),
            ListenerKind::Https3 => Some(Protocol::Http3),
        }
    }
}

fn name(word: &Token, text: &str) -> Result<ServerName<'static>, Error> {
    let invalid =
        || Error::invalid(word, format!("{text:?} is no name that a certificate can have"));
    server_name(text).ok_or_else(invalid)
}

/// What connections begin with that use `files`, which are read again when they change.
fn client(
    files: ClientFiles,
    origin: &'static str,
    line: &Directive,
    block: &mut BlockBuilder<'_>,
) -> Result<Arc<Client>, Error> {
    let client = block.shared.upstreams.client(files);
    let client = client.map_err(|error| line.invalid(error.to_string()))?;
    if client.believes_nobody() {
        let text = "the system has no authorities for certificates, so every handshake with an upstream fails: \
                    install ca-certificates, or name a file of them with tls or in SSL_CERT_FILE";
        block.shared.sink.line(Level::Warning, origin, text.to_owned());
    }
    let ClientFiles { certificate, authorities } = client.files();
    let path = certificate.as_ref().map(|(certificate, _)| certificate).or(authorities.as_ref());
    let is_known = block.services.kept.all::<Arc<Client>>().any(|own| Arc::ptr_eq(own, &client));
    let Some(path) = path.filter(|_| !is_known) else { return Ok(client) };
    let path = path.display().to_string();
    let renewed = client.clone();
    let renewal = Renewal {
        origin,
        interval: CERTIFICATE_RELOAD,
        changed: format!("TLS files of {path} changed: new connections to upstreams use them"),
        failed: format!("TLS reload of {path} failed, what was read before stays in use"),
        subject: path,
        reload: Box::new(move || renewed.reload()),
    };
    block.services.tasks.push(renewal.into_task(block.shared.sink.clone()));
    block.services.kept.add(client.clone());
    Ok(client)
}
