//! QUIC to a primary: each query on a stream of its own, with all messages of its response (RFC 9250
//! section 4.2). `quinn-proto` is a state machine without socket and clock; the keeper's thread gives it both.

use crate::limits::{PRIMARY_DATAGRAMS_IN_A_ROW, PRIMARY_STREAM_WINDOW, QUIC_DATAGRAM_MAX};
use crate::pipe::Received;
use crate::quic::{Clock, code};
use crate::upstream::quic::{Dialled, begin, socket_to, text_of};
use nodens_core::upstream::Peer;
use quinn_proto::{DatagramEvent, Dir, EndpointConfig, Event, ReadError, StreamId};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One connection.
pub(crate) struct QuicLink {
    peer: Arc<Peer>,
    address: SocketAddr,
    socket: UdpSocket,
    dialled: Dialled,
    clock: Clock,
    /// The query that no stream was opened for yet, with its length in front.
    request: Vec<u8>,
    stream: Option<StreamId>,
    made: bool,
    /// More may have come than was read.
    unread: bool,
    /// What ended it.
    lost: Option<String>,
}

impl QuicLink {
    /// Begins a connection to a server that has to be `peer`.
    pub(super) fn open(address: SocketAddr, peer: &Arc<Peer>) -> io::Result<Self> {
        let socket = socket_to(address, None)?;
        let endpoints = Arc::<EndpointConfig>::default();
        let bounds = (Duration::ZERO, PRIMARY_STREAM_WINDOW);
        let dialled = begin(&endpoints, address, peer, bounds, Instant::now())?;
        let (peer, clock) = (peer.clone(), Clock::new());
        let (request, stream, made, unread, lost) = (Vec::new(), None, false, false, None);
        Ok(Self { peer, address, socket, dialled, clock, request, stream, made, unread, lost })
    }

    pub(super) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    pub(super) fn is_made(&self) -> bool {
        self.made
    }

    /// Asks for something, with its length in front, once the connection is made. What was asked before is done.
    pub(super) fn ask(&mut self, request: Vec<u8>) {
        if let Some(before) = self.stream.take() {
            // An error means that it has ended.
            _ = self.dialled.quinn.recv_stream(before).stop(code::NO_ERROR);
        }
        self.request = request;
    }

    /// Sends what is to be sent now.
    pub(super) fn write(&mut self) -> io::Result<()> {
        if self.made && !self.request.is_empty() {
            self.open_stream()?;
        }
        self.transmit()
    }

    fn open_stream(&mut self) -> io::Result<()> {
        let quinn = &mut self.dialled.quinn;
        // Where the server allows no more streams yet it does so by a packet, after which this is tried again.
        let Some(stream) = quinn.streams().open(Dir::Bi) else { return Ok(()) };
        let request = std::mem::take(&mut self.request);
        let mut writer = quinn.send_stream(stream);
        let written = writer.write(&request).unwrap_or_default();
        if written < request.len() || writer.finish().is_err() {
            return Err(io::Error::other("the primary takes no query"));
        }
        self.stream = Some(stream);
        Ok(())
    }

    fn transmit(&mut self) -> io::Result<()> {
        let Dialled { endpoint, handle, quinn } = &mut self.dialled;
        let (now, mut packet) = (Instant::now(), Vec::new());
        let mut sent = Ok(());
        while let Some(transmit) = quinn.poll_transmit(now, 1, &mut packet) {
            let octets = packet.get(..transmit.size).unwrap_or_default();
            match self.socket.send(octets) {
                // What is lost is sent again.
                Err(error) if is_refusal(&error) && !self.made => sent = Err(error),
                _ => {}
            }
            packet.clear();
        }
        while let Some(event) = quinn.poll_endpoint_events() {
            if let Some(event) = endpoint.handle_event(*handle, event) {
                quinn.handle_event(event);
            }
        }
        sent
    }

    /// Takes what has come, and gives what of it belongs to the response.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Received> {
        let (now, quinn) = (Instant::now(), &mut self.dialled.quinn);
        if quinn.poll_timeout().is_some_and(|at| at <= now) {
            quinn.handle_timeout(now);
        }
        self.receive(now)?;
        self.hear();
        let received = self.read_stream(buffer);
        self.write()?;
        match (received, &self.lost) {
            (Ok(Received::Nothing), Some(text)) => {
                Err(io::Error::new(ErrorKind::ConnectionReset, text.clone()))
            }
            (received, _) => received,
        }
    }

    fn receive(&mut self, now: Instant) -> io::Result<()> {
        let Dialled { endpoint, quinn, .. } = &mut self.dialled;
        let (mut octets, mut reply) = ([0; QUIC_DATAGRAM_MAX], Vec::new());
        for _ in 0..PRIMARY_DATAGRAMS_IN_A_ROW {
            let len = match self.socket.recv(&mut octets) {
                Ok(len) => len,
                // Whoever forges an ICMP message may close no connection that is made.
                Err(error) if is_refusal(&error) && !self.made => return Err(error),
                Err(_) => break,
            };
            let datagram = octets.get(..len).unwrap_or_default();
            let event = endpoint.handle(now, self.address, None, None, datagram.into(), &mut reply);
            reply.clear();
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                quinn.handle_event(event);
            }
        }
        Ok(())
    }

    fn hear(&mut self) {
        while let Some(event) = self.dialled.quinn.poll() {
            match event {
                Event::Connected => self.made = true,
                Event::ConnectionLost { reason } => {
                    self.lost = Some(text_of(&reason, &self.peer));
                }
                // The stream is looked at each time.
                _ => {}
            }
        }
    }

    fn read_stream(&mut self, buffer: &mut [u8]) -> io::Result<Received> {
        self.unread = false;
        let Some(stream) = self.stream else { return Ok(Received::Nothing) };
        let mut reader = self.dialled.quinn.recv_stream(stream);
        let Ok(mut chunks) = reader.read(true) else { return Ok(Received::End) };
        let mut len = 0;
        let end = loop {
            let Some(room) = buffer.get_mut(len..).filter(|room| !room.is_empty()) else {
                self.unread = true;
                break None;
            };
            match chunks.next(room.len()) {
                Ok(Some(chunk)) => {
                    let own = room.get_mut(..chunk.bytes.len()).unwrap_or_default();
                    own.copy_from_slice(chunk.bytes.get(..own.len()).unwrap_or_default());
                    len += own.len();
                }
                Ok(None) => break Some(Ok(Received::End)),
                Err(ReadError::Blocked) => break None,
                Err(ReadError::Reset(code)) => {
                    let text = format!("the primary reset the stream with error code {code}");
                    break Some(Err(io::Error::new(ErrorKind::ConnectionReset, text)));
                }
            }
        };
        // Packets are sent right after this.
        _ = chunks.finalize();
        match (len, end) {
            (0, Some(end)) => end,
            (0, None) => Ok(Received::Nothing),
            // The end is seen by the next read.
            _ => Ok(Received::Octets(len)),
        }
    }

    /// When it has to go on, in monotonic nanoseconds.
    pub(super) fn timer_ns(&mut self) -> Option<u64> {
        if self.unread {
            return Some(0);
        }
        self.dialled.quinn.poll_timeout().map(|at| self.clock.nanoseconds(at))
    }
}

/// Whether the system says that nobody can be reached there.
fn is_refusal(error: &io::Error) -> bool {
    !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
        && error.raw_os_error() != Some(libc::ENOBUFS)
}

impl Drop for QuicLink {
    fn drop(&mut self) {
        self.dialled.quinn.close(Instant::now(), code::NO_ERROR, Default::default());
        // An error means that it is over already.
        _ = self.transmit();
    }
}
