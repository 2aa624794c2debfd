//! The file behind a table: read at the start, and again when it has changed.

use super::table::Table;
use crate::config::NamedGauge;
use crate::log::Level;
use crate::shared::Shared;
use crate::zones::Zones;
use arc_swap::ArcSwap;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

/// A hosts file.
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) zones: Zones,
    pub(super) auto_reverse: bool,
    /// Entries of the Corefile, which the metric counts too.
    pub(super) inline_entries: usize,
    pub(super) published: Arc<ArcSwap<Table>>,
    pub(super) shared: Arc<Shared>,
    /// What the file was like when it was last read.
    pub(super) seen: Option<Stamp>,
    /// The table before, until no worker looks at it any more: whoever looks last would free it,
    /// and a large one takes long.
    pub(super) before: Option<Arc<Table>>,
}

/// Tells one version of a file from another: modification time in seconds and nanoseconds, size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    seconds: i64,
    nanoseconds: i64,
    size: u64,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            seconds: metadata.mtime(),
            nanoseconds: metadata.mtime_nsec(),
            size: metadata.size(),
        }
    }
}

impl Source {
    /// Publishes the file's entries if it has changed, and gives what metrics say of it then. While it
    /// cannot be read, the last good entries stay.
    pub(super) fn refresh(&mut self) -> Vec<NamedGauge> {
        self.before.take_if(|table| Arc::strong_count(table) == 1);
        let Ok(metadata) = fs::metadata(&self.path) else { return Vec::new() };
        let stamp = Stamp::of(&metadata);
        if self.seen == Some(stamp) || metadata.is_dir() {
            return Vec::new();
        }
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) => {
                if error.kind() != ErrorKind::NotFound {
                    let text = format!("unable to read hosts file {}: {error}", self.path.display());
                    self.shared.sink.line(Level::Warning, "hosts", text);
                }
                return Vec::new();
            }
        };
        let table = Table::parse(&text, &self.zones, self.auto_reverse);
        let gauges = self.gauges(&table, stamp);
        self.before = Some(self.published.swap(Arc::new(table)));
        self.seen = Some(stamp);
        gauges
    }

    /// Reads the file again if it has changed, and shows what is in it.
    pub(super) fn follow(&mut self) {
        self.refresh().iter().for_each(|gauge| gauge.show(&self.shared.registry));
    }

    /// The metrics of a file that has been read.
    fn gauges(&self, table: &Table, stamp: Stamp) -> Vec<NamedGauge> {
        let entries = (table.entries() + self.inline_entries) as f64;
        let time = stamp.seconds as f64 + stamp.nanoseconds as f64 / 1e9;
        vec![
            NamedGauge {
                name: "coredns_hosts_entries",
                help: "Names and addresses known from hosts file and Corefile.",
                labels: vec![("hostsfile", self.path.to_string_lossy().into_owned())],
                read: Arc::new(move || entries),
            },
            NamedGauge {
                name: "coredns_hosts_reload_timestamp_seconds",
                help: "Time of the hosts file that was read last, in seconds since 1970.",
                labels: Vec::new(),
                read: Arc::new(move || time),
            },
        ]
    }
}
