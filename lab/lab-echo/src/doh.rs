//! The loop over connections with DNS over HTTPS (RFC 8484) on HTTP/2.
//!
//! `h2` is driven by hand, as in the generator: it is polled whenever its socket is ready or an answer is
//! due, so it needs no runtime, and answers leave when they are to.

mod request;

pub(crate) use request::{MEDIA_TYPE, MESSAGE_LEN_MAX, question};

use crate::front::{self, Front, Serve};
use crate::stream::{Options, flush_tls, read_tls};
use crate::udp::Echo;
use crate::{Fate, Medium, inject};
use bytes::Bytes;
use h2::server::{Connection as Http, Handshake, SendResponse};
use http::{Response, StatusCode, header};
use lab_sys::poll::Interest;
use request::Request;
use rustls::{ServerConfig, ServerConnection};
use slab::Slab;
use socket2::Socket;
use std::cell::RefCell;
use std::future::Future;
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Listens on `address` with the certificate of `options.tls`; port 0 is a free one.
pub fn start(address: SocketAddr, options: Options) -> io::Result<Echo> {
    let Options { injection, threads, tls, close_after, streams_max } = options;
    let Some(tls) = tls else {
        return Err(io::Error::new(ErrorKind::InvalidInput, "DNS over HTTPS needs a certificate"));
    };
    let close_after = close_after.unwrap_or(u64::MAX);
    front::start(address, threads, injection, move |front| Server {
        front,
        tls: tls.clone(),
        close_after,
        streams_max,
        connections: Slab::new(),
    })
}

/// A socket with TLS.
struct Pipe {
    socket: Socket,
    tls: ServerConnection,
}

/// The pipe as `h2` wants it. No task is woken: the loop polls when the socket is ready.
#[derive(Clone)]
struct PipeIo(Rc<RefCell<Pipe>>);

enum State {
    /// TLS and the preface of HTTP/2 are on their way.
    Greeting(Box<Handshake<PipeIo, Bytes>>),
    Open(Box<Http<PipeIo, Bytes>>),
}

struct Connection {
    pipe: Rc<RefCell<Pipe>>,
    state: State,
    serial: u64,
    /// Requests that are not whole yet.
    requests: Vec<Request>,
    /// Queries that are lost on purpose: their streams stay open until the client gives them up.
    lost: Vec<SendResponse<Bytes>>,
    answers: u64,
    interest: Interest,
}

/// An answer that waits.
struct Held {
    key: usize,
    serial: u64,
    arrived: u64,
    message: Vec<u8>,
    respond: SendResponse<Bytes>,
}

struct Server {
    front: Front<Held>,
    tls: Arc<ServerConfig>,
    close_after: u64,
    streams_max: Option<u32>,
    connections: Slab<Connection>,
}

impl Serve for Server {
    type Held = Held;

    fn front(&mut self) -> &mut Front<Held> {
        &mut self.front
    }

    fn release(&mut self) {
        let now = self.front.now();
        let mut dirty = Vec::new();
        while let Some(held) = self.front.queue.pop(now) {
            if dirty.last() != Some(&held.key) {
                dirty.push(held.key);
            }
            self.give(held, now);
        }
        for key in dirty {
            self.turn(key);
        }
    }

    fn admit(&mut self, socket: Socket, serial: u64) {
        let Ok(tls) = ServerConnection::new(self.tls.clone()) else { return };
        let entry = self.connections.vacant_entry();
        if self.front.poller.add(socket.as_fd(), entry.key() as u64, Interest::Read).is_ok() {
            let pipe = Rc::new(RefCell::new(Pipe { socket, tls }));
            let mut builder = h2::server::Builder::new();
            if let Some(most) = self.streams_max {
                builder.max_concurrent_streams(most);
            }
            let shake = builder.handshake(PipeIo(pipe.clone()));
            entry.insert(Connection {
                state: State::Greeting(Box::new(shake)),
                pipe,
                serial,
                requests: Vec::new(),
                lost: Vec::new(),
                answers: 0,
                interest: Interest::Read,
            });
        }
    }

    /// Lets a connection read and write, and decides on every whole query that it has brought.
    fn turn(&mut self, key: usize) {
        loop {
            let Some(connection) = self.connections.get_mut(key) else { return };
            let Some(whole) = connection.poll() else {
                self.connections.remove(key);
                return;
            };
            if whole.is_empty() {
                break;
            }
            let (serial, now) = (connection.serial, self.front.now());
            for (mut message, respond) in whole {
                let Some(fate) = self.front.injector.decide(now, &message, Medium::Stream) else {
                    // A message that is no query, or one to be lost: no answer.
                    self.keep(key, respond);
                    continue;
                };
                inject::answer(&mut message, &fate);
                self.hold(Held { key, serial, arrived: now, message, respond }, &fate, now);
            }
        }
        let Some(connection) = self.connections.get_mut(key) else { return };
        let wanted = connection.wanted();
        if wanted != connection.interest {
            connection.interest = wanted;
            let pipe = connection.pipe.borrow();
            if self.front.poller.modify(pipe.socket.as_fd(), key as u64, wanted).is_err() {
                drop(pipe);
                self.connections.remove(key);
            }
        }
    }
}

impl Server {
    fn keep(&mut self, key: usize, respond: SendResponse<Bytes>) {
        if let Some(connection) = self.connections.get_mut(key) {
            connection.lost.push(respond);
        }
    }

    /// Gives an answer out at once, or keeps it until its time. A request has one response, so a second
    /// copy is never sent.
    fn hold(&mut self, held: Held, fate: &Fate, now: u64) {
        self.front.injector.truth.unsent += u64::from(fate.copies.saturating_sub(1));
        if fate.copies == 0 {
            self.keep(held.key, held.respond);
        } else if fate.at <= now {
            self.give(held, now);
        } else if self.front.queue.push(fate.at, held).is_err() {
            self.front.injector.truth.overflowed += 1;
        }
    }

    fn give(&mut self, mut held: Held, now: u64) {
        let truth = &mut self.front.injector.truth;
        let connection = self.connections.get_mut(held.key).filter(|c| c.serial == held.serial);
        let Some(connection) = connection.filter(|c| c.answers < self.close_after) else {
            truth.unsent += 1;
            return;
        };
        let response = Response::builder()
            .header(header::CONTENT_TYPE, MEDIA_TYPE)
            .header(header::CONTENT_LENGTH, held.message.len())
            .body(());
        let sent = response.is_ok_and(|response| {
            let sent = held.respond.send_response(response, false);
            sent.and_then(|mut body| body.send_data(held.message.into(), true)).is_ok()
        });
        if !sent {
            // The client has given the query up.
            truth.unsent += 1;
            return;
        }
        connection.answers += 1;
        truth.sent += 1;
        truth.held.record(now.saturating_sub(held.arrived));
        if let State::Open(http) = &mut connection.state
            && connection.answers >= self.close_after
        {
            http.graceful_shutdown();
        }
    }
}

impl Connection {
    /// Lets HTTP/2 read and write. The queries that have become whole; `None` if it has ended.
    fn poll(&mut self) -> Option<Vec<(Vec<u8>, SendResponse<Bytes>)>> {
        let mut context = Context::from_waker(Waker::noop());
        if let State::Greeting(shake) = &mut self.state {
            match Pin::new(shake.as_mut()).poll(&mut context) {
                Poll::Pending => return Some(Vec::new()),
                Poll::Ready(opened) => self.state = State::Open(Box::new(opened.ok()?)),
            }
        }
        let State::Open(http) = &mut self.state else { return None };
        while let Poll::Ready(accepted) = http.poll_accept(&mut context) {
            let (request, respond) = accepted?.ok()?;
            self.requests.extend(Request::new(request, respond));
        }
        self.lost.retain_mut(|respond| respond.poll_reset(&mut context).is_pending());
        let mut whole = Vec::new();
        for mut request in std::mem::take(&mut self.requests) {
            match request.poll(&mut context) {
                Poll::Pending => self.requests.push(request),
                Poll::Ready(true) => whole.push((request.message, request.respond)),
                Poll::Ready(false) => {}
            }
        }
        Some(whole)
    }

    fn wanted(&self) -> Interest {
        if self.pipe.borrow().tls.wants_write() { Interest::ReadWrite } else { Interest::Read }
    }
}

/// Answers a request that carries no query.
fn refuse(mut respond: SendResponse<Bytes>, status: StatusCode) {
    let mut response = Response::new(());
    *response.status_mut() = status;
    // An error means that the client has gone.
    _ = respond.send_response(response, true);
}

impl AsyncRead for PipeIo {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Pipe { socket, tls } = &mut *self.0.borrow_mut();
        let read = read_tls(tls, socket, buffer.initialize_unfilled());
        pending(read).map_ok(|count| buffer.advance(count))
    }
}

impl AsyncWrite for PipeIo {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Pipe { socket, tls } = &mut *self.0.borrow_mut();
        // What does not fit into the socket waits in `h2`, where it is limited by its windows.
        if !flush_tls(tls, socket)? {
            return Poll::Pending;
        }
        let written = tls.writer().write(octets);
        flush_tls(tls, socket)?;
        pending(written)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Pipe { socket, tls } = &mut *self.0.borrow_mut();
        if flush_tls(tls, socket)? { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Pipe { socket, tls } = &mut *self.0.borrow_mut();
        tls.send_close_notify();
        flush_tls(tls, socket)?;
        Poll::Ready(socket.shutdown(std::net::Shutdown::Write))
    }
}

fn pending<T>(result: io::Result<T>) -> Poll<io::Result<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Poll::Pending,
        other => Poll::Ready(other),
    }
}
