//! What a whole configuration forwards to.

use crate::config::Config;
use crate::handlers::{Handler, loops};
use crate::upstream::{Carrier, Upstream};
use nodens_wire::Name;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// A server that some `forward` asks.
#[derive(Clone, Debug)]
pub struct Target {
    /// It, with what is known of its health.
    pub upstream: Arc<Upstream>,
    /// How it is asked for a client that came over UDP.
    pub carrier: Carrier,
    /// The first zone of the server block that asks it.
    pub zone: Name,
    /// How long after their expiry that block serves answers that it has; zero without
    /// `serve_stale`.
    pub stale: Duration,
    /// Where that block listens; an unspecified address stands for all.
    pub listen: IpAddr,
    /// `loop` of that block.
    pub loops: Option<Arc<loops::State>>,
}

impl Target {
    fn is_same_as(&self, other: &Self) -> bool {
        let what = |target: &Self| (target.upstream.id, target.carrier, target.stale);
        let state = |target: &Self| target.loops.as_ref().map(Arc::as_ptr);
        what(self) == what(other) && self.zone == other.zone && state(self) == state(other)
    }
}

/// Every server that some `forward` asks, and how, once for each zone and `loop`.
pub fn targets(config: &Config) -> Vec<Target> {
    let mut targets: Vec<Target> = Vec::new();
    for block in &config.blocks {
        let Some(zone) = block.zones.first() else { continue };
        let windows = block.handlers.iter().filter_map(|handler| match handler {
            Handler::Cache(cache) => Some(cache.stale_window()),
            _ => None,
        });
        let stale = windows.max().unwrap_or_default();
        let listen = block.listen.ip();
        for handler in &block.handlers {
            let Handler::Forward(forward) = handler else { continue };
            let loops = forward.loops();
            for (upstream, carrier) in forward.targets() {
                let (upstream, zone, loops) = (upstream.clone(), zone.clone(), loops.cloned());
                let target = Target { upstream, carrier, zone, stale, listen, loops };
                if !targets.iter().any(|known| known.is_same_as(&target)) {
                    targets.push(target);
                }
            }
        }
    }
    targets
}
