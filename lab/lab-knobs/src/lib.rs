//! Settings that may make a DNS server faster or slower, and the way to change them that undoes it.
//!
//! - [`knobs`]: the settings that this crate knows: where they are, which values they take, when a
//!   value takes effect, and what has been claimed of them. [`Choice::parse`] reads those that users
//!   name.
//! - [`Scope`]: what a trial may change: two network namespaces of its own, or the machine.
//! - [`Session`]: a trial. All changes are made by a second process, the *keeper*, which has saved
//!   the values before, reads back what it has set, and restores everything when the trial ends or
//!   its process is killed. [`keeper::run`] is that process.
//!
//! Linux only; needs root, and the programs `ip` and `tc`.

#![forbid(unsafe_code)]

mod catalogue;
mod choice;
mod error;
mod journal;
pub mod keeper;
mod knob;
mod link;
mod listener;
mod near;
mod network;
mod place;
mod protocol;
mod scope;
mod session;
mod setting;
mod tools;

pub use catalogue::knobs;
pub use choice::Choice;
pub use error::{Error, Problem};
pub use journal::{Earlier, Leftover};
pub use keeper::Keeper;
pub use knob::{Claim, Expect, Kind, Knob, Side, Space, Takes, Value, Values};
pub use listener::SocketOption;
pub use scope::Scope;
pub use session::{Availability, Session, Survey, survey};
