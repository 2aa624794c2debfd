//! The octets of one connection to a primary: over TCP, within TLS (RFC 9103) or over QUIC (RFC 9250).

mod quic;

use crate::fault::{errno_text, of_tls};
use crate::pipe::{Pipe, Received};
use crate::poll::{Interest, Poll};
use crate::slots::{Key, Kind};
use nodens_core::ListenerKind;
use nodens_core::upstream::PrimaryPeer;
use nodens_tls::rustls::ProtocolVersion;
use nodens_wire::framing::framed;
use nodens_zone::secondary::Primary;
use quic::QuicLink;
use socket2::{Domain, Protocol, SockAddr, Socket};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// A connection to a primary, made or in the making.
pub(super) enum Link {
    /// TCP, alone or with TLS.
    Stream(Pipe),
    /// QUIC, with one stream at a time.
    Quic(Box<QuicLink>),
}

/// Whether messages have no ID of their own there (RFC 9250 section 4.2.1).
pub(super) fn has_no_ids(primary: &Primary) -> bool {
    PrimaryPeer::of(primary).is_some_and(|own| own.kind == ListenerKind::Quic)
}

/// What is wrong with a connection, as operators know it.
pub(super) fn text_of(error: &io::Error) -> String {
    // What is not the system's is as it should be already.
    let own = || error.get_ref().map(ToString::to_string);
    of_tls(error).or_else(own).unwrap_or_else(|| errno_text(error))
}

impl Link {
    /// Begins a connection.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn open(primary: &Primary) -> io::Result<Self> {
        let (address, own) = (primary.address, PrimaryPeer::of(primary));
        if let Some(own) = own.filter(|own| own.kind == ListenerKind::Quic) {
            return Ok(Self::Quic(Box::new(QuicLink::open(address, &own.peer)?)));
        }
        let stream = begin_tcp(address)?;
        let peer = own.map(|own| &*own.peer);
        Ok(Self::Stream(Pipe::dialled(stream.into(), peer)?))
    }

    /// Has `poll` say when it can go on.
    pub(super) fn register(&mut self, poll: &Poll, key: Key) -> io::Result<()> {
        match self {
            Self::Stream(pipe) => pipe.register(poll, (Kind::TcpUpstream, key), Interest::WRITE),
            Self::Quic(link) => {
                poll.add(link.socket(), Kind::QuicUpstream, key, Interest::READ)?;
                // Its handshake begins without a word of the socket.
                link.write()
            }
        }
    }

    /// Watches for what is to come from now on.
    pub(super) fn watch(&mut self, poll: &Poll, key: Key) {
        if let Self::Stream(pipe) = self {
            // What waits for the end of a handshake does not wait for the socket.
            let waits = !pipe.output.is_empty() && !pipe.is_handshaking();
            pipe.watch(poll, (Kind::TcpUpstream, key), Interest { read: true, write: waits });
        }
    }

    /// Adds a query to what is to be sent.
    pub(super) fn push(&mut self, request: &[u8]) {
        match self {
            Self::Stream(pipe) => pipe.output.push(request, &mut Vec::new()),
            Self::Quic(link) => link.ask(framed(request)),
        }
    }

    /// Why the connection could not be made, once `poll` has said that the system tried.
    pub(super) fn connect_error(&self) -> Option<io::Error> {
        match self {
            Self::Stream(pipe) => pipe.connect_error(),
            Self::Quic(_) => None,
        }
    }

    /// Whether it is made, handshake included.
    pub(super) fn is_made(&self) -> bool {
        match self {
            Self::Stream(pipe) => !pipe.is_handshaking(),
            Self::Quic(link) => link.is_made(),
        }
    }

    /// Why nothing may be sent by it, although it is made: transfers need TLS 1.3 (RFC 9103 section 7).
    pub(super) fn mismatch(&self) -> Option<String> {
        let Self::Stream(pipe) = self else { return None };
        let version = pipe.tls_version().filter(|version| *version != ProtocolVersion::TLSv1_3)?;
        Some(format!("the primary speaks {version:?}, and transfers need TLS 1.3"))
    }

    /// Sends what the other side takes now.
    pub(super) fn write(&mut self) -> io::Result<()> {
        match self {
            Self::Stream(pipe) => pipe.write().map(drop),
            Self::Quic(link) => link.write(),
        }
    }

    /// Reads once into `buffer`.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Received> {
        match self {
            Self::Stream(pipe) => pipe.read(buffer),
            Self::Quic(link) => link.read(buffer),
        }
    }

    /// When it has to go on whatever the socket says, in monotonic nanoseconds.
    pub(super) fn timer_ns(&mut self) -> Option<u64> {
        match self {
            Self::Stream(_) => None,
            Self::Quic(link) => link.timer_ns(),
        }
    }
}

fn begin_tcp(address: SocketAddr) -> io::Result<Socket> {
    let protocol = Some(Protocol::TCP);
    let socket = Socket::new(Domain::for_address(address), socket2::Type::STREAM, protocol)?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    // Its end is a reset: of who closes first the port is kept for a minute otherwise, and very many zones that are
    // asked for one after the other take all ports. Nothing is on its way then that the primary has to get.
    socket.set_linger(Some(Duration::ZERO))?;
    match socket.connect(&SockAddr::from(address)) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket),
    }
}
