//! The loop over connections: TCP, with or without TLS.

use crate::queue::Queue;
use crate::udp::{Echo, Report};
use crate::{Fate, Injection, Injector, Medium, inject, listen};
use lab_sys::poll::{Interest, Poller, Ready};
use rustls::{ServerConfig, ServerConnection};
use slab::Slab;
use socket2::{Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Octets read at once.
const READ_LEN: usize = 64 << 10;
/// Reads from one connection before others have their turn.
const READS_PER_TURN: usize = 4;
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4_096;
/// The longest sleep, so that a stop is noticed.
const SLEEP_MAX: Duration = Duration::from_millis(50);
/// Nanoseconds that waking up may take: answers due sooner are waited for without sleeping.
const WAKE_UP: u64 = 80_000;
/// Answers that one thread holds back at most.
const WAITING_MAX: usize = 1 << 20;
/// The token of the listener.
const LISTENER: u64 = u64::MAX;

/// What a server of connections is to do.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What to inject.
    pub injection: Injection,
    /// Threads, each with a listener of its own on the same port; at least one is started.
    pub threads: usize,
    /// TLS, if it is to be spoken.
    pub tls: Option<Arc<ServerConfig>>,
    /// Close each connection after this many answers.
    pub close_after: Option<u64>,
}

/// Listens on `address`; port 0 is a free one.
pub fn start(address: SocketAddr, options: Options) -> io::Result<Echo> {
    let count = options.threads.max(1);
    let (address, listeners) = listen::on_one_port(address, Type::STREAM, count)?;
    for listener in &listeners {
        listener.listen(BACKLOG)?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let begin = Instant::now();
    let injectors = Injector::for_threads(options.injection, count);
    let threads = listeners.into_iter().zip(injectors).map(|(listener, injector)| {
        let (stop, tls, close_after) = (stop.clone(), options.tls.clone(), options.close_after);
        std::thread::spawn(move || {
            let close_after = close_after.unwrap_or(u64::MAX);
            Server::new(listener, injector, begin, tls, close_after)?.serve(&stop)
        })
    });
    let threads = threads.collect();
    Ok(Echo::of(address, stop, threads))
}

struct Connection {
    socket: Socket,
    tls: Option<Box<ServerConnection>>,
    serial: u64,
    /// Octets that are no whole message yet.
    into: Vec<u8>,
    /// Answers not yet written.
    out: Vec<u8>,
    answers: u64,
    /// Whether it was closed on this side, and only waits for the other.
    is_closed: bool,
    interest: Interest,
}

/// An answer that waits.
struct Held {
    key: usize,
    serial: u64,
    arrived: u64,
    message: Vec<u8>,
}

struct Server {
    listener: Socket,
    poller: Poller,
    begin: Instant,
    injector: Injector,
    tls: Option<Arc<ServerConfig>>,
    close_after: u64,
    connections: Slab<Connection>,
    serials: u64,
    queue: Queue<Held>,
    buffer: Vec<u8>,
    /// Connections with answers to write.
    dirty: Vec<usize>,
}

impl Server {
    fn new(
        listener: Socket,
        injector: Injector,
        begin: Instant,
        tls: Option<Arc<ServerConfig>>,
        close_after: u64,
    ) -> io::Result<Self> {
        let poller = Poller::new(1_024)?;
        poller.add(listener.as_fd(), LISTENER, Interest::Read)?;
        lab_sys::cpu::tighten_timers();
        Ok(Self {
            listener,
            poller,
            begin,
            injector,
            tls,
            close_after,
            connections: Slab::new(),
            serials: 0,
            queue: Queue::new(WAITING_MAX),
            buffer: vec![0; READ_LEN],
            dirty: Vec::new(),
        })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn serve(mut self, stop: &AtomicBool) -> io::Result<Report> {
        let mut ready: Vec<Ready> = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            self.release();
            let next = self.queue.next_due().unwrap_or(u64::MAX).saturating_sub(WAKE_UP);
            let sleep = Duration::from_nanos(next.saturating_sub(self.now())).min(SLEEP_MAX);
            ready.clear();
            ready.extend(self.poller.wait(sleep)?);
            for ready in &ready {
                if ready.token == LISTENER {
                    self.accept();
                } else {
                    self.turn(ready.token as usize);
                }
            }
        }
        let mut truth = self.injector.truth;
        truth.unfinished += self.queue.len() as u64;
        Ok(Report { truth, arrivals: Vec::new() })
    }

    /// Takes all connections that wait. Errors concern one of them, or pass: it is tried again.
    fn accept(&mut self) {
        while let Ok((socket, _)) = self.listener.accept() {
            let set_up = socket.set_nonblocking(true).and_then(|()| socket.set_tcp_nodelay(true));
            let tls = self.tls.clone().map(ServerConnection::new).transpose();
            let (Ok(()), Ok(tls)) = (set_up, tls) else { continue };
            self.serials += 1;
            let entry = self.connections.vacant_entry();
            let key = entry.key() as u64;
            if self.poller.add(socket.as_fd(), key, Interest::Read).is_ok() {
                entry.insert(Connection {
                    socket,
                    tls: tls.map(Box::new),
                    serial: self.serials,
                    into: Vec::new(),
                    out: Vec::new(),
                    answers: 0,
                    is_closed: false,
                    interest: Interest::Read,
                });
            }
        }
    }

    /// Reads and answers what a connection has brought, and writes what it has room for.
    fn turn(&mut self, key: usize) {
        for _ in 0..READS_PER_TURN {
            let Some(connection) = self.connections.get_mut(key) else { return };
            match connection.read(&mut self.buffer) {
                Ok(0) => {
                    self.connections.remove(key);
                    return;
                }
                Ok(count) => {
                    connection.into.extend(self.buffer.iter().take(count));
                    self.answer(key);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.connections.remove(key);
                    return;
                }
            }
        }
        self.flush(key);
    }

    /// Decides on every whole question that a connection has brought.
    fn answer(&mut self, key: usize) {
        let now = self.now();
        let Some(connection) = self.connections.get_mut(key) else { return };
        let into = std::mem::take(&mut connection.into);
        let serial = connection.serial;
        let mut at = 0;
        while let Some((message, rest)) = into.get(at..).and_then(split_message) {
            at = into.len() - rest;
            let Some(fate) = self.injector.decide(now, message, Medium::Stream) else { continue };
            let mut message = message.to_vec();
            inject::answer(&mut message, &fate);
            self.hold(Held { key, serial, arrived: now, message }, &fate, now);
        }
        if let Some(connection) = self.connections.get_mut(key) {
            connection.into = into;
            connection.into.drain(..at);
        }
    }

    /// Gives an answer out at once, or keeps it until its time.
    fn hold(&mut self, held: Held, fate: &Fate, now: u64) {
        for _ in 0..fate.copies {
            let copy = Held { message: held.message.clone(), ..held };
            if fate.at <= now {
                self.give(&copy, now);
            } else if self.queue.push(fate.at, copy).is_err() {
                self.injector.truth.overflowed += 1;
            }
        }
    }

    /// Puts an answer behind those that its connection has still to write.
    fn give(&mut self, held: &Held, now: u64) {
        let truth = &mut self.injector.truth;
        let connection = self.connections.get_mut(held.key).filter(|c| c.serial == held.serial);
        let Some(connection) = connection.filter(|c| c.answers < self.close_after) else {
            truth.unsent += 1;
            return;
        };
        connection.answers += 1;
        let len = u16::try_from(held.message.len()).unwrap_or(u16::MAX);
        connection.out.extend(len.to_be_bytes());
        connection.out.extend_from_slice(&held.message);
        truth.sent += 1;
        truth.held.record(now.saturating_sub(held.arrived));
    }

    /// Writes what is due.
    fn release(&mut self) {
        let now = self.now();
        while let Some(held) = self.queue.pop(now) {
            self.give(&held, now);
            if self.dirty.last() != Some(&held.key) {
                self.dirty.push(held.key);
            }
        }
        for key in std::mem::take(&mut self.dirty) {
            self.flush(key);
        }
    }

    fn flush(&mut self, key: usize) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let done = connection.flush();
        let is_over = connection.answers >= self.close_after;
        let keep = match done {
            Ok(done) => {
                if done && is_over {
                    connection.goodbye();
                }
                let wanted = if done { Interest::Read } else { Interest::ReadWrite };
                let socket = connection.socket.as_fd();
                let changed = wanted != connection.interest;
                connection.interest = wanted;
                !changed || self.poller.modify(socket, key as u64, wanted).is_ok()
            }
            Err(_) => false,
        };
        if !keep {
            self.connections.remove(key);
        }
    }
}

impl Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            Some(tls) => read_tls(tls, &mut self.socket, buffer),
            None => self.socket.read(buffer),
        }
    }

    /// Writes as much as the kernel takes; true when nothing is left.
    fn flush(&mut self) -> io::Result<bool> {
        loop {
            if let Some(tls) = &mut self.tls
                && !flush_tls(tls, &mut self.socket)?
            {
                return Ok(false);
            }
            if self.out.is_empty() {
                return Ok(true);
            }
            let written = match &mut self.tls {
                Some(tls) => tls.writer().write(&self.out),
                None => self.socket.write(&self.out),
            };
            match written {
                Ok(count) => _ = self.out.drain(..count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// Closes this side. The socket stays until the client closes the other: closed with octets
    /// unread, it would be reset, and the last answers might be lost.
    fn goodbye(&mut self) {
        if std::mem::replace(&mut self.is_closed, true) {
            return;
        }
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            // Whoever does not read it has gone already.
            _ = flush_tls(tls, &mut self.socket);
        }
        _ = self.socket.shutdown(std::net::Shutdown::Write);
    }
}

/// Reads what TLS has brought, and lets it answer the other side.
pub(crate) fn read_tls(
    tls: &mut ServerConnection,
    socket: &mut Socket,
    buffer: &mut [u8],
) -> io::Result<usize> {
    loop {
        match tls.reader().read(buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            other => return other,
        }
        if tls.read_tls(socket)? == 0 {
            return Ok(0);
        }
        let processed = tls.process_new_packets();
        // Handshake, tickets, or the reason why there will be no connection.
        let flushed = flush_tls(tls, socket);
        processed.map_err(io::Error::other)?;
        flushed?;
    }
}

/// Writes what TLS has ready; true when nothing is left.
pub(crate) fn flush_tls(tls: &mut ServerConnection, socket: &mut Socket) -> io::Result<bool> {
    while tls.wants_write() {
        match tls.write_tls(socket) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// The first whole message of a stream (RFC 1035 section 4.2.2) and how many octets follow it.
fn split_message(stream: &[u8]) -> Option<(&[u8], usize)> {
    let (len, rest) = stream.split_first_chunk::<2>()?;
    let (message, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
    Some((message, rest.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    const QUESTION: [u8; 17] = [0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1];

    fn ask(stream: &mut TcpStream, count: usize) -> Vec<[u8; 19]> {
        let mut frame = vec![0, 17];
        frame.extend(QUESTION);
        // In one piece but for the last octet, which comes later.
        let all = frame.repeat(count);
        let (last, most) = all.split_last().unwrap();
        stream.write_all(most).unwrap();
        stream.write_all(&[*last]).unwrap();
        let mut answers = Vec::new();
        let mut answer = [0; 19];
        while answers.len() < count && stream.read_exact(&mut answer).is_ok() {
            answers.push(answer);
        }
        answers
    }

    fn connect(echo: &Echo) -> TcpStream {
        let stream = TcpStream::connect(echo.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    #[test]
    fn every_question_on_a_connection_is_answered_and_counted() {
        let any = "127.0.0.1:0".parse().unwrap();
        let latency = Some("2ms".parse().unwrap());
        let injection =
            Injection { latency, rcodes: "100%:REFUSED".parse().unwrap(), ..Injection::default() };
        let options = Options { injection, threads: 2, ..Options::default() };
        let echo = start(any, options).unwrap();
        for _ in 0..3 {
            let answers = ask(&mut connect(&echo), 40);
            assert_eq!(answers.len(), 40);
            assert!(answers.iter().all(|answer| answer[4] & 0x80 != 0 && answer[5] & 15 == 5));
        }
        let truth = echo.stop().unwrap().truth;
        assert!(truth.adds_up(), "{truth:?}");
        assert_eq!((truth.questions, truth.sent, truth.held.recorded()), (120, 120, 120));
        assert!(truth.held.min() >= Some(2_000_000));
    }

    #[test]
    fn a_connection_is_closed_after_the_answers_it_is_to_bring() {
        let options = Options { close_after: Some(5), ..Options::default() };
        let echo = start("127.0.0.1:0".parse().unwrap(), options).unwrap();
        assert_eq!(ask(&mut connect(&echo), 8).len(), 5);
        assert_eq!(ask(&mut connect(&echo), 5).len(), 5);
        let truth = echo.stop().unwrap().truth;
        assert!(truth.adds_up(), "{truth:?}");
        assert_eq!(truth.sent, 10, "{truth:?}");
    }
}
