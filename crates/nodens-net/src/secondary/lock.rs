//! A folder with zones belongs to one process at a time: two would cut off what the other has written.
//!
//! In a hand-over the predecessor keeps the folder until it leaves. The successor reads what is there, serves it,
//! and writes nothing until then.

use crate::fault::errno_text;
use crate::limits::{STORE_LOCK_INTERVAL, STORE_LOCK_PATIENCE};
use nodens_core::log::{Level, Sink};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The file that is locked.
const NAME: &str = "lock";

/// The lock of one folder, which ends with this value.
#[derive(Debug)]
pub(super) struct Lock {
    folder: PathBuf,
    state: Mutex<State>,
    sink: Sink,
}

#[derive(Debug)]
enum State {
    /// It is ours for as long as the file is open, or there is none: some file systems have no locks.
    Held { _file: Option<File> },
    /// Another process has it: since when that is known, when it was last tried, whether that was said.
    Foreign(Instant, Instant, bool),
}

impl Lock {
    /// Tries to get the lock of `folder`.
    pub(super) fn of(folder: &Path, sink: Sink) -> Self {
        let state = match acquire(folder) {
            Ok(Some(file)) => State::Held { _file: Some(file) },
            Ok(None) => {
                let now = Instant::now();
                State::Foreign(now, now, false)
            }
            // It may be somebody's, which is seen later.
            Err(error) if is_passing(&error) => {
                let now = Instant::now();
                State::Foreign(now, now, false)
            }
            // What is wrong with the folder is said of the zones that cannot be written.
            Err(_) => State::Held { _file: None },
        };
        Self { folder: folder.to_owned(), state: Mutex::new(state), sink }
    }

    /// Whether the folder is ours now. Tries again from time to time if it is not.
    pub(super) fn is_held(&self) -> bool {
        let mut state = self.lock();
        let State::Foreign(since, tried, said) = &mut *state else { return true };
        if tried.elapsed() < STORE_LOCK_INTERVAL {
            return false;
        }
        match acquire(&self.folder) {
            Ok(Some(file)) => {
                self.say(Level::Info, "the other process has left it, zones are stored");
                *state = State::Held { _file: Some(file) };
                true
            }
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                *state = State::Held { _file: None };
                true
            }
            // The other process may still write to it, whatever keeps this one from asking.
            missed => {
                *tried = Instant::now();
                if since.elapsed() > STORE_LOCK_PATIENCE && !std::mem::replace(said, true) {
                    let reason = match missed {
                        Err(error) => errno_text(&error),
                        Ok(_) => "another process has the lock".to_owned(),
                    };
                    self.say(Level::Warning, &format!("failed to store zones: {reason}"));
                }
                false
            }
        }
    }

    fn say(&self, level: Level, text: &str) {
        self.sink.line(level, super::ORIGIN, format!("{}: {text}", self.folder.display()));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
