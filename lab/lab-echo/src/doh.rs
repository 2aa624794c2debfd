//! The loop over connections with DNS over HTTPS (RFC 8484) on HTTP/2.
//!
//! `h2` is driven by hand, as in the generator: it is polled whenever its socket is ready or an answer is
//! due, so it needs no runtime, and answers leave when they are to.

mod request;

use crate::queue::Queue;
use crate::stream::{Options, flush_tls, read_tls};
use crate::udp::{Echo, Report};
use crate::{Fate, Injector, Medium, inject, listen};
use bytes::Bytes;
use h2::server::{Connection as Http, Handshake, SendResponse};
use http::{Response, StatusCode, header};
use lab_sys::poll::{Interest, Poller, Ready};
use request::{MEDIA_TYPE, Request};
use rustls::{ServerConfig, ServerConnection};
use slab::Slab;
use socket2::{Socket, Type};
use std::cell::RefCell;
use std::future::Future;
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

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

/// Listens on `address` with the certificate of `options.tls`; port 0 is a free one.
pub fn start(address: SocketAddr, options: Options) -> io::Result<Echo> {
    let Some(tls) = options.tls else {
        return Err(io::Error::new(ErrorKind::InvalidInput, "DNS over HTTPS needs a certificate"));
    };
    let count = options.threads.max(1);
    let (address, listeners) = listen::on_one_port(address, Type::STREAM, count)?;
    for listener in &listeners {
        listener.listen(BACKLOG)?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let begin = Instant::now();
    let close_after = options.close_after.unwrap_or(u64::MAX);
    let injectors = Injector::for_threads(options.injection, count);
    let threads = listeners.into_iter().zip(injectors).map(|(listener, injector)| {
        let (stop, tls) = (stop.clone(), tls.clone());
        std::thread::spawn(move || {
            Server::new(listener, injector, begin, tls, close_after)?.serve(&stop)
        })
    });
    let threads = threads.collect();
    Ok(Echo::of(address, stop, threads))
}

/// A socket with TLS.
struct Pipe {
    socket: Socket,
    tls: ServerConnection,
}

/// The pipe as `h2` wants it. Nobody is woken: the loop polls when the socket is ready.
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
    /// Questions that are lost on purpose: their streams stay open until the client gives them up.
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
    listener: Socket,
    poller: Poller,
    begin: Instant,
    injector: Injector,
    tls: Arc<ServerConfig>,
    close_after: u64,
    connections: Slab<Connection>,
    serials: u64,
    queue: Queue<Held>,
}

impl Server {
    fn new(
        listener: Socket,
        injector: Injector,
        begin: Instant,
        tls: Arc<ServerConfig>,
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
                    self.drive(ready.token as usize);
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
            let tls = ServerConnection::new(self.tls.clone());
            let (Ok(()), Ok(tls)) = (set_up, tls) else { continue };
            self.serials += 1;
            let entry = self.connections.vacant_entry();
            if self.poller.add(socket.as_fd(), entry.key() as u64, Interest::Read).is_ok() {
                let pipe = Rc::new(RefCell::new(Pipe { socket, tls }));
                entry.insert(Connection {
                    state: State::Greeting(Box::new(h2::server::handshake(PipeIo(pipe.clone())))),
                    pipe,
                    serial: self.serials,
                    requests: Vec::new(),
                    lost: Vec::new(),
                    answers: 0,
                    interest: Interest::Read,
                });
            }
        }
    }

    /// Lets a connection read and write, and decides on every whole question that it has brought.
    fn drive(&mut self, key: usize) {
        loop {
            let Some(connection) = self.connections.get_mut(key) else { return };
            let Some(whole) = connection.poll() else {
                self.connections.remove(key);
                return;
            };
            if whole.is_empty() {
                break;
            }
            let (serial, now) = (connection.serial, self.now());
            for (mut message, respond) in whole {
                let Some(fate) = self.injector.decide(now, &message, Medium::Stream) else {
                    // A message that is no question, or one to be lost: no answer.
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
            if self.poller.modify(pipe.socket.as_fd(), key as u64, wanted).is_err() {
                drop(pipe);
                self.connections.remove(key);
            }
        }
    }

    fn keep(&mut self, key: usize, respond: SendResponse<Bytes>) {
        if let Some(connection) = self.connections.get_mut(key) {
            connection.lost.push(respond);
        }
    }

    /// Gives an answer out at once, or keeps it until its time. A request has one response, so a second
    /// copy is never sent.
    fn hold(&mut self, held: Held, fate: &Fate, now: u64) {
        self.injector.truth.unsent += u64::from(fate.copies.saturating_sub(1));
        if fate.copies == 0 {
            self.keep(held.key, held.respond);
        } else if fate.at <= now {
            self.give(held, now);
        } else if self.queue.push(fate.at, held).is_err() {
            self.injector.truth.overflowed += 1;
        }
    }

    fn give(&mut self, mut held: Held, now: u64) {
        let truth = &mut self.injector.truth;
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
            // The client has given the question up.
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

    /// Writes what is due.
    fn release(&mut self) {
        let now = self.now();
        let mut dirty = Vec::new();
        while let Some(held) = self.queue.pop(now) {
            if dirty.last() != Some(&held.key) {
                dirty.push(held.key);
            }
            self.give(held, now);
        }
        for key in dirty {
            self.drive(key);
        }
    }
}

impl Connection {
    /// Lets HTTP/2 read and write. The questions that have become whole; `None` if it has ended.
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

/// Answers a request that carries no question.
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
