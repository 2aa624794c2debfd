//! What is to be seen of the bounds of all connections.

use super::{Quota, Unsent};
use nodens_core::Shared;
use std::sync::Arc;

/// Registers the gauges.
pub(crate) fn register_gauges(shared: &Shared, quota: &Arc<Quota>, unsent: &Arc<Unsent>) {
    let (quota, held, max) = (quota.clone(), unsent.clone(), unsent.max());
    let read = Arc::new(move || quota.open() as f64);
    let help = "Gauge of open client connections.";
    shared.registry.gauge("nodens_tcp_connections", help, &[], read);
    let help = "Gauge of octets that client connections hold: answers that are not read, \
                requests that wait for that, and what connections of HTTP/2 take while they are open.";
    let read = Arc::new(move || held.held() as f64);
    shared.registry.gauge("nodens_tcp_held_bytes", help, &[], read);
    let help = "The most that client connections may hold; then the client that holds most loses \
                its largest connection.";
    shared.registry.gauge("nodens_tcp_held_max_bytes", help, &[], Arc::new(move || max as f64));
}
