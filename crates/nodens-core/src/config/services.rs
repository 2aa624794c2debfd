//! What a configuration wants to run beside the answering of questions, as plain data: the
//! program that owns clocks and sockets runs it.

use super::NamedGauge;
use nodens_wire::{Builder, Class, Flags, Name, Type};
use nodens_zone::{NotifyService, ZoneTable};
use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
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
    /// The labels of `coredns_plugin_enabled`.
    pub enabled: BTreeSet<Vec<(&'static str, String)>>,
    /// Values that metrics have once the configuration is taken up, see `Services::show`.
    pub gauges: Vec<NamedGauge>,
    /// `reload`.
    pub reload: Option<ReloadService>,
    /// `loop`.
    pub loops: Vec<LoopProbe>,
    /// `tls { acme ... }`: certificates to obtain and renew; `None` without any.
    pub acme: Option<AcmeService>,
    /// The zones of each server block, for whoever looks at what there is.
    pub zones: Vec<Arc<ZoneTable>>,
    /// `transfer`: secondaries to notify when zones change. The program, which has clocks and sockets,
    /// runs a [`nodens_zone::Notifier`] for them.
    pub notifies: Vec<NotifyService>,
    /// `transfer`: catalogs of zones to be kept up to date, with a [`nodens_zone::catalog::Producer`].
    pub catalogs: Vec<nodens_zone::catalog::CatalogService>,
    /// `secondary`: zones to be transferred from primaries, those of each block once.
    pub secondaries: Vec<nodens_zone::secondary::SecondaryService>,
    /// `dynupdate`: zones that are changed by messages, each once. The program, which has threads, does
    /// the updates that wait ([`DynamicZone::perform`](nodens_zone::dynamic::DynamicZone::perform)).
    pub dynamic: Vec<Arc<nodens_zone::dynamic::DynamicZone>>,
    /// What signs some of them.
    pub dynamic_signers:
        Vec<(Arc<nodens_zone::dynamic::DynamicZone>, Arc<nodens_zone::dnssec::Signer>)>,
    /// `sign`: zones to be signed, those of each block once. The program signs them on a thread of its own.
    pub signers: Vec<Arc<crate::zone_signer::ZoneSigner>>,
    /// Repeated work of handlers, such as reading a changed file.
    pub tasks: Vec<Task>,
    /// Folders in which a change makes some of that work due at once.
    pub watched: Vec<Watched>,
    /// What has to be watched, each source once.
    pub clusters: Vec<ClusterService>,
    /// `dnstap`: what has to be written, each target once.
    pub taps: Vec<Arc<crate::tap::Tap>>,
    /// What `ready` has to wait for.
    pub readiness: Vec<Readiness>,
    /// What directives keep for the other addresses of their blocks.
    pub(crate) kept: Kept,
}

/// Values of any type that directives keep while a configuration is built.
#[derive(Default)]
pub(crate) struct Kept(Vec<Box<dyn Any + Send + Sync>>);

impl Kept {
    /// All values of one type.
    pub(crate) fn all<T: 'static>(&self) -> impl Iterator<Item = &T> {
        self.0.iter().filter_map(|value| value.downcast_ref())
    }

    /// Adds a value.
    pub(crate) fn add<T: Send + Sync + 'static>(&mut self, value: T) {
        self.0.push(Box::new(value));
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kept({})", self.0.len())
    }
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

/// `tls { acme ... }`: what to obtain, and how the ACME server sees that the domains are ours.
#[derive(Clone, Debug, Default)]
pub struct AcmeService {
    /// The certificates of each configuration.
    pub managed: Vec<Arc<nodens_tls::Managed>>,
    /// What the chains answer challenges with.
    pub challenges: Arc<crate::challenges::Challenges>,
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

/// `loop`: a query to this server that must not come back from an upstream.
///
/// The program, which has clocks and sockets, starts once the server answers at `target`:
///
/// 1. It calls [`LoopState::begin`] and sends the [`question`](LoopProbe::question) to `target` over UDP.
///    Without a response it does so again each second, for at most [`LOOP_PROBE_TIME`].
/// 2. It waits for [`LOOP_PROBE_GRACE`] and calls [`LoopState::end`].
/// 3. If that reports a loop, it starts again after [`LOOP_PROBE_INTERVAL`].
#[derive(Clone, Debug)]
pub struct LoopProbe {
    /// Where to send it: an address of the same server block.
    pub target: SocketAddr,
    /// The name of the query, and its result.
    pub state: Arc<dyn LoopState>,
    /// The server and the first zone of the block, as labels of metrics.
    pub labels: [String; 2],
}

/// The probes of a server block and their result.
pub trait LoopState: fmt::Debug + Send + Sync {
    /// The random name that is queried, so that no client can send a probe.
    fn qname(&self) -> &Name;
    /// Starts to count sightings from zero: a probe is about to be sent.
    fn begin(&self);
    /// Stops counting. True if the probe came back.
    fn end(&self) -> bool;
    /// Whether forwarded queries come back.
    fn is_looped(&self) -> bool;
    /// Counts a probe that arrived here; true if it came back.
    fn note_sighting(&self) -> bool;
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

/// A folder that some work depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// The folder; those below it are not watched. It may not exist.
    pub folder: PathBuf,
    /// The work, as an index into [`Services::tasks`].
    pub task: usize,
}

impl Services {
    /// Adds work that is due at once, too, when something changes in `folder`.
    pub(crate) fn add_watching(&mut self, task: Task, folder: &Path) {
        let folder = if folder == Path::new("") { Path::new(".") } else { folder };
        self.watched.push(Watched { folder: folder.to_owned(), task: self.tasks.len() });
        self.tasks.push(task);
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
