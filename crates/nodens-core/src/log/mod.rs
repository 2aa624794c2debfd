//! What the core has to say, as values: formatting and writing happen elsewhere.

mod backlog;
mod failure;
mod format;
mod query;

pub use backlog::Backlog;
pub use failure::{FailureRecord, Pattern, Rules};
pub use format::{COMMON, EMPTY, Format};
pub use query::QueryRecord;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};

/// Severity, as CoreDNS prints it in front of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// `[DEBUG]`
    Debug,
    /// `[INFO]`
    Info,
    /// `[WARNING]`
    Warning,
    /// `[ERROR]`
    Error,
    /// `[FATAL]`
    Fatal,
}

/// One thing to write.
#[derive(Debug)]
pub enum Record {
    /// A line of text; `origin` is the directive, empty for the server itself.
    Line {
        /// Severity.
        level: Level,
        /// The directive, printed as `plugin/ORIGIN: `.
        origin: &'static str,
        /// The text.
        text: String,
    },
    /// What a process says of itself when it begins: whole lines, written as they are.
    Banner(String),
    /// A query log line, formatted by the log writer from these facts.
    Query(Box<QueryRecord>),
    /// An error for `errors`, which may consolidate it.
    Failure(Box<FailureRecord>),
}

/// Which lines are written; one for all copies.
#[derive(Clone, Debug, Default)]
pub struct Levels {
    /// Whether there are no lines of level debug.
    is_terse: Arc<AtomicBool>,
}

impl Levels {
    /// Has lines of level debug written, or not. Without this they are.
    pub fn show_debug(&self, shown: bool) {
        self.is_terse.store(!shown, Ordering::Relaxed);
    }

    /// Whether lines of this level are written.
    pub fn shows(&self, level: Level) -> bool {
        level != Level::Debug || !self.is_terse.load(Ordering::Relaxed)
    }
}

/// Hands records to the log writer without waiting; what does not fit is counted.
#[derive(Clone, Debug)]
pub struct Sink {
    sender: SyncSender<Record>,
    dropped: Arc<AtomicU64>,
    levels: Levels,
    backlog: Backlog,
}

impl Sink {
    /// A sink into a bounded channel.
    pub fn new(sender: SyncSender<Record>) -> Self {
        let (levels, backlog) = (Levels::default(), Backlog::default());
        Self { sender, dropped: Arc::default(), levels, backlog }
    }

    /// What waits for the writer, who has to say what it has taken.
    pub fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    /// Which lines are handed over.
    pub fn levels(&self) -> &Levels {
        &self.levels
    }

    /// Hands over one record, or counts it as dropped.
    pub fn send(&self, record: Record) {
        let is_sent = self.backlog.takes(&record)
            && match self.sender.try_send(record) {
                Ok(()) => true,
                Err(TrySendError::Full(record) | TrySendError::Disconnected(record)) => {
                    self.backlog.taken(&record);
                    false
                }
            };
        if !is_sent {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A line of text.
    pub fn line(&self, level: Level, origin: &'static str, text: impl Into<String>) {
        if !self.levels.shows(level) {
            return;
        }
        self.send(Record::Line { level, origin, text: text.into() });
    }

    /// Records dropped so far.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}
