//! HTTP of a client's connection without its socket, for fuzz targets: octets in, queries out, and back.

use super::{Dialect, Rules, Session};
use nodens_core::Now;

/// What is spoken in requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requests {
    /// DNS over HTTPS (RFC 8484).
    Doh,
    /// Calls of gRPC.
    Grpc,
}

/// A query, and the number of the request that it came with.
pub type Asked = (u32, Vec<u8>);

/// The server's side of a connection. Times are in nanoseconds.
pub struct HttpSession(Session);

impl HttpSession {
    /// A connection on which nothing has arrived. A request has `read` to arrive whole, a client `write` to
    /// make room for a response.
    pub fn new(requests: Requests, streams: u32, (read, write): (u64, u64)) -> Self {
        let dialect = match requests {
            Requests::Doh => Dialect::Doh,
            Requests::Grpc => Dialect::Grpc,
        };
        Self(Session::new(Rules { dialect, streams, read, write }))
    }

    /// Takes octets that have arrived.
    pub fn arrive(&mut self, octets: &[u8]) {
        self.0.receive(octets);
    }

    /// The next query, if one is whole and may be asked.
    pub fn next(&mut self, at: u64) -> Option<Asked> {
        self.0.next(now(at)).map(|query| (query.stream, query.message))
    }

    /// Responds to a request: with a message, or with what says that there is none.
    pub fn answer(&mut self, stream: u32, message: Option<&[u8]>, at: u64) {
        match message {
            Some(message) => self.0.answer(stream, message, now(at)),
            None => self.0.pass_over(stream, now(at)),
        }
    }

    /// The octets that are to be sent now.
    pub fn sent(&mut self, at: u64) -> Vec<u8> {
        self.0.take_output(now(at))
    }

    /// Time has passed. `is_read` says whether the client's octets were read meanwhile.
    pub fn expire(&mut self, is_read: bool, at: u64) {
        self.0.expire(is_read, now(at));
    }

    /// The client sends no more.
    pub fn end(&mut self) {
        self.0.end();
    }

    /// Takes no more requests; with `refuses` those that are whole neither.
    pub fn leave(&mut self, refuses: bool) {
        if refuses { self.0.refuse() } else { self.0.leave() }
    }

    /// Says the last words.
    pub fn part(&mut self, at: u64) {
        self.0.say_goodbye(now(at));
    }

    /// Whether nothing more comes of the connection.
    pub fn is_over(&self) -> bool {
        self.0.is_over()
    }

    /// Octets of responses that the client has no room for.
    pub fn held(&self) -> usize {
        self.0.held()
    }

    /// Octets of memory, but for what every connection has.
    pub fn cost(&self) -> usize {
        self.0.cost()
    }

    /// When [`HttpSession::expire`] has something to do.
    pub fn deadline(&self) -> Option<u64> {
        self.0.deadline()
    }
}

fn now(mono_ns: u64) -> Now {
    Now { mono_ns, unix_s: 0 }
}
