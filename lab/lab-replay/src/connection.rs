//! One TCP connection: a stream of messages in both directions (RFC 1035 section 4.2.2).

use crate::limits::{READ_LEN, UNSENT_MAX};
use nodens_wire::framing;
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

pub(crate) struct Connection {
    pub(crate) socket: Socket,
    /// When it was asked for.
    pub(crate) began: u64,
    pub(crate) is_open: bool,
    /// Whether the recorded one has ended: this one does when nothing is in flight on it.
    pub(crate) is_ending: bool,
    /// The round of the recording that it belongs to.
    pub(crate) round: u64,
    /// IDs in the order of sending; those at the front may have their outcome.
    pub(crate) ids: VecDeque<u16>,
    unsent: Vec<u8>,
    received: Vec<u8>,
}

/// Why nothing more comes.
#[derive(Debug)]
pub(crate) enum End {
    /// The server has closed it in order.
    Closed,
    Broken(io::Error),
}

impl Connection {
    /// Asks for a connection; that it is there is seen when it can be written to.
    pub(crate) fn dial(
        target: SocketAddr,
        local: Option<IpAddr>,
        now: u64,
        round: u64,
    ) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(target), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        if let Some(local) = local {
            lab_sys::socket::choose_port_late(socket.as_fd())?;
            socket.bind(&SocketAddr::new(local, 0).into())?;
        }
        // EINPROGRESS has no kind of its own.
        const EINPROGRESS: i32 = 115;
        match socket.connect(&target.into()) {
            Err(error) if error.raw_os_error() != Some(EINPROGRESS) => return Err(error),
            _ => {}
        }
        Ok(Self {
            socket,
            began: now,
            is_open: false,
            is_ending: false,
            round,
            ids: VecDeque::new(),
            unsent: Vec::new(),
            received: Vec::new(),
        })
    }

    /// Appends a message; false if too much waits already.
    pub(crate) fn push(&mut self, message: &[u8]) -> bool {
        let has_room = self.unsent.len() < UNSENT_MAX;
        if has_room {
            framing::push_message(&mut self.unsent, message);
        }
        has_room
    }

    /// Whether something waits to be sent, or the connection to be there.
    pub(crate) fn wants_to_write(&self) -> bool {
        !self.is_open || !self.unsent.is_empty()
    }

    /// What has become of asking for the connection: `None` if that is not known yet.
    pub(crate) fn outcome(&self) -> Option<io::Result<()>> {
        match self.socket.take_error() {
            Ok(Some(error)) | Err(error) => Some(Err(error)),
            Ok(None) => match self.socket.peer_addr() {
                Ok(_) => Some(Ok(())),
                Err(_) => None,
            },
        }
    }

    /// Writes as much as the kernel takes.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while self.is_open && !self.unsent.is_empty() {
            match (&self.socket).write(&self.unsent) {
                Ok(count) => _ = self.unsent.drain(..count.min(self.unsent.len())),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads what is there and gives whole messages to `each`; the end, if there is one.
    pub(crate) fn receive(&mut self, mut each: impl FnMut(&[u8])) -> Option<End> {
        let end = loop {
            let had = self.received.len();
            self.received.resize(had + READ_LEN, 0);
            let room = self.received.get_mut(had..).unwrap_or_default();
            let read = (&self.socket).read(room);
            self.received.truncate(had + read.as_ref().copied().unwrap_or(0));
            match read {
                Ok(0) => break Some(End::Closed),
                Ok(count) if count < READ_LEN => break None,
                Ok(_) => self.take(&mut each),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break None,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break Some(End::Broken(error)),
            }
        };
        self.take(&mut each);
        end
    }

    fn take(&mut self, each: &mut impl FnMut(&[u8])) {
        let mut at = 0;
        while let Some((message, used)) =
            framing::first_message(self.received.get(at..).unwrap_or_default())
        {
            each(message);
            at += used;
        }
        self.received.drain(..at.min(self.received.len()));
    }
}
