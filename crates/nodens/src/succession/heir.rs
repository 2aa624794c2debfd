//! The thread of a successor that speaks to its predecessor while the main thread serves.

use super::meeting::Meeting;
use super::steward::{Begun, Request};
use super::{LATE_PATIENCE, PAUSE_PATIENCE};
use crate::events::Event;
use nodens_core::Shared;
use nodens_core::log::Level;
use nodens_net::Adopter;
use nodens_node::handover::{Error, Inheritance, Name, Trial};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Sender, sync_channel};
use std::time::{Duration, Instant};

/// How long the name of a predecessor that is gone may still be taken, and how often it is looked.
const NAME_PATIENCE: Duration = Duration::from_millis(500);
const NAME_ROUND: Duration = Duration::from_millis(5);

/// What it needs.
pub(super) struct Heir {
    pub(super) kept: Vec<SocketAddr>,
    pub(super) adopter: Adopter,
    pub(super) meeting: Option<Meeting>,
    pub(super) trial: Duration,
    pub(super) tell: Sender<Request>,
    pub(super) events: Sender<Event>,
    pub(super) shared: Arc<Shared>,
}

impl Heir {
    /// Takes over. A predecessor that says that it resumes has the last word; without one this process
    /// serves as if it were the first.
    pub(super) fn take_over(mut self, inheritance: Inheritance) {
        let trial = inheritance.rehearse(self.trial).and_then(|()| inheritance.commit(&self.kept));
        match trial.and_then(|trial| Ok((trial.paused(PAUSE_PATIENCE)?, trial))) {
            Ok((Some(named), trial)) => {
                let goodbye = trial.goodbye().ok();
                self.begin(Begun { named, goodbye, name: None });
                self.stay(trial);
            }
            Ok((None, trial)) => self.serve_beside(trial),
            Err(error) => match self.name_after(error) {
                Ok(name) => {
                    self.begin(Begun { name, ..Begun::default() });
                    self.tell(Request::Alone(Err(Error::Gone)));
                }
                Err(why) => self.tell(Request::End(why)),
            },
        }
    }

    /// The predecessor is stopped, or hangs. It has the addresses still, and what is asked there waits
    /// in sockets that are ours too.
    fn serve_beside(&mut self, trial: Trial) {
        let text = "the running process does not answer, taking questions beside it";
        self.shared.sink.line(Level::Error, "handover", text.to_owned());
        self.begin(Begun::default());
        // However long that takes: two processes that both went on alone would take the sockets
        // from each other, which are the same, when the first of them ends.
        let heard = loop {
            if let Some(heard) = trial.paused(LATE_PATIENCE).transpose() {
                break heard;
            }
        };
        match heard {
            Ok(named) => {
                let goodbye = trial.goodbye().ok();
                self.tell(Request::Inherit(Begun { named, goodbye, name: None }));
                self.stay(trial);
            }
            Err(error) => match self.name_after(error) {
                Ok(name) => {
                    self.tell(Request::Inherit(Begun { name, ..Begun::default() }));
                    self.tell(Request::Alone(Err(Error::Gone)));
                }
                Err(why) => self.tell(Request::End(why)),
            },
        }
    }

    /// Waits until the predecessor has left.
    fn stay(&mut self, trial: Trial) {
        let outcome = trial.stay(|connection| self.adopter.adopt(connection));
        self.tell(match outcome {
            Err(Error::Refused(why)) => Request::End(why),
            outcome => Request::Alone(outcome),
        });
    }

    /// The name, after a predecessor that is gone; or why this process has to end.
    fn name_after(&self, error: Error) -> Result<Option<Name>, String> {
        if !matches!(error, Error::Gone) {
            return Err(error.to_string());
        }
        let Some(meeting) = &self.meeting else { return Ok(None) };
        let until = Instant::now() + NAME_PATIENCE;
        loop {
            match meeting.take() {
                // A process that dies closes one descriptor after the other.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    if Instant::now() >= until {
                        let text =
                            "the process that ran before is gone, and another one has its name";
                        return Err(text.to_owned());
                    }
                    std::thread::sleep(NAME_ROUND);
                }
                taken => return Ok(taken.ok()),
            }
        }
    }

    fn begin(&self, begun: Begun) {
        let (done, is_done) = sync_channel(1);
        self.tell(Request::Begin(done, begun));
        _ = is_done.recv();
    }

    fn tell(&self, request: Request) {
        _ = self.tell.send(request);
        _ = self.events.send(Event::Handover);
    }
}
