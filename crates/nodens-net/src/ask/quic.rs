//! One query over QUIC, on a connection of its own.

use super::left;
use crate::limits::{QUIC_UPSTREAM_STREAM_WINDOW, RESPONSE_LEN_MAX};
use crate::quic::code;
use crate::upstream::quic::{Dialled, begin, socket_to, text_of};
use nodens_core::upstream::Peer;
use nodens_wire::framing::{first_message, framed};
use quinn_proto::{DatagramEvent, Dir, EndpointConfig, Event, ReadError, StreamEvent, StreamId};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest pause between two looks at the timers.
const PAUSE: Duration = Duration::from_millis(50);

/// A connection with one query.
struct Exchange<'p> {
    peer: &'p Peer,
    server: SocketAddr,
    socket: UdpSocket,
    dialled: Dialled,
    query: Vec<u8>,
    stream: Option<StreamId>,
    received: Vec<u8>,
}

/// Sends `query` to `server`, which has to be `peer`, and gives the response.
pub(super) fn exchange(
    server: SocketAddr,
    peer: &Peer,
    query: &[u8],
    patience: Duration,
) -> io::Result<Vec<u8>> {
    // The handshake may take as long as the response.
    let until = Instant::now() + patience * 2;
    let socket = socket_to(server, None)?;
    socket.set_nonblocking(false)?;
    let endpoints = Arc::<EndpointConfig>::default();
    let bounds = (patience * 2, QUIC_UPSTREAM_STREAM_WINDOW);
    let dialled = begin(&endpoints, server, peer, bounds, Instant::now())?;
    let (query, received) = (framed(query), Vec::new());
    let mut exchange = Exchange { peer, server, socket, dialled, query, stream: None, received };
    let response = loop {
        match exchange.turn(until) {
            Ok(None) => {}
            Ok(Some(response)) => break Ok(response),
            Err(error) => break Err(error),
        }
    };
    exchange.dialled.quinn.close(Instant::now(), code::NO_ERROR, Default::default());
    _ = exchange.send();
    response
}

impl Exchange<'_> {
    fn turn(&mut self, until: Instant) -> io::Result<Option<Vec<u8>>> {
        self.send()?;
        let quinn = &mut self.dialled.quinn;
        let next = quinn.poll_timeout().map(|at| at.saturating_duration_since(Instant::now()));
        let pause = next.unwrap_or(PAUSE).clamp(Duration::from_millis(1), PAUSE);
        self.socket.set_read_timeout(Some(pause.min(left(until)?)))?;
        let mut octets = [0; 2048];
        match self.socket.recv(&mut octets) {
            Ok(len) => self.take(octets.get(..len).unwrap_or_default()),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                _ => return Err(error),
            },
        }
        let (quinn, now) = (&mut self.dialled.quinn, Instant::now());
        if quinn.poll_timeout().is_some_and(|at| at <= now) {
            quinn.handle_timeout(now);
        }
        self.hear()
    }

    fn take(&mut self, octets: &[u8]) {
        let Dialled { endpoint, quinn, .. } = &mut self.dialled;
        let (now, mut reply) = (Instant::now(), Vec::new());
        let event = endpoint.handle(now, self.server, None, None, octets.into(), &mut reply);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            quinn.handle_event(event);
        }
    }

    fn send(&mut self) -> io::Result<()> {
        let Dialled { endpoint, handle, quinn } = &mut self.dialled;
        let mut packet = Vec::new();
        while let Some(transmit) = quinn.poll_transmit(Instant::now(), 1, &mut packet) {
            self.socket.send(packet.get(..transmit.size).unwrap_or_default())?;
            packet.clear();
        }
        while let Some(event) = quinn.poll_endpoint_events() {
            if let Some(event) = endpoint.handle_event(*handle, event) {
                quinn.handle_event(event);
            }
        }
        Ok(())
    }

    /// What has come of it.
    fn hear(&mut self) -> io::Result<Option<Vec<u8>>> {
        while let Some(event) = self.dialled.quinn.poll() {
            match event {
                Event::Connected => self.ask()?,
                Event::ConnectionLost { reason } => {
                    let text = text_of(&reason, self.peer);
                    return Err(io::Error::new(ErrorKind::InvalidData, text));
                }
                Event::Stream(StreamEvent::Readable { id }) if Some(id) == self.stream => {
                    return self.read(id);
                }
                _ => {}
            }
        }
        Ok(None)
    }

    fn ask(&mut self) -> io::Result<()> {
        let quinn = &mut self.dialled.quinn;
        let unable = || io::Error::other("its server takes no query");
        let stream = quinn.streams().open(Dir::Bi).ok_or_else(unable)?;
        let written = quinn.send_stream(stream).write(&self.query);
        if written.is_ok_and(|written| written == self.query.len()) {
            // It cannot have ended before.
            _ = quinn.send_stream(stream).finish();
            self.stream = Some(stream);
            return Ok(());
        }
        Err(unable())
    }

    fn read(&mut self, stream: StreamId) -> io::Result<Option<Vec<u8>>> {
        let malformed = || io::Error::new(ErrorKind::InvalidData, "its response is malformed");
        let mut reader = self.dialled.quinn.recv_stream(stream);
        let mut chunks = reader.read(true).map_err(|_| malformed())?;
        let end = loop {
            match chunks.next(RESPONSE_LEN_MAX) {
                Ok(Some(chunk)) => self.received.extend_from_slice(&chunk.bytes),
                end => break end,
            }
        };
        // The next round sends.
        _ = chunks.finalize();
        let whole = first_message(&self.received).map(|(message, _)| message.to_vec());
        match end {
            Err(ReadError::Blocked) => Ok(None),
            Ok(_) => whole.map(Some).ok_or_else(malformed),
            Err(ReadError::Reset(_)) => Err(malformed()),
        }
    }
}
