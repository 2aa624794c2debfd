//! Ways to those who write down what is asked and answered (`dnstap`).

use crate::limits::TAP_MESSAGE_LEN;
use crate::log::Format;
use crate::transport::Transport;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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
    /// What they take in memory.
    octets: AtomicUsize,
    dropped: AtomicU64,
}

impl Waiting {
    /// Whether there is room for one more of `octets` where there may be `most`, which takes it then.
    fn takes(&self, octets: usize, most: usize) -> bool {
        let now = self.now.fetch_add(1, Ordering::Relaxed);
        let before = self.octets.fetch_add(octets, Ordering::Relaxed);
        if now < most && before.saturating_add(octets) <= most.saturating_mul(TAP_MESSAGE_LEN) {
            return true;
        }
        self.leaves(octets);
        self.dropped.fetch_add(1, Ordering::Relaxed);
        false
    }

    fn leaves(&self, octets: usize) {
        self.now.fetch_sub(1, Ordering::Relaxed);
        self.octets.fetch_sub(octets, Ordering::Relaxed);
    }
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
        self.receiver.recv_timeout(patience).inspect(|message| self.taken(message))
    }

    /// The messages that are there.
    pub fn now(&self) -> impl Iterator<Item = Message> {
        self.receiver.try_iter().inspect(|message| self.taken(message))
    }

    /// How many were dropped since the last call.
    pub fn take_dropped(&self) -> u64 {
        self.waiting.dropped.swap(0, Ordering::Relaxed)
    }

    fn taken(&self, message: &Message) {
        self.waiting.leaves(message.octets());
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

impl Message {
    /// Octets that it takes in memory.
    fn octets(&self) -> usize {
        let wire = self.wire.as_ref().map_or(0, Vec::capacity);
        size_of::<Self>() + wire + self.extra.as_ref().map_or(0, String::capacity)
    }
}

impl Tap {
    /// A way to a writer of what `spec` says.
    pub(crate) fn new(spec: Spec) -> Self {
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

    /// Hands a message to the writer, with the octets of DNS if they are wanted, and with the line
    /// that `extra` makes.
    pub(crate) fn send(
        &self,
        mut message: Message,
        wire: &[u8],
        extra: impl FnOnce(&Arc<Format>) -> String,
    ) {
        // Nothing is made of a message that will not be sent.
        if self.waiting.now.load(Ordering::Relaxed) >= self.spec.queue {
            self.waiting.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        message.wire = self.spec.full.then(|| wire.to_vec());
        message.extra = self.extra.as_ref().map(extra);
        if !self.waiting.takes(message.octets(), self.spec.queue) {
            return;
        }
        // Who takes no messages any more does not miss this one.
        _ = self.sender.send(message);
    }
}
