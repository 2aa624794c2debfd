//! Opening connections of the transport that a thread's clients use.

use super::carrier::{Carrier, End};
use super::doh::{Doh, Requests};
use super::doq::{self, Doq};
use super::framed::Framed;
use super::pipe::Pipe;
use super::tls::{Settings, TlsError};
use crate::transport::{Share, Streams, Transport};
use rustls::ClientConfig;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// What a client remembers of servers: its own settings, with its tickets.
#[derive(Default)]
pub(super) struct Tickets {
    tls: Option<Arc<ClientConfig>>,
    quic: Option<quinn_proto::ClientConfig>,
}

pub(super) struct Dialer {
    server: SocketAddr,
    kind: Kind,
}

enum Kind {
    Tcp,
    Dot(Settings),
    Doh(Settings, Arc<Requests>),
    Doq(Settings, doq::Endpoints),
}

impl Dialer {
    pub(super) fn new(streams: &Streams, share: Share) -> Result<Self, TlsError> {
        let settings = || Settings::new(&streams.tls, share.transport, share.server);
        let kind = match share.transport {
            Transport::Udp | Transport::Tcp => Kind::Tcp,
            Transport::Dot => Kind::Dot(settings()?),
            Transport::Doh => {
                let authority = match &streams.tls.name {
                    Some(name) if share.server.port() == 443 => name.clone(),
                    Some(name) => format!("{name}:{}", share.server.port()),
                    None => share.server.to_string(),
                };
                Kind::Doh(settings()?, Arc::new(Requests::new(&streams.doh, &authority)?))
            }
            Transport::Doq => Kind::Doq(settings()?, doq::Endpoints::new()),
        };
        Ok(Self { server: share.server, kind })
    }

    /// Asks for a connection, from `source` if it is given.
    pub(super) fn dial(
        &self,
        tickets: &mut Tickets,
        source: Option<SocketAddr>,
        now: Instant,
    ) -> Result<Box<dyn Carrier>, End> {
        let server = self.server;
        let mut tls = |settings: &Settings| {
            let config = tickets.tls.get_or_insert_with(|| settings.of_client());
            Some((config.clone(), settings.name()))
        };
        Ok(match &self.kind {
            Kind::Tcp => Box::new(Framed::new(Pipe::open((source, server), None)?)),
            Kind::Dot(settings) => {
                Box::new(Framed::new(Pipe::open((source, server), tls(settings))?))
            }
            Kind::Doh(settings, requests) => {
                Box::new(Doh::new(Pipe::open((source, server), tls(settings))?, requests.clone()))
            }
            Kind::Doq(settings, endpoints) => {
                let config = match &mut tickets.quic {
                    Some(config) => config.clone(),
                    empty => empty.insert(doq::client_config(settings)?).clone(),
                };
                Box::new(Doq::open((source, server), config, settings, endpoints, now)?)
            }
        })
    }
}
