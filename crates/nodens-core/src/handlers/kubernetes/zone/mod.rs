//! The zones of the directive as `transfer` hands them on: the names that services have, so that
//! who has the zone answers for them as this server does. Names made out of questions (pods,
//! endpoints by topology zone) are not in it, and neither are the reverse zones.

mod batch;
mod names;

use super::Kubernetes;
use crate::lookup::records::Soa;
use crate::cluster::{Feed, Snapshot};
use crate::config::BlockBuilder;
use crate::handlers::Handler;
use nodens_wire::{Class, Name, Record, Type};
use nodens_zone::{Version, Zone, ZoneTable};
use std::sync::Arc;

pub(crate) use names::{Names, Scope};

/// A zone of the directive.
#[derive(Debug)]
struct ClusterZone {
    handler: Arc<Kubernetes>,
    /// Which one.
    zone: usize,
    /// Its name in lower case.
    origin: Name,
}

/// Adds the zones of the directive to those of the block.
pub(super) fn add(block: &mut BlockBuilder<'_>) {
    for handler in &block.handlers {
        let Handler::Kubernetes(kubernetes) = handler else { continue };
        let handler = Arc::new(kubernetes.clone());
        for (zone, name) in kubernetes.zones.names().iter().enumerate() {
            let (handler, origin) = (handler.clone(), name.to_folded());
            let source = ClusterZone { handler, zone, origin };
            add_zone(&block.zone_table, &kubernetes.feed, name, Arc::new(source));
        }
    }
}

/// Adds a zone that shows what `feed` has.
pub(crate) fn add_zone(table: &Arc<ZoneTable>, feed: &Feed, name: &Name, zone: Arc<dyn Zone>) {
    if is_reverse(name) {
        return;
    }
    feed.shown.add(table, name.clone());
    table.update(|update| _ = update.add(name.view(), zone));
}

impl ClusterZone {
    fn soa_of(&self, snapshot: &Snapshot) -> Option<nodens_zone::Soa> {
        let soa: Soa<'_> = self.handler.soa(self.handler.view(snapshot, self.zone));
        let rdata = soa.rdata(self.origin.as_wire()).as_slice().to_vec();
        let (owner, rtype, class) = (self.origin.clone(), Type::SOA, Class::IN);
        nodens_zone::Soa::new(Record { owner, rtype, class, ttl: soa.own_ttl, rdata }).ok()
    }
}

impl Zone for ClusterZone {
    fn soa(&self) -> Option<nodens_zone::Soa> {
        let feed = &self.handler.feed;
        if feed.synced() { self.soa_of(&feed.load()) } else { None }
    }

    fn version(&self) -> Option<Version> {
        let feed = &self.handler.feed;
        if !feed.synced() {
            return None;
        }
        let snapshot = Arc::clone(&feed.load());
        let soa = self.soa_of(&snapshot)?;
        let imports = self.handler.view(&snapshot, self.zone).imports;
        let ttl = self.handler.ttl;
        let scope = Scope { suffix: b"\x03svc", address_ttl: ttl, other_ttl: ttl, outside: None };
        let (rules, origin) = (self.handler.rules.clone(), self.origin.clone());
        let mut names = Names::new(rules, snapshot, imports, origin, scope);
        names.apex();
        Some(Version { soa, records: Box::new(names) })
    }
}

/// Whether a zone has the names of addresses.
fn is_reverse(zone: &Name) -> bool {
    let zone = zone.to_folded();
    let is_root = [&b"\x07in-addr\x04arpa\0"[..], b"\x03ip6\x04arpa\0"].contains(&zone.as_wire());
    is_root || crate::reverse::is_below(zone.as_wire())
}
