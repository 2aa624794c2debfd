//! Recorded DNS traffic sent again to another server, as it happened.
//!
//! Every recorded query has a time on an absolute schedule and is sent then, whether or not earlier ones were
//! answered: the open loop of `lab-load`, whose counts and whose verdict on the measurement itself these are.
//! Every recorded source (address and port) has a socket of its own and every recorded connection is a
//! connection, as long as there are sockets. Responses are compared with the recorded ones.
//!
//! The layers, in the order in which a recording goes through them:
//!
//! - [`mod@survey`] reads it once and says what is in it, before the first query is sent;
//! - `chosen` leaves out messages of other servers, and copies;
//! - `matching` puts messages in the order of their times and responses to their queries, [`select`] leaves clients
//!   out and gives them local addresses;
//! - `feed` reads ahead on a thread of its own and gives every query its time;
//! - `lanes`, `connection`: sockets, at most as many as allowed; `flight`: queries without an outcome; `books`: counts;
//!   `past`: those of seconds that are over;
//! - `engine` sends and receives; [`compare`] looks at what came back; [`mod@replay`] is the whole of it;
//! - [`fidelity`] compares when queries arrived with when they should have.
//!
//! A recording is never in memory as a whole: its length only costs time. What is deliberately absent: printing,
//! the formats of recordings (`lab-workload`), and how TLS is set up (`lab-load`).

#![forbid(unsafe_code)]

mod books;
mod chosen;
pub mod compare;
mod connection;
mod engine;
mod feed;
pub mod fidelity;
mod flight;
mod lanes;
mod limits;
mod matching;
mod past;
mod places;
mod remarks;
pub mod replay;
pub mod select;
pub mod survey;

pub use compare::Comparison;
pub use fidelity::Fidelity;
pub use replay::{ReplayError, Replayed, Settings, replay};
pub use select::{Addresses, Over, Rewrite, Sample};
pub use survey::Survey;

use lab_workload::recorded::{Broken, Record};

/// A recording from its beginning.
pub type Recording = Box<dyn Iterator<Item = Result<Record, Broken>> + Send>;
