//! A process that has handed over and does not end, because whoever watches it would start it again:
//! a pod that an update has not ended yet. It holds nothing and does nothing, but for one thing: if
//! nobody serves any more, it does. The successor may have crashed, or been taken back.

use super::Rendezvous;
use crate::events::Event;
use nodens_node::handover::Name;
use signal_hook::consts::{SIGINT, SIGQUIT, SIGTERM};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often it is seen whether anybody has the name.
const LOOK: Duration = Duration::from_millis(200);
/// For how long nobody may have it. Where all are told to end, this process is told as well
/// meanwhile; and a server that has just begun comes first.
const NOBODY: Duration = Duration::from_secs(1);

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
            (Some(taken), Some(since)) if Instant::now() >= since + NOBODY => return Some(taken),
            // Given back at once: others come first.
            (Some(_), None) => free_since = Some(Instant::now()),
            (Some(_), Some(_)) => {}
            (None, _) => free_since = None,
        }
    }
}
