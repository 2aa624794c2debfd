//! Asking again for what is cached: at most once at a time per entry.

use super::entry::{self, Entry};
use crate::time::Now;
use std::time::Duration;

/// A refresh that is under way. If it is dropped, it has failed.
#[derive(Debug)]
pub(crate) struct Refresh {
    entry: Option<Entry>,
    began: Now,
    recheck: Duration,
}

impl Refresh {
    /// Begins to refresh `entry`, unless that is being done, or failed less than `recheck` ago.
    pub(crate) fn begin(entry: Entry, now: Now, recheck: Duration) -> Option<Self> {
        let begun = entry::view(&entry).begin_refresh(now, recheck);
        // Lazily: a value made and dropped would end the other refresh.
        begun.then(|| Self { entry: Some(entry), began: now, recheck })
    }

    /// How often the entry was asked for.
    pub(crate) fn hits(&self) -> u64 {
        self.entry.as_ref().map_or(0, |entry| entry::view(entry).hits())
    }

    /// What is refreshed.
    pub(crate) fn entry(&self) -> Option<&Entry> {
        self.entry.as_ref()
    }

    /// Ends the refresh.
    pub(crate) fn finish(mut self, now: Now, refreshed: bool) {
        self.end(now, refreshed);
    }

    fn end(&mut self, now: Now, refreshed: bool) {
        if let Some(entry) = self.entry.take() {
            entry::view(&entry).end_refresh(now, self.recheck, refreshed);
        }
    }
}

impl Drop for Refresh {
    fn drop(&mut self) {
        self.end(self.began, false);
    }
}
