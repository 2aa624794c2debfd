//! Sockets and clock: one event loop per worker of `nodens-core`, on a CPU of its own.
//!
//! A worker's thread waits for its own sockets only: UDP sockets and TCP listeners that share
//! their addresses with those of the other workers (`SO_REUSEPORT`), so that a question is
//! answered on the CPU on which it arrived, client connections, connections to upstreams, and one
//! descriptor by which other threads wake it. Whatever arrives goes to
//! [`nodens_core::Worker`], which decides; what it wants done comes back as
//! [`nodens_core::Action`]s.
//!
//! What is deliberately absent: an async runtime, locks between workers on the way of a question,
//! and any opinion about what an answer should be.

#![deny(unsafe_code)]

mod ask;
mod cgroup;
pub mod clock;
mod context;
mod counters;
pub mod cpu;
mod descriptors;
mod event_loop;
mod fault;
mod handover;
mod http;
pub mod limits;
mod listeners;
pub mod lookup;
pub mod memory;
pub mod notify;
mod pipe;
mod poll;
mod quic;
mod random;
mod retire;
pub mod runtime;
pub mod secondary;
mod slots;
mod supervisor;
mod sys;
mod tcp;
pub mod tun;
/// Connections without sockets, for fuzz targets.
#[cfg(feature = "testing")]
pub mod testing {
    pub use crate::http::http3::testing as http3;
    pub use crate::http::testing::*;
    pub use crate::pipe::testing::*;
}
mod udp;
pub mod updates;
mod upstream;
mod vitals;

pub use ask::{Way, ask};
pub use descriptors::{
    connections_max, connections_per_client, connections_per_network, descriptors_for,
    upstream_ports,
};
pub use fault::errno_text;
pub use handover::{Adopter, Unresponsive};
pub use listeners::{InheritedListener, ListenError, ListenerAddress, bind_early};
pub use notify::Notifications;
pub use runtime::{Left, Options, Runtime, StartError};
pub use secondary::Secondaries;
pub use sys::{Peer, peer, take_stdin};
pub use tcp::HandedConnection;
pub use updates::Updates;
pub use vitals::{Stalled, Vitals};
