//! Upstreams: the servers questions are forwarded to, one pool for the process.
//!
//! What all workers learn about an upstream (is it up, how fast does it answer) is kept here per
//! carrier, in atomics: a server whose TCP is stuck may well answer over UDP.

mod path;
mod primary;
mod series;

/// How an upstream is asked: by the transports that clients have.
pub use crate::transport::Transport as Carrier;
/// Who an upstream with encryption has to be.
pub use nodens_tls::Peer;
pub use path::Path;
pub use primary::PrimaryPeer;
pub use series::Series;

use crate::Now;
use crate::metrics::Registry;
use crate::ticket::Ticket;
use crate::transport::{ByTransport, ListenerKind};
use nodens_tls::{Client, ClientFiles, LoadError};
use nodens_wire::Name;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// What makes two upstreams the same: questions of all server blocks that agree on it share
/// connections and what is known about the upstream's health.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Where it listens.
    pub address: SocketAddr,
    /// What is spoken there.
    pub kind: ListenerKind,
    /// The address to ask from; `None` leaves the choice to the system.
    pub source: Option<IpAddr>,
    /// What its certificate must have, and what is shown to it; `None` where nothing is encrypted.
    pub tls: Option<Arc<Peer>>,
    /// How it is treated.
    pub settings: Settings,
}

/// How an upstream's connections and health are looked after.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Idle connections are closed after this time.
    pub expire: Duration,
    /// Connections are replaced after this time; zero means never.
    pub max_age: Duration,
    /// Idle connections to keep; 0 means any number.
    pub idle_max: usize,
    /// Time between two health checks while they fail.
    pub probe_interval: Duration,
    /// Whether health checks set RD.
    pub probe_recursion: bool,
    /// QNAME of health checks; their QTYPE is NS.
    pub probe_domain: Name,
    /// Whether queries over HTTPS are asked with GET, not POST; health checks never are.
    pub doh_get: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            expire: Duration::from_secs(10),
            max_age: Duration::ZERO,
            idle_max: 0,
            probe_interval: Duration::from_millis(500),
            probe_recursion: true,
            probe_domain: Name::root(),
            doh_get: false,
        }
    }
}

/// One upstream. Everything that changes is atomic: all workers share it.
#[derive(Debug)]
pub struct Upstream {
    /// A small number, unique for the life of the process.
    pub id: u32,
    /// Identity.
    pub key: Key,
    /// Address and port as in metrics: `10.0.0.10:53`.
    pub name: String,
    /// Its metric series.
    pub series: Series,
    paths: ByTransport<Path>,
    /// When a connection that takes queries was last made, monotonic nanoseconds.
    made_ns: AtomicU64,
}

impl Upstream {
    /// A connection was made that takes queries.
    pub fn made(&self, now: Now) {
        self.made_ns.store(now.mono_ns, Relaxed);
    }

    /// Whether any worker has made one after this moment, monotonic nanoseconds.
    pub fn was_made_since(&self, ns: u64) -> bool {
        self.made_ns.load(Relaxed) > ns
    }

    /// How it is asked where others are over `plain`: where there is one way alone, always by that.
    pub fn carrier(&self, plain: Carrier) -> Carrier {
        match self.key.kind.transports() {
            [own] => *own,
            _ => plain,
        }
    }

    /// What is known about asking it where others are over `plain`.
    pub fn path(&self, plain: Carrier) -> &Path {
        self.paths.of(self.carrier(plain))
    }
}

/// A question to send.
#[derive(Debug)]
pub struct Ask {
    /// The job that waits.
    pub ticket: Ticket,
    /// Names the attempt; unique in its worker until the number wraps; comes back with the reply.
    pub attempt: u32,
    /// Whom to ask.
    pub upstream: Arc<Upstream>,
    /// How to ask.
    pub carrier: Carrier,
    /// An earlier attempt to ask this upstream is late or broke: take another connection than
    /// that one.
    pub elsewhere: bool,
}

impl Ask {
    /// Whether it is a health check.
    pub fn is_check(&self) -> bool {
        crate::asking::probes::is_probe(self.ticket)
    }
}

/// Why an attempt failed. The texts are those of Go's `net` package, for which CoreDNS's users
/// search their logs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// No connection could be made: `dial tcp 192.0.2.1:53: connect: connection refused`.
    #[error("{0}")]
    Connect(String),
    /// The connection broke or the port is closed: `read udp A->B: read: connection refused`.
    #[error("{0}")]
    Broken(String),
    /// The question could not be sent.
    #[error("{0}")]
    Send(String),
    /// This side has no room for another query to it, which says nothing of the upstream.
    #[error("{0}")]
    Full(String),
    /// The upstream answered with something else than a DNS message: a status of HTTP or gRPC, a reset.
    #[error("{0}")]
    Refused(String),
    /// The attempt was given up for its age: `read udp A->B: i/o timeout`.
    #[error("{0}")]
    Timeout(String),
}

/// All upstreams by identity.
#[derive(Debug, Default)]
pub struct Upstreams {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    next_id: u32,
    by_key: HashMap<Key, Weak<Upstream>>,
    clients: HashMap<ClientFiles, Weak<Client>>,
}

impl Upstreams {
    /// The upstream with this identity, made if there is none yet. It lives as long as somebody
    /// holds it, so a reload that keeps it keeps what is known about it.
    pub fn get(&self, key: Key, registry: &Registry) -> Arc<Upstream> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(upstream) = known.by_key.get(&key).and_then(Weak::upgrade) {
            return upstream;
        }
        known.by_key.retain(|_, upstream| upstream.strong_count() > 0);
        let id = known.next_id;
        known.next_id = id.wrapping_add(1);
        let name = key.address.to_string();
        let upstream = Arc::new(Upstream {
            id,
            series: Series::new(registry, &name, key.kind),
            name,
            paths: ByTransport::default(),
            made_ns: AtomicU64::new(0),
            key: key.clone(),
        });
        known.by_key.insert(key, Arc::downgrade(&upstream));
        upstream
    }

    /// What connections within TLS begin with that use these files. It lives as long as somebody holds it,
    /// and so do the sessions that began with it. One that is in use keeps what it has read: whoever has it
    /// reads the files again, and a configuration that is refused changes nothing of the running one.
    ///
    /// # Errors
    /// The files are of no use.
    pub fn client(&self, files: ClientFiles) -> Result<Arc<Client>, LoadError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = known.clients.get(&files).and_then(Weak::upgrade) {
            Client::load(files)?;
            return Ok(client);
        }
        known.clients.retain(|_, client| client.strong_count() > 0);
        let client = Arc::new(Client::load(files.clone())?);
        known.clients.insert(files, Arc::downgrade(&client));
        Ok(client)
    }
}
