//! A client over QUIC that sends anything on its streams, in any order, and packets that are none of its own; to
//! workers of this process, at a socket on loopback.

use nodens_core::config::BuildOptions;
use nodens_core::log::Sink;
use nodens_core::{Shared, build};
use nodens_net::{Options, Runtime};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event, ReadError, StreamEvent, StreamId, VarInt,
};
use rustls::RootCertStore;
use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

const NAME: &str = "dns.example";
/// A query for the root's NS records, with its length.
const ROOT: &[u8] = b"\0\x11\0\0\x01\0\0\x01\0\0\0\0\0\0\0\0\x02\0\x01";
/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The codes of DNS over QUIC that a client's doings may be answered with (RFC 9250 section 4.3): no error, an
/// internal one, a protocol error, excessive load.
const CODES: [u32; 4] = [0, 1, 2, 4];

/// Whatever a client sends, it gets responses to its queries, or its connection is closed with a reason; the next
/// client is answered.
pub fn quic(data: &[u8]) {
    let server = server();
    let mut client = Client::connect(server);
    let mut commands = data;
    let mut good = Vec::new();
    while let Some((command, rest)) = commands.split_first() {
        let (octets, rest) = rest.split_at(rest.len().min(usize::from(command >> 3)));
        commands = rest;
        good.extend(client.act(command & 7, octets));
    }
    // Each good query that is not given up has its response, unless the server has closed the connection.
    for id in good {
        client.drive(|client| client.answered.contains_key(&id));
    }
    client.check();
    let mut next = if client.lost.is_some() { Client::connect(server) } else { client };
    let id = next.send(ROOT, true);
    if let Some(id) = id {
        next.drive(|client| client.answered.contains_key(&id));
    }
    next.check();
    next.close();
}

struct Server {
    address: SocketAddr,
    config: ClientConfig,
    /// The workers run as long as the process.
    _runtime: Runtime,
}

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        std::fs::write(&cert, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let corefile = format!(
            "quic://.:0 {{\n bind 127.0.0.1\n tls {} {}\n quic {{\n max_streams 32\n }}\n whoami\n}}\n",
            cert.display(),
            key.display()
        );
        let (sender, _) = std::sync::mpsc::sync_channel(1);
        let shared = Arc::new(Shared::new(1, Sink::new(sender)));
        let tree = nodens_corefile::parse("Corefile", &corefile, &nodens_corefile::NoSources);
        let config = build(&tree.unwrap(), &BuildOptions::default(), &shared).unwrap();
        let options = Options::default();
        let runtime = Runtime::start(shared, Arc::new(config), options).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider);
        let tls = tls.with_protocol_versions(&[&rustls::version::TLS13]).unwrap();
        let mut tls = tls.with_root_certificates(roots).with_no_client_auth();
        tls.alpn_protocols = vec![b"doq".to_vec()];
        let tls = QuicClientConfig::try_from(tls).unwrap();
        let address = runtime.local_addresses()[0];
        Server { address, config: ClientConfig::new(Arc::new(tls)), _runtime: runtime }
    })
}

struct Client {
    socket: UdpSocket,
    server: SocketAddr,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    is_open: bool,
    lost: Option<ConnectionError>,
    /// Streams that may still be written to.
    open: Vec<StreamId>,
    /// What has come on streams.
    arrived: HashMap<StreamId, Vec<u8>>,
    /// Streams that the server has ended: with a response, or with a code.
    answered: HashMap<StreamId, Result<Vec<u8>, VarInt>>,
}

impl Client {
    fn connect(server: &Server) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, false, None);
        let (config, address) = (server.config.clone(), server.address);
        let connected = endpoint.connect(Instant::now(), config, address, NAME);
        let (handle, connection) = connected.unwrap();
        let (open, arrived, answered) = (Vec::new(), HashMap::new(), HashMap::new());
        let mut client = Self {
            socket,
            server: address,
            endpoint,
            handle,
            connection,
            is_open: false,
            lost: None,
            open,
            arrived,
            answered,
        };
        client.drive(|client| client.is_open);
        assert!(client.lost.is_none(), "no handshake: {:?}", client.lost);
        client
    }

    /// Does one thing; gives the stream of a query that has to be answered.
    fn act(&mut self, command: u8, octets: &[u8]) -> Option<StreamId> {
        let chosen = octets.first().copied().map_or(0, usize::from);
        let stream = self.open.get(chosen % self.open.len().max(1)).copied();
        let rest = octets.get(1..).unwrap_or_default();
        match (command, stream) {
            (0, _) => return self.send(ROOT, true),
            (1, _) => {
                // Octets on a new stream, which may be a message.
                let framed =
                    u16::try_from(rest.len()).map(|len| [&len.to_be_bytes()[..], rest].concat());
                let octets =
                    if chosen & 2 == 0 { rest.to_vec() } else { framed.unwrap_or_default() };
                _ = self.send(&octets, chosen & 1 == 1);
            }
            (2, Some(id)) => _ = self.connection.send_stream(id).write(rest),
            (3, Some(id)) => _ = self.connection.send_stream(id).finish(),
            (4, Some(id)) => {
                let code = VarInt::from_u32(rest.len() as u32);
                if chosen & 0x40 == 0 {
                    _ = self.connection.send_stream(id).reset(code);
                } else {
                    _ = self.connection.recv_stream(id).stop(code);
                }
            }
            // Octets that are no packet, and a packet that was changed on its way.
            (5, _) => _ = self.socket.send_to(octets, self.server),
            (6, _) => {
                for mut packet in self.packets() {
                    let at = chosen % packet.len().max(1);
                    if let (Some(octet), Some(with)) = (packet.get_mut(at), rest.first()) {
                        *octet ^= with;
                    }
                    _ = self.socket.send_to(&packet, self.server);
                }
            }
            _ => self.turn(),
        }
        None
    }

    /// A new stream with these octets, if there may be one.
    fn send(&mut self, octets: &[u8], is_last: bool) -> Option<StreamId> {
        let id = self.connection.streams().open(Dir::Bi)?;
        _ = self.connection.send_stream(id).write(octets);
        if is_last {
            _ = self.connection.send_stream(id).finish();
        } else {
            self.open.push(id);
        }
        Some(id)
    }

    /// What came is what a server of DNS over QUIC may say.
    fn check(&self) {
        for (id, end) in &self.answered {
            match end {
                Ok(octets) => {
                    let (len, message) = octets.split_first_chunk::<2>().expect("a length");
                    assert_eq!(usize::from(u16::from_be_bytes(*len)), message.len(), "{id}");
                    nodens_wire::Message::parse(message).expect("a message");
                }
                Err(code) => assert!(CODES.map(VarInt::from_u32).contains(code), "{id}: {code}"),
            }
        }
        match &self.lost {
            None => {}
            Some(ConnectionError::ApplicationClosed(close)) => {
                let code = close.error_code;
                assert!(CODES.map(VarInt::from_u32).contains(&code), "{close}");
            }
            Some(error) => panic!("{error}"),
        }
    }

    /// Goes on until something has come true, or the connection is lost.
    fn drive(&mut self, until: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !until(self) && self.lost.is_none() {
            assert!(began.elapsed() < PATIENCE, "the server says nothing");
            self.turn();
        }
    }

    fn turn(&mut self) {
        self.transmit();
        let mut buffer = [0; 2000];
        if let Ok((len, from)) = self.socket.recv_from(&mut buffer) {
            let octets = buffer.get(..len).unwrap_or_default();
            let (now, mut reply) = (Instant::now(), Vec::new());
            let event = self.endpoint.handle(now, from, None, None, octets.into(), &mut reply);
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
                Event::ConnectionLost { reason } => self.lost = Some(reason),
                Event::Stream(StreamEvent::Readable { id }) => self.read(id),
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

    fn transmit(&mut self) {
        for packet in self.packets() {
            _ = self.socket.send_to(&packet, self.server);
        }
    }

    /// What is to be sent now.
    fn packets(&mut self) -> Vec<Vec<u8>> {
        let (mut packets, mut packet) = (Vec::new(), Vec::new());
        while let Some(transmit) = self.connection.poll_transmit(Instant::now(), 1, &mut packet) {
            packet.truncate(transmit.size);
            packets.push(std::mem::take(&mut packet));
        }
        packets
    }

    fn read(&mut self, id: StreamId) {
        let arrived = self.arrived.entry(id).or_default();
        let mut stream = self.connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };
        let end = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => arrived.extend_from_slice(&chunk.bytes),
                Ok(None) => break Some(Ok(std::mem::take(arrived))),
                Err(ReadError::Reset(code)) => break Some(Err(code)),
                Err(ReadError::Blocked) => break None,
            }
        };
        _ = chunks.finalize();
        if let Some(end) = end {
            self.answered.insert(id, end);
        }
    }

    fn close(&mut self) {
        self.connection.close(Instant::now(), VarInt::from_u32(0), Default::default());
        self.transmit();
    }
}
