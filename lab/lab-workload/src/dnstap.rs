//! Messages that a server has written as dnstap (<https://dnstap.info>), in Frame Streams
//! (<https://github.com/farsightsec/fstrm>): a file, or what a writer sends to a socket.
//!
//! A frame that is broken is named by its number and its first octet, and the next one is read; behind
//! a length that makes no sense, or a control frame that does not belong there, nothing is read. Lengths
//! are bounded before anything is allocated.
//!
//! A field of protocol buffers that dnstap does not have is an error of its frame: what it means for
//! the fields beside it is unknown.

mod fields;
mod frames;
mod message;
mod recording;
mod write;

pub use frames::Reader;
pub use recording::Recording;
pub use write::Writer;

use std::net::IpAddr;

/// The content type of dnstap in Frame Streams.
pub const CONTENT_TYPE: &[u8] = b"protobuf:dnstap.Dnstap";
/// The longest frame of data: a query and a response of 64 KiB each, with what goes with them.
pub const FRAME_LEN_MAX: usize = 256 << 10;
/// The longest control frame (fstrm).
pub const CONTROL_LEN_MAX: usize = 512;

/// Between whom a message was sent (`Message.type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// An authoritative server and who asked it.
    Auth,
    /// A resolver and an authoritative server.
    Resolver,
    /// A client and the resolver or cache that it asked.
    Client,
    /// A forwarder and its upstream.
    Forwarder,
    /// A stub resolver and its server.
    Stub,
    /// A tool such as dig and its server.
    Tool,
    /// A primary and who changes its zone (RFC 2136).
    Update,
}

impl Role {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Auth,
        Self::Resolver,
        Self::Client,
        Self::Forwarder,
        Self::Stub,
        Self::Tool,
        Self::Update,
    ];
    /// What clients ask: the roles that are taken unless others are asked for.
    pub const OF_CLIENTS: [Self; 2] = [Self::Client, Self::Auth];
}

/// What a message was sent over (`SocketProtocol`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
    /// DNS over TLS.
    Tls,
    /// DNS over HTTPS.
    Https,
    /// DNSCrypt over UDP.
    DnscryptUdp,
    /// DNSCrypt over TCP.
    DnscryptTcp,
    /// DNS over QUIC.
    Quic,
}

/// One message of dnstap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tapped {
    /// Between whom.
    pub role: Role,
    /// Whether it stands for the response; it may have the query as well.
    pub is_response: bool,
    /// What it was sent over, if that is known.
    pub transport: Option<Transport>,
    /// Who asked: address and port, of which either may be missing.
    pub asker: (Option<IpAddr>, Option<u16>),
    /// Who was asked.
    pub asked: (Option<IpAddr>, Option<u16>),
    /// When the query was sent or received, in nanoseconds since 1970.
    pub query_time: Option<u64>,
    /// When the response was.
    pub response_time: Option<u64>,
    /// The query.
    pub query: Option<Vec<u8>>,
    /// The response.
    pub response: Option<Vec<u8>>,
}

impl Tapped {
    /// The message that it stands for, and its time.
    pub fn message(&self) -> (Option<u64>, Option<&[u8]>) {
        match self.is_response {
            true => (self.response_time.or(self.query_time), self.response.as_deref()),
            false => (self.query_time, self.query.as_deref()),
        }
    }
}

/// A frame that is broken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("frame {frame} (octet {at}): {fault}")]
pub struct FrameError {
    /// The frame, counted from 1; control frames count.
    pub frame: u64,
    /// The octet that is wrong, counted from 0 at the start of the stream.
    pub at: u64,
    /// What is wrong with it.
    pub fault: FrameFault,
}

impl FrameError {
    /// Whether nothing is read behind it.
    pub fn is_end(&self) -> bool {
        !matches!(self.fault, FrameFault::Field(_) | FrameFault::Missing(_))
    }
}

/// What is wrong with a frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameFault {
    /// It does not start as a stream does.
    #[error("not a Frame Stream, expected the control frame START with the content type of dnstap")]
    NoStream,
    /// The stream has something else in it.
    #[error("content type `{0}`, expected `protobuf:dnstap.Dnstap`")]
    ContentType(String),
    /// The stream ends inside it.
    #[error("the stream ends after {left} of {expected} octets")]
    Cut {
        /// Octets that should be there.
        expected: usize,
        /// Octets that are there.
        left: usize,
    },
    /// A writer has stopped sending inside it.
    #[error("nothing more came after {left} of {expected} octets")]
    Silent {
        /// Octets that should be there.
        expected: usize,
        /// Octets that came.
        left: usize,
    },
    /// The stream ends between two frames.
    #[error("the stream ends without STOP; what was before is whole")]
    NoStop,
    /// A length that no frame has.
    #[error("a frame of {0} octets, expected at most {FRAME_LEN_MAX}")]
    TooLong(u32),
    /// A length that no control frame has.
    #[error("a control frame of {0} octets, expected 4 to {CONTROL_LEN_MAX}")]
    ControlLength(u32),
    /// A control frame that does not belong there.
    #[error("control frame {found}, expected {expected}")]
    Control {
        /// Its type (1 ACCEPT, 2 START, 3 STOP, 4 READY, 5 FINISH).
        found: u32,
        /// What belongs there.
        expected: &'static str,
    },
    /// Fields of a control frame that do not end where it ends.
    #[error("a broken field of a control frame, expected a type, a length and as many octets")]
    ControlField,
    /// Something behind the end.
    #[error("octets behind STOP, expected the end of the stream")]
    BehindStop,
    /// The stream cannot be read or written.
    #[error("{0}")]
    Io(String),
    /// A field of the message is broken.
    #[error("{0}")]
    Field(String),
    /// A field that has to be there is not.
    #[error("no {0}")]
    Missing(&'static str),
}

/// Whether octets begin as a Frame Stream does: with a control frame START or READY.
pub fn is_stream(octets: &[u8]) -> bool {
    let word = |at: usize| {
        octets.get(at..).and_then(<[u8]>::first_chunk).map(|word| u32::from_be_bytes(*word))
    };
    let len = word(4).and_then(|len| usize::try_from(len).ok());
    word(0) == Some(0)
        && len.is_some_and(|len| (4..=CONTROL_LEN_MAX).contains(&len))
        && matches!(word(8), Some(frames::START | frames::READY))
}

#[cfg(test)]
mod tests;
