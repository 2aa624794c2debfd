//! Query insight: top clients and wasted queries, for `nodens top`, `/debug/dns` and anything else
//! that reads JSON from a local socket. And what stops a leak: `nodens blackhole`.

mod blackhole;
mod options;
mod refusal;
mod socket;
mod top;

pub(crate) use blackhole::run as blackhole;
pub(crate) use top::run as top;

use crate::endpoints::{Endpoints, Facts};
use crate::flags::Flags;
use crate::load;
use crate::zones::{self, Zones};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use nodens_core::handlers::template::denies;
use nodens_core::log::Level;
use nodens_core::{Config, Shared};
use nodens_insight::{Collector, Domains, Place, Places, Report, Surroundings, look, page};
use nodens_wire::{Name, NameRef};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often the workers' sketches are emptied, and how often a socket that is in use is tried
/// again: a predecessor may still have it.
const EVERY: Duration = Duration::from_secs(1);
/// How long it may be in use before the log says so: longer than a hand-over usually takes.
const USUAL: Duration = Duration::from_secs(10);
/// How long a report waits for what processes say of themselves.
const LOOK_PATIENCE: Duration = Duration::from_millis(500);
/// Where the search list of this host stands.
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// The zone of most clusters, known even where no server block says it.
const USUAL_CLUSTER: &str = "cluster.local.";

/// What this process has counted, and what is known of the addresses in it.
pub(crate) struct Insight {
    shared: Arc<Shared>,
    collector: Mutex<Collector>,
    places: Mutex<Places>,
    config: Mutex<Arc<Config>>,
    host: String,
    /// Whether it is shown over TCP.
    over_tcp: bool,
}

impl std::fmt::Debug for Insight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Insight")
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts and shows, if `flags` or the node role want it. The workers of the process must not have
/// been made yet.
pub(crate) fn start(flags: &Flags, facts: &Facts, endpoints: &Endpoints, config: &Arc<Config>) {
    if flags.top.unwrap_or(flags.node.is_some()) {
        let insight =
            Insight::open(&facts.shared, config.clone(), load::hostname(), flags.top_http);
        let run = insight.clone().run(flags.top_socket.clone(), facts.zones.clone());
        endpoints.spawn(run);
        _ = facts.insight.set(insight);
    }
}

impl Insight {
    /// Lets the workers of `shared`, which must not have been made yet, count.
    fn open(shared: &Arc<Shared>, config: Arc<Config>, host: String, over_tcp: bool) -> Arc<Self> {
        shared.seeing.open(shared.workers());
        Arc::new(Self {
            shared: shared.clone(),
            collector: Mutex::new(Collector::new(shared.clone())),
            places: Mutex::default(),
            config: Mutex::new(config),
            host,
            over_tcp,
        })
    }

    /// What stops leaks from now on.
    pub(crate) fn take_up(&self, config: Arc<Config>) {
        *lock(&self.config) = config;
    }

    /// Empties sketches for ever, and shows what was in them at the local socket `address`.
    async fn run(self: Arc<Self>, address: String, zones: Arc<Zones>) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let begun = Instant::now();
        let mut last = begun;
        let mut said = false;
        let mut bound = false;
        loop {
            ticks.tick().await;
            let now = Instant::now();
            lock(&self.collector).collect((now - last).as_secs_f64());
            last = now;
            if bound {
                continue;
            }
            match socket::listen(&address) {
                Ok(listener) => {
                    bound = true;
                    tokio::spawn(socket::serve(listener, self.clone(), zones.clone()));
                }
                // A predecessor has it until it leaves.
                Err(error) if error.kind() == ErrorKind::AddrInUse && begun.elapsed() < USUAL => {}
                Err(error) if !said => {
                    said = true;
                    let why = nodens_net::errno_text(&error);
                    let text = format!("{address}: {why}; tried again each second");
                    self.shared.sink.line(Level::Warning, "top", text);
                }
                Err(_) => {}
            }
        }
    }

    /// What there is to see now.
    async fn report(self: &Arc<Self>) -> Report {
        let report = self.counted();
        let unknown: Vec<IpAddr> =
            report.addresses().filter(|at| self.pod_at(*at).is_none()).collect();
        self.look_for(&unknown).await;
        report.located(&|at| self.pod_at(at).or_else(|| lock(&self.places).get(at)))
    }

    /// Lets processes say whose addresses they have. One that is stuck may never answer, and this
    /// thread answers for health, too: it is another one that asks, and waits if it has to.
    async fn look_for(self: &Arc<Self>, addresses: &[IpAddr]) {
        if !lock(&self.places).begin(addresses) {
            return;
        }
        let insight = self.clone();
        let looked = tokio::task::spawn_blocking(move || {
            let found = look(Path::new("/proc"));
            lock(&insight.places).take_up(found);
        });
        // What comes later is in the next report.
        _ = tokio::time::timeout(LOOK_PATIENCE, looked).await;
    }

    /// What was counted, by whatever address.
    fn counted(&self) -> Report {
        let config = lock(&self.config).clone();
        let is_stopped = |qname: &[u8]| NameRef::new(qname).is_ok_and(|name| denies(&config, name));
        lock(&self.collector).report(&Surroundings {
            host: self.host.clone(),
            unix_s: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            domains: domains(&config),
            is_stopped: &is_stopped,
            place_of: &|_| None,
        })
    }

    fn pod_at(&self, address: IpAddr) -> Option<Place> {
        let pod = self.shared.clusters.pod_at(address)?;
        Some(Place { namespace: pod.namespace.to_string(), pod: pod.name.to_string() })
    }
}

/// The zones of clusters that `config` serves or forwards, and this host's own search list.
fn domains(config: &Config) -> Domains {
    let zones = config.blocks.iter().flat_map(|block| &block.zones);
    let is_cluster = |zone: &&Name| {
        let text = zone.to_folded().to_string();
        !text.ends_with(".arpa.") && text != "."
    };
    let mut clusters: Vec<Name> = zones.filter(is_cluster).map(Name::to_folded).collect();
    clusters.extend(USUAL_CLUSTER.parse::<Name>());
    clusters.sort_unstable_by(|a, b| a.as_wire().cmp(b.as_wire()));
    clusters.dedup();
    let resolv_conf = std::fs::read_to_string(RESOLV_CONF).unwrap_or_default();
    let lists = resolv_conf
        .lines()
        .filter_map(|line| line.strip_prefix("search").or_else(|| line.strip_prefix("domain")));
    let host = lists.flat_map(str::split_whitespace).filter_map(|name| name.parse::<Name>().ok());
    let host =
        host.filter(|name| !clusters.iter().any(|zone| name.view().is_in_domain(zone.view())));
    let wire = |name: &Name| name.as_wire().to_vec();
    Domains::new(clusters.iter().map(wire).collect(), host.map(|name| wire(&name)).collect())
}

/// A request for what is shown.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) uri: &'a Uri,
    /// Who asks over TCP.
    pub(crate) peer: Option<SocketAddr>,
    /// Whom they call.
    pub(crate) host: Option<&'a str>,
}

/// What is asked for, for somebody at this host.
///
/// What clients ask for is nobody's business but the operator's. A port knows no users: every process
/// of this host, and of every pod in its network, could read what is shown there, so nothing is
/// unless `-top-http` says so; and then to this host alone, and not to pages that a browser here was
/// led to by a name of their own (DNS rebinding).
pub(crate) async fn answer(
    insight: &Arc<Insight>,
    zones: &Arc<Zones>,
    Asked { uri, peer, host }: Asked<'_>,
) -> Option<Response> {
    let (of_zones, is_json) = match uri.path() {
        "/debug/dns.json" => (false, true),
        "/debug/dns" | "/debug/dns/" => (false, false),
        "/debug/zones.json" => (true, true),
        "/debug/zones" | "/debug/zones/" => (true, false),
        _ => return None,
    };
    if peer.is_some() && !insight.over_tcp {
        let text = "what clients ask for is not shown here: see `nodens top`, or start with \
             -top-http to show it to every process of this host\n";
        return Some((StatusCode::FORBIDDEN, text).into_response());
    }
    if let Some(peer) = peer
        && !(peer.ip().to_canonical().is_loopback() && is_local_name(host.unwrap_or_default()))
    {
        let text = "what clients ask for is shown on this host only: by its loopback address \
             (kubectl port-forward), or with `nodens top`\n";
        return Some((StatusCode::FORBIDDEN, text).into_response());
    }
    if of_zones {
        let (zones, search) = (zones.clone(), zones::search(uri.query().unwrap_or_default()));
        let host = insight.host.clone();
        // Very many zones take a while, and this thread answers for health, too.
        let report = tokio::task::spawn_blocking(move || zones.report(search, host)).await;
        return Some(zones::show(&report.unwrap_or_default(), is_json));
    }
    let report = insight.report().await;
    let (kind, body) = match is_json {
        true => ("application/json", serde_json::to_string(&report).unwrap_or_default()),
        false => ("text/html; charset=utf-8", page::render(&report)),
    };
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    let policy = [(header::CONTENT_SECURITY_POLICY, page::policy())];
    Some((headers, policy, body).into_response())
}

/// Whether a `Host` header names this host by itself.
fn is_local_name(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|octet| octet.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_host_are_local() {
        for host in ["localhost", "LocalHost:9153", "127.0.0.1", "127.0.0.5:80", "[::1]:9153"] {
            assert!(is_local_name(host), "{host}");
        }
        for host in ["", "evil.example", "localhost.evil.example:80", "10.0.0.1", "[::2]:1"] {
            assert!(!is_local_name(host), "{host}");
        }
    }
}
