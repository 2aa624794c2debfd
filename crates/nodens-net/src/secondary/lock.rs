//! A folder with zones belongs to one process at a time: two would cut off what the other has written.
//!
//! In a hand-over the predecessor keeps the folder until it leaves. The successor reads what is there, serves it,
//! and writes nothing until then.

use crate::fault::errno_text;
use crate::limits::{STORE_LOCK_INTERVAL, STORE_LOCK_PATIENCE};
use nodens_core::log::{Level, Sink};
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The file that is locked.
const NAME: &str = "lock";

/// The lock of one folder, which ends with this value.
#[derive(Debug)]
pub(super) struct Lock {
    folder: Arc<Path>,
    state: Mutex<State>,
    /// How often it was ours and then was not any more.
    losses: AtomicU32,
    sink: Sink,
}

#[derive(Debug)]
enum State {
    /// It is ours for as long as the file is open, and is the one that other processes would lock.
    Held {
        file: File,
        /// When that was last looked at.
        seen: Instant,
    },
    /// There is none, as some file systems have no locks, or the folder is not there. The folder counts as ours.
    Without {
        /// When it was last tried.
        tried: Instant,
    },
    /// Another process has it, as far as is known.
    Foreign(Foreign),
}

/// What is known of a lock that is not ours.
#[derive(Debug)]
struct Foreign {
    since: Instant,
    /// When it was last tried.
    tried: Instant,
    /// Since when the file system gives no locks, if it has given none at every attempt since.
    lockless: Option<Instant>,
    /// Whether it was said that nothing is stored.
    is_said: bool,
}

impl Foreign {
    fn new(now: Instant, error: Option<&io::Error>) -> Self {
        let mut foreign = Self { since: now, tried: now, lockless: None, is_said: false };
        foreign.missed(now, error);
        foreign
    }

    /// It was not to be had, as another process has it or for this error. Gives whether the file system has no locks:
    /// an NFS server without a lock manager says for good what one that is restarted says for a while.
    fn missed(&mut self, now: Instant, error: Option<&io::Error>) -> bool {
        self.tried = now;
        let is_lockless = error.is_some_and(|error| error.raw_os_error() == Some(libc::ENOLCK));
        self.lockless = is_lockless.then(|| self.lockless.unwrap_or(now));
        let lasts = |since: Instant| now.duration_since(since) > STORE_LOCK_PATIENCE;
        error.is_some_and(|error| error.kind() == io::ErrorKind::Unsupported)
            || self.lockless.is_some_and(lasts)
    }
}

impl Lock {
    /// Tries to get the lock of `folder`.
    pub(super) fn of(folder: &Path, sink: Sink) -> Self {
        let state = match acquire(folder) {
            Ok(Some(file)) => State::held(file),
            Ok(None) => State::Foreign(Foreign::new(Instant::now(), None)),
            // It may be somebody's, which is seen later.
            Err(error) if is_passing(&error) => {
                State::Foreign(Foreign::new(Instant::now(), Some(&error)))
            }
            // What is wrong with the folder is said of the zones that cannot be written.
            Err(_) => State::Without { tried: Instant::now() },
        };
        let (state, losses) = (Mutex::new(state), AtomicU32::new(0));
        Self { folder: folder.into(), state, losses, sink }
    }

    /// Changes whenever another process may have written to the folder although it was ours.
    pub(super) fn losses(&self) -> u32 {
        self.losses.load(Ordering::Acquire)
    }

    /// The folder.
    pub(super) fn folder(&self) -> &Arc<Path> {
        &self.folder
    }

    /// Whether the folder is ours now. Tries again from time to time if it is not.
    pub(super) fn is_held(&self) -> bool {
        let mut state = self.lock();
        self.look(&mut state);
        if let State::Without { tried } = &mut *state
            && tried.elapsed() >= STORE_LOCK_INTERVAL
        {
            *tried = Instant::now();
            match acquire(&self.folder) {
                Ok(Some(file)) => *state = State::held(file),
                Ok(None) => *state = State::Foreign(Foreign::new(Instant::now(), None)),
                Err(_) => {}
            }
        }
        let State::Foreign(foreign) = &mut *state else { return true };
        if foreign.tried.elapsed() < STORE_LOCK_INTERVAL {
            return false;
        }
        let error = match acquire(&self.folder) {
            Ok(Some(file)) => {
                self.say(Level::Info, "the other process has left it, zones are stored");
                *state = State::held(file);
                return true;
            }
            Ok(None) => None,
            Err(error) => Some(error),
        };
        if foreign.missed(Instant::now(), error.as_ref()) {
            self.say(
                Level::Warning,
                "failed to lock it, as the file system has no locks: zones are stored without",
            );
            *state = State::Without { tried: Instant::now() };
            return true;
        }
        // The other process may still write to it, whatever keeps this one from asking.
        if foreign.since.elapsed() > STORE_LOCK_PATIENCE
            && !std::mem::replace(&mut foreign.is_said, true)
        {
            let reason = error
                .as_ref()
                .map_or_else(|| "another process has the lock".to_owned(), errno_text);
            self.say(Level::Warning, &format!("failed to store zones: {reason}"));
        }
        false
    }

    /// Whether what is locked is still there: a folder that was removed and made anew has no lock.
    fn look(&self, state: &mut State) {
        let State::Held { file, seen } = state else { return };
        if seen.elapsed() < STORE_LOCK_INTERVAL {
            return;
        }
        *seen = Instant::now();
        if is_in(&self.folder, file) {
            return;
        }
        self.losses.fetch_add(1, Ordering::Release);
        let (text, next) = match acquire(&self.folder) {
            Ok(Some(file)) => ("it is locked again, zones are stored anew", State::held(file)),
            Ok(None) => (
                "another process has it now, zones are not stored until that leaves",
                State::Foreign(Foreign::new(Instant::now(), None)),
            ),
            Err(error) => (
                "failed to lock it again, zones are not stored until then",
                State::Foreign(Foreign::new(Instant::now(), Some(&error))),
            ),
        };
        *state = next;
        self.say(Level::Warning, &format!("its lock was removed: {text}"));
    }

    fn say(&self, level: Level, text: &str) {
        self.sink.line(level, super::ORIGIN, format!("{}: {text}", self.folder.display()));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn held(file: File) -> Self {
        Self::Held { file, seen: Instant::now() }
    }
}

/// Whether a locked file is the one that other processes would lock. A folder that is not there has nothing to lock; it is
/// made anew with the next zone that is written.
fn is_in(folder: &Path, file: &File) -> bool {
    let number = |found: Metadata| (found.dev(), found.ino());
    match (file.metadata(), fs::metadata(folder.join(NAME))) {
        (_, Err(error)) if error.kind() == io::ErrorKind::NotFound => !folder.exists(),
        (Ok(own), Ok(there)) => number(own) == number(there),
        // As NFS says of a file that was removed.
        (Err(_), Ok(_)) => false,
        // What keeps this process from looking may pass.
        (_, Err(_)) => true,
    }
}

/// Whether the lock may be had, or be seen to be another's, at another time.
fn is_passing(error: &io::Error) -> bool {
    use libc::{EINTR, EIO, EMFILE, ENFILE, ENOLCK, ENOMEM, ESTALE};
    let passing = [EINTR, EIO, EMFILE, ENFILE, ENOLCK, ENOMEM, ESTALE];
    error.raw_os_error().is_some_and(|code| passing.contains(&code))
}

/// The locked file; nothing if another process has it.
fn acquire(folder: &Path) -> io::Result<Option<File>> {
    fs::create_dir_all(folder)?;
    let path = folder.join(NAME);
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_file_system_that_never_has_locks_has_none() {
        let error = |code| Some(io::Error::from_raw_os_error(code));
        let (none, other, unsupported) =
            (error(libc::ENOLCK), error(libc::EIO), error(libc::EOPNOTSUPP));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut foreign = Foreign::new(start, none.as_ref());
        for (seconds, missed, is_lockless) in [
            (60, &none, false),
            (120, &none, false),
            (121, &none, true),
            // Another process has it, or it is not known who has.
            (150, &None, false),
            (151, &none, false),
            (260, &other, false),
            (280, &none, false),
            (400, &none, false),
            (401, &none, true),
            (402, &unsupported, true),
        ] {
            assert_eq!(foreign.missed(at(seconds), missed.as_ref()), is_lockless, "{seconds}");
        }
    }
}
