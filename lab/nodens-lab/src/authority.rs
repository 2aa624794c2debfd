//! A small authoritative upstream inside this process: UDP and TCP on one loopback port.
//!
//! It answers in one thread, after a delay drawn from a range, and counts what it was asked.
//! Answers on TCP leave in the order of their delays, as RFC 7766 allows.

use crate::child::Account;
use anyhow::{Context, Result};
use lab_load::rng::Stream;
use lab_load::{SECOND, cluster::Cluster};
use lab_sys::batch::Batch;
use lab_sys::poll::{Interest, Poller};
use nodens_wire::{
    Admission, Builder, Class, Flags, Name, NameRef, Query, Rcode, Section, Type, framing,
};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Datagrams per system call.
const BATCH: usize = 64;
const DATAGRAM_LEN_MAX: usize = 1_232;
/// Tries to find a port that is free for UDP and TCP.
const PORT_TRIES: usize = 20;
const UDP_TOKEN: u64 = u64::MAX;
const LISTENER_TOKEN: u64 = u64::MAX - 1;
/// The longest sleep, so that the end is noticed.
const SLEEP: u64 = SECOND / 50;

/// What it knows.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    /// The names of a cluster; what is not among them does not exist.
    Cluster(Cluster),
    /// Every name has an address.
    Everything,
}

/// Times a query was asked, by name and type.
pub(crate) type Asked = HashMap<(Name, Type), u64>;

/// A running authority; it ends with the value.
pub(crate) struct Authority {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    over: AtomicBool,
    questions: AtomicU64,
    asked: Mutex<Asked>,
    /// The thread's folder under `/proc`, once it runs.
    task: OnceLock<PathBuf>,
}

impl Authority {
    /// Starts on a free port of 127.0.0.1, on `cpus` if there are any.
    pub(crate) fn start(data: Data, delay: Range<Duration>, cpus: &[usize]) -> Result<Self> {
        let (udp, listener) = bind().context("cannot listen for the embedded upstream")?;
        let address = udp.local_addr()?;
        let shared = Arc::new(Shared::default());
        let server = Server::new(udp, listener, data, delay, shared.clone())?;
        let cpus = cpus.to_vec();
        let thread = std::thread::Builder::new().name("authority".into()).spawn(move || {
            if !cpus.is_empty() && lab_sys::cpu::pin(&cpus).is_err() {
                eprintln!("the embedded upstream could not be pinned to its CPU");
            }
            lab_sys::cpu::tighten_timers();
            if let Ok(task) = std::fs::read_link("/proc/thread-self") {
                server.shared.task.get_or_init(|| Path::new("/proc").join(task));
            }
            if let Err(error) = server.serve() {
                eprintln!("the embedded upstream has stopped: {error}");
            }
        })?;
        Ok(Self { address, shared, thread: Some(thread) })
    }

    /// Queries so far.
    pub(crate) fn questions(&self) -> u64 {
        self.shared.questions.load(Ordering::Relaxed)
    }

    /// The scheduler's account of the thread so far.
    pub(crate) fn account(&self) -> Account {
        self.shared.task.get().and_then(|task| Account::read(task)).unwrap_or_default()
    }

    /// What was asked since the last call; always empty if everything has an address.
    pub(crate) fn take_asked(&self) -> Asked {
        std::mem::take(&mut *self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic in the thread has been reported on standard error already.
            _ = thread.join();
        }
    }
}

/// Sockets for both transports on one port.
fn bind() -> std::io::Result<(UdpSocket, TcpListener)> {
    let mut last = std::io::Error::from(ErrorKind::AddrInUse);
    for _ in 0..PORT_TRIES {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        match UdpSocket::bind(listener.local_addr()?) {
            Ok(udp) => {
                listener.set_nonblocking(true)?;
                udp.set_nonblocking(true)?;
                socket2::SockRef::from(&udp).set_recv_buffer_size(4 << 20)?;
                return Ok((udp, listener));
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Where an answer goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum To {
    Datagram(SocketAddr),
    Connection(u64),
}

/// An answer that waits for its time: `(time, sequence, destination, octets)`.
type Waiting = (u64, u64, To, Vec<u8>);

struct Connection {
    stream: TcpStream,
    into: Vec<u8>,
    out: Vec<u8>,
}

struct Server {
    udp: UdpSocket,
    listener: TcpListener,
    data: Data,
    delay: Range<Duration>,
    shared: Arc<Shared>,
    poller: Poller,
    start: Instant,
    stream: Stream,
    connections: HashMap<u64, Connection>,
    next_connection: u64,
    waiting: BinaryHeap<Reverse<Waiting>>,
    sequence: u64,
}

impl Server {
    fn new(
        udp: UdpSocket,
        listener: TcpListener,
        data: Data,
        delay: Range<Duration>,
        shared: Arc<Shared>,
    ) -> Result<Self> {
        let poller = Poller::new(256)?;
        poller.add(udp.as_fd(), UDP_TOKEN, Interest::Read)?;
        poller.add(listener.as_fd(), LISTENER_TOKEN, Interest::Read)?;
        Ok(Self {
            udp,
            listener,
            data,
            delay,
            shared,
            poller,
            start: Instant::now(),
            stream: Stream::new(1, 5),
            connections: HashMap::new(),
            next_connection: 0,
            waiting: BinaryHeap::new(),
            sequence: 0,
        })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn serve(mut self) -> std::io::Result<()> {
        let mut batch = Batch::with_peers(BATCH, DATAGRAM_LEN_MAX);
        let mut buffer = vec![0; 64 << 10];
        while !self.shared.over.load(Ordering::Relaxed) {
            let now = self.now();
            let next = self.waiting.peek().map_or(u64::MAX, |Reverse((time, ..))| *time);
            let sleep = Duration::from_nanos(next.saturating_sub(now).min(SLEEP));
            let ready: Vec<_> = self.poller.wait(sleep)?.map(|ready| ready.token).collect();
            for token in ready {
                match token {
                    UDP_TOKEN if self.delay.is_empty() => self.datagrams_now(&mut batch),
                    UDP_TOKEN => self.datagrams(&mut buffer),
                    LISTENER_TOKEN => self.accept()?,
                    connection => self.read(connection, &mut buffer),
                }
            }
            self.send_due();
        }
        Ok(())
    }

    /// Answers datagrams at once, in the buffers they came in.
    fn datagrams_now(&mut self, batch: &mut Batch) {
        let mut out = Vec::with_capacity(DATAGRAM_LEN_MAX);
        while batch.receive(self.udp.as_fd()).is_ok() {
            let mut at = 0;
            while at < batch.len() {
                let answered = self.answer(batch.get(at), &mut out);
                if answered && batch.replace(at, &out) { at += 1 } else { batch.swap_remove(at) }
            }
            let mut first = 0;
            while first < batch.len() {
                // An answer that the kernel has no room for is lost, as on any network.
                first += batch.send(self.udp.as_fd(), first).unwrap_or(1);
            }
        }
    }

    fn datagrams(&mut self, buffer: &mut [u8]) {
        while let Ok((len, peer)) = self.udp.recv_from(buffer) {
            let mut out = Vec::new();
            if self.answer(buffer.get(..len).unwrap_or_default(), &mut out) {
                self.delay(To::Datagram(peer), out);
            }
        }
    }

    fn accept(&mut self) -> std::io::Result<()> {
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let token = self.next_connection;
            self.next_connection += 1;
            self.poller.add(stream.as_fd(), token, Interest::Read)?;
            let connection = Connection { stream, into: Vec::new(), out: Vec::new() };
            self.connections.insert(token, connection);
        }
        Ok(())
    }

    fn read(&mut self, token: u64, buffer: &mut [u8]) {
        let Some(mut connection) = self.connections.remove(&token) else { return };
        match connection.stream.read(buffer) {
            Ok(0) => return,
            Ok(len) => connection.into.extend(buffer.iter().take(len)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
        while let Some(message) = take_message(&mut connection.into) {
            let mut answer = Vec::new();
            if self.answer(&message, &mut answer) {
                self.delay(To::Connection(token), answer);
            }
        }
        if connection.flush() {
            self.connections.insert(token, connection);
        }
    }

    fn delay(&mut self, to: To, answer: Vec<u8>) {
        let width = self.delay.end.saturating_sub(self.delay.start);
        let delay = self.delay.start + width.mul_f64(self.stream.unit());
        let time = self.now() + u64::try_from(delay.as_nanos()).unwrap_or(0);
        self.sequence += 1;
        self.waiting.push(Reverse((time, self.sequence, to, answer)));
    }

    fn send_due(&mut self) {
        let now = self.now();
        while self.waiting.peek().is_some_and(|Reverse((time, ..))| *time <= now) {
            let Some(Reverse((_, _, to, answer))) = self.waiting.pop() else { return };
            match to {
                // A client that has gone does not need its answer.
                To::Datagram(peer) => _ = self.udp.send_to(&answer, peer),
                To::Connection(token) => {
                    let Some(connection) = self.connections.get_mut(&token) else { continue };
                    framing::push_message(&mut connection.out, &answer);
                    if !connection.flush() {
                        self.connections.remove(&token);
                    }
                }
            }
        }
    }

    /// Writes the answer to `request` into `out`; false if there is none.
    fn answer(&self, request: &[u8], out: &mut Vec<u8>) -> bool {
        let Admission::Accept(query) = nodens_wire::admit(request) else { return false };
        self.shared.questions.fetch_add(1, Ordering::Relaxed);
        let qname = query.qname(request);
        match &self.data {
            Data::Everything => write_answer(&query, qname, Some(true), out),
            Data::Cluster(cluster) => {
                let name = qname.to_name();
                let exists = cluster.exists(&name);
                let internal = Cluster::is_internal(&name);
                let key = (name.to_folded(), query.qtype);
                let mut asked = self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner);
                *asked.entry(key).or_default() += 1;
                write_answer(&query, qname, exists.then_some(internal), out)
            }
        }
        .is_ok()
    }
}

impl Connection {
    /// Writes what the kernel takes; false if the connection is gone.
    fn flush(&mut self) -> bool {
        while !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(len) => _ = self.out.drain(..len),
                // Answers are small and read quickly: the rest goes with the next answer.
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
        true
    }
}

/// Takes the first whole message off a stream (RFC 1035 section 4.2.2).
fn take_message(stream: &mut Vec<u8>) -> Option<Vec<u8>> {
    let (message, end) = framing::first_message(stream)?;
    let message = message.to_vec();
    stream.drain(..end);
    Some(message)
}

/// An address, NODATA for other types, or NXDOMAIN if `internal` is `None`.
///
/// Services live for 30 s, as CoreDNS has them; external names for 5 minutes.
fn write_answer(
    query: &Query,
    qname: NameRef<'_>,
    internal: Option<bool>,
    out: &mut Vec<u8>,
) -> Result<(), nodens_wire::WireError> {
    let rcode = if internal.is_some() { Rcode::NOERROR } else { Rcode::NXDOMAIN };
    let flags = query.flags.reply().with(Flags::AA, true).with_rcode(rcode);
    let mut builder = Builder::new(out, query.id, flags);
    builder.question(qname, query.qtype, query.qclass);
    match internal {
        Some(internal) if query.qtype == Type::A => {
            let ttl = if internal { 30 } else { 300 };
            let address = Ipv4Addr::new(192, 0, 2, 1).octets();
            builder.record(Section::Answer, qname, (Type::A, Class::IN, ttl), &address)?;
        }
        _ => {
            let zone = zone_of(qname);
            let fields = (Type::SOA, Class::IN, 30);
            builder.record(Section::Authority, zone, fields, &soa(zone))?;
        }
    }
    if query.edns.is_some() {
        let fields = (Type::OPT, Class(DATAGRAM_LEN_MAX as u16), 0);
        builder.record(Section::Additional, NameRef::root(), fields, &[])?;
    }
    Ok(())
}

/// The last two labels: what a zone cut would be here.
fn zone_of(name: NameRef<'_>) -> NameRef<'_> {
    let mut zone = name;
    while zone.label_count() > 2 {
        match zone.parent() {
            Some(parent) => zone = parent,
            None => break,
        }
    }
    zone
}

/// RDATA of an SOA record (RFC 1035 section 3.3.13), names uncompressed.
fn soa(zone: NameRef<'_>) -> Vec<u8> {
    let mut rdata = Vec::new();
    for label in [&b"\x02ns"[..], b"\x0ahostmaster"] {
        rdata.extend(label);
        rdata.extend(zone.as_wire());
    }
    for number in [1_u32, 7_200, 1_800, 86_400, 30] {
        rdata.extend(number.to_be_bytes());
    }
    rdata
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_load::{Config, Transport, Workload};
    use nodens_wire::Message;

    fn ask(authority: &Authority, name: &str, qtype: Type) -> Message {
        let mut workload = Workload::new(1);
        workload.push(Name::parse(name).unwrap().view(), qtype, None);
        let mut query = Vec::new();
        workload.append(0, 7, &mut query);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket.send_to(&query, authority.address).unwrap();
        let mut buffer = [0; 512];
        let len = socket.recv(&mut buffer).unwrap();
        Message::parse(&buffer[..len]).unwrap()
    }

    #[test]
    fn it_answers_what_exists_and_denies_the_rest_with_a_soa() {
        let delay = Duration::from_micros(100)..Duration::from_micros(200);
        let data = Data::Cluster(Cluster::default());
        let authority = Authority::start(data, delay, &[]).unwrap();
        let message = ask(&authority, "api.shop.svc.cluster.local", Type::A);
        assert_eq!((message.flags.rcode(), message.answer[0].ttl), (Rcode::NOERROR, 30));
        let message = ask(&authority, "api.shop.svc.cluster.local", Type::AAAA);
        assert_eq!(message.flags.rcode(), Rcode::NOERROR);
        assert!(message.answer.is_empty() && message.authority[0].rtype == Type::SOA);
        let message = ask(&authority, "API.mail.example.cluster.local", Type::A);
        assert_eq!(message.flags.rcode(), Rcode::NXDOMAIN);
        assert_eq!(message.authority[0].owner, Name::parse("cluster.local").unwrap());
        assert_eq!(authority.questions(), 3);
        assert!(authority.account().ran > Duration::ZERO);
        let key = (Name::parse("api.mail.example.cluster.local").unwrap(), Type::A);
        assert_eq!(authority.take_asked().get(&key), Some(&1));
    }

    #[test]
    fn it_serves_tcp_out_of_order_and_udp_without_delay() {
        let delay = Duration::from_micros(100)..Duration::from_millis(5);
        let mix = lab_load::cluster::mix(&Cluster::default(), 4, 2_000, 1);
        let data = Data::Cluster(Cluster::default());
        let slow = Authority::start(data, delay, &[]).unwrap();
        let none = Duration::ZERO..Duration::ZERO;
        let quick = Authority::start(Data::Everything, none, &[]).unwrap();
        for (server, transport) in [(&slow, Transport::Tcp), (&quick, Transport::Udp)] {
            let config = Config {
                transport,
                clients: 4,
                duration: Duration::from_millis(500),
                ..Config::new(server.address, 2_000.0)
            };
            let stop = AtomicBool::new(false);
            let outcome = lab_load::run(&config, &mix.workload, &stop, |_| {}).unwrap();
            let counts = outcome.tally.counts;
            assert!(counts.sent > 800 && counts.answered == counts.sent, "{counts:?}");
            assert_eq!(server.questions(), counts.sent);
        }
    }
}
