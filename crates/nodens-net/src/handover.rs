//! What passes from one process to its successor: listening sockets with what waits in them.
//!
//! Both processes have the same sockets for a while, and each datagram and each connection goes to
//! one of them. So nothing is lost as long as one of the two takes what arrives, and whoever has
//! taken a question answers it.

use crate::event_loop::{Command, Exported};
use crate::listeners::InheritedListener;
use crate::runtime::Runtime;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// How long a worker may take to answer; one that takes longer hangs.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Workers that did not answer in time.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("worker {0} does not answer")]
pub struct Unresponsive(pub usize);

impl Runtime {
    /// The sockets that listen, once more, for a successor.
    ///
    /// # Errors
    ///
    /// A worker that hangs cannot say which are its own.
    pub fn export(&self) -> Result<Vec<InheritedListener>, Unresponsive> {
        let workers = self.ask_all(Command::Export)?;
        let mut exported: Vec<_> = workers.into_iter().map(Vec::into_iter).collect();
        let listener = |open: &crate::runtime::Open| InheritedListener {
            address: open.address,
            pairs: Vec::new(),
        };
        let mut listeners: Vec<_> = self.listeners.iter().map(listener).collect();
        // One of each worker in turn, so that the successor's workers get those of their CPUs.
        loop {
            let round: Vec<Exported> = exported.iter_mut().filter_map(Iterator::next).collect();
            if round.is_empty() {
                return Ok(listeners);
            }
            for Exported { listener, udp, tcp } in round {
                let place = self.listeners.iter().position(|open| open.id == listener);
                if let Some(listener) = place.and_then(|place| listeners.get_mut(place)) {
                    listener.pairs.push((udp, tcp));
                }
            }
        }
    }

    /// Takes no more questions from listeners; what arrives stays in the sockets. Connections go
    /// on as before.
    ///
    /// # Errors
    ///
    /// A worker that hangs may go on taking questions when it comes back.
    pub fn pause(&self) -> Result<(), Unresponsive> {
        self.ask_all(|done| Command::Pause(true, done)).map(drop)
    }

    /// Takes questions from listeners, again or for the first time.
    ///
    /// # Errors
    ///
    /// A worker that hangs takes its questions when it comes back.
    pub fn resume(&mut self) -> Result<(), Unresponsive> {
        self.ask_all(|done| Command::Pause(false, done)).map(drop)
    }

    /// Opens the sockets that were not inherited, once nobody else will go on with those that
    /// were.
    pub fn settle(&mut self) {
        self.complete();
    }

    fn ask_all<T>(
        &self,
        command: impl Fn(SyncSender<T>) -> Command,
    ) -> Result<Vec<T>, Unresponsive> {
        let ask = |worker: usize| -> Receiver<T> {
            let (reply, replies) = sync_channel(1);
            if let Some(thread) = self.workers.get(worker) {
                // A worker that is gone drops its end, which is noticed at once.
                _ = thread.commands.send(command(reply));
                self.wake(worker);
            }
            replies
        };
        let asked: Vec<_> = (0..self.workers.len()).map(ask).collect();
        let until = Instant::now() + ANSWER_TIMEOUT;
        let answer = |(worker, replies): (usize, Receiver<T>)| {
            let left = until.saturating_duration_since(Instant::now());
            replies.recv_timeout(left).map_err(|_| Unresponsive(worker))
        };
        asked.into_iter().enumerate().map(answer).collect()
    }
}
