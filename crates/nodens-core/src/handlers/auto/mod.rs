//! `auto`: zones from all master files of a folder.

mod config;
mod files;
mod folder;
mod pattern;

use super::answering;
use crate::authority::source::FileZone;
use crate::config::{BlockBuilder, Task};
use crate::handler::{Cx, Event, Handle, Job, Searches, Spec, Step};
use crate::handlers::Handler;
use crate::zones::Zones;
use folder::Folder;
use nodens_wire::NameRef;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use config::setup;
use pattern::Pattern;

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec { chain_complete: Some(begin), ..Spec::new(NAME, setup) };

const NAME: &str = "auto";

/// The directive at work; one for all its occurrences in a block.
#[derive(Debug)]
pub struct Auto {
    /// Names in other zones are the next handler's business, whatever files there are.
    zones: Zones,
    settings: Settings,
    /// The zones that were found; those of all addresses of a block are one.
    folder: Arc<Folder>,
}

/// What the Corefile says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Settings {
    /// Nothing where none is named: there are no zones then.
    directory: Option<PathBuf>,
    pattern: Pattern,
    /// The time between two looks at the folder and its files; zero for none.
    reload: Duration,
}

impl Handle for Auto {
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        let (qname, qtype) = (cx.job.current.qname.view(), cx.job.current.qtype);
        if !self.zones.contains(qname) {
            return Step::Next;
        }
        let zones = self.folder.zones();
        let is_called = |zone: &Arc<FileZone>, name: NameRef<'_>| zone.origin.view() == name;
        let Some(zone) = zones.find_for(qname, qtype, is_called) else {
            return answering::outside(cx);
        };
        let data = zone.served.load();
        let labels = zone.origin.view().label_count();
        let is_below = |name: NameRef<'_>| {
            zones.find(name).is_some_and(|other| other.origin.view().label_count() > labels)
        };
        answering::answer(cx, data.as_ref(), None, is_below)
    }

    fn searches(&self, name: NameRef<'_>) -> Searches {
        let zones = self.folder.zones();
        let zone = zones.find(name).filter(|_| self.zones.contains(name));
        zone.map_or(Searches::Nothing, |zone| Searches::Zone(zone.served.load()))
    }

    fn resumed(&self, cx: &mut Cx<'_>, event: Event<'_>) -> Step {
        answering::resumed(cx, &event)
    }

    fn label(&self, job: &Job, asked: NameRef<'_>, label: &str) -> Option<String> {
        let zones = self.folder.zones();
        let zone = zones.find(asked).filter(|_| label == "zone/wildcard")?;
        answering::wildcard(zone.served.load().as_deref(), asked, job.current.qtype)
    }
}

/// What was found for another address of the same block.
struct Known {
    /// The block.
    source: usize,
    folder: Arc<Folder>,
}

/// Looks for zones, once all occurrences have been read, and has the folder looked at again from time
/// to time.
fn begin(block: &mut BlockBuilder<'_>) {
    let source = block.source;
    let handler = block.handlers.iter_mut().find_map(|handler| match handler {
        Handler::Auto(auto) => Some(auto),
        _ => None,
    });
    let Some(Auto { settings, folder, .. }) = handler else { return };
    let known = block.services.kept.all::<Known>().find(|known| known.source == source);
    if let Some(known) = known.map(|known| known.folder.clone()) {
        *folder = known;
        folder.show(&block.zone_table);
        return;
    }
    *folder = Arc::new(Folder::new(block.shared.known()));
    folder.show(&block.zone_table);
    let (settings, folder) = (settings.clone(), folder.clone());
    block.services.kept.add(Known { source, folder: folder.clone() });
    let sink = block.shared.sink.clone();
    folder.look(&settings, &sink);
    if let Some(directory) = settings.directory.clone()
        && !settings.reload.is_zero()
    {
        let (name, interval) = (format!("auto {}", directory.display()), settings.reload);
        let run = Box::new(move || folder.look(&settings, &sink));
        block.services.add_watching(Task { name, interval, run }, &directory);
    }
}
