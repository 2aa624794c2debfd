//! The way a question goes.

/// What carries a question and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// One datagram each.
    Udp,
    /// A stream.
    Tcp,
}

impl Transport {
    /// As reports name it.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
        }
    }
}
