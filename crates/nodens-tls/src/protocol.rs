//! What is spoken within TLS.

/// A protocol of a connection, which its peers agree on with ALPN (RFC 7301).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// DNS over TLS (RFC 7858). Its name for ALPN is `dot`; clients without ALPN are served too.
    Dot,
}

impl Protocol {
    /// All of them.
    pub(crate) const ALL: [Self; 1] = [Self::Dot];

    /// The place in [`Protocol::ALL`].
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// Its names for ALPN.
    pub(crate) fn names(self) -> Vec<Vec<u8>> {
        match self {
            Self::Dot => vec![b"dot".to_vec()],
        }
    }
}
