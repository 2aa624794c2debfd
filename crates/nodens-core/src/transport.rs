//! How a query arrives.

/// How a query arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// One datagram.
    Udp,
    /// A stream with two-octet lengths (RFC 7766).
    Tcp,
}
