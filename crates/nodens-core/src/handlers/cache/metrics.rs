//! The series of `cache`.

use crate::cache::entry::Kind;
use crate::cache::store::Lease;
use crate::config::BlockBuilder;
use crate::metrics::Counter;
use nodens_wire::Name;
use std::sync::Arc;

/// The classes as metrics and options call them, see [`Kind::class`].
const CLASSES: [&str; 2] = ["success", "denial"];

/// The counters of one block.
#[derive(Debug)]
pub(super) struct Counters {
    /// Questions the cache was asked.
    pub(super) requests: Counter,
    hits: [Counter; 2],
    /// Questions it could not answer.
    pub(super) misses: Counter,
    /// Refreshes without a client.
    pub(super) prefetches: Counter,
    /// Responses not kept because they are no answer to the question.
    pub(super) drops: Counter,
    /// Expired answers served.
    pub(super) served_stale: Counter,
    /// Entries evicted.
    pub(super) evictions: [Counter; 2],
}

impl Counters {
    /// Registers the counters of a block that caches `zones`.
    pub(super) fn register(block: &BlockBuilder<'_>, zones: &[Name]) -> Self {
        let (zones, view) = (label(zones), block.view_name());
        let registry = &block.shared.registry;
        let plain = |name, help| {
            let labels = [("server", &*block.server), ("zones", &zones), ("view", &view)];
            registry.counter(name, help, &labels)
        };
        let by_class = |name, help| {
            CLASSES.map(|class| {
                let server = ("server", &*block.server);
                let labels = [server, ("type", class), ("zones", &zones), ("view", &view)];
                registry.counter(name, help, &labels)
            })
        };
        Self {
            requests: plain("coredns_cache_requests_total", "Queries asked of the cache."),
            hits: by_class("coredns_cache_hits_total", "Queries answered from the cache."),
            misses: plain(
                "coredns_cache_misses_total",
                "Queries not answered from the cache. Deprecated: requests less hits.",
            ),
            prefetches: plain("coredns_cache_prefetch_total", "Refreshes without a client."),
            drops: plain(
                "coredns_cache_drops_total",
                "Responses not cached because they do not belong to their query.",
            ),
            served_stale: plain("coredns_cache_served_stale_total", "Expired answers served."),
            evictions: by_class("coredns_cache_evictions_total", "Entries evicted for others."),
        }
    }

    /// The counter of hits on entries of this kind.
    pub(super) fn hits(&self, kind: Kind) -> Counter {
        let [success, denial] = self.hits;
        if kind.class() == 0 { success } else { denial }
    }
}

/// Registers the number of entries of a block.
pub(super) fn register_gauges(block: &mut BlockBuilder<'_>, zones: &[Name], lease: &Arc<Lease>) {
    let (zones, view, server) = (label(zones), block.view_name(), block.server.to_string());
    for (class, text) in CLASSES.into_iter().enumerate() {
        let labels = [("server", &*server), ("type", text), ("zones", &zones), ("view", &view)];
        let lease = Arc::downgrade(lease);
        let read = move || lease.upgrade().map_or(0.0, |lease| lease.scope().count(class) as f64);
        let help = "Entries in the cache, expired ones included.";
        block.gauge("coredns_cache_entries", help, &labels, Arc::new(read));
    }
}

fn label(zones: &[Name]) -> String {
    zones.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
