//! What becomes of a process whose server has ended.

use super::{Meeting, reaper, spare};
use crate::events::Event;
use nodens_core::log::Level;
use nodens_node::handover::Name;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender};

/// What a process does after its server has ended.
#[derive(Clone, Debug)]
pub(crate) enum After {
    /// Ends.
    Exit,
    /// Stays for as long as servers that descend from it run.
    Reap,
    /// Stays until it is told to end, because whoever watches it would start it again. If there is
    /// nobody with that name any more, it serves again.
    Wait(Option<Meeting>),
    /// Stays as well, but cannot serve again: workers hang in it, which may hold locks. If there is nobody
    /// with that name any more, it ends with a failure: whoever watches it starts it anew.
    WaitToFail(Meeting),
}

impl After {
    /// The same after the end of a server of which the workers `stuck` are left.
    pub(super) fn with_stuck(self, stuck: &[usize]) -> Self {
        match self {
            Self::Wait(Some(meeting)) if !stuck.is_empty() => Self::WaitToFail(meeting),
            // One that stays for its children is what their supervisor watches.
            after => after,
        }
    }

    /// What is said about it, to a process that `is_told` to end or not.
    pub(super) fn text(&self, is_told: bool) -> Option<(Level, String)> {
        let until = "idle until told to end";
        match self {
            Self::Wait(_) | Self::WaitToFail(_) if is_told => None,
            Self::Wait(Some(Meeting { name, .. })) => {
                let text = format!("{until}, or until no process serves as {name:?}");
                Some((Level::Info, text))
            }
            Self::WaitToFail(Meeting { name, .. }) => {
                let text = format!(
                    "{until}; exits for a restart once no process serves as {name:?}, because workers are stuck"
                );
                Some((Level::Warning, text))
            }
            Self::Wait(None) => Some((Level::Info, until.to_owned())),
            Self::Exit | Self::Reap => None,
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
    after: After,
    code: ExitCode,
    sender: &Sender<Event>,
    events: &Receiver<Event>,
) -> Finished {
    match after {
        After::Exit => Finished::End(code),
        After::Reap => Finished::End(reaper::reap(sender.clone(), events)),
        After::Wait(meeting) => spare::wait(meeting.as_ref(), events)
            .map_or(Finished::End(ExitCode::SUCCESS), Finished::Again),
        After::WaitToFail(meeting) => match spare::wait(Some(&meeting), events) {
            None => Finished::End(ExitCode::SUCCESS),
            // The name is free again with the end of this process.
            Some(_) => Finished::Fail(format!(
                "no process serves as {:?}, and this process failed to end all its workers, which are stuck: exiting for a restart",
                meeting.name
            )),
        },
    }
}
