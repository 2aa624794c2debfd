//! DNS over QUIC (RFC 9250): one question per stream. `quinn-proto` is a state machine without
//! socket and clock; this loop gives it both.

use crate::queue::Queue;
use crate::udp::{Echo, Report};
use crate::{Fate, Injection, Injector, Medium, inject, listen};
use bytes::{Bytes, BytesMut};
use lab_sys::poll::{Interest, Poller};
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, ReadError,
    ServerConfig, StreamEvent, StreamId, Transmit, VarInt,
};
use socket2::Type;
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Octets of the longest datagram.
const DATAGRAM_LEN_MAX: usize = 65_535;
/// Datagrams received before timers have their turn.
const DATAGRAMS_PER_TURN: usize = 64;
/// Receive buffer asked for; the kernel may give less.
const RECEIVE_BUFFER: usize = 4 << 20;
/// The longest sleep, so that a stop is noticed.
const SLEEP_MAX: Duration = Duration::from_millis(50);
/// Nanoseconds that waking up may take: answers due sooner are waited for without sleeping.
const WAKE_UP: u64 = 80_000;
/// Answers that one thread holds back at most.
const WAITING_MAX: usize = 1 << 20;
/// Streams that a client may have open at once.
const STREAMS_MAX: VarInt = VarInt::from_u32(1_000);
/// DOQ_NO_ERROR (RFC 9250 section 4.3).
const NO_ERROR: VarInt = VarInt::from_u32(0);

/// What a server is to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// What to inject.
    pub injection: Injection,
    /// Threads, each with a socket of its own on the same port; at least one is started.
    pub threads: usize,
    /// TLS 1.3 with ALPN `doq`.
    pub tls: Arc<rustls::ServerConfig>,
}

/// Listens on `address`; port 0 is a free one.
pub fn start(address: SocketAddr, options: Options) -> io::Result<Echo> {
    let count = options.threads.max(1);
    let tls = QuicServerConfig::try_from(options.tls).map_err(io::Error::other)?;
    let mut config = ServerConfig::with_crypto(Arc::new(tls));
    let mut transport = quinn_proto::TransportConfig::default();
    transport.enable_segmentation_offload(false).max_concurrent_bidi_streams(STREAMS_MAX);
    config.transport_config(Arc::new(transport));
    let config = Arc::new(config);
    let (address, sockets) = listen::on_one_port(address, Type::DGRAM, count)?;
    for socket in &sockets {
        socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let begin = Instant::now();
    let injectors = Injector::for_threads(options.injection, count);
    let threads = sockets.into_iter().zip(injectors).map(|(socket, injector)| {
        let (stop, config) = (stop.clone(), config.clone());
        std::thread::spawn(move || {
            Server::new(socket.into(), config, injector, begin)?.serve(&stop)
        })
    });
    let threads = threads.collect();
    Ok(Echo::of(address, stop, threads))
}

struct Client {
    connection: Connection,
    serial: u64,
    /// What came on streams that are not whole yet, with the length in front.
    streams: HashMap<StreamId, Vec<u8>>,
}

/// An answer that waits.
struct Held {
    handle: ConnectionHandle,
    serial: u64,
    stream: StreamId,
    arrived: u64,
    message: Vec<u8>,
}

struct Server {
    socket: UdpSocket,
    poller: Poller,
    begin: Instant,
    endpoint: Endpoint,
    clients: HashMap<ConnectionHandle, Client>,
    serials: u64,
    injector: Injector,
    queue: Queue<Held>,
}

impl Server {
    fn new(
        socket: UdpSocket,
        config: Arc<ServerConfig>,
        injector: Injector,
        begin: Instant,
    ) -> io::Result<Self> {
        let poller = Poller::new(1)?;
        poller.add(socket.as_fd(), 0, Interest::Read)?;
        lab_sys::cpu::tighten_timers();
        let endpoint =
            Endpoint::new(Arc::new(EndpointConfig::default()), Some(config), false, None);
        let (clients, queue) = (HashMap::new(), Queue::new(WAITING_MAX));
        Ok(Self { socket, poller, begin, endpoint, clients, serials: 0, injector, queue })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn serve(mut self, stop: &AtomicBool) -> io::Result<Report> {
        let mut buffer = vec![0; DATAGRAM_LEN_MAX];
        while !stop.load(Ordering::Relaxed) {
            let sleep = self.sleep();
            drop(self.poller.wait(sleep)?);
            for _ in 0..DATAGRAMS_PER_TURN {
                match self.socket.recv_from(&mut buffer) {
                    Ok((len, peer)) => self.receive(buffer.get(..len).unwrap_or_default(), peer),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    // What an ICMP message says of a client that has gone.
                    Err(_) => {}
                }
            }
            self.release();
            self.timers();
        }
        let mut truth = std::mem::take(&mut self.injector.truth);
        truth.unfinished += self.queue.len() as u64;
        Ok(Report { truth, arrivals: Vec::new() })
    }

    /// How long nothing is to be done unless a datagram comes.
    fn sleep(&mut self) -> Duration {
        let next = self.queue.next_due().unwrap_or(u64::MAX).saturating_sub(WAKE_UP);
        let sleep = Duration::from_nanos(next.saturating_sub(self.now())).min(SLEEP_MAX);
        let timers = self.clients.values_mut().filter_map(|it| it.connection.poll_timeout());
        let timer = timers.min().map(|at| at.saturating_duration_since(Instant::now()));
        timer.map_or(sleep, |timer| sleep.min(timer))
    }

    fn timers(&mut self) {
        let now = Instant::now();
        let due: Vec<_> = self
            .clients
            .iter_mut()
            .filter_map(|(handle, it)| Some((*handle, it.connection.poll_timeout()?)))
            .filter(|(_, at)| *at <= now)
            .map(|(handle, _)| handle)
            .collect();
        for handle in due {
            if let Some(client) = self.clients.get_mut(&handle) {
                client.connection.handle_timeout(now);
            }
            self.drive(handle);
        }
    }

    fn receive(&mut self, datagram: &[u8], peer: SocketAddr) {
        let (now, mut reply) = (Instant::now(), Vec::new());
        let event =
            self.endpoint.handle(now, peer, None, None, BytesMut::from(datagram), &mut reply);
        match event {
            Some(DatagramEvent::NewConnection(incoming)) => {
                match self.endpoint.accept(incoming, now, &mut reply, None) {
                    Ok((handle, connection)) => {
                        self.serials += 1;
                        let (serial, streams) = (self.serials, HashMap::new());
                        self.clients.insert(handle, Client { connection, serial, streams });
                        self.drive(handle);
                    }
                    Err(refused) => {
                        if let Some(transmit) = refused.response {
                            self.send(&transmit, &reply);
                        }
                    }
                }
            }
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(client) = self.clients.get_mut(&handle) {
                    client.connection.handle_event(event);
                }
                self.drive(handle);
            }
            Some(DatagramEvent::Response(transmit)) => self.send(&transmit, &reply),
            None => {}
        }
    }

    /// Sends a datagram; without room it is lost, as on any network, and QUIC sends it again.
    fn send(&self, transmit: &Transmit, datagram: &[u8]) {
        let datagram = datagram.get(..transmit.size).unwrap_or_default();
        _ = self.socket.send_to(datagram, transmit.destination);
    }

    /// Lets a connection go on: its streams, its datagrams, its end.
    fn drive(&mut self, handle: ConnectionHandle) {
        loop {
            let Some(client) = self.clients.get_mut(&handle) else { return };
            let mut idle = true;
            while let Some(event) = client.connection.poll() {
                idle = false;
                match event {
                    Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                        while let Some(id) = client.connection.streams().accept(Dir::Bi) {
                            client.streams.insert(id, Vec::new());
                        }
                    }
                    Event::Stream(_)
                    | Event::HandshakeDataReady
                    | Event::Connected
                    | Event::ConnectionLost { .. }
                    | Event::DatagramReceived
                    | Event::DatagramsUnblocked => {}
                }
            }
            self.read(handle);
            self.transmit(handle);
            if idle {
                return;
            }
        }
    }

    /// Decides on every question that is whole.
    fn read(&mut self, handle: ConnectionHandle) {
        let now = self.now();
        let Some(client) = self.clients.get_mut(&handle) else { return };
        let serial = client.serial;
        let mut whole = Vec::new();
        client.streams.retain(|id, into| {
            let over = read_stream(&mut client.connection, *id, into);
            let message = into
                .split_first_chunk::<2>()
                .and_then(|(len, rest)| rest.get(..usize::from(u16::from_be_bytes(*len))));
            if let Some(message) = message {
                whole.push((*id, message.to_vec()));
            }
            message.is_none() && !over
        });
        for (stream, mut message) in whole {
            let Some(fate) = self.injector.decide(now, &message, Medium::Stream) else { continue };
            inject::answer(&mut message, &fate);
            self.hold(Held { handle, serial, stream, arrived: now, message }, &fate, now);
        }
    }

    /// Gives an answer out at once, or keeps it until its time. A stream carries one answer, so a
    /// second copy is never sent.
    fn hold(&mut self, held: Held, fate: &Fate, now: u64) {
        self.injector.truth.unsent += u64::from(fate.copies.saturating_sub(1));
        if fate.copies == 0 {
            return;
        }
        if fate.at <= now {
            self.give(&held, now);
        } else if self.queue.push(fate.at, held).is_err() {
            self.injector.truth.overflowed += 1;
        }
    }

    fn give(&mut self, held: &Held, now: u64) {
        let truth = &mut self.injector.truth;
        let client = self.clients.get_mut(&held.handle).filter(|it| it.serial == held.serial);
        let len = u16::try_from(held.message.len()).unwrap_or(u16::MAX);
        let frame = [&len.to_be_bytes()[..], &held.message].concat();
        let written = client.is_some_and(|client| {
            let mut stream = client.connection.send_stream(held.stream);
            // The first window of a stream has room for any answer.
            stream.write(&frame).is_ok_and(|count| count == frame.len()) && stream.finish().is_ok()
        });
        if written {
            truth.sent += 1;
            truth.held.record(now.saturating_sub(held.arrived));
        } else {
            truth.unsent += 1;
        }
    }

    /// Sends what is due.
    fn release(&mut self) {
        let now = self.now();
        while let Some(held) = self.queue.pop(now) {
            self.give(&held, now);
            self.transmit(held.handle);
        }
    }

    /// Sends the datagrams of a connection, and forgets it when it is over.
    fn transmit(&mut self, handle: ConnectionHandle) {
        let Some(client) = self.clients.get_mut(&handle) else { return };
        let (now, mut datagram) = (Instant::now(), Vec::new());
        let mut ready = Vec::new();
        while let Some(transmit) = client.connection.poll_transmit(now, 1, &mut datagram) {
            ready.push((transmit, std::mem::take(&mut datagram)));
        }
        while let Some(event) = client.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(handle, event) {
                client.connection.handle_event(event);
            }
        }
        let is_over = client.connection.is_drained();
        for (transmit, datagram) in &ready {
            self.send(transmit, datagram);
        }
        if is_over {
            self.clients.remove(&handle);
        }
    }
}

impl Drop for Server {
    /// Tells clients that there will be no more answers.
    fn drop(&mut self) {
        let handles: Vec<_> = self.clients.keys().copied().collect();
        for handle in handles {
            if let Some(client) = self.clients.get_mut(&handle) {
                client.connection.close(Instant::now(), NO_ERROR, Bytes::new());
            }
            self.transmit(handle);
        }
    }
}

/// Reads what a stream has; true when nothing more will come.
fn read_stream(connection: &mut Connection, id: StreamId, into: &mut Vec<u8>) -> bool {
    let mut stream = connection.recv_stream(id);
    let Ok(mut chunks) = stream.read(true) else { return true };
    let over = loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => into.extend_from_slice(&chunk.bytes),
            Ok(None) | Err(ReadError::Reset(_)) => break true,
            Err(ReadError::Blocked) => break false,
        }
    };
    // What there is to send is sent in this turn anyway.
    _ = chunks.finalize();
    over
}
