//! HTTP of client connections: octets in, queries out, and the other way round; and [`client`], that of connections to
//! upstreams. Knows no sockets.

mod age;
pub(crate) mod client;
mod doh;
mod grpc;
mod http1;
mod http2;
pub(crate) mod http3;
mod octets;
mod requests;
#[cfg(feature = "testing")]
pub(crate) mod testing;

use crate::limits::{HTTP_SENT_AT_ONCE, HTTP2_STREAMS_MAX};
use nodens_core::Now;
use nodens_core::config::{HttpServer, HttpStatus};
pub(crate) use requests::Dialect;

/// What begins a connection of HTTP/2 (RFC 9113 section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A query, and which request it came with.
pub(crate) struct Query {
    pub(crate) stream: u32,
    pub(crate) message: Vec<u8>,
}

/// What a session keeps to, in nanoseconds where it is a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// What is spoken in requests.
    pub(crate) dialect: Dialect,
    /// Requests under way at a time.
    pub(crate) streams: u32,
    /// For a request to arrive whole.
    pub(crate) read: u64,
    /// For a client to make room for a response.
    pub(crate) write: u64,
}

/// The HTTP of one connection.
pub(crate) struct Session {
    rules: Rules,
    version: Version,
    counted: Counted,
    /// The client sends no more.
    has_ended: bool,
    /// No more requests are taken.
    is_leaving: bool,
    /// There may be requests that have arrived and wait for what is in front of them.
    is_paused: bool,
}

enum Version {
    /// What has come fits both.
    Unknown(Vec<u8>),
    One(Box<http1::Session>),
    Two(Box<http2::Session>),
}

/// Responses since somebody looked, by their status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted([u32; HttpStatus::ALL.len()]);

impl Counted {
    fn add(&mut self, status: HttpStatus) {
        if let Some(count) = self.0.get_mut(status as usize) {
            *count = count.saturating_add(1);
        }
    }

    /// The statuses there were, and how often.
    pub(crate) fn each(self) -> impl Iterator<Item = (HttpStatus, u64)> {
        let counts = HttpStatus::ALL.into_iter().zip(self.0);
        counts.filter(|(_, count)| *count > 0).map(|(status, count)| (status, u64::from(count)))
    }
}

impl Rules {
    /// Those of a listener, with its times to read and to write.
    pub(crate) fn of(dialect: Dialect, server: HttpServer, (read, write): (u64, u64)) -> Self {
        let streams = server.streams.unwrap_or(HTTP2_STREAMS_MAX).min(HTTP2_STREAMS_MAX);
        Self { dialect, streams, read, write }
    }
}

impl Session {
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            rules,
            version: Version::Unknown(Vec::new()),
            counted: Counted::default(),
            has_ended: false,
            is_leaving: false,
            is_paused: false,
        }
    }

    /// Takes octets that have arrived.
    pub(crate) fn receive(&mut self, octets: &[u8]) {
        if octets.is_empty() {
            return;
        }
        match &mut self.version {
            Version::One(session) => session.receive(octets),
            Version::Two(session) => session.receive(octets),
            Version::Unknown(begun) => {
                begun.extend_from_slice(octets);
                let begun = std::mem::take(begun);
                // Whoever speaks gRPC and begins otherwise hears that from `h2`.
                if begun.starts_with(PREFACE) || self.rules.dialect == Dialect::Grpc {
                    let mut session = http2::Session::new(self.rules);
                    session.receive(&begun);
                    self.version = Version::Two(Box::new(session));
                } else if PREFACE.starts_with(&begun) {
                    self.version = Version::Unknown(begun);
                } else {
                    let mut session = http1::Session::default();
                    session.receive(&begun);
                    self.version = Version::One(Box::new(session));
                }
            }
        }
    }

    /// The next query of those that have arrived whole, unless the client first has to take what it is
    /// owed. Requests without one get their response.
    pub(crate) fn next(&mut self, now: Now) -> Option<Query> {
        let may_ask = self.held() < HTTP_SENT_AT_ONCE;
        self.is_paused = !may_ask;
        match &mut self.version {
            Version::Unknown(_) => None,
            Version::One(_) if self.is_leaving || !may_ask => None,
            Version::One(session) => session.next(now, &mut self.counted),
            // What the client makes room for, or sends all the same, is looked at with the output.
            Version::Two(_) if !may_ask => None,
            Version::Two(session) => session.next(now, &mut self.counted),
        }
    }

    /// Whatever else has arrived is asked for later.
    pub(crate) fn pause(&mut self) {
        self.is_paused = true;
    }

    /// Whether requests that have arrived wait, and need not any more.
    pub(crate) fn has_more(&self) -> bool {
        self.is_paused && self.held() < HTTP_SENT_AT_ONCE && !self.is_over()
    }

    /// Responds to a request with a DNS message.
    pub(crate) fn answer(&mut self, stream: u32, message: &[u8], now: Now) {
        let counted = &mut self.counted;
        match &mut self.version {
            Version::Unknown(_) => {}
            Version::One(session) => session.answer(stream, Some(message), now, counted),
            Version::Two(session) => session.answer(stream, Some(message), now, counted),
        }
    }

    /// Responds to a request whose query gets no response.
    pub(crate) fn pass_over(&mut self, stream: u32, now: Now) {
        let counted = &mut self.counted;
        match &mut self.version {
            Version::Unknown(_) => {}
            Version::One(session) => session.answer(stream, None, now, counted),
            Version::Two(session) => session.answer(stream, None, now, counted),
        }
    }

    /// The octets that are to be sent now.
    pub(crate) fn take_output(&mut self, now: Now) -> Vec<u8> {
        match &mut self.version {
            Version::Unknown(_) => Vec::new(),
            Version::One(session) => session.take_output(),
            Version::Two(session) => session.take_output(now, &mut self.counted),
        }
    }

    /// Whether a response has been made as a whole since the last call. Nothing else buys an idle connection
    /// time: not what HTTP/2 answers by itself.
    pub(crate) fn has_responded(&mut self) -> bool {
        match &mut self.version {
            Version::Unknown(_) => false,
            Version::One(session) => session.has_responded(),
            Version::Two(session) => session.has_responded(),
        }
    }

    /// Whether it speaks HTTP/2.
    pub(crate) fn is_two(&self) -> bool {
        matches!(self.version, Version::Two(_))
    }

    /// The responses since the last call.
    pub(crate) fn take_counted(&mut self) -> Counted {
        std::mem::take(&mut self.counted)
    }

    /// The client sends no more.
    pub(crate) fn end(&mut self) {
        self.has_ended = true;
    }

    /// No more requests are taken: the client is told so. Those whose queries are whole are answered.
    pub(crate) fn leave(&mut self) {
        if !std::mem::replace(&mut self.is_leaving, true) {
            match &mut self.version {
                Version::Unknown(_) => {}
                Version::One(session) => session.leave(),
                Version::Two(session) => session.leave(),
            }
        }
    }

    /// The same, and queries that nobody has asked for yet are refused.
    pub(crate) fn refuse(&mut self) {
        if let Version::Two(session) = &mut self.version {
            session.refuse();
        }
        self.leave();
    }

    /// Says the last words, once everything is answered.
    pub(crate) fn say_goodbye(&mut self, now: Now) {
        match &mut self.version {
            Version::Unknown(_) => {}
            Version::One(session) => session.leave(),
            Version::Two(session) => session.say_goodbye(now, &mut self.counted),
        }
        self.is_leaving = true;
    }

    /// Whether the client broke the rules or has left: nothing more comes of it.
    pub(crate) fn is_over(&self) -> bool {
        match &self.version {
            Version::Unknown(_) => false,
            Version::One(session) => session.is_over(),
            Version::Two(session) => session.is_over(),
        }
    }

    /// Whether it can use what the client sends.
    pub(crate) fn listens(&self) -> bool {
        let needs = match &self.version {
            Version::Unknown(_) | Version::One(_) => !self.is_leaving,
            // The client may have to make room for what is held.
            Version::Two(session) => !self.is_leaving || session.held() > 0,
        };
        needs && !self.has_ended && !self.is_over()
    }

    /// Whether what arrives next can only be used after the response that is under way.
    pub(crate) fn is_full(&self) -> bool {
        matches!(&self.version, Version::One(session) if session.is_asked())
    }

    /// Octets of responses that the client has no room for yet.
    pub(crate) fn held(&self) -> usize {
        match &self.version {
            Version::Unknown(_) | Version::One(_) => 0,
            Version::Two(session) => session.held(),
        }
    }

    /// Octets of memory it has, those of [`Session::held`] among them, beside what every connection of its
    /// kind has.
    pub(crate) fn cost(&self) -> usize {
        match &self.version {
            Version::Unknown(begun) => begun.capacity(),
            Version::One(session) => session.cost(),
            Version::Two(session) => session.cost(),
        }
    }

    /// Whether a request has arrived in part.
    pub(crate) fn has_begun(&self) -> bool {
        match &self.version {
            Version::Unknown(begun) => !begun.is_empty(),
            Version::One(session) => session.has_begun(),
            Version::Two(_) => false,
        }
    }

    /// When [`Session::expire`] has something to do.
    pub(crate) fn deadline(&self) -> Option<u64> {
        match &self.version {
            Version::Unknown(_) | Version::One(_) => None,
            Version::Two(session) => session.deadline(),
        }
    }

    /// Gives up requests that are not whole in time if the client is read, and responses that there was no
    /// room for.
    pub(crate) fn expire(&mut self, is_read: bool, now: Now) -> bool {
        match &mut self.version {
            Version::Unknown(_) | Version::One(_) => false,
            Version::Two(session) => session.expire(is_read, now),
        }
    }
}

#[cfg(test)]
mod tests;
