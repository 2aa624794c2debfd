//! A client over QUIC that does what a test says, whether it makes sense or not.

use super::client::{PATIENCE, framed, question};
use nodens_wire::Message;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event, ReadError, StreamEvent, StreamId, TransportConfig, VarInt,
};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How a stream of the server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Finished,
    Reset(u64),
}

pub(crate) struct QuicClient {
    pub(crate) socket: UdpSocket,
    server: SocketAddr,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub(crate) connection: Connection,
    pub(crate) is_open: bool,
    pub(crate) lost: Option<ConnectionError>,
    streams: HashMap<StreamId, (Vec<u8>, Option<End>)>,
    /// Reads nothing: the server's responses find no room.
    pub(crate) reads: bool,
    /// The lengths of datagrams that have come.
    pub(crate) lengths: Vec<usize>,
}

/// What clients with this TLS have that speak DNS over QUIC.
pub(crate) fn config(tls: &Arc<rustls::ClientConfig>, transport: TransportConfig) -> ClientConfig {
    config_of(b"doq", tls, transport)
}

/// The same for another protocol.
pub(crate) fn config_of(
    protocol: &[u8],
    tls: &Arc<rustls::ClientConfig>,
    transport: TransportConfig,
) -> ClientConfig {
    let mut tls = rustls::ClientConfig::clone(tls);
    tls.alpn_protocols = vec![protocol.to_vec()];
    tls.enable_early_data = true;
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    config.transport_config(Arc::new(transport));
    config
}

impl QuicClient {
    /// Begins, and sends nothing yet.
    pub(crate) fn new(server: SocketAddr, config: &ClientConfig) -> Self {
        Self::new_from([127, 0, 0, 1], server, config)
    }

    /// The same from this address.
    pub(crate) fn new_from(client: [u8; 4], server: SocketAddr, config: &ClientConfig) -> Self {
        let socket = UdpSocket::bind((IpAddr::from(client), 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, false, None);
        let connected = endpoint.connect(Instant::now(), config.clone(), server, "dns.example");
        let (handle, connection) = connected.unwrap();
        Self {
            socket,
            server,
            endpoint,
            handle,
            connection,
            is_open: false,
            lost: None,
            streams: HashMap::new(),
            reads: true,
            lengths: Vec::new(),
        }
    }

    /// Open, or lost.
    pub(crate) fn connect(server: SocketAddr, config: &ClientConfig) -> Self {
        let mut client = Self::new(server, config);
        client.drive("the handshake", |client| client.is_open);
        client
    }

    /// Goes on until something has come true, or the connection is lost.
    pub(crate) fn drive(&mut self, what: &str, until: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !until(self) && self.lost.is_none() {
            assert!(began.elapsed() < PATIENCE, "not in time: {what}");
            self.turn();
        }
    }

    /// Goes on for so long.
    pub(crate) fn drive_for(&mut self, time: Duration) {
        let began = Instant::now();
        while began.elapsed() < time {
            self.turn();
        }
    }

    pub(crate) fn turn(&mut self) {
        self.transmit();
        let mut buffer = [0; 2000];
        if let Ok((len, from)) = self.socket.recv_from(&mut buffer) {
            self.lengths.push(len);
            let (now, data) = (Instant::now(), buffer[..len].into());
            let mut reply = Vec::new();
            let event = self.endpoint.handle(now, from, None, None, data, &mut reply);
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                self.connection.handle_event(event);
            }
        }
        let now = Instant::now();
        if self.connection.poll_timeout().is_some_and(|at| at <= now) {
            self.connection.handle_timeout(now);
        }
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => self.is_open = true,
                // To what it says then comes a stateless reset.
                Event::ConnectionLost { reason } => _ = self.lost.get_or_insert(reason),
                Event::Stream(StreamEvent::Readable { id }) if self.reads => self.read(id),
                _ => {}
            }
        }
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        self.transmit();
    }

    pub(crate) fn transmit(&mut self) {
        for packet in self.packets() {
            _ = self.socket.send_to(&packet, self.server);
        }
    }

    /// What it would send now.
    pub(crate) fn packets(&mut self) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        let mut packet = Vec::new();
        while let Some(transmit) = self.connection.poll_transmit(Instant::now(), 1, &mut packet) {
            packets.push(packet[..transmit.size].to_vec());
            packet.clear();
        }
        packets
    }

    fn read(&mut self, id: StreamId) {
        let (octets, end) = self.streams.entry(id).or_default();
        let mut stream = self.connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => octets.extend_from_slice(&chunk.bytes),
                Ok(None) => *end = Some(End::Finished),
                Err(ReadError::Reset(code)) => *end = Some(End::Reset(code.into_inner())),
                Err(ReadError::Blocked) => break,
            }
            if end.is_some() {
                break;
            }
        }
        _ = chunks.finalize();
    }

    /// A new stream in one direction with these octets; none if the server allows no more of them.
    pub(crate) fn send_aside(&mut self, octets: &[u8]) -> Option<StreamId> {
        let id = self.connection.streams().open(Dir::Uni)?;
        self.send_more(id, octets, false);
        Some(id)
    }

    /// What has come on streams that the server opened.
    pub(crate) fn heard_aside(&mut self) -> Vec<u8> {
        while let Some(id) = self.connection.streams().accept(Dir::Uni) {
            self.read(id);
        }
        let own = self.streams.iter().filter(|(id, _)| id.dir() == Dir::Uni);
        own.flat_map(|(_, (octets, _))| octets.clone()).collect()
    }

    /// A new stream with these octets; none if the server allows no more streams.
    pub(crate) fn send(&mut self, octets: &[u8], is_last: bool) -> Option<StreamId> {
        let id = self.connection.streams().open(Dir::Bi)?;
        self.send_more(id, octets, is_last);
        Some(id)
    }

    pub(crate) fn send_more(&mut self, id: StreamId, octets: &[u8], is_last: bool) {
        let mut stream = self.connection.send_stream(id);
        assert_eq!(stream.write(octets).unwrap(), octets.len());
        if is_last {
            stream.finish().unwrap();
        }
    }

    /// Waits for the end of a stream; gives what was on it.
    pub(crate) fn end_of(&mut self, id: StreamId) -> (Vec<u8>, Option<End>) {
        self.drive("the end of a stream", |client| {
            client.streams.get(&id).is_some_and(|(_, end)| end.is_some())
        });
        self.streams.get(&id).cloned().unwrap_or_default()
    }

    /// The response on a stream; none if there was no whole one and its end.
    pub(crate) fn response(&mut self, id: StreamId) -> Option<Message> {
        let (octets, end) = self.end_of(id);
        let is_whole = end == Some(End::Finished) && octets.len() == whole(&octets);
        is_whole.then(|| Message::parse(&octets[2..]).unwrap())
    }

    /// How a stream has ended, if it has.
    pub(crate) fn has_ended(&self, id: StreamId) -> Option<End> {
        self.streams.get(&id).and_then(|(_, end)| *end)
    }

    /// How many octets have come on a stream.
    pub(crate) fn response_so_far(&self, id: StreamId) -> usize {
        self.streams.get(&id).map_or(0, |(octets, _)| octets.len())
    }

    pub(crate) fn ask(&mut self, text: &str) -> Option<Message> {
        let id = self.send(&framed(&question(0, text)), true)?;
        self.response(id)
    }

    pub(crate) fn close(&mut self) {
        self.connection.close(Instant::now(), VarInt::from_u32(0), Default::default());
        self.transmit();
    }

    /// The code with which the server's application has closed.
    pub(crate) fn closed_with(&self) -> Option<u64> {
        match &self.lost {
            Some(ConnectionError::ApplicationClosed(close)) => Some(close.error_code.into_inner()),
            _ => None,
        }
    }
}

/// The length that a stream announces, with the length itself.
fn whole(octets: &[u8]) -> usize {
    match octets {
        [high, low, ..] => 2 + usize::from(u16::from_be_bytes([*high, *low])),
        _ => usize::MAX,
    }
}
