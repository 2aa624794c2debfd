//! How a running server passes what it holds to its successor, so that no query is lost.
//!
//! The *predecessor* listens under a name in a [`Folder`] ([`Offer`]), or starts the successor itself.
//! The *successor* asks there ([`Takeover::claim`]). Both show that they know the secret of the
//! folder; nothing else of another process is looked at before. The successor is given every listening
//! socket, with what waits in it, and the cache. It builds what it needs beside the running server,
//! which answers meanwhile. Then:
//!
//! | successor | predecessor |
//! |---|---|
//! | is ready for a while; `Commit` | |
//! | | takes no more queries; `Paused`, with the descriptors that the node's network hangs on |
//! | takes queries; `Stay` | |
//! | | stays as it is for a while |
//! | | answers what it had taken, passes on its connections, each once nothing is owed to it; `Left` |
//!
//! The sockets are the same in both processes: each query goes to one of the two, whichever
//! takes it, and what nobody takes waits. What brings queries to the node is the predecessor's alone
//! until `Paused`: if it ends, however that is, the kernel takes the addresses away.
//!
//! Until its while is over the predecessor resumes by itself whenever the successor is gone, or
//! stopped. That it is gone the kernel says at once, because the connection between the two closes with
//! the last thread of the other process, and nobody else has its end; that it is stopped shows when
//! it says `Alive` no more. A predecessor that resumes says `Refused`, and a successor that reads that
//! ends, whatever it has said or done before. One that reads the end of the connection is alone.
//! After `Stay` the predecessor does not resume if the successor has said `Ending`.

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

/// What passes from one process to the next before it takes questions.
#[derive(Debug, Default)]
pub struct HandoverState {
    /// The listeners for questions.
    pub listeners: Vec<InheritedListener>,
    /// Everything else, by name.
    pub others: Vec<(String, OwnedFd)>,
}

/// Open files by name.
pub type Named = Vec<(String, OwnedFd)>;

/// Why there is no hand-over. Whoever served serves on.
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
    /// The other process does not know the secret.
    #[error("the other process does not know the secret of the hand-over's folder")]
    Secret,
    /// The running process serves, and cannot hand over now.
    #[error("the running process applies a changed configuration first")]
    CalledOff,
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
