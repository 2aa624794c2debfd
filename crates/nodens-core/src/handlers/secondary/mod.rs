//! `secondary`: answers for zones that are transferred from primaries (RFC 5936, RFC 1995).
//!
//! Who asks the primaries is not here: it is a thread that has sockets and a clock, see
//! [`SecondaryService`](nodens_zone::secondary::SecondaryService). It replaces the versions that this handler finds, and this handler
//! tells it what primaries say (NOTIFY, RFC 1996).

mod config;
mod source;

use super::answering;
use crate::authority::metrics::Heard;
use crate::handler::{Cx, Event, Handle, Job, Searches, Spec, Step};
use crate::log::Level;
use crate::zones::Fallthrough;
use nodens_wire::{NameRef, Opcode, Rcode, Records, Section, Type};
use nodens_zone::secondary::{Notices, SecondaryZone};
use nodens_zone::{Serial, Soa, ZoneTable};
use std::sync::Arc;

use config::setup;

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("secondary", setup);

/// The directive at work; one for all its occurrences in a block.
#[derive(Debug)]
pub struct Secondary {
    /// Those of the Corefile, and members of catalogs.
    zones: Arc<ZoneTable>,
    notices: Arc<Notices>,
    fallthrough: Fallthrough,
    heard: Heard,
}

impl Handle for Secondary {
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        let zones = self.zones.load();
        let q = &cx.job.current;
        let Some((name, zone)) = zones.find(q.qname.view()) else {
            return answering::outside(cx);
        };
        let Some(zone) = zone.as_secondary() else { return Step::Next };
        let is_transfer = matches!(q.qtype, Type::AXFR | Type::IXFR);
        if q.flags.opcode() == Opcode::NOTIFY && !is_transfer {
            return self.notified(cx, name, zone);
        }
        let (data, labels) = (zone.served().load(), name.label_count());
        let is_below = |name: NameRef<'_>| {
            zones.find(name).is_some_and(|(other, _)| other.label_count() > labels)
        };
        answering::answer(cx, data.as_ref(), Some(&self.fallthrough), is_below)
    }

    fn searches(&self, name: NameRef<'_>) -> Searches {
        let zones = self.zones.load();
        let zone = zones.find(name).and_then(|(_, zone)| zone.as_secondary());
        let Some(data) = zone.map(|zone| zone.served().load()) else { return Searches::Nothing };
        match zones.are_fetched() && !data.as_ref().is_some_and(|data| data.is_fetched()) {
            true => Searches::Zones(zones),
            false => Searches::Zone(data),
        }
    }

    fn resumed(&self, cx: &mut Cx<'_>, event: Event<'_>) -> Step {
        answering::resumed(cx, &event)
    }

    fn label(&self, job: &Job, asked: NameRef<'_>, label: &str) -> Option<String> {
        let zones = self.zones.load();
        let (_, zone) = zones.find(asked).filter(|_| label == "zone/wildcard")?;
        let data = zone.as_secondary()?.served().load();
        answering::wildcard(data.as_deref(), asked, job.current.qtype)
    }
}

impl Secondary {
    /// A NOTIFY for a name in `zone`. One from a server that is none of the primaries is not answered, as in
    /// CoreDNS.
    fn notified(&self, cx: &mut Cx<'_>, name: NameRef<'_>, zone: &SecondaryZone) -> Step {
        let client = cx.job.client().peer.ip().to_canonical();
        let Some(primary) = zone.primary_at(client) else {
            // No more than a word for whoever looks: anyone can send any number of these.
            let text = format!("Dropping notify from {client} for {name}");
            cx.worker.sink.line(Level::Debug, SPEC.name, text);
            cx.worker.cells.add(self.heard.dropped, 1);
            return Step::Drop;
        };
        // Addresses can be forged: what waits already is not said again.
        let announced = announced(&cx.job.request);
        if self.notices.note(name, primary, announced) {
            cx.worker.cells.add(self.heard.taken, 1);
            let text = format!("Notify from {client} for {name}: checking transfer");
            cx.worker.sink.line(Level::Info, SPEC.name, text);
        } else {
            cx.worker.cells.add(self.heard.waiting, 1);
        }
        cx.q().reply(Rcode::NOERROR, true);
        Step::Answered
    }
}

/// The serial number in the SOA record that a NOTIFY may have in its answer section.
fn announced(request: &[u8]) -> Option<Serial> {
    let view = Records::of(request).ok()?.next()?.ok()?;
    let is_soa = (view.section, view.rtype) == (Section::Answer, Type::SOA);
    let record = is_soa.then(|| view.to_record(request).ok())??;
    Some(Soa::new(record).ok()?.serial())
}
