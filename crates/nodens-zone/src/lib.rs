//! The set of zones ([`ZoneTable`]), and how zones are handed on: how the records of a zone become
//! the messages of a zone transfer (RFC 5936), who is told that a zone has changed and how often
//! (NOTIFY, RFC 1996), which of two serial numbers is newer (RFC 1982), and when a secondary asks its
//! primaries (RFC 1034 section 4.3.5). [`tsig`] signs and verifies messages with shared secrets (RFC 8945),
//! [`dnssec`] signs records.
//! [`presentation`] reads records in presentation format, [`master`] whole zones of them.
//!
//! What is deliberately absent: sockets, clocks, threads, `unsafe`, and where records come from. A
//! [`Zone`] gives a [`Version`] of itself, which no later change touches; its records are read one
//! by one through a [`Cursor`], so that a transfer holds no copy of the zone. The answer to an
//! IXFR question (RFC 1995) that is not a whole zone is a sequence of records as well, those of
//! one difference after the other: [`journal`] keeps these, and is another cursor behind the same
//! [`Transfer`]. [`incoming`] is the other direction, from messages to a version; [`image`]
//! is versions as octets that a restart goes on with.

#![forbid(unsafe_code)]

pub mod catalog;
pub mod counts;
pub mod data;
pub mod dnssec;
pub mod dynamic;
pub mod image;
pub mod incoming;
pub mod journal;
pub mod limits;
pub mod master;
pub mod notify;
mod pack;
pub mod presentation;
pub mod refresh;
pub mod secondary;
pub mod serial;
pub mod table;
pub mod transfer;
pub mod tsig;
pub mod update;
mod zone;

pub use master::{Includes, Master, MasterError};
pub use notify::{Notifier, NotifyRules, NotifyService, Outcome, Secondaries};
pub use serial::Serial;
pub use table::{Changes, Shown, ZoneTable, Zones};
pub use transfer::{Next, Question, Transfer, TransferError, requested_serial};
pub use zone::{Advance, Cursor, RecordRef, Records, Sight, Soa, Timers, Version, Zone};
