//! What can go wrong.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a setting cannot be used in a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its name.
    pub knob: String,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.knob, self.reason)
    }
}

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No setting has this name.
    #[error("no setting is called `{name}`{}", hint(.near))]
    Unknown {
        /// The name.
        name: String,
        /// Names that are similar.
        near: Vec<String>,
    },
    /// A setting does not take a value.
    #[error("{knob} does not take `{value}`: expected {expected}")]
    Value {
        /// Its name.
        knob: String,
        /// What was given.
        value: String,
        /// What it takes.
        expected: String,
    },
    /// Text that names no setting.
    #[error(
        "`{0}` is not a setting: expected NAME, NAME=LOW,HIGH, sysctl:NAME=LOW,HIGH or server:NAME=LOW,HIGH"
    )]
    Form(String),
    /// Text that cannot be the name of a sysctl.
    #[error(
        "`{0}` is not the name of a sysctl: expected letters, digits, `_` and `-`, with dots between"
    )]
    Path(String),
    /// Text that cannot stand between braces.
    #[error("`{0}` cannot be replaced in a template: expected letters, digits, `_` or `-`")]
    Placeholder(String),
    /// A setting that clients do not have.
    #[error("{0} can be changed for the server only")]
    NoClient(String),
    /// Two levels that are the same.
    #[error("both levels of {knob} are `{value}`")]
    SameLevels {
        /// Its name.
        knob: String,
        /// The value.
        value: String,
    },
    /// Settings that this kernel or scope does not have.
    #[error("settings that cannot be changed here: {}", list(.0))]
    Unavailable(Vec<Problem>),
    /// The kernel, or the program that sets it, said no.
    #[error("{knob} was not set to `{value}`: {reason}")]
    Refused {
        /// Its name.
        knob: String,
        /// What it was to be.
        value: String,
        /// What was said.
        reason: String,
    },
    /// The kernel kept another value, without an error.
    #[error("{knob} was set to `{value}`, and is `{kept}`")]
    Kept {
        /// Its name.
        knob: String,
        /// What it was to be.
        value: String,
        /// What it is.
        kept: String,
    },
    /// A setting that was not named when the session began.
    #[error("{0} is not part of this session, so its value is not saved")]
    NotPart(String),
    /// A placeholder that the template does not have.
    #[error("the template of the server's configuration has no `{{{0}}}`")]
    Template(String),
    /// Sockets of the server could not be reached.
    #[error("the sockets of process {process}: {reason}")]
    Sockets {
        /// Its number.
        process: u32,
        /// What is wrong.
        reason: String,
    },
    /// The keeper has ended, or says what nothing can be made of.
    #[error("the process that keeps the settings: {0}")]
    Keeper(String),
    /// What the keeper was asked to do has failed.
    #[error("{}", .0.join("; "))]
    Failed(Vec<String>),
    /// Settings of an earlier run that are not as they were.
    #[error("an earlier run left settings changed, and they could not be restored: {0}")]
    Leftover(String),
    /// A file or folder.
    #[error("{}: {error}", .path.display())]
    File {
        /// Where.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

fn hint(near: &[String]) -> String {
    if near.is_empty() {
        return String::new();
    }
    format!("; similar are {}", near.join(", "))
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
