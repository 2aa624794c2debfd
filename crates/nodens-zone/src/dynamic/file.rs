//! What is known of the file that a zone is kept in, without it being read.

use super::lock;
use crate::image::Written;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// What tells two states of a file apart, and two files of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The number of its device.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// Octets of it.
    pub len: u64,
    /// When it was changed last, in Unix seconds and nanoseconds.
    pub modified: (i64, i64),
}

/// What is known of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownFile {
    /// Its state.
    pub stamp: Stamp,
    /// What it has in this state; nothing if it cannot be used.
    pub written: Option<Written>,
}

/// What this process knows of the file of a zone.
#[derive(Debug, Default)]
pub struct FileState {
    /// Whether this process writes it.
    is_written: AtomicBool,
    known: Mutex<Option<KnownFile>>,
    served: Mutex<Option<Written>>,
}

impl FileState {
    /// Whether this process writes it: what the file has then may not be confirmed yet.
    pub fn is_written(&self) -> bool {
        self.is_written.load(Ordering::Acquire)
    }

    /// This process begins to write it.
    pub fn begin(&self) {
        self.is_written.store(true, Ordering::Release);
    }

    /// This process does not write it any more, and leaves it so; nothing if that is not known.
    pub fn end(&self, known: Option<KnownFile>) {
        self.set_known(known);
        // What is served stays so where the file could not be taken.
        if let Some(written) = known.and_then(|known| known.written) {
            self.set_served(Some(written));
        }
        self.is_written.store(false, Ordering::Release);
    }

    /// How it was found or left last.
    pub fn known(&self) -> Option<KnownFile> {
        *lock(&self.known)
    }

    /// It was found so.
    pub fn set_known(&self, known: Option<KnownFile>) {
        *lock(&self.known) = known;
    }

    /// What a file had when this process read or wrote what is served, if that is known. Two processes that did not know
    /// of each other may have made other files since.
    pub fn served(&self) -> Option<Written> {
        *lock(&self.served)
    }

    /// What it has is served.
    pub fn set_served(&self, written: Option<Written>) {
        *lock(&self.served) = written;
    }
}
