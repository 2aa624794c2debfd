//! The file that says what was there before, so that it can be restored whatever happens.
//!
//! A line is eight octets of SHA-256 in hexadecimal digits, a space, and JSON. Lines are only
//! appended, and are on the disk before anything is done that they describe the undoing of.

use crate::error::Error;
use crate::network::Network;
use crate::setting::Setting;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How the names of journals end.
const EXTENSION: &str = "journal";
/// A journal has a few lines of a few hundred octets; what is larger is none.
const MOST_OCTETS: u64 = 16 << 20;

/// How often a lock that another process has is tried.
const AGAIN: Duration = Duration::from_millis(20);

/// The lock of a folder. Whoever changes settings of the machine itself has it from before the
/// leftovers of earlier runs are restored until its own settings are: two such trials would take each
/// other's values for those that were there at first. Leftovers are touched by its owner only.
#[derive(Debug)]
pub(crate) struct Exclusive {
    _folder: File,
}

impl Exclusive {
    /// Takes it; `None` if another process has it all the time.
    pub(crate) fn take(folder: &Path, patience: Duration) -> Result<Option<Self>, Error> {
        let failed = |error| Error::File { path: folder.to_owned(), error };
        prepare(folder).map_err(failed)?;
        // A file would have to stay: two processes could hold two files of the same name.
        let open = File::open(folder).map_err(failed)?;
        let begin = Instant::now();
        loop {
            match open.try_lock() {
                Ok(()) => return Ok(Some(Self { _folder: open })),
                Err(TryLockError::WouldBlock) if begin.elapsed() < patience => {
                    std::thread::sleep(AGAIN);
                }
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
    }
}

/// What becomes of settings that earlier runs left changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Earlier {
    /// They are restored.
    Restore,
    /// They are only told: nothing is written.
    Report,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Line {
    /// A process changes settings while the machine has this boot ID; `network` is the network
    /// namespace that it is in, whose settings are those without the name of one.
    Begin { process: u32, boot: String, network: u64 },
    /// Namespaces that it is about to make.
    Network(Network),
    /// A value before it was changed.
    Saved { setting: Setting, value: String },
}

/// A journal that is being written. Its lock says so.
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    undo: Undo,
}

/// What there is to undo.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Undo {
    pub(crate) networks: Vec<Network>,
    pub(crate) saved: Vec<(Setting, String)>,
}

impl Journal {
    /// A new file in `folder`, for the session of `process`. Processes of two containers may have the same
    /// numbers, so `chance` tells them apart.
    pub(crate) fn create(folder: &Path, process: u32, chance: u64) -> Result<Self, Error> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| Error::File { path, error }
        };
        prepare(folder).map_err(failed(folder))?;
        let path = name(folder, process, std::process::id(), chance);
        // Until it is locked it has a name that no other process looks for.
        let first = path.with_extension("new");
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&first);
        let file = file.map_err(failed(&first))?;
        let made = file.lock_shared().map_err(failed(&first)).and_then(|()| {
            let mut journal = Self { path: path.clone(), file, undo: Undo::default() };
            journal.append(&Line::Begin { process, boot: boot(), network: own_network() })?;
            // A rename would take the place of a journal that is there.
            fs::hard_link(&first, &path).map_err(failed(&path))?;
            Ok(journal)
        });
        _ = fs::remove_file(&first);
        let journal = made?;
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed(folder))?;
        Ok(journal)
    }

    /// Appends a line; it is on the disk when this returns.
    pub(crate) fn append(&mut self, line: &Line) -> Result<(), Error> {
        let text = encode(line);
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_all());
        written.map_err(|error| Error::File { path: self.path.clone(), error })?;
        self.undo.take(line.clone());
        Ok(())
    }

    /// What there is to undo so far.
    pub(crate) fn undo(&self) -> &Undo {
        &self.undo
    }

    /// Removes it: there is nothing left to undo.
    pub(crate) fn remove(self) -> Result<(), Error> {
        let path = self.path;
        fs::remove_file(&path).map_err(|error| Error::File { path, error })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Undo {
    fn take(&mut self, line: Line) {
        match line {
            Line::Begin { .. } => {}
            Line::Network(network) if network.is_ours() => self.networks.push(network),
            Line::Network(_) => {}
            Line::Saved { setting, value } => self.saved.push((setting, value)),
        }
    }

    /// What was saved, in the order in which it is restored: the last one first, and then what the
    /// kernel chooses by others of them.
    fn in_order(&self) -> impl Iterator<Item = &(Setting, String)> {
        let part = |chosen: bool| {
            let all = self.saved.iter().rev();
            all.filter(move |(setting, _)| setting.is_chosen_by_kernel() == chosen)
        };
        part(false).chain(part(true))
    }

    /// Gives every setting its saved value, reads it back, and says what failed.
    pub(crate) fn restore(&self) -> Vec<String> {
        let restored = self.in_order().map(|(setting, value)| setting.restore(value));
        restored.filter_map(Result::err).collect()
    }

    /// The same, and removes the namespaces.
    pub(crate) fn end(&self) -> Vec<String> {
        let mut failed = self.restore();
        failed.extend(self.networks.iter().filter_map(|network| network.remove().err()));
        failed
    }
}

/// A journal that an earlier run left, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Where it was, or is.
    pub path: PathBuf,
    /// Settings that were restored; 0 if the machine has started again since.
    pub restored: usize,
    /// Settings that were only looked at, and may be changed still.
    pub pending: usize,
    /// True if the machine has started again since: no setting survives that.
    pub other_boot: bool,
    /// Lines that could not be read. The rest counts, and the file is kept under another name.
    pub damaged: usize,
    /// What could not be restored. The journal is then kept.
    pub failed: Vec<String>,
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, restored, pending, damaged, failed, .. } = self;
        write!(f, "{}: ", path.display())?;
        if self.other_boot {
            write!(f, "from before the machine was started, so nothing was left to restore")?;
        } else if *pending > 0 {
            write!(
                f,
                "{pending} settings of an earlier run that was killed are not restored yet: the next trial does it"
            )?;
        } else {
            write!(f, "{restored} settings of an earlier run restored")?;
        }
        if *damaged > 0 {
            write!(f, "; {damaged} lines are damaged, and what they say is not restored")?;
        }
        if !failed.is_empty() {
            write!(f, "; failed: {}", failed.join("; "))?;
        }
        Ok(())
    }
}

impl Leftover {
    /// Whether settings may still be changed that the next attempt does not restore either.
    pub(crate) fn is_incomplete(&self) -> bool {
        !self.failed.is_empty() || (self.damaged > 0 && !self.other_boot)
    }
}

/// Restores what one run left whose keeper was killed. On the host that needs [`Exclusive`].
pub(crate) fn leftover_of(
    folder: &Path,
    (process, keeper): (u32, u32),
    chance: u64,
) -> Result<Option<Leftover>, Error> {
    let path = name(folder, process, keeper, chance);
    leftover(&path, Earlier::Restore).map_err(|error| Error::File { path, error })
}

/// The journal of a session of `process`.
fn name(folder: &Path, process: u32, keeper: u32, chance: u64) -> PathBuf {
    folder.join(format!("{process}-{keeper}-{chance:016x}.{EXTENSION}"))
}

/// What runs left behind whose keeper has ended as well. To be called with [`Exclusive`].
pub(crate) fn leftovers(folder: &Path, earlier: Earlier) -> Result<Vec<Leftover>, Error> {
    let failed = |error| Error::File { path: folder.to_owned(), error };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    prepare(folder).map_err(failed)?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_none_or(|extension| extension != EXTENSION) {
            continue;
        }
        found.extend(leftover(&path, earlier).map_err(|error| Error::File { path, error })?);
    }
    Ok(found)
}

/// None if its keeper still works on it.
fn leftover(path: &Path, earlier: Earlier) -> io::Result<Option<Leftover>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    if !path.exists() {
        // Another process was faster.
        return Ok(None);
    }
    let mut text = Vec::new();
    (&file).take(MOST_OCTETS).read_to_end(&mut text)?;
    let contents = Contents::read(&String::from_utf8_lossy(&text));
    let elsewhere = contents.elsewhere();
    let Contents { undo, other_boot, damaged, .. } = contents;
    if earlier == Earlier::Report {
        let pending = if other_boot { 0 } else { undo.saved.len() };
        let (path, failed) = (path.to_owned(), Vec::from_iter(elsewhere.filter(|_| !other_boot)));
        return Ok(Some(Leftover { path, restored: 0, pending, other_boot, damaged, failed }));
    }
    let (restored, failed) = match elsewhere {
        _ if other_boot => (0, Vec::new()),
        Some(why) => (0, vec![why]),
        None => (undo.saved.len(), undo.end()),
    };
    let (journal, mut path) = (path, path.to_owned());
    if failed.is_empty() {
        match damaged {
            0 => fs::remove_file(&path)?,
            // Whatever it said, somebody may want to look at it.
            _ => {
                path.set_extension("damaged");
                fs::rename(journal, &path)?;
            }
        }
    }
    Ok(Some(Leftover { path, restored, pending: 0, other_boot, damaged, failed }))
}

/// What a journal says, as far as it can be read.
#[derive(Debug, Default, PartialEq, Eq)]
struct Contents {
    undo: Undo,
    other_boot: bool,
    /// The network namespace of its process, if the line that says so can be read.
    network: Option<u64>,
    damaged: usize,
}

impl Contents {
    /// Why nothing can be restored from here: the settings are those of another network namespace, and
    /// have the same paths as those of this one.
    fn elsewhere(&self) -> Option<String> {
        let own = own_network();
        let of_host = self.undo.saved.iter().any(|(setting, _)| setting.is_of_host());
        if !of_host || (own != 0 && self.network == Some(own)) {
            return None;
        }
        let there = self.network.map_or("an unknown one".to_owned(), |id| format!("net:[{id}]"));
        Some(format!(
            "its settings are those of another network namespace, {there}, and this is net:[{own}]: begin a trial there, or \
             remove the journal if that namespace is gone"
        ))
    }

    fn read(text: &str) -> Self {
        let mut contents = Self::default();
        // A line that was cut was not yet on the disk, so what it describes was not done.
        let whole = text.rfind('\n').map_or("", |end| text.get(..end).unwrap_or(""));
        for line in whole.lines() {
            match decode(line) {
                None => contents.damaged += 1,
                Some(Line::Begin { boot: of, network, .. }) => {
                    contents.other_boot = of != boot();
                    contents.network = Some(network);
                }
                Some(line) => contents.undo.take(line),
            }
        }
        contents
    }
}

fn encode(line: &Line) -> String {
    let json = serde_json::to_string(line).unwrap_or_default();
    format!("{} {json}\n", sum(&json))
}

fn decode(line: &str) -> Option<Line> {
    let (expected, json) = line.split_once(' ')?;
    (sum(json) == expected).then(|| serde_json::from_str(json).ok())?
}

fn sum(json: &str) -> String {
    let digest = Sha256::digest(json.as_bytes());
    digest.iter().take(8).map(|octet| format!("{octet:02x}")).collect()
}

/// Changes with every start of the machine.
fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

/// The number of the network namespace of this thread; 0 if it cannot be read.
fn own_network() -> u64 {
    fs::metadata("/proc/thread-self/ns/net").map_or(0, |data| data.ino())
}

/// A folder that only this user can write to: what stands in it is written to settings of the kernel.
fn prepare(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let data = fs::metadata(folder)?;
    let own = rustix::process::geteuid().as_raw();
    if data.uid() != own || data.mode() & 0o022 != 0 {
        return Err(io::Error::other("other users can write to this folder"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
