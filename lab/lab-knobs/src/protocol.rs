//! What a session and its keeper say to each other: a line of JSON each.

use crate::knob::{Kind, Knob};
use crate::network::Network;
use crate::place::Place;
use serde::{Deserialize, Serialize};

/// What the keeper is asked to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Take the lock without which no settings of the machine itself are changed.
    Machine,
    /// Make the namespaces.
    Make(Network),
    /// Find a setting and save its value.
    Save { knob: String, place: Place, device: Option<String>, target: Target },
    /// Give a saved setting another value.
    Set { knob: String, value: String },
    /// Forget a setting that is not to be changed after all; its value stays saved.
    Forget { knob: String },
    /// Give all settings their saved values.
    Restore,
    /// Restore, remove the namespaces, and end.
    End,
}

/// What it says to that, and once at its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// It is done.
    Done,
    /// The value that was saved.
    Saved(String),
    /// There is no such setting.
    Missing(String),
    /// The value was refused.
    Refused(String),
    /// The kernel kept another value.
    Kept(String),
    /// What went wrong.
    Failed(Vec<String>),
}

/// A kind of setting that the keeper changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Target {
    Sysctl { path: String },
    Device { file: String },
    Queues { queue: String, file: String },
    Qdisc,
    Route { attribute: String },
    Irq,
    Governor,
}

impl Target {
    /// None for what the server has, and not the kernel.
    pub(crate) fn of(knob: &Knob) -> Option<Self> {
        Some(match &knob.kind {
            Kind::Sysctl { path } => Self::Sysctl { path: path.to_string() },
            Kind::Device { file } => Self::Device { file: (*file).to_owned() },
            Kind::Queues { queue, file } => {
                Self::Queues { queue: (*queue).to_owned(), file: (*file).to_owned() }
            }
            Kind::Qdisc => Self::Qdisc,
            Kind::Route { attribute } => Self::Route { attribute: (*attribute).to_owned() },
            Kind::Irq => Self::Irq,
            Kind::Governor => Self::Governor,
            Kind::Listener(_) | Kind::Server { .. } => return None,
        })
    }
}
