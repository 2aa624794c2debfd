//! What a server block says beside its chain.

use super::{HttpBounds, HttpServer, ServerBlock};
use crate::limits::QUIC_STREAMS_MAX;
use crate::metrics::Counter;
use crate::proxy::ProxySettings;
use crate::shared::Shared;
use crate::transport::ListenerKind;
use crate::zones::Zones;
use nodens_wire::Name;
use nodens_zone::tsig::Keys;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Settings of one server block.
#[derive(Clone, Debug)]
pub struct BlockSettings {
    /// `bind`: addresses to listen on; empty means all.
    pub bind: Vec<IpAddr>,
    /// `root`: where relative paths start.
    pub root: PathBuf,
    /// `debug`: debug lines are written, and faults are not contained.
    pub debug: bool,
    /// `timeouts` of streams, for the server of the block.
    pub timeouts: TimeoutSettings,
    /// `tls`: what listeners with encryption show.
    pub tls: Option<Arc<nodens_tls::Server>>,
    /// `https`: what clients of DNS over HTTPS may have.
    pub https: HttpBounds,
    /// `https3`: the same on HTTP/3.
    pub https3: HttpBounds,
    /// `grpc_server`: what clients of gRPC may have.
    pub grpc: HttpBounds,
    /// `quic`: bounds of connections over QUIC.
    pub quic: QuicSettings,
    /// `proxyproto`, if the block has it.
    pub proxy: Option<ProxySettings>,
    /// `shed`, if the block has it.
    pub shed: Option<ShedCounters>,
    /// `multisocket`: sockets per address.
    pub multisocket: Option<usize>,
    /// `tsig`: the keys of the block.
    pub keys: Arc<Keys>,
    /// `metadata`: the zones whose questions have metadata; `None` without the directive.
    pub metadata: Option<Zones>,
    /// The largest UDP response in octets, whatever the client takes.
    pub udp_size_max: u16,
    /// Whether a handler of the block takes UPDATE messages (RFC 2136).
    pub takes_updates: bool,
    /// Whether `dnssec` signs responses of the block.
    pub signs: bool,
    /// Zones whose answers change at any time: `cache` leaves them as they are.
    pub live: Vec<Name>,
}

/// What is dropped in silence where there is no room for it, of a server.
#[derive(Clone, Copy, Debug)]
pub struct ShedCounters {
    /// Queries over UDP.
    pub queries: Counter,
    /// Responses that the kernel did not take.
    pub responses: Counter,
}

/// Bounds of connections over QUIC (CoreDNS's defaults).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuicSettings {
    /// Queries that one connection may have open at once.
    pub streams_max: u32,
    /// Connections of the server; 0 for no bound but the memory.
    pub connections_max: usize,
    /// Queries of the server that may wait for their response at once.
    pub in_flight_max: usize,
}

impl Default for QuicSettings {
    fn default() -> Self {
        Self { streams_max: 256, connections_max: 200, in_flight_max: 1024 }
    }
}

/// What a server over QUIC has.
#[derive(Clone, Copy, Debug)]
pub struct QuicServer {
    /// Its bounds.
    pub settings: QuicSettings,
    /// Counts queries by the code that their stream or connection ended with, where CoreDNS does: those of
    /// HTTP/3 have a status.
    pub responses: Option<QuicResponses>,
}

/// Counters by the code of RFC 9250 section 4.3.
#[derive(Clone, Copy, Debug)]
pub struct QuicResponses {
    /// DOQ_NO_ERROR: responses.
    pub no_error: Counter,
    /// DOQ_INTERNAL_ERROR: streams that ended without one.
    pub internal_error: Counter,
    /// DOQ_PROTOCOL_ERROR: connections closed for what came on them.
    pub protocol_error: Counter,
}

impl QuicServer {
    /// For the server with this label, these blocks and this HTTP; none if QUIC is not what carries its queries. The
    /// first block counts, as in CoreDNS.
    pub(super) fn of(
        kind: ListenerKind,
        label: &str,
        blocks: &[&ServerBlock],
        http: Option<HttpServer>,
        shared: &Shared,
    ) -> Option<Self> {
        let settings = &blocks.first()?.settings;
        match kind {
            ListenerKind::Quic => Some(Self::new(settings.quic, label, shared)),
            ListenerKind::Https3 => {
                let server = http?;
                let streams = server.streams.unwrap_or(QUIC_STREAMS_MAX).min(QUIC_STREAMS_MAX);
                let connections_max = server.connections.unwrap_or(0);
                // CoreDNS has no bound of waiting queries there.
                let in_flight_max = usize::MAX;
                let settings =
                    QuicSettings { streams_max: streams, connections_max, in_flight_max };
                Some(Self { settings, responses: None })
            }
            _ => None,
        }
    }

    /// For the server with this label.
    fn new(settings: QuicSettings, label: &str, shared: &Shared) -> Self {
        let counter = |status| {
            let help = "Counter of DoQ responses per server and QUIC application code.";
            let labels = [("server", label), ("status", status)];
            shared.registry.counter("coredns_dns_quic_responses_total", help, &labels)
        };
        let responses = QuicResponses {
            no_error: counter("0x0"),
            internal_error: counter("0x1"),
            protocol_error: counter("0x2"),
        };
        Self { settings, responses: Some(responses) }
    }
}

/// Time limits of streams (CoreDNS's defaults).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the first question of a stream has arrived.
    pub read: Duration,
    /// Until a response has been taken by the client.
    pub write: Duration,
    /// Between two questions.
    pub idle: Duration,
    /// Questions after which a stream is closed; `None` for no limit.
    pub queries_max: Option<NonZeroU32>,
}

/// What a block says of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeoutSettings {
    /// [`Timeouts::read`].
    pub read: Option<Duration>,
    /// [`Timeouts::write`].
    pub write: Option<Duration>,
    /// [`Timeouts::idle`].
    pub idle: Option<Duration>,
    /// [`Timeouts::queries_max`].
    pub queries_max: Option<Option<NonZeroU32>>,
}

impl Timeouts {
    /// Those of a server whose blocks say this: each is that of the last block that has it.
    pub(crate) fn of<'b>(blocks: impl Iterator<Item = &'b TimeoutSettings>) -> Self {
        blocks.fold(Self::default(), |all, own| Self {
            read: own.read.unwrap_or(all.read),
            write: own.write.unwrap_or(all.write),
            idle: own.idle.unwrap_or(all.idle),
            queries_max: own.queries_max.unwrap_or(all.queries_max),
        })
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            read: Duration::from_secs(3),
            write: Duration::from_secs(5),
            idle: Duration::from_secs(10),
            queries_max: None,
        }
    }
}

impl Default for BlockSettings {
    fn default() -> Self {
        Self {
            bind: Vec::new(),
            root: PathBuf::from("."),
            debug: false,
            timeouts: TimeoutSettings::default(),
            tls: None,
            https: HttpBounds::default(),
            https3: HttpBounds::default(),
            grpc: HttpBounds::default(),
            quic: QuicSettings::default(),
            proxy: None,
            shed: None,
            multisocket: None,
            keys: Arc::default(),
            metadata: None,
            udp_size_max: u16::MAX,
            takes_updates: false,
            signs: false,
            live: Vec::new(),
        }
    }
}
