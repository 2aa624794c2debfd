//! The folder that processes which follow each other share, and the names in it.
//!
//! Whoever cannot open the folder can neither find a server nor pretend to be one. For each name
//! there are a lock and a socket; the kernel gives the lock back with the last descriptor, however
//! the processes that have it end. Names belong to a network namespace, because what is handed over
//! does: pods with networks of their own never meet in the folder of their node.

use super::channel;
use super::secret::{Secret, check_private};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, fchmod, flock, fstat, openat, unlinkat};
use rustix::io::Errno;
use rustix::net::SocketAddrUnix;
use std::fmt::Write;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

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
    /// It is not there (`NotFound`), or others may write to it, or have written to it.
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
            fchmod(&folder, OWNER_ONLY)?;
        }
        check_private(&folder)?;
        let secret = Secret::of(folder.as_fd())?;
        Ok(Self { folder: Arc::new(folder), secret })
    }

    /// Where the socket of `name` is, in few enough octets for an address.
    pub(crate) fn address(&self, name: &str) -> io::Result<SocketAddrUnix> {
        let path = format!("/proc/self/fd/{}/{}.socket", self.folder.as_raw_fd(), file(name)?);
        Ok(SocketAddrUnix::new(path)?)
    }
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
        let path = format!("{}.lock", file(name)?);
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
        let path = format!("{}.socket", file(&self.name)?);
        match unlinkat(&*self.folder.folder, path, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        channel::listen(&self.folder.address(&self.name)?)
    }
}
