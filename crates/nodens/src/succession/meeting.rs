//! Where processes that follow each other find each other.

use super::start::in_pod;
use crate::flags::Flags;
use nodens_core::log::{Level, Sink};
use nodens_node::handover::{Folder, Name};
use std::io;
use std::path::Path;

/// What `-handover-dir` is when it is not given.
const FOLDER: &str = "/run/nodens-handover";
/// What `-handover` is where processes do not follow each other.
const OFF: &str = "off";

/// A name in a folder that they share.
#[derive(Clone, Debug)]
pub(crate) struct Meeting {
    pub(super) folder: Folder,
    pub(super) name: String,
}

impl Meeting {
    /// The one that the flags say, if any. Says where there is none although it is wanted.
    pub(super) fn of(flags: &Flags, sink: &Sink) -> Option<Self> {
        let node = flags.node.as_ref().map(|node| node.interface.clone());
        let name = flags.handover.clone().or(node);
        let name = name.filter(|name| !name.is_empty() && name != OFF)?;
        let told = flags.handover_dir.as_deref();
        let path = told.unwrap_or(Path::new(FOLDER));
        // In a pod it is there if the manifest mounts it. One of our own making would be found by
        // nobody.
        match Folder::open(path, told.is_some() || !in_pod()) {
            Ok(folder) => return Some(Self { folder, name }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let text = format!(
                    "no hand-over between pods: there is no folder {} that those of this node share; questions go to the central servers while one follows another",
                    path.display()
                );
                sink.line(Level::Info, "handover", text);
            }
            Err(error) => {
                let why = nodens_net::errno_text(&error);
                let text = format!("no hand-over: cannot use the folder {}: {why}", path.display());
                sink.line(Level::Error, "handover", text);
            }
        }
        None
    }

    /// Takes the name.
    pub(super) fn take(&self) -> io::Result<Name> {
        Name::take(&self.folder, &self.name)
    }
}
