//! What becomes of a process whose server has ended.

use super::{Rendezvous, standby, subreaper};
use crate::events::Event;
use nodens_core::log::Level;
use nodens_node::handover::Name;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender};

/// What a process does after its server has ended.
#[derive(Clone, Debug)]
pub(crate) enum AtEnd {
    /// Ends.
    Exit,
    /// Stays for as long as servers that descend from it run.
    WaitForChildren,
    /// Stays until it is told to end, because its supervisor would start it again. Serves again once no
    /// process has that name.
    Standby(Option<Rendezvous>),
    /// Stays as well, but cannot serve again: stuck workers in it may hold locks. Ends with a failure once
    /// no process has that name, so that its supervisor starts it anew.
    StandbyToFail(Rendezvous),
}

impl AtEnd {
    /// The same after the end of a server of which the workers `stuck` are left.
    pub(super) fn with_stuck(self, stuck: &[usize]) -> Self {
        match self {
            Self::Standby(Some(rendezvous)) if !stuck.is_empty() => Self::StandbyToFail(rendezvous),
            // One that stays for its children is what their supervisor watches.
            at_end => at_end,
        }
    }

    /// What is said about it, to a process that `is_told` to end or not.
    pub(super) fn text(&self, is_told: bool) -> Option<(Level, String)> {
        let until = "idle until told to end";
        match self {
            Self::Standby(_) | Self::StandbyToFail(_) if is_told => None,
            Self::Standby(Some(Rendezvous { name, .. })) => {
                let text = format!("{until}, or until no process serves as {name:?}");
                Some((Level::Info, text))
            }
            Self::StandbyToFail(Rendezvous { name, .. }) => {
                let text = format!(
                    "{until}; exits for a restart once no process serves as {name:?}, because workers are stuck"
                );
                Some((Level::Warning, text))
            }
            Self::Standby(None) => Some((Level::Info, until.to_owned())),
            Self::Exit | Self::WaitForChildren => None,
        }
    }
}

/// What comes of it.
#[derive(Debug)]
pub(crate) enum Finished {
    /// The process ends.
    End(ExitCode),
    /// The process ends with a failure, of which this is to be said.
    Fail(String),
    /// The name is ours, and a server is to be started.
    Again(Name),
}

/// Does it. Signals have come as `events` all along, so that none is lost.
pub(crate) fn finish(
    at_end: AtEnd,
    code: ExitCode,
    sender: &Sender<Event>,
    events: &Receiver<Event>,
) -> Finished {
    match at_end {
        AtEnd::Exit => Finished::End(code),
        AtEnd::WaitForChildren => {
            Finished::End(subreaper::wait_for_children(sender.clone(), events))
        }
        AtEnd::Standby(rendezvous) => standby::wait(rendezvous.as_ref(), events)
            .map_or(Finished::End(ExitCode::SUCCESS), Finished::Again),
        AtEnd::StandbyToFail(rendezvous) => match standby::wait(Some(&rendezvous), events) {
            None => Finished::End(ExitCode::SUCCESS),
            // The name is free again with the end of this process.
            Some(_) => Finished::Fail(format!(
                "no process serves as {:?}, and this process failed to end all its workers, which are stuck: exiting for a restart",
                rendezvous.name
            )),
        },
    }
}
