//! DNS over HTTPS (RFC 8484) on HTTP/3 (RFC 9114): one stream per query.
//!
//! `h3` is polled by hand: a query's exchange when something happens to its stream, the connection
//! whenever it is driven. So it needs no runtime, and its times are those of the loop.

use super::carrier::{End, Sink, Taken};
use super::doh::{MESSAGE_LEN_MAX, Requests, carries_message};
use super::quic::Protocol;
use bytes::{Buf, Bytes};
use h3::client::{Connection, SendRequest};
use h3::error::{Code, ConnectionError, StreamError};
use http::{Request, header};
use lab_http3::{Opener, Quic, Shared, Slot};
use quinn_proto::{StreamEvent, StreamId, VarInt};
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

type Starting = Pin<Box<dyn Future<Output = Result<Http, ConnectionError>>>>;
type Http = (Connection<Quic, Bytes>, SendRequest<Opener, Bytes>);

pub(super) struct Doh3 {
    connection: Shared,
    requests: Arc<Requests>,
    slot: Slot,
    state: State,
    exchanges: HashMap<StreamId, Exchange>,
    /// Exchanges that were over as soon as they began.
    over: Vec<(Exchange, Result<Vec<u8>, Loss>)>,
    /// Whether the server takes no more queries.
    is_closing: bool,
}

enum State {
    /// Our settings are on their way.
    Starting(Starting),
    Open(Box<Http>),
}

/// A query and what becomes of it.
struct Exchange {
    id: u16,
    course: Pin<Box<dyn Future<Output = Result<Vec<u8>, Loss>>>>,
    /// The status of the response, once it has come.
    status: Rc<Cell<Option<u16>>>,
}

/// Why there is no answer.
enum Loss {
    Rejected,
    /// The server has not looked at the query.
    Returned,
}

impl From<StreamError> for Loss {
    /// RFC 9114 section 4.1.1; `RemoteClosing` is that of a request after GOAWAY.
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::RemoteClosing { .. } => Self::Returned,
            StreamError::RemoteTerminate { code, .. } if code == Code::H3_REQUEST_REJECTED => {
                Self::Returned
            }
            _ => Self::Rejected,
        }
    }
}

impl Doh3 {
    pub(super) fn new(connection: Shared, requests: Arc<Requests>) -> Self {
        let slot = Slot::default();
        Self {
            state: starting(&connection, &slot),
            connection,
            requests,
            slot,
            exchanges: HashMap::new(),
            over: Vec::new(),
            is_closing: false,
        }
    }

    fn settle(&mut self, exchange: &Exchange, end: Result<Vec<u8>, Loss>, sink: &mut Sink<'_, '_>) {
        if let Some(status) = exchange.status.get() {
            sink.http_status(status);
        }
        match end {
            Ok(mut message) => sink.stream_message(exchange.id, &mut message),
            Err(Loss::Rejected) => sink.rejected(exchange.id),
            Err(Loss::Returned) => {
                self.is_closing = true;
                sink.returned(exchange.id);
            }
        }
    }
}

fn starting(connection: &Shared, slot: &Slot) -> State {
    let quic = Quic::new(connection.clone(), slot.clone());
    State::Starting(Box::pin(async move {
        // Frames and streams without a meaning would only be load.
        h3::client::builder().send_grease(false).build(quic).await
    }))
}

/// Sends a query and takes the response.
async fn exchange(
    mut http: SendRequest<Opener, Bytes>,
    request: Request<()>,
    body: Bytes,
    status: Rc<Cell<Option<u16>>>,
) -> Result<Vec<u8>, Loss> {
    let mut stream = http.send_request(request).await?;
    // A server may answer before it has read all, and tell us to stop with H3_NO_ERROR.
    let is_early = |error: &StreamError| matches!(error, StreamError::RemoteTerminate { code, .. } if *code == Code::H3_NO_ERROR);
    let sent = if body.is_empty() { Ok(()) } else { stream.send_data(body).await };
    let sent = if sent.is_ok() { stream.finish().await } else { sent };
    sent.or_else(|error| if is_early(&error) { Ok(()) } else { Err(error) })?;
    let response = stream.recv_response().await?;
    status.set(Some(response.status().as_u16()));
    if !carries_message(&response) {
        return Err(Loss::Rejected);
    }
    let mut message = Vec::new();
    while let Some(mut data) = stream.recv_data().await? {
        if message.len() + data.remaining() > MESSAGE_LEN_MAX {
            return Err(Loss::Rejected);
        }
        message.extend_from_slice(&data.copy_to_bytes(data.remaining()));
    }
    // `h3` takes the end of the stream for the end of the body, even within a frame.
    let len = response.headers().get(header::CONTENT_LENGTH);
    let is_whole = len.is_none_or(|len| len.as_bytes() == message.len().to_string().as_bytes());
    if is_whole { Ok(message) } else { Err(Loss::Rejected) }
}

fn poll<T>(future: &mut Pin<Box<dyn Future<Output = T>>>) -> Poll<T> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

fn http_end(error: &ConnectionError) -> End {
    End::Protocol(format!("HTTP/3 failed: {error}"))
}

impl Protocol for Doh3 {
    const NAME: (&'static str, &'static str) = ("HTTP/3", "h3");
    const NO_ERROR: VarInt = lab_http3::NO_ERROR;

    fn start(&mut self) -> Result<bool, End> {
        if let State::Starting(starting) = &mut self.state {
            match poll(starting) {
                Poll::Pending => return Ok(false),
                Poll::Ready(http) => {
                    self.state = State::Open(Box::new(http.map_err(|error| http_end(&error))?));
                }
            }
        }
        Ok(true)
    }

    fn send(&mut self, id: u16, message: &[u8]) -> Taken {
        let State::Open(http) = &mut self.state else { return Taken::Full };
        if self.is_closing {
            return Taken::Over;
        }
        let Some(stream) = self.slot.fill(&self.connection) else { return Taken::Full };
        let status = Rc::<Cell<_>>::default();
        let course: Pin<Box<dyn Future<Output = _>>> = match self.requests.of(message) {
            Ok((request, body)) => {
                Box::pin(exchange(http.1.clone(), request, body, status.clone()))
            }
            Err(_) => Box::pin(std::future::ready(Err(Loss::Rejected))),
        };
        let mut exchange = Exchange { id, course, status };
        match poll(&mut exchange.course) {
            Poll::Pending => _ = self.exchanges.insert(stream, exchange),
            Poll::Ready(end) => self.over.push((exchange, end)),
        }
        Taken::Yes
    }

    fn forget(&mut self, ids: &HashSet<u16>) {
        // What is dropped before its end is cancelled.
        self.exchanges.retain(|_, exchange| !ids.contains(&exchange.id));
    }

    fn on_stream(&mut self, event: StreamEvent, sink: &mut Sink<'_, '_>) {
        let (StreamEvent::Readable { id }
        | StreamEvent::Writable { id }
        | StreamEvent::Stopped { id, .. }) = event
        else {
            return;
        };
        // Other streams are those of the connection, which has its turn anyway.
        let Some(exchange) = self.exchanges.get_mut(&id) else { return };
        if let Poll::Ready(end) = poll(&mut exchange.course)
            && let Some(exchange) = self.exchanges.remove(&id)
        {
            self.settle(&exchange, end, sink);
        }
    }

    fn turn(&mut self, sink: &mut Sink<'_, '_>) -> Result<(), End> {
        for (exchange, end) in std::mem::take(&mut self.over) {
            self.settle(&exchange, end, sink);
        }
        let State::Open(http) = &mut self.state else { return Ok(()) };
        match http.0.poll_close(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => Ok(()),
            Poll::Ready(error) => Err(http_end(&error)),
        }
    }

    fn is_idle(&self) -> bool {
        self.exchanges.is_empty()
    }

    fn start_again(&mut self) -> Vec<u16> {
        let mut lost: Vec<_> = self.exchanges.drain().collect();
        lost.sort_by_key(|(stream, _)| *stream);
        self.slot = Slot::default();
        self.state = starting(&self.connection, &self.slot);
        let lost = lost.iter().map(|(_, exchange)| exchange.id);
        lost.chain(std::mem::take(&mut self.over).iter().map(|(exchange, _)| exchange.id)).collect()
    }
}
