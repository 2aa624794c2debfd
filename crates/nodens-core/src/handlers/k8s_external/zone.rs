//! The zones of the directive as `transfer` hands them on, so that who has them answers as this
//! server does, as far as records can say it. Hosts of load balancers are aliases without what they
//! lead to; where a service has addresses too, the addresses alone.

use super::{K8sExternal, Question};
use crate::cluster::Snapshot;
use crate::config::BlockBuilder;
use crate::handlers::kubernetes::Kubernetes;
use crate::handlers::kubernetes::zone::{Names, Scope, add_zone};
use crate::handlers::Handler;
use nodens_wire::{Class, Name, Record, Type};
use nodens_zone::{Soa, Version, Zone};
use std::sync::Arc;

/// A zone of the directive.
#[derive(Debug)]
struct ExternalZone {
    handler: Arc<K8sExternal>,
    kubernetes: Arc<Kubernetes>,
    /// Its name in lower case.
    origin: Name,
}

/// Adds the zones of the directive to those of the block.
pub(super) fn add(block: &mut BlockBuilder<'_>) {
    let kubernetes = block.handlers.iter().find_map(|handler| match handler {
        Handler::Kubernetes(kubernetes) => Some(Arc::new(kubernetes.clone())),
        _ => None,
    });
    let Some(kubernetes) = kubernetes else { return };
    for handler in &block.handlers {
        let Handler::K8sExternal(external) = handler else { continue };
        let handler = Arc::new(external.clone());
        for name in external.zones.names() {
            let (handler, kubernetes) = (handler.clone(), kubernetes.clone());
            let feed = kubernetes.feed.clone();
            let zone = ExternalZone { handler, kubernetes, origin: name.to_folded() };
            add_zone(&block.zone_table, &feed, name, Arc::new(zone));
        }
    }
}

impl ExternalZone {
    fn question<'s>(&'s self, snapshot: &'s Snapshot) -> Question<'s> {
        let (kubernetes, zone_len) = (&*self.kubernetes, self.origin.as_wire().len());
        Question { kubernetes, snapshot, zone_len, below: &[] }
    }

    fn soa_of(&self, snapshot: &Snapshot) -> Option<Soa> {
        let soa = self.handler.soa(&self.question(snapshot));
        let rdata = soa.rdata(self.origin.as_wire()).as_slice().to_vec();
        let (owner, rtype, class) = (self.origin.clone(), Type::SOA, Class::IN);
        Soa::new(Record { owner, rtype, class, ttl: soa.own_ttl, rdata }).ok()
    }
}

impl Zone for ExternalZone {
    fn soa(&self) -> Option<Soa> {
        let feed = &self.kubernetes.feed;
        if feed.synced() { self.soa_of(&feed.load()) } else { None }
    }

    fn version(&self) -> Option<Version> {
        let feed = &self.kubernetes.feed;
        if !feed.synced() {
            return None;
        }
        let snapshot = Arc::clone(&feed.load());
        let soa = self.soa_of(&snapshot)?;
        let (handler, own_ttl) = (&*self.handler, self.handler.ttl);
        let servers = handler.server_addresses(&self.question(&snapshot), self.origin.view());
        let scope = Scope {
            suffix: b"",
            address_ttl: own_ttl,
            other_ttl: self.kubernetes.ttl,
            outside: Some(handler.headless),
        };
        let origin = self.origin.clone();
        let mut names = Names::new(self.kubernetes.rules.clone(), snapshot, false, origin, scope);
        let (apex, server) = (names.below(&[]), names.below(&[&handler.mname]));
        names.batch.push(&apex, (Type::NS, own_ttl), server.as_slice());
        for address in servers {
            names.batch.address(&server, own_ttl, address);
        }
        Some(Version { soa, records: Box::new(names) })
    }
}
