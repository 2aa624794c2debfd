//! The loop over connections of QUIC: `quinn-proto` is a state machine without socket and clock; this
//! gives it both. What is spoken on them is a [`Protocol`]: DNS over QUIC, or HTTP/3 ([`crate::doh3`]), each
//! with one query per stream.

mod doq;

use crate::queue::Queue;
use crate::udp::{Echo, Report};
use crate::{Fate, Injection, Injector, Medium, inject, listen};
use bytes::{Bytes, BytesMut};
use doq::Doq;
use lab_http3::Shared;
use lab_sys::poll::{Interest, Poller};
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig, Event, ServerConfig, StreamEvent,
    StreamId, Transmit, VarInt,
};
use socket2::Type;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::rc::Rc;
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
/// Streams that a client may have open at once, unless the options say otherwise.
const STREAMS_MAX: u32 = 1_000;

/// What a server is to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// What to inject.
    pub injection: Injection,
    /// Threads, each with a socket of its own on the same port; at least one is started.
    pub threads: usize,
    /// TLS 1.3 with the ALPN of what is spoken: `doq` or `h3`.
    pub tls: Arc<rustls::ServerConfig>,
    /// After this many answers, a client of HTTP/3 is asked to leave its connection (GOAWAY).
    pub close_after: Option<u64>,
    /// Streams that a client may have open at once.
    pub streams_max: u32,
}

impl Options {
    /// One thread that injects nothing.
    pub fn new(tls: Arc<rustls::ServerConfig>) -> Self {
        let (injection, streams_max) = (Injection::default(), STREAMS_MAX);
        Self { injection, threads: 1, tls, close_after: None, streams_max }
    }
}

/// What is spoken on a connection.
pub(crate) trait Protocol {
    /// Where an answer goes.
    type Stream;

    /// The code of an orderly end.
    const NO_ERROR: VarInt;

    /// Begins; after `close_after` answers the client is to leave, if there is a way to tell it.
    fn new(connection: Shared, close_after: u64) -> Self;

    /// Reads and writes as far as it goes, and returns the queries that have become whole.
    fn turn(&mut self) -> Vec<(Self::Stream, Vec<u8>)>;

    /// Sends an answer; false if the client does not take it any more.
    fn answer(&mut self, stream: Self::Stream, message: &[u8]) -> bool;

    /// Leaves a query without an answer.
    fn lose(&mut self, stream: Self::Stream);

    /// The client wants no answer on this stream any more.
    fn stopped(&mut self, stream: StreamId);
}

/// Listens on `address` for DNS over QUIC; port 0 is a free one.
pub fn start(address: SocketAddr, options: Options) -> io::Result<Echo> {
    serve::<Doq>(address, options)
}

/// Listens on `address`; port 0 is a free one.
pub(crate) fn serve<P: Protocol>(address: SocketAddr, options: Options) -> io::Result<Echo> {
    let close_after = options.close_after.unwrap_or(u64::MAX);
    let count = options.threads.max(1);
    let tls = QuicServerConfig::try_from(options.tls).map_err(io::Error::other)?;
    let mut config = ServerConfig::with_crypto(Arc::new(tls));
    let mut transport = quinn_proto::TransportConfig::default();
    transport
        .enable_segmentation_offload(false)
        .max_concurrent_bidi_streams(VarInt::from_u32(options.streams_max));
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
            let socket = socket.into();
            Server::<P>::new(socket, config, injector, begin, close_after)?.serve(&stop)
        })
    });
    let threads = threads.collect();
    Ok(Echo::of(address, stop, threads))
}

struct Client<P> {
    connection: Shared,
    serial: u64,
    protocol: P,
}

/// An answer that waits.
struct Held<S> {
    handle: ConnectionHandle,
    serial: u64,
    stream: S,
    arrived: u64,
    message: Vec<u8>,
}

struct Server<P: Protocol> {
    socket: UdpSocket,
    poller: Poller,
    begin: Instant,
    endpoint: Endpoint,
    clients: HashMap<ConnectionHandle, Client<P>>,
    serials: u64,
    injector: Injector,
    queue: Queue<Held<P::Stream>>,
    close_after: u64,
}

impl<P: Protocol> Server<P> {
    fn new(
        socket: UdpSocket,
        config: Arc<ServerConfig>,
        injector: Injector,
        begin: Instant,
        close_after: u64,
    ) -> io::Result<Self> {
        let poller = Poller::new(1)?;
        poller.add(socket.as_fd(), 0, Interest::Read)?;
        lab_sys::cpu::tighten_timers();
        let endpoint =
            Endpoint::new(Arc::new(EndpointConfig::default()), Some(config), false, None);
        let (clients, queue) = (HashMap::new(), Queue::new(WAITING_MAX));
        Ok(Self {
            socket,
            poller,
            begin,
            endpoint,
            clients,
            serials: 0,
            injector,
            queue,
            close_after,
        })
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
        let timers =
            self.clients.values_mut().filter_map(|it| it.connection.borrow_mut().poll_timeout());
        let timer = timers.min().map(|at| at.saturating_duration_since(Instant::now()));
        timer.map_or(sleep, |timer| sleep.min(timer))
    }

    fn timers(&mut self) {
        let now = Instant::now();
        let due: Vec<_> = self
            .clients
            .iter_mut()
            .filter_map(|(handle, it)| Some((*handle, it.connection.borrow_mut().poll_timeout()?)))
            .filter(|(_, at)| *at <= now)
            .map(|(handle, _)| handle)
            .collect();
        for handle in due {
            if let Some(client) = self.clients.get_mut(&handle) {
                client.connection.borrow_mut().handle_timeout(now);
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
                        let connection = Rc::new(RefCell::new(connection));
                        let protocol = P::new(connection.clone(), self.close_after);
                        let serial = self.serials;
                        self.clients.insert(handle, Client { connection, serial, protocol });
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
                    client.connection.borrow_mut().handle_event(event);
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

    /// Lets a connection continue: its streams, its datagrams, its end.
    fn drive(&mut self, handle: ConnectionHandle) {
        loop {
            let Some(client) = self.clients.get_mut(&handle) else { return };
            let mut idle = true;
            loop {
                let event = client.connection.borrow_mut().poll();
                match event {
                    None => break,
                    Some(Event::Stream(StreamEvent::Stopped { id, .. })) => {
                        client.protocol.stopped(id);
                    }
                    Some(_) => {}
                }
                idle = false;
            }
            self.read(handle);
            self.transmit(handle);
            if idle {
                return;
            }
        }
    }

    /// Decides on every query that is whole.
    fn read(&mut self, handle: ConnectionHandle) {
        let now = self.now();
        let Some(client) = self.clients.get_mut(&handle) else { return };
        let serial = client.serial;
        for (stream, mut message) in client.protocol.turn() {
            let Some(fate) = self.injector.decide(now, &message, Medium::Stream) else {
                // A message that is no query, or one to be lost: no answer.
                self.lose(handle, stream);
                continue;
            };
            inject::answer(&mut message, &fate);
            self.hold(Held { handle, serial, stream, arrived: now, message }, &fate, now);
        }
    }

    fn lose(&mut self, handle: ConnectionHandle, stream: P::Stream) {
        if let Some(client) = self.clients.get_mut(&handle) {
            client.protocol.lose(stream);
        }
    }

    /// Gives an answer out at once, or keeps it until its time. A stream carries one answer, so a
    /// second copy is never sent.
    fn hold(&mut self, held: Held<P::Stream>, fate: &Fate, now: u64) {
        self.injector.truth.unsent += u64::from(fate.copies.saturating_sub(1));
        if fate.copies == 0 {
            self.lose(held.handle, held.stream);
        } else if fate.at <= now {
            self.give(held, now);
        } else if self.queue.push(fate.at, held).is_err() {
            self.injector.truth.overflowed += 1;
        }
    }

    fn give(&mut self, held: Held<P::Stream>, now: u64) {
        let truth = &mut self.injector.truth;
        let client = self.clients.get_mut(&held.handle).filter(|it| it.serial == held.serial);
        if client.is_some_and(|client| client.protocol.answer(held.stream, &held.message)) {
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
            let handle = held.handle;
            self.give(held, now);
            self.transmit(handle);
        }
    }

    /// Sends the datagrams of a connection, and forgets it when it is over.
    fn transmit(&mut self, handle: ConnectionHandle) {
        let Some(client) = self.clients.get_mut(&handle) else { return };
        let (now, mut datagram) = (Instant::now(), Vec::new());
        let mut ready = Vec::new();
        let mut connection = client.connection.borrow_mut();
        while let Some(transmit) = connection.poll_transmit(now, 1, &mut datagram) {
            ready.push((transmit, std::mem::take(&mut datagram)));
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(handle, event) {
                connection.handle_event(event);
            }
        }
        let is_over = connection.is_drained();
        drop(connection);
        for (transmit, datagram) in &ready {
            self.send(transmit, datagram);
        }
        if is_over {
            self.clients.remove(&handle);
        }
    }
}

impl<P: Protocol> Drop for Server<P> {
    /// Tells clients that there will be no more answers.
    fn drop(&mut self) {
        let handles: Vec<_> = self.clients.keys().copied().collect();
        for handle in handles {
            if let Some(client) = self.clients.get_mut(&handle) {
                client.connection.borrow_mut().close(Instant::now(), P::NO_ERROR, Bytes::new());
            }
            self.transmit(handle);
        }
    }
}
