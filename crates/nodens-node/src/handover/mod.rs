//! How a running server passes what it holds to its successor, so that no query is lost.
//!
//! The *predecessor* listens under a name in a [`Folder`] ([`Offer`]), or starts the successor itself.
//! The *successor* connects to it ([`Takeover::claim`]). Both prove that they know the secret of the
//! folder; until then neither reads anything else of the other. The successor gets every listening
//! socket, with the queries that wait in it, and the cache. It prepares everything it needs while the
//! predecessor still answers. Then:
//!
//! | successor | predecessor |
//! |---|---|
//! | has been ready for the trial period; sends `Commit` | |
//! | | reads no more queries; sends `Paused`, with the descriptors of the node's network |
//! | reads queries; sends `Stay` | |
//! | | stands by for the trial period |
//! | | answers the queries it has read, passes on each connection once all its responses are sent; sends `Left` |
//!
//! The sockets are the same in both processes: whichever reads a query answers it, and a query that
//! neither has read waits. Until `Paused` the node's network belongs to the predecessor alone: if it
//! ends in any way, the kernel removes the addresses.
//!
//! Until the trial period is over the predecessor resumes if the successor exits or is stopped. The
//! kernel reports an exit at once: the connection closes with the last thread of the other process,
//! and no third process has its end. A stopped process sends no more `Alive`. A predecessor that
//! resumes sends `Refused`, and a successor that reads it ends, whatever step it has reached. A
//! successor that reads the end of the connection continues as the first process. After `Stay` the
//! predecessor does not resume if the successor has sent `Ending`.

mod busy;
mod channel;
mod folder;
mod limits;
mod listener;
mod message;
mod offer;
mod secret;
mod sending;
mod takeover;

#[cfg(test)]
mod tests;

pub use busy::BusyResponder;
pub use folder::{Folder, Name};
pub use message::VERSION;
pub use offer::{Holder, Offer, Parent, Successor};
pub use takeover::{Claimed, EndNotice, Takeover, Trial};

use nodens_net::InheritedListener;
use std::io;
use std::os::fd::OwnedFd;

/// What passes from one process to the next before it takes queries.
#[derive(Debug, Default)]
pub struct HandoverState {
    /// The listeners for queries.
    pub listeners: Vec<InheritedListener>,
    /// Everything else, by name.
    pub others: Vec<(String, OwnedFd)>,
    /// What the predecessor itself has not got of what it is to answer from: how much of each kind.
    pub lacks: Vec<(String, u32)>,
}

/// Open files by name.
pub type Named = Vec<(String, OwnedFd)>;

/// Why there is no hand-over. The process that served continues to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The other process is gone, or has ended the hand-over.
    #[error("the other process is gone")]
    Gone,
    /// The other process did not answer in time.
    #[error("the other process does not answer")]
    Slow,
    /// The other process refused.
    #[error("refused by the running process: {0}")]
    Refused(String),
    /// The other process does not know the secret.
    #[error("the other process does not know the secret of the hand-over's folder")]
    Secret,
    /// The running process serves, and cannot hand over now.
    #[error("the running process applies a changed configuration first")]
    CalledOff,
    /// The other process belongs to another user.
    #[error("the other process belongs to the user with ID {0}")]
    Stranger(u32),
    /// The other process knows another protocol.
    #[error("the other process speaks version {0} of the hand-over, and this one {VERSION}")]
    Version(u16),
    /// The other process broke the protocol.
    #[error("unexpected in the hand-over: {0}")]
    Protocol(&'static str),
    /// The predecessor cannot hand over.
    #[error("{0}")]
    Holder(String),
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
}
