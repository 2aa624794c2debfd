//! The result file of a load: everything that was measured, and all that is needed to judge it.
//!
//! One JSON object, [`ResultFile`], described field by field there and in `docs/result.schema.json`.
//! All histograms are kept whole, so every report and every export is made from the file alone and
//! made again is the same, octet for octet. Times are whole nanoseconds.
//!
//! [`comparison`] is the file of a comparison of two servers, [`search`] that of a search for a rate,
//! [`analysis`] that of results read again, [`tuning`] that of a trial of settings.
//! [`collect`] finds out where the load runs.
//!
//! What is deliberately absent: statistics, pictures, and any change to what was measured.

#![forbid(unsafe_code)]

pub mod analysis;
pub mod collect;
pub mod comparison;
mod connections;
mod convert;
pub mod export;
mod file;
pub mod histogram;
mod layout;
mod merge;
pub mod search;
mod setting;
mod sound;
mod store;
pub mod tuning;
mod workers;

pub use connections::ConnectionFates;
pub use convert::{About, convert};
pub use file::*;
pub use merge::{MergeError, merge};
pub use setting::*;
pub use store::{ReadError, WriteError, from_json, read, to_json, to_json_line, write, write_text};
pub use workers::{ClockOffset, WorkerPart, WorkerReport};

/// Version of the file's layout. A reader takes this one and no other.
pub const SCHEMA: u32 = 4;
/// The oldest layout that can be read: it calls `icmp_refused` `refused`. Up to layout 3 histograms have
/// no percentiles beside their buckets, and seconds only response times.
pub(crate) const SCHEMA_OLDEST: u32 = 2;

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// The JSON schema of the file.
pub fn json_schema() -> String {
    store::schema_text(&schemars::schema_for!(ResultFile))
}

#[cfg(test)]
mod tests;
