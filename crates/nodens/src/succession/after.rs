//! What becomes of a process whose server has ended.

use super::{Meeting, reaper, spare};
use crate::events::Event;
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
}

/// What comes of it.
#[derive(Debug)]
pub(crate) enum Finished {
    /// The process ends.
    End(ExitCode),
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
    }
}
