//! DNS over HTTPS (RFC 8484) on HTTP/3 (RFC 9114), beside DNS over QUIC in the loop of [`crate::quic`].
//!
//! `h3` is driven by hand, as in the generator: it is polled whenever a datagram came or an answer is due,
//! so it needs no runtime, and answers leave when they are to.

use crate::doh::{MEDIA_TYPE, MESSAGE_LEN_MAX, question};
use crate::quic::{self, Options, Protocol};
use crate::udp::Echo;
use bytes::{Buf, Bytes};
use h3::error::ConnectionError;
use h3::server::{Connection, RequestResolver, RequestStream};
use http::{Response, header};
use lab_http3::{Quic, Shared, Slot, Stream};
use quinn_proto::{StreamId, VarInt};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

/// Listens on `address`; port 0 is a free one.
pub fn start(address: SocketAddr, options: Options) -> io::Result<Echo> {
    quic::serve::<Doh3>(address, options)
}

type Task<T> = Pin<Box<dyn Future<Output = T>>>;
type Http = Connection<Quic, Bytes>;
/// Where an answer goes.
type Respond = RequestStream<Stream, Bytes>;
/// Where the answer goes, and the query.
type Asked = (Respond, Vec<u8>);

struct Doh3 {
    state: State,
    /// Requests that are not whole yet.
    requests: Vec<Task<Option<Asked>>>,
    /// Answers that the client has no room for yet.
    answering: Vec<Task<bool>>,
    /// Queries that are lost on purpose: their streams stay open until the client gives them up.
    lost: Vec<Respond>,
    /// Answers after which the client is to leave.
    close_after: u64,
    answers: u64,
}

enum State {
    /// Our settings are on their way.
    Starting(Task<Result<Http, ConnectionError>>),
    Open(Box<Http>),
    /// The client broke the rules, and the connection was closed.
    Over,
}

fn poll<T>(task: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Poll<T> {
    task.poll(&mut Context::from_waker(Waker::noop()))
}

impl Protocol for Doh3 {
    type Stream = Respond;

    const NO_ERROR: VarInt = lab_http3::NO_ERROR;

    fn new(connection: Shared, close_after: u64) -> Self {
        let quic = Quic::new(connection, Slot::default());
        let start = async move {
            // Frames and streams without a meaning would only be load.
            h3::server::builder().send_grease(false).build(quic).await
        };
        Self {
            state: State::Starting(Box::pin(start)),
            requests: Vec::new(),
            answering: Vec::new(),
            lost: Vec::new(),
            close_after,
            answers: 0,
        }
    }

    fn turn(&mut self) -> Vec<Asked> {
        self.accept();
        self.answering.retain_mut(|answer| poll(answer.as_mut()).is_pending());
        let mut whole = Vec::new();
        for mut request in std::mem::take(&mut self.requests) {
            match poll(request.as_mut()) {
                Poll::Pending => self.requests.push(request),
                Poll::Ready(asked) => whole.extend(asked),
            }
        }
        whole
    }

    fn answer(&mut self, stream: Respond, message: &[u8]) -> bool {
        if self.answers >= self.close_after {
            return false;
        }
        let mut answer: Task<bool> = Box::pin(respond(stream, Bytes::copy_from_slice(message)));
        match poll(answer.as_mut()) {
            Poll::Ready(false) => return false,
            Poll::Ready(true) => {}
            // It is on its way, as far as the client has room.
            Poll::Pending => self.answering.push(answer),
        }
        self.answers += 1;
        if self.answers >= self.close_after {
            self.say_goodbye();
        }
        true
    }

    fn lose(&mut self, stream: Respond) {
        self.lost.push(stream);
    }

    fn stopped(&mut self, stream: StreamId) {
        self.lost.retain(|lost| lost.send_id().into_inner() != u64::from(stream));
    }
}

impl Doh3 {
    /// Takes the requests that have begun.
    fn accept(&mut self) {
        if let State::Starting(start) = &mut self.state {
            match poll(start.as_mut()) {
                Poll::Pending => return,
                Poll::Ready(Ok(http)) => self.state = State::Open(Box::new(http)),
                Poll::Ready(Err(_)) => self.state = State::Over,
            }
        }
        while let State::Open(http) = &mut self.state {
            let accepted = poll(pin!(http.accept()));
            match accepted {
                Poll::Ready(Ok(Some(request))) => self.requests.push(Box::pin(asked(request))),
                // The client will ask nothing more, or has gone.
                Poll::Pending | Poll::Ready(Ok(None)) => return,
                Poll::Ready(Err(_)) => self.state = State::Over,
            }
        }
    }

    /// Tells the client that no further request is taken; it closes the connection when it has its answers.
    fn say_goodbye(&mut self) {
        if let State::Open(http) = &mut self.state {
            // The first request that is not taken is one behind the last. The control stream has room for
            // a frame, and without it the client only learns later.
            _ = poll(pin!(http.shutdown(1)));
        }
    }
}

/// The query of a request, once it is whole; requests without one are refused.
async fn asked(request: RequestResolver<Quic, Bytes>) -> Option<Asked> {
    let (request, mut stream) = request.resolve_request().await.ok()?;
    let mut message = match question(&request) {
        Ok(message) => message,
        Err(status) => {
            let mut response = Response::new(());
            *response.status_mut() = status;
            // An error means that the client has gone.
            stream.send_response(response).await.ok()?;
            stream.finish().await.ok()?;
            return None;
        }
    };
    while let Some(mut data) = stream.recv_data().await.ok()? {
        if message.len() + data.remaining() > MESSAGE_LEN_MAX {
            return None;
        }
        message.extend_from_slice(&data.copy_to_bytes(data.remaining()));
    }
    Some((stream, message))
}

/// Sends an answer; false if the client has given the query up.
async fn respond(mut stream: Respond, message: Bytes) -> bool {
    let response = Response::builder()
        .header(header::CONTENT_TYPE, MEDIA_TYPE)
        .header(header::CONTENT_LENGTH, message.len())
        .body(());
    let Ok(response) = response else { return false };
    stream.send_response(response).await.is_ok()
        && stream.send_data(message).await.is_ok()
        && stream.finish().await.is_ok()
}
