//! A connection of QUIC: `quinn-proto` is a state machine without socket and clock; the loop gives it both.
//!
//! What is spoken on it is a [`Protocol`]: DNS over QUIC or HTTP/3, each with one query per stream.

use super::carrier::{Carrier, End, Handshake, Leftover, Sink, Taken};
use super::tls::Settings;
use bytes::{Bytes, BytesMut};
use lab_http3::Shared;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, ConnectionError, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig,
    Event, StreamEvent, TransportConfig, TransportErrorCode, VarInt,
};
use socket2::{Domain, Protocol as IpProtocol, Socket, Type};
use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};
use std::io::{self, ErrorKind, Read};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// Queries taken before the connection is set up; then the server says how many.
const EARLY_MAX: usize = 100;
/// Datagrams received before others have their turn.
const DATAGRAMS_PER_TURN: usize = 64;
/// The alert no_application_protocol (RFC 7301 section 3.2).
const NO_ALPN: u8 = 120;

/// What is spoken on a connection.
pub(super) trait Protocol {
    /// Its name for people, and in ALPN.
    const NAME: (&'static str, &'static str);
    /// The code of an orderly end.
    const NO_ERROR: VarInt;

    /// Does what comes before queries; whether that is done.
    fn start(&mut self) -> Result<bool, End>;

    /// Sends a query on a stream of its own.
    fn send(&mut self, id: u16, message: &[u8]) -> Taken;

    /// Cancels the streams of these queries, as far as there are any.
    fn forget(&mut self, ids: &HashSet<u16>);

    /// Something can be read or written on a stream, or the server takes no more on it.
    fn on_stream(&mut self, event: StreamEvent, sink: &mut Sink<'_, '_>);

    /// Continues with what concerns no single stream.
    fn turn(&mut self, sink: &mut Sink<'_, '_>) -> Result<(), End>;

    /// Whether no query waits for its answer.
    fn is_idle(&self) -> bool;

    /// The server has not taken early data, so no stream exists for it. Starts again, and returns the
    /// queries in the order of their streams.
    fn start_again(&mut self) -> Vec<u16>;
}

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

pub(super) struct Quic<P> {
    socket: Socket,
    server: SocketAddr,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Shared,
    protocol: P,
    /// Queries without a stream yet.
    waiting: VecDeque<(u16, Vec<u8>)>,
    /// Queries whose octets go out with the next datagrams.
    fresh: Vec<u16>,
    /// A datagram that the kernel had no room for.
    blocked: Option<Vec<u8>>,
    /// Whether queries go out before the handshake is over.
    is_early: bool,
    /// How many of them.
    early: u64,
    /// The handshake, once it is over.
    handshake: Option<Handshake>,
    /// Whether queries can be sent.
    is_open: bool,
    deadline: Option<Instant>,
}

impl<P: Protocol> Quic<P> {
    pub(super) fn open(
        (source, server): (Option<SocketAddr>, SocketAddr),
        config: ClientConfig,
        settings: &Settings,
        endpoints: &Endpoints,
        now: Instant,
        protocol: impl FnOnce(Shared) -> P,
    ) -> Result<Self, End> {
        let socket = Socket::new(Domain::for_address(server), Type::DGRAM, Some(IpProtocol::UDP))?;
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
        let may_be_early = connection.has_0rtt();
        let connection = Rc::new(RefCell::new(connection));
        let mut protocol = protocol(connection.clone());
        let is_early = may_be_early && protocol.start()?;
        Ok(Self {
            socket,
            server,
            endpoint,
            handle,
            connection,
            protocol,
            waiting: VecDeque::new(),
            fresh: Vec::new(),
            blocked: None,
            is_early,
            early: 0,
            handshake: None,
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
                    self.connection.borrow_mut().handle_event(event);
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
        loop {
            let event = self.connection.borrow_mut().poll();
            match event {
                None => return Ok(()),
                Some(Event::Connected) => self.connected(sink),
                Some(Event::ConnectionLost { reason }) => return Err(self.end_of(reason)),
                Some(Event::Stream(event)) => self.protocol.on_stream(event, sink),
                Some(
                    Event::HandshakeDataReady | Event::DatagramReceived | Event::DatagramsUnblocked,
                ) => {}
            }
        }
    }

    fn connected(&mut self, sink: &mut Sink<'_, '_>) {
        let accepted = self.connection.borrow().accepted_0rtt();
        if std::mem::take(&mut self.is_early) {
            sink.early_data(self.early, accepted);
            if !accepted {
                // RFC 9001 section 4.6.2.
                self.protocol.start_again().into_iter().for_each(|id| sink.returned(id));
            }
        }
        self.handshake = Some(if accepted { Handshake::Resumed } else { Handshake::Full });
    }

    /// Once the handshake is over, starts the protocol; then queries can be sent.
    fn start(&mut self, sink: &mut Sink<'_, '_>) -> Result<(), End> {
        let Some(handshake) = self.handshake.filter(|_| !self.is_open) else { return Ok(()) };
        self.is_open = self.protocol.start()?;
        if self.is_open {
            sink.opened(handshake);
        }
        Ok(())
    }

    fn send(&mut self, id: u16, message: &[u8]) -> Taken {
        let taken = self.protocol.send(id, message);
        if taken == Taken::Yes {
            self.fresh.push(id);
            self.early += u64::from(self.is_early);
        }
        taken
    }

    /// Sends the queries that wait for a stream, as far as the server lets us.
    fn send_waiting(&mut self, sink: &mut Sink<'_, '_>) {
        while let Some((id, message)) = self.waiting.pop_front() {
            match self.send(id, &message) {
                Taken::Yes => {}
                Taken::Full => return self.waiting.push_front((id, message)),
                Taken::Over => sink.returned(id),
            }
        }
    }

    fn turn(&mut self, sink: &mut Sink<'_, '_>) -> Result<(), End> {
        self.events(sink)?;
        self.start(sink)?;
        if self.is_open {
            self.send_waiting(sink);
            self.protocol.turn(sink)?;
        }
        Ok(())
    }

    /// Sends the datagrams that are ready; those that cannot leave are lost, as on any network.
    fn transmit(&mut self, now: Instant) -> io::Result<()> {
        if let Some(datagram) = self.blocked.take() {
            self.transmit_one(datagram)?;
        }
        let mut datagram = Vec::new();
        while self.blocked.is_none() {
            datagram.clear();
            let ready = self.connection.borrow_mut().poll_transmit(now, 1, &mut datagram);
            let Some(transmit) = ready else { break };
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
        let (name, alpn) = P::NAME;
        let no_alpn = TransportErrorCode::crypto(NO_ALPN);
        match reason {
            ConnectionError::ApplicationClosed(close) if close.error_code == P::NO_ERROR => {
                End::Closed
            }
            ConnectionError::ConnectionClosed(close) if u64::from(close.error_code) == 0 => {
                End::Closed
            }
            ConnectionError::ConnectionClosed(close) if close.error_code == no_alpn => {
                End::NoProtocol(name, alpn)
            }
            ConnectionError::TransportError(error) if error.code == no_alpn => {
                End::NoProtocol(name, alpn)
            }
            ConnectionError::Reset => End::Io(ErrorKind::ConnectionReset.into()),
            // Both sides agreed on how long silence may last; nothing was going on.
            ConnectionError::TimedOut if self.is_open && self.protocol.is_idle() => End::Closed,
            ConnectionError::TimedOut => End::Silence,
            other => match other.to_string().split_once("invalid peer certificate: ") {
                Some((_, why)) => End::Certificate(why.to_owned()),
                None => End::Protocol(format!("QUIC failed: {other}")),
            },
        }
    }
}

impl<P: Protocol> Carrier for Quic<P> {
    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn ask(&mut self, id: u16, message: &[u8]) -> Taken {
        let mut message = message.to_vec();
        // RFC 9250 section 4.2.1; RFC 8484 section 4.1.
        message.iter_mut().take(2).for_each(|octet| *octet = 0);
        if !self.is_open && !self.is_early {
            if self.waiting.len() >= EARLY_MAX {
                return Taken::Full;
            }
            self.waiting.push_back((id, message));
            return Taken::Yes;
        }
        if self.waiting.is_empty() { self.send(id, &message) } else { Taken::Full }
    }

    fn forget(&mut self, ids: &HashSet<u16>) {
        self.waiting.retain(|(id, _)| !ids.contains(id));
        self.protocol.forget(ids);
    }

    fn drive(&mut self, sink: &mut Sink<'_, '_>) -> Result<(), End> {
        self.receive(sink)?;
        let now = Instant::now();
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.connection.borrow_mut().handle_timeout(now);
        }
        if let Err(end) = self.turn(sink) {
            // If this side ends it, the server gets the reason.
            _ = self.transmit(now);
            return Err(end);
        }
        let stamp = sink.clock.now();
        for id in self.fresh.drain(..) {
            sink.wrote(id, stamp);
        }
        self.transmit(now)?;
        let mut connection = self.connection.borrow_mut();
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                connection.handle_event(event);
            }
        }
        drop(connection);
        let lost = self.events(sink);
        self.deadline = self.connection.borrow_mut().poll_timeout();
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
        self.connection.borrow_mut().close(now, P::NO_ERROR, Bytes::new());
        // A server that does not hear it has gone already.
        _ = self.transmit(now);
    }

    fn leftover(&mut self) -> Leftover {
        let unwritten = self.waiting.drain(..).map(|(id, _)| id).collect();
        Leftover { unwritten, half_written: 0 }
    }
}
