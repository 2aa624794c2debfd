//! What is counted of transfers from primaries and of NOTIFY to secondaries, for as long as the process lives.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread writes and any may read.
#[derive(Debug, Default)]
pub struct Cell(AtomicU64);

impl Cell {
    /// Adds to it. Only its one writer may call this: nothing is locked.
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// The sum so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a primary was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Its SOA record.
    Soa,
    /// The differences.
    Ixfr,
    /// The whole zone.
    Axfr,
}

/// What became of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Result {
    /// Another version is served.
    Transferred,
    /// The primary has no later version.
    UpToDate,
    /// Anything else.
    Failed,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Soa, Self::Ixfr, Self::Axfr];

    /// As a label of metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Soa => "soa",
            Self::Ixfr => "ixfr",
            Self::Axfr => "axfr",
        }
    }
}

impl Result {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Transferred, Self::UpToDate, Self::Failed];

    /// As a label of metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Transferred => "transferred",
            Self::UpToDate => "up_to_date",
            Self::Failed => "failed",
        }
    }
}

/// Transfers from primaries, written by the one thread that makes them.
#[derive(Debug, Default)]
pub struct Incoming {
    ended: [[Cell; 3]; 3],
    /// Octets of messages, by kind.
    octets: [Cell; 3],
    /// Nanoseconds from the connection to the end, by kind, of those that did not fail.
    took_ns: [Cell; 3],
    /// Zones that are not served any more because no primary had them in time.
    pub expired: Cell,
    /// Versions of catalogs that break a rule of RFC 9432.
    pub catalogs_broken: Cell,
    /// Zones that could not be read from disk.
    pub unread: Cell,
    /// Zones that could not be written to disk.
    pub unwritten: Cell,
}

impl Incoming {
    /// Something that a primary was asked for has ended, after so many octets and nanoseconds.
    pub fn ended(&self, kind: Kind, result: Result, octets: u64, took_ns: u64) {
        let kind = kind as usize;
        let ended = self.ended.get(kind).and_then(|results| results.get(result as usize));
        ended.into_iter().for_each(|cell| cell.add(1));
        self.octets.get(kind).into_iter().for_each(|cell| cell.add(octets));
        if result != Result::Failed {
            self.took_ns.get(kind).into_iter().for_each(|cell| cell.add(took_ns));
        }
    }

    /// How many have ended so.
    pub fn count(&self, kind: Kind, result: Result) -> u64 {
        let results = self.ended.get(kind as usize);
        results.and_then(|results| results.get(result as usize)).map_or(0, Cell::get)
    }

    /// Octets of all responses of a kind.
    pub fn octets(&self, kind: Kind) -> u64 {
        self.octets.get(kind as usize).map_or(0, Cell::get)
    }

    /// Nanoseconds that those of a kind took that did not fail.
    pub fn took_ns(&self, kind: Kind) -> u64 {
        self.took_ns.get(kind as usize).map_or(0, Cell::get)
    }
}

/// NOTIFY to secondaries, written by the one thread that sends it.
#[derive(Debug, Default)]
pub struct Notified {
    /// Messages sent.
    pub messages: Cell,
    /// Servers that have accepted a version.
    pub accepted: Cell,
    /// Servers that were told of a version as often as they are, and have not accepted.
    pub given_up: Cell,
    /// Servers to which no message could be sent.
    pub unsent: Cell,
}
