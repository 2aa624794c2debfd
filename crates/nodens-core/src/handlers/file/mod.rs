//! `file`: zones from master files.

mod config;

use super::answering;
use crate::authority::set::ZoneSet;
use crate::authority::source::FileZone;
use crate::config::BlockBuilder;
use crate::handler::{Cx, Event, Handle, Job, Searches, Spec, Step};
use crate::handlers::Handler;
use crate::zones::Fallthrough;
use nodens_wire::{NameRef, Opcode};
use std::sync::Arc;
use std::time::Duration;

use config::setup;

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec { chain_complete: Some(show), ..Spec::new(NAME, setup) };

const NAME: &str = "file";

/// The directive at work; one for all its occurrences in a block.
#[derive(Debug)]
pub struct File {
    zones: ZoneSet<Arc<FileZone>>,
    fallthrough: Fallthrough,
    /// The time between two looks at files, which later occurrences have too; zero for none.
    reload: Duration,
    /// As `reload`.
    by_mtime: bool,
}

impl Handle for File {
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        let q = &cx.job.current;
        let is_called = |zone: &Arc<FileZone>, name: NameRef<'_>| zone.origin.view() == name;
        let Some(zone) = self.zones.find_for(q.qname.view(), q.qtype, is_called) else {
            return answering::outside(cx);
        };
        // As a server of primary zones it has nobody to be notified by; CoreDNS is silent, too.
        if cx.job.current.flags.opcode() == Opcode::NOTIFY {
            return Step::Drop;
        }
        let data = zone.served.load();
        let labels = zone.origin.view().label_count();
        let is_longer = |other: &Arc<FileZone>| other.origin.view().label_count() > labels;
        let is_below = |name: NameRef<'_>| self.zones.find(name).is_some_and(is_longer);
        answering::answer(cx, data.as_ref(), Some(&self.fallthrough), is_below)
    }

    fn searches(&self, name: NameRef<'_>) -> Searches {
        let zone = self.zones.find(name);
        zone.map_or(Searches::Nothing, |zone| Searches::Zone(zone.served.load()))
    }

    fn resumed(&self, cx: &mut Cx<'_>, event: Event<'_>) -> Step {
        answering::resumed(cx, &event)
    }

    fn label(&self, job: &Job, asked: NameRef<'_>, label: &str) -> Option<String> {
        let zone = self.zones.find(asked).filter(|_| label == "zone/wildcard")?;
        answering::wildcard(zone.served.load().as_deref(), asked, job.current.qtype)
    }
}

/// Lets the zones of the block be transferred.
fn show(block: &mut BlockBuilder<'_>) {
    for handler in &block.handlers {
        let Handler::File(file) = handler else { continue };
        file.zones.values().for_each(|zone| zone.show(&block.zone_table));
    }
}
