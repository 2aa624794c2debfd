//! Load on a DNS server, and what it did to the queries.
//!
//! Truthful before fast. The default is an *open loop*: every query has an intended time on an
//! absolute schedule, and is sent then whether or not earlier ones were answered. Two latencies are
//! kept: *response* (from the intended time, what a client suffers) and *service* (from the system
//! call that sent the query). A query that times out stays in the percentiles as
//! right-censored. Every query ends in exactly one outcome, every datagram in exactly one
//! counter ([`tally`]), and a run that the generator itself disturbed is INVALID ([`judge`]).
//!
//! The layers, lowest first:
//!
//! - `rng` (the crate `lab-random`): seeded numbers by position, the same on every machine and for
//!   any number of threads;
//! - `lab-workload` (another crate): which queries are asked, and by which client;
//! - [`schedule`] says when each of them is sent;
//! - `table`, `session`: queries in flight, matched by socket, ID and question; no I/O, no clock;
//! - [`transport`], [`life`]: how queries travel, and how long connections live;
//! - `shard`, `udp`, `stream`: one thread, and the loops that send and receive;
//! - [`mod@run`]: pre-flight checks, threads, progress, the merged [`run::Outcome`].
//!
//! What is deliberately absent: printing, files, and any opinion about the server.

#![forbid(unsafe_code)]

pub mod baseline;
mod clock;
pub mod connections;
mod counts;
mod error;
pub mod fates;
pub mod host;
pub mod judge;
pub mod life;
mod loss;
pub mod objective;
mod plan;
mod ports;
mod preflight;
mod progress;
pub mod run;
pub mod schedule;
mod session;
mod shard;
pub mod sources;
mod start;
mod stream;
mod table;
pub mod tally;
pub mod transport;
mod udp;
mod worker;

pub use lab_random as rng;
pub use lab_workload::{Workload, cluster, names, workload};
pub use loss::Loss;
pub use plan::{Plan, Planned};
pub use run::{Config, Observer, Outcome, Pace, Progress, Spin, Stamps, Transport};
pub use run::{run, run_by, run_watched};
pub use udp::errors::{REFUSED_LEN, has_no_room, is_refusal};
pub use worker::{NoWorker, Worker};

/// Octets both ways over TCP, with or without TLS, for loops of other crates.
pub mod pipe {
    pub use crate::stream::{End, Handshake, Pipe, TlsError, TlsSettings, is_pending};
}

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// `duration` in nanoseconds; the largest number for those beyond 584 years.
pub(crate) fn nanos(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
