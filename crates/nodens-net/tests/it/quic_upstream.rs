//! An upstream over QUIC that follows a script: for each query, what to do and when.

use super::client::framed;
use super::encrypted::Pair;
use super::upstream::Asked;
use nodens_wire::Message;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::crypto::{CryptoError, HmacKey};
use quinn_proto::{
    Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    Event, RandomConnectionIdGenerator, ReadError, ServerConfig, StreamEvent, StreamId,
    TransportConfig, VarInt,
};
use rustls::server::{ServerSessionMemoryCache, StoresServerSessions};
use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the upstream does with a query.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Responds, and ends the stream.
    Answer,
    /// Sends this on the stream, which may be anything.
    Raw(Vec<u8>),
    /// Ends the stream.
    Finish,
    /// Resets the stream with this code.
    Reset(u32),
    /// Wants no more of the query, with this code.
    Stop(u32),
    /// Closes the connection with this code.
    Close(u32),
    /// Opens a stream of its own.
    Open,
    /// Sends datagrams that nobody can have encrypted.
    Forge,
    /// Waits; what follows happens later.
    Wait(Duration),
}

type Script = dyn Fn(&Asked) -> Vec<Act> + Send + Sync;

/// What the upstream is.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) protocol: &'static [u8],
    /// Streams that a connection may have open.
    pub(crate) streams_max: u32,
    /// Octets that are taken of a stream before they are read.
    pub(crate) window: u32,
    /// One in so many datagrams is lost, in both directions; none if 0.
    pub(crate) loss: u64,
    /// For how long nothing is heard.
    pub(crate) delay: Duration,
}

impl Default for Setup {
    fn default() -> Self {
        let delay = Duration::ZERO;
        Self { protocol: b"doq", streams_max: 100, window: 1 << 16, loss: 0, delay }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) connections: AtomicUsize,
    pub(crate) open: AtomicUsize,
    pub(crate) resumed: AtomicUsize,
    pub(crate) queries: AtomicUsize,
    pub(crate) checks: AtomicUsize,
    /// Streams that were open at the same time, at most.
    pub(crate) streams: AtomicUsize,
    /// Codes with which queries were given up.
    pub(crate) cancelled: Mutex<Vec<u64>>,
    /// Codes with which connections were closed.
    pub(crate) closed: Mutex<Vec<u64>>,
    /// The lengths of datagrams that have come.
    pub(crate) lengths: Mutex<Vec<usize>>,
    /// It hears nothing and says nothing.
    pub(crate) is_frozen: AtomicBool,
}

fn add(count: &AtomicUsize) {
    count.fetch_add(1, Ordering::SeqCst);
}

pub(crate) fn get(count: &AtomicUsize) -> usize {
    count.load(Ordering::SeqCst)
}

/// Signs with nothing secret, so that another upstream signs alike.
struct Known;

impl HmacKey for Known {
    fn sign(&self, data: &[u8], signature: &mut [u8]) {
        signature.iter_mut().zip(data.iter().cycle()).for_each(|(to, from)| *to = *from ^ 0x55);
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, _: &[u8], _: &[u8]) -> Result<(), CryptoError> {
        Err(CryptoError)
    }
}

/// Sessions, of which it counts those that are resumed.
#[derive(Debug)]
struct Sessions(Arc<ServerSessionMemoryCache>, Arc<Seen>);

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.0.put(key, value)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.get(key)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.take(key).inspect(|_| add(&self.1.resumed))
    }

    fn can_cache(&self) -> bool {
        true
    }
}

/// The upstream; it ends when it is dropped, without a word to anybody.
pub(crate) struct QuicUpstream {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Seen>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl QuicUpstream {
    pub(crate) fn start(
        pair: Pair,
        setup: Setup,
        script: impl Fn(&Asked) -> Vec<Act> + Send + Sync + 'static,
    ) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), pair, setup, script)
    }

    pub(crate) fn start_at(
        address: SocketAddr,
        (certificate, key): Pair,
        setup: Setup,
        script: impl Fn(&Asked) -> Vec<Act> + Send + Sync + 'static,
    ) -> Self {
        let socket = UdpSocket::bind(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
        let address = socket.local_addr().unwrap();
        let (seen, ended) = (Arc::<Seen>::default(), Arc::<AtomicBool>::default());
        let builder = rustls::ServerConfig::builder().with_no_client_auth();
        let mut tls = builder.with_single_cert(vec![certificate], key).unwrap();
        tls.alpn_protocols = vec![setup.protocol.to_vec()];
        tls.session_storage = Arc::new(Sessions(ServerSessionMemoryCache::new(64), seen.clone()));
        let mut config =
            ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()));
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(VarInt::from_u32(setup.streams_max))
            .stream_receive_window(VarInt::from_u32(setup.window));
        config.transport_config(Arc::new(transport));
        let mut endpoints = EndpointConfig::new(Arc::new(Known));
        endpoints.cid_generator(|| Box::new(RandomConnectionIdGenerator::new(8)));
        let endpoint = Endpoint::new(Arc::new(endpoints), Some(Arc::new(config)), false, None);
        let loop_of = Loop {
            socket,
            endpoint,
            setup,
            script: Box::new(script),
            seen: seen.clone(),
            connections: HashMap::new(),
            streams: HashMap::new(),
            later: Vec::new(),
            luck: 1,
            number: 0,
        };
        let until = ended.clone();
        let thread = std::thread::spawn(move || loop_of.run(&until));
        Self { address, seen, ended, thread: Some(thread) }
    }

    /// One that answers at once.
    pub(crate) fn prompt(pair: Pair) -> Self {
        Self::start(pair, Setup::default(), |_| vec![Act::Answer])
    }

    /// As a TO of `forward`.
    pub(crate) fn to(&self) -> String {
        format!("quic://{}", self.address)
    }
}

impl Drop for QuicUpstream {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        let failed = self.thread.take().is_some_and(|thread| thread.join().is_err());
        assert!(!failed || std::thread::panicking(), "the upstream's script failed");
    }
}

struct Loop {
    socket: UdpSocket,
    endpoint: Endpoint,
    setup: Setup,
    script: Box<Script>,
    seen: Arc<Seen>,
    connections: HashMap<ConnectionHandle, Connection>,
    streams: HashMap<(ConnectionHandle, StreamId), Vec<u8>>,
    later: Vec<(Instant, Task)>,
    luck: u64,
    number: usize,
}

/// What is to be done on a stream for a query.
struct Task {
    handle: ConnectionHandle,
    stream: StreamId,
    asked: Asked,
    acts: Vec<Act>,
}

impl Loop {
    fn run(mut self, ended: &AtomicBool) {
        std::thread::sleep(self.setup.delay);
        while !ended.load(Ordering::SeqCst) {
            self.receive();
            let due = self.later.extract_if(.., |(at, _)| *at <= Instant::now());
            for (_, task) in due.collect::<Vec<_>>() {
                self.perform(task);
            }
            let handles: Vec<_> = self.connections.keys().copied().collect();
            handles.into_iter().for_each(|handle| self.turn(handle));
            let open = self.connections.values().filter(|own| !own.is_closed()).count();
            self.seen.open.store(open, Ordering::SeqCst);
        }
    }

    /// Whether the next datagram is lost.
    fn loses(&mut self) -> bool {
        // No pattern, which would hit the same packet of each exchange.
        self.luck = self.luck.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let frozen = self.seen.is_frozen.load(Ordering::SeqCst);
        frozen || self.setup.loss > 0 && (self.luck >> 33).is_multiple_of(self.setup.loss)
    }

    fn receive(&mut self) {
        let mut buffer = [0; 2000];
        while let Ok((len, from)) = self.socket.recv_from(&mut buffer) {
            if self.loses() {
                continue;
            }
            self.seen.lengths.lock().unwrap().push(len);
            let (now, data, mut reply) = (Instant::now(), buffer[..len].into(), Vec::new());
            let event = self.endpoint.handle(now, from, None, None, data, &mut reply);
            match event {
                Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                    if let Some(own) = self.connections.get_mut(&handle) {
                        own.handle_event(event);
                    }
                }
                Some(DatagramEvent::NewConnection(incoming)) => {
                    match self.endpoint.accept(incoming, now, &mut reply, None) {
                        Ok((handle, connection)) => {
                            add(&self.seen.connections);
                            self.connections.insert(handle, connection);
                        }
                        Err(error) => {
                            let Some(transmit) = error.response else { continue };
                            _ = self.socket.send_to(&reply[..transmit.size], transmit.destination);
                        }
                    }
                }
                Some(DatagramEvent::Response(transmit)) => {
                    _ = self.socket.send_to(&reply[..transmit.size], transmit.destination);
                }
                None => {}
            }
            break;
        }
    }

    fn turn(&mut self, handle: ConnectionHandle) {
        let now = Instant::now();
        let Some(connection) = self.connections.get_mut(&handle) else { return };
        if connection.poll_timeout().is_some_and(|at| at <= now) {
            connection.handle_timeout(now);
        }
        while let Some(event) = self.connections.get_mut(&handle).and_then(Connection::poll) {
            match event {
                Event::ConnectionLost { reason: ConnectionError::ApplicationClosed(close) } => {
                    self.seen.closed.lock().unwrap().push(close.error_code.into_inner());
                }
                Event::Stream(StreamEvent::Opened { .. }) => {
                    while let Some(id) = self.accept(handle) {
                        self.streams.insert((handle, id), Vec::new());
                        self.read(handle, id);
                    }
                    let open = self.streams.keys().filter(|(own, _)| *own == handle).count();
                    self.seen.streams.fetch_max(open, Ordering::SeqCst);
                }
                Event::Stream(StreamEvent::Readable { id }) => self.read(handle, id),
                Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                    let connection = self.connections.get_mut(&handle).unwrap();
                    self.seen.cancelled.lock().unwrap().push(error_code.into_inner());
                    _ = connection.send_stream(id).reset(error_code);
                    self.streams.remove(&(handle, id));
                }
                _ => {}
            }
        }
        self.transmit(handle);
    }

    fn accept(&mut self, handle: ConnectionHandle) -> Option<StreamId> {
        self.connections.get_mut(&handle)?.streams().accept(Dir::Bi)
    }

    fn transmit(&mut self, handle: ConnectionHandle) {
        loop {
            let connection = self.connections.get_mut(&handle).unwrap();
            let mut packet = Vec::new();
            let Some(transmit) = connection.poll_transmit(Instant::now(), 1, &mut packet) else {
                break;
            };
            if !self.loses() {
                _ = self.socket.send_to(&packet[..transmit.size], transmit.destination);
            }
        }
        let connection = self.connections.get_mut(&handle).unwrap();
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(handle, event) {
                connection.handle_event(event);
            }
        }
        if connection.is_drained() {
            self.connections.remove(&handle);
        }
    }

    fn read(&mut self, handle: ConnectionHandle, stream: StreamId) {
        let Some(octets) = self.streams.get_mut(&(handle, stream)) else { return };
        let connection = self.connections.get_mut(&handle).unwrap();
        let mut reader = connection.recv_stream(stream);
        let Ok(mut chunks) = reader.read(true) else { return };
        let end = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => octets.extend_from_slice(&chunk.bytes),
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        _ = chunks.finalize();
        match end {
            Some(ReadError::Blocked) => {}
            Some(ReadError::Reset(code)) => {
                self.seen.cancelled.lock().unwrap().push(code.into_inner());
                self.streams.remove(&(handle, stream));
            }
            None => {
                let octets = self.streams.insert((handle, stream), Vec::new()).unwrap();
                self.ask(handle, stream, &octets);
            }
        }
    }

    /// A stream has ended behind a query.
    fn ask(&mut self, handle: ConnectionHandle, stream: StreamId, octets: &[u8]) {
        let wire = octets[2..].to_vec();
        assert_eq!(framed(&wire), octets, "one message with its length");
        let message = Message::parse(&wire).unwrap();
        assert_eq!(message.id, 0);
        let from = self.connections[&handle].remote_address();
        if message.questions[0].qname.view().is_root() {
            add(&self.seen.checks);
            let asked = Asked { wire, message, from, number: usize::MAX };
            return self.perform(Task { handle, stream, asked, acts: vec![Act::Answer] });
        }
        add(&self.seen.queries);
        let asked = Asked { wire, message, from, number: self.number };
        self.number += 1;
        let acts = (self.script)(&asked);
        self.perform(Task { handle, stream, asked, acts });
    }

    fn perform(&mut self, mut task: Task) {
        let Task { handle, stream, .. } = task;
        while !task.acts.is_empty() {
            let Some(connection) = self.connections.get_mut(&handle) else { return };
            if !self.streams.contains_key(&(handle, stream)) {
                return;
            }
            let end = |connection: &mut Connection| _ = connection.send_stream(stream).finish();
            match task.acts.remove(0) {
                Act::Answer => {
                    let octets = framed(&task.asked.answer());
                    assert_eq!(connection.send_stream(stream).write(&octets), Ok(octets.len()));
                    end(connection);
                }
                Act::Raw(octets) => {
                    assert_eq!(connection.send_stream(stream).write(&octets), Ok(octets.len()));
                }
                Act::Finish => end(connection),
                Act::Reset(code) => {
                    _ = connection.send_stream(stream).reset(VarInt::from_u32(code));
                }
                Act::Stop(code) => _ = connection.recv_stream(stream).stop(VarInt::from_u32(code)),
                Act::Close(code) => {
                    let reason = b"so it is".as_slice().into();
                    connection.close(Instant::now(), VarInt::from_u32(code), reason);
                }
                Act::Open => _ = connection.streams().open(Dir::Bi),
                Act::Forge => {
                    for first in [0x40, 0x7f, 0xc0, 0xff, 0x00] {
                        let mut datagram = vec![first; 1200];
                        datagram[1..5].copy_from_slice(&[0, 0, 0, 1]);
                        _ = self.socket.send_to(&datagram, task.asked.from);
                        _ = self.socket.send_to(&datagram[..30], task.asked.from);
                        _ = self.socket.send_to(&datagram[..1], task.asked.from);
                    }
                }
                Act::Wait(time) => {
                    let at = Instant::now() + time;
                    return self.later.push((at, task));
                }
            }
        }
        self.streams.remove(&(handle, stream));
    }
}
