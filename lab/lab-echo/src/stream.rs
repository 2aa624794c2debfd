//! The loop over connections: TCP, with or without TLS.

use crate::front::{self, Front, Serve};
use crate::udp::Echo;
use crate::{Fate, Injection, Medium, inject};
use lab_sys::poll::Interest;
use nodens_wire::framing::{first_message, push_message};
use rustls::{ServerConfig, ServerConnection};
use slab::Slab;
use socket2::Socket;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

/// Octets read at once.
const READ_LEN: usize = 64 << 10;
/// Reads from one connection before others have their turn.
const READS_PER_TURN: usize = 4;

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
    /// Streams of HTTP/2 that a client may have open at once; without it there is no limit.
    pub streams_max: Option<u32>,
}

/// Listens on `address`; port 0 is a free one.
pub fn start(address: SocketAddr, options: Options) -> io::Result<Echo> {
    let Options { injection, threads, tls, close_after, streams_max: _ } = options;
    let close_after = close_after.unwrap_or(u64::MAX);
    front::start(address, threads, injection, move |front| Server {
        front,
        tls: tls.clone(),
        close_after,
        connections: Slab::new(),
        buffer: vec![0; READ_LEN],
        dirty: Vec::new(),
    })
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
    front: Front<Held>,
    tls: Option<Arc<ServerConfig>>,
    close_after: u64,
    connections: Slab<Connection>,
    buffer: Vec<u8>,
    /// Connections with answers to write.
    dirty: Vec<usize>,
}

impl Serve for Server {
    type Held = Held;

    fn front(&mut self) -> &mut Front<Held> {
        &mut self.front
    }

    fn release(&mut self) {
        let now = self.front.now();
        while let Some(held) = self.front.queue.pop(now) {
            self.give(&held, now);
            if self.dirty.last() != Some(&held.key) {
                self.dirty.push(held.key);
            }
        }
        for key in std::mem::take(&mut self.dirty) {
            self.flush(key);
        }
    }

    fn admit(&mut self, socket: Socket, serial: u64) {
        let Ok(tls) = self.tls.clone().map(ServerConnection::new).transpose() else { return };
        let entry = self.connections.vacant_entry();
        if self.front.poller.add(socket.as_fd(), entry.key() as u64, Interest::Read).is_ok() {
            entry.insert(Connection {
                socket,
                tls: tls.map(Box::new),
                serial,
                into: Vec::new(),
                out: Vec::new(),
                answers: 0,
                is_closed: false,
                interest: Interest::Read,
            });
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
}

impl Server {
    /// Decides on every whole query that a connection has brought.
    fn answer(&mut self, key: usize) {
        let now = self.front.now();
        let Some(connection) = self.connections.get_mut(key) else { return };
        let into = std::mem::take(&mut connection.into);
        let serial = connection.serial;
        let mut at = 0;
        while let Some((message, len)) = into.get(at..).and_then(first_message) {
            at += len;
            let Some(fate) = self.front.injector.decide(now, message, Medium::Stream) else {
                continue;
            };
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
            } else if self.front.queue.push(fate.at, copy).is_err() {
                self.front.injector.truth.overflowed += 1;
            }
        }
    }

    /// Puts an answer behind those that its connection has still to write.
    fn give(&mut self, held: &Held, now: u64) {
        let truth = &mut self.front.injector.truth;
        let connection = self.connections.get_mut(held.key).filter(|c| c.serial == held.serial);
        let Some(connection) = connection.filter(|c| c.answers < self.close_after) else {
            truth.unsent += 1;
            return;
        };
        connection.answers += 1;
        push_message(&mut connection.out, &held.message);
        truth.sent += 1;
        truth.held.record(now.saturating_sub(held.arrived));
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
                !changed || self.front.poller.modify(socket, key as u64, wanted).is_ok()
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
            // If it is not read, the peer has gone already.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;
    use std::time::Duration;

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
    fn every_query_on_a_connection_is_answered_and_counted() {
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
