//! Notices that the Corefile, or a file it imports, may have changed.

use crate::events::Event;
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;

/// Watches the folders of some files. A ConfigMap's files are links that change with a link
/// beside them (`..data`), so it is the folder that has to be watched.
pub(crate) struct FileWatch {
    /// Ends the watch when it is dropped.
    _watcher: RecommendedWatcher,
}

impl FileWatch {
    /// Sends [`Event::Look`] whenever something happens in the folders of `files`.
    pub(crate) fn start(
        files: impl IntoIterator<Item = PathBuf>,
        events: Sender<Event>,
    ) -> notify::Result<Self> {
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<_>| {
            let event: notify::Event = match event {
                Ok(event) => event,
                Err(_) => return,
            };
            if !event.kind.is_access() {
                _ = events.send(Event::Look);
            }
        })?;
        let folders: BTreeSet<PathBuf> = files.into_iter().map(|file| folder(&file)).collect();
        for folder in folders {
            watcher.watch(&folder, RecursiveMode::NonRecursive)?;
        }
        Ok(Self { _watcher: watcher })
    }
}

fn folder(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}
