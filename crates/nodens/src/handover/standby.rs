//! A process that has handed over and does not end, because its supervisor would start it again: a pod
//! that an update has not ended yet. It holds nothing. It serves again once no process serves: the
//! successor may have crashed, or been rolled back.

use super::Rendezvous;
use crate::events::Event;
use nodens_node::handover::Name;
use signal_hook::consts::{SIGINT, SIGQUIT, SIGTERM};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Time between two attempts to take the name.
const LOOK: Duration = Duration::from_millis(200);
/// How long the name has to be free. Where all processes are told to end, so is this one meanwhile; and
/// a server that has just started comes first.
const FREE: Duration = Duration::from_secs(1);

/// Waits until the process is told to end, or gives the name once nobody else has it. Without a name
/// it only waits.
pub(super) fn wait(rendezvous: Option<&Rendezvous>, events: &Receiver<Event>) -> Option<Name> {
    let mut free_since = None;
    let mut look_at = Instant::now() + LOOK;
    loop {
        let event = match rendezvous {
            Some(_) => events.recv_timeout(look_at.saturating_duration_since(Instant::now())),
            None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match event {
            Ok(Event::Signal(SIGTERM | SIGINT | SIGQUIT)) | Err(RecvTimeoutError::Disconnected) => {
                return None;
            }
            Ok(_) => continue,
            Err(RecvTimeoutError::Timeout) => look_at = Instant::now() + LOOK,
        }
        let taken = rendezvous.and_then(|rendezvous| rendezvous.take().ok());
        match (taken, free_since) {
            (Some(taken), Some(since)) if Instant::now() >= since + FREE => return Some(taken),
            // Given back at once: others come first.
            (Some(_), None) => free_since = Some(Instant::now()),
            (Some(_), Some(_)) => {}
            (None, _) => free_since = None,
        }
    }
}
