//! How two processes show each other that they share a folder, without saying what is in it.

use super::limits::GREETING_LEN_MAX;
use hmac::{Hmac, Mac};
use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, flock, fstat, fsync, linkat, openat, unlinkat,
};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use sha2::Sha256;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Octets of the secret, of a challenge, and of its answer.
pub(crate) const LEN: usize = 32;
const FILE: &str = "secret";

/// A number that is used once.
pub(crate) type Nonce = [u8; LEN];
/// The answer to a challenge.
pub(crate) type Proof = [u8; LEN];

/// What a proof says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// I am to take over.
    Successor,
    /// You may take over.
    Predecessor,
    /// I serve, and cannot hand over now.
    Busy,
}

/// What both processes know and nobody else.
#[derive(Clone)]
pub(crate) struct Secret([u8; LEN]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// For a connection that was made by one process and inherited by the other: nobody else can have
    /// its ends.
    pub(crate) const INHERITED: Self = Self([0; LEN]);

    /// Reads the secret of `folder`; makes one if there is none yet, or nothing in its file.
    pub(crate) fn of(folder: BorrowedFd<'_>) -> io::Result<Self> {
        match read(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make(folder)?;
                read(folder)
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                fill(folder)?;
                read(folder)
            }
            read => read,
        }
    }

    /// Says `claim`, for this exchange of challenges alone.
    pub(crate) fn prove(&self, claim: Claim, nonces: &[Nonce; 2]) -> Proof {
        let mac = self.mac(claim, nonces);
        mac.finalize().into_bytes().into()
    }

    /// Whether `proof` says `claim`, and is of somebody who knows the secret.
    pub(crate) fn accepts(&self, claim: Claim, nonces: &[Nonce; 2], proof: &Proof) -> bool {
        self.mac(claim, nonces).verify_slice(proof).is_ok()
    }

    fn mac(&self, claim: Claim, nonces: &[Nonce; 2]) -> Hmac<Sha256> {
        // invariant: HMAC takes keys of any length.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key");
        mac.update(b"nodens-handover ");
        mac.update(match claim {
            Claim::Successor => b"successor  ",
            Claim::Predecessor => b"predecessor",
            Claim::Busy => b"busy       ",
        });
        nonces.iter().for_each(|nonce| mac.update(nonce));
        mac
    }
}

/// A number that nobody can foresee.
pub(crate) fn nonce() -> io::Result<Nonce> {
    let mut nonce = [0; LEN];
    // As many octets as these come at once or not at all.
    let len = getrandom(&mut nonce, GetRandomFlags::empty())?;
    if len == LEN { Ok(nonce) } else { Err(io::Error::other("no random octets")) }
}

/// Refuses what others could have written or can read.
pub(crate) fn check_private(file: impl AsFd) -> io::Result<()> {
    let stat = fstat(file)?;
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        let text = format!("it belongs to the user with ID {}", stat.st_uid);
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    if stat.st_mode & 0o077 != 0 {
        let text = format!("others may use it (mode {:o})", stat.st_mode & 0o7777);
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(())
}

/// Whether a file of this name is a secret, or becomes one.
pub(crate) fn is_file_of_one(file: &str) -> bool {
    file.strip_prefix(FILE).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn read(folder: BorrowedFd<'_>) -> io::Result<Secret> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = openat(folder, FILE, flags, Mode::empty())?;
    check_private(&file)?;
    let mut octets = [0; GREETING_LEN_MAX];
    let len = rustix::io::read(&file, &mut octets)?;
    if len == 0 {
        let text = "the file `secret` is empty";
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
    }
    let octets = octets.get(..len).and_then(|octets| octets.try_into().ok());
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "the file `secret` is damaged");
    octets.map(Secret).ok_or_else(wrong)
}

/// Writes a secret into a file without one, as a machine that loses power may leave it. In place, and under a lock:
/// whoever comes first, all read the same.
fn fill(folder: BorrowedFd<'_>) -> io::Result<()> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = openat(folder, FILE, flags, Mode::empty())?;
    check_private(&file)?;
    flock(&file, FlockOperation::LockExclusive)?;
    if fstat(&file)?.st_size == 0 { write(&file) } else { Ok(()) }
}

/// Writes a new secret, and waits until it is on the disk: its name must not be there before it.
fn write(file: &OwnedFd) -> io::Result<()> {
    if rustix::io::write(file, &nonce()?)? != LEN {
        return Err(io::Error::new(io::ErrorKind::WriteZero, "no room for the file `secret`"));
    }
    Ok(fsync(file)?)
}

/// Writes a secret in one step: whoever comes first, all read the same.
fn make(folder: BorrowedFd<'_>) -> io::Result<()> {
    let own =
        format!("{FILE}.{:x}", u64::from_ne_bytes(*nonce()?.first_chunk().unwrap_or(&[0; 8])));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = openat(folder, &*own, flags, Mode::RUSR | Mode::WUSR)?;
    let linked =
        write(&file).and_then(|()| match linkat(folder, &*own, folder, FILE, AtFlags::empty()) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        });
    _ = unlinkat(folder, &*own, AtFlags::empty());
    linked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_gets_one_secret_for_all() {
        let folder = tempfile::tempdir().unwrap();
        let opened = std::fs::File::open(folder.path()).unwrap();
        let secret = || Secret::of(opened.as_fd()).unwrap().0;
        let first = secret();
        // As a machine leaves it that has lost power.
        std::fs::write(folder.path().join(FILE), "").unwrap();
        let all = std::thread::scope(|scope| {
            let threads = [(); 8].map(|()| scope.spawn(secret));
            threads.map(|thread| thread.join().unwrap())
        });
        assert!(all.iter().all(|one| *one == all[0]));
        assert!(all[0] != first && all[0] != [0; LEN]);
    }
}
