//! The octets of one connection in both directions, of clients and of upstreams alike. What carries
//! them, and what is between them and the socket, is known here alone.

mod outbox;
#[cfg(feature = "testing")]
pub(crate) mod testing;
mod tls;

use crate::limits::{STREAM_READ_LEN, TLS_COST};
use crate::poll::{Interest, Poll};
use crate::slots::{Key, Kind};
use crate::tcp::Endpoint;
use nodens_core::{ListenerKind, Transport};
use nodens_tls::rustls::ProtocolVersion;
use nodens_tls::rustls::server::UnbufferedServerConnection;
use nodens_tls::{Peer, Protocol};
use outbox::Outbox;
use rustix::event::{PollFd, PollFlags, Timespec};
use socket2::SockRef;
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;
use tls::{Session, Tls};

/// A connection as its owner sees it.
pub(crate) struct Pipe {
    carrier: Carrier,
    /// Messages to send.
    pub(crate) output: Outbox,
    /// What epoll watches for.
    interest: Interest,
}

/// What carries the octets.
enum Carrier {
    /// A TCP connection, as it is.
    Plain(TcpStream),
    /// TLS on a TCP connection.
    Tls(Box<Tls>),
}

/// Lets `take` use octets from the front of what is `kept` and the `octets` that follow it; gives what
/// is left. As long as nothing is left over, nothing is copied.
pub(crate) fn take_front(
    mut kept: Vec<u8>,
    octets: &[u8],
    take: impl FnOnce(&[u8]) -> usize,
) -> Vec<u8> {
    if kept.is_empty() {
        let taken = take(octets);
        kept.extend_from_slice(octets.get(taken..).unwrap_or_default());
    } else {
        kept.extend_from_slice(octets);
        let taken = take(&kept);
        kept.drain(..taken);
    }
    kept
}

/// What a read found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// So many octets.
    Octets(usize),
    /// None for now.
    Nothing,
    /// The end: the other side sends no more.
    End,
}

impl Pipe {
    /// A connection that a client made to this listener; none if it can have no keys. It is not watched
    /// yet.
    pub(crate) fn accepted(listener: &Endpoint, stream: TcpStream) -> Option<Self> {
        let protocol = match listener.kind {
            // No TCP connection comes by a listener of QUIC.
            ListenerKind::Dns | ListenerKind::Quic | ListenerKind::Https3 => None,
            ListenerKind::Tls => Some(Protocol::Dot),
            ListenerKind::Https => Some(Protocol::Https),
            ListenerKind::Grpc => Some(Protocol::Grpc),
        };
        // Without `tls` in the Corefile there is no encryption, as in CoreDNS.
        let Some((protocol, tls)) = protocol.zip(listener.tls.as_ref()) else {
            return Some(Self::new(Carrier::Plain(stream)));
        };
        let session = UnbufferedServerConnection::new(tls.config(protocol)?).ok()?;
        Self::within_tls(session.into(), stream).ok()
    }

    /// A connection to an upstream, made or in the making, within TLS if the upstream is a `peer`. It is not
    /// watched yet.
    pub(crate) fn dialled(stream: TcpStream, peer: Option<&Peer>) -> io::Result<Self> {
        let Some(peer) = peer else { return Ok(Self::new(Carrier::Plain(stream))) };
        let session = peer.connect_unbuffered().map_err(io::Error::other)?;
        Self::within_tls(session.into(), stream)
    }

    fn within_tls(session: Session, stream: TcpStream) -> io::Result<Self> {
        Ok(Self::new(Carrier::Tls(Box::new(Tls::new(session, stream)?))))
    }

    fn new(carrier: Carrier) -> Self {
        Self { carrier, output: Outbox::default(), interest: Interest::default() }
    }

    /// How messages arrive by it.
    pub(crate) fn transport(&self) -> Transport {
        match self.carrier {
            Carrier::Plain(_) => Transport::Tcp,
            Carrier::Tls(_) => Transport::Tls,
        }
    }

    /// The socket.
    fn socket(&self) -> &TcpStream {
        match &self.carrier {
            Carrier::Plain(stream) => stream,
            Carrier::Tls(tls) => tls.socket(),
        }
    }

    /// Whether what arrives next is a part of a handshake, which costs as much as hundreds of queries.
    pub(crate) fn is_handshaking(&self) -> bool {
        matches!(&self.carrier, Carrier::Tls(tls) if tls.is_handshaking())
    }

    /// The name for ALPN that both sides have agreed on, or that there is none; nothing without TLS.
    pub(crate) fn agreed(&self) -> Option<Option<&[u8]>> {
        match &self.carrier {
            Carrier::Plain(_) => None,
            Carrier::Tls(tls) => Some(tls.agreed()),
        }
    }

    /// The version of TLS that both sides have agreed on; nothing without TLS, or before that.
    pub(crate) fn tls_version(&self) -> Option<ProtocolVersion> {
        match &self.carrier {
            Carrier::Plain(_) => None,
            Carrier::Tls(tls) => tls.version(),
        }
    }

    /// Whether that version is older than 1.3.
    pub(crate) fn is_old_tls(&self) -> bool {
        self.tls_version().is_some_and(|version| version != ProtocolVersion::TLSv1_3)
    }

    /// Whether a part of the handshake was done.
    pub(crate) fn has_begun(&self) -> bool {
        matches!(&self.carrier, Carrier::Tls(tls) if tls.kept() > 0)
    }

    /// Octets of memory it has beside [`Pipe::output`].
    pub(crate) fn cost(&self) -> usize {
        match &self.carrier {
            Carrier::Plain(_) => 0,
            Carrier::Tls(tls) => TLS_COST + tls.held(),
        }
    }

    /// Begins to watch for `interest`, as the entry `key` of its kind.
    pub(crate) fn register(
        &mut self,
        poll: &Poll,
        (kind, key): (Kind, Key),
        interest: Interest,
    ) -> io::Result<()> {
        self.interest = interest;
        poll.add(self.socket(), kind, key, interest)
    }

    /// Watches for `wanted` from now on.
    pub(crate) fn watch(&mut self, poll: &Poll, (kind, key): (Kind, Key), wanted: Interest) {
        let writes = matches!(&self.carrier, Carrier::Tls(tls) if tls.wants_write());
        let wanted = Interest { write: wanted.write || writes, ..wanted };
        if wanted != self.interest {
            self.interest = wanted;
            _ = poll.modify(self.socket(), kind, key, wanted);
        }
    }

    /// Reads once into `buffer`. An error means that the connection is of no more use.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Received> {
        match &mut self.carrier {
            Carrier::Plain(stream) => {
                let len = buffer.len().min(STREAM_READ_LEN);
                received(stream.read(buffer.get_mut(..len).unwrap_or_default()))
            }
            Carrier::Tls(tls) => tls.read(buffer, STREAM_READ_LEN),
        }
    }

    /// Reads from the socket what nobody takes, as it is.
    pub(crate) fn read_raw(&self, buffer: &mut [u8]) -> io::Result<Received> {
        received(self.socket().read(buffer))
    }

    /// Looks at what has arrived on the socket, which stays there.
    pub(crate) fn peek(&self, buffer: &mut [u8]) -> io::Result<Received> {
        received(self.socket().peek(buffer))
    }

    /// Takes as many octets from the socket as `buffer` has; they have arrived.
    pub(crate) fn discard(&self, buffer: &mut [u8]) -> io::Result<()> {
        self.socket().read_exact(buffer)
    }

    /// Whether the other side has sent its last octet.
    pub(crate) fn is_ended(&self) -> bool {
        let mut fds = [PollFd::new(self.socket(), PollFlags::RDHUP)];
        let looked = rustix::event::poll(&mut fds, Some(&Timespec::default()));
        looked.is_ok() && !fds[0].revents().is_empty()
    }

    /// Wants to hear of octets only once so many have arrived, or no more will.
    pub(crate) fn wait_for(&self, octets: usize) {
        // Where it fails, it hears of them earlier.
        _ = crate::sys::set_low_water(self.socket(), octets);
    }

    /// Sends of [`Pipe::output`] what the other side takes now; gives the octets. An error means that
    /// the connection is of no more use.
    pub(crate) fn write(&mut self) -> io::Result<usize> {
        match &mut self.carrier {
            Carrier::Plain(stream) => self.output.write_to(stream),
            Carrier::Tls(tls) => {
                _ = tls.send()?;
                self.output.write_to(&mut **tls)
            }
        }
    }

    /// Whether the other side has said that it sends no more, in what was read last.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(&self.carrier, Carrier::Tls(tls) if tls.has_ended())
    }

    /// Ends what is sent: nothing follows what has been written.
    pub(crate) fn shutdown(&mut self) -> io::Result<()> {
        if let Carrier::Tls(tls) = &mut self.carrier {
            tls.say_goodbye();
        }
        self.socket().shutdown(Shutdown::Write)
    }

    /// Where this side is.
    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        self.socket().local_addr().ok()
    }

    /// Why the connection could not be made, once the socket says that it tried.
    pub(crate) fn connect_error(&self) -> Option<io::Error> {
        self.socket().take_error().unwrap_or_else(Some)
    }

    /// Octets written that the other side has not acknowledged; nothing if the kernel does not say.
    pub(crate) fn unacknowledged(&self) -> Option<u64> {
        crate::sys::unacknowledged(self.socket())
    }

    /// Gives up what is not acknowledged when the connection closes.
    pub(crate) fn forsake(&self) {
        _ = SockRef::from(self.socket()).set_linger(Some(Duration::ZERO));
    }

    /// The socket, for another process that continues the connection, if one can.
    pub(crate) fn release(self, poll: &Poll) -> Option<OwnedFd> {
        // It lives on, and so would what epoll knows of it.
        poll.remove(self.socket());
        match self.carrier {
            Carrier::Plain(stream) => Some(stream.into()),
            // Its keys would have to go along.
            Carrier::Tls(_) => None,
        }
    }
}

/// What came of a read.
fn received(result: io::Result<usize>) -> io::Result<Received> {
    match result {
        Ok(0) => Ok(Received::End),
        Ok(len) => Ok(Received::Octets(len)),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(Received::Nothing),
            _ => Err(error),
        },
    }
}
