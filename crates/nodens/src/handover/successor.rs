//! The thread of a successor that talks to its predecessor while the main thread serves.

use super::predecessor::{Request, TakenOver};
use super::rendezvous::{Rendezvous, name_after};
use super::{EndReason, LATE_PATIENCE, PAUSE_PATIENCE};
use crate::events::Event;
use nodens_core::Shared;
use nodens_core::log::Level;
use nodens_net::{Adopter, ListenerAddress};
use nodens_node::handover::{Error, Takeover, Trial};
use std::sync::Arc;
use std::sync::mpsc::{Sender, sync_channel};
use std::time::Duration;

/// What it needs.
pub(super) struct SuccessorThread {
    pub(super) kept: Vec<ListenerAddress>,
    pub(super) adopter: Adopter,
    pub(super) rendezvous: Option<Rendezvous>,
    pub(super) trial: Duration,
    pub(super) tell: Sender<Request>,
    pub(super) events: Sender<Event>,
    pub(super) shared: Arc<Shared>,
}

impl SuccessorThread {
    /// Takes over. A predecessor that says that it resumes has the last word; without one this process
    /// serves as if it were the first.
    pub(super) fn take_over(mut self, takeover: Takeover) {
        let (predecessor, _) = takeover.predecessor();
        let trial = takeover.rehearse(self.trial).and_then(|()| takeover.commit(&self.kept));
        match trial.and_then(|trial| Ok((trial.paused(PAUSE_PATIENCE)?, trial))) {
            Ok((Some(named), trial)) => {
                let end_notice = trial.end_notice().ok();
                self.serve(TakenOver { named, end_notice, name: None });
                self.stay(trial);
            }
            Ok((None, trial)) => self.serve_beside(trial, predecessor),
            Err(error) => self.serve_alone(predecessor, error, |taken| self.serve(taken)),
        }
    }

    /// Serves as the first process if the predecessor is gone, and ends if it may still serve.
    fn serve_alone(&self, predecessor: u32, error: Error, take: impl FnOnce(TakenOver)) {
        match name_after(self.rendezvous.as_ref(), predecessor, error) {
            Ok(name) => {
                take(TakenOver { name, ..TakenOver::default() });
                self.tell(Request::Alone(Err(Error::Gone)));
            }
            Err(why) => self.tell(Request::End(why)),
        }
    }

    /// The predecessor is stopped, or hangs. It has the addresses still, and what is asked there waits
    /// in sockets that are ours too.
    fn serve_beside(&mut self, trial: Trial, predecessor: u32) {
        let text = "the running process timed out, taking over queries beside it";
        self.shared.sink.line(Level::Error, "handover", text.to_owned());
        self.serve(TakenOver::default());
        match until_heard(|| trial.paused(LATE_PATIENCE)) {
            Ok(named) => {
                let end_notice = trial.end_notice().ok();
                self.tell(Request::TakeLate(TakenOver { named, end_notice, name: None }));
                self.stay(trial);
            }
            Err(error) => {
                self.serve_alone(predecessor, error, |taken| self.tell(Request::TakeLate(taken)));
            }
        }
    }

    /// Waits until the predecessor has left.
    fn stay(&mut self, trial: Trial) {
        let outcome = trial.stay(|connection| self.adopter.adopt(connection));
        self.tell(match outcome {
            Err(Error::Refused(why)) => Request::End(EndReason::Resumed(why)),
            outcome => Request::Alone(outcome),
        });
    }

    fn serve(&self, taken: TakenOver) {
        let (done, is_done) = sync_channel(1);
        self.tell(Request::Serve(done, taken));
        _ = is_done.recv();
    }

    fn tell(&self, request: Request) {
        _ = self.tell.send(request);
        _ = self.events.send(Event::Handover);
    }
}

/// Waits for the word of a predecessor that takes its time, however long that is: two processes that both
/// went on alone would take the sockets from each other, which are the same, when the first of them ends.
fn until_heard<T>(mut hear: impl FnMut() -> Result<Option<T>, Error>) -> Result<T, Error> {
    loop {
        if let Some(heard) = hear().transpose() {
            return heard;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_beside_a_predecessor_that_is_stopped_waits_for_its_word_however_long_that_takes() {
        let mut silent = 1000;
        let mut late = || {
            silent -= 1;
            Ok((silent == 0).then_some("paused"))
        };
        assert_eq!(until_heard(&mut late).unwrap(), "paused");
        assert_eq!(silent, 0);
        let mut silent = 3;
        let gone = until_heard(|| {
            silent -= 1;
            if silent == 0 { Err(Error::Gone) } else { Ok(None::<()>) }
        });
        assert!(matches!(gone, Err(Error::Gone)));
    }
}
