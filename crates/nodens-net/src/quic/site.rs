//! A UDP socket at which QUIC is spoken, and the packets of connections that are not known yet.

use super::books::{Books, Counts};
use crate::limits::{
    HTTP3_SIDE_STREAMS_MAX, HTTP3_STREAM_WINDOW, QUIC_INCOMING_LEN, QUIC_INCOMING_MAX,
    QUIC_PACKET_LEN, QUIC_RECEIVE_WINDOW, QUIC_SEND_WINDOW, QUIC_STREAM_WINDOW,
};
use crate::slots::Key;
use crate::tcp::{Endpoint as Listener, Few};
use nodens_core::ListenerKind;
use nodens_core::config::QuicServer as Bounds;
use nodens_core::limits::QUESTION_TIME_MAX;
use nodens_tls::{Protocol, rustls};
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    ConnectionHandle, Endpoint, EndpointConfig, IdleTimeout, ServerConfig, TransportConfig, VarInt,
};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// A socket.
pub(super) struct Site {
    pub(super) socket: Arc<OwnedFd>,
    /// The worker it is borrowed from.
    pub(super) of: Option<usize>,
    pub(super) bound: SocketAddr,
    /// Its listener, as the configuration at work has it.
    pub(super) listener: Listener,
    /// Bounds and counters, as the configuration at work has them.
    pub(super) bounds: Bounds,
    pub(super) counts: Arc<Counts>,
    pub(super) endpoint: Endpoint,
    pub(super) connections: HashMap<ConnectionHandle, Key>,
    /// What new connections begin with, and the TLS it was made of.
    config: (Arc<ServerConfig>, Arc<rustls::ServerConfig>),
    /// Set when the listener is gone: no connection is opened any more.
    pub(super) retired: bool,
    /// Set when its packets belong to another process.
    pub(super) deaf: bool,
}

impl Site {
    /// None if its listener has no certificate, or one that QUIC cannot use.
    pub(super) fn new(
        (socket, of): (Arc<OwnedFd>, Option<usize>),
        bound: SocketAddr,
        listener: Listener,
        endpoints: &Arc<EndpointConfig>,
        books: &Books,
    ) -> Option<Self> {
        let bounds = listener.quic?;
        let tls = listener.tls.as_ref()?.config(protocol(&listener))?;
        let config = ServerConfig::with_crypto(crypto(&tls)?);
        let config = Arc::new(renewed(&config, &tls, &listener, &bounds)?);
        let endpoint = Endpoint::new(endpoints.clone(), Some(config.clone()), false, None);
        let counts = books.of(listener.id);
        Some(Self {
            socket,
            of,
            bound,
            listener,
            bounds,
            counts,
            endpoint,
            connections: HashMap::new(),
            config: (config, tls),
            retired: false,
            deaf: false,
        })
    }

    /// Gives it what its listener has in another configuration, which is of the same number.
    pub(super) fn configure(&mut self, listener: Listener) {
        let Some(bounds) = listener.quic else { return };
        (self.listener, self.bounds) = (listener, bounds);
        if let Some(tls) = self.tls() {
            self.renew(tls);
        }
    }

    /// What a new connection begins with: the certificate may have changed.
    pub(super) fn config(&mut self) -> Arc<ServerConfig> {
        if let Some(tls) = self.tls().filter(|tls| !Arc::ptr_eq(tls, &self.config.1)) {
            self.renew(tls);
        }
        self.config.0.clone()
    }

    fn tls(&self) -> Option<Arc<rustls::ServerConfig>> {
        self.listener.tls.as_ref()?.config(protocol(&self.listener))
    }

    /// Whether HTTP/3 is spoken there.
    pub(super) fn speaks_http(&self) -> bool {
        self.listener.kind == ListenerKind::Https3
    }

    fn renew(&mut self, tls: Arc<rustls::ServerConfig>) {
        let config = renewed(&self.config.0, &tls, &self.listener, &self.bounds);
        if let Some(config) = config {
            self.config = (Arc::new(config), tls);
            self.endpoint.set_server_config(Some(self.config.0.clone()));
        }
    }

    /// Its connections, and how many there may be.
    pub(super) fn few(&self) -> Few {
        self.counts.few(self.bounds.settings.connections_max)
    }

    /// The address a packet was sent to.
    pub(super) fn local(&self, ip: Option<std::net::IpAddr>) -> SocketAddr {
        ip.map_or(self.bound, |ip| SocketAddr::new(ip, self.bound.port()))
    }

    /// Whether it is an IPv6 socket that serves IPv4 too.
    pub(super) fn is_mapped(&self) -> bool {
        self.bound.is_ipv6()
    }
}

/// What is spoken at a listener.
fn protocol(listener: &Listener) -> Protocol {
    match listener.kind {
        ListenerKind::Https3 => Protocol::Http3,
        _ => Protocol::Doq,
    }
}

fn crypto(tls: &Arc<rustls::ServerConfig>) -> Option<Arc<QuicServerConfig>> {
    QuicServerConfig::try_from(tls.clone()).ok().map(Arc::new)
}

/// As `old`, so that tokens of Retry packets stay valid, with everything else anew.
fn renewed(
    old: &ServerConfig,
    tls: &Arc<rustls::ServerConfig>,
    listener: &Listener,
    bounds: &Bounds,
) -> Option<ServerConfig> {
    let mut config = old.clone();
    config.crypto = crypto(tls)?;
    config.transport = Arc::new(transport(listener, bounds.settings.streams_max));
    config
        // See the module: the socket, and with it the worker, is chosen by the client's address. So are
        // its rights, which are not to change with a packet whose sender nobody has verified.
        .migration(false)
        .max_incoming(QUIC_INCOMING_MAX)
        .incoming_buffer_size(QUIC_INCOMING_LEN as u64)
        .incoming_buffer_size_total((QUIC_INCOMING_LEN * QUIC_INCOMING_MAX) as u64);
    Some(config)
}

fn transport(listener: &Listener, streams_max: u32) -> TransportConfig {
    // DNS over QUIC has no streams in one direction.
    let (side_streams, window) = match protocol(listener) {
        Protocol::Http3 => (HTTP3_SIDE_STREAMS_MAX, HTTP3_STREAM_WINDOW),
        _ => (0, QUIC_STREAM_WINDOW),
    };
    // For a connection whose client is gone. Those that are idle end before, by a deadline of their own; one whose
    // query waits is not.
    let idle = Duration::from_nanos(listener.times.idle).saturating_add(QUESTION_TIME_MAX);
    let mut transport = TransportConfig::default();
    transport
        .max_idle_timeout(IdleTimeout::try_from(idle).ok())
        .max_concurrent_bidi_streams(VarInt::from_u32(streams_max))
        .max_concurrent_uni_streams(VarInt::from_u32(side_streams))
        .stream_receive_window(VarInt::from_u32(window))
        .receive_window(VarInt::from_u32(QUIC_RECEIVE_WINDOW))
        .send_window(QUIC_SEND_WINDOW)
        .datagram_receive_buffer_size(None)
        // Packets of the size that every path for QUIC carries (RFC 9000 section 14): queries and nearly
        // all responses fit into one, and there is nothing to find out for each connection.
        .initial_mtu(QUIC_PACKET_LEN)
        .mtu_discovery_config(None)
        // Without padding of packets: quinn pads those with acknowledgements alone too, which then count as in
        // flight while nothing acknowledges them (RFC 9000 section 13.2.7). A few fill the window for good.
        .pad_to_mtu(false)
        .enable_segmentation_offload(false);
    transport
}
