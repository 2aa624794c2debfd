//! What connections have to know of the listener that they came by.

use super::connection::NEVER;
use super::few::Few;
use super::quota::Quota;
use crate::http::{Dialect, Rules};
use nodens_core::config::{Config, HttpResponses, HttpServer, QuicServer, Timeouts};
use nodens_core::metrics::Counter;
use nodens_core::proxy::ProxyRules;
use nodens_core::{ListenerKind, Transport};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// What the server has to know about a listener.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    /// Its number for good.
    pub(crate) id: u32,
    /// Its place in the configuration at work.
    pub(crate) listener: u16,
    /// What is spoken there.
    pub(crate) kind: ListenerKind,
    /// What it shows clients, if it speaks TLS.
    pub(crate) tls: Option<Arc<nodens_tls::Server>>,
    /// Bounds and counters of its connections, if it speaks QUIC.
    pub(crate) quic: Option<QuicServer>,
    /// Its timeouts.
    pub(crate) times: Arc<Times>,
    /// Counts responses that the kernel does not take, if the server wants to know.
    pub(crate) untaken: Option<Counter>,
    /// Whom it believes to be a proxy, if it expects any.
    pub(crate) proxy: Option<Arc<ProxyRules>>,
    /// What is spoken, if it is HTTP.
    pub(crate) http: Option<EndpointHttp>,
}

/// HTTP at a listener.
#[derive(Clone, Debug)]
pub(crate) struct EndpointHttp {
    pub(crate) rules: Rules,
    pub(crate) transport: Transport,
    /// Counts responses, if anybody wants to know.
    pub(crate) responses: Option<HttpResponses>,
    /// Its connections, if there may be few.
    pub(crate) few: Option<Few>,
}

/// The timeouts of a listener in nanoseconds, and what else its connections are bounded by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) read: u64,
    pub(crate) write: u64,
    pub(crate) idle: u64,
    /// Questions a connection may ask in all.
    pub(super) questions: u32,
    /// Whether it may send UPDATE messages that are longer than queries.
    pub(super) updates: bool,
}

impl Endpoint {
    /// The listeners of `config`, which have these numbers for good, in the same order.
    pub(crate) fn all(config: &Config, ids: &[u32], quota: &Quota) -> Vec<Self> {
        let listeners = config.listeners.iter().zip(ids).zip(0u16..);
        let endpoint = |((own, id), listener): ((&nodens_core::config::Listener, &u32), u16)| {
            let server = config.servers.get(own.server);
            let times = server.map(|server| server.timeouts).unwrap_or_default();
            let updates = server.is_some_and(|server| server.takes_updates);
            let times = Arc::new(Times { updates, ..Times::from(times) });
            let http = server.and_then(|server| server.http);
            let http =
                http.and_then(|http| EndpointHttp::new(own.kind, http, (*id, &times), quota));
            let untaken = server.and_then(|server| Some(server.shed?.responses));
            let proxy = server.and_then(|server| server.proxy.clone());
            let tls = server.and_then(|server| server.tls.clone());
            let quic = server.and_then(|server| server.quic);
            Self { id: *id, listener, kind: own.kind, tls, quic, times, untaken, proxy, http }
        };
        listeners.map(endpoint).collect()
    }
}

impl EndpointHttp {
    fn new(
        kind: ListenerKind,
        server: HttpServer,
        (id, times): (u32, &Times),
        quota: &Quota,
    ) -> Option<Self> {
        let (dialect, transport) = match kind {
            ListenerKind::Https => (Dialect::Doh, Transport::Https),
            ListenerKind::Grpc => (Dialect::Grpc, Transport::Grpc),
            ListenerKind::Https3 => (Dialect::Doh, Transport::Https3),
            ListenerKind::Dns | ListenerKind::Tls | ListenerKind::Quic => return None,
        };
        let rules = Rules::of(dialect, server, (times.read, times.write));
        // Connections over QUIC are counted apart.
        let few = server.connections.filter(|_| !transport.is_quic());
        let few = few.map(|max| quota.few(id, max));
        Some(Self { rules, transport, responses: server.responses, few })
    }
}

impl From<Timeouts> for Times {
    fn from(timeouts: Timeouts) -> Self {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(NEVER);
        let questions = timeouts.queries_max.map_or(u32::MAX, NonZeroU32::get);
        let (read, write, idle) = (ns(timeouts.read), ns(timeouts.write), ns(timeouts.idle));
        Self { read, write, idle, questions, updates: false }
    }
}
