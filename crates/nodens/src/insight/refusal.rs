//! Why `nodens blackhole` neither prints nor writes any lines.

use crate::load::LoadError;
use nodens_wire::{Name, NameError};
use std::io;
use std::path::PathBuf;

/// Why there are no lines, or why they are not written.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Key(#[from] nodens_corefile::Error),
    #[error("expected one NAME, such as db.bad.invalid or '*.bad.invalid'")]
    Words,
    #[error("{written}: not a domain name: {error}")]
    NoName { written: String, error: NameError },
    #[error("{name}: {error}")]
    Joined { name: String, error: NameError },
    #[error("{0} would refuse every name there is")]
    EveryName(String),
    #[error("no server block serves {0}")]
    NotServed(Name),
    #[error("no such server block")]
    NoBlock,
    #[error("{0}: no directive on a line of its own, in front of which lines can stand")]
    NoLine(String),
    #[error("the Corefile would not be accepted with the lines: {0}")]
    NotAccepted(LoadError),
    #[error(
        "the lines would not stand in the server blocks they are for, and in no other: put them there by hand"
    )]
    OtherBlocks,
    #[error("{0} would still be asked upstream: another line answers first")]
    AnsweredBefore(Name),
    #[error("{0} would be refused as well")]
    TakesMore(Name),
    #[error("{}: {error}", .path.display())]
    Write { path: PathBuf, error: io::Error },
    #[error("{0} is not a writable file")]
    NotWritable(String),
}
