//! How a running server passes what it holds to its successor, so that no question is lost.
//!
//! The *predecessor* listens under a name ([`Offer`]). The *successor* asks there
//! ([`Inheritance::claim`]) and is given every listening socket, with what waits in it, the
//! descriptors that the node's network hangs on, and the cache. It builds what it needs beside the
//! running server, which goes on answering. Then:
//!
//! | successor | predecessor |
//! |---|---|
//! | is ready for a while; `Commit` | |
//! | | takes no more questions; `Paused` |
//! | takes questions; `Stay` | |
//! | | stays as it is for a while |
//! | | answers what it had taken, passes on its connections, each once nothing is owed to it; `Bye` |
//!
//! The sockets are the same in both processes: each question goes to one of the two, whichever
//! takes it, and what nobody takes waits. Until its while is over the predecessor goes on by itself
//! whenever the successor is gone: the kernel says so at once, because the connection between the
//! two closes with the last thread of the other process, and nobody else has its end. Before `Stay`
//! that is so in whatever way it ends, and the successor has taken no question, so none goes with
//! it. After `Stay` it is so unless the successor has said `Farewell`, and what it had taken is
//! lost.

mod channel;
mod inheritance;
mod message;
mod offer;

#[cfg(test)]
mod tests;

pub use inheritance::{Goodbye, Inheritance, Trial};
pub use message::VERSION;
pub use offer::{Holder, Name, Offer};

use nodens_net::InheritedListener;
use std::io;
use std::os::fd::OwnedFd;

/// What passes from one process to the next before it takes questions.
#[derive(Debug, Default)]
pub struct Estate {
    /// The listeners for questions.
    pub listeners: Vec<InheritedListener>,
    /// Everything else, by name.
    pub others: Vec<(String, OwnedFd)>,
}

/// Why there is no hand-over. Whoever was serving goes on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The other process is gone, or does not want to go on.
    #[error("the other process is gone")]
    Gone,
    /// The other process did not answer in time.
    #[error("the other process does not answer")]
    Slow,
    /// The other process said no.
    #[error("refused by the running process: {0}")]
    Refused(String),
    /// The other process belongs to somebody else.
    #[error("the other process belongs to the user with ID {0}")]
    Stranger(u32),
    /// The other process knows another protocol.
    #[error("the other process speaks version {0} of the hand-over, and this one {VERSION}")]
    Version(u16),
    /// The other process does what it should not.
    #[error("unexpected in the hand-over: {0}")]
    Protocol(&'static str),
    /// The one who is to hand over cannot.
    #[error("{0}")]
    Holder(String),
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
}
