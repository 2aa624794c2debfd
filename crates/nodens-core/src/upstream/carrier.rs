//! How upstreams are asked. What depends on it asks a method here.

use crate::transport::Transport;

/// How an upstream is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// A datagram from a fresh port.
    Udp,
    /// A stream shared by many questions (RFC 7766).
    Tcp,
}

impl Carrier {
    /// All of them, in the order of [`Carrier::index`].
    pub const ALL: [Self; 2] = [Self::Udp, Self::Tcp];

    /// The one that is like the transport of a client.
    pub const fn like(transport: Transport) -> Self {
        if transport.is_datagram() { Self::Udp } else { Self::Tcp }
    }

    /// The transport that it is.
    pub const fn transport(self) -> Transport {
        match self {
            Self::Udp => Transport::Udp,
            Self::Tcp => Transport::Tcp,
        }
    }

    /// The place in [`Carrier::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// `udp` or `tcp`, as in metrics and errors.
    pub const fn name(self) -> &'static str {
        self.transport().name()
    }

    /// Whether each question is one datagram, whose answer may be truncated. Elsewhere questions
    /// share a connection, which its peer may have closed while it was idle.
    pub const fn is_datagram(self) -> bool {
        self.transport().is_datagram()
    }

    /// How to ask again for an answer that was truncated; none if that does not happen.
    pub const fn untruncated(self) -> Option<Self> {
        if self.is_datagram() { Some(Self::Tcp) } else { None }
    }
}

/// One value for each [`Carrier`].
#[derive(Debug, Default)]
pub struct ByCarrier<T>([T; Carrier::ALL.len()]);

impl<T> ByCarrier<T> {
    /// A value for each.
    pub(super) fn new(of: impl Fn(Carrier) -> T) -> Self {
        Self(Carrier::ALL.map(of))
    }

    /// The one for `carrier`.
    pub fn of(&self, carrier: Carrier) -> &T {
        let Self([udp, tcp]) = self;
        match carrier {
            Carrier::Udp => udp,
            Carrier::Tcp => tcp,
        }
    }
}
