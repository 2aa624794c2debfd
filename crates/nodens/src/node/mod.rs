//! The node role: what a node's queries need beside a server that answers them.
//!
//! [`template`] makes the Corefile, [`discovery`] finds the upstream service for it, [`gate`] waits
//! for an upstream before queries come here, `nodens_node::network` brings them, and [`outage`]
//! leaves them to others while no upstream answers.

mod asked;
mod discovery;
mod endpoints;
mod errors;
mod gate;
mod holders;
mod outage;
mod probe;
mod template;

use crate::context::Context;
use crate::flags::{Flags, NodeFlags};
use crate::handover::{Inherited, Waited, Waiting};
use crate::load::{self, LoadError, Source};
use crate::watch::FileWatch;
use asked::Asked;
use discovery::Discovery;
use errors::SetupErrors;
use gate::{Gate, Setting};
use nodens_core::cluster::{self, Feed, Scope};
use nodens_core::config::{ClusterService, Readiness};
use nodens_core::log::{Level, Sink};
use nodens_core::{Config, Shared};
use nodens_kube::Watches;
use nodens_net::StartError;
use nodens_node::face::{KubeDns, Service, render};
use nodens_node::network::{self, Backend, Network, Plan};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use template::{Refreshed, Template};

/// Time between two lines that say what start waits for.
const SAY_EVERY: Duration = Duration::from_secs(10);
/// Time between two attempts to have a port that somebody else has.
const PORT_RETRY: Duration = Duration::from_secs(1);

/// The node role of a running server.
pub(crate) struct Node {
    flags: NodeFlags,
    template: Template,
    discovery: Discovery,
    /// The addresses of the upstream service at the last look, and whether that found others.
    upstreams: Vec<String>,
    moved: bool,
    /// Who asks here, for [`crate::insight`].
    pods: Option<Arc<Feed>>,
    network: Arc<Network>,
    gate: Option<Gate>,
    setting: Setting,
    _watch: Option<FileWatch>,
    sink: Sink,
}

/// The pods of this node, if they are wanted and this is a pod. It needs the right to list all pods
/// of the cluster, which no node should have without need: RBAC knows no node's own.
fn pods(node: &NodeFlags, shared: &Shared) -> Option<Arc<Feed>> {
    if !node.top_pods {
        return None;
    }
    endpoints::own_namespace()?;
    let scope = Scope::PodsOf(load::node_name().into());
    Some(shared.clusters.feed(&cluster::Source { scope, ..Default::default() }))
}

impl Node {
    /// Finds the upstream service and makes the Corefile. Gives nothing if a signal came before
    /// that was done. Where this process has a predecessor that serves, no query is brought here
    /// before [`Node::inherit`].
    pub(crate) fn prepare(
        node: &NodeFlags,
        context: &Context,
        watches: &mut Watches,
        waiting: &mut Waiting<'_>,
    ) -> Option<Self> {
        let Context { flags, shared, events, .. } = context;
        let sink = shared.sink.clone();
        let errors = Arc::new(SetupErrors::default());
        let template = Template::new(flags, node, sink.clone(), errors.clone());
        let say = sink.clone();
        let network = Network::open(plan(flags.port, node), None, move |level, text| {
            say.line(level_of(level), "", text);
        });
        let network = Arc::new(network);
        errors::register(&shared.registry, &errors, &network);
        let setting = Setting {
            network: network.clone(),
            answered: Arc::default(),
            clear: Arc::new(AtomicBool::new(!waiting.inherited.is_some())),
            open: Arc::default(),
            listeners_shared: Arc::default(),
            dns_port: flags.port,
            counts: errors,
            sink: sink.clone(),
        };
        let watch = match FileWatch::start(template.watched(), events.clone()) {
            Ok(watch) => Some(watch),
            Err(error) => {
                let text = format!("no notice of changes of the template: {error}");
                sink.line(Level::Warning, "", text);
                None
            }
        };
        let mut prepared = Self {
            flags: node.clone(),
            template,
            discovery: Discovery::start(&node.upstream, events.clone(), shared, watches),
            pods: pods(node, shared),
            moved: false,
            upstreams: Vec::new(),
            network,
            gate: None,
            setting,
            _watch: watch,
            sink,
        };
        prepared.wait_for_corefile(waiting).then_some(prepared)
    }

    /// Waits for what the template cannot do without; false if the process has to end.
    fn wait_for_corefile(&mut self, waiting: &mut Waiting<'_>) -> bool {
        let mut say_at = Instant::now();
        while self.refresh() == Refreshed::Waiting {
            if say_at <= Instant::now() {
                let (service, why) = (&self.flags.upstream, self.discovery.missing());
                let text = format!(
                    "waiting for the address of the upstream service {service}, queries go to the central servers meanwhile: {why}"
                );
                self.sink.line(Level::Warning, "", text);
                say_at += SAY_EVERY;
            }
            let left = say_at.saturating_duration_since(Instant::now());
            if waiting.pause(left) == Waited::Ended {
                return false;
            }
        }
        true
    }

    /// Looks at template and ConfigMap again.
    pub(crate) fn refresh(&mut self) -> Refreshed {
        let upstreams = self.discovery.addresses();
        self.moved = self.upstreams != upstreams;
        self.upstreams = upstreams;
        self.template.refresh(&self.upstreams)
    }

    /// Looks again; says whether a changed Corefile is to be taken up even where it has no
    /// `reload`: because of the flag, or because the upstream service has moved.
    pub(crate) fn refresh_at_once(&mut self) -> bool {
        self.refresh() == Refreshed::Changed && (self.moved || self.flags.reload_at_once)
    }

    /// The Corefile as it is now.
    pub(crate) fn source(&self, flags: &Flags) -> Result<Source, LoadError> {
        self.template.source(flags)
    }

    /// The addresses that sockets are bound to before any link has them.
    pub(crate) fn local_addresses(&self) -> &[IpAddr] {
        &self.flags.addresses
    }

    /// Where setup errors are shown; empty for nowhere.
    pub(crate) fn metrics_address(&self) -> &str {
        &self.flags.metrics
    }

    /// What has to be watched, if anything.
    pub(crate) fn clusters(&self) -> impl Iterator<Item = ClusterService> + use<> {
        let feeds = [self.discovery.feed(), self.pods.clone()].into_iter().flatten();
        let startup_timeout = Duration::ZERO;
        feeds.map(move |feed| ClusterService { feed, startup_timeout, optional: true })
    }

    /// What `ready` waits for: that queries come here, and can be answered.
    pub(crate) fn readiness(&self) -> Readiness {
        let (open, network) = (self.setting.open.clone(), self.network.clone());
        let check = move || open.load(Ordering::Acquire) && network.attracting();
        Readiness { directive: "node", check: Arc::new(check), can_be_lost: true }
    }

    /// Follows a configuration that was taken up: as soon as one of its upstreams answers, the
    /// node's queries come here.
    pub(crate) fn configure(&mut self, config: &Config) {
        let asked = Asked::new(config, &self.upstreams, self.network.shared());
        if let Some(gate) = &self.gate {
            gate.set(asked);
            return;
        }
        match Gate::start(asked, self.setting.clone()) {
            Ok(gate) => self.gate = Some(gate),
            Err(error) => {
                let text = format!("cannot start the thread that waits for an upstream: {error}");
                self.sink.line(Level::Error, "", text);
                self.setting.answered.store(true, Ordering::Release);
                if self.setting.clear.load(Ordering::Acquire) {
                    self.network.attract();
                    self.setting.open.store(true, Ordering::Release);
                }
            }
        }
    }

    /// Says whether another process has our listeners and our network too.
    pub(crate) fn set_listeners_shared(&self, listeners_shared: bool) {
        self.setting.listeners_shared.store(listeners_shared, Ordering::Release);
    }

    /// Whether an upstream has answered, so that queries may come here.
    pub(crate) fn has_answer(&self) -> bool {
        self.setting.answered.load(Ordering::Acquire)
    }

    /// Whether queries have been brought here.
    fn is_open(&self) -> bool {
        self.setting.open.load(Ordering::Acquire)
    }

    /// From here on this process brings queries to itself, with what its predecessor left it, as
    /// soon as an upstream has answered.
    pub(crate) fn inherit(&self, descriptors: Vec<(String, OwnedFd)>) {
        if !descriptors.is_empty() {
            self.network.inherit(descriptors);
        }
        self.setting.clear.store(true, Ordering::Release);
        if self.gate.is_none() && self.has_answer() {
            self.network.attract();
            self.setting.open.store(true, Ordering::Release);
        }
    }

    /// What the network's state hangs on, for a successor.
    pub(crate) fn descriptors(&self) -> io::Result<Vec<(String, OwnedFd)>> {
        self.network.descriptors()
    }

    /// Leaves the network's state to another process that has its descriptors.
    pub(crate) fn abandon(&mut self) {
        self.gate = None;
        self.network.abandon();
    }

    /// Closes what another process has too: link and rules end with that one.
    pub(crate) fn let_go(&mut self) {
        self.gate = None;
        self.network.let_go();
    }

    /// Puts right what a predecessor may have changed last.
    pub(crate) fn put_right(&self) {
        if self.is_open() {
            self.network.look();
        }
    }

    /// Sends queries to the central servers again; those that are here are still answered.
    pub(crate) fn withdraw(&mut self) {
        self.setting.open.store(false, Ordering::Release);
        self.gate = None;
        self.sink.line(Level::Info, "", "Tearing down");
        self.network.withdraw();
    }

    /// Takes away what the last answers needed.
    pub(crate) fn release(&self) {
        self.network.release_rules();
    }
}

/// The Corefile that the node role would start with: writes no file and asks no API server.
///
/// # Errors
/// If there is none, as where the address of the upstream service is not known.
pub(crate) fn preview(flags: &Flags, node: &NodeFlags) -> Result<Source, LoadError> {
    let Ok(base) = std::fs::read_to_string(&node.base) else { return load::read(flags) };
    let name = node.base.display().to_string();
    let rejected = |error: &dyn std::fmt::Display| LoadError::Rejected(format!("{name}: {error}"));
    let mut values = template::values(flags, node);
    values.cluster_dns = match Service::parse(&node.upstream) {
        Service::Literal(addresses) => addresses.join(" "),
        Service::Kubernetes { name, .. } => {
            let found = Service::from_environment(&name, |name| std::env::var(name).ok());
            found.map(|address| address.to_string()).unwrap_or_default()
        }
        Service::Host(host) => {
            let found = nodens_net::lookup::lookup_host(&host, &[]).unwrap_or_default();
            found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        }
    };
    if let Some(folder) = node.kube_dns_folder() {
        values.kube_dns = KubeDns::read(&folder).map_err(|error| rejected(&error))?;
    }
    let rendered = render(&base, &values).map_err(|error| rejected(&error))?;
    Ok(Source { name, text: rendered.text, path: None, known_as: None })
}

fn plan(dns_port: u16, flags: &NodeFlags) -> Plan {
    Plan {
        dns_port,
        interface: flags.interface.clone(),
        addresses: flags.addresses.clone(),
        health_port: flags.health_port,
        setup_interface: flags.setup_interface,
        setup_rules: flags.setup_rules,
        backend: Backend::Auto,
        sync: flags.sync,
    }
}

fn level_of(level: network::Level) -> Level {
    match level {
        network::Level::Info => Level::Info,
        network::Level::Warning => Level::Warning,
        network::Level::Error => Level::Error,
    }
}

/// An error that may be about an address that somebody else has.
pub(crate) trait Taken: std::fmt::Display {
    /// `udp` or `tcp`, and the address.
    fn taken(&self) -> Option<(&'static str, SocketAddr)>;
}

impl Taken for StartError {
    fn taken(&self) -> Option<(&'static str, SocketAddr)> {
        match self {
            Self::Listen(error) if error.source.kind() == io::ErrorKind::AddrInUse => {
                Some((error.network, error.address.parse().ok()?))
            }
            _ => None,
        }
    }
}

/// Does what `start` does, in the node role as soon as nobody else has the addresses it needs: until
/// then the central servers answer. Gives nothing if the process has to end.
///
/// # Errors
/// Whatever else keeps the server from starting.
pub(crate) fn when_free<T, E: Taken>(
    node: Option<&Node>,
    waiting: &mut Waiting<'_>,
    mut start: impl FnMut(&mut Inherited) -> Result<T, E>,
) -> Result<Option<T>, E> {
    let mut said = false;
    loop {
        let error = match start(&mut waiting.inherited) {
            Ok(started) => return Ok(Some(started)),
            Err(error) => error,
        };
        let (Some(node), Some((network, address))) = (node, error.taken()) else {
            return Err(error);
        };
        if !said {
            said = true;
            node.sink.line(Level::Error, "", in_use(&error, network, address));
        }
        if waiting.pause(PORT_RETRY) == Waited::Ended {
            return Ok(None);
        }
    }
}

/// What happened, who did it as far as can be seen, and what becomes of queries meanwhile.
fn in_use(error: &impl Taken, network: &str, address: SocketAddr) -> String {
    let mut holders = holders::of(network, address).join(", ");
    if holders.is_empty() {
        "a process that cannot be seen from here".clone_into(&mut holders);
    }
    format!(
        "{error}: {holders} has it; trying again every second, queries go to the central servers meanwhile"
    )
}
