//! The contract between the loop and a connection: what a connection can be asked to do, and what
//! it says. Connections know their protocol; they do no accounting and read no schedule.

use crate::clock::Clock;
use crate::connections::Failure;
use crate::run::RunError;
use crate::session::Session;
use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// Octets read at once.
const READ_LEN: usize = 64 << 10;

/// One connection of a client.
pub(super) trait Carrier {
    /// What to watch.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Takes a query, to be written as soon as possible; possibly before the connection is set
    /// up. The message is complete and has the ID it is known by.
    fn ask(&mut self, id: u16, message: &[u8]) -> Taken;

    /// Drops these queries if it still has them: no answer is waited for. What is sent for that, the next
    /// [`Carrier::drive`] sends.
    fn forget(&mut self, ids: &HashSet<u16>);

    /// Continues with whatever there is to do: called after [`Carrier::ask`], when the descriptor is
    /// ready, and at [`Carrier::deadline`]. An error is the end of the connection.
    fn drive(&mut self, sink: &mut Sink<'_, '_>) -> Result<(), End>;

    /// Whether there are octets that the kernel had no room for, or a handshake of the kernel's to
    /// wait for.
    fn wants_write(&self) -> bool;

    /// When to be driven even if nothing happens.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// Datagrams that the kernel dropped because they were not fetched in time.
    fn dropped(&self) -> u64 {
        0
    }

    /// Ends the connection in the protocol's own way.
    fn close(&mut self, now: Instant);

    /// Which accepted queries were fully, partly or not at all written before the connection ended.
    fn leftover(&mut self) -> Leftover;
}

/// Whether a query was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// Yes.
    Yes,
    /// No: the server allows no more at once.
    Full,
    /// No: the server takes no more queries on this connection.
    Over,
}

/// Queries that a connection which has ended did not bring out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Leftover {
    /// Not one octet of these has left.
    pub(super) unwritten: Vec<u16>,
    /// How many others were cut.
    pub(super) half_written: u64,
}

/// Why a connection has ended.
#[derive(Debug)]
pub enum End {
    /// The server closed it in order.
    Closed,
    /// The system said so.
    Io(io::Error),
    /// The server's certificate is not trusted: the text says why.
    Certificate(String),
    /// The server speaks something else: its name for people, and in ALPN.
    NoProtocol(&'static str, &'static str),
    /// TLS, HTTP/2, QUIC or HTTP/3 failed: the text says how.
    Protocol(String),
    /// QUIC heard nothing for too long.
    Silence,
}

impl End {
    /// What it means for a connection that was being set up.
    pub fn failure(&self) -> Failure {
        match self {
            Self::Closed => Failure::Reset,
            Self::Certificate(_) | Self::NoProtocol(..) | Self::Protocol(_) => Failure::Handshake,
            Self::Silence => Failure::TimedOut,
            Self::Io(error) => match error.kind() {
                ErrorKind::ConnectionRefused
                | ErrorKind::HostUnreachable
                | ErrorKind::NetworkUnreachable => Failure::Refused,
                ErrorKind::ConnectionReset
                | ErrorKind::ConnectionAborted
                | ErrorKind::BrokenPipe
                | ErrorKind::UnexpectedEof => Failure::Reset,
                ErrorKind::TimedOut => Failure::TimedOut,
                _ => Failure::NotTried,
            },
        }
    }

    /// Why no connection to `server` will ever be set up, if that is so.
    pub(super) fn hopeless(&self, server: SocketAddr) -> Option<RunError> {
        match self {
            Self::Certificate(why) => Some(RunError::Certificate { server, why: why.clone() }),
            Self::NoProtocol(name, alpn) => Some(RunError::NoProtocol { server, name, alpn }),
            Self::Closed | Self::Io(_) | Self::Protocol(_) | Self::Silence => None,
        }
    }

    /// A sentence for the reader of the result.
    pub fn text(&self) -> String {
        match self {
            Self::Closed => "the server closed the connection".to_owned(),
            Self::Io(error) => error.to_string(),
            Self::Certificate(why) => format!("the server's certificate is not trusted: {why}"),
            Self::NoProtocol(name, alpn) => {
                format!("the server does not speak {name} here (no ALPN {alpn})")
            }
            Self::Protocol(how) => how.clone(),
            Self::Silence => "the server stopped responding".to_owned(),
        }
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        // rustls reports this when the server closes the socket without closing TLS; most servers
        // do.
        if error.kind() == ErrorKind::UnexpectedEof { Self::Closed } else { Self::Io(error) }
    }
}

/// What the loop keeps of a connection while it is driven.
#[derive(Debug)]
pub(super) struct Status {
    pub(super) client: usize,
    /// The number of the connection among its client's, from 1.
    pub(super) lane: u32,
    /// When it was asked for.
    pub(super) began: u64,
    /// When TCP's handshake was over.
    pub(super) connected: Option<u64>,
    /// When it could carry queries.
    pub(super) opened: Option<u64>,
    /// The last query or answer.
    pub(super) active: u64,
    /// Queries that go back to their client.
    pub(super) returned: Vec<u16>,
}

/// Where a connection says what happens on it.
pub(super) struct Sink<'s, 'w> {
    pub(super) clock: Clock,
    pub(super) session: &'s mut Session<'w>,
    pub(super) status: &'s mut Status,
    pub(super) last_answer: &'s mut u64,
    /// Room to read into.
    pub(super) buffer: &'s mut Vec<u8>,
}

impl Sink<'_, '_> {
    pub(super) fn buffer() -> Vec<u8> {
        vec![0; READ_LEN]
    }

    /// TCP's handshake is over.
    pub(super) fn connected(&mut self) {
        let now = self.clock.now();
        if self.status.connected.replace(now).is_none() {
            self.session.tally.connections.tcp.record(now.saturating_sub(self.status.began));
        }
    }

    /// The connection is set up; `handshake` says whether there was one of TLS.
    pub(super) fn opened(&mut self, handshake: Handshake) {
        let now = self.clock.now();
        if self.status.opened.replace(now).is_some() {
            return;
        }
        self.status.active = now;
        let tally = &mut self.session.tally;
        let began = self.status.began;
        let took = now.saturating_sub(began);
        tally.connect.record(took);
        if let Some(cohort) = tally.cohort(now) {
            cohort.connect.record(took);
        }
        tally.connections.open(now, handshake == Handshake::Resumed);
        if handshake != Handshake::None {
            let since = self.status.connected.unwrap_or(began);
            tally.connections.tls.record(now.saturating_sub(since));
        }
    }

    /// The first octets of a query leave at `now`, taken just before they did.
    pub(super) fn wrote(&mut self, id: u16, now: u64) {
        self.status.active = now;
        self.session.wrote(self.status.client, self.status.lane, id, now);
    }

    /// A message came that names its query by ID.
    pub(super) fn message(&mut self, message: &[u8], now: u64) {
        self.status.active = now;
        let answered = self.session.tally.counts.answered;
        self.session.receive_on(self.status.client, self.status.lane, message, now);
        if self.session.tally.counts.answered > answered {
            *self.last_answer = now;
        }
    }

    /// A message came on the stream of query `id`, with ID 0 as RFC 8484 section 4.1 wants and
    /// RFC 9250 section 4.2.1 demands. Nothing more comes on that stream.
    pub(super) fn stream_message(&mut self, id: u16, message: &mut [u8]) {
        let now = self.clock.now();
        match message.first_chunk_mut::<2>() {
            Some(octets) if *octets == [0; 2] => {
                *octets = id.to_be_bytes();
                self.message(message, now);
            }
            Some(_) => self.session.mismatch_stream(),
            None => self.message(message, now),
        }
        self.rejected(id);
    }

    /// The stream of query `id` is over; if it is not answered, it will not be.
    pub(super) fn rejected(&mut self, id: u16) {
        if self.session.fail(self.status.client, self.status.lane, id) {
            self.session.tally.connections.rejected += 1;
        }
    }

    /// A response of HTTP came with this status.
    pub(super) fn http_status(&mut self, status: u16) {
        *self.session.tally.connections.http.entry(status).or_default() += 1;
    }

    /// The server allows this many streams at once.
    pub(super) fn streams_allowed(&mut self, streams: u64) {
        self.session.tally.connections.allow(streams);
    }

    /// So many queries were sent before the handshake was over; whether the server took them.
    pub(super) fn early_data(&mut self, questions: u64, accepted: bool) {
        let connections = &mut self.session.tally.connections;
        connections.early_offered += 1;
        connections.early_accepted += u64::from(accepted);
        connections.early_questions += questions;
        connections.early_questions_taken += if accepted { questions } else { 0 };
    }

    /// The server did not look at query `id`; it can be asked again.
    pub(super) fn returned(&mut self, id: u16) {
        self.status.returned.push(id);
    }
}

/// The handshake of TLS that a connection was set up with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// There was none.
    None,
    /// A full one.
    Full,
    /// One that resumed a session.
    Resumed,
}
