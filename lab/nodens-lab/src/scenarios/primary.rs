//! A primary inside this process: it answers for [`Zones`] over UDP and TCP, transfers them by AXFR and
//! IXFR, and sends NOTIFY. So every secondary gets the same octets from the same server, at the rate that it can take.

use super::loads;
use super::zones::{Stream, Which, Zones, name_of};
use crate::child::Account;
use anyhow::{Context, Result};
use lab_sys::poll::{Interest, Poller};
use nodens_wire::{
    Admission, Builder, Class, Flags, Name, Opcode, Query, Rcode, Reader, Section, Type, framing,
};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

const UDP_TOKEN: u64 = u64::MAX;
const LISTENER_TOKEN: u64 = u64::MAX - 1;
/// Octets at which a message of a transfer is full: pointers lead no further than 2^14.
const MESSAGE_FULL: usize = 15 << 10;
/// Octets of a transfer that wait for the reader.
const UNSENT_MAX: usize = 256 << 10;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 4_096;
/// The longest sleep, so that the end is noticed.
const SLEEP: Duration = Duration::from_millis(20);

/// A running primary; it ends with the value.
pub(super) struct Primary {
    pub(super) address: SocketAddr,
    shared: Arc<Shared>,
    udp: UdpSocket,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    over: AtomicBool,
    zones: Mutex<Zones>,
    transfers: AtomicU64,
    octets: AtomicU64,
    /// The thread's folder under `/proc`, once it runs.
    task: OnceLock<PathBuf>,
}

impl Shared {
    fn zones(&self) -> MutexGuard<'_, Zones> {
        self.zones.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Primary {
    /// Starts at a free port of 127.0.0.1, on `cpus` if there are any.
    pub(super) fn start(zones: Zones, cpus: &[usize]) -> Result<Self> {
        let address = crate::child::free_address()?;
        let (udp, listener) = (UdpSocket::bind(address)?, listen(address)?);
        udp.set_nonblocking(true)?;
        let shared = Arc::new(Shared {
            over: AtomicBool::new(false),
            zones: Mutex::new(zones),
            transfers: AtomicU64::new(0),
            octets: AtomicU64::new(0),
            task: OnceLock::new(),
        });
        let mut server = Server::new(udp.try_clone()?, listener, shared.clone())?;
        let cpus = cpus.to_vec();
        let thread = std::thread::Builder::new().name("primary".into()).spawn(move || {
            loads::stand_back(&cpus);
            if let Ok(task) = std::fs::read_link("/proc/thread-self") {
                server.shared.task.get_or_init(|| Path::new("/proc").join(task));
            }
            if let Err(error) = server.serve() {
                eprintln!("the primary has stopped: {error}");
            }
        })?;
        Ok(Self { address, shared, udp, thread: Some(thread) })
    }

    /// Changes zones; nothing is answered meanwhile.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Zones) -> T) -> T {
        change(&mut self.shared.zones())
    }

    /// Says to a secondary that a zone has changed (RFC 1996), once.
    pub(super) fn notify(&self, which: Which, secondary: SocketAddr) -> Result<()> {
        let soa = self.shared.zones().soa(which)?;
        let mut out = Vec::new();
        let flags = Flags::default().with(Flags::AA, true).with_opcode(Opcode::NOTIFY);
        let id =
            soa.rdata.get(..2).and_then(|two| two.try_into().ok()).map_or(1, u16::from_be_bytes);
        let mut builder = Builder::new(&mut out, id, flags);
        builder.question(soa.owner.view(), Type::SOA, Class::IN);
        let fields = (Type::SOA, Class::IN, soa.ttl);
        builder.record(Section::Answer, soa.owner.view(), fields, &soa.rdata)?;
        self.udp.send_to(&out, secondary).context("cannot send NOTIFY")?;
        Ok(())
    }

    /// Transfers so far, and their octets.
    pub(super) fn transfers(&self) -> (u64, u64) {
        let Shared { transfers, octets, .. } = &*self.shared;
        (transfers.load(Ordering::Relaxed), octets.load(Ordering::Relaxed))
    }

    /// The scheduler's account of the thread so far.
    pub(super) fn account(&self) -> Account {
        self.shared.task.get().and_then(|task| Account::read(task)).unwrap_or_default()
    }
}

impl Drop for Primary {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic in the thread has been reported on standard error already.
            _ = thread.join();
        }
    }
}

fn listen(address: SocketAddr) -> Result<TcpListener> {
    use socket2::{Domain, Socket, Type};
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// A transfer that is being written.
struct Transfer {
    request: Vec<u8>,
    query: Query,
    records: std::iter::Peekable<Stream>,
}

struct Connection {
    stream: TcpStream,
    into: Vec<u8>,
    out: Vec<u8>,
    /// Octets of `out` that are written.
    written: usize,
    transfer: Option<Transfer>,
    /// Whether it is watched for room to write.
    waits: bool,
}

struct Server {
    udp: UdpSocket,
    listener: TcpListener,
    shared: Arc<Shared>,
    poller: Poller,
    connections: HashMap<u64, Connection>,
    next: u64,
    buffer: Vec<u8>,
}

impl Server {
    fn new(udp: UdpSocket, listener: TcpListener, shared: Arc<Shared>) -> Result<Self> {
        let poller = Poller::new(256)?;
        poller.add(udp.as_fd(), UDP_TOKEN, Interest::Read)?;
        poller.add(listener.as_fd(), LISTENER_TOKEN, Interest::Read)?;
        let (connections, next, buffer) = (HashMap::new(), 0, vec![0; 64 << 10]);
        Ok(Self { udp, listener, shared, poller, connections, next, buffer })
    }

    fn serve(&mut self) -> std::io::Result<()> {
        while !self.shared.over.load(Ordering::Relaxed) {
            let ready: Vec<_> = self.poller.wait(SLEEP)?.map(|ready| ready.token).collect();
            for token in ready {
                match token {
                    UDP_TOKEN => self.datagrams(),
                    LISTENER_TOKEN => self.accept(),
                    connection => self.go_on(connection),
                }
            }
        }
        Ok(())
    }

    fn datagrams(&mut self) {
        let mut out = Vec::new();
        while let Ok((len, peer)) = self.udp.recv_from(&mut self.buffer) {
            let request = self.buffer.get(..len).unwrap_or_default();
            if let Admission::Accept(query) = nodens_wire::admit(request)
                && query.flags.opcode() == Opcode::QUERY
                && answer(&self.shared.zones(), request, &query, &mut out).is_ok()
            {
                // Who asked asks again if it does not arrive.
                _ = self.udp.send_to(&out, peer);
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let ready = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
            let token = self.next;
            self.next += 1;
            if ready.and_then(|()| self.poller.add(stream.as_fd(), token, Interest::Read)).is_err()
            {
                continue;
            }
            let (into, out) = (Vec::new(), Vec::new());
            let connection =
                Connection { stream, into, out, written: 0, transfer: None, waits: false };
            self.connections.insert(token, connection);
            // The query is there already, mostly.
            self.go_on(token);
        }
    }

    fn go_on(&mut self, token: u64) {
        let Some(mut connection) = self.connections.remove(&token) else { return };
        let keep = connection.read(&mut self.buffer) && connection.work(&self.shared);
        let waits = !connection.out.is_empty();
        if !keep {
            return;
        }
        if waits != connection.waits {
            let interest = if waits { Interest::ReadWrite } else { Interest::Read };
            if self.poller.modify(connection.stream.as_fd(), token, interest).is_err() {
                return;
            }
            connection.waits = waits;
        }
        self.connections.insert(token, connection);
    }
}

impl Connection {
    /// Reads what has arrived; false if the connection is gone.
    fn read(&mut self, buffer: &mut [u8]) -> bool {
        match self.stream.read(buffer) {
            Ok(0) => false,
            Ok(len) => {
                self.into.extend(buffer.iter().take(len));
                true
            }
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        }
    }

    /// Answers and writes as long as the reader takes it; false if the connection is gone.
    fn work(&mut self, shared: &Shared) -> bool {
        loop {
            while self.out.len() < UNSENT_MAX && self.make(shared) {}
            if self.out.is_empty() {
                return true;
            }
            let unsent = self.out.get(self.written..).unwrap_or_default();
            match self.stream.write(unsent) {
                Ok(len) => self.written += len,
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
            if self.written >= self.out.len() {
                self.out.clear();
                self.written = 0;
            }
        }
    }

    /// Makes the next message, if there is one to be made.
    fn make(&mut self, shared: &Shared) -> bool {
        let mut message = Vec::new();
        if let Some(transfer) = &mut self.transfer {
            let is_made = transfer.message(&mut message).is_ok();
            if !is_made || transfer.records.peek().is_none() {
                self.transfer = None;
                shared.transfers.fetch_add(1, Ordering::Relaxed);
            }
            shared.octets.fetch_add(message.len() as u64, Ordering::Relaxed);
            framing::push_message(&mut self.out, &message);
            return true;
        }
        let Some((request, end)) = framing::first_message(&self.into) else { return false };
        let request = request.to_vec();
        self.into.drain(..end);
        let Admission::Accept(query) = nodens_wire::admit(&request) else { return true };
        let zones = shared.zones();
        if let Some(records) = transfer_of(&zones, &request, &query) {
            self.transfer = Some(Transfer { request, query, records: records.peekable() });
        } else if answer(&zones, &request, &query, &mut message).is_ok() {
            framing::push_message(&mut self.out, &message);
        }
        true
    }
}

impl Transfer {
    /// Writes the next message of it.
    fn message(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let flags = self.query.flags.reply().with(Flags::AA, true);
        let mut builder = Builder::new(out, self.query.id, flags);
        let qname = self.query.qname(&self.request);
        builder.question(qname, self.query.qtype, self.query.qclass);
        let mut len = 0;
        while let Some(record) = self.records.next_if(|_| len < MESSAGE_FULL) {
            // Compression makes it less.
            len += record.owner.as_wire().len() + 10 + record.rdata.len();
            let fields = (record.rtype, Class::IN, record.ttl);
            builder.record(Section::Answer, record.owner.view(), fields, &record.rdata)?;
        }
        Ok(())
    }
}

/// The records of the transfer that is asked for; nothing if none is, or there is no such zone.
fn transfer_of(zones: &Zones, request: &[u8], query: &Query) -> Option<Stream> {
    let which = zones.find(query.qname(request))?;
    match query.qtype {
        Type::AXFR => zones.whole(which).ok(),
        Type::IXFR => zones.since(which, known_serial(request, query)?).ok(),
        _ => None,
    }
}

/// The serial number that a client has, in its query for an IXFR.
fn known_serial(request: &[u8], query: &Query) -> Option<u32> {
    let mut reader = Reader::new(request, query.question_end());
    reader.skip_name().ok()?;
    // TYPE, CLASS, TTL and RDLENGTH.
    reader.take(10, "record").ok()?;
    reader.skip_name().ok()?;
    reader.skip_name().ok()?;
    reader.u32("serial").ok()
}

/// Writes the answer to a query for an SOA record, or to what is not known.
fn answer(zones: &Zones, request: &[u8], query: &Query, out: &mut Vec<u8>) -> Result<()> {
    let qname = query.qname(request);
    let found = zones.find(qname);
    let rcode = if found.is_some() { Rcode::NOERROR } else { Rcode::REFUSED };
    let flags = query.flags.reply().with(Flags::AA, found.is_some()).with_rcode(rcode);
    let mut builder = Builder::new(out, query.id, flags);
    builder.question(qname, query.qtype, query.qclass);
    if let Some(which) = found {
        let soa = zones.soa(which)?;
        let is_asked = matches!(query.qtype, Type::SOA | Type::IXFR);
        let section = if is_asked { Section::Answer } else { Section::Authority };
        let zone: Name = name_of(which)?;
        builder.record(section, zone.view(), (Type::SOA, Class::IN, soa.ttl), &soa.rdata)?;
    }
    if query.edns.is_some() {
        let fields = (Type::OPT, Class(1_232), 0);
        builder.record(Section::Additional, nodens_wire::NameRef::root(), fields, &[])?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "primary_tests.rs"]
mod tests;
