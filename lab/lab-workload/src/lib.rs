//! Which queries are asked, in which order, and by which client.
//!
//! What is sent as item `n` of a plan depends on the plan and `n` alone, so any number of threads
//! sends the same octets. Only the ID and the time of a signature are not part of the plan.
//!
//! - [`workload`]: messages and the order in which they are used, [`plan`] names them all together;
//! - [`edns`], [`types`], [`tsig`]: what queries look like;
//! - [`names`], [`binary`], [`update`]: the files of dnsperf and others; [`capture`]: packets;
//!   [`dnstap`]: what servers write about their messages;
//! - [`recorded`]: what was recorded of a traffic, as it happened; [`copies`]: what of it is there twice;
//! - [`template`]: names that are made;
//! - [`search`]: what a lookup becomes on the wire; [`cluster`]: the pods of a Kubernetes node.
//!
//! Random numbers are those of `lab-random` (SplitMix64 by position).
//!
//! What is deliberately absent: sockets, the clock, files, and when a query is sent.

#![forbid(unsafe_code)]

pub mod binary;
pub mod capture;
pub mod cluster;
pub mod copies;
pub mod dnstap;
pub mod edns;
pub mod names;
pub mod plan;
pub mod recorded;
pub mod search;
pub mod template;
mod text;
pub mod tsig;
pub mod types;
pub mod update;
pub mod workload;

pub use template::Template;
pub use types::TypeMix;
pub use workload::{Style, Workload};
