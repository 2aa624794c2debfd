//! Why there is no hand-over, or another outcome than the one that was wanted.

use super::start::PREDECESSOR;
use nodens_node::handover::Error;
use std::io;
use std::sync::mpsc::RecvError;

/// Why a process that is to take over, or to take the name, does not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClaimError {
    #[error("another process serves, ending: {0}")]
    AnotherServes(EndReason),
    #[error("cannot start the thread that takes over: {0}")]
    Thread(io::Error),
    #[error("{PREDECESSOR}: {0}")]
    Connection(io::Error),
    #[error("no hand-over from the process that started this one: it is busy")]
    ParentBusy,
    #[error("no hand-over from the process that started this one: {0}")]
    Parent(Error),
}

/// Why a successor has to end: another process serves, or may serve.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EndReason {
    /// The predecessor resumes.
    #[error("{0}")]
    Resumed(String),
    #[error(transparent)]
    Handover(Error),
    #[error("cannot start the thread that takes over: {0}")]
    Thread(io::Error),
    #[error("the process that ran before has ended the hand-over, and still runs")]
    StillRuns,
    #[error("the process that ran before is gone, and another one has its name")]
    NameTaken,
}

/// Why no successor was started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SuccessorError {
    #[error("the Corefile came from standard input, which a successor cannot read again")]
    StandardInput,
    #[error("a hand-over is under way")]
    UnderWay,
    #[error("the hand-over thread failed to start")]
    NotOffered,
    #[error(transparent)]
    Connection(#[from] io::Error),
    #[error("successor {0} is still starting")]
    Starting(u32),
    #[error("the thread that starts successors has failed")]
    ThreadFailed,
    #[error(transparent)]
    NoReply(#[from] RecvError),
    #[error("{program}: {error}")]
    Program { program: String, error: io::Error },
}

/// Why this process does not hand over now.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HolderError {
    #[error("the server is busy with something else")]
    Busy,
    #[error("the server ends")]
    Ends,
    #[error("a hand-over is under way")]
    UnderWay,
    #[error(transparent)]
    Descriptors(#[from] io::Error),
}
