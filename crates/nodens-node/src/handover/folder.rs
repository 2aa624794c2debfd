//! The folder that processes which follow each other share, and the names in it.
//!
//! Whoever cannot open the folder can neither find a server nor pretend to be one. For each name
//! there are a lock and a socket; the kernel gives the lock back with the last descriptor, however
//! the processes that have it end. Names belong to a network namespace, because what is handed over
//! does: pods with networks of their own never meet in the folder of their node.

use super::channel;
use super::secret::{self, Secret, check_private};
use rustix::fs::{
    AtFlags, Dir, FlockOperation, Mode, OFlags, fchmod, flock, fstat, openat, unlinkat,
};
use rustix::io::Errno;
use rustix::net::SocketAddrUnix;
use std::fmt::Write;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

/// How names of files end.
const LOCK: &str = ".lock";
const SOCKET: &str = ".socket";
/// The longest name; names of links have 15 octets.
const NAME_LEN_MAX: usize = 64;
const OWNER_ONLY: Mode = Mode::RWXU;

/// A folder that nobody else may use.
#[derive(Clone, Debug)]
pub struct Folder {
    folder: Arc<OwnedFd>,
    pub(crate) secret: Secret,
}

impl Folder {
    /// Opens the folder at `path`; makes it if `make` and it is not there.
    ///
    /// # Errors
    ///
    /// It is not there (`NotFound`), or others may write to it, or have written to it, or they may use
    /// what else is in it.
    pub fn open(path: &Path, make: bool) -> io::Result<Self> {
        if make {
            match std::fs::DirBuilder::new().mode(0o700).create(path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let folder = rustix::fs::open(path, flags, Mode::empty())?;
        let stat = fstat(&folder)?;
        let own = stat.st_uid == rustix::process::geteuid().as_raw();
        // As the kubelet makes it: others may look into it, and cannot have put anything there.
        if own && stat.st_mode & 0o022 == 0 && stat.st_mode & 0o077 != 0 {
            // `/run`, for instance: without it other programs of the machine would fail.
            if let Some(other) = foreign(&folder)? {
                return Err(used_by_others(&other, stat.st_mode));
            }
            fchmod(&folder, OWNER_ONLY)?;
        }
        check_private(&folder)?;
        let secret = Secret::of(folder.as_fd())?;
        Ok(Self { folder: Arc::new(folder), secret })
    }

    /// Where the socket of `name` is, in few enough octets for an address.
    pub(crate) fn address(&self, name: &str) -> io::Result<SocketAddrUnix> {
        let path = format!("/proc/self/fd/{}/{}{SOCKET}", self.folder.as_raw_fd(), file(name)?);
        Ok(SocketAddrUnix::new(path)?)
    }
}

/// The name of a file in the folder that no hand-over has made, if there is one.
fn foreign(folder: &OwnedFd) -> io::Result<Option<String>> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let file = entry.file_name().to_string_lossy();
        // `mkfs` makes the last one: the folder may be a file system of its own.
        let ours = matches!(&*file, "." | ".." | "lost+found")
            || secret::is_file_of_one(&file)
            || [LOCK, SOCKET].iter().any(|end| file.ends_with(end));
        if !ours {
            return Ok(Some(file.into_owned()));
        }
    }
    Ok(None)
}

fn used_by_others(file: &str, mode: u32) -> io::Error {
    let text = format!(
        "others may use it (mode {:o}), and it has other files ({file}): a folder of its own is needed",
        mode & 0o7777
    );
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

/// What the files of a name are called.
fn file(name: &str) -> io::Result<String> {
    if name.is_empty() || name.len() > NAME_LEN_MAX {
        let text = format!("a name has 1 to {NAME_LEN_MAX} octets");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let mut file = String::new();
    for octet in name.bytes() {
        match octet {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => file.push(octet.into()),
            _ => _ = write!(file, "%{octet:02x}"),
        }
    }
    let network = std::fs::metadata("/proc/thread-self/ns/net").map_or(0, |file| file.ino());
    Ok(format!("{file}.{network}"))
}

/// A name that nobody else has. Who asks for it finds nobody yet.
#[derive(Debug)]
pub struct Name {
    pub(crate) folder: Folder,
    pub(crate) name: String,
    pub(crate) lock: OwnedFd,
}

impl Name {
    /// Takes `name` in this network namespace, if nobody has it.
    ///
    /// # Errors
    ///
    /// Another process has it (`AddrInUse`).
    pub fn take(folder: &Folder, name: &str) -> io::Result<Self> {
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let path = format!("{}{LOCK}", file(name)?);
        let lock = openat(&*folder.folder, path, flags, Mode::RUSR | Mode::WUSR)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { folder: folder.clone(), name: name.to_owned(), lock }),
            Err(Errno::WOULDBLOCK) => Err(io::ErrorKind::AddrInUse.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// A socket that others find under the name. What a dead process left there goes: its name is
    /// ours.
    pub(crate) fn listen(&self) -> io::Result<OwnedFd> {
        let path = format!("{}{SOCKET}", file(&self.name)?);
        match unlinkat(&*self.folder.folder, path, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        channel::listen(&self.folder.address(&self.name)?)
    }
}

#[cfg(test)]
mod tests;
