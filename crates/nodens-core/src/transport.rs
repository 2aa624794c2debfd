//! How messages travel, from clients and to upstreams, and what follows from it. What depends on the
//! transport asks a method here, so that another one is added in this file.

use nodens_corefile::key::Scheme;
use nodens_wire::MESSAGE_LEN_MAX;

/// What carries a transport: the protocol of its sockets, by Go's name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Network {
    /// Datagrams.
    Udp,
    /// Streams of octets.
    Tcp,
}

impl Network {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Udp, Self::Tcp];

    /// The place in [`Network::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// `udp` or `tcp`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }
}

/// How a query arrived, or goes to an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// One datagram each; to an upstream from a fresh port.
    Udp,
    /// A stream with two-octet lengths, shared by many queries (RFC 7766).
    Tcp,
    /// The same within TLS (RFC 7858).
    Tls,
    /// Requests of HTTP, each with one query (RFC 8484).
    Https,
    /// Calls of gRPC, each with one query.
    Grpc,
    /// Each on a stream of its own of a QUIC connection (RFC 9250).
    Quic,
    /// Requests of HTTP/3, each with one query on a stream of its own of a QUIC connection (RFC 8484, RFC 9114).
    Https3,
}

impl Transport {
    /// All of them, in the order of [`Transport::index`].
    pub const ALL: [Self; 7] =
        [Self::Udp, Self::Tcp, Self::Tls, Self::Https, Self::Grpc, Self::Quic, Self::Https3];

    /// The place in [`Transport::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// What its sockets are.
    pub const fn network(self) -> Network {
        match self {
            Self::Udp | Self::Quic | Self::Https3 => Network::Udp,
            Self::Tcp | Self::Tls | Self::Https | Self::Grpc => Network::Tcp,
        }
    }

    /// `udp` or `tcp`, as in logs, metrics, expressions and errors: CoreDNS names what is below the
    /// encryption.
    pub const fn name(self) -> &'static str {
        self.network().name()
    }

    /// As in the label `proto` of metrics about upstreams, where CoreDNS names the encryption too.
    pub const fn proto(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tcp-tls",
            Self::Quic => "quic",
            // CoreDNS counts no connections of these.
            Self::Https => "https",
            Self::Grpc => "grpc",
            // No upstream is asked by it.
            Self::Https3 => "https3",
        }
    }

    /// The name of the transport as a label of a service (RFC 2782).
    pub const fn service_label(self) -> &'static str {
        match self.network() {
            Network::Udp => "_udp",
            Network::Tcp => "_tcp",
        }
    }

    /// Dnstap's number for it, `SocketProtocol`, as CoreDNS sends it: by the network.
    pub const fn dnstap_protocol(self) -> u64 {
        match self.network() {
            Network::Udp => 1,
            Network::Tcp => 2,
        }
    }

    /// Whether each message is one datagram: it is short, may be lost, and its sender is not proven.
    /// Elsewhere queries share a connection, which its peer may have closed while it was idle.
    pub const fn is_datagram(self) -> bool {
        matches!(self, Self::Udp)
    }

    /// Whether its connections are QUIC's.
    pub const fn is_quic(self) -> bool {
        matches!(self, Self::Quic | Self::Https3)
    }

    /// Whether others on the way to the client see no more of messages than their length. HTTP whose listener has
    /// no `tls` is taken for encrypted: a proxy in front speaks TLS to clients.
    pub const fn is_encrypted(self) -> bool {
        !matches!(self, Self::Udp | Self::Tcp)
    }

    /// Whether a response may have as many messages as it takes, as those of transfers have. A request of
    /// HTTP has one.
    pub const fn takes_many(self) -> bool {
        matches!(self, Self::Tcp | Self::Tls | Self::Quic)
    }

    /// The longest response to a client that says it accepts datagrams of `udp_size` octets.
    pub const fn max_message(self, udp_size: u16) -> u16 {
        if self.is_datagram() { udp_size } else { MESSAGE_LEN_MAX as u16 }
    }

    /// Plain DNS on the same network: how an upstream without encryption is asked for such a client.
    pub const fn plain(self) -> Self {
        match self.network() {
            Network::Udp => Self::Udp,
            Network::Tcp => Self::Tcp,
        }
    }

    /// How to ask an upstream again for an answer that was truncated; none if that does not happen.
    pub const fn untruncated(self) -> Option<Self> {
        if self.is_datagram() { Some(Self::Tcp) } else { None }
    }

    /// Whether `edns-tcp-keepalive` means anything: not over UDP (RFC 7828 section 3.2.1), and not where
    /// the messages have no connection of their own.
    pub const fn may_keep_alive(self) -> bool {
        matches!(self, Self::Tcp | Self::Tls)
    }
}

/// One value for each [`Transport`].
#[derive(Debug, Default)]
pub struct ByTransport<T>([T; Transport::ALL.len()]);

impl<T> ByTransport<T> {
    /// A value for each.
    pub fn new(of: impl Fn(Transport) -> T) -> Self {
        Self(Transport::ALL.map(of))
    }

    /// The one for `transport`.
    pub fn of(&self, transport: Transport) -> &T {
        // invariant: an index is the place in a list of all, and there is a value for each.
        &self.0[transport.index()]
    }
}

/// One value for each [`Network`].
#[derive(Debug, Default)]
pub struct ByNetwork<T>([T; Network::ALL.len()]);

impl<T> ByNetwork<T> {
    /// A value for each.
    pub fn new(of: impl Fn(Network) -> T) -> Self {
        Self(Network::ALL.map(of))
    }

    /// The one for `network`.
    pub fn of(&self, network: Network) -> &T {
        // invariant: an index is the place in a list of all, and there is a value for each.
        &self.0[network.index()]
    }
}

/// What a listener speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ListenerKind {
    /// UDP and TCP at the same address and port (RFC 1035 section 4.2).
    Dns,
    /// DNS over TLS (RFC 7858).
    Tls,
    /// DNS over HTTPS (RFC 8484), on HTTP/2 and HTTP/1.1.
    Https,
    /// DNS over gRPC, as CoreDNS has it.
    Grpc,
    /// DNS over QUIC (RFC 9250).
    Quic,
    /// DNS over HTTPS (RFC 8484), on HTTP/3.
    Https3,
}

impl ListenerKind {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Dns, Self::Tls, Self::Https, Self::Grpc, Self::Quic, Self::Https3];

    /// The one that keys of server blocks with `scheme` ask for.
    pub const fn of(scheme: Scheme) -> Self {
        match scheme {
            Scheme::Dns => Self::Dns,
            Scheme::Tls => Self::Tls,
            Scheme::Quic => Self::Quic,
            Scheme::Grpc => Self::Grpc,
            Scheme::Https => Self::Https,
            Scheme::Https3 => Self::Https3,
        }
    }

    /// How keys of server blocks ask for it, and what labels of servers begin with.
    pub const fn scheme(self) -> Scheme {
        match self {
            Self::Dns => Scheme::Dns,
            Self::Tls => Scheme::Tls,
            Self::Https => Scheme::Https,
            Self::Grpc => Scheme::Grpc,
            Self::Quic => Scheme::Quic,
            Self::Https3 => Scheme::Https3,
        }
    }

    /// How queries arrive at it. It has one socket for each, as often as it needs sockets.
    pub const fn transports(self) -> &'static [Transport] {
        match self {
            Self::Dns => &[Transport::Udp, Transport::Tcp],
            Self::Tls => &[Transport::Tls],
            Self::Https => &[Transport::Https],
            Self::Grpc => &[Transport::Grpc],
            Self::Quic => &[Transport::Quic],
            Self::Https3 => &[Transport::Https3],
        }
    }

    /// Whether nothing can be spoken there without a certificate.
    pub const fn needs_certificate(self) -> bool {
        matches!(self, Self::Quic | Self::Https3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_listener_has_sockets_of_each_transport_once() {
        for kind in ListenerKind::ALL {
            assert_eq!(ListenerKind::of(kind.scheme()), kind);
            let transports = kind.transports();
            assert!(!transports.is_empty(), "{kind:?}");
            let of = |wanted| transports.iter().filter(|own| **own == wanted).count();
            assert!(Transport::ALL.into_iter().all(|own| of(own) <= 1), "{kind:?}");
        }
    }
}
