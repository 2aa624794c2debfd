//! Why a server does not start, or keeps the configuration it has.

use crate::clusters::WatchError;
use crate::endpoints::ListenError;
use crate::handover::ClaimError;
use crate::load::LoadError;
use crate::pidfile::PidfileError;
use std::io;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(super) enum StartError {
    /// The process has to end before it serves, and nothing is wrong.
    #[error("told to end")]
    Ended,
    Claim(#[from] ClaimError),
    Load(#[from] LoadError),
    Watch(#[from] WatchError),
    /// There is no runtime for the HTTP endpoints.
    Http(#[from] io::Error),
    Listen(#[from] ListenError),
    Workers(#[from] nodens_net::StartError),
    Pidfile(#[from] PidfileError),
    /// It would serve less than the predecessor.
    #[error("zones do not fit into the memory that the predecessor leaves: {0} octets")]
    NoRoom(usize),
}

/// Why a changed configuration is not taken up.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReloadError {
    #[error("{}", .0.brief())]
    Load(#[from] LoadError),
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// Names of a cluster that are answered would fail until its API server can be reached.
    #[error(
        "plugin/kubernetes: timed out waiting for the Kubernetes API; \
         the running configuration has the cluster's names and stays"
    )]
    Unsynced,
    #[error(transparent)]
    Http(#[from] ListenError),
    #[error(transparent)]
    Dns(#[from] nodens_net::ListenError),
}
