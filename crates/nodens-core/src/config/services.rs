//! What a configuration wants to run beside the answering of questions, as plain data: the
//! program that owns clocks and sockets runs it.

use nodens_wire::{Builder, Class, Flags, Name, Type};
use nodens_zone::Zone;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
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
    /// `transfer`.
    pub notifies: Vec<NotifyService>,
    /// Repeated work of handlers, such as reading a changed file.
    pub tasks: Vec<Task>,
    /// What has to be watched, each source once.
    pub clusters: Vec<ClusterService>,
    /// `dnstap`: what has to be written, each target once.
    pub taps: Vec<Arc<crate::handlers::dnstap::Tap>>,
    /// What `ready` has to wait for.
    pub readiness: Vec<Readiness>,
    /// `hosts` read so far, for the other addresses of their blocks.
    pub(crate) hosts: Vec<crate::handlers::hosts::Loaded>,
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

/// Something that a directive has to have before questions can be answered.
#[derive(Clone)]
pub struct Readiness {
    /// The directive.
    pub directive: &'static str,
    /// Whether it has it. Must return at once.
    pub check: Arc<dyn Fn() -> bool + Send + Sync>,
    /// Whether it is asked again after it had it once, whatever `ready` says of others.
    pub can_be_lost: bool,
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Readiness({})", self.directive)
    }
}

/// `kubernetes`, `search` and `autopath`: a cluster to watch.
#[derive(Clone, Debug)]
pub struct ClusterService {
    /// What to fetch and where to publish it.
    pub feed: Arc<crate::cluster::Feed>,
    /// How long the start of the server waits for the first whole list.
    pub startup_timeout: Duration,
    /// Whether questions can be answered without it: then nobody waits for it, and that it can
    /// never be watched is no error.
    pub optional: bool,
}

/// `transfer`: servers that have to know when a zone changes. Whoever owns clocks and sockets runs
/// a [`nodens_zone::Notifier`] for it.
#[derive(Clone, Debug)]
pub struct NotifyService {
    /// The zone, in lower case.
    pub zone: Name,
    /// Its versions.
    pub version: Arc<dyn Zone>,
    /// Who is told.
    pub servers: Vec<SocketAddr>,
    /// The address to tell it from.
    pub from: Option<IpAddr>,
}

impl NotifyService {
    /// Whether both tell the same servers of the same zone.
    pub(crate) fn tells_the_same_as(&self, other: &Self) -> bool {
        let what = |service: &Self| (service.zone.clone(), service.servers.clone(), service.from);
        what(self) == what(other)
    }
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
///
/// Whoever owns clocks and sockets calls [`State::begin`](crate::handlers::loops::State::begin),
/// sends the [`question`](LoopProbe::question) to `target` over UDP (again each second, after a
/// new `begin`, until there is an answer, for at most [`LOOP_PROBE_TIME`]), waits for
/// [`LOOP_PROBE_GRACE`] and calls [`State::end`](crate::handlers::loops::State::end). If that
/// says there is a loop, all of it again after [`LOOP_PROBE_INTERVAL`]. None of it before somebody can
/// answer at `target`.
#[derive(Clone, Debug)]
pub struct LoopProbe {
    /// Where to send it: an address of the same server block.
    pub target: SocketAddr,
    /// Name of the question, and what came of it.
    pub state: Arc<crate::handlers::loops::State>,
    /// The server and the first zone of the block, as labels of metrics.
    pub labels: [String; 2],
}

/// How long to try to get the probe answered.
pub const LOOP_PROBE_TIME: Duration = Duration::from_secs(30);
/// How long a probe that was answered may still come back.
pub const LOOP_PROBE_GRACE: Duration = Duration::from_secs(2);
/// Time until a server block that loops is tried again.
pub const LOOP_PROBE_INTERVAL: Duration = Duration::from_secs(300);

impl LoopProbe {
    /// The message to send: HINFO, with RD.
    pub fn question(&self, id: u16) -> Vec<u8> {
        let mut out = Vec::with_capacity(300);
        Builder::new(&mut out, id, Flags(Flags::RD)).question(
            self.state.qname().view(),
            Type::HINFO,
            Class::IN,
        );
        out
    }
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
