//! Versions of a workload of a live Kubernetes cluster, exchanged and put back.
//!
//! - [`Api`]: what is asked of an API server, and [`Cluster`], a real one;
//! - [`Patient`]: one that may be away for a while;
//! - [`Change`]: one field of one object, with what it was and what it becomes. Images, marks, replicas
//!   and switches of operators are all changes, so one function restores them;
//! - [`Record`]: all changes of a run, kept in a Lease of the cluster before the first of them is made;
//! - [`mod@pause`]: pauses owners, unless they are no longer what the record says they were;
//! - [`mod@restore`]: puts everything back from that record, as often as it is called;
//! - [`rights`]: what the account of a run must be allowed to do;
//! - [`Turns`]: image and mark changed turn by turn, unless another program has changed them meanwhile;
//! - [`owner`]: who would undo a change of the workload, and the change that pauses them;
//! - [`Workload`]: a Deployment or DaemonSet, its container, its pods, and whether a rollout is over;
//! - [`counters`]: the kernel's accounts of containers, as kubelets publish them with the time of each reading;
//! - [`job`]: the load as a Job.
//!
//! What is deliberately absent: DNS, loads, statistics, printing.

#![forbid(unsafe_code)]

mod api;
mod change;
pub mod counters;
#[cfg(test)]
mod fake_tests;
pub mod job;
mod known;
pub mod owner;
mod patient;
mod pause;
mod record;
mod restore;
pub mod rights;
mod turn;
mod workload;

pub use api::{Api, Cluster, Error};
pub use change::{Change, Decision, With};
pub use patient::Patient;
pub use pause::{is_needed, pause};
pub use record::{Claim, LEASE_SECONDS, Record, lease_path};
pub use restore::{Outcome, Restored, restore};
pub use turn::Turns;
pub use workload::{Kind, MARK, Pod, Workload};
