//! Opening connections of the transport that a thread's clients use.

use super::carrier::{Carrier, End};
use super::doh::{Doh, Requests};
use super::doh3::Doh3;
use super::doq::Doq;
use super::framed::Framed;
use super::pipe::Pipe;
use super::quic::{self, Quic};
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
    Doq(Settings, quic::Endpoints),
    Doh3(Settings, quic::Endpoints, Arc<Requests>),
}

impl Dialer {
    pub(super) fn new(streams: &Streams, share: Share) -> Result<Self, TlsError> {
        let settings = || Settings::new(&streams.tls, share.transport, share.server);
        let requests = || {
            let authority = match &streams.tls.name {
                Some(name) if share.server.port() == 443 => name.clone(),
                Some(name) => format!("{name}:{}", share.server.port()),
                None => share.server.to_string(),
            };
            Requests::new(&streams.doh, &authority).map(Arc::new)
        };
        let kind = match share.transport {
            Transport::Udp | Transport::Tcp => Kind::Tcp,
            Transport::Dot => Kind::Dot(settings()?),
            Transport::Doh => Kind::Doh(settings()?, requests()?),
            Transport::Doq => Kind::Doq(settings()?, quic::Endpoints::new()),
            Transport::Doh3 => Kind::Doh3(settings()?, quic::Endpoints::new(), requests()?),
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
        let known = &mut tickets.quic;
        let quic = |settings: &Settings| match known {
            Some(config) => Ok(config.clone()),
            empty => Ok::<_, End>(empty.insert(quic::client_config(settings)?).clone()),
        };
        let way = (source, server);
        Ok(match &self.kind {
            Kind::Tcp => Box::new(Framed::new(Pipe::open(way, None)?)),
            Kind::Dot(settings) => Box::new(Framed::new(Pipe::open(way, tls(settings))?)),
            Kind::Doh(settings, requests) => {
                Box::new(Doh::new(Pipe::open(way, tls(settings))?, requests.clone()))
            }
            Kind::Doq(settings, endpoints) => {
                Box::new(Quic::open(way, quic(settings)?, settings, endpoints, now, Doq::new)?)
            }
            Kind::Doh3(settings, endpoints, requests) => {
                let doh3 = |connection| Doh3::new(connection, requests.clone());
                Box::new(Quic::open(way, quic(settings)?, settings, endpoints, now, doh3)?)
            }
        })
    }
}
