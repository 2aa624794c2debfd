//! Where predecessor and successor find each other: a name in a folder.

use super::EndReason;
use super::start::in_pod;
use super::subreaper::is_ancestor;
use crate::flags::Flags;
use nodens_core::log::{Level, Sink};
use nodens_node::handover::{Error, Folder, Name};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// What `-handover-dir` is when it is not given.
const FOLDER: &str = "/run/nodens-handover";
/// What `-handover` is where processes do not follow each other.
const OFF: &str = "off";

/// How long the name of a predecessor that is gone may still be taken, and how often it is looked.
const NAME_PATIENCE: Duration = Duration::from_millis(500);
const NAME_ROUND: Duration = Duration::from_millis(5);

/// A name in a folder that both processes can open.
#[derive(Clone, Debug)]
pub(crate) struct Rendezvous {
    pub(super) folder: Folder,
    pub(super) name: String,
}

impl Rendezvous {
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
            Err(error) if error.kind() == io::ErrorKind::NotFound && in_pod() => {
                let text = format!(
                    "no hand-over between pods: there is no folder {} shared by the pods of this node; queries go to the central servers while a pod is replaced",
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

/// The name, after the predecessor with this process ID is gone; or why this process has to end.
pub(super) fn name_after(
    rendezvous: Option<&Rendezvous>,
    predecessor: u32,
    error: Error,
) -> Result<Option<Name>, EndReason> {
    if !matches!(error, Error::Gone) {
        return Err(EndReason::Handover(error));
    }
    let until = Instant::now() + NAME_PATIENCE;
    let Some(rendezvous) = rendezvous else {
        // Without a name it has started this process. One that dies closes its descriptors first.
        while is_ancestor(predecessor) {
            if Instant::now() >= until {
                return Err(EndReason::StillRuns);
            }
            std::thread::sleep(NAME_ROUND);
        }
        return Ok(None);
    };
    loop {
        match rendezvous.take() {
            // A process that dies closes one descriptor after the other.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                if Instant::now() >= until {
                    return Err(EndReason::NameTaken);
                }
                std::thread::sleep(NAME_ROUND);
            }
            taken => return Ok(taken.ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_of_a_process_that_still_runs_does_not_take_it_for_gone() {
        let parent = std::os::unix::process::parent_id();
        assert!(matches!(name_after(None, parent, Error::Gone), Err(EndReason::StillRuns)));
        // This process does not descend from itself, as it does not from one that has ended.
        assert!(matches!(name_after(None, std::process::id(), Error::Gone), Ok(None)));
    }
}
