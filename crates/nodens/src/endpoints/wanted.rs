//! Which paths are to be served where.

use super::{ListenError, Routes};
use nodens_core::config::Services;
use std::io;
use std::sync::atomic::AtomicBool;

/// One path at one address.
pub(super) struct Wanted {
    pub(super) plugin: &'static str,
    pub(super) address: String,
    pub(super) path: fn(&Routes) -> &AtomicBool,
}

impl Wanted {
    pub(super) fn failed(&self, error: io::Error) -> ListenError {
        ListenError { plugin: self.plugin, address: self.address.clone(), error }
    }
}

/// What the directives `health`, `ready` and `prometheus` ask for.
pub(super) fn wanted(services: &Services) -> Vec<Wanted> {
    let health = services.health.iter().map(|service| Wanted {
        plugin: "health",
        address: service.address.clone(),
        path: |routes| &routes.health,
    });
    let ready = services.ready.iter().map(|service| Wanted {
        plugin: "ready",
        address: service.address.clone(),
        path: |routes| &routes.ready,
    });
    let metrics = services.prometheus.iter().map(|service| Wanted {
        plugin: "prometheus",
        address: service.address.clone(),
        path: |routes| &routes.metrics,
    });
    health.chain(ready).chain(metrics).collect()
}
