//! The HTTP endpoints: `/health`, `/ready`, `/metrics`. They run on a thread of their own, so a
//! scrape delays no answer.

mod address;
pub(crate) mod bounded;
mod probes;
mod scrape;
#[cfg(test)]
mod tests;
mod wanted;

use crate::insight::{self, Asked, Insight};
use crate::zones::Zones;
use address::{listen, resolve};
use axum::Router;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use bounded::{Bounded, Peer, Unsent};
use nodens_core::Shared;
use nodens_core::config::{HealthService, Services};
use nodens_core::log::Level;
use nodens_net::Vitals;
use probes::Gate;
use scrape::Scrapes;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once, OnceLock};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use wanted::{Wanted, wanted};

/// Connections of one address at a time.
const CONNECTIONS_MAX: usize = 128;

/// What the endpoints tell, and who changes it.
#[derive(Debug)]
pub(crate) struct Facts {
    /// The metrics.
    pub(crate) shared: Arc<Shared>,
    /// Set once queries are answered.
    pub(crate) ready: AtomicBool,
    /// Set when shutdown begins.
    pub(crate) stopping: AtomicBool,
    /// Who asks for what, if that is counted.
    pub(crate) insight: OnceLock<Arc<Insight>>,
    /// Whether the workers live, once there are any.
    pub(crate) vitals: OnceLock<Arc<Vitals>>,
    /// The zones of this server.
    pub(crate) zones: Arc<Zones>,
    unsent: Arc<Unsent>,
    scrapes: Scrapes,
}

impl Facts {
    /// Of a process that begins.
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let (ready, stopping) = (AtomicBool::new(false), AtomicBool::new(false));
        let (insight, vitals, unsent) = (OnceLock::new(), OnceLock::new(), Arc::default());
        let zones = Arc::new(Zones::new(shared.clone()));
        let scrapes = Scrapes::default();
        Self { zones, shared, ready, stopping, insight, vitals, unsent, scrapes }
    }
}

/// Which paths an address serves.
#[derive(Debug, Default)]
struct Routes {
    health: AtomicBool,
    ready: AtomicBool,
    metrics: AtomicBool,
}

/// A listener that is not served yet.
struct Bound {
    listener: TcpListener,
    /// Whether a predecessor serves it still.
    is_inherited: bool,
}

struct Running {
    routes: Arc<Routes>,
    /// The listener once more, for a successor.
    listener: Option<OwnedFd>,
    /// Nothing while it is not served.
    stop: Option<oneshot::Sender<()>>,
}

/// The endpoints that are open.
pub(crate) struct Endpoints {
    runtime: Option<Runtime>,
    facts: Arc<Facts>,
    running: BTreeMap<SocketAddr, Running>,
    gate: Arc<Gate>,
    health_watch: Option<JoinHandle<()>>,
    /// Addresses that may be bound before any link has them.
    early: Vec<IpAddr>,
    /// Where the node role shows metrics and readiness beside what the Corefile says.
    node: Option<SocketAddr>,
    /// The same, as long as it cannot be had.
    node_missing: Option<String>,
    /// Listeners of a predecessor that nobody wanted yet.
    inherited: Vec<(SocketAddr, TcpListener)>,
    /// What is served once the predecessor does not.
    held: Vec<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// An address that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("plugin/{plugin}: listen tcp {address}: {}", nodens_net::errno_text(.error))]
pub(crate) struct ListenError {
    plugin: &'static str,
    address: String,
    error: io::Error,
}

impl Endpoints {
    /// No endpoint yet.
    pub(crate) fn new(facts: Arc<Facts>) -> io::Result<Self> {
        // The first thread starts the others, which are as nice then.
        let first = Once::new();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("http")
            .on_thread_start(move || first.call_once(nodens_net::cpu::yield_to_workers))
            .enable_all()
            .build()?;
        Ok(Self {
            runtime: Some(runtime),
            facts,
            running: BTreeMap::new(),
            gate: Arc::default(),
            health_watch: None,
            early: Vec::new(),
            node: None,
            node_missing: None,
            inherited: Vec::new(),
            held: Vec::new(),
        })
    }

    /// Allows endpoints at `early`, addresses that no link has yet, and shows metrics and readiness
    /// at `address` too. That it cannot be had is said, and no reason not to start: each
    /// [`Endpoints::apply`] tries again.
    pub(crate) fn serve_node(&mut self, early: &[IpAddr], address: &str) {
        self.early = early.to_vec();
        if address.is_empty() {
            return;
        }
        if let Err(error) = self.try_node(address) {
            let why = nodens_net::errno_text(&error);
            let text = format!("Failed to start metrics handler: listen tcp {address}: {why}");
            self.facts.shared.sink.line(Level::Error, "", text);
            self.node_missing = Some(address.to_owned());
        }
    }

    fn try_node(&mut self, address: &str) -> io::Result<()> {
        let at = resolve(address)?;
        let listener = self.listen(at)?;
        self.start(at, listener);
        self.node = Some(at);
        Ok(())
    }

    /// Another process may have had the address, such as the one before on this node.
    fn try_node_again(&mut self) {
        let Some(address) = self.node_missing.take() else { return };
        if self.try_node(&address).is_err() {
            self.node_missing = Some(address);
            return;
        }
        let text = format!("recovered: metrics handler at {address}");
        self.facts.shared.sink.line(Level::Info, "", text);
    }

    /// Opens what `services` wants and is not open, then closes what it does not want: all or
    /// nothing.
    pub(crate) fn apply(&mut self, services: &Services) -> Result<(), ListenError> {
        self.try_node_again();
        let mut plan: BTreeMap<SocketAddr, Vec<Wanted>> = BTreeMap::new();
        for wanted in wanted(services) {
            let address = resolve(&wanted.address).map_err(|error| wanted.failed(error))?;
            plan.entry(address).or_default().push(wanted);
        }
        let mut opened = Vec::new();
        for (address, wants) in &plan {
            if !self.running.contains_key(address) {
                let bound = self.listen(*address).map_err(|error| match wants.first() {
                    Some(wanted) => wanted.failed(error),
                    None => ListenError { plugin: "", address: address.to_string(), error },
                });
                if bound.is_err() {
                    // For the next attempt: the predecessor has these addresses.
                    let inherited =
                        opened.extract_if(.., |(_, bound): &mut (_, Bound)| bound.is_inherited);
                    self.inherited.extend(inherited.map(|(at, bound)| (at, bound.listener)));
                }
                opened.push((*address, bound?));
            }
        }
        for (address, listener) in opened {
            self.start(address, listener);
        }
        self.gate.set(services);
        let node = self.node;
        self.running.retain(|address, _| plan.contains_key(address) || Some(*address) == node);
        for (address, running) in &self.running {
            let routes = &running.routes;
            for flag in [&routes.health, &routes.ready, &routes.metrics] {
                flag.store(false, Ordering::Relaxed);
            }
            for wanted in plan.get(address).into_iter().flatten() {
                (wanted.path)(routes).store(true, Ordering::Relaxed);
            }
            if Some(*address) == node {
                routes.metrics.store(true, Ordering::Relaxed);
                routes.ready.store(true, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// What all workers share.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.facts.shared
    }

    /// The thread's runtime, for other small work beside the queries.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(work);
        }
    }

    /// Checks `service` once a second from now on; an earlier check ends.
    pub(crate) fn watch_health(&mut self, service: Option<HealthService>) {
        if let Some(running) = self.health_watch.take() {
            running.abort();
        }
        if let (Some(service), Some(runtime)) = (service, &self.runtime) {
            let shared = self.facts.shared.clone();
            self.health_watch = Some(runtime.spawn(crate::probe::watch_health(service, shared)));
        }
    }

    fn listen(&mut self, address: SocketAddr) -> io::Result<Bound> {
        let inherited = self.inherited.iter().position(|(at, _)| *at == address);
        let listener = match inherited {
            Some(place) => self.inherited.swap_remove(place).1,
            None => listen(address, &self.early)?,
        };
        Ok(Bound { listener, is_inherited: inherited.is_some() })
    }

    /// Takes `listeners` of a predecessor where they are wanted. It serves them until
    /// [`Endpoints::serve_inherited`].
    pub(crate) fn inherit(&mut self, listeners: Vec<(SocketAddr, TcpListener)>) {
        self.inherited = listeners;
    }

    /// Serves what a predecessor has served so far.
    pub(crate) fn serve_inherited(&mut self) {
        self.inherited.clear();
        for serve in std::mem::take(&mut self.held) {
            self.spawn(serve);
        }
    }

    /// The listeners, for a successor.
    pub(crate) fn export(&self) -> Vec<(SocketAddr, OwnedFd)> {
        let listener = |running: &Running| running.listener.as_ref()?.try_clone().ok();
        let running = self.running.iter();
        running.filter_map(|(at, running)| Some((*at, listener(running)?))).collect()
    }

    /// Accepts nothing more.
    pub(crate) fn close(&mut self) {
        self.running.clear();
    }

    /// Accepts nothing until [`Endpoints::resume`]; a successor does.
    pub(crate) fn pause(&mut self) {
        self.running.values_mut().for_each(|running| running.stop = None);
    }

    /// Serves again.
    pub(crate) fn resume(&mut self) {
        for (address, running) in std::mem::take(&mut self.running) {
            match running {
                Running { routes, listener: Some(listener), stop: None } => {
                    let listener = listener.into();
                    self.serve(address, Bound { listener, is_inherited: false }, routes);
                }
                running => _ = self.running.insert(address, running),
            }
        }
    }

    fn start(&mut self, address: SocketAddr, bound: Bound) {
        self.serve(address, bound, Arc::default());
    }

    fn serve(&mut self, address: SocketAddr, bound: Bound, routes: Arc<Routes>) {
        let Bound { listener, is_inherited } = bound;
        let (stop, stopped) = oneshot::channel::<()>();
        let state = (self.facts.clone(), routes.clone(), self.gate.clone());
        let own = listener.try_clone().map(OwnedFd::from).ok();
        let serve = async move {
            let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
            let app = Router::new().fallback(answer).with_state(state);
            let app = app.into_make_service_with_connect_info::<Peer>();
            let serve = axum::serve(Bounded::new(listener, CONNECTIONS_MAX), app).into_future();
            tokio::select! {
                _ = serve => {}
                _ = stopped => {}
            }
        };
        if is_inherited {
            self.held.push(Box::pin(serve));
        } else {
            self.spawn(serve);
        }
        self.running.insert(address, Running { routes, listener: own, stop: Some(stop) });
    }
}

impl Drop for Endpoints {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl crate::node::Taken for ListenError {
    fn taken(&self) -> Option<(&'static str, SocketAddr)> {
        let taken = self.error.kind() == io::ErrorKind::AddrInUse;
        Some("tcp").filter(|_| taken).zip(resolve(&self.address).ok())
    }
}

type Shown = (Arc<Facts>, Arc<Routes>, Arc<Gate>);

async fn answer(
    State((facts, routes, gate)): State<Shown>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    if let Some(insight) = facts.insight.get() {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let asked = Asked { uri: &uri, peer: Some(peer.address), host };
        if let Some(shown) = insight::answer(insight, &facts.zones, asked).await {
            return shown;
        }
    }
    match uri.path() {
        "/health" if routes.health.load(Ordering::Relaxed) => probes::health(&facts),
        "/ready" if routes.ready.load(Ordering::Relaxed) => probes::ready(&facts, &gate),
        "/metrics" if routes.metrics.load(Ordering::Relaxed) => {
            let known = facts.clone();
            let render = move |format| {
                known.zones.count();
                known.shared.registry.render_as(format)
            };
            let page = facts.scrapes.page(&headers, render).await;
            peer.sends(&facts.unsent);
            page
        }
        _ => (StatusCode::NOT_FOUND, "404 page not found\n").into_response(),
    }
}
