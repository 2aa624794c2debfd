//! What is spoken within TLS.

/// A protocol of a connection, which its peers agree on with ALPN (RFC 7301).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// DNS over TLS (RFC 7858). Its name for ALPN is `dot`; clients without ALPN are served too.
    Dot,
    /// DNS over HTTPS (RFC 8484): HTTP/2, or HTTP/1.1 for clients that want it or that have no ALPN.
    Https,
    /// DNS over gRPC: HTTP/2.
    Grpc,
    /// DNS over QUIC (RFC 9250).
    Doq,
    /// DNS over HTTPS on HTTP/3 (RFC 9114).
    Http3,
    /// Zone transfers over TLS (RFC 9103), as a secondary asks for them. At listeners they are [`Protocol::Dot`].
    Xot,
}

impl Protocol {
    /// Those of listeners.
    pub(crate) const ALL: [Self; 5] = [Self::Dot, Self::Https, Self::Grpc, Self::Doq, Self::Http3];

    /// The place in [`Protocol::ALL`].
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// The names for ALPN that a client sends.
    pub(crate) fn asked(self) -> Vec<Vec<u8>> {
        match self {
            // CoreDNS sends none: a server that knows other names alone would refuse.
            Self::Dot => Vec::new(),
            // HTTP/1.1 has one request at a time.
            Self::Https | Self::Grpc => vec![b"h2".to_vec()],
            // RFC 9103 section 7.1.
            Self::Doq | Self::Http3 | Self::Xot => self.names(),
        }
    }

    /// Its names for ALPN.
    pub(crate) fn names(self) -> Vec<Vec<u8>> {
        match self {
            Self::Dot | Self::Xot => vec![b"dot".to_vec()],
            Self::Https => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            Self::Grpc => vec![b"h2".to_vec()],
            Self::Doq => vec![b"doq".to_vec()],
            Self::Http3 => vec![b"h3".to_vec()],
        }
    }
}
