//! DNS over HTTPS (RFC 8484) on HTTP/2: one stream per query.
//!
//! `h2` is driven by hand: it is polled whenever its socket is ready or a query was asked, so it
//! needs no runtime, and its times are those of the loop.

mod requests;

pub(super) use requests::{MESSAGE_LEN_MAX, Requests, carries_message};

use super::carrier::{Carrier, End, Leftover, Sink, Taken};
use super::pipe::{Pipe, is_pending};
use bytes::Bytes;
use h2::client::{Connection, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use slab::Slab;
use socket2::Socket;
use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};
use std::future::Future;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Queries taken before the connection is set up; RFC 9113 section 6.5.2 wants servers to allow
/// no fewer streams.
const EARLY_MAX: usize = 100;

type Shake = Pin<Box<dyn Future<Output = Result<Opened, h2::Error>>>>;
type Opened = (SendRequest<Bytes>, Connection<PipeIo, Bytes>);

pub(super) struct Doh {
    socket: Rc<Socket>,
    pipe: Rc<RefCell<Pipe>>,
    requests: Arc<Requests>,
    state: State,
    /// Queries without a stream yet.
    waiting: VecDeque<(u16, Vec<u8>)>,
    streams: Slab<Stream>,
    /// Streams that something happened to.
    woken: Arc<Woken>,
    /// Whether the server takes no more queries.
    is_over: bool,
    /// Whether streams were dropped that `h2` may still count.
    has_reset: bool,
}

enum State {
    /// TCP and TLS.
    SettingUp,
    /// The preface of HTTP/2 is on its way.
    Greeting(Shake),
    Open(Box<Opened>),
}

struct Stream {
    id: u16,
    waker: Waker,
    part: Part,
}

enum Part {
    Head(ResponseFuture),
    Body(RecvStream, Vec<u8>),
}

type Woken = Mutex<Vec<usize>>;

struct StreamWaker {
    key: usize,
    woken: Arc<Woken>,
}

impl Wake for StreamWaker {
    fn wake(self: Arc<Self>) {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner).push(self.key);
    }
}

/// What became of a stream.
enum Fate {
    Pending,
    Message(Vec<u8>),
    Rejected,
    /// The server has not looked at it.
    Returned,
}

impl Doh {
    pub(super) fn new(pipe: Pipe, requests: Arc<Requests>) -> Self {
        Self {
            socket: pipe.socket(),
            pipe: Rc::new(RefCell::new(pipe)),
            requests,
            state: State::SettingUp,
            waiting: VecDeque::new(),
            streams: Slab::new(),
            woken: Arc::default(),
            is_over: false,
            has_reset: false,
        }
    }

    fn set_up(&mut self, sink: &mut Sink<'_, '_>) -> Result<bool, End> {
        if let State::SettingUp = self.state {
            if !self.pipe.borrow_mut().establish(|| sink.connected())? {
                return Ok(false);
            }
            if self.pipe.borrow().alpn() != Some(b"h2") {
                return Err(End::NoProtocol("HTTP/2", "h2"));
            }
            let shake = h2::client::Builder::new()
                .enable_push(false)
                .initial_max_send_streams(EARLY_MAX)
                .handshake(PipeIo(self.pipe.clone()));
            self.state = State::Greeting(Box::pin(shake));
        }
        if let State::Greeting(shake) = &mut self.state {
            match shake.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Pending => return Ok(false),
                Poll::Ready(opened) => {
                    self.state = State::Open(Box::new(opened.map_err(http_end)?))
                }
            }
            sink.opened(self.pipe.borrow().handshake());
        }
        Ok(true)
    }

    /// Whether another stream may be opened now.
    fn has_room(&self) -> bool {
        let limit = match &self.state {
            State::Open(opened) => opened.0.current_max_send_streams(),
            State::SettingUp | State::Greeting(_) => EARLY_MAX,
        };
        self.streams.len() + self.waiting.len() < limit
    }

    /// Opens streams for the queries that wait for one.
    fn send(&mut self, sink: &mut Sink<'_, '_>) {
        let State::Open(opened) = &mut self.state else { return };
        while self.streams.len() < opened.0.current_max_send_streams() {
            // `h2` refuses a second request beyond the streams that it counts.
            if opened.0.poll_ready(&mut Context::from_waker(Waker::noop())).is_pending() {
                return;
            }
            let Some((id, message)) = self.waiting.pop_front() else { return };
            let Ok((request, body)) = self.requests.of(&message) else {
                sink.rejected(id);
                continue;
            };
            sink.wrote(id, sink.clock.now());
            let sent = opened.0.send_request(request, body.is_empty());
            let sent = sent.and_then(|(response, mut stream)| {
                if !body.is_empty() {
                    stream.send_data(body, true)?;
                }
                Ok(response)
            });
            match sent {
                Ok(response) => {
                    let entry = self.streams.vacant_entry();
                    let key = entry.key();
                    let waker = StreamWaker { key, woken: self.woken.clone() };
                    let waker = Waker::from(Arc::new(waker));
                    entry.insert(Stream { id, waker, part: Part::Head(response) });
                    self.woken.lock().unwrap_or_else(PoisonError::into_inner).push(key);
                }
                // GOAWAY: nothing more on this connection.
                Err(_) => {
                    self.is_over = true;
                    sink.returned(id);
                    self.waiting.drain(..).for_each(|(id, _)| sink.returned(id));
                    return;
                }
            }
        }
    }

    /// Lets HTTP/2 read and write; `Some` when it has ended.
    fn poll_connection(&mut self) -> Option<End> {
        let State::Open(opened) = &mut self.state else { return None };
        match Pin::new(&mut opened.1).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => None,
            Poll::Ready(Ok(())) => Some(End::Closed),
            Poll::Ready(Err(error)) => Some(http_end(error)),
        }
    }

    /// Looks at the streams that something happened to; whether there were any.
    fn poll_streams(&mut self, sink: &mut Sink<'_, '_>) -> bool {
        let woken = std::mem::take(&mut *self.woken.lock().unwrap_or_else(PoisonError::into_inner));
        for key in &woken {
            let Some(stream) = self.streams.get_mut(*key) else { continue };
            let id = stream.id;
            match stream.poll(sink) {
                Fate::Pending => continue,
                Fate::Message(mut message) => sink.stream_message(id, &mut message),
                Fate::Rejected => sink.rejected(id),
                Fate::Returned => {
                    self.is_over = true;
                    sink.returned(id);
                }
            }
            self.streams.remove(*key);
        }
        if let State::Open(opened) = &self.state
            && !woken.is_empty()
        {
            sink.streams_allowed(opened.0.current_max_send_streams() as u64);
        }
        !woken.is_empty()
    }
}

impl Stream {
    fn poll(&mut self, sink: &mut Sink<'_, '_>) -> Fate {
        let mut context = Context::from_waker(&self.waker);
        if let Part::Head(response) = &mut self.part {
            let response = match Pin::new(response).poll(&mut context) {
                Poll::Pending => return Fate::Pending,
                Poll::Ready(Err(error)) => return fate_of(&error),
                Poll::Ready(Ok(response)) => response,
            };
            sink.http_status(response.status().as_u16());
            if !carries_message(&response) {
                return Fate::Rejected;
            }
            self.part = Part::Body(response.into_body(), Vec::new());
        }
        let Part::Body(body, message) = &mut self.part else { return Fate::Pending };
        loop {
            match body.poll_data(&mut context) {
                Poll::Pending => return Fate::Pending,
                Poll::Ready(None) => return Fate::Message(std::mem::take(message)),
                Poll::Ready(Some(Err(error))) => return fate_of(&error),
                Poll::Ready(Some(Ok(data))) => {
                    message.extend_from_slice(&data);
                    _ = body.flow_control().release_capacity(data.len());
                    if message.len() > MESSAGE_LEN_MAX {
                        return Fate::Rejected;
                    }
                }
            }
        }
    }
}

/// What the error of a stream says about its query (RFC 9113 section 8.7).
fn fate_of(error: &h2::Error) -> Fate {
    let untouched = error.is_go_away() && error.reason() == Some(Reason::NO_ERROR)
        || error.reason() == Some(Reason::REFUSED_STREAM);
    if untouched && error.is_remote() { Fate::Returned } else { Fate::Rejected }
}

fn http_end(error: h2::Error) -> End {
    let text = format!("HTTP/2 failed: {error}");
    if error.is_go_away() && error.reason() == Some(Reason::NO_ERROR) {
        return End::Closed;
    }
    match error.into_io() {
        Some(error) if error.kind() != ErrorKind::Other => error.into(),
        _ => End::Protocol(text),
    }
}

impl Carrier for Doh {
    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn ask(&mut self, id: u16, message: &[u8]) -> Taken {
        if self.is_over {
            return Taken::Over;
        }
        if !self.has_room() {
            return Taken::Full;
        }
        let mut message = message.to_vec();
        // RFC 8484 section 4.1: the same query should be the same request.
        message.iter_mut().take(2).for_each(|octet| *octet = 0);
        self.waiting.push_back((id, message));
        Taken::Yes
    }

    fn forget(&mut self, ids: &HashSet<u16>) {
        self.waiting.retain(|(id, _)| !ids.contains(id));
        // `h2` resets a stream of which all parts are dropped (CANCEL).
        let before = self.streams.len();
        self.streams.retain(|_, stream| !ids.contains(&stream.id));
        self.has_reset |= self.streams.len() < before;
    }

    fn drive(&mut self, sink: &mut Sink<'_, '_>) -> Result<(), End> {
        if !self.set_up(sink)? {
            return Ok(());
        }
        loop {
            // A stream counts until its reset is written.
            let lost = if self.has_reset { self.poll_connection() } else { None };
            self.send(sink);
            self.has_reset &= !self.waiting.is_empty();
            let end = lost.or_else(|| self.poll_connection());
            let progress = self.poll_streams(sink);
            match end {
                Some(end) => return Err(end),
                None if progress => {}
                None => return Ok(()),
            }
        }
    }

    fn wants_write(&self) -> bool {
        self.pipe.borrow().wants_write()
    }

    fn close(&mut self, _: Instant) {
        self.pipe.borrow_mut().close();
    }

    fn leftover(&mut self) -> Leftover {
        let unwritten = self.waiting.drain(..).map(|(id, _)| id).collect();
        Leftover { unwritten, half_written: 0 }
    }
}

/// The pipe as `h2` wants it. No task is woken: the loop polls when the socket is ready.
struct PipeIo(Rc<RefCell<Pipe>>);

impl AsyncRead for PipeIo {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.0.borrow_mut().read(buffer.initialize_unfilled()) {
            Ok(count) => {
                buffer.advance(count);
                Poll::Ready(Ok(()))
            }
            Err(end) if is_pending(&end) => Poll::Pending,
            Err(End::Io(error)) => Poll::Ready(Err(error)),
            Err(End::Closed) => Poll::Ready(Ok(())),
            Err(end) => Poll::Ready(Err(io::Error::other(end.text()))),
        }
    }
}

impl AsyncWrite for PipeIo {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        pending(self.0.borrow_mut().write(octets))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.0.borrow_mut().flush() {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().close();
        Poll::Ready(Ok(()))
    }
}

fn pending<T>(result: io::Result<T>) -> Poll<io::Result<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Poll::Pending,
        other => Poll::Ready(other),
    }
}
