//! Which questions are asked, in which order, and by which client.
//!
//! What is sent as item `n` of a plan depends on the plan and `n` alone, so any number of threads
//! sends the same octets.
//!
//! - [`workload`]: messages and the order in which they are used;
//! - [`names`]: dnsperf's query files; [`cluster`]: the pods of a Kubernetes node.
//!
//! What is deliberately absent: sockets, the clock, and when a question is sent.

#![forbid(unsafe_code)]

pub mod cluster;
pub mod names;
pub mod workload;

use lab_random as rng;
pub use workload::Workload;
