//! `dnstap`: hands what is asked and answered to whoever writes it to a socket.

mod config;

use crate::config::Config;
use crate::handler::{Cx, Handle, Step};
use crate::handlers::Handler;
use crate::handlers::log::{Format, QueryRecord};
use crate::handlers::metadata;
use crate::job::{Job, Transport};
use crate::time::Now;
use crate::upstream::{Carrier, Upstream};
use nodens_wire::{Header, header};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use config::setup;

#[cfg(test)]
mod tests;

/// Messages that may wait for a writer, times the `queue` of the Corefile.
const QUEUE: usize = 10_000;

/// The directive at work.
#[derive(Debug)]
pub struct Dnstap {
    taps: Vec<Arc<Tap>>,
}

/// Where messages go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// A unix socket, by its path.
    Unix(String),
    /// `HOST:PORT`
    Tcp(String),
    /// The same, with TLS.
    Tls(String),
}

/// What one line of the Corefile asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Where messages go.
    pub target: Target,
    /// Whether the messages of DNS themselves are wanted.
    pub full: bool,
    /// The buffer of the socket to write, in octets.
    pub buffer: usize,
    /// Messages that may wait.
    pub queue: usize,
    /// What the server is called.
    pub identity: Vec<u8>,
    /// What the program is called.
    pub version: Vec<u8>,
    /// What is sent beside each message, with the placeholders of `log`; empty for nothing.
    pub extra: String,
    /// Whether any certificate will do, with [`Target::Tls`].
    pub skip_verify: bool,
}

/// A way to one writer. What does not fit is counted and dropped.
#[derive(Debug)]
pub struct Tap {
    /// What is wanted.
    pub spec: Spec,
    extra: Option<Arc<Format>>,
    sender: Sender<Message>,
    waiting: Arc<Waiting>,
    receiver: Mutex<Option<Receiver<Message>>>,
}

/// Counts of messages on their way. A bounded channel would take the memory for a full one at once.
#[derive(Debug, Default)]
struct Waiting {
    now: AtomicUsize,
    dropped: AtomicU64,
}

/// The messages for one writer.
#[derive(Debug)]
pub struct Messages {
    receiver: Receiver<Message>,
    waiting: Arc<Waiting>,
}

impl Messages {
    /// The next message, after `patience` at the latest.
    ///
    /// # Errors
    /// If there is none, or never will be.
    pub fn next_within(&self, patience: Duration) -> Result<Message, RecvTimeoutError> {
        self.receiver.recv_timeout(patience).inspect(|_| self.taken())
    }

    /// The messages that are there.
    pub fn now(&self) -> impl Iterator<Item = Message> {
        self.receiver.try_iter().inspect(|_| self.taken())
    }

    /// How many were dropped since the last call.
    pub fn take_dropped(&self) -> u64 {
        self.waiting.dropped.swap(0, Ordering::Relaxed)
    }

    fn taken(&self) {
        self.waiting.now.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a message is about, by its number in dnstap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A client asked.
    ClientQuery = 5,
    /// A client was answered.
    ClientResponse = 6,
    /// An upstream was asked.
    ForwarderQuery = 7,
    /// An upstream answered.
    ForwarderResponse = 8,
}

/// Something that was asked or answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What it is about.
    pub kind: Kind,
    /// How it went.
    pub transport: Transport,
    /// Who asked, if that is known.
    pub asker: Option<SocketAddr>,
    /// Who was asked, if that is known.
    pub asked: Option<SocketAddr>,
    /// When it was asked, monotonic nanoseconds.
    pub asked_ns: u64,
    /// When it was answered, the same.
    pub answered_ns: Option<u64>,
    /// The message of DNS, if `full` is wanted.
    pub wire: Option<Vec<u8>>,
    /// What goes with it, if that is wanted.
    pub extra: Option<String>,
}

impl Tap {
    fn new(spec: Spec) -> Self {
        let (sender, receiver) = channel();
        let extra = (!spec.extra.is_empty()).then(|| Arc::new(Format::of_question(&spec.extra)));
        let (waiting, receiver) = (Arc::default(), Mutex::new(Some(receiver)));
        Self { spec, extra, sender, waiting, receiver }
    }

    /// The messages; once.
    pub fn take_messages(&self) -> Option<Messages> {
        let receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(Messages { receiver, waiting: self.waiting.clone() })
    }

    fn send(&self, source: metadata::Source<'_>, mut message: Message, wire: &[u8]) {
        if self.waiting.now.fetch_add(1, Ordering::Relaxed) >= self.spec.queue {
            self.waiting.now.fetch_sub(1, Ordering::Relaxed);
            self.waiting.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        message.wire = self.spec.full.then(|| wire.to_vec());
        let extra = self.extra.as_ref();
        message.extra = extra.map(|format| QueryRecord::new(format, source).line());
        // Who takes no messages any more does not miss this one.
        _ = self.sender.send(message);
    }
}

impl Handle for Dnstap {
    /// Before anything is asked upstream, so that messages are in order.
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        if !cx.job.current.is_clients() {
            return Step::Next;
        }
        cx.job.tapped = true;
        let message = client_message(cx.job, Kind::ClientQuery, None);
        let source = metadata::Source { job: cx.job, block: cx.block };
        self.taps.iter().for_each(|tap| tap.send(source, message.clone(), &cx.job.request));
        Step::Next
    }
}

fn client_message(job: &Job, kind: Kind, answered_ns: Option<u64>) -> Message {
    let client = job.client();
    Message {
        kind,
        transport: client.transport,
        asker: Some(client.peer),
        // CoreDNS leaves it out: a socket for all addresses does not know it.
        asked: None,
        asked_ns: job.received.mono_ns,
        answered_ns,
        wire: None,
        extra: None,
    }
}

/// Hands on the answer to a client as it is sent, if its question was.
pub(crate) fn answered(config: &Config, now: Now, job: &mut Job) {
    job.tapped = false;
    let Some(block) = config.blocks.get(job.current.block) else { return };
    let message = client_message(job, Kind::ClientResponse, Some(now.mono_ns));
    let source = metadata::Source { job, block };
    for tap in taps(&block.handlers) {
        tap.send(source, message.clone(), &job.current.response.wire);
    }
}

/// Hands on what an upstream was asked and has answered.
pub(crate) fn forwarded(
    cx: &Cx<'_>,
    upstream: &Upstream,
    carrier: Carrier,
    took: Duration,
    reply: &[u8],
) {
    let now_ns = cx.now.mono_ns;
    let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    let transport = match carrier {
        Carrier::Udp => Transport::Udp,
        Carrier::Tcp => Transport::Tcp,
    };
    let source = metadata::Source { job: cx.job, block: cx.block };
    for tap in taps(&cx.block.handlers) {
        let query = Message {
            kind: Kind::ForwarderQuery,
            transport,
            asker: None,
            asked: Some(upstream.key.address),
            asked_ns: now_ns.saturating_sub(took_ns),
            answered_ns: None,
            wire: None,
            extra: None,
        };
        let kind = Kind::ForwarderResponse;
        let response = Message { kind, answered_ns: Some(now_ns), ..query.clone() };
        // The ID is chosen where the question is sent, and the reply has the same.
        let mut asked = cx.job.current.forward.message.clone();
        header::set_id(&mut asked, Header::read(reply).map_or(0, |header| header.id));
        tap.send(source, query, &asked);
        tap.send(source, response, reply);
    }
}

fn taps(handlers: &[Handler]) -> impl Iterator<Item = &Tap> {
    let all = handlers.iter().filter_map(|handler| match handler {
        Handler::Dnstap(dnstap) => Some(&dnstap.taps),
        _ => None,
    });
    all.flatten().map(|tap| &**tap)
}
