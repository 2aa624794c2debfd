//! Waits during a start. Signals end them, and so does the end of a predecessor: this process has its
//! sockets early and reads them only at the end, so without it no process would read them.

use super::{ClaimError, Inherited};
use crate::events::{Deferred, Event};
use nodens_core::Shared;
use signal_hook::consts::{SIGINT, SIGQUIT, SIGTERM};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often it is seen whether the predecessor is gone.
const ROUND: Duration = Duration::from_millis(50);

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// Time is over, or something came.
    On,
    /// The predecessor is gone, just now: this process continues as if it were the first.
    Alone,
    /// This process has to end.
    Ended,
}

/// What a process waits with that has not begun to serve.
pub(crate) struct Waiting<'w> {
    events: &'w Receiver<Event>,
    /// What came meanwhile, but for a predecessor's end.
    pub(crate) deferred: Deferred,
    /// What a predecessor passed on.
    pub(crate) inherited: Inherited,
    shared: Arc<Shared>,
}

impl<'w> Waiting<'w> {
    pub(crate) fn new(
        events: &'w Receiver<Event>,
        deferred: Deferred,
        inherited: Inherited,
        shared: &Arc<Shared>,
    ) -> Self {
        Self { events, deferred, inherited, shared: shared.clone() }
    }

    /// Waits for `time`, or until something comes.
    pub(crate) fn pause(&mut self, time: Duration) -> Waited {
        let until = Instant::now() + time;
        loop {
            if self.inherited.let_go(&self.shared.sink) {
                return if self.inherited.is_refused() { Waited::Ended } else { Waited::Alone };
            }
            let left = until.saturating_duration_since(Instant::now());
            let round = if self.inherited.is_some() { left.min(ROUND) } else { left };
            match self.events.recv_timeout(round) {
                Ok(event) => {
                    self.deferred.push(event);
                    let ends = matches!(event, Event::Signal(SIGTERM | SIGINT | SIGQUIT));
                    return if ends { Waited::Ended } else { Waited::On };
                }
                Err(RecvTimeoutError::Timeout) if round == left => return Waited::On,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Waited::Ended,
            }
        }
    }

    /// Fills the cache from that of the predecessor; false if a signal ends the wait for it.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(crate) fn warm(&mut self) -> Result<bool, ClaimError> {
        let now = nodens_net::clock::now();
        self.inherited.warm(&self.shared, now, self.events, &mut self.deferred)
    }
}
