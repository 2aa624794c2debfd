//! `file DBFILE [ZONES…] { reload DURATION; reload_by_mtime; fallthrough [ZONES…] }`.

use super::{File, NAME};
use crate::authority::set::ZoneSet;
use crate::authority::source::{FileZone, KnownFiles, LoadError};
use crate::config::{BlockBuilder, Task};
use crate::handlers::Handler;
use crate::log::Level;
use crate::zones::{Fallthrough, Zones};
use nodens_corefile::{Directive, Error, Token, format_go_duration, take};
use nodens_wire::Name;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const OPTIONS: [&str; 4] = ["fallthrough", "reload", "reload_by_mtime", "upstream"];

/// The time between two looks at a file where nothing is said.
const RELOAD_DEFAULT: Duration = Duration::from_secs(60);

/// A zone as it was read for another address of the same block.
struct Known {
    /// The block.
    source: usize,
    path: PathBuf,
    zone: Arc<FileZone>,
}

/// Reads the directive; a repeated one adds zones, and its options hold for all.
pub(super) fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    let [file, zones @ ..] = directive.expect_args_from(1)? else {
        return Err(directive.invalid("expected the path of a file"));
    };
    let path = block.path(&file.text);
    let zones = Zones::of(zones, &block.zones)?;
    block.check_catalogs(directive, zones.names())?;
    let mut handler = match block.handlers.pop() {
        Some(Handler::File(handler)) => handler,
        other => {
            block.handlers.extend(other);
            File {
                zones: ZoneSet::default(),
                fallthrough: Fallthrough::default(),
                reload: RELOAD_DEFAULT,
                by_mtime: false,
            }
        }
    };
    options(directive, &mut handler)?;
    for origin in zones.names() {
        let zone = match known(block, &path, origin) {
            Some(zone) => zone,
            None => load(file, path.clone(), origin, &handler, block)?,
        };
        handler.zones.insert(origin, zone);
    }
    block.push(handler);
    Ok(())
}

fn options(directive: &Directive, handler: &mut File) -> Result<(), Error> {
    for line in directive.lines() {
        line.expect_no_body()?;
        match line.name.text.as_str() {
            "fallthrough" => handler.fallthrough = Fallthrough::of(line.args())?,
            "reload" => {
                // Words behind it are ignored, as CoreDNS does.
                let [duration, ..] = line.args() else {
                    return Err(line.invalid("reload duration value is expected"));
                };
                handler.reload = take::parse_go_duration(duration)?;
            }
            "reload_by_mtime" => {
                line.expect_no_args()?;
                handler.by_mtime = true;
            }
            // It has no meaning any more.
            "upstream" => {}
            _ => return Err(line.unknown_property(&OPTIONS)),
        }
    }
    Ok(())
}

fn known(block: &BlockBuilder<'_>, path: &PathBuf, origin: &Name) -> Option<Arc<FileZone>> {
    let is_it = |known: &&Known| {
        known.source == block.source && known.path == *path && known.zone.origin == *origin
    };
    block.services.kept.all::<Known>().find(is_it).map(|known| known.zone.clone())
}

/// Reads a zone, and has its file looked at again from time to time.
fn load(
    file: &Token,
    path: PathBuf,
    origin: &Name,
    handler: &File,
    block: &mut BlockBuilder<'_>,
) -> Result<Arc<FileZone>, Error> {
    let zone = Arc::new(FileZone::new(origin.clone(), path.clone(), handler.by_mtime));
    let sink = block.shared.sink.clone();
    let every = handler.reload;
    // Without another look the version before would stay for ever: the configuration is refused then.
    let may_stay = |error: &_| match error {
        LoadError::NoRoom => true,
        LoadError::Open(_) | LoadError::Changing => !every.is_zero(),
        LoadError::Content(_) | LoadError::Stopped | LoadError::Unchanged => false,
    };
    match zone.load(&block.shared.known::<KnownFiles>(), &sink, NAME, may_stay) {
        Ok(()) | Err(LoadError::Unchanged | LoadError::Stopped) => {}
        Err(error @ (LoadError::Open(_) | LoadError::Changing)) if !every.is_zero() => {
            let (path, every) = (path.display(), format_go_duration(every));
            let text = format!("Failed to open \"{path}\": {error}: trying again in {every}");
            sink.line(Level::Warning, NAME, text);
        }
        Err(error @ (LoadError::Open(_) | LoadError::Changing)) => {
            let text = format!("failed to open \"{}\": {error}", path.display());
            return Err(Error::invalid(file, text));
        }
        Err(error @ (LoadError::Content(_) | LoadError::NoRoom)) => {
            let text = format!("failed to parse zone {origin}: {error}");
            return Err(Error::invalid(file, text));
        }
    }
    if !every.is_zero() {
        let (name, zone) = (format!("file {}", path.display()), zone.clone());
        let run = Box::new(move || zone.look(&sink, NAME));
        let folder = path.parent().unwrap_or(&path);
        block.services.add_watching(Task { name, interval: every, run }, folder);
    }
    block.services.kept.add(Known { source: block.source, path, zone: zone.clone() });
    Ok(zone)
}
