//! What is counted of transfers and of NOTIFY, in both directions. CoreDNS counts nothing of them.

use crate::metrics::{Counter, Registry};
use crate::shared::Shared;
use crate::stream::{Outgoing, Transfers};
use nodens_zone::counts::{Kind, Result};
use std::sync::Arc;

/// Counters of NOTIFY that primaries send, which workers count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    /// The zone is compared with the primary's.
    pub(crate) taken: Counter,
    /// The same was said already, and waits.
    pub(crate) waiting: Counter,
    /// From an address that is no primary's.
    pub(crate) dropped: Counter,
}

/// See [`Heard`].
pub(crate) fn notices(registry: &Registry) -> Heard {
    let counter = |result| {
        let help = "NOTIFY messages for zones of secondary, by what became of them.";
        registry.counter("nodens_notify_received_total", help, &[("result", result)])
    };
    Heard { taken: counter("taken"), waiting: counter("waiting"), dropped: counter("dropped") }
}

/// Shows what is counted of transfers from primaries.
pub(crate) fn of_secondaries(shared: &Shared) {
    let registry = &shared.registry;
    for kind in Kind::ALL {
        let label = ("kind", kind.label());
        for result in Result::ALL {
            let shown = match (kind, result) {
                (Kind::Soa, Result::Transferred) => "newer",
                (_, result) => result.label(),
            };
            let counts = shared.secondaries.counts.clone();
            let help =
                "Queries to primaries for SOA records, differences and whole zones, by result.";
            let read = Arc::new(move || counts.count(kind, result) as f64);
            let labels = [label, ("result", shown)];
            registry.labelled_total("nodens_transfers_in_total", help, &labels, read);
        }
        let counts = shared.secondaries.counts.clone();
        let help = "Octets of the messages of transfers from primaries.";
        let read = Arc::new(move || counts.octets(kind) as f64);
        registry.labelled_total("nodens_transfer_in_bytes_total", help, &[label], read);
        let counts = shared.secondaries.counts.clone();
        let help = "Time that queries to primaries took that did not fail, in seconds.";
        let read = Arc::new(move || counts.took_ns(kind) as f64 / 1e9);
        registry.labelled_total("nodens_transfer_in_seconds_total", help, &[label], read);
    }
    let counts = shared.secondaries.counts.clone();
    let help = "Zones that are not served any more because no primary had them in time.";
    let read = Arc::new(move || counts.expired.get() as f64);
    registry.total("nodens_zones_expired_total", help, read);
    let counts = shared.secondaries.counts.clone();
    let help = "Versions of catalog zones that break a rule of RFC 9432.";
    let read = Arc::new(move || counts.catalogs_broken.get() as f64);
    registry.total("nodens_catalogs_refused_total", help, read);
    for operation in ["read", "write"] {
        let counts = shared.secondaries.counts.clone();
        let help = "Zones that could not be read from disk, or written to it.";
        let read = move || match operation {
            "read" => counts.unread.get() as f64,
            _ => counts.unwritten.get() as f64,
        };
        let labels = [("operation", operation)];
        registry.labelled_total("nodens_zone_store_errors_total", help, &labels, Arc::new(read));
    }
}

/// Shows what is counted of transfers to other servers, and of NOTIFY to them.
pub(crate) fn of_transfers(shared: &Shared) {
    let registry = &shared.registry;
    for kind in Outgoing::ALL {
        for is_whole in [true, false] {
            let transfers = shared.transfers.clone();
            let help = "Transfers to other servers, by whether all messages were written.";
            let result = if is_whole { "sent" } else { "cut" };
            let labels = [("kind", kind.label()), ("result", result)];
            let read = Arc::new(move || transfers.ended(kind, is_whole) as f64);
            registry.labelled_total("nodens_transfers_out_total", help, &labels, read);
        }
        let labels = [("kind", kind.label())];
        let show = |name, help, read: fn(&Transfers, Outgoing) -> f64| {
            let transfers = shared.transfers.clone();
            let read = Arc::new(move || read(&transfers, kind));
            registry.labelled_total(name, help, &labels, read);
        };
        let help = "Octets of the messages of transfers to other servers.";
        show("nodens_transfer_out_bytes_total", help, |all, kind| all.octets(kind) as f64);
        let help = "Time from the first message of a transfer to the last, in seconds.";
        show("nodens_transfer_out_seconds_total", help, |all, kind| all.took_ns(kind) as f64 / 1e9);
    }
    for result in ["accepted", "given_up", "unsent"] {
        let counts = shared.notified.clone();
        let help = "Versions of zones that servers were notified of, by result.";
        let read = move || match result {
            "accepted" => counts.accepted.get() as f64,
            "given_up" => counts.given_up.get() as f64,
            _ => counts.unsent.get() as f64,
        };
        let labels = [("result", result)];
        registry.labelled_total("nodens_notify_ended_total", help, &labels, Arc::new(read));
    }
    let counts = shared.notified.clone();
    let help = "NOTIFY messages sent to other servers.";
    let read = Arc::new(move || counts.messages.get() as f64);
    registry.total("nodens_notify_sent_total", help, read);
}
