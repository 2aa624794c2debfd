//! Decides every response. Takes `(now, client, octets)`, returns octets and actions.
//!
//! What is deliberately absent: sockets, clocks, threads, an async runtime, `unsafe`. Whoever owns
//! the sockets calls [`worker::Worker`] with what arrived and does what [`worker::Action`]s say.
//! Files are read when a configuration is built and by the tasks it hands out, never while a
//! question is being answered.
//!
//! The life of a question: [`worker::Worker::receive`] admits it, picks the server block and runs
//! [`chain::run`]: down the handlers until one answers, then back up over those it passed. A
//! question that has to wait is parked; [`worker::Worker::reply`] and its sisters continue it.

#![forbid(unsafe_code)]

mod action;
pub mod asking;
mod authority;
pub mod cache;
pub mod chain;
pub mod challenges;
pub mod cluster;
pub mod coalescing;
mod compact;
pub mod config;
pub mod containment;
pub mod cookie;
mod destinations;
pub mod directives;
mod exchange;
pub mod expression;
pub mod finish;
pub mod go_regex;
mod group;
pub mod handler;
pub mod handlers;
pub mod job;
pub mod kind;
pub mod limits;
pub mod log;
mod lookup;
pub mod metadata;
pub mod metrics;
mod networks;
pub mod proxy;
pub mod response;
mod reverse;
pub mod seeing;
pub mod shared;
mod signatures;
pub mod stream;
pub mod tap;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod ticket;
pub mod time;
mod timers;
pub mod transport;
pub mod upstream;
pub mod worker;
mod zone_keys;
pub mod zone_signer;
pub mod zones;

pub use config::{Config, build};
pub use group::Group;
pub use handler::Job;
pub use job::Client;
pub use shared::Shared;
pub use stream::Stream;
pub use time::Now;
pub use transport::{ListenerKind, Network, Transport};
pub use worker::{Action, Verdict, Worker};
