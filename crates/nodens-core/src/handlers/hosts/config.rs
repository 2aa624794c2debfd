//! `hosts [FILE [ZONES…]] { entries and options }`.

use super::{Hosts, Loaded};
use super::source::Source;
use super::table::Table;
use crate::config::{BlockBuilder, Task};
use crate::log::Level;
use crate::zones::{Fallthrough, Zones};
use arc_swap::ArcSwap;
use nodens_corefile::{Directive, Error, Token, take};
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const FILE_DEFAULT: &str = "/etc/hosts";
const OPTIONS: [&str; 5] = ["fallthrough", "fallthrough_unsupported", "no_reverse", "ttl", "reload"];

/// What the lines of the block say.
struct Options {
    ttl: u32,
    /// Zero: the file is read once.
    reload: Duration,
    auto_reverse: bool,
    fallthrough: Fallthrough,
    fallthrough_unsupported: bool,
    /// Lines that are entries.
    inline: String,
}

/// Reads the directive, which may be used once.
pub(super) fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    block.once(directive)?;
    let (path, zones) = match directive.args() {
        [] => (PathBuf::from(FILE_DEFAULT), &[][..]),
        [file, zones @ ..] => (path(file, block)?, zones),
    };
    let zones = Zones::of(zones, &block.zones)?;
    let options = options(directive, block)?;
    let loaded = match known(block, &zones) {
        Some(loaded) => loaded,
        None => load(path, &zones, &options, block),
    };
    let Loaded { file, inline, .. } = loaded;
    let Options { ttl, fallthrough, fallthrough_unsupported, .. } = options;
    block.push(Hosts { zones, file, inline, ttl, fallthrough, fallthrough_unsupported });
    Ok(())
}

/// What was read for another address of the same block.
fn known(block: &BlockBuilder<'_>, zones: &Zones) -> Option<Loaded> {
    let mut all = block.services.kept.all::<Loaded>();
    all.find(|loaded| loaded.source == block.source && loaded.zones == *zones).cloned()
}

/// Reads the entries, and has the file looked at again from time to time.
fn load(path: PathBuf, zones: &Zones, options: &Options, block: &mut BlockBuilder<'_>) -> Loaded {
    let inline = Table::parse(options.inline.as_bytes(), zones, options.auto_reverse);
    let file = Arc::new(ArcSwap::from_pointee(Table::default()));
    let mut source = Source {
        path,
        zones: zones.clone(),
        auto_reverse: options.auto_reverse,
        inline_entries: inline.entries(),
        published: file.clone(),
        shared: block.shared.clone(),
        seen: None,
        before: None,
    };
    block.services.gauges.extend(source.refresh());
    if !options.reload.is_zero() {
        let name = format!("hosts {}", source.path.display());
        let run = Box::new(move || source.follow());
        block.services.tasks.push(Task { name, interval: options.reload, run });
    }
    let (source, zones, inline) = (block.source, zones.clone(), Arc::new(inline));
    let loaded = Loaded { source, zones, file, inline };
    block.services.kept.add(loaded.clone());
    loaded
}

fn path(file: &Token, block: &BlockBuilder<'_>) -> Result<PathBuf, Error> {
    let path = block.path(&file.text);
    let warn = |text: String| block.shared.sink.line(Level::Warning, "hosts", text);
    match std::fs::metadata(&path) {
        Ok(metadata) if metadata.is_dir() => {
            warn(format!("Hosts file {path:?} is a directory"));
        }
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {
            warn(format!("File does not exist: {}", path.display()));
        }
        Err(error) => {
            let text = format!("unable to access hosts file '{}': {error}", path.display());
            return Err(Error::invalid(file, text));
        }
    }
    Ok(path)
}

fn options(directive: &Directive, block: &BlockBuilder<'_>) -> Result<Options, Error> {
    let mut options = Options {
        ttl: 3600,
        reload: Duration::from_secs(5),
        auto_reverse: true,
        fallthrough: Fallthrough::default(),
        fallthrough_unsupported: false,
        inline: String::new(),
    };
    let mut unsupported = None;
    for line in directive.lines() {
        line.expect_no_body()?;
        match line.name.text.as_str() {
            "fallthrough" => options.fallthrough = Fallthrough::of(line.args())?,
            "fallthrough_unsupported" => {
                line.expect_no_args()?;
                options.fallthrough_unsupported = true;
                unsupported = Some(line);
            }
            "no_reverse" => options.auto_reverse = false,
            "ttl" => options.ttl = ttl(line)?,
            "reload" => options.reload = take::parse_go_duration(&line.expect_args::<1>()?[0])?,
            _ if options.fallthrough.is_set() => return Err(line.unknown_property(&OPTIONS)),
            _ => inline(line, &mut options.inline, block),
        }
    }
    match unsupported {
        Some(line) if !options.fallthrough.is_set() => {
            Err(line.invalid("fallthrough_unsupported requires fallthrough: expected it too"))
        }
        _ => Ok(options),
    }
}

/// Seconds; words behind the first are ignored, as CoreDNS does.
fn ttl(line: &Directive) -> Result<u32, Error> {
    match line.args() {
        [] => Err(line.invalid("ttl needs a time in second: expected a number from 1 to 65535")),
        [seconds, ..] => take::parse_integer(seconds, 1..=65_535),
    }
}

/// Adds a line of entries. One that does not start with an address is ignored as in a file, but
/// as it may be a misspelt option, it is worth a word.
fn inline(line: &Directive, text: &mut String, block: &BlockBuilder<'_>) {
    let first = line.name.text.split('%').next().unwrap_or_default();
    if first.parse::<IpAddr>().is_err() {
        let warning = format!(
            "{}: ignored: `{}` is neither an address nor one of {}",
            line.name.position,
            line.name.text,
            OPTIONS.join(", ")
        );
        block.shared.sink.line(Level::Warning, "hosts", warning);
    }
    text.push_str(&line.name.text);
    for arg in line.args() {
        text.push(' ');
        text.push_str(&arg.text);
    }
    text.push('\n');
}
