//! What is counted.

use super::judge::Ground;
use crate::cluster::Feed;
use crate::config::BlockBuilder;
use crate::metrics::Counter;
use std::sync::{Arc, Weak};

/// Metric series of one block.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) denied: [Counter; Ground::ALL.len()],
    pub(super) dry_run: [Counter; Ground::ALL.len()],
    /// Answers that refute that the zone is the cluster's, and those that confirm it.
    pub(super) proofs: [Counter; 2],
    pub(super) surprises: Counter,
    pub(super) elsewhere: Counter,
    pub(super) fresh: Counter,
}

impl Series {
    pub(super) fn register(block: &mut BlockBuilder<'_>, feed: Option<&Arc<Feed>>) -> Self {
        register_names(block, feed);
        let registry = &block.shared.registry;
        let server = ("server", &*block.server);
        let by_ground = |name, help| {
            Ground::ALL.map(|ground| {
                registry.counter(name, help, &[server, ("ground", ground.label())])
            })
        };
        let plain = |name, help| registry.counter(name, help, &[server]);
        Self {
            denied: by_ground(
                "nodens_search_denied_total",
                "Names of search paths denied without asking a server of the cluster.",
            ),
            dry_run: by_ground(
                "nodens_search_dry_run_total",
                "Names that would have been denied if this were no dry run.",
            ),
            proofs: ["refuted", "confirmed"].map(|result| {
                let name = "nodens_search_proofs_total";
                let help = "Answers that show whether a zone is that of this cluster.";
                registry.counter(name, help, &[server, ("result", result)])
            }),
            surprises: plain(
                "nodens_search_surprises_total",
                "Names that a server of the cluster has although they were denied here, or would have been.",
            ),
            elsewhere: plain(
                "nodens_search_elsewhere_total",
                "Answers for names that exist although no object of the cluster has them.",
            ),
            fresh: plain(
                "nodens_search_fresh_total",
                "Queries for names so new that no cached denial was taken.",
            ),
        }
    }
}

/// How many names are known.
fn register_names(block: &mut BlockBuilder<'_>, feed: Option<&Arc<Feed>>) {
    for (place, kind) in ["namespace", "service"].into_iter().enumerate() {
        let feed = feed.map(Arc::downgrade);
        let count = move || {
            let feed = feed.as_ref().and_then(Weak::upgrade);
            let names = feed.filter(|feed| feed.is_current()).map(|feed| feed.load().names());
            names.and_then(|names| names.get(place).copied()).unwrap_or_default() as f64
        };
        let help = "Names that search paths are judged by; 0 while only answers are learned from.";
        let server = block.server.to_string();
        let labels = [("server", &*server), ("kind", kind)];
        block.gauge("nodens_search_names", help, &labels, Arc::new(count));
    }
}
