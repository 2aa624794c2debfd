//! What goes wrong with the set-up, under node-cache's metric name.

use nodens_core::metrics::Registry;
use nodens_node::network::Network;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const SETUP_ERRORS: &str = "coredns_nodecache_setup_errors_total";

/// Counts that no other part keeps.
#[derive(Debug, Default)]
pub(crate) struct SetupErrors {
    configmap: AtomicU64,
    withdrawals: AtomicU64,
}

impl SetupErrors {
    /// Counts a template, folder or Corefile that cannot be read or written.
    pub(crate) fn count_configmap(&self) {
        self.configmap.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts that queries were left to the central servers.
    pub(crate) fn count_withdrawal(&self) {
        self.withdrawals.fetch_add(1, Ordering::Relaxed);
    }
}

/// Registers the metrics of the node role.
pub(crate) fn register(registry: &Registry, errors: &Arc<SetupErrors>, network: &Arc<Network>) {
    let help = "Errors of the set-up of the node's network and of the Corefile's template.";
    let total = |kind: &str, read: Box<dyn Fn() -> u64 + Send + Sync>| {
        let labels = [("errortype", kind)];
        registry.labelled_total(SETUP_ERRORS, help, &labels, Arc::new(move || read() as f64));
    };
    let counts = errors.clone();
    total("configmap", Box::new(move || counts.configmap.load(Ordering::Relaxed)));
    let counts = network.clone();
    total("iptables", Box::new(move || counts.counts().rules_errors));
    let counts = network.clone();
    total("interface_add", Box::new(move || counts.counts().interface_errors));
    // What node-cache tells apart: a lock that is waited for here, and a second look at the link.
    for never in ["iptables_lock", "interface_check"] {
        total(never, Box::new(|| 0));
    }
    let help = "Times that something others took away from the node's network was put back.";
    let put_back = |what: &str, read: Box<dyn Fn() -> u64 + Send + Sync>| {
        let (name, labels) = ("nodens_node_put_back_total", [("what", what)]);
        registry.labelled_total(name, help, &labels, Arc::new(move || read() as f64));
    };
    let counts = network.clone();
    put_back("rules", Box::new(move || counts.counts().rules_put_back));
    let counts = network.clone();
    put_back("addresses", Box::new(move || counts.counts().addresses_put_back));
    let counts = errors.clone();
    let help =
        "Times that queries were left to the central servers because all upstreams were down.";
    let read = Arc::new(move || counts.withdrawals.load(Ordering::Relaxed) as f64);
    registry.labelled_total("nodens_node_withdrawals_total", help, &[], read);
    let network = network.clone();
    let help = "1 while this server takes the queries of the node's pods, else 0.";
    let read = Arc::new(move || f64::from(u8::from(network.attracting())));
    registry.gauge("nodens_node_attracting", help, &[], read);
}
