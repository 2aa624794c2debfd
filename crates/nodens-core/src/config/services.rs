//! What a configuration wants to run beside the answering of questions, as plain data: the
//! program that owns clocks and sockets runs it.

use nodens_wire::Name;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Everything beside the chains.
#[derive(Debug, Default)]
pub struct Services {
    /// `health`.
    pub health: Vec<HealthService>,
    /// `ready`.
    pub ready: Vec<ReadyService>,
    /// `prometheus`.
    pub prometheus: Vec<PrometheusService>,
    /// `reload`.
    pub reload: Option<ReloadService>,
    /// `loop`.
    pub loops: Vec<LoopProbe>,
    /// Repeated work of handlers, such as reading a changed file.
    pub tasks: Vec<Task>,
}

/// `health`: an HTTP endpoint that says the process lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthService {
    /// Host (may be empty) and port to listen on, as written: `:8080`.
    pub address: String,
    /// How long shutdown waits while still answering.
    pub lameduck: Duration,
}

/// `ready`: an HTTP endpoint that says questions can be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyService {
    /// Host (may be empty) and port to listen on, as written: `:8181`.
    pub address: String,
    /// Whether readiness can be lost again.
    pub continuously: bool,
}

/// `prometheus`: an HTTP endpoint with all metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrometheusService {
    /// Host (may be empty) and port to listen on, as written: `localhost:9153`.
    pub address: String,
}

/// `reload`: look at the Corefile from time to time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReloadService {
    /// Time between two looks.
    pub interval: Duration,
    /// Up to this much is added to each interval at random.
    pub jitter: Duration,
}

/// `loop`: a question to ourselves that must not come back.
#[derive(Clone, Debug)]
pub struct LoopProbe {
    /// A name that nobody can guess, below the zone.
    pub qname: Name,
    /// Where to send it: an address of the same server block.
    pub target: SocketAddr,
    /// Set by the handler once the question came back too often.
    pub looped: Arc<AtomicBool>,
    /// Set by whoever sends the probe when the time for it is over.
    pub done: Arc<AtomicBool>,
}

/// Repeated work.
pub struct Task {
    /// What it is, for logs.
    pub name: String,
    /// Time between two runs; the first run is one interval after start.
    pub interval: Duration,
    /// The work. It may read files and must not block for long.
    pub run: Box<dyn FnMut() + Send + Sync>,
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Task({} every {:?})", self.name, self.interval)
    }
}
