//! The beginning of connections.

use crate::limits::{
    QUIC_IDLE, QUIC_PACKET_LEN, QUIC_SEND_WINDOW, QUIC_UPSTREAM_RTT, QUIC_UPSTREAM_WINDOW,
};
use crate::sys;
use nodens_core::upstream::Peer;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, Endpoint, EndpointConfig, IdleTimeout,
    NoneTokenStore, TransportConfig, VarInt,
};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A connection whose handshake has not begun, and what knows its IDs.
pub(crate) struct Dialled {
    pub(crate) endpoint: Endpoint,
    pub(crate) handle: ConnectionHandle,
    pub(crate) quinn: Connection,
}

/// Begins a connection to the server at `address`, which has to be this `peer`, and is closed when nothing is
/// heard for so long. So many octets on a stream are taken before they are read.
pub(crate) fn begin(
    endpoints: &Arc<EndpointConfig>,
    address: SocketAddr,
    peer: &Peer,
    (idle, window): (Duration, u32),
    at: Instant,
) -> io::Result<Dialled> {
    let tls = QuicClientConfig::try_from(peer.config()).map_err(io::Error::other)?;
    let mut config = ClientConfig::new(Arc::new(tls));
    config.transport_config(Arc::new(transport(idle, window)));
    // What a server gives to show the address with is kept by its name alone, and saves a round trip only where
    // the server is short of something.
    config.token_store(Arc::new(NoneTokenStore));
    let mut endpoint = Endpoint::new(endpoints.clone(), None, false, None);
    let begun = endpoint.connect(at, config, address, &peer.name().to_str());
    let (handle, quinn) = begun.map_err(io::Error::other)?;
    Ok(Dialled { endpoint, handle, quinn })
}

fn transport(idle: Duration, window: u32) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .max_idle_timeout(IdleTimeout::try_from(idle.max(QUIC_IDLE)).ok())
        // A server opens no streams (RFC 9250 section 4.2).
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .stream_receive_window(VarInt::from_u32(window))
        .receive_window(VarInt::from_u32(QUIC_UPSTREAM_WINDOW))
        .send_window(QUIC_SEND_WINDOW)
        .datagram_receive_buffer_size(None)
        .initial_rtt(QUIC_UPSTREAM_RTT)
        // As for clients: packets that every path carries, and without padding.
        .initial_mtu(QUIC_PACKET_LEN)
        .mtu_discovery_config(None)
        .pad_to_mtu(false)
        .enable_segmentation_offload(false);
    transport
}

/// A socket that is connected to `address`, from a port that the kernel draws.
pub(crate) fn socket_to(address: SocketAddr, source: Option<IpAddr>) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    // RFC 9000 section 14.
    sys::never_fragment(&socket, address.is_ipv6())?;
    if let Some(source) = source {
        socket.bind(&SockAddr::from(SocketAddr::new(source, 0)))?;
    }
    socket.connect(&SockAddr::from(address))?;
    Ok(socket.into())
}
