//! What a cluster has under a name: from the labels of a question to addresses, ports and records.
//!
//! It takes a snapshot and [`Rules`], and knows no directive.

mod address;
pub(crate) mod compose;
pub(crate) mod find;
pub(crate) mod name;
pub(crate) mod records;
mod rules;
pub(crate) mod servers;

pub(crate) use rules::{PodMode, Rules};
