//! DNS over QUIC (RFC 9250): one stream per question, ID 0.
//!
//! `quinn-proto` is a state machine without socket and clock; the loop gives it both.

use super::carrier::{Carrier, End, Handshake, Leftover, Sink, Taken};
use super::tls::Settings;
use bytes::{Bytes, BytesMut};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event, ReadError, StreamEvent, StreamId, TransportConfig, VarInt,
};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind, Read};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

/// Questions taken before the connection is set up; then the server says how many.
const EARLY_MAX: usize = 100;
/// DOQ_NO_ERROR (RFC 9250 section 4.3).
const NO_ERROR: VarInt = VarInt::from_u32(0);
/// Datagrams received before others have their turn.
const DATAGRAMS_PER_TURN: usize = 64;

/// What all connections share.
pub(super) struct Endpoints {
    config: Arc<EndpointConfig>,
}

impl Endpoints {
    pub(super) fn new() -> Self {
        Self { config: Arc::default() }
    }
}

/// The settings of one client, with tickets of its own.
pub(super) fn client_config(settings: &Settings) -> Result<ClientConfig, End> {
    let tls = QuicClientConfig::try_from(settings.of_client());
    let tls = tls.map_err(|error| End::Protocol(format!("QUIC cannot be set up: {error}")))?;
    let mut config = ClientConfig::new(Arc::new(tls));
    let mut transport = TransportConfig::default();
    transport.enable_segmentation_offload(false);
    config.transport_config(Arc::new(transport));
    Ok(config)
}

struct Stream {
    id: u16,
    out: Vec<u8>,
    written: usize,
    /// What came so far, with the length in front.
    into: Vec<u8>,
}

pub(super) struct Doq {
    socket: Socket,
    server: SocketAddr,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    /// Questions without a stream yet.
    waiting: VecDeque<(u16, Vec<u8>)>,
    streams: HashMap<StreamId, Stream>,
    /// Questions whose octets go out with the next datagrams.
    fresh: Vec<u16>,
    /// A datagram that the kernel had no room for.
    blocked: Option<Vec<u8>>,
    /// Whether questions go out before the handshake is over.
    is_early: bool,
    /// How many of them.
    early: u64,
    is_open: bool,
    deadline: Option<Instant>,
}

impl Doq {
    pub(super) fn open(
        (source, server): (Option<SocketAddr>, SocketAddr),
        config: ClientConfig,
        settings: &Settings,
        endpoints: &Endpoints,
        now: Instant,
    ) -> Result<Self, End> {
        let socket = Socket::new(Domain::for_address(server), Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_nonblocking(true)?;
        if let Some(source) = source {
            socket.bind(&source.into())?;
        }
        socket.connect(&server.into())?;
        let mut endpoint = Endpoint::new(endpoints.config.clone(), None, false, None);
        let name = settings.name();
        let connected = endpoint.connect(now, config, server, &name.to_str());
        let (handle, connection) =
            connected.map_err(|error| End::Protocol(format!("QUIC cannot be set up: {error}")))?;
        Ok(Self {
            socket,
            server,
            endpoint,
            handle,
            is_early: connection.has_0rtt(),
            early: 0,
            connection,
            waiting: VecDeque::new(),
            streams: HashMap::new(),
            fresh: Vec::new(),
            blocked: None,
            is_open: false,
            deadline: Some(now),
        })
    }

    fn receive(&mut self, sink: &mut Sink<'_, '_>) -> Result<(), End> {
        for _ in 0..DATAGRAMS_PER_TURN {
            let count = match (&self.socket).read(sink.buffer) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            let data = BytesMut::from(sink.buffer.get(..count).unwrap_or_default());
            let mut reply = Vec::new();
            let event =
                self.endpoint.handle(Instant::now(), self.server, None, None, data, &mut reply);
            match event {
                Some(DatagramEvent::ConnectionEvent(_, event)) => {
                    self.connection.handle_event(event);
                }
                // A reset for a connection that is not ours any more, for instance.
                Some(DatagramEvent::Response(transmit)) => {
                    _ = self.socket.send(reply.get(..transmit.size).unwrap_or_default());
                }
                Some(DatagramEvent::NewConnection(incoming)) => self.endpoint.ignore(incoming),
                None => {}
            }
        }
        Ok(())
    }

    fn events(&mut self, sink: &mut Sink<'_, '_>) -> Result<(), End> {
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => self.opened(sink),
                Event::ConnectionLost { reason } => return Err(self.end_of(reason)),
                Event::Stream(StreamEvent::Readable { id }) => self.read(id, sink),
                Event::Stream(StreamEvent::Writable { id }) => self.write(id),
                Event::Stream(StreamEvent::Stopped { id, .. }) => {
                    if let Some(stream) = self.streams.remove(&id) {
                        sink.rejected(stream.id);
                    }
                }
                Event::Stream(_)
                | Event::HandshakeDataReady
                | Event::DatagramReceived
                | Event::DatagramsUnblocked => {}
            }
        }
        Ok(())
    }

    fn opened(&mut self, sink: &mut Sink<'_, '_>) {
        let accepted = self.connection.accepted_0rtt();
        if self.is_early {
            sink.early_data(self.early, accepted);
            if !accepted {
                // None of the streams exist for the server (RFC 9001 section 4.6.2).
                let mut lost: Vec<_> = self.streams.drain().collect();
                lost.sort_by_key(|(id, _)| *id);
                lost.iter().for_each(|(_, stream)| sink.returned(stream.id));
            }
        }
        self.is_early = false;
        self.is_open = true;
        sink.opened(if accepted { Handshake::Resumed } else { Handshake::Full });
    }

    fn read(&mut self, id: StreamId, sink: &mut Sink<'_, '_>) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let mut over = None;
        let mut received = self.connection.recv_stream(id);
        if let Ok(mut chunks) = received.read(true) {
            loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) => stream.into.extend_from_slice(&chunk.bytes),
                    Ok(None) => over = Some(true),
                    Err(ReadError::Reset(_)) => over = Some(false),
                    Err(ReadError::Blocked) => break,
                }
                if over.is_some() {
                    break;
                }
            }
            // What there is to send is sent in this turn anyway.
            _ = chunks.finalize();
        }
        let len = stream.into.first_chunk::<2>().map(|len| usize::from(u16::from_be_bytes(*len)));
        let whole = len.is_some_and(|len| stream.into.len() >= len + 2);
        if over.is_none() && !whole {
            return;
        }
        let Some(mut stream) = self.streams.remove(&id) else { return };
        if over.is_none() {
            // The answer is there; whether the stream is closed as it should be is not our matter.
            _ = self.connection.recv_stream(id).stop(NO_ERROR);
        }
        match len.and_then(|len| stream.into.get_mut(2..len + 2)) {
            Some(message) if over != Some(false) => sink.stream_message(stream.id, message),
            _ => sink.rejected(stream.id),
        }
    }

    /// Gives the octets of a question to its stream, as far as the server lets us.
    fn write(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let mut sending = self.connection.send_stream(id);
        while let Some(rest) = stream.out.get(stream.written..).filter(|rest| !rest.is_empty()) {
            match sending.write(rest) {
                Ok(count) => stream.written += count,
                // Writable or Stopped will come.
                Err(_) => return,
            }
        }
        // RFC 9250 section 4.2: the end of the stream says that there is no other question.
        _ = sending.finish();
    }

    /// Opens a stream for a question; false if the server allows no more at once.
    fn send(&mut self, id: u16, message: &[u8]) -> bool {
        let Some(stream) = self.connection.streams().open(Dir::Bi) else { return false };
        let len = u16::try_from(message.len()).unwrap_or(u16::MAX);
        let mut out = len.to_be_bytes().to_vec();
        out.extend_from_slice(message);
        self.streams.insert(stream, Stream { id, out, written: 0, into: Vec::new() });
        self.write(stream);
        self.fresh.push(id);
        self.early += u64::from(self.is_early);
        true
    }

    fn send_waiting(&mut self) {
        while let Some((id, message)) = self.waiting.pop_front() {
            if !self.send(id, &message) {
                self.waiting.push_front((id, message));
                return;
            }
        }
    }

    /// Sends the datagrams that are ready; those that cannot leave are lost, as on any network.
    fn transmit(&mut self, now: Instant) -> io::Result<()> {
        if let Some(datagram) = self.blocked.take() {
            self.transmit_one(datagram)?;
        }
        let mut datagram = Vec::new();
        while self.blocked.is_none() {
            datagram.clear();
            let Some(transmit) = self.connection.poll_transmit(now, 1, &mut datagram) else {
                break;
            };
            datagram.truncate(transmit.size);
            self.transmit_one(std::mem::take(&mut datagram))?;
        }
        Ok(())
    }

    fn transmit_one(&mut self, datagram: Vec<u8>) -> io::Result<()> {
        match self.socket.send(&datagram) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.blocked = Some(datagram);
                Ok(())
            }
            Err(error) => Err(error),
            Ok(_) => Ok(()),
        }
    }

    fn end_of(&self, reason: ConnectionError) -> End {
        match reason {
            ConnectionError::ApplicationClosed(close) if close.error_code == NO_ERROR => {
                End::Closed
            }
            ConnectionError::ConnectionClosed(close) if u64::from(close.error_code) == 0 => {
                End::Closed
            }
            ConnectionError::Reset => End::Io(ErrorKind::ConnectionReset.into()),
            // Both sides agreed on how long silence may last; nothing was going on.
            ConnectionError::TimedOut if self.is_open && self.streams.is_empty() => End::Closed,
            ConnectionError::TimedOut => End::Silence,
            other => match other.to_string().split_once("invalid peer certificate: ") {
                Some((_, why)) => End::Certificate(why.to_owned()),
                None => End::Protocol(format!("QUIC failed: {other}")),
            },
        }
    }
}

impl Carrier for Doq {
    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn ask(&mut self, id: u16, message: &[u8]) -> Taken {
        let mut message = message.to_vec();
        // RFC 9250 section 4.2.1.
        message.iter_mut().take(2).for_each(|octet| *octet = 0);
        if !self.is_open && !self.is_early {
            if self.waiting.len() >= EARLY_MAX {
                return Taken::Full;
            }
            self.waiting.push_back((id, message));
            return Taken::Yes;
        }
        if self.waiting.is_empty() && self.send(id, &message) { Taken::Yes } else { Taken::Full }
    }

    fn drive(&mut self, sink: &mut Sink<'_, '_>) -> Result<(), End> {
        self.receive(sink)?;
        let now = Instant::now();
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.connection.handle_timeout(now);
        }
        self.events(sink)?;
        if self.is_open {
            self.send_waiting();
        }
        let stamp = sink.clock.now();
        for id in self.fresh.drain(..) {
            sink.wrote(id, stamp);
        }
        self.transmit(now)?;
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        let lost = self.events(sink);
        self.deadline = self.connection.poll_timeout();
        lost
    }

    fn wants_write(&self) -> bool {
        self.blocked.is_some()
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    fn dropped(&self) -> u64 {
        lab_sys::socket::dropped(self.socket.as_fd()).map_or(0, u64::from)
    }

    fn close(&mut self, now: Instant) {
        self.connection.close(now, NO_ERROR, Bytes::new());
        // Whoever does not hear it has gone already.
        _ = self.transmit(now);
    }

    fn leftover(&mut self) -> Leftover {
        let unwritten = self.waiting.drain(..).map(|(id, _)| id).collect();
        Leftover { unwritten, half_written: 0 }
    }
}
