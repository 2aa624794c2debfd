//! The octets of one connection in both directions, of clients and of upstreams alike. What carries
//! them, and what is between them and the socket, is known here alone.

mod outbox;

use crate::poll::{Interest, Poll};
use crate::slots::{Key, Kind};
use crate::tcp::Endpoint;
use nodens_core::{ListenerKind, Transport};
use outbox::Outbox;
use socket2::SockRef;
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

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
    /// A connection that a client made to this listener. It is not watched yet.
    pub(crate) fn accepted(listener: &Endpoint, stream: TcpStream) -> Self {
        match listener.kind {
            ListenerKind::Dns => Self::new(Carrier::Plain(stream)),
        }
    }

    /// A connection to an upstream, made or in the making. It is not watched yet.
    pub(crate) fn dialled(stream: TcpStream) -> Self {
        Self::new(Carrier::Plain(stream))
    }

    fn new(carrier: Carrier) -> Self {
        Self { carrier, output: Outbox::default(), interest: Interest::default() }
    }

    /// How messages arrive by it.
    pub(crate) fn transport(&self) -> Transport {
        match self.carrier {
            Carrier::Plain(_) => Transport::Tcp,
        }
    }

    /// The socket.
    fn socket(&self) -> &TcpStream {
        let Carrier::Plain(stream) = &self.carrier;
        stream
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
        if wanted != self.interest {
            self.interest = wanted;
            _ = poll.modify(self.socket(), kind, key, wanted);
        }
    }

    /// Reads once into `buffer`. An error means that the connection is of no more use.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Received> {
        let Carrier::Plain(stream) = &mut self.carrier;
        match stream.read(buffer) {
            Ok(0) => Ok(Received::End),
            Ok(len) => Ok(Received::Octets(len)),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(Received::Nothing),
                _ => Err(error),
            },
        }
    }

    /// Sends of [`Pipe::output`] what the other side takes now; gives the octets. An error means that
    /// the connection is of no more use.
    pub(crate) fn write(&mut self) -> io::Result<usize> {
        let Carrier::Plain(stream) = &self.carrier;
        self.output.write_to(stream)
    }

    /// Ends what is sent: nothing follows what has been written.
    pub(crate) fn shutdown(&self) -> io::Result<()> {
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

    /// The socket, for another process that continues the connection.
    pub(crate) fn release(self, poll: &Poll) -> OwnedFd {
        // It lives on, and so would what epoll knows of it.
        poll.remove(self.socket());
        let Carrier::Plain(stream) = self.carrier;
        stream.into()
    }
}
