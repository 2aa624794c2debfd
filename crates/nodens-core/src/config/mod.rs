//! A compiled configuration: immutable, built whole beside the old one, swapped in at once.

mod addresses;
mod bounds;
mod build;
mod certificates;
mod fingerprint;
mod options;
mod renewal;
mod services;
mod settings;
mod shown;
mod unserved;
mod view;

pub use bounds::{HttpBounds, HttpResponses, HttpServer, HttpStatus};
pub use build::{BlockBuilder, build, check_unserved};
pub use options::{BuildOptions, LookupHost, SearchMode};
pub(crate) use renewal::Renewal;
pub use services::{
    AcmeService, ClusterService, HealthService, LOOP_PROBE_GRACE, LOOP_PROBE_INTERVAL,
    LOOP_PROBE_TIME, LoopProbe, LoopState, PrometheusService, Readiness, ReadyService,
    ReloadService, Services, Task, Watched,
};
pub use settings::{
    BlockSettings, QuicResponses, QuicServer, QuicSettings, ShedCounters, TimeoutSettings, Timeouts,
};
pub use shown::NamedGauge;
pub use unserved::Unserved;
pub use view::View;

use crate::handler::{Handle, Job, Searches};
use crate::handlers::Handler;
use crate::job::Client;
use crate::proxy::ProxyRules;
use crate::time::Now;
use crate::transport::ListenerKind;
use crate::worker::WorkerState;
use foldhash::fast::RandomState;
use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Class, Name, NameRef, Type};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// Everything a worker needs to answer questions.
#[derive(Debug)]
pub struct Config {
    /// Addresses to listen on.
    pub listeners: Vec<Listener>,
    /// What answers at an address and port.
    pub servers: Vec<Server>,
    /// Server blocks, one per block of the Corefile and server.
    pub blocks: Vec<ServerBlock>,
    /// What runs beside the answering of questions.
    pub services: Services,
    /// What the Corefile wants for the cache of all blocks, in octets, if it says so.
    pub cache_memory: Option<usize>,
}

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Address and port; an unspecified IPv6 address stands for all addresses of both families.
    pub address: SocketAddr,
    /// What is spoken there.
    pub kind: ListenerKind,
    /// Index into [`Config::servers`].
    pub server: usize,
    /// How many sockets `multisocket` asks for; `None` leaves the choice to the sockets' owner.
    pub sockets: Option<usize>,
}

/// The zones served at one address and port.
#[derive(Debug)]
pub struct Server {
    /// The label `server` of metrics, such as `dns://:53`.
    pub label: String,
    /// Folded zone name → blocks that serve it, in the order of the Corefile.
    zones: HashMap<Vec<u8>, Vec<(usize, usize)>, RandomState>,
    /// What serves the root, where that is the only zone.
    only_root: Option<Vec<(usize, usize)>>,
    /// How many labels the zones have, the root label not counted, by bit.
    depths: u128,
    /// Whether questions of classes other than IN are looked at.
    any_class: bool,
    /// What it shows clients, if it speaks TLS.
    pub tls: Option<Arc<nodens_tls::Server>>,
    /// Bounds and counters of its connections, if it speaks QUIC.
    pub quic: Option<QuicServer>,
    /// Time limits of its connections.
    pub timeouts: Timeouts,
    /// What it lets clients have, if it speaks HTTP.
    pub http: Option<HttpServer>,
    /// Counts what is dropped, if any of its blocks has `shed`.
    pub shed: Option<ShedCounters>,
    /// Clients behind proxies, if any of its blocks has `proxyproto`.
    pub proxy: Option<Arc<ProxyRules>>,
    /// Whether any of its blocks takes UPDATE messages (RFC 2136).
    pub takes_updates: bool,
    /// What hears of questions that no zone matched.
    unserved: Vec<Unserved>,
}

/// A server block compiled for one server.
#[derive(Debug)]
pub struct ServerBlock {
    /// The zones it serves.
    pub zones: Vec<Name>,
    /// The server's label.
    pub server: String,
    /// Where it listens; an unspecified IPv6 address stands for all addresses of both families.
    pub listen: SocketAddr,
    /// Identifies the block in the Corefile, whatever the server: blocks share caches by it.
    pub source: usize,
    /// `view`: a condition on the question.
    pub view: Option<View>,
    /// The chain.
    pub handlers: Vec<Handler>,
    /// What the block says beside its chain.
    pub settings: BlockSettings,
}

impl Server {
    /// Whether a zone with more labels than `labels` contains `name`.
    pub(crate) fn has_zone_below(&self, name: NameRef<'_>, labels: usize) -> bool {
        self.any_zone_below(name, labels, |_| true)
    }

    /// Whether some zone does for which `is_meant` says so of the blocks that serve it.
    fn any_zone_below(
        &self,
        name: NameRef<'_>,
        labels: usize,
        is_meant: impl Fn(&[(usize, usize)]) -> bool,
    ) -> bool {
        let mut folded = [0; NAME_LEN_MAX];
        let mut rest = name.fold(&mut folded);
        for depth in (labels + 1..=name.label_count()).rev() {
            let is_zone = u32::try_from(depth).is_ok_and(|depth| self.has_zones_of(depth));
            if is_zone && self.zones.get(rest).is_some_and(|blocks| is_meant(blocks)) {
                return true;
            }
            let Some((len, tail)) = rest.split_first() else { return false };
            rest = tail.get(usize::from(*len)..).unwrap_or_default();
        }
        false
    }

    /// Whether there are zones with so many labels.
    fn has_zones_of(&self, labels: u32) -> bool {
        self.depths & 1_u128.checked_shl(labels).unwrap_or(0) != 0
    }

    /// The first block for the longest zone that contains `name`, views apart.
    fn first_block(&self, name: NameRef<'_>) -> Option<usize> {
        let mut folded = [0; NAME_LEN_MAX];
        let mut blocks = self.only_root.as_ref();
        let mut rest = name.fold(&mut folded);
        let mut labels = name.label_count() as u32;
        while blocks.is_none() {
            blocks = if self.has_zones_of(labels) { self.zones.get(rest) } else { None };
            let (len, tail) = rest.split_first()?;
            rest = tail.get(usize::from(*len)..).unwrap_or_default();
            labels = labels.saturating_sub(1);
        }
        blocks?.first().map(|(block, _)| *block)
    }
}

impl ServerBlock {
    /// The name of the view, or an empty text; the metrics label `view`.
    pub fn view_name(&self) -> &str {
        self.view.as_ref().map_or("", |view| view.name())
    }
}

impl Config {
    /// The server block and zone for the current question of `job`: the longest zone that
    /// contains the name and whose view, if any, wants the question.
    ///
    /// A DS question belongs to the parent side of a zone cut (RFC 4035 section 3.1.4.1), so a
    /// block for a shorter zone is preferred where there is one.
    pub fn select(&self, job: &Job) -> Option<(usize, usize)> {
        let listener = self.listeners.get(usize::from(job.client().listener))?;
        let server = self.servers.get(listener.server)?;
        if job.current.qclass != Class::IN && !server.any_class {
            return None;
        }
        if let Some(candidates) = &server.only_root {
            return self.first_in_view(Some(candidates), job);
        }
        let mut folded = [0; NAME_LEN_MAX];
        let mut rest = job.current.qname.view().fold(&mut folded);
        let mut labels = job.current.qname.view().label_count() as u32;
        let mut delegated = None;
        loop {
            let candidates = match server.has_zones_of(labels) {
                true => server.zones.get(rest),
                false => None,
            };
            labels = labels.saturating_sub(1);
            if let Some(found) = self.first_in_view(candidates, job) {
                if job.current.qtype != Type::DS {
                    return Some(found);
                }
                delegated = match delegated {
                    None if rest.len() == job.current.qname.as_wire().len() => Some(found),
                    _ => return Some(found),
                };
            }
            match rest.split_first() {
                Some((0, _)) | None => return delegated,
                Some((len, tail)) => rest = tail.get(usize::from(*len)..)?,
            }
        }
    }

    fn first_in_view(
        &self,
        candidates: Option<&Vec<(usize, usize)>>,
        job: &Job,
    ) -> Option<(usize, usize)> {
        let wanted = |(block, _): &&(usize, usize)| {
            self.blocks
                .get(*block)
                .is_none_or(|block| block.view.as_ref().is_none_or(|view| view.wants(job, block)))
        };
        candidates?.iter().find(wanted).copied()
    }

    /// The server that a client asked.
    pub fn server_of(&self, client: &Client) -> Option<&Server> {
        self.servers.get(self.listeners.get(usize::from(client.listener))?.server)
    }

    /// What the queries of a listener for `name` are likely to search.
    pub(crate) fn searches(&self, listener: u16, name: NameRef<'_>) -> Searches {
        let server = self.listeners.get(usize::from(listener)).map(|listener| listener.server);
        let server = server.and_then(|server| self.servers.get(server));
        let block = server.and_then(|server| self.blocks.get(server.first_block(name)?));
        let handlers = block.map_or(&[][..], |block| &block.handlers);
        let mut searches = handlers.iter().map(|handler| handler.searches(name));
        searches.find(|it| !matches!(it, Searches::Nothing)).unwrap_or_default()
    }

    /// Whether the server that a client asked has a zone with more labels than `labels` that contains `name` and is
    /// served by other blocks than this one.
    pub(crate) fn is_others(
        &self,
        (client, block): (&Client, &ServerBlock),
        name: NameRef<'_>,
        labels: usize,
    ) -> bool {
        let is_own = |(at, _): &(usize, usize)| {
            self.blocks.get(*at).is_some_and(|other| std::ptr::eq(other, block))
        };
        self.server_of(client).is_some_and(|server| {
            server.any_zone_below(name, labels, |blocks| !blocks.iter().any(is_own))
        })
    }

    /// The zones of a server, with repeats where views share one.
    pub fn zones_of(&self, server: usize) -> impl Iterator<Item = &Name> {
        let places = self.servers.get(server).into_iter().flat_map(|server| server.zones.values());
        places.flatten().filter_map(|(block, zone)| self.blocks.get(*block)?.zones.get(*zone))
    }

    /// Tells those who want to hear of it of a question that no zone matched.
    pub fn note_unserved(&self, now: Now, worker: &mut WorkerState, job: &Job) {
        let listener = self.listeners.get(usize::from(job.client().listener));
        if let Some(server) = listener.and_then(|listener| self.servers.get(listener.server)) {
            server.unserved.iter().for_each(|unserved| unserved.hear(now, worker, job));
        }
    }

    /// Whether a block of this server answers classes other than IN.
    fn serves_any_class(blocks: &[&ServerBlock]) -> bool {
        let mut handlers = blocks.iter().flat_map(|block| &block.handlers);
        handlers.any(Handler::answers_other_classes)
    }
}

/// Workers share a configuration.
const _: () = {
    const fn shareable<T: Send + Sync>() {}
    shareable::<Config>();
};
