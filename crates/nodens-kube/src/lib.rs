//! Watches the API servers of Kubernetes clusters and publishes what matters to DNS, as snapshots
//! of `nodens_core::cluster`.
//!
//! [`Watches`] is the whole of it: one watch for each source that a configuration names, all on one
//! thread. A watch has one loop for each kind of object, so that a kind it may not read, or that
//! does not exist, stops no other: list, then follow, and go on from the last version after a
//! break. A list is a stream (`sendInitialEvents`) where the server offers that, and pages where it
//! does not; either is applied object by object to the one copy there is.
//!
//! The crate `kube` reads configurations and credentials; whom we believe is decided as Go decides it
//! (`trust`), since servers exist that nothing else refuses. The loop is our own,
//! and so is the reading of objects: a message of protobuf, or a line of JSON from a server or of a
//! kind that has no other form, is read straight into the few fields that DNS needs, borrowed from
//! the buffer it arrived in, so a list never exists in memory, not even as a page of objects.
//! `kube::runtime::watcher` holds whole objects and pages of them, and `k8s-openapi` reads JSON only.
//!
//! What is deliberately absent: answers. Nothing here is called while a question is answered.

#![forbid(unsafe_code)]

mod access;
mod connection;
mod events;
mod fault;
mod form;
mod frames;
mod items;
mod kinds;
mod limits;
mod lines;
mod list;
mod messages;
mod metrics;
mod objects;
mod pace;
mod protobuf;
mod publish;
mod report;
#[cfg(feature = "testing")]
pub mod testing;
mod trust;
mod watch;
mod watches;

pub use access::ConfigError;
pub use watch::Moments;
pub use watches::Watches;
