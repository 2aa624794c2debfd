//! `dnstap`: hands what is asked and answered to whoever writes it to a socket.

mod config;

use crate::config::Config;
use crate::handler::{Cx, Handle, Step};
use crate::handlers::Handler;
use crate::job::{Job, Transport};
use crate::time::Now;
use crate::upstream::{Carrier, Upstream};
use nodens_wire::{Header, header};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
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
}

/// A way to one writer. What does not fit is counted and dropped.
#[derive(Debug)]
pub struct Tap {
    /// What is wanted.
    pub spec: Spec,
    sender: SyncSender<Message>,
    receiver: Mutex<Option<Receiver<Message>>>,
    dropped: Arc<AtomicU64>,
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
}

impl Tap {
    fn new(spec: Spec) -> Self {
        let (sender, receiver) = sync_channel(spec.queue);
        Self { spec, sender, receiver: Mutex::new(Some(receiver)), dropped: Arc::default() }
    }

    /// The messages, and a count of those that were dropped; once.
    pub fn take_receiver(&self) -> Option<(Receiver<Message>, Arc<AtomicU64>)> {
        let receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some((receiver, self.dropped.clone()))
    }

    fn send(&self, mut message: Message, wire: &[u8]) {
        message.wire = self.spec.full.then(|| wire.to_vec());
        if let Err(TrySendError::Full(_)) = self.sender.try_send(message) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Handle for Dnstap {
    /// Before anything is asked upstream, so that messages are in order.
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        cx.job.tapped = true;
        let message = client_message(cx.job, Kind::ClientQuery, None);
        self.taps.iter().for_each(|tap| tap.send(message.clone(), &cx.job.request));
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
    }
}

/// Hands on the answer to a client as it is sent, if its question was.
pub(crate) fn answered(config: &Config, now: Now, job: &mut Job) {
    job.tapped = false;
    let Some(block) = config.blocks.get(job.current.block) else { return };
    let message = client_message(job, Kind::ClientResponse, Some(now.mono_ns));
    for tap in taps(&block.handlers) {
        tap.send(message.clone(), &job.current.response.wire);
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
    for tap in taps(&cx.block.handlers) {
        let query = Message {
            kind: Kind::ForwarderQuery,
            transport,
            asker: None,
            asked: Some(upstream.key.address),
            asked_ns: now_ns.saturating_sub(took_ns),
            answered_ns: None,
            wire: None,
        };
        let kind = Kind::ForwarderResponse;
        let response = Message { kind, answered_ns: Some(now_ns), ..query.clone() };
        // The ID is chosen where the question is sent, and the reply has the same.
        let mut asked = cx.job.current.forward.message.clone();
        header::set_id(&mut asked, Header::read(reply).map_or(0, |header| header.id));
        tap.send(query, &asked);
        tap.send(response, reply);
    }
}

fn taps(handlers: &[Handler]) -> impl Iterator<Item = &Tap> {
    let all = handlers.iter().filter_map(|handler| match handler {
        Handler::Dnstap(dnstap) => Some(&dnstap.taps),
        _ => None,
    });
    all.flatten().map(|tap| &**tap)
}
